"""Notes are broken between words, by the columns that they take."""

from __future__ import annotations

import pytest

from gemmachat.wrapping import wrapped

WORDS = "one two three four five"


@pytest.mark.parametrize(
    ("line", "width", "parts"),
    [
        (WORDS, None, [WORDS]),
        (WORDS, 23, [WORDS]),
        (WORDS, 22, ["one two three four", "five"]),
        (WORDS, 10, [WORDS]),
        ("  a  b " + WORDS, 20, ["  a  b one two three", "  four five"]),
        ("x " + "y" * 30 + " z", 20, ["x", "y" * 30, "z"]),
        ("\u7d50 " * 12, 21, ["\u7d50 " * 6 + "\u7d50", "\u7d50 " * 4 + "\u7d50 "]),
        ("", 20, [""]),
    ],
)
def test_line_is_broken_between_words(line: str, width: int | None, parts: list[str]) -> None:
    assert wrapped(line, width) == parts
