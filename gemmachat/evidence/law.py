"""Sampled answers: their first three tokens must have one joint law, drafted or not."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

from gemmachat.evidence.significance import Homogeneity, Key, g_test
from gemmachat.sampling import SamplingParams

if TYPE_CHECKING:
    from gemmachat.evidence.answers import Examiner, Verdict
    from gemmachat.session import Session

LENGTH = 3  # tokens
FALSE_ALARMS = 5e-4  # how often the tests of a healthy pair may fail, all together
MIN_CELLS = 5  # fewer compared frequencies are hardly a law
_TURN = 10  # answers of one side before the other side's
_SEEDS = 10**6  # between two streams of seeds

WORDS = 'root ::= word (" " word)*\nword ::= [a-z]+'


@dataclass(frozen=True, slots=True)
class Setting:
    """A way to sample, and how many tokens to draft."""

    label: str
    sampling: SamplingParams
    draft: int


SETTINGS = (
    Setting("temperature 1, top-k 64, top-p 0.95", SamplingParams(), 3),
    Setting("temperature 0.6, top-k 64, top-p 0.95", SamplingParams(temperature=0.6), 2),
    Setting("temperature 1, min-p 0.05 alone", SamplingParams(top_k=0, top_p=1.0, min_p=0.05), 3),
    Setting(
        "repeat 1.3, presence 0.5, frequency 0.2",
        SamplingParams(repeat_penalty=1.3, presence_penalty=0.5, frequency_penalty=0.2),
        3,
    ),
    Setting("grammar: words of a to z", SamplingParams(grammar=WORDS), 3),
    Setting(
        "temperature 1.3, typical-p 0.9, 3 tokens min",
        SamplingParams(temperature=1.3, top_k=0, top_p=1.0, typical_p=0.9, min_tokens=3),
        7,
    ),
)


@dataclass(slots=True)
class Samples:
    """What one setting has given so far, by prompt."""

    setting: Setting
    plain: list[Counter[Key]]
    drafted: list[Counter[Key]]
    n: int = 0
    """Answers for each prompt and side."""
    n_drafted: int = 0
    """Tokens drafted."""
    seeds: list[tuple[count[int], count[int]]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SettingOutcome:
    """The test of one setting. `p_adjusted` is for the number of tests (Bonferroni)."""

    label: str
    draft: int
    samples: int
    """Answers with drafting, and as many without."""
    triples: int
    """Different ones."""
    test: Homogeneity
    p_adjusted: float
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class SameLaw:
    """Every setting's test."""

    outcomes: tuple[SettingOutcome, ...]

    @property
    def name(self) -> str:
        """Key in the report."""
        return "same_law"

    @property
    def verdict(self) -> Verdict:
        """Failed if one is; with too few samples if one has."""
        verdicts = {outcome.verdict for outcome in self.outcomes}
        order: tuple[Verdict, ...] = ("failed", "too few samples")
        return next((verdict for verdict in order if verdict in verdicts), "passed")

    def lines(self) -> list[str]:
        """A table."""
        return [
            f"first {LENGTH} sampled tokens, drafted against not drafted, G test "
            f"(fails below p = {FALSE_ALARMS / max(self._tests(), 1):.1e})",
            f"  {'setting':<45}draft samples triples cells       p",
            *(
                f"  {each.label:<45}{each.draft:>5}{each.samples:>8,}{each.triples:>8,}"
                f"{each.test.cells:>6,}{_shown(each):>8}   {each.verdict}"
                for each in self.outcomes
            ),
        ]

    def as_dict(self) -> dict[str, object]:
        """Every setting's figures."""
        return {
            "verdict": self.verdict,
            "false_alarms": FALSE_ALARMS,
            "tests": self._tests(),
            "outcomes": [asdict(outcome) for outcome in self.outcomes],
        }

    def _tests(self) -> int:
        return sum(outcome.verdict != "too few samples" for outcome in self.outcomes)


def _shown(outcome: SettingOutcome) -> str:
    if outcome.verdict == "too few samples":
        return "-"
    p = outcome.test.p
    return f"{p:.3f}" if p >= 1e-3 else f"{p:.0e}"


