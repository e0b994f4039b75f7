"""What was learned about drafting, kept for the next start on this machine with these models.

One small JSON file for each pair of models, kind of the drafter's head, number of threads,
processor and llama.cpp. It is a cache: a file that is not exactly what this module writes counts as
absent, and a folder that cannot be written is left alone. Programs may share it; the last one to
write wins.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import operator
import os
from collections.abc import Sequence
from pathlib import Path

from gemmachat.errors import NotFoundError
from gemmachat.files import open_regular
from gemmachat.native_structs import MAX_DRAFT, MAX_WIDTH, NativeSchedule
from gemmachat.processors import processor_name
from gemmachat.publish import publish
from gemmachat.settings import schedule_folder

FORMAT = 1
MAX_BYTES = 4096
MAX_FILES = 64
MAX_SECONDS = 1e4
LEAST_SECONDS = 1e-9
MOST_PER_ROW = 1.5
LEAST_OF_ONE = 0.7
"""In passes of one row: so many rows in one pass cannot cost much more than each in its own."""
MOST_STEP = 1.0
"""In passes of one row: a drafter is far smaller than its target."""
COST_CHANGE = 0.1
"""A cost that moved by less keeps its old figure, so that answers with a seed stay the same."""
ACCEPTANCE_CHANGE = 0.05
SAMPLE = 1 << 16  # bytes of each end of a model file that tell it from others


def state_file(
    target: Path,
    drafter: Path | None,
    *,
    clustered: bool,
    threads: int,
    llama_cpp: str,
    kernels: str = "ggml",
) -> Path | None:
    """Return where the state of this setting is kept; None if there is no telling.

    `clustered`: whether the drafter's head works from clusters, which makes a step several times
    cheaper.
    """
    try:
        models = [_identity(path) for path in (target, drafter) if path is not None]
        folder = schedule_folder()
    except (OSError, NotFoundError):  # a model that cannot be read, a user without a home
        return None
    setting = json.dumps([FORMAT, models, clustered, threads, processor_name(), llama_cpp, kernels])
    return folder / f"{hashlib.sha256(setting.encode()).hexdigest()}.json"


def load(path: Path) -> NativeSchedule:
    """Return what a file says, and zeros (nothing is known) where it says nothing valid."""
    try:
        with open_regular(path) as file:
            data = file.read(MAX_BYTES + 1)
        return _parse(data)
    except (OSError, ValueError, RecursionError):
        return NativeSchedule()


def save(path: Path, saved: NativeSchedule, learned: NativeSchedule) -> NativeSchedule:
    """Write what was learned, if it differs enough from what was saved; return what holds now."""
    settled = _settled(saved, learned)
    if settled is None:
        return saved
    state = {
        "format": FORMAT,
        "pass_s": [_rounded(seconds) for seconds in settled.pass_s],
        "step_s": _rounded(settled.step_s),
        "acceptance": [round(chance, 3) for chance in settled.acceptance],
    }
    data = json.dumps(state).encode()
    try:
        _parse(data)
    except ValueError:  # a mishap of measuring
        return saved
    with contextlib.suppress(OSError):
        _write(path, data)
    return settled


def _settled(saved: NativeSchedule, learned: NativeSchedule) -> NativeSchedule | None:
    """Return the old costs unless they changed, with the new acceptance; None: nothing changed."""
    costs_changed = learned.pass_s[0] > 0 and not _alike(_costs(saved), _costs(learned))
    moved = (
        abs(new - old) > ACCEPTANCE_CHANGE
        for new, old in zip(learned.acceptance, saved.acceptance, strict=True)
    )
    if not costs_changed and not any(moved):
        return None
    costs = learned if costs_changed else saved
    return NativeSchedule(costs.pass_s, costs.step_s, learned.acceptance)


def _costs(state: NativeSchedule) -> list[float]:
    unit = state.pass_s[0] or 1.0
    return [seconds / unit for seconds in (*state.pass_s, state.step_s)]


def _alike(saved: Sequence[float], learned: Sequence[float]) -> bool:
    return all(
        not new or abs(new - old) <= COST_CHANGE * old
        for old, new in zip(saved, learned, strict=True)
    )


def _parse(data: bytes) -> NativeSchedule:
    """Raise `ValueError` on anything that `save` does not write."""
    state = json.loads(data.decode("ascii")) if len(data) <= MAX_BYTES else None
    if not isinstance(state, dict) or state.keys() != {"format", "pass_s", "step_s", "acceptance"}:
        raise ValueError
    if state["format"] != FORMAT:
        raise ValueError
    passes = _numbers(state["pass_s"], MAX_WIDTH, MAX_SECONDS)
    (step,) = _numbers([state["step_s"]], 1, MAX_SECONDS)
    acceptance = _numbers(state["acceptance"], MAX_DRAFT, 1.0)
    if not passes[0] and (any(passes) or step):
        raise ValueError
    # More would be a mishap of measuring, and keep drafts from being tried again.
    most = [MOST_PER_ROW * passes[0] * (row + 1) for row in range(MAX_WIDTH)]
    if step > MOST_STEP * passes[0] or any(map(operator.gt, passes, most)):
        raise ValueError
    # More rows do not take less: one row was measured while the machine did something else.
    if any(0 < seconds < LEAST_OF_ONE * passes[0] for seconds in passes):
        raise ValueError
    if any(0 < seconds < LEAST_SECONDS for seconds in (*passes, step)):
        raise ValueError
    return NativeSchedule(
        (NativeSchedule.PASSES)(*passes), step, (NativeSchedule.ACCEPTANCE)(*acceptance)
    )


def _numbers(values: object, count: int, largest: float) -> list[float]:
    if not isinstance(values, list) or len(values) != count:
        raise ValueError
    for value in values:
        # No bool, no NaN, and no number that no float can hold.
        if type(value) not in (int, float) or not 0 <= value <= largest:
            raise ValueError
    return [float(value) for value in values]


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.4g}")


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    publish(path, data)
    by_age = sorted(path.parent.glob("*.json"), key=_changed, reverse=True)
    for old in by_age[MAX_FILES:]:
        with contextlib.suppress(OSError):
            old.unlink()


def _changed(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:  # another program has removed it
        return 0.0


def _identity(path: Path) -> tuple[int, str]:
    """Return what tells a model file from others, wherever it lies: its size and its two ends."""
    with path.open("rb") as file:
        digest = hashlib.sha256(file.read(SAMPLE))
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - SAMPLE, 0))
        digest.update(file.read(SAMPLE))
    return size, digest.hexdigest()
