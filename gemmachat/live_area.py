"""The end of the terminal's text that may still change: redrawn in place, never scrolled away.

What is printed above it is printed once. One draw is one write, between the marks of a synchronised
update, which terminals that know them show at once and others ignore.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
_ERASE_BELOW = "\x1b[J"
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"


class LiveArea:
    """Rows at the bottom of what `out`, a terminal, shows.

    Between draws the cursor is at the end of the last row; without rows it is at the start of an
    empty line. The rows must be fewer than the terminal's. After the terminal became narrower, one
    that breaks old lines anew may keep some of the old rows above: erasing more could hit what was
    printed for good.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._rows: list[str] = []

    def draw(self, printed: Sequence[str], rows: Sequence[str]) -> None:
        """Print lines for good where the area was, and put `rows` below them."""
        old, new = self._rows, list(rows)
        kept = 0 if printed else _same_at_start(old, new)
        if not printed and kept == len(old) == len(new):
            return
        if kept == len(new) and kept:  # the cursor goes to the end of the last row
            kept -= 1
        text = [_BEGIN]
        if kept < len(old):
            if up := len(old) - 1 - kept:
                text.append(f"\x1b[{up}A")
            text += ["\r", _ERASE_BELOW]
        elif kept:
            text.append("\r\n")
        text += [f"{line}\r\n" for line in printed]
        # A row that turns out wider than it was measured must not become two.
        text += [_NO_WRAP, "\r\n".join(new[kept:]), _WRAP, _END]
        self._out.write("".join(text))
        self._out.flush()
        self._rows = new


def _same_at_start(old: Sequence[str], new: Sequence[str]) -> int:
    number = 0
    for before, after in zip(old, new, strict=False):
        if before != after:
            break
        number += 1
    return number
