"""A conversation as plain data: what was said, thought and called, and how it is written down.

Nothing here knows a vocabulary or an engine. Model turns may carry the very token ids that were
generated; they mean something only to the vocabulary that they came from, so whoever takes a
conversation up again checks them against the text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from gemmachat.errors import UsageError

Role = Literal["system", "user", "model"]

ROLES: tuple[Role, ...] = ("system", "user", "model")
FORMAT = 1
_MAX_DEPTH = 50
_MAX_TOKEN = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool: its arguments and what it returned, JSON values both.

    An error is a result too: a text that says so.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    result: Any = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message.

    A model's turn is one message, or several in a row where it called tools: all but the last then
    end in calls.
    """

    role: Role
    text: str
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tokens: tuple[int, ...] | None = None
    """Of a model's message: all ids that were generated, thoughts, calls and end included."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages in order: at most one of the system, then questions, each with the model's turn."""

    messages: tuple[Message, ...] = ()

    @property
    def system(self) -> str | None:
        """The system prompt."""
        first = self.messages[0] if self.messages else None
        return first.text if first is not None and first.role == "system" else None

    def with_system(self, text: str | None) -> Conversation:
        """The same turns under another system prompt; a blank one is none."""
        rest = tuple(message for message in self.messages if message.role != "system")
        first = (Message("system", text),) if text and text.strip() else ()
        return Conversation(first + rest)

    def without_turns(self) -> Conversation:
        """What is left when all turns are forgotten: the system prompt."""
        return Conversation(self.messages[: self._first_turn()])

    def turns(self) -> list[tuple[Message, ...]]:
        """Every question together with the messages that answer it."""
        starts = [i for i, message in enumerate(self.messages) if message.role == "user"]
        ends = [*starts[1:], len(self.messages)]
        return [self.messages[start:end] for start, end in zip(starts, ends, strict=False)]

    def without_last_turn(self) -> tuple[Conversation, str | None]:
        """The conversation before its last question, and that question; None if there is none."""
        turns = self.turns()
        if not turns:
            return self, None
        kept = len(self.messages) - len(turns[-1])
        return Conversation(self.messages[:kept]), turns[-1][0].text

    def extended(self, *messages: Message) -> Conversation:
        """The conversation with more messages at its end."""
        return replace(self, messages=self.messages + messages)

    def as_dict(self) -> dict[str, Any]:
        """The conversation as JSON values."""
        return {"format": FORMAT, "messages": [_message_as_dict(each) for each in self.messages]}

    @classmethod
    def from_dict(cls, data: Any) -> Conversation:
        """Read what `as_dict` wrote; keys that nobody knows are skipped.

        Raises `UsageError` where it is of another shape, or of a later format.
        """
        if not isinstance(data, dict) or not isinstance(data.get("messages"), list):
            raise UsageError("this is no saved conversation: it has no list of messages")
        if data.get("format") != FORMAT:
            raise UsageError(
                f"the conversation has format {data.get('format')!r:.20}, and this version of "
                f"gemmachat reads format {FORMAT}: use the version that saved it"
            )
        messages = tuple(
            _read_message(f"message {number} of the conversation", each)
            for number, each in enumerate(data["messages"], 1)
        )
        _check_order(messages)
        return cls(messages)

    def _first_turn(self) -> int:
        return 0 if self.system is None else 1


def _message_as_dict(message: Message) -> dict[str, Any]:
    data: dict[str, Any] = {"role": message.role, "text": message.text}
    if message.thinking:
        data["thinking"] = message.thinking
    if message.tool_calls:
        data["tool_calls"] = [
            {"name": call.name, "arguments": dict(call.arguments), "result": call.result}
            for call in message.tool_calls
        ]
    if message.tokens is not None:
        data["tokens"] = list(message.tokens)
    return data


def _read_message(where: str, data: Any) -> Message:
    if not isinstance(data, dict) or data.get("role") not in ROLES:
        raise UsageError(f"{where} has none of the roles {', '.join(ROLES)}")
    calls, tokens = data.get("tool_calls", []), data.get("tokens")
    if not isinstance(calls, list):
        raise UsageError(f"{where} has tool calls that are no list")
    if data["role"] != "model" and (calls or tokens is not None):
        raise UsageError(f"{where} is not the model's, but holds calls or tokens")
    return Message(
        data["role"],
        _read_text(where, data.get("text")),
        _read_text(where, data.get("thinking", "")),
        tuple(_read_call(where, call) for call in calls),
        None if tokens is None else _read_tokens(where, tokens),
    )


def _read_text(where: str, text: Any) -> str:
    if not isinstance(text, str):
        raise UsageError(f"{where} has no text")
    return _unicode(text)


def _read_tokens(where: str, tokens: Any) -> tuple[int, ...]:
    if not isinstance(tokens, list) or not all(
        type(token) is int and 0 <= token <= _MAX_TOKEN for token in tokens
    ):
        raise UsageError(f"{where} has tokens that are no token ids")
    return tuple(tokens)


def _read_call(where: str, call: Any) -> ToolCall:
    if (
        not isinstance(call, dict)
        or not isinstance(call.get("name"), str)
        or not isinstance(call.get("arguments"), dict)
    ):
        raise UsageError(f"{where} has a tool call without a name or arguments")
    arguments, result = _unicode_json(call["arguments"]), _unicode_json(call.get("result"))
    if not is_json(arguments) or not is_json(result):
        raise UsageError(f"{where} has a tool call whose values are no JSON, or nested too deeply")
    return ToolCall(_unicode(call["name"]), arguments, result)


def _unicode(text: str) -> str:
    """The text without lone halves of surrogate pairs, which could not be tokenized."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unicode_json(value: Any, depth: int = 0) -> Any:
    """A JSON value whose texts are Unicode; what is nested too deeply stays as it is."""
    if isinstance(value, str):
        return _unicode(value)
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, list):
        return [_unicode_json(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {_unicode(key): _unicode_json(item, depth + 1) for key, item in value.items()}
    return value


def _check_order(messages: tuple[Message, ...]) -> None:
    """Only the first message is the system's, and the model never speaks before it is asked."""
    for number, message in enumerate(messages, 1):
        before = messages[number - 2].role if number > 1 else None
        if message.role == "system" and before is not None:
            raise UsageError(f"message {number} of the conversation is a second system prompt")
        if message.role == "model" and before in (None, "system"):
            raise UsageError(f"message {number} of the conversation answers no question")


def is_json(value: Any, depth: int = 0) -> bool:
    """Whether a value can be written as JSON, not nested too deeply, with text that is Unicode."""
    if depth > _MAX_DEPTH:
        return False
    if isinstance(value, str):
        return not any("\ud800" <= char <= "\udfff" for char in value)
    if value is None or isinstance(value, bool | int):
        return True
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list):
        return all(is_json(item, depth + 1) for item in value)
    return isinstance(value, dict) and all(
        isinstance(key, str) and is_json(key) and is_json(item, depth + 1)
        for key, item in value.items()
    )
