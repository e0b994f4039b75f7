"""Bounds on integers, as GBNF whose notation is here that of regular expressions too."""

from __future__ import annotations

import random
import re

import pytest

from gemmachat.integer_range import LARGEST, integers_between


def allows(gbnf: str, text: str) -> bool:
    pattern = gbnf.replace('"', "").replace(" ", "")
    assert re.fullmatch(r"[-0-9\[\]{}()|]*", pattern)
    return re.fullmatch(pattern, text) is not None


@pytest.mark.parametrize("span", [20, 300, 5000])
def test_all_integers_between_and_no_others(span: int) -> None:
    draw = random.Random(span)
    for _ in range(300):
        least, most = sorted(draw.randint(-span, span) for _ in range(2))
        gbnf = integers_between(least, most)
        near = [*range(least - 12, least + 12), *range(most - 12, most + 12)]
        for value in [*near, *(draw.randint(-2 * span, 2 * span) for _ in range(10))]:
            assert allows(gbnf, str(value)) == (least <= value <= most), (least, value, most)


def test_long_bounds_are_met_to_the_last_digit() -> None:
    for least, most in (
        (1234567890123456, 9876543210987654),
        (-LARGEST, LARGEST),
        (-LARGEST, -LARGEST),
        (999_999, 1_000_000_000_001),
        (-1_000_000, 99),
    ):
        gbnf = integers_between(least, most)
        for value in (least, least + 1, most - 1, most, (least + most) // 2):
            assert allows(gbnf, str(value)) == (least <= value <= most)
        assert not allows(gbnf, str(least - 1))
        assert not allows(gbnf, str(most + 1))


def test_zero_has_no_sign_and_no_number_leading_zeros() -> None:
    for text in ("-0", "00", "007", "-01", "", "-"):
        assert not allows(integers_between(-1000, 1000), text)
