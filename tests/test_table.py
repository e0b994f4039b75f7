"""Tables fit the terminal by leaving out what matters least, and never break on their content."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gemmachat.table import Column, age_text, context_text, size_text, table_lines

COLUMNS = [
    Column("NAME", ["e2b:q4_0", "tiny"]),
    Column("SIZE", ["2.94 GB", "13.2 MB"], right=True),
    Column("DRAFTER", ["Q8_0", ""], rank=2),
    Column("USED", ["never", "2 hours ago"], rank=1),
]


def test_columns_are_aligned() -> None:
    assert table_lines(COLUMNS, None) == [
        "NAME         SIZE  DRAFTER  USED",
        "e2b:q4_0  2.94 GB  Q8_0     never",
        "tiny      13.2 MB           2 hours ago",
    ]


def test_narrow_terminals_lose_the_least_important_columns_first() -> None:
    wide = max(map(len, table_lines(COLUMNS, None)))
    assert table_lines(COLUMNS, wide) == table_lines(COLUMNS, None)
    assert table_lines(COLUMNS, wide - 1)[0].split() == ["NAME", "SIZE", "USED"]
    assert table_lines(COLUMNS, 20)[0].split() == ["NAME", "SIZE"]
    assert table_lines(COLUMNS, 1) == table_lines(COLUMNS, 20)


def test_cells_cannot_break_the_lines() -> None:
    lines = table_lines([Column("A", ["x\ny\x1b[31m"]), Column("B", ["z"])], None)
    assert lines == ["A                B", "x y<U+001B>[31m  z"]


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_999, "1.0 MB"),
        (13_200_000, "13.2 MB"),
        (2_841_481_184, "2.84 GB"),
    ],
)
def test_sizes(nbytes: int, text: str) -> None:
    assert size_text(nbytes) == text


def test_contexts() -> None:
    assert [context_text(tokens) for tokens in (131072, 4096, 5000)] == ["128K", "4K", "5,000"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "just now"),
        (59, "just now"),
        (60, "1 minute ago"),
        (7200, "2 hours ago"),
        (86400 * 6, "6 days ago"),
        (86400 * 29, "4 weeks ago"),
        (86400 * 800, "2 years ago"),
    ],
)
def test_ages(seconds: int, text: str) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert age_text(now - timedelta(seconds=seconds), now) == text
    assert age_text(None, now) == "never"
