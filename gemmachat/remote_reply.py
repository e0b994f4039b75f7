"""What an OpenAI-compatible server streams: text, thoughts, calls of tools, figures; not trusted.

Thoughts come as `reasoning_content` (llama-server, SGLang) or `reasoning` (vLLM, OpenRouter).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gemmachat.errors import ContextFullError, GemmachatError, ServerError
from gemmachat.event_stream import SurrogatePairs
from gemmachat.parse import Piece

MAX_CALLS = 64
_MAX_ARGUMENTS = 1 << 20  # characters
_DONE = "[DONE]"
_NOTHING: Mapping[str, Any] = {}


@dataclass(slots=True)
class RemoteCall:
    """A call of a tool as it grows; `arguments` is JSON, once it is complete."""

    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class RemoteReply:
    """One streamed reply. `finish_reason` is None until the server has given one.

    `without_key` takes the key out of what an error quotes.
    """

    without_key: Callable[[str], str]
    finish_reason: str | None = None
    calls: list[RemoteCall] = field(default_factory=list)
    usage: Mapping[str, Any] = field(default_factory=dict)
    timings: Mapping[str, Any] = field(default_factory=dict)
    done: bool = False
    _answer: SurrogatePairs = field(default_factory=SurrogatePairs)
    _thought: SurrogatePairs = field(default_factory=SurrogatePairs)

    def feed(self, data: str) -> Iterator[Piece]:
        """Yield the pieces of text that an event adds.

        Raises `ServerError`, or `ContextFullError`, where the event reports an error or is none of
        a chat completion.
        """
        if data.strip() == _DONE:
            self.done = True
            return
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            said = self.without_key(data)[:80]
            raise ServerError(f"the server sends an event that is no JSON: {said!r}") from None
        if not isinstance(event, dict):
            said = self.without_key(data)[:80]
            raise ServerError(f"the server sends an event of an unknown kind: {said!r}")
        if event.get("error"):
            raise self._reported(event["error"])
        self.usage = _mapping(event.get("usage")) or self.usage
        self.timings = _mapping(event.get("timings")) or self.timings
        choices = event.get("choices")
        choice = _mapping(choices[0]) if isinstance(choices, list) and choices else _NOTHING
        yield from self._choice(choice)

    def flush(self) -> Iterator[Piece]:
        """Yield what waited for the second half of a character."""
        yield from _pieces(self._thought.flush(), self._answer.flush())

    def _choice(self, choice: Mapping[str, Any]) -> Iterator[Piece]:
        delta = _mapping(choice.get("delta"))
        thought = _text(delta.get("reasoning_content")) or _text(delta.get("reasoning"))
        answer = _text(delta.get("content"))
        yield from _pieces(self._thought.feed(thought), self._answer.feed(answer))
        calls = delta.get("tool_calls")
        for place, part in enumerate(calls if isinstance(calls, list) else ()):
            if isinstance(part, dict):
                self._add_call(place, part)
        self.finish_reason = _text(choice.get("finish_reason")) or self.finish_reason

    def _add_call(self, place: int, part: Mapping[str, Any]) -> None:
        index = part.get("index", place)
        if not isinstance(index, int) or not 0 <= index < MAX_CALLS:
            raise ServerError(f"the server sends more than {MAX_CALLS} calls of tools at once")
        while len(self.calls) <= index:
            self.calls.append(RemoteCall())
        call, function = self.calls[index], _mapping(part.get("function"))
        call.name = _text(function.get("name")) or call.name
        call.arguments += _text(function.get("arguments"))
        if len(call.arguments) > _MAX_ARGUMENTS:
            raise ServerError(f"a call of a tool has more than {_MAX_ARGUMENTS} characters")

    def _reported(self, error: Any) -> GemmachatError:
        found = _mapping(error)
        message = self.without_key(_text(found.get("message")) or str(error))[:300]
        code, kind = _text(found.get("code")), _text(found.get("type"))
        if "context_length" in code or "context_size" in kind:
            return ContextFullError(f"the server reports: {message}")
        return ServerError(f"the server reports: {message}")


def count(values: Mapping[str, Any], name: str) -> int:
    """A number that a server reports, as a count; 0 where it does not."""
    return round(figure(values, name))


def figure(values: Mapping[str, Any], name: str) -> float:
    """A number that a server reports; 0 where it reports none that can be."""
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 <= value < 1e12 else 0.0


def _pieces(thought: str, answer: str) -> Iterator[Piece]:
    if thought:
        yield Piece("thought", thought)
    if answer:
        yield Piece("answer", answer)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else _NOTHING


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
