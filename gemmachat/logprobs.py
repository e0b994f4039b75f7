"""Log-probabilities of a token and of those that could have stood in its place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gemmachat.native_structs import NativeLogprob
    from gemmachat.vocab import Vocab


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token and natural logs of its probability."""

    token: int
    logprob: float
    """Under the target's softmax at temperature 1, unfiltered."""
    final_logprob: float
    """Under the distribution that tokens are drawn from; -inf for a token outside of it."""

    def as_dict(self, vocab: Vocab) -> dict[str, Any]:
        """Return it for JSON, which knows no infinity: None stands for it."""
        final = self.final_logprob
        return {
            "token": self.token,
            "text": vocab.piece(self.token).decode("utf-8", "replace"),
            "logprob": self.logprob if math.isfinite(self.logprob) else None,
            "final_logprob": final if math.isfinite(final) else None,
        }


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """The chosen token and its best alternatives, most likely first."""

    chosen: Alternative
    top: tuple[Alternative, ...]
    """Best unfiltered."""
    final_top: tuple[Alternative, ...]
    """Best of those that could be drawn."""

    @classmethod
    def of(cls, native: Sequence[Sequence[NativeLogprob]]) -> TokenLogprobs:
        """Take in what `SessionHandle.logprobs` returned."""
        chosen, top, final = (
            tuple(Alternative(entry.token, entry.raw, entry.final) for entry in entries)
            for entries in native
        )
        return cls(chosen[0], top, final)

    def as_dict(self, vocab: Vocab) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            **self.chosen.as_dict(vocab),
            "top": [alternative.as_dict(vocab) for alternative in self.top],
            "final_top": [alternative.as_dict(vocab) for alternative in self.final_top],
        }
