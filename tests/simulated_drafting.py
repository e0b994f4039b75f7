"""A machine and a model in numbers: what the schedule of draft lengths would cost on them.

Times are in passes of one row. `fixed_time` is exact; `simulate` plays one run of the schedule.
"""

from __future__ import annotations

import ctypes
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gemmachat import bridge
from gemmachat.native import library
from gemmachat.native_structs import MAX_DRAFT, NativeSchedule

# The chance that a draft is accepted, by the number of tokens before its round.
Process = Callable[[int], float]
NOTHING, DRAFTER, COPY = 0, 1, 2
SECOND = 0.1  # of a pass of one row


@dataclass(frozen=True)
class Machine:
    """What passes of 1 to 8 rows and a draft step really cost, and how measurements scatter."""

    passes: Sequence[float]
    step: float
    noise: float = 0.2
    outliers: float = 0.03

    def measure(self, cost: float, rng: random.Random) -> float:
        seconds = SECOND * cost * (1 + rng.uniform(-self.noise, self.noise))
        return seconds * (5 if rng.random() < self.outliers else 1)

    def round(self, n_steps: int, width: int) -> float:
        return self.passes[width - 1] + n_steps * self.step


class Schedule:
    """The library's."""

    def __init__(
        self,
        saved: NativeSchedule | None = None,
        *,
        one_width: bool = False,
        learns_costs: bool = True,
    ) -> None:
        self._lib, self._pointer = library(), ctypes.c_void_p()
        bridge.check(
            self._lib.gc_schedule_new(
                ctypes.byref(saved or NativeSchedule()),
                one_width,
                learns_costs,
                ctypes.byref(self._pointer),
            )
        )

    def __del__(self) -> None:
        self._lib.gc_schedule_free(self._pointer)

    def begin(self, drafter: int, copied: int = 0, n_alike: int = 0) -> tuple[int, int]:
        source, n_drafts = ctypes.c_int32(), ctypes.c_int32()
        bridge.check(
            self._lib.gc_schedule_begin(
                self._pointer,
                drafter,
                copied,
                n_alike,
                ctypes.byref(source),
                ctypes.byref(n_drafts),
            )
        )
        return source.value, n_drafts.value

    def wants_step(self) -> bool:
        return bool(self._lib.gc_schedule_wants_step(self._pointer))

    def wants_draw(self, confidence: float = math.nan) -> bool:
        return bool(self._lib.gc_schedule_wants_draw(self._pointer, confidence))

    def width(self, n_drafts: int) -> int:
        return int(self._lib.gc_schedule_width(self._pointer, n_drafts))

    def end(self, drafted: int, accepted: int, copied: int = 0, compared: int = 0) -> None:
        bridge.check(self._lib.gc_schedule_end(self._pointer, drafted, accepted, copied, compared))

    def measured_pass(self, width: int, seconds: float) -> None:
        bridge.check(self._lib.gc_schedule_measured_pass(self._pointer, width, seconds))

    def measured_step(self, seconds: float) -> None:
        self._lib.gc_schedule_measured_step(self._pointer, seconds)

    def save(self) -> NativeSchedule:
        state = NativeSchedule()
        self._lib.gc_schedule_save(self._pointer, ctypes.byref(state))
        return state


@dataclass
class Run:
    """What a simulated answer took."""

    time: float = 0.0
    rounds: list[tuple[int, int, int]] = field(default_factory=list)  # steps, drafts, width


def simulate(
    schedule: Schedule,
    machine: Machine,
    accept: Process,
    n_tokens: int,
    seed: int,
    confidence: Callable[[random.Random], float] | None = None,
) -> Run:
    """Play an answer. With `confidence`, a draft is accepted with the probability it returns.

    Nothing can be drafted in the first round, as after an early-exit prefill.
    """
    rng, run, emitted = random.Random(seed), Run(), 0
    while emitted < n_tokens:
        source, _ = schedule.begin(min(MAX_DRAFT, n_tokens - emitted - 1) if emitted else 0)
        n_steps, chances = 0, []
        while source == DRAFTER and schedule.wants_step():
            n_steps += 1
            schedule.measured_step(machine.measure(machine.step, rng))
            sure = math.nan if confidence is None else confidence(rng)
            if not schedule.wants_draw(sure):
                break
            chances.append(accept(emitted) if confidence is None else sure)
        width, accepted = schedule.width(len(chances)), 0
        while accepted < len(chances) and rng.random() < chances[accepted]:
            accepted += 1
        schedule.measured_pass(width, machine.measure(machine.passes[width - 1], rng))
        schedule.end(len(chances), accepted)
        run.time += machine.round(n_steps, width)
        run.rounds.append((n_steps, len(chances), width))
        emitted += accepted + 1
    return run


def fixed_time(machine: Machine, accept: Process, n_tokens: int, n_drafts: int) -> float:
    """Return the expected time with a draft length that never changes."""
    left = [0.0] * (n_tokens + 1)  # by the number of tokens that are there
    for emitted in reversed(range(n_tokens)):
        n = min(n_drafts, n_tokens - emitted - 1) if emitted else 0
        chance = accept(emitted)
        time, reached = machine.round(n, n + 1), 1.0
        for accepted in range(n):
            time += reached * (1 - chance) * left[emitted + accepted + 1]
            reached *= chance
        left[emitted] = time + reached * left[emitted + n + 1]
    return left[0]


def rate(machine: Machine, chance: float, n_drafts: int) -> float:
    """Return the expected tokens per time of rounds with so many drafts."""
    tokens = sum(chance**i for i in range(n_drafts + 1))
    return tokens / machine.round(n_drafts, n_drafts + 1)
