r"""Streamed tokens to thought, answer and tool calls.

A model that thinks writes `<|channel>thought\n...<channel|>` before its answer, and a call of a
tool stands between `<|tool_call>` and `<tool_call|>`. These marks are control tokens and are told
by id: the same spelling inside an answer is only text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from gemmachat.tool_calls import QUOTE

if TYPE_CHECKING:
    from gemmachat.vocab import Vocab

Part = Literal["thought", "answer", "tool"]

_CHANNEL_NAME = "thought"


class Piece(NamedTuple):
    """Some text and what it is part of; one of a tool is a call or its result, whole."""

    part: Part
    text: str


class Marks(NamedTuple):
    """Ids of the tokens that open and close channels and calls; None where there are none."""

    open: int | None
    close: int | None
    call_open: int | None = None
    call_close: int | None = None
    quote: int | None = None

    @classmethod
    def of(cls, vocab: Vocab) -> Marks:
        """Look the marks up in `vocab`."""
        from gemmachat.vocab import find_control

        spellings = ("<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", QUOTE)
        return cls(*(find_control(vocab, spelling) for spelling in spellings))


class Parser:
    """Splits one message of the model, token by token.

    A channel that is never closed lasts to the end or to a call; a call that is never closed is
    none.
    """

    def __init__(self, marks: Marks) -> None:
        self.calls: list[list[str]] = []
        """What stood between the marks of each call, as `tool_calls.read_call` takes it."""
        self._marks = marks
        self._part: Part = "answer"
        self._thinks = False
        self._name: str | None = None  # what may yet turn out to be the channel's name
        self._call: list[str] | None = None  # the call that is open

    @property
    def thinks(self) -> bool:
        """Whether a thought has begun, past the name of its channel, and goes on."""
        return self._thinks

    def feed(self, token: int | None, text: str) -> list[Piece]:
        """Return the pieces that a token and the text it completed add: none, one or two."""
        pieces = self._add(text)
        if token is None:
            return pieces
        if token == self._marks.open:
            pieces += self._leave()
            self._part, self._name = "thought", ""
        elif token == self._marks.close:
            pieces += self._leave()
        elif token == self._marks.call_open:
            pieces += self._leave()
            self._call = []
        elif token == self._marks.call_close and self._call is not None:
            self.calls.append(self._call)
            self._call = None
        elif token == self._marks.quote and self._call is not None:
            self._call.append(QUOTE)
        return pieces

    def flush(self) -> list[Piece]:
        """Return what was held back because it looked like the channel's name."""
        name, self._name = self._name, None
        if not name or name.strip() == _CHANNEL_NAME:
            return []
        return [Piece("thought", name)]

    def _leave(self) -> list[Piece]:
        """End the channel or the call that is open."""
        pieces = self.flush()
        self._call, self._thinks = None, False
        self._part = "answer"
        return pieces

    def _add(self, text: str) -> list[Piece]:
        if self._call is not None:
            self._call += text
            return []
        if self._name is not None:
            text = self._name + text
            if _CHANNEL_NAME.startswith(text):
                self._name = text
                return []
            self._name = None
            # A newline ends the name; some models put another blank there.
            name, after = text[: len(_CHANNEL_NAME)], text[len(_CHANNEL_NAME) :]
            text = after[1:] if name == _CHANNEL_NAME and after[0].isspace() else text
        self._thinks = self._thinks or (self._part == "thought" and bool(text))
        return [Piece(self._part, text)] if text else []


def without_thoughts(tokens: Iterable[int], marks: Marks) -> list[int]:
    """Return `tokens` without their channels, as the chat template strips them from history.

    An opening mark without its close takes all that follows with it, up to a call; a lone close is
    dropped.
    """
    kept: list[int] = []
    inside = False
    for token in tokens:
        if token == marks.open:
            inside = True
        elif token == marks.close:
            inside = False
        else:
            inside = inside and token != marks.call_open
            if not inside:
                kept.append(token)
    return kept


def spoken(
    tokens: Sequence[int], marks: Marks, is_end: Callable[[int], bool], *, with_thoughts: bool
) -> list[int]:
    """What of a generated message stays in history: no ends, and no call that was cut off."""
    said = list(tokens) if with_thoughts else without_thoughts(tokens, marks)
    while said and is_end(said[-1]):
        said.pop()
    for i in range(len(said) - 1, -1, -1):
        if said[i] == marks.call_close:
            break
        if said[i] == marks.call_open:
            return said[:i]
    return said
