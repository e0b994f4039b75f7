"""Do two samples come from one distribution? A test of homogeneity with its p-value."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

LEAST_EXPECTED = 5.0  # of a cell in either sample: below, the test's own law is a poor fit
_MAX_TERMS = 100_000
_PRECISION = 1e-15
_TINY = 1e-300

Key = tuple[int, ...]
Table = tuple[Counter[Key], Counter[Key]]
"""How often each sequence came up in one sample and in the other."""


@dataclass(frozen=True, slots=True)
class Homogeneity:
    """The outcome of a G test."""

    statistic: float
    freedom: int
    """Degrees of freedom; 0 where there was nothing to compare."""
    cells: int
    """Compared frequencies, after pooling."""
    p: float


def g_test(tables: Sequence[Table]) -> Homogeneity:
    """Test that in every table both samples follow one law, which may differ between tables.

    The G test of a contingency table with the correction of Williams 1976 ("Improved likelihood
    ratio tests for complete contingency tables"), without which small cells give false alarms.
    Rare sequences are pooled, which looks at both samples together and so favours neither outcome.
    """
    statistic, freedom, cells = 0.0, 0, 0
    for one, two in tables:
        pooled = pool(one, two)
        cells += len(pooled)
        if len(pooled) > 1:
            statistic += _corrected_g(pooled)
            freedom += len(pooled) - 1
    p = chi_square_survival(statistic, freedom) if freedom else 1.0
    return Homogeneity(statistic, freedom, cells, p)


def pool(one: Counter[Key], two: Counter[Key]) -> list[tuple[int, int]]:
    """The two samples' counts by cell, each cell expected `LEAST_EXPECTED` times or more in both.

    A rare sequence joins the others that begin alike: first all but its last token, then less.
    """
    cells = {key: (one[key], two[key]) for key in sorted(one.keys() | two.keys())}
    n_one, n_two = one.total(), two.total()
    if not (n_one and n_two):
        return []
    least = LEAST_EXPECTED * (n_one + n_two) / min(n_one, n_two)
    for length in reversed(range(max(map(len, cells)))):
        merged: dict[Key, tuple[int, int]] = {}
        for key, counts in cells.items():
            target = key if sum(counts) >= least else key[:length]
            merged[target] = _add(merged.get(target, (0, 0)), counts)
        cells = merged
    pooled = sorted(cells.values(), key=sum)
    if len(pooled) > 1 and sum(pooled[0]) < least:  # what nothing else begins like
        pooled[:2] = [_add(pooled[0], pooled[1])]
    return pooled


def _add(one: tuple[int, int], two: tuple[int, int]) -> tuple[int, int]:
    return one[0] + two[0], one[1] + two[1]


def _corrected_g(cells: list[tuple[int, int]]) -> float:
    rows = [sum(one for one, _ in cells), sum(two for _, two in cells)]
    total = sum(rows)
    g = 2.0 * sum(
        count * math.log(count * total / (row * sum(cell)))
        for cell in cells
        for count, row in zip(cell, rows, strict=True)
        if count
    )
    by_row = total * sum(1.0 / row for row in rows) - 1.0
    by_cell = total * sum(1.0 / sum(cell) for cell in cells) - 1.0
    correction = 1.0 + by_row * by_cell / (6.0 * total * (len(cells) - 1))
    return max(g, 0.0) / correction


def chi_square_survival(x: float, freedom: int) -> float:
    """The probability that a chi-square variable of `freedom` degrees exceeds `x`.

    That is Q(freedom / 2, x / 2), the regularised incomplete gamma function: a series below the
    mean (DLMF 8.11.4), a continued fraction above it (DLMF 8.9.2), after Press et al., Numerical
    Recipes, section 6.2.
    """
    if x <= 0.0:
        return 1.0
    a, z = freedom / 2.0, x / 2.0
    front = math.exp(a * math.log(z) - z - math.lgamma(a))
    if z < a + 1.0:
        return min(max(1.0 - front * _lower_series(a, z), 0.0), 1.0)
    return min(front * _upper_fraction(a, z), 1.0)


def _lower_series(a: float, z: float) -> float:
    term = total = 1.0 / a
    for k in range(1, _MAX_TERMS):
        term *= z / (a + k)
        total += term
        if term < total * _PRECISION:
            break
    return total


def _upper_fraction(a: float, z: float) -> float:
    """By the modified Lentz method."""
    b = z + 1.0 - a
    c, d = 1.0 / _TINY, 1.0 / b
    value = d
    for k in range(1, _MAX_TERMS):
        numerator = -k * (k - a)
        b += 2.0
        d = 1.0 / (numerator * d + b or _TINY)
        c = b + numerator / c or _TINY
        value *= c * d
        if abs(c * d - 1.0) < _PRECISION:
            break
    return value
