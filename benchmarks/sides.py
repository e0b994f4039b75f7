"""The two sides of a comparison: gemmachat's timeline and llama.cpp's own, driven alike.

Acceptance is by decree, as synthetic weights accept nothing: each draft counts as accepted with a
given chance. How many tokens a round yields is then known by expectation, so that rates are
counted in expected tokens, without the noise of chance.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from llama_drafting import LlamaDrafting

from gemmachat.bridge import check
from gemmachat.bridge_engine import EngineHandle
from gemmachat.bridge_session import SessionHandle
from gemmachat.native import library
from gemmachat.native_structs import MAX_WIDTH, NativeSampling, SessionParams

CARD = NativeSampling(temperature=1.0, top_k=64, top_p=0.95)


@dataclass(frozen=True)
class Answer:
    """Seconds until the first token and after it, and the expected tokens after it."""

    first_s: float
    decode_s: float
    tokens: float
    rounds: list[tuple[int, float]]
    """The drafts and the seconds of every round."""

    @property
    def rate(self) -> float:
        """Tokens per second after the first."""
        return self.tokens / self.decode_s

    def typical_rate(self, typical_s: dict[int, float]) -> float:
        """Tokens per second if every round took what rounds with so many drafts typically take."""
        return self.tokens / sum(typical_s[n] for n, _ in self.rounds)

    def total_s(self, n_tokens: int) -> float:
        """Seconds of an answer of so many tokens, the prompt included."""
        return self.first_s + (n_tokens - 1) / self.rate


class Side(Protocol):
    """A timeline with a way to draft, so many tokens a round."""

    n_draft: int

    @property
    def pass_s(self) -> float:
        """Seconds of all passes since the prompt, their draws included."""

    def start(self, prompt: list[int]) -> None:
        """Compute the whole prompt and the first token."""

    def round(self, acceptance: float) -> int:
        """One round; how many drafts it verified."""

    def close(self) -> None:
        """Free what it holds."""


class Ours:
    """gemmachat, with so many drafts a round; -1: as the schedule decides.

    `complete`: prefill computes every layer.
    """

    def __init__(
        self,
        engine: EngineHandle,
        n_draft: int,
        *,
        n_ctx: int,
        threads: int,
        complete: bool = False,
    ) -> None:
        self.n_draft = n_draft
        params = SessionParams(n_ctx=n_ctx, n_threads=threads, no_early_exit=complete)
        self.session = SessionHandle(engine, params)

    @property
    def pass_s(self) -> float:
        """Seconds of all passes since the prompt, their draws included."""
        stats = self.session.stats()
        return stats.verify_s + stats.sample_s

    def start(self, prompt: list[int]) -> None:
        self.session.sync(prompt[:1])
        self.session.set_sampling(CARD)
        self.session.sync(prompt)
        self.session.step(0, 1)

    def round(self, acceptance: float) -> int:
        check(library().gc_session_set_synthetic_acceptance(self.session.pointer, acceptance))
        before = self.session.stats().drafted
        self.session.step(self.n_draft, MAX_WIDTH)
        return self.session.stats().drafted - before

    def close(self) -> None:
        self.session.free()


class Peer:
    """llama.cpp alone, with so many drafts a round."""

    def __init__(self, timeline: LlamaDrafting, n_draft: int) -> None:
        self._timeline, self.n_draft = timeline, n_draft
        self.pass_s = 0.0
        """Seconds of all passes since the prompt, their draws included."""

    def start(self, prompt: list[int]) -> None:
        self._timeline.prefill(prompt)
        self.pass_s = 0.0

    def round(self, acceptance: float) -> int:
        self._timeline.acceptance = acceptance
        draft_s, started = self._timeline.draft_s, time.perf_counter()
        self._timeline.round(self.n_draft)
        self.pass_s += time.perf_counter() - started - (self._timeline.draft_s - draft_s)
        return self.n_draft

    def close(self) -> None:
        """The timeline is its owner's."""


def answer(
    side: Side, prompt: list[int], n_tokens: float, acceptance: Callable[[float], float]
) -> Answer:
    """Answer a prompt with `n_tokens` expected tokens after the first.

    `acceptance` is the chance of a draft where so many tokens are there already.
    """
    started = time.perf_counter()
    side.start(prompt)
    first_s = time.perf_counter() - started
    tokens = 0.0
    rounds: list[tuple[int, float]] = []
    while tokens < n_tokens:
        chance = acceptance(tokens)
        started = time.perf_counter()
        n_drafts = side.round(chance)
        rounds.append((n_drafts, time.perf_counter() - started))
        tokens += expected(chance, n_drafts)
    return Answer(first_s, sum(seconds for _, seconds in rounds), tokens, rounds)


def typical_seconds(answers: list[Answer]) -> dict[int, float]:
    """Median seconds of the rounds of all answers, by their drafts."""
    by_drafts: dict[int, list[float]] = {}
    for one in answers:
        for n_drafts, seconds in one.rounds:
            by_drafts.setdefault(n_drafts, []).append(seconds)
    return {n: statistics.median(seconds) for n, seconds in by_drafts.items()}


def expected(chance: float, n_drafts: int) -> float:
    """Tokens that a round with so many drafts yields, by expectation."""
    return sum(chance**i for i in range(n_drafts + 1))
