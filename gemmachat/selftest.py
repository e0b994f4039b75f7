"""Evidence on this machine that drafting does not change what the model says.

A self-test is a list of checks (`gemmachat.evidence`); a report holds the outcome of each.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gemmachat.evidence.answers import Check, Effort, Examiner, Progress, load_prompts
from gemmachat.evidence.constrained import check_constrained
from gemmachat.evidence.greedy import check_greedy
from gemmachat.evidence.law import check_law

if TYPE_CHECKING:
    from gemmachat.engine import Engine

QUIET = "too little was seen to tell: run the self-test again on a quiet machine"


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a self-test."""

    model: str
    checks: tuple[Check, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether no check failed and none is undecided: no evidence is no good evidence."""
        return not self.undecided and all(check.verdict != "failed" for check in self.checks)

    @property
    def undecided(self) -> tuple[str, ...]:
        """Names of the checks that had too few samples to mean anything."""
        return tuple(check.name for check in self.checks if check.verdict == "too few samples")

    def lines(self) -> list[str]:
        """The report for a reader, on one screen."""
        lines = [line for check in self.checks for line in check.lines()]
        lines.append(f"self-test of {self.model}, {self.seconds:.0f} s: {self._conclusion()}")
        return [*lines, QUIET] if self.undecided else lines

    def as_dict(self) -> dict[str, object]:
        """The report for a program."""
        return {
            "model": self.model,
            "passed": self.passed,
            "undecided": self.undecided,
            "seconds": self.seconds,
            "checks": {check.name: check.as_dict() for check in self.checks},
        }

    def _conclusion(self) -> str:
        if any(check.verdict == "failed" for check in self.checks):
            return "FAILED"
        if self.undecided:
            return f"UNDECIDED, too few samples for {', '.join(self.undecided)}"
        return "passed"


def run_selftest(
    engine: Engine, model: str, progress: Progress, *, effort: Effort | None = None
) -> Report:
    """Run every check on a loaded pair; `progress` is told how far it is, line by line."""
    started = time.monotonic()
    prompts = load_prompts()
    examiner = Examiner(engine, progress, effort or Effort())
    checks: tuple[Check, ...] = (
        *check_greedy(examiner, prompts.greedy),
        check_law(examiner, prompts.sampled),
        check_constrained(examiner, prompts.constrained),
        examiner.ledger,
    )
    return Report(model, checks, time.monotonic() - started)
