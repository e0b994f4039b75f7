"""A conversation and its options as the request of OpenAI's chat completions.

Of the sampling parameters only those are sent that were asked for: the rest is the server's choice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from gemmachat.conversation import Conversation, Message, ToolCall
from gemmachat.generation import UNREADABLE
from gemmachat.sampling import SamplingParams

if TYPE_CHECKING:
    from gemmachat.dialogue import Tools
    from gemmachat.generation import GenerationOptions

_OTHER_NAMES = {"repeat_penalty": "repetition_penalty"}  # llama-server's and vLLM's
_UNREADABLE = "unreadable_call"
_UNSENT = ("grammar", "logprobs")


def request(
    model: str,
    conversation: Conversation,
    options: GenerationOptions,
    tools: Tools | None,
) -> dict[str, Any]:
    """Return the body of a request."""
    body: dict[str, Any] = {
        "model": model,
        "messages": list(_messages(conversation)),
        "stream": True,
        "stream_options": {"include_usage": True},
        **_sampling(options.sampling, options.given),
    }
    if options.max_tokens is not None:
        body["max_tokens"] = options.max_tokens
    if options.stop:
        body["stop"] = list(options.stop)
    if options.think or "think" in options.given:
        body["chat_template_kwargs"] = {"enable_thinking": options.think}
    if tools is not None and tools.declarations:
        body["tools"] = [{"type": "function", "function": each} for each in tools.declarations]
    return body


def _sampling(sampling: SamplingParams, given: AbstractSet[str]) -> dict[str, Any]:
    sent: dict[str, Any] = {}
    for field in fields(SamplingParams):
        value = getattr(sampling, field.name)
        if field.name in _UNSENT or (value == field.default and field.name not in given):
            continue
        if field.name == "logit_bias":
            # JSON knows no infinity; -100 is what the API calls a ban.
            value = {str(token): max(bias, -100.0) for token, bias in value}
        sent[field.name] = value
        if field.name in _OTHER_NAMES:
            sent[_OTHER_NAMES[field.name]] = value
    return sent


def _messages(conversation: Conversation) -> Iterator[dict[str, Any]]:
    calls = 0
    for message in conversation.messages:
        if message.role != "model":
            yield {"role": message.role, "content": message.text}
            continue
        made = message.tool_calls
        names = [f"call_{calls + number}" for number in range(len(made))]
        calls += len(made)
        yield _assistant(message, dict(zip(names, made, strict=True)))
        for name, call in zip(names, made, strict=True):
            yield {"role": "tool", "tool_call_id": name, "content": _text(call.result)}


def _assistant(message: Message, calls: dict[str, ToolCall]) -> dict[str, Any]:
    said: dict[str, Any] = {"role": "assistant", "content": message.text}
    if calls:
        said["tool_calls"] = [
            {
                "id": name,
                "type": "function",
                "function": {"name": _name(call), "arguments": json.dumps(dict(call.arguments))},
            }
            for name, call in calls.items()
        ]
    return said


def _name(call: ToolCall) -> str:
    """The name of a tool; servers take no blanks in it."""
    return _UNREADABLE if call.name == UNREADABLE else call.name


def _text(result: Any) -> str:
    return result if isinstance(result, str) else json.dumps(result)
