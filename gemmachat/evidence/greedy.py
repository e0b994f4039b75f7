"""Greedy answers, drafted and not drafted, token for token."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from gemmachat.evidence.answers import Answer, Examiner, TestPrompt
from gemmachat.sampling import SamplingParams

if TYPE_CHECKING:
    from gemmachat.evidence.answers import Verdict

DRAFT_LENGTHS = (1, 2, 3, 4, 7)
MAX_TOKENS = 32  # of one answer
SHOWN = 3  # differences, in the readable report


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


@dataclass(frozen=True, slots=True)
class GreedyIdentity:
    """Every draft length against no drafting, in one mode."""

    exact: bool
    outcomes: tuple[DraftOutcome, ...]

    @property
    def name(self) -> str:
        """Key in the report."""
        return "greedy_identity" if self.exact else "greedy_default_mode"

    @property
    def verdict(self) -> Verdict:
        """Exact mode promises the same texts, and without a draft they are no evidence.

        The default mode promises a law, which passes of another width may round differently.
        """
        if not self.exact:
            return "reported"
        held = all(each.identical == each.texts and each.drafted for each in self.outcomes)
        return "passed" if held else "failed"

    def lines(self) -> list[str]:
        """A line for the texts, in exact mode one for the drafts, and the first differences."""
        mode = "exact mode" if self.exact else "default mode, near-ties may part"
        cells = "".join(f"{f'{each.identical}/{each.texts}':>8}" for each in self.outcomes)
        lines = [f"  {mode:<33}{cells}   {self.verdict}"]
        if not self.exact:
            return lines
        heads = "".join(f"{each.draft:>8}" for each in self.outcomes)
        shares = "".join(f"{_share(each.accepted, each.drafted):>8}" for each in self.outcomes)
        differences = [(each.draft, which) for each in self.outcomes for which in each.differences]
        return [
            "greedy texts identical to undrafted ones",
            f"  {'tokens drafted at a time':<33}{heads}",
            f"  {'of them accepted':<33}{shares}",
            *lines,
            *(
                f"    draft {draft} differs at token {which.position}: {which.kind}, "
                f"{which.prompt!r:.45}"
                for draft, which in differences[:SHOWN]
            ),
            *([f"    and {len(differences) - SHOWN} more"] if len(differences) > SHOWN else []),
        ]

    def as_dict(self) -> dict[str, object]:
        """The outcome of each draft length."""
        return {"verdict": self.verdict, "outcomes": [asdict(each) for each in self.outcomes]}


def check_greedy(
    examiner: Examiner, prompts: tuple[TestPrompt, ...]
) -> tuple[GreedyIdentity, GreedyIdentity]:
    """Compare the texts in exact mode and in the default mode.

    Exact mode gets as many texts as it answers without drafting in the time allowed, the default
    mode, which promises less, half of them.
    """
    deadline = time.monotonic() + examiner.effort.greedy_s
    prompts = prompts[: examiner.effort.texts]
    expected = _answers(examiner, prompts, 0, exact=True, deadline=deadline)
    prompts = prompts[: len(expected)]
    exact = _compare(examiner, prompts, expected, exact=True)
    prompts = prompts[: (len(prompts) + 1) // 2]
    usual = _answers(examiner, prompts, 0, exact=False)
    return exact, _compare(examiner, prompts, usual, exact=False)


def _compare(
    examiner: Examiner, prompts: tuple[TestPrompt, ...], expected: list[Answer], *, exact: bool
) -> GreedyIdentity:
    outcomes = []
    for draft in DRAFT_LENGTHS:
        answers = _answers(examiner, prompts, draft, exact=exact)
        differences = tuple(
            Difference(prompt.kind, prompt.text, _first_difference(ours.tokens, theirs.tokens))
            for prompt, ours, theirs in zip(prompts, answers, expected, strict=True)
            if ours.tokens != theirs.tokens
        )
        outcomes.append(
            DraftOutcome(
                draft=draft,
                texts=len(prompts),
                identical=len(prompts) - len(differences),
                drafted=sum(answer.drafted for answer in answers),
                accepted=sum(answer.accepted for answer in answers),
                differences=differences,
            )
        )
    return GreedyIdentity(exact, tuple(outcomes))


def _answers(
    examiner: Examiner,
    prompts: tuple[TestPrompt, ...],
    draft: int,
    *,
    exact: bool,
    deadline: float | None = None,
) -> list[Answer]:
    # A session of its own for each draft length: the texts then follow each other, and reuse each
    # other's cache, in the same way.
    mode = "exact" if exact else "default"
    what = f"greedy, {mode} mode, {f'draft {draft}' if draft else 'no draft'}"
    greedy = SamplingParams(temperature=0.0)
    answers: list[Answer] = []
    with examiner.session(exact=exact) as session:
        for number, prompt in enumerate(prompts, 1):
            if answers and deadline is not None and time.monotonic() > deadline:
                break
            examiner.progress(f"{what}: text {number}/{len(prompts)}")
            answers.append(
                examiner.ask(session, prompt.text, greedy, draft=draft, max_tokens=MAX_TOKENS)
            )
    return answers


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "none"


def _first_difference(ours: tuple[int, ...], theirs: tuple[int, ...]) -> int:
    pairs = zip(ours, theirs, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))
