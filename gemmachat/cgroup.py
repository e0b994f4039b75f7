"""What the Linux cgroups above this process allow it: processor time and memory.

Linux documentation: admin-guide/cgroup-v2 ("cpu.max", "memory.max", "memory.stat"); for version 1
scheduler/sched-bwc and admin-guide/cgroup-v1/memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")


def processors(root: Path = _ROOT) -> Iterator[int]:
    """Whole processors that each cgroup with a limit grants. `root` holds `/sys` and `/proc`."""
    for folder in _folders("cpu", root):
        quota = _quota(folder)
        if quota is not None:
            yield quota


def memory_left(root: Path = _ROOT) -> int | None:
    """Bytes that the narrowest cgroup lets this process still take; None where none has a limit.

    Pages of files count as free: the system drops them for others that need them.
    """
    left = [_left(folder) for folder in _folders("memory", root)]
    return min((size for size in left if size is not None), default=None)


def _folders(controller: str, root: Path) -> Iterator[Path]:
    """The process's cgroup and all above it, for this controller, of either version."""
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers == "":
            mount = root / "sys/fs/cgroup"
        elif controller in controllers.split(","):
            mount = root / "sys/fs/cgroup" / controller
        else:
            continue
        here = mount / path.lstrip("/")
        for folder in (here, *here.parents):
            yield folder
            if folder == mount:
                break


def _quota(folder: Path) -> int | None:
    """None: as much as there is."""
    fields = (_first_line(folder / "cpu.max") or "").split()
    if not fields:
        names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        fields = [_first_line(folder / name) or "" for name in names]
    try:
        quota, period = (int(field) for field in fields)
    except ValueError:
        return None
    return max(quota // period, 1) if quota > 0 and period > 0 else None


def _left(folder: Path) -> int | None:
    # Above memory.high the system slows the group down, to a stop if need be.
    limits = [_number(folder / name) for name in ("memory.max", "memory.high")]
    used = _number(folder / "memory.current")
    if used is None:
        limits = [_number(folder / "memory.limit_in_bytes")]
        used = _number(folder / "memory.usage_in_bytes")
    limit = min((each for each in limits if each is not None), default=None)
    if limit is None or used is None:
        return None
    return max(limit - used + _droppable(folder), 0)


def _droppable(folder: Path) -> int:
    """Bytes of file pages, here and below; counts of version 1 with "total_" are for all below."""
    counts = dict(line.split(" ", 1) for line in _lines(folder / "memory.stat") if " " in line)
    names = ("inactive_file", "active_file")
    try:
        return sum(int(counts.get(f"total_{name}", counts.get(name, "0"))) for name in names)
    except ValueError:
        return 0


def _number(path: Path) -> int | None:
    """None where there is no such file, or where it says "max"."""
    try:
        return int(_first_line(path) or "")
    except ValueError:
        return None


def _first_line(path: Path) -> str | None:
    return next(iter(_lines(path)), None)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
