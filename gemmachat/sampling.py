"""Sampling parameters: what the user asked for, checked once, never changed."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from numbers import Real
from typing import Any

from gemmachat.errors import UsageError

MAX_SEED = 2**64 - 1
MAX_INT32 = 2**31 - 1
MAX_BIAS = 1000.0
MAX_LOGPROBS = 20

_PENALTIES = ("presence_penalty", "frequency_penalty")


def whole_number(name: str, value: Any) -> int:
    """Return `value` as an int, be it Python's or numpy's; raises `UsageError` on anything else."""
    try:
        return operator.index(value)
    except TypeError:
        raise UsageError(f"{name} must be a whole number, not {value!r:.40}") from None


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is drawn from the target's logits.

    The order is that of Hugging Face's transformers: logit bias, repeat penalty, presence and
    frequency penalty, min-tokens, grammar, temperature, top-k, top-p, min-p, typical-p. The
    defaults are those that Gemma 4's model card recommends. Raises `UsageError` on a value outside
    its range.
    """

    temperature: float = 1.0
    """0 is greedy: always the most likely token."""
    top_k: int = 64
    """Keep the k most likely tokens; 0 keeps all."""
    top_p: float = 0.95
    """Keep the smallest set of most likely tokens that holds this much probability; 1 keeps all."""
    min_p: float = 0.0
    """Drop tokens less likely than this fraction of the most likely one."""
    typical_p: float = 1.0
    """Keep the tokens that surprise about as much as is usual, up to this much probability (Meister
    et al. 2022, arXiv 2202.00666); 1 keeps all."""
    seed: int | None = None
    """The same seed gives the same text on the same machine; None draws a fresh one."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    """Pairs of a token id and what is added to its logit; -inf bans the token."""
    repeat_penalty: float = 1.0
    """Above 1, makes what was said in the last `repeat_last_n` tokens less likely: divides positive
    logits, multiplies negative ones (Keskar et al. 2019, arXiv 1909.05858)."""
    repeat_last_n: int = 64
    """How far back, in prompt and answer, `repeat_penalty` looks; -1 is all the way."""
    presence_penalty: float = 0.0
    """Subtracted from the logit of every token that the answer holds."""
    frequency_penalty: float = 0.0
    """Subtracted from a token's logit for every time that the answer holds it."""
    min_tokens: int = 0
    """The answer cannot end before it has so many tokens."""
    grammar: str | None = None
    """A GBNF grammar, starting at `root`, that the answer must follow; a thought may precede it."""
    logprobs: int = 0
    """How many alternatives to report for every token, at most 20."""

    def __post_init__(self) -> None:
        self._check_types()
        if not (math.isfinite(self.temperature) and 0.0 <= self.temperature <= 100.0):
            raise UsageError(f"temperature must be between 0 and 100, not {self.temperature:g}")
        if not 0 <= self.top_k <= MAX_INT32:
            raise UsageError(f"top-k must be 0 (off) or a positive number, not {self.top_k}")
        if not 0.0 < self.top_p <= 1.0:
            raise UsageError(f"top-p must be above 0 and at most 1, not {self.top_p:g}")
        if not 0.0 <= self.min_p <= 1.0:
            raise UsageError(f"min-p must be between 0 and 1, not {self.min_p:g}")
        if not 0.0 < self.typical_p <= 1.0:
            raise UsageError(f"typical-p must be above 0 and at most 1, not {self.typical_p:g}")
        if self.seed is not None and not 0 <= self.seed <= MAX_SEED:
            raise UsageError(f"seed must be between 0 and {MAX_SEED}, not {self.seed}")
        if not 0 <= self.logprobs <= MAX_LOGPROBS:
            raise UsageError(f"logprobs must be between 0 and {MAX_LOGPROBS}, not {self.logprobs}")
        self._check_penalties()
        for pair in self.logit_bias:
            _check_bias(pair)
        if self.grammar is not None:
            _check_grammar(self.grammar)

    def _check_types(self) -> None:
        for name in ("temperature", "top_p", "min_p", "typical_p", "repeat_penalty", *_PENALTIES):
            value = getattr(self, name)
            if not isinstance(value, Real):
                raise UsageError(f"{name} must be a number, not {value!r:.40}")
        for name in ("top_k", "seed", "repeat_last_n", "min_tokens", "logprobs"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name))

    def _check_penalties(self) -> None:
        if not (math.isfinite(self.repeat_penalty) and 0.01 <= self.repeat_penalty <= 100.0):
            raise UsageError(
                f"repeat-penalty must be between 0.01 and 100, not {self.repeat_penalty:g}"
            )
        if not -1 <= self.repeat_last_n <= MAX_INT32:
            raise UsageError(f"repeat-last-n must be -1 (all) or more, not {self.repeat_last_n}")
        for name in _PENALTIES:
            value = getattr(self, name)
            if not -100.0 <= value <= 100.0:
                shown = name.replace("_", "-")
                raise UsageError(f"{shown} must be between -100 and 100, not {value:g}")
        if not 0 <= self.min_tokens <= MAX_INT32:
            raise UsageError(f"min-tokens must be 0 or more, not {self.min_tokens}")


def _check_grammar(grammar: Any) -> None:
    if not isinstance(grammar, str):
        raise UsageError(f"the grammar must be a text, not {grammar!r:.40}")
    if "\0" in grammar or not grammar.strip():
        raise UsageError("the grammar is empty or holds a NUL character")
    try:
        grammar.encode()
    except UnicodeEncodeError:
        raise UsageError("the grammar is not valid Unicode text") from None


def _check_bias(pair: Any) -> None:
    try:
        token, value = pair
    except (TypeError, ValueError):
        raise UsageError(f"a logit bias must be a token and a number, not {pair!r:.40}") from None
    if not 0 <= whole_number("the token of a logit bias", token) <= MAX_INT32:
        raise UsageError(f"there is no token {token} to bias")
    if not isinstance(value, Real) or not float(value) <= MAX_BIAS:
        raise UsageError(f"a logit bias must be a number up to {MAX_BIAS:g}, not {value!r:.40}")
