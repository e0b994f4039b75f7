"""Figures of a benchmark, computed from its runs: medians with their spread, ratios, agreement."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gemmachat.stats import Stats


@dataclass(frozen=True, slots=True)
class Run:
    """One answer of one side."""

    prompt: int
    """Which prompt it answers."""
    tokens: tuple[int, ...]
    gaps_s: tuple[float, ...]
    """Seconds between the arrivals of consecutive tokens. Those of a round arrive together."""
    stats: Stats


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some measurements, the least and the greatest."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread | None:
        """Return the spread of the values; None where there are none."""
        found = list(values)
        return cls(statistics.median(found), min(found), max(found)) if found else None


@dataclass(frozen=True, slots=True)
class Figures:
    """What the runs of one side have in common. Times in seconds, rates in tokens per second.

    A figure is None where no run has anything to measure, as decoding has not in an answer that
    ends with its first pass.
    """

    runs: int
    completion_tokens: int
    rounds: int
    """Target passes after prefill."""
    ttft_s: Spread | None
    prefill_tps: Spread | None
    decode_tps: Spread | None
    end_to_end_tps: Spread | None
    """Tokens of the answer per second of the whole run, prefill included."""
    gap_p50_s: float | None
    """Of the gaps between arrivals of tokens in all runs. Those of one round arrive together."""
    gap_p99_s: float | None
    mean_accepted_length: float
    """Tokens per target pass, over all runs."""
    drafted: int
    accepted: int
    accepted_by_position: tuple[float, ...]
    """Share of the drafts at each place of a round that were accepted, over all runs."""

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Figures:
        """Return the figures of some runs."""
        stats = [run.stats for run in runs]
        gaps = [gap for run in runs for gap in run.gaps_s]
        tokens = sum(each.completion_tokens for each in stats)
        rounds = sum(each.rounds for each in stats)
        return cls(
            runs=len(runs),
            completion_tokens=tokens,
            rounds=rounds,
            ttft_s=Spread.of(each.ttft_s for each in stats),
            prefill_tps=Spread.of(each.prefill_tps for each in stats if each.prefill_tps),
            decode_tps=Spread.of(each.decode_tps for each in stats if each.decode_tps),
            end_to_end_tps=Spread.of(end_to_end_tps(each) for each in stats),
            gap_p50_s=percentile(gaps, 50),
            gap_p99_s=percentile(gaps, 99),
            mean_accepted_length=tokens / rounds if rounds else 0.0,
            drafted=sum(each.drafted for each in stats),
            accepted=sum(each.accepted for each in stats),
            accepted_by_position=_accepted_by_position(stats),
        )

    def as_dict(self) -> dict[str, object]:
        """The figures by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Speedup:
    """How many times faster one side was than another, run by run."""

    decode: Spread | None
    end_to_end: Spread | None

    @classmethod
    def of(cls, base: Sequence[Run], other: Sequence[Run]) -> Speedup:
        """Compare runs that were taken in turn, pair by pair."""
        pairs = [(one.stats, two.stats) for one, two in zip(base, other, strict=True)]
        return cls(
            decode=Spread.of(
                two.decode_tps / one.decode_tps
                for one, two in pairs
                if one.decode_tps and two.decode_tps
            ),
            end_to_end=Spread.of(end_to_end_tps(two) / end_to_end_tps(one) for one, two in pairs),
        )


@dataclass(frozen=True, slots=True)
class Agreement:
    """How many prompts got the same greedy text with drafting as from the target alone."""

    prompts: int
    identical: int
    first_divergence: int | None
    """Place of the first token, from 0, at which a text parted; None where none did."""

    @classmethod
    def of(cls, alone: Sequence[Run], drafted: Sequence[Run]) -> Agreement:
        """Compare greedy runs pair by pair; a prompt agrees if all of its pairs do."""
        parted = [
            (_first_difference(one.tokens, two.tokens), one.prompt)
            for one, two in zip(alone, drafted, strict=True)
            if one.tokens != two.tokens
        ]
        prompts = len({run.prompt for run in alone})
        differing = len({prompt for _, prompt in parted})
        first = min((place for place, _ in parted), default=None)
        return cls(prompts, prompts - differing, first)


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Return the nearest-rank percentile: the least value that so many percent do not exceed."""
    if not values:
        return None
    return sorted(values)[max(math.ceil(len(values) * percent / 100), 1) - 1]


def end_to_end_tps(stats: Stats) -> float:
    """Tokens of an answer per second from the question to its end."""
    return stats.completion_tokens / stats.total_s if stats.total_s > 0 else 0.0


def _accepted_by_position(stats: Sequence[Stats]) -> tuple[float, ...]:
    drafted: Counter[int] = Counter()
    accepted: Counter[int] = Counter()
    for each in stats:
        shares = zip(each.accepted_by_position, each.drafted_by_position, strict=True)
        for place, (share, count) in enumerate(shares):
            drafted[place] += count
            accepted[place] += round(share * count)
    return tuple(accepted[place] / drafted[place] for place in sorted(drafted))


def _first_difference(ours: Sequence[int], theirs: Sequence[int]) -> int:
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(ours), len(theirs)))
