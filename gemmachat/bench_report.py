"""The report of a benchmark: a table for readers, one object for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gemmachat.bench import Case, Measured, Step
from gemmachat.bench_figures import Agreement, Figures, Speedup, Spread

ALL_KINDS = "all kinds"
SYNTHETIC = "synthetic weights: the texts are meaningless, times are real"
NEAR_TIES = "texts may part at near-ties; --exact rules them out"
BY_LAW = "same distribution, by construction (gemmachat selftest checks it)"

_HEAD = (
    f"{'first ms':>9}{'prefill/s':>10}{'decode/s':>10}"
    f"{'(min-max)':>15}{'all/s':>8}{'P50 ms':>8}{'P99 ms':>8}{'length':>8}"
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One side's figures, and how they compare with the first side's."""

    side: str
    figures: Figures
    speedup: Speedup | None
    agreement: Agreement | None

    def as_dict(self) -> dict[str, object]:
        """The figures, and what they are compared with."""
        return {
            "side": self.side,
            **self.figures.as_dict(),
            "speedup": None if self.speedup is None else asdict(self.speedup),
            "agreement": None if self.agreement is None else asdict(self.agreement),
        }


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of prompt, or all of them, at one temperature."""

    kind: str
    temperature: float
    prompt_tokens: tuple[int, ...]
    cut: bool
    sides: tuple[Comparison, ...]

    def as_dict(self) -> dict[str, object]:
        """The row by name."""
        return {
            "kind": self.kind,
            "temperature": self.temperature,
            "prompt_tokens": self.prompt_tokens,
            "cut": self.cut,
            "sides": [side.as_dict() for side in self.sides],
        }


@dataclass(frozen=True, slots=True)
class Report:
    """What a benchmark found. `setup` is what it ran on and with."""

    setup: dict[str, Any]
    rows: tuple[Row, ...]
    totals: tuple[Row, ...]
    """Over all kinds, one for each temperature."""
    staircase: tuple[Step, ...]
    head_recall: float | None
    peak_memory_bytes: int
    complete: bool

    def as_dict(self) -> dict[str, object]:
        """The report for a program."""
        return {
            "complete": self.complete,
            "setup": self.setup,
            "results": [row.as_dict() for row in self.rows],
            "totals": [row.as_dict() for row in self.totals],
            "pass_cost": [asdict(step) for step in self.staircase],
            "head_recall": self.head_recall,
            "peak_memory_bytes": self.peak_memory_bytes,
        }

    def lines(self) -> list[str]:
        """The report for a reader, 100 columns wide."""
        return [
            *_setup_lines(self.setup),
            *(line for total in self.totals for line in self._table(total)),
            *_staircase_lines(self.staircase),
            *_recall_lines(self.head_recall),
            f"peak memory of this process: {self.peak_memory_bytes / 2**20:,.0f} MiB, mapped "
            "weights included",
            *self._legend(),
            *([] if self.complete else ["interrupted: only what was done by then is shown"]),
        ]

    def _table(self, total: Row) -> Iterator[str]:
        yield ""
        yield f"temperature {total.temperature:g}"
        yield f"{'kind':<13}{self.setup['compared']:<8}{_HEAD}"
        rows = [row for row in self.rows if row.temperature == total.temperature]
        for row in rows:
            # Of a sweep, whose rows have many sides, only all kinds together are compared.
            yield from _row_lines(row, compared=self.setup["sweep"] is None or len(rows) == 1)
        if len(rows) > 1:
            yield from _row_lines(total, compared=True)
        if total.temperature:
            yield f"agreement with the target alone: {BY_LAW}"
        elif not self.setup["exact"] and any(side.agreement for side in total.sides):
            yield f"agreement with the target alone: {NEAR_TIES}"

    def _legend(self) -> list[str]:
        repeats = _counted(self.setup["repeats"], "repeat")
        return [
            f"medians over prompts and {repeats} in turn (A B A B)",
            "first: to the first token; all: end to end; length: tokens per target pass",
            "P50, P99: of the gaps between tokens as they arrive, those of a pass all at once",
            "times: against the first line, run by run",
        ]


def make_report(measured: Measured, setup: dict[str, Any], peak_memory_bytes: int) -> Report:
    """Compute every figure from the runs. Cases without a complete repeat are left out."""
    cases = [case for case in measured.cases if case.runs[0]]
    temperatures = dict.fromkeys(case.temperature for case in cases)
    return Report(
        setup=setup,
        rows=tuple(_row(measured, case) for case in cases),
        totals=tuple(
            _row(measured, _joined([case for case in cases if case.temperature == temperature]))
            for temperature in temperatures
        ),
        staircase=measured.staircase,
        head_recall=measured.head_recall,
        peak_memory_bytes=peak_memory_bytes,
        complete=measured.complete,
    )


def _joined(cases: Sequence[Case]) -> Case:
    by_side = zip(*(case.runs for case in cases), strict=True)
    joined = tuple([run for runs in side for run in runs] for side in by_side)
    return Case(ALL_KINDS, cases[0].temperature, joined)


def _row(measured: Measured, case: Case) -> Row:
    plan = measured.plan
    base = case.runs[0]
    answered = sorted({run.prompt for run in base})
    # Only from the target alone does a greedy text say something about drafting.
    comparable = plan.sides[0].draft == "off" and case.temperature == 0
    sides = []
    for side, runs in zip(plan.sides, case.runs, strict=True):
        against = runs is not base
        sides.append(
            Comparison(
                side.name,
                Figures.of(runs),
                Speedup.of(base, runs) if against else None,
                Agreement.of(base, runs) if against and comparable else None,
            )
        )
    return Row(
        case.kind,
        case.temperature,
        tuple(len(plan.prompts[number].tokens) for number in answered),
        any(plan.prompts[number].cut for number in answered),
        tuple(sides),
    )


def _recall_lines(recall: float | None) -> Iterator[str]:
    if recall is not None:
        yield (
            f"the drafter's likeliest token is in its best clusters for {recall:.1%} of the drafts"
        )


def _setup_lines(setup: dict[str, Any]) -> Iterator[str]:
    seed = "no seed" if setup["seed"] is None else f"seed {setup['seed']}"
    limit = _counted(setup["tokens"], "token")
    drafter = "no drafter: drafts are copies of earlier text only"
    if setup["drafter"] is not None:
        drafter = f"drafter {setup['drafter']} {setup['drafter_type']}"
    yield f"{setup['model']} {setup['model_type']}, {drafter}"
    yield (
        f"{setup['processor']}, threads {', '.join(map(str, setup['threads']))}, llama-cpp-python "
        f"{setup['llama_cpp_python']}, context {setup['context']}, up to {limit}, "
        f"{seed}{', --exact' if setup['exact'] else ''}"
    )
    yield f"matrix kernels: {setup['kernels']}"
    if setup["synthetic"]:
        yield SYNTHETIC


def _row_lines(row: Row, *, compared: bool) -> Iterator[str]:
    label = row.kind
    for side in row.sides:
        yield f"{label:<13}{side.side:<8}{_cells(side.figures)}"
        label = ""
    for side in row.sides if compared else ():
        for line in _verdict(side):
            yield f"{'':<13}{side.side:<8}{line}"
    if row.cut:
        yield f"{'':<13}long text cut to a prompt of {max(row.prompt_tokens)} tokens"


def _cells(figures: Figures) -> str:
    decode = figures.decode_tps
    between = "" if decode is None else f"({_number(decode.min)}-{_number(decode.max)})"
    return (
        f"{_scaled(_median(figures.ttft_s)):>9}{_number(_median(figures.prefill_tps)):>10}"
        f"{_number(_median(decode)):>10}{between:>15}"
        f"{_number(_median(figures.end_to_end_tps)):>8}{_scaled(figures.gap_p50_s):>8}"
        f"{_scaled(figures.gap_p99_s):>8}{figures.mean_accepted_length:>8.2f}"
    )


def _verdict(side: Comparison) -> Iterator[str]:
    if side.speedup is not None:
        decode, end_to_end = _times(side.speedup.decode), _times(side.speedup.end_to_end)
        yield f"{decode} as fast in decoding, {end_to_end} end to end"
    parts = []
    if shares := side.figures.accepted_by_position:
        parts.append("kept by place " + " ".join(f"{100 * share:.0f}" for share in shares) + " %")
    if side.agreement is not None:
        parts.append(_agreement(side.agreement))
    if parts:
        yield "; ".join(parts)


def _agreement(agreement: Agreement) -> str:
    same = f"same text {agreement.identical} of {agreement.prompts}"
    if agreement.first_divergence is None:
        return same
    return f"{same}, parted at token {agreement.first_divergence}"


def _staircase_lines(staircase: Sequence[Step]) -> Iterator[str]:
    if staircase:
        yield ""
        yield "cost of a target pass by the tokens in it, in passes of one"
        yield "  " + "  ".join(
            f"{step.width}: {step.relative.median:.2f}" for step in staircase if step.relative
        )


def _counted(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _times(spread: Spread | None) -> str:
    if spread is None:
        return "-"
    return f"{spread.median:.2f} times ({spread.min:.2f}-{spread.max:.2f})"


def _median(spread: Spread | None) -> float | None:
    return None if spread is None else spread.median


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _scaled(seconds: float | None) -> str:
    """Return milliseconds."""
    if seconds is None:
        return "-"
    return f"{seconds * 1e3:,.0f}" if seconds >= 1 else f"{seconds * 1e3:.2f}"