def check_law(examiner: Examiner, prompts: tuple[str, ...]) -> SameLaw:
    """Sample every setting as often as time allows, and test.

    How many samples there are depends on the clock, never on what they are, so that looking at
    them once in the end is a fair test.
    """
    effort = examiner.effort
    collected = [_empty(number, setting, len(prompts)) for number, setting in enumerate(SETTINGS)]
    with examiner.session() as plain, examiner.session() as drafted:
        started = time.monotonic()
        sides = (plain, drafted)
        for n in effort.samples:
            done = collected[-1].n
            spent = time.monotonic() - started
            if done and spent * n / done > effort.samples_s:
                break
            for number, samples in enumerate(collected, 1):
                examiner.progress(f"sampled, setting {number}/{len(SETTINGS)}: {n} answers each")
                deadline = None if done else started + effort.first_samples_s
                _extend(examiner, sides, samples, prompts, n, deadline)
            if any(samples.n < n for samples in collected):
                break
    return judge(collected, effort.samples[0])


def _empty(number: int, setting: Setting, n_prompts: int) -> Samples:
    def stream(prompt: int, side: int) -> count[int]:
        return count(((number * n_prompts + prompt) * 2 + side) * _SEEDS)

    return Samples(
        setting,
        plain=[Counter() for _ in range(n_prompts)],
        drafted=[Counter() for _ in range(n_prompts)],
        seeds=[(stream(prompt, 0), stream(prompt, 1)) for prompt in range(n_prompts)],
    )


def _extend(
    examiner: Examiner,
    sides: tuple[Session, Session],
    samples: Samples,
    prompts: tuple[str, ...],
    n: int,
    deadline: float | None,
) -> None:
    """Sample until there are `n` answers for each prompt and side, or none where it would be late.

    The prompts go one after the other, each with its cache, and the sides take turns.
    """
    started = time.monotonic()
    start = samples.n
    for number, text in enumerate(prompts):
        prompt = examiner.prompt(text)
        for begin in range(start, n, _TURN):
            done = (number * (n - start) + begin - start) / (len(prompts) * (n - start))
            if deadline is not None and _late(started, done, deadline):
                return
            for _ in range(min(_TURN, n - begin)):
                for side, session in enumerate(sides):
                    _sample(session, prompt, samples, number, side)
    samples.n = n


def _late(started: float, done: float, deadline: float) -> bool:
    """Whether what is `done`, a share, foretells an end after the deadline."""
    now = time.monotonic()
    return now > deadline or (done > 0.0 and started + (now - started) / done > deadline)


def _sample(session: Session, prompt: list[int], samples: Samples, number: int, side: int) -> None:
    seed = next(samples.seeds[number][side])
    sampling = replace(samples.setting.sampling, seed=seed)
    draft = samples.setting.draft
    stream = session.generate(
        prompt,
        sampling,
        draft=draft if side else "off",
        # The first three tokens must not know of a limit: it would shorten their drafts.
        max_tokens=LENGTH + draft if side else LENGTH,
    )
    tokens: list[int] = []
    with closing(stream):
        for event in stream:
            if event.token is not None:
                tokens.append(event.token)
            if len(tokens) == LENGTH:
                break
    (samples.drafted if side else samples.plain)[number][tuple(tokens)] += 1
    if side:
        samples.n_drafted += session.stats().drafted


def judge(collected: list[Samples], fewest: int) -> SameLaw:
    """Test every setting with at least `fewest` samples a prompt and side."""
    tests = [g_test(list(zip(each.plain, each.drafted, strict=True))) for each in collected]
    enough = [
        each.n >= fewest and each.n_drafted > 0 and test.cells >= MIN_CELLS and test.freedom > 0
        for each, test in zip(collected, tests, strict=True)
    ]
    outcomes = []
    for each, test, counts in zip(collected, tests, enough, strict=True):
        adjusted = min(test.p * sum(enough), 1.0)
        decided: Verdict = "failed" if adjusted < FALSE_ALARMS else "passed"
        outcomes.append(
            SettingOutcome(
                label=each.setting.label,
                draft=each.setting.draft,
                samples=sum(counter.total() for counter in each.drafted),
                triples=sum(
                    len(one.keys() | two.keys())
                    for one, two in zip(each.plain, each.drafted, strict=True)
                ),
                test=test,
                p_adjusted=adjusted,
                verdict=decided if counts else "too few samples",
            )
        )
    return SameLaw(tuple(outcomes))
