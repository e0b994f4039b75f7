"""Whole numbers between two bounds, as GBNF that spells their digits."""

from __future__ import annotations

MAX_DIGITS = 16
LARGEST = 10**MAX_DIGITS - 1


def integers_between(least: int, most: int) -> str:
    """GBNF of the whole numbers from `least` to `most`, in decimal without leading zeros.

    -`LARGEST` <= least <= most <= `LARGEST`.
    """
    alternatives = []
    if least < 0:
        alternatives.append(f'"-" ({_digits(max(1, -most), -least)})')
    if most >= 0:
        alternatives.append(_digits(max(0, least), most))
    return " | ".join(alternatives)


def _digits(least: int, most: int) -> str:
    """The numbers in a range of those that are not negative, by how many digits they have."""
    return " | ".join(
        _of_one_length(str(max(least, 10 ** (n - 1) if n > 1 else 0)), str(min(most, 10**n - 1)))
        for n in range(len(str(least)), len(str(most)) + 1)
    )


def _of_one_length(low: str, high: str) -> str:
    if low[0] == high[0]:
        return f'"{low[0]}" {_group(low[1:], high[1:])}'
    zeros, nines = "0" * (len(low) - 1), "9" * (len(low) - 1)
    first, last = int(low[0]), int(high[0])
    alternatives = []
    if low[1:] != zeros:
        alternatives.append(f'"{first}" {_group(low[1:], nines)}')
        first += 1
    if high[1:] != nines:
        alternatives.append(f'"{last}" {_group(zeros, high[1:])}')
        last -= 1
    if first <= last:  # with any digits after them
        alternatives.append(f"[{first}-{last}] {_group(zeros, nines)}")
    return " | ".join(alternatives)


def _group(low: str, high: str) -> str:
    if low.strip("0") or high.strip("9"):
        return f"({_of_one_length(low, high)})"
    return f"[0-9]{{{len(low)}}}" if low else ""
