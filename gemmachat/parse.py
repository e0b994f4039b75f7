r"""Streamed tokens to thought and answer.

A model that thinks writes `<|channel>thought\n...<channel|>` before its answer. The two marks are
control tokens and are told by id: the same spelling inside an answer is only text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple

from gemmachat.vocab import find_control

if TYPE_CHECKING:
    from gemmachat.vocab import Vocab

Part = Literal["thought", "answer"]

_CHANNEL_NAME = "thought\n"


class Piece(NamedTuple):
    """Some text and what it is part of."""

    part: Part
    text: str


class ChannelMarks(NamedTuple):
    """Ids of the tokens that open and close a channel; None where a vocabulary has none."""

    open: int | None
    close: int | None

    @classmethod
    def of(cls, vocab: Vocab) -> ChannelMarks:
        """Look the marks up in `vocab`."""
        return cls(find_control(vocab, "<|channel>"), find_control(vocab, "<channel|>"))


class Parser:
    """Splits one answer, token by token. A channel that is never closed lasts to the end."""

    def __init__(self, marks: ChannelMarks) -> None:
        self._marks = marks
        self._part: Part = "answer"
        self._name: str | None = None  # what may yet turn out to be the channel's name

    def feed(self, token: int | None, text: str) -> list[Piece]:
        """Return the pieces that a token and the text it completed add: none, one or two."""
        pieces = self._add(text)
        if token is not None and token == self._marks.open:
            self._part, self._name = "thought", ""
        elif token is not None and token == self._marks.close:
            pieces += self.flush()
            self._part = "answer"
        return pieces

    def flush(self) -> list[Piece]:
        """Return what was held back because it looked like the channel's name."""
        name, self._name = self._name, None
        if not name or name.strip() == _CHANNEL_NAME.strip():
            return []
        return [Piece("thought", name)]

    def _add(self, text: str) -> list[Piece]:
        if self._name is not None:
            text = self._name + text
            if _CHANNEL_NAME.startswith(text) and text != _CHANNEL_NAME:
                self._name = text
                return []
            self._name = None
            text = text.removeprefix(_CHANNEL_NAME)
        return [Piece(self._part, text)] if text else []


def without_thoughts(tokens: Iterable[int], marks: ChannelMarks) -> list[int]:
    """Return `tokens` without their channels, as the chat template strips them from history.

    An opening mark without its close takes all that follows with it; a lone close is dropped.
    """
    kept: list[int] = []
    inside = False
    for token in tokens:
        if token == marks.open:
            inside = True
        elif token == marks.close:
            inside = False
        elif not inside:
            kept.append(token)
    return kept
