"""The library's verification of drafts: what it does with given distributions, and how likely."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from typing import Any

import pytest
import reference_verify as reference
from reference_verify import Outcome, Prefix, Row, Verifier

from gemmachat import bridge
from gemmachat.native import library


def by_library(
    p: Sequence[Row], q: Sequence[Row], drafts: Prefix, *, token_wise: bool
) -> list[Outcome]:
    """The outcomes of a round as the library's own decisions lead to them."""
    n, n_vocab = len(drafts), len(p[0])

    def doubles(values: Sequence[Any]) -> ctypes.Array[ctypes.c_double]:
        return (ctypes.c_double * len(values))(*map(float, values))

    accepted, last = doubles([0.0] * (n + 1)), doubles([0.0] * ((n + 1) * n_vocab))
    bridge.check(
        library().gc_verify_law(
            doubles([*itertools.chain(*p)]),
            doubles([*itertools.chain(*q)]),
            (ctypes.c_int32 * n)(*drafts),
            n,
            n_vocab,
            token_wise,
            accepted,
            last,
        )
    )
    rows = [last[i * n_vocab : (i + 1) * n_vocab] for i in range(n + 1)]
    return [Outcome(i, accepted[i], rows[i]) for i in range(n + 1)]


def block(p: Sequence[Row], q: Sequence[Row], drafts: Prefix) -> list[Outcome]:
    return by_library(p, q, drafts, token_wise=False)


def token_wise(p: Sequence[Row], q: Sequence[Row], drafts: Prefix) -> list[Outcome]:
    return by_library(p, q, drafts, token_wise=True)


both = pytest.mark.parametrize("verifier", [block, token_wise])
REFERENCE: dict[Verifier, Any] = {block: reference.block, token_wise: reference.token_wise}
