"""What a benchmark does: every prompt answered by several sides in turn, A B A B, and timed.

A side is a way to answer: drafting off, drafting on, a fixed length, a number of threads. All sides
take turns within one repeat, so that what else happens on the machine meets all of them alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from gemmachat.bench_figures import Run, Spread
from gemmachat.bridge import CancelledError
from gemmachat.native_structs import MAX_DRAFT, MAX_WIDTH
from gemmachat.sampling import SamplingParams

if TYPE_CHECKING:
    from gemmachat.bench_prompts import PromptTokens
    from gemmachat.engine import Engine
    from gemmachat.session import DraftPolicy, Session
    from gemmachat.stats import Stats

WARM_UP_TOKENS = 32
STAIRCASE_TURNS = 15
WIDTHS = range(1, MAX_WIDTH + 1)

Progress = Callable[[str], None]


class Interrupted(Exception):  # noqa: N818 - no error
    """The user has stopped the benchmark."""


@dataclass(frozen=True, slots=True)
class Side:
    """One way to answer, and its name in the report."""

    name: str
    engine: Engine
    draft: DraftPolicy


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured."""

    sides: tuple[Side, ...]
    """The first is what the others are compared with."""
    prompts: tuple[PromptTokens, ...]
    temperatures: tuple[float, ...]
    repeats: int
    max_tokens: int
    n_ctx: int
    exact: bool
    seed: int | None
    """Of the first repeat, each adds 1. Without one drafting learns all along, as in a chat."""


@dataclass(frozen=True, slots=True)
class Case:
    """All runs of one kind of prompt at one temperature, by side and in the order taken."""

    kind: str
    temperature: float
    runs: tuple[list[Run], ...]


@dataclass(frozen=True, slots=True)
class Step:
    """What a target pass of some width costs."""

    width: int
    seconds: Spread | None
    relative: Spread | None
    """To a pass of one token in the same turn."""


@dataclass(slots=True)
class Measured:
    """What has been measured so far."""

    plan: Plan
    cases: list[Case] = field(default_factory=list)
    staircase: tuple[Step, ...] = ()
    head_recall: float | None = None
    """Share of the drafts for which the drafter's clusters held the likeliest token of all; None
    where it has none."""
    complete: bool = False


