"""Evidence on this machine that drafting does not change what the model says.

A self-test is a list of checks; a report holds the outcome of each. So far there is one: greedy
texts in exact mode, drafted and not drafted, token for token.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gemmachat.prompt import Message, PromptFormat
from gemmachat.sampling import SamplingParams

if TYPE_CHECKING:
    from gemmachat.engine import Engine

DRAFT_LENGTHS = (1, 2, 3, 4, 7)
MAX_TOKENS = 32  # of one answer
CONTEXT = 1024  # tokens; holds every prompt and its answer

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TestPrompt:
    """One built-in prompt and what kind of text it asks for."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a drafted text first left the undrafted one, counted in generated tokens."""

    kind: str
    prompt: str
    position: int


@dataclass(frozen=True, slots=True)
class DraftOutcome:
    """What one draft length did to all texts."""

    draft: int
    texts: int
    identical: int
    drafted: int
    accepted: int
    differences: tuple[Difference, ...]

    @property
    def passed(self) -> bool:
        """Whether all texts agree; without a single draft that would be no evidence."""
        return self.identical == self.texts and self.drafted > 0


class Check(Protocol):
    """The outcome of one check."""

    @property
    def name(self) -> str:
        """Key in the report."""

    @property
    def passed(self) -> bool:
        """Whether the evidence is in favour."""

    def lines(self) -> list[str]:
        """The outcome for a reader."""

    def as_dict(self) -> dict[str, object]:
        """The outcome for a program."""


@dataclass(frozen=True, slots=True)
class GreedyIdentity:
    """Greedy answers in exact mode: every draft length against no drafting."""

    outcomes: tuple[DraftOutcome, ...]
    name: str = "greedy_identity"

    @property
    def passed(self) -> bool:
        """Whether every draft length gave the same tokens in every text."""
        return all(outcome.passed for outcome in self.outcomes)

    def lines(self) -> list[str]:
        """One line for each draft length, and one for each text that differs."""
        lines = ["greedy answers in exact mode, drafted against not drafted:"]
        for outcome in self.outcomes:
            lines.append(
                f"  draft {outcome.draft}: {outcome.identical} of {outcome.texts} texts identical, "
                f"{outcome.accepted} of {outcome.drafted} drafted tokens accepted"
            )
            lines += [
                f"    differs at token {difference.position}: "
                f"{difference.kind}, {difference.prompt!r}"
                for difference in outcome.differences
            ]
        return lines

    def as_dict(self) -> dict[str, object]:
        """The outcome of each draft length."""
        return {"passed": self.passed, "outcomes": [asdict(outcome) for outcome in self.outcomes]}


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a self-test."""

    model: str
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    def lines(self) -> list[str]:
        """The report for a reader."""
        verdict = "passed" if self.passed else "FAILED"
        lines = [line for check in self.checks for line in check.lines()]
        return [*lines, f"self-test of {self.model}: {verdict}"]

    def as_dict(self) -> dict[str, object]:
        """The report for a program."""
        checks = {check.name: check.as_dict() for check in self.checks}
        return {"model": self.model, "passed": self.passed, "checks": checks}


def run_selftest(engine: Engine, model: str, progress: Progress) -> Report:
    """Run every check on a loaded pair; `progress` is told how far it is, line by line."""
    return Report(model, (check_greedy_identity(engine, load_prompts(), progress),))


def load_prompts() -> tuple[TestPrompt, ...]:
    """Return the built-in prompts."""
    path = Path(__file__).parent / "prompts" / "selftest.json"
    kinds: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8"))
    return tuple(TestPrompt(kind, text) for kind, texts in kinds.items() for text in texts)


def check_greedy_identity(
    engine: Engine, prompts: tuple[TestPrompt, ...], progress: Progress
) -> GreedyIdentity:
    """Answer all prompts without drafting and with each draft length, and compare the tokens."""
    expected, _, _ = _answers(engine, prompts, 0, progress)
    outcomes = []
    for draft in DRAFT_LENGTHS:
        texts, drafted, accepted = _answers(engine, prompts, draft, progress)
        differences = tuple(
            Difference(prompt.kind, prompt.text, _first_difference(ours, theirs))
            for prompt, ours, theirs in zip(prompts, texts, expected, strict=True)
            if ours != theirs
        )
        outcomes.append(
            DraftOutcome(
                draft=draft,
                texts=len(prompts),
                identical=len(prompts) - len(differences),
                drafted=drafted,
                accepted=accepted,
                differences=differences,
            )
        )
    return GreedyIdentity(tuple(outcomes))


def _answers(
    engine: Engine, prompts: tuple[TestPrompt, ...], draft: int, progress: Progress
) -> tuple[list[list[int]], int, int]:
    # A session of its own for each draft length: the texts then follow each other, and reuse each
    # other's cache, in the same way.
    chat_format = PromptFormat(engine.vocab, engine.chat_template)
    texts: list[list[int]] = []
    drafted = accepted = 0
    with engine.session(n_ctx=min(CONTEXT, engine.context_length), exact=True) as session:
        for number, prompt in enumerate(prompts, 1):
            progress(f"{f'draft {draft}' if draft else 'no draft'}: text {number}/{len(prompts)}")
            events = session.generate(
                chat_format.render([Message("user", prompt.text)]),
                SamplingParams(temperature=0.0),
                draft=draft or "off",
                max_tokens=MAX_TOKENS,
            )
            texts.append([event.token for event in events if event.token is not None])
            drafted += session.stats().drafted
            accepted += session.stats().accepted
    return texts, drafted, accepted


def _first_difference(ours: list[int], theirs: list[int]) -> int:
    pairs = zip(ours, theirs, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))
