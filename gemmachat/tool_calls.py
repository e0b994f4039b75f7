r"""Gemma 4's notation for tools: declarations, calls and responses, written and read.

A call is `<|tool_call>call:NAME{city:<|"|>Paris<|"|>,n:3,ok:true}<tool_call|>`. Strings stand
between two `<|"|>`, which is one control token, so that a string may hold any text: told by id, the
same spelling inside a string is only text. The notation is that of the chat templates in the
models' files; keys are sorted without regard to case, as there.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gemmachat.conversation import ToolCall


class Mark(str):
    """The spelling of a control token that is meant as one. Any other text is only text."""

    __slots__ = ()


QUOTE = Mark('<|"|>')
_MAX_DEPTH = 50
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_MAX_DIGITS = 1000  # of a number that is read as one
_WORDS: Mapping[str, Any] = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
}
_ENDS = frozenset(",}]")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class CallError(ValueError):
    """A call that cannot be read; `str()` says why, for the model."""


def sorted_items(value: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The pairs of a mapping in the order in which they are written."""
    return sorted(value.items(), key=lambda pair: pair[0].lower())


def joined(groups: Iterable[list[str]]) -> list[str]:
    """The parts of all groups, with commas between the groups."""
    return [part for i, group in enumerate(groups) for part in ([","] if i else []) + group]


def write_value(value: Any, *, quotes_keys: bool = False) -> list[str]:
    """A JSON value as text and marks; keys of objects are bare unless asked for otherwise."""
    if isinstance(value, str):
        return [QUOTE, value, QUOTE]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, Mapping):
        return ["{", *_write_pairs(value, quotes_keys), "}"]
    if isinstance(value, Sequence):
        return ["[", *joined(write_value(item, quotes_keys=quotes_keys) for item in value), "]"]
    return [str(value)]


def write_call(call: ToolCall) -> list[str]:
    """A call by the model, between its marks."""
    head = f"call:{call.name}{{"
    return [Mark("<|tool_call>"), head, *_write_pairs(call.arguments), "}", Mark("<tool_call|>")]


def write_response(call: ToolCall) -> list[str]:
    """What the call returned, between its marks."""
    pairs = call.result if isinstance(call.result, Mapping) else {"value": call.result}
    head = f"response:{call.name}{{"
    return [Mark("<|tool_response>"), head, *_write_pairs(pairs), "}", Mark("<tool_response|>")]


def read_call(body: Sequence[str]) -> ToolCall:
    """Read what stood between the marks of a call: single characters, and `QUOTE` for its token.

    Forgives what models get wrong: plain quotes around strings and keys, strings without any,
    blanks, a comma too many. Raises `CallError` where there is no sense in it.
    """
    return _Reader(body).call()


def with_error(call: ToolCall, sentence: str) -> ToolCall:
    """The call with what went wrong as its result."""
    return replace(call, result={"error": sentence})


def describe_call(call: ToolCall) -> str:
    """A call as a person reads it, on one line."""
    pairs = (f"{_name(name)}={_json(value)}" for name, value in call.arguments.items())
    return f"{_name(call.name)}({', '.join(pairs)})"


def describe_result(call: ToolCall) -> str:
    """What a call returned as a person reads it."""
    return call.result if isinstance(call.result, str) else _json(call.result)


def _name(text: str) -> str:
    """A name without quotes, in which nothing can end a line or stand for something else."""
    return _json(text)[1:-1]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _write_pairs(pairs: Mapping[str, Any], quotes_keys: bool = False) -> list[str]:
    return joined(
        [
            *([QUOTE, key, QUOTE] if quotes_keys else [key]),
            ":",
            *write_value(value, quotes_keys=quotes_keys),
        ]
        for key, value in sorted_items(pairs)
    )


class _Reader:
    """Recursive descent over the characters of one call."""

    def __init__(self, body: Sequence[str]) -> None:
        self._body = body
        self._at = 0

    def call(self) -> ToolCall:
        self._blanks()
        for expected in "call:":
            if self._next() != expected:
                raise CallError('a call must begin with "call:"')
        name = self._until("{").strip()
        if not name or not name.isprintable():
            raise CallError("a call must name a tool")
        arguments = self._pairs(0)
        self._blanks()
        if self._at < len(self._body):
            raise CallError("there is text after the arguments of the call")
        return ToolCall(name, arguments)

    def _pairs(self, depth: int) -> dict[str, Any]:
        """The rest of an object, whose brace is read."""
        pairs: dict[str, Any] = {}
        while not self._closed("}"):
            key = self._key()
            if key in pairs:
                raise CallError(f"the argument {key!r:.80} is given twice")
            pairs[key] = self._value(depth + 1)
            self._separator("}")
        return pairs

    def _items(self, depth: int) -> list[Any]:
        items: list[Any] = []
        while not self._closed("]"):
            items.append(self._value(depth + 1))
            self._separator("]")
        return items

    def _key(self) -> str:
        self._blanks()
        if self._peek() in (QUOTE, '"'):
            key = self._string(self._next())
            self._blanks()
            if self._next() != ":":
                raise CallError(f"there is no colon after the argument {key!r:.80}")
            return key
        return self._until(":").strip()

    def _value(self, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise CallError(f"arguments are nested more than {_MAX_DEPTH} deep")
        self._blanks()
        first = self._peek()
        if first in (QUOTE, '"'):
            return self._string(self._next())
        if first == "{":
            self._at += 1
            return self._pairs(depth)
        if first == "[":
            self._at += 1
            return self._items(depth)
        return self._word()

    def _string(self, quote: str) -> str:
        """The rest of a string. Plain quotes escape as JSON does; the model's own never do."""
        text: list[str] = []
        while (char := self._next()) != quote:
            if char == "\\" and quote == '"':
                char = self._escape()
            text.append(char)
        # Escaped halves of a surrogate pair become one character, lone ones a replacement.
        return "".join(text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def _escape(self) -> str:
        char = self._next()
        if char != "u":
            return _ESCAPES.get(char, char)
        digits = "".join(self._next() for _ in range(4))
        if not re.fullmatch("[0-9a-fA-F]{4}", digits):
            raise CallError("a string holds a damaged \\u escape")
        return chr(int(digits, 16))

    def _word(self) -> Any:
        start = self._at
        while self._peek() not in _ENDS:
            self._at += 1
        word = "".join(self._body[start : self._at]).strip()
        if not word:
            raise CallError("an argument has no value")
        if word in _WORDS:
            return _WORDS[word]
        number = _NUMBER.fullmatch(word)
        if number is None or len(word) > _MAX_DIGITS:
            return word
        if not (number[2] or number[3]):
            return int(word)
        value = float(word)
        return value if math.isfinite(value) else word  # JSON knows no infinity

    def _separator(self, closing: str) -> None:
        self._blanks()
        if self._peek() == ",":
            self._at += 1
        elif self._peek() != closing:
            raise CallError(f'there is no "," or "{closing}" after a value')

    def _closed(self, closing: str) -> bool:
        self._blanks()
        if self._peek() != closing:
            return False
        self._at += 1
        return True

    def _until(self, end: str) -> str:
        text: list[str] = []
        while (char := self._next()) != end:
            if char == QUOTE:
                raise CallError("there is a quote where a name should be")
            text.append(char)
        return "".join(text)

    def _blanks(self) -> None:
        while self._at < len(self._body) and self._body[self._at].isspace():
            self._at += 1

    def _peek(self) -> str:
        if self._at == len(self._body):
            raise CallError("the call ends too early")
        return self._body[self._at]

    def _next(self) -> str:
        char = self._peek()
        self._at += 1
        return char