class Bench:
    """Runs a plan; `measured` holds what is done at any time."""

    def __init__(self, plan: Plan, progress: Progress) -> None:
        self.measured = Measured(plan)
        self._plan = plan
        self._progress = progress
        self._stopped = False
        # One for each engine, so that memory is that of a chat; emptied before every answer.
        self._sessions: dict[Engine, Session] = {}

    def stop(self) -> None:
        """End `run` within one pass. Any thread."""
        self._stopped = True
        for session in list(self._sessions.values()):
            session.cancel()

    def run(self) -> None:
        """Measure everything. After `stop` it returns early, with whole repeats only."""
        try:
            self._trace_recall()
            self._open()
            self._warm_up()
            # Cheap and needed to read all the rest, so it comes first.
            self.measured.staircase = self._staircase()
            self._answer_all()
            self.measured.complete = True
        except (Interrupted, CancelledError):
            pass
        finally:
            self._close()

    def _trace_recall(self) -> None:
        """Draft along a short answer to every prompt, in a session that is closed again."""
        engine = self._plan.sides[0].engine
        if not engine.has_drafter:
            return
        self._progress("clusters of the drafter's tokens")
        for side in self._plan.sides:
            while not side.engine.wait_for_clusters(0.1):
                self._go_on()
        sampling = SamplingParams(temperature=self._plan.temperatures[0])
        limit = min(WARM_UP_TOKENS, self._plan.max_tokens)
        found = n_drafted = 0.0
        with engine.session(n_ctx=self._plan.n_ctx, trace_recall=True) as session:
            self._sessions[engine] = session
            for prompt in self._plan.prompts:
                for _ in self._stream(session, prompt.tokens, sampling, MAX_DRAFT, limit):
                    pass
                stats = session.stats()
                if stats.draft_head == "clusters" and stats.head_recall is not None:
                    found += stats.head_recall * stats.drafted
                    n_drafted += stats.drafted
        self._sessions = {}
        self.measured.head_recall = found / n_drafted if n_drafted else None

    def _warm_up(self) -> None:
        """Answer every prompt once, in short and uncounted.

        Reads the weights into memory. Without a seed, so that drafting learns what passes cost
        here. Sessions that answer with a seed go by what was known when they were opened, so they
        are opened anew.
        """
        limit = min(WARM_UP_TOKENS, self._plan.max_tokens)
        sampling = SamplingParams(temperature=self._plan.temperatures[0])
        for number, prompt in enumerate(self._plan.prompts, 1):
            self._progress(f"warm-up: prompt {number}/{len(self._plan.prompts)}")
            for side in self._plan.sides:
                self._answer(side, prompt, sampling, limit)
        if self._plan.seed is not None:
            self._close()
            self._open()

    def _answer_all(self) -> None:
        for temperature in self._plan.temperatures:
            for kind, prompts in _by_kind(self._plan.prompts):
                case = Case(kind, temperature, tuple([] for _ in self._plan.sides))
                self.measured.cases.append(case)
                for repeat in range(self._plan.repeats):
                    self._progress(
                        f"temperature {temperature:g}, {kind}: "
                        f"repeat {repeat + 1}/{self._plan.repeats}"
                    )
                    for number, prompt in prompts:
                        self._take_turns(case, repeat, number, prompt)

    def _take_turns(self, case: Case, repeat: int, number: int, prompt: PromptTokens) -> None:
        """Answer a prompt once on every side, with the same seed if any."""
        seed = None if self._plan.seed is None else self._plan.seed + repeat
        sampling = SamplingParams(temperature=case.temperature, seed=seed)
        found = []
        for side in self._plan.sides:
            tokens, gaps, stats = self._answer(side, prompt, sampling, self._plan.max_tokens)
            found.append(Run(number, tokens, gaps, stats))
        for runs, run in zip(case.runs, found, strict=True):
            runs.append(run)

    def _answer(
        self, side: Side, prompt: PromptTokens, sampling: SamplingParams, limit: int
    ) -> tuple[tuple[int, ...], tuple[float, ...], Stats]:
        """Return the tokens of an answer, the seconds between their arrivals, its figures."""
        session = self._sessions[side.engine]
        for _ in self._stream(session, prompt.tokens[:1], sampling, "off", 1):
            pass  # empties the cache but for the first token
        tokens, arrivals = [], []
        for token in self._stream(session, prompt.tokens, sampling, side.draft, limit):
            arrivals.append(time.perf_counter())
            tokens.append(token)
        gaps = tuple(after - before for before, after in pairwise(arrivals))
        return tuple(tokens), gaps, session.stats()

    def _stream(
        self,
        session: Session,
        prompt: Sequence[int],
        sampling: SamplingParams,
        draft: DraftPolicy,
        limit: int,
    ) -> Iterator[int]:
        self._go_on()
        for event in session.generate(prompt, sampling, draft=draft, max_tokens=limit):
            self._go_on()
            if event.token is None:
                raise Interrupted
            yield event.token

    def _go_on(self) -> None:
        if self._stopped:
            raise Interrupted

    def _staircase(self) -> tuple[Step, ...]:
        """Time passes of every width in turn, after the first prompt, on the first side."""
        side, prompt = self._plan.sides[0], self._plan.prompts[0]
        self._answer(side, prompt, SamplingParams(temperature=0.0), 1)
        turns = []
        for number in range(STAIRCASE_TURNS + 1):
            self._progress(f"cost of passes: turn {number}/{STAIRCASE_TURNS}")
            turns.append([self._time_pass(side, width) for width in WIDTHS])
        counted = turns[1:]
        return tuple(
            Step(
                width,
                seconds=Spread.of(turn[width - 1] for turn in counted),
                relative=Spread.of(turn[width - 1] / turn[0] for turn in counted),
            )
            for width in WIDTHS
        )

    def _time_pass(self, side: Side, width: int) -> float:
        self._go_on()
        return self._sessions[side.engine].time_pass(width)

    def _open(self) -> None:
        for side in self._plan.sides:
            if side.engine not in self._sessions:
                self._sessions[side.engine] = side.engine.session(
                    n_ctx=self._plan.n_ctx, exact=self._plan.exact
                )

    def _close(self) -> None:
        for session in self._sessions.values():
            session.close()
        self._sessions = {}


def _by_kind(
    prompts: Sequence[PromptTokens],
) -> Iterator[tuple[str, list[tuple[int, PromptTokens]]]]:
    """Yield the prompts of each kind, numbered through."""
    numbered = list(enumerate(prompts))
    for kind in dict.fromkeys(prompt.kind for prompt in prompts):
        yield kind, [(number, prompt) for number, prompt in numbered if prompt.kind == kind]
