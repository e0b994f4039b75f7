"""An answer's figures must follow from its tokens.

Every round drafts some tokens, accepts the first few and draws one more from the target. So the
stream itself, in which each token says whether it was drafted, determines most of the figures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gemmachat.evidence.answers import Verdict
    from gemmachat.session import TokenEvent
    from gemmachat.stats import Stats

SHOWN = 3  # contradictions, in the readable report
_TOLERANCE = 1e-6


@dataclass(slots=True)
class Ledger:
    """The figures of all drafted answers, and every contradiction among them."""

    answers: int = 0
    tokens: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    cut: int = 0
    """Rounds that a drafted end of turn ended before the target's own token."""
    contradictions: list[str] = field(default_factory=list)

    def enter(self, events: Sequence[TokenEvent], stats: Stats, draft: int) -> None:
        """Take in a whole answer, drafted `draft` tokens at a time."""
        said = [event.from_draft for event in events if event.token is not None]
        self.answers += 1
        self.tokens += stats.completion_tokens
        self.rounds += stats.rounds
        self.drafted += stats.drafted
        self.accepted += stats.accepted
        self.cut += bool(said and said[-1])
        self.contradictions += [
            f"answer {self.answers}, draft {draft}: {what}"
            for what in contradictions(said, stats, draft)
        ]

    @property
    def name(self) -> str:
        """Key in the report."""
        return "counters"

    @property
    def verdict(self) -> Verdict:
        """Failed on any contradiction; without a draft there is nothing to add up."""
        if self.contradictions:
            return "failed"
        return "passed" if self.drafted else "too few samples"

    def lines(self) -> list[str]:
        """The sums in two lines, and the first contradictions."""
        more = len(self.contradictions) - SHOWN
        return [
            f"counters of {self.answers:,} drafted answers: {self.verdict}",
            f"  {self.drafted:,} drafted, {self.accepted:,} accepted; {self.tokens:,} tokens = "
            f"{self.accepted:,} accepted + {self.rounds:,} rounds - {self.cut:,} cut",
            *(f"  {line}"[:100] for line in self.contradictions[:SHOWN]),
            *([f"  and {more:,} more"] if more > 0 else []),
        ]

    def as_dict(self) -> dict[str, object]:
        """The sums and all contradictions."""
        return {
            "verdict": self.verdict,
            "answers": self.answers,
            "completion_tokens": self.tokens,
            "rounds": self.rounds,
            "drafted": self.drafted,
            "accepted": self.accepted,
            "cut_rounds": self.cut,
            "contradictions": self.contradictions,
        }


def contradictions(said: Sequence[bool], stats: Stats, draft: int) -> list[str]:
    """What is wrong with `stats`, given whether each token was drafted, at most `draft` a round."""
    runs = _accepted_by_round(said)
    tokens, accepted, rounds = len(said), sum(runs), len(runs)
    problems = []
    if stats.completion_tokens != tokens:
        problems.append(f"{stats.completion_tokens} tokens counted, {tokens} said")
    if stats.rounds != rounds:
        problems.append(f"{stats.rounds} rounds counted, {rounds} seen")
    if stats.accepted != accepted:
        problems.append(f"{stats.accepted} drafts accepted, {accepted} said")
    if not stats.accepted <= stats.drafted <= draft * stats.rounds:
        problems.append(
            f"{stats.drafted} drafted, {stats.accepted} accepted in {stats.rounds} rounds"
        )
    for name, value, part, whole in (
        ("mean accepted length", stats.mean_accepted_length, tokens, rounds),
        ("acceptance rate", stats.acceptance_rate, stats.accepted, stats.drafted),
    ):
        expected = part / whole if whole else 0.0
        if not math.isclose(value, expected, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
            problems.append(f"{name} {value:g} is not {part} / {whole}")
    return problems or _by_position(runs, stats, draft)


def _accepted_by_round(said: Sequence[bool]) -> list[int]:
    """How many drafts each round kept.

    Each ends with a token of the target, but for a last one that a drafted end of turn ended.
    """
    runs, run = [], 0
    for drafted in said:
        if drafted:
            run += 1
        else:
            runs.append(run)
            run = 0
    return [*runs, run] if run else runs


def _by_position(runs: list[int], stats: Stats, draft: int) -> list[str]:
    """Acceptance by position must be counts of this answer, and its drafts their sum."""
    shares = stats.accepted_by_position
    wrong = [f"accepted by position {', '.join(f'{share:.3f}' for share in shares)} cannot be"]
    if len(shares) > draft or max(runs, default=0) > len(shares):
        return wrong
    fewest = most = 0
    reached = len(runs)  # rounds that drafted as far as the position before
    for position, share in enumerate(shares):
        accepted = sum(run > position for run in runs)
        if accepted == 0:  # says nothing of how many were drafted
            if share != 0.0:
                return wrong
            fewest, most = fewest + 1, most + reached
            continue
        drafted = accepted / share if share > 0.0 else math.inf
        if not accepted <= drafted + _TOLERANCE <= reached + 2 * _TOLERANCE:
            return wrong
        reached = round(drafted)
        if not math.isclose(drafted, reached, rel_tol=_TOLERANCE):
            return wrong
        fewest, most = fewest + reached, most + reached
    return [] if fewest <= stats.drafted <= most else wrong
