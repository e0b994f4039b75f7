"""The plot of a benchmark: acceptance by place, speed-up by kind, cost of passes by width."""

from __future__ import annotations

import io
import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from gemmachat.errors import GemmachatError, UsageError
from gemmachat.publish import publish

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gemmachat.bench_report import Report, Row

FORMATS = (".png", ".svg")


def check_plot(path: Path) -> None:
    """Raise `UsageError` where no plot could be written, or `GemmachatError` without matplotlib."""
    if path.name.lower() in FORMATS:
        raise UsageError(f"--plot {path} has no name before its ending: give one, as in bench.png")
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"--plot {path} must end in .png or .svg")
    if path.exists() and not path.is_file():
        raise UsageError(f"--plot {path} is not a regular file: give another path")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"--plot {path}: the folder {folder} does not exist")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"--plot {path}: the folder {folder} cannot be written")
    if find_spec("matplotlib") is None:
        raise GemmachatError(
            "--plot needs matplotlib, which is not installed: pip install 'matplotlib>=3.8'"
        )


def write_plot(report: Report, path: Path) -> None:
    """Draw the report into a file, which is complete or not there. Raises `GemmachatError`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 4.8), layout="constrained")
    accepted, faster, costs = figure.subplots(1, 3)
    _draw_acceptance(accepted, report)
    _draw_speedup(faster, report)
    _draw_costs(costs, report)
    setup = report.setup
    title = f"{setup['model']} {setup['model_type']}, {setup['processor']}"
    title += ", synthetic weights" if setup["synthetic"] else ""
    figure.suptitle(title if report.complete else f"{title} (interrupted)")
    drawn = io.BytesIO()
    figure.savefig(drawn, format=path.suffix.lower().lstrip("."))
    try:
        publish(path, drawn.getvalue())
    except OSError as error:
        raise GemmachatError(f"the plot {path} cannot be written: {error.strerror}") from None


def _draw_acceptance(axes: Axes, report: Report) -> None:
    axes.set(
        title="Drafts that were accepted, by place", xlabel="place in the round", ylabel="share"
    )
    for total in report.totals:
        for side in total.sides:
            if shares := side.figures.accepted_by_position:
                label = f"{_named(report, side.side)}, temperature {total.temperature:g}"
                axes.plot(range(1, len(shares) + 1), shares, marker="o", label=label)
    axes.set_ylim(0, 1.02)
    _legend(axes)


def _draw_speedup(axes: Axes, report: Report) -> None:
    """Draw a bar for every side but the first, in groups by kind."""
    axes.set(title="Speed-up of decoding", ylabel="times the first side")
    kinds = list(dict.fromkeys(row.kind for row in report.rows))
    series: dict[str, dict[str, tuple[float, float, float]]] = {}
    for row in report.rows:
        for name, bar in _bars(report, row):
            series.setdefault(name, {})[row.kind] = bar
    width = 0.8 / max(len(series), 1)
    for number, (name, bars) in enumerate(series.items()):
        at = [kinds.index(kind) + (number + 0.5) * width - 0.4 for kind in bars]
        middle = [bar[0] for bar in bars.values()]
        ends = [[bar[side] for bar in bars.values()] for side in (1, 2)]
        axes.bar(at, middle, width, yerr=ends, capsize=2, label=name)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(kinds)), kinds, rotation=30, ha="right")
    _legend(axes)


def _bars(report: Report, row: Row) -> list[tuple[str, tuple[float, float, float]]]:
    """Return name, height and the lengths of the error bar of each side that is compared."""
    found = []
    for side in row.sides:
        if side.speedup is not None and side.speedup.decode is not None:
            times = side.speedup.decode
            bar = (times.median, times.median - times.min, times.max - times.median)
            name = f"{_named(report, side.side)}, temperature {row.temperature:g}"
            found.append((name, bar))
    return found


def _draw_costs(axes: Axes, report: Report) -> None:
    axes.set(
        title="Cost of a target pass", xlabel="tokens in the pass", ylabel="passes of one token"
    )
    steps = [(step.width, step.relative) for step in report.staircase if step.relative is not None]
    if steps:
        widths = [width for width, _ in steps]
        axes.step(widths, [cost.median for _, cost in steps], where="mid", marker="o")
        axes.fill_between(
            widths,
            [cost.min for _, cost in steps],
            [cost.max for _, cost in steps],
            step="mid",
            alpha=0.2,
        )
    axes.set_ylim(bottom=0)


def _named(report: Report, side: str) -> str:
    return f"{report.setup['compared']} {side}"


def _legend(axes: Axes) -> None:
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize="small")
