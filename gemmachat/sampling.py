"""Sampling parameters: what the user asked for, checked once, never changed."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from numbers import Real
from typing import Any

from gemmachat.errors import UsageError

MAX_SEED = 2**64 - 1


def whole_number(name: str, value: Any) -> int:
    """Return `value` as an int, be it Python's or numpy's; raises `UsageError` on anything else."""
    try:
        return operator.index(value)
    except TypeError:
        raise UsageError(f"{name} must be a whole number, not {value!r:.40}") from None


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is drawn from the target's logits.

    The filters apply in the order temperature, top-k, top-p, min-p. The defaults are those that
    Gemma 4's model card recommends. Raises `UsageError` on a value outside its range.
    """

    temperature: float = 1.0
    """0 is greedy: always the most likely token."""
    top_k: int = 64
    """Keep the k most likely tokens; 0 keeps all."""
    top_p: float = 0.95
    """Keep the smallest set of most likely tokens that holds this much probability; 1 keeps all."""
    min_p: float = 0.0
    """Drop tokens less likely than this fraction of the most likely one."""
    seed: int | None = None
    """The same seed gives the same text on the same machine; None draws a fresh one."""

    def __post_init__(self) -> None:
        for name in ("temperature", "top_p", "min_p"):
            value = getattr(self, name)
            if not isinstance(value, Real):
                raise UsageError(f"{name} must be a number, not {value!r:.40}")
        for name in ("top_k", "seed"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name))
        if not (math.isfinite(self.temperature) and 0.0 <= self.temperature <= 100.0):
            raise UsageError(f"temperature must be between 0 and 100, not {self.temperature:g}")
        if not 0 <= self.top_k <= 2**31 - 1:
            raise UsageError(f"top-k must be 0 (off) or a positive number, not {self.top_k}")
        if not 0.0 < self.top_p <= 1.0:
            raise UsageError(f"top-p must be above 0 and at most 1, not {self.top_p:g}")
        if not 0.0 <= self.min_p <= 1.0:
            raise UsageError(f"min-p must be between 0 and 1, not {self.min_p:g}")
        if self.seed is not None and not 0 <= self.seed <= MAX_SEED:
            raise UsageError(f"seed must be between 0 and {MAX_SEED}, not {self.seed}")
