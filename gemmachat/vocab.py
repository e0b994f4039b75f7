"""Text to token ids and back."""

from __future__ import annotations

from typing import Protocol

from gemmachat.bridge_engine import EngineHandle
from gemmachat.errors import DamagedFileError, UsageError
from gemmachat.sampling import whole_number


class Vocab(Protocol):
    """Text to token ids and back."""

    @property
    def size(self) -> int:
        """Number of token ids."""

    def tokenize(self, text: str) -> list[int]:
        """Token ids of plain content; the spelling of a control token is text."""

    def piece(self, token: int) -> bytes:
        """The bytes of one token, none for a control token; raises `UsageError` if unknown."""

    def control(self, name: str) -> int:
        """Id of a control token by its exact spelling; raises `DamagedFileError` if absent."""

    def is_end(self, token: int) -> bool:
        """Whether the token ends the model's turn."""


def find_control(vocab: Vocab, name: str) -> int | None:
    """Id of a control token by its exact spelling; None if absent."""
    try:
        return vocab.control(name)
    except DamagedFileError:
        return None


class ModelVocab:
    """The vocabulary of a loaded target."""

    def __init__(self, handle: EngineHandle) -> None:
        self._handle = handle
        self._size = handle.vocab_size()
        self._pieces: dict[int, bytes] = {}
        self._ends: dict[int, bool] = {}

    @property
    def size(self) -> int:
        """Number of token ids."""
        return self._size

    def tokenize(self, text: str) -> list[int]:
        """Token ids of plain content; the spelling of a control token is text."""
        return self._handle.tokenize(text)

    def piece(self, token: int) -> bytes:
        """The bytes of one token, none for a control token."""
        piece = self._pieces.get(token)
        if piece is None:
            if not self._knows(token):
                raise UsageError(f"a token id must be between 0 and {self._size - 1}, not {token}")
            piece = self._pieces[token] = self._handle.piece(int(token))
        return piece

    def control(self, name: str) -> int:
        """Id of a control token by its exact spelling; raises `DamagedFileError` if absent."""
        token = self._handle.control_token(name)
        if token is None:
            raise DamagedFileError(f"the model's vocabulary has no control token {name}")
        return token

    def is_end(self, token: int) -> bool:
        """Whether the token ends the model's turn."""
        end = self._ends.get(token)
        if end is None:
            end = self._ends[token] = self._knows(token) and self._handle.is_end(int(token))
        return end

    def _knows(self, token: int) -> bool:
        return 0 <= whole_number("a token id", token) < self._size
