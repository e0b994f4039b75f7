"""Tables for a terminal: aligned columns, within its width; sizes and ages as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from gemmachat.sanitize import safe_line

_GAP = 2
_PERIODS = (
    ("year", 365 * 86400), ("month", 30 * 86400), ("week", 7 * 86400), ("day", 86400),
    ("hour", 3600), ("minute", 60),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Column:
    """One column. Where room is short, that of the highest `rank` is left out first; 0 stays."""

    title: str
    cells: Sequence[str]
    rank: int = 0
    right: bool = False  # aligned to the right, as numbers are


def table_lines(columns: Sequence[Column], width: int | None) -> list[str]:
    """Return a heading and a line for each row, in at most `width` characters where that works."""
    shown = [_safe(column) for column in columns]
    while width is not None and _width(shown) > width and any(column.rank for column in shown):
        shown.remove(max(shown, key=lambda column: column.rank))
    parts = [_aligned(column) for column in shown]
    return [(" " * _GAP).join(row).rstrip() for row in zip(*parts, strict=True)]


def size_text(nbytes: int) -> str:
    """Return a number of bytes in decimal units, as disks and hubs count them: 2.84 GB."""
    for unit, size, digits in (("GB", 1e9, 2), ("MB", 1e6, 1), ("kB", 1e3, 1)):
        # What would round up to 1000 of a unit is one of the next.
        if nbytes >= size * 0.99995:
            return f"{nbytes / size:.{digits}f} {unit}"
    return f"{nbytes} B"


def context_text(tokens: int) -> str:
    """Return a number of tokens as model cards write it: 128K for 131,072."""
    return f"{tokens // 1024}K" if tokens % 1024 == 0 else f"{tokens:,}"


def age_text(then: datetime | None, now: datetime) -> str:
    """Return how long ago something was."""
    if then is None:
        return "never"
    seconds = (now - then).total_seconds()
    for name, length in _PERIODS:
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "just now"


def _safe(column: Column) -> Column:
    cells = tuple(map(safe_line, column.cells))
    return Column(column.title, cells, column.rank, column.right)


def _widest(column: Column) -> int:
    return max(len(text) for text in (column.title, *column.cells))


def _width(columns: Sequence[Column]) -> int:
    return sum(map(_widest, columns)) + _GAP * (len(columns) - 1)


def _aligned(column: Column) -> list[str]:
    width = _widest(column)
    texts = (column.title, *column.cells)
    return [text.rjust(width) if column.right else text.ljust(width) for text in texts]
