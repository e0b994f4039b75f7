"""The verification of drafts on given logits: no model, no session."""

from __future__ import annotations

import ctypes
import itertools
import math
import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from gemmachat import bridge
from gemmachat.errors import DamagedFileError, UsageError
from gemmachat.native import library
from gemmachat.native_structs import MAX_DRAFT, MAX_WIDTH, NativeSampling

ALL = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}


def sampling(seed: int = 1, **changes: float) -> NativeSampling:
    return NativeSampling(**{**ALL, **changes}, seed=seed)


def verify_rounds(
    target_logits: Sequence[Sequence[float]],
    drafter_logits: Sequence[Sequence[float]],
    sampling: NativeSampling,
    n_rounds: int,
    *,
    token_wise: bool = False,
) -> list[list[int]]:
    """Draft from and verify on given logits, n_rounds times; no model is involved.

    `target_logits` has one row more than `drafter_logits`; all rows have the vocabulary's length.
    Returns the tokens that each round emitted.
    """
    n_vocab = len(target_logits[0])
    target = (ctypes.c_float * (len(target_logits) * n_vocab))(
        *(value for row in target_logits for value in row)
    )
    drafter = (ctypes.c_float * (len(drafter_logits) * n_vocab))(
        *(value for row in drafter_logits for value in row)
    )
    out = (ctypes.c_int32 * (n_rounds * MAX_WIDTH))()
    counts = (ctypes.c_int32 * n_rounds)()
    bridge.check(
        library().gc_verify_rounds(
            target,
            drafter,
            len(drafter_logits),
            n_vocab,
            ctypes.byref(sampling),
            token_wise,
            n_rounds,
            out,
            counts,
        )
    )
    return [list(out[i * MAX_WIDTH : i * MAX_WIDTH + counts[i]]) for i in range(n_rounds)]


@pytest.fixture(params=[False, True], ids=["block", "token-wise"])
def token_wise(request: pytest.FixtureRequest) -> bool:
    """Both ways to verify."""
    return request.param


def logits_of(probabilities: list[float]) -> list[float]:
    return [math.log(p) if p > 0 else -math.inf for p in probabilities]


def reference(logits: np.ndarray, temperature: float, top_k: int, top_p: float, min_p: float):
    """The filters in float64, written for reading: temperature, top-k, top-p, min-p."""
    scaled = np.asarray(logits, np.float64) / temperature
    p = np.exp(scaled - scaled.max())
    p /= p.sum()
    order = np.lexsort((np.arange(len(p)), -p))
    keep = order[: top_k or len(p)]
    mass = np.cumsum(p[keep]) / p[keep].sum()
    if top_p < 1.0:
        keep = keep[: int(np.searchsorted(mass, top_p)) + 1]
    keep = keep[p[keep] >= min_p * p.max()]
    out = np.zeros_like(p)
    out[keep] = p[keep] / p[keep].sum()
    return out


def g_test(counts: Counter, expected: dict, n: int) -> float:
    """P-value of a G test of counts against expected probabilities; rare cells are pooled."""
    cells = [(counts[key], n * p) for key, p in expected.items() if n * p >= 10]
    rest_seen = n - sum(seen for seen, _ in cells)
    rest_expected = n - sum(wanted for _, wanted in cells)
    if rest_expected >= 5:
        cells.append((rest_seen, rest_expected))
    else:
        seen, wanted = cells.pop()
        cells.append((seen + rest_seen, wanted + rest_expected))
    if len(cells) == 1:  # all mass in one cell: it was seen every time, or the sum would differ
        return 1.0
    seen, wanted = np.array(cells, np.float64).T
    return float(stats.power_divergence(seen, wanted, lambda_="log-likelihood").pvalue)


def test_equal_distributions_of_sixty_and_forty_stay_sixty_and_forty(token_wise):
    row = logits_of([0.6, 0.4])
    rounds = verify_rounds([row, row], [row], sampling(seed=3), 50_000, token_wise=token_wise)
    first = Counter(tokens[0] for tokens in rounds)
    assert g_test(first, {0: 0.6, 1: 0.4}, len(rounds)) > 0.01
    # p = q accepts every draft, so that every round has its second token too.
    assert all(len(tokens) == 2 for tokens in rounds)
    second = Counter(tokens[1] for tokens in rounds)
    assert g_test(second, {0: 0.6, 1: 0.4}, len(rounds)) > 0.01


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"temperature": 0.6},
        {"temperature": 1.7, "top_k": 5},
        {"top_p": 0.8},
        {"min_p": 0.1},
        {"temperature": 0.8, "top_k": 6, "top_p": 0.9, "min_p": 0.05},
    ],
    ids=str,
)
def test_first_token_has_the_targets_distribution_whatever_the_drafter_thinks(
    filters, seed, token_wise
):
    rng = np.random.default_rng(seed)
    target, drafter = rng.normal(0, 2, (2, 9)), rng.normal(0, 2, (1, 9))
    rounds = verify_rounds(
        target.tolist(), drafter.tolist(), sampling(seed, **filters), 20_000, token_wise=token_wise
    )
    p = reference(target[0].astype(np.float32), **{**ALL, **filters})
    first = Counter(tokens[0] for tokens in rounds)
    assert set(first) <= set(np.flatnonzero(p))
    assert g_test(first, dict(enumerate(p)), len(rounds)) > 1e-4


def test_every_position_of_a_long_draft_has_the_targets_distribution(token_wise):
    rng = np.random.default_rng(11)
    target = rng.normal(0, 1.5, (MAX_DRAFT + 1, 6)).astype(np.float32)
    drafter = (target[:-1] + rng.normal(0, 0.7, (MAX_DRAFT, 6))).astype(np.float32)
    rounds = verify_rounds(
        target.tolist(), drafter.tolist(), sampling(5), 60_000, token_wise=token_wise
    )
    for position in range(MAX_DRAFT + 1):
        seen = [tokens[position] for tokens in rounds if len(tokens) > position]
        # Given that a round got here, its token is one of p: accepted, residual or bonus.
        p = reference(target[position], **ALL)
        assert g_test(Counter(seen), dict(enumerate(p)), len(seen)) > 1e-4
    lengths = Counter(len(tokens) for tokens in rounds)
    assert set(lengths) == set(range(1, MAX_DRAFT + 2))


def test_acceptance_rate_is_the_overlap_of_the_two_distributions(token_wise):
    rng = np.random.default_rng(2)
    target, drafter = rng.normal(0, 1, (2, 12)), rng.normal(0, 1, (1, 12))
    rounds = verify_rounds(
        target.tolist(), drafter.tolist(), sampling(8), 40_000, token_wise=token_wise
    )
    p = reference(target[0].astype(np.float32), **ALL)
    q = reference(drafter[0].astype(np.float32), **ALL)
    overlap = np.minimum(p, q).sum()
    accepted = sum(len(tokens) == 2 for tokens in rounds)
    assert stats.binomtest(accepted, len(rounds), overlap).pvalue > 1e-3


def test_greedy_accepts_exactly_the_drafts_that_are_the_targets_choice(token_wise):
    def row(best: int) -> list[float]:
        return [5.0 if i == best else 0.0 for i in range(4)]

    rounds = verify_rounds(
        [row(2), row(1), row(3)],
        [row(2), row(0)],
        sampling(temperature=0.0),
        10,
        token_wise=token_wise,
    )
    assert rounds == [[2, 1]] * 10
    rounds = verify_rounds(
        [row(2), row(1), row(3)],
        [row(2), row(1)],
        sampling(temperature=0.0),
        3,
        token_wise=token_wise,
    )
    assert rounds == [[2, 1, 3]] * 3


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_not_finite_are_an_error(bad):
    with pytest.raises(DamagedFileError, match="not finite"):
        verify_rounds([[0.0, bad, 1.0]], [], sampling(), 1)
    with pytest.raises(DamagedFileError, match="not finite"):
        verify_rounds([[0.0, 1.0], [0.0, 1.0]], [[bad, 0.0]], sampling(), 1)


def test_a_row_of_minus_infinity_is_an_error_and_a_single_one_is_not():
    with pytest.raises(DamagedFileError, match="not finite"):
        verify_rounds([[-math.inf] * 3], [], sampling(), 1)
    row = [-math.inf, 0.0, -math.inf]
    assert {t[0] for t in verify_rounds([row], [], sampling(), 200)} == {1}


def test_rows_after_a_certain_rejection_are_not_looked_at(token_wise):
    drafter = [logits_of([0.0, 1.0]), logits_of([1.0, 0.0])]
    target = [logits_of([1.0, 0.0]), [math.nan, 0.0], [math.nan, 0.0]]
    rounds = verify_rounds(target, drafter, sampling(), 100, token_wise=token_wise)
    assert rounds == [[0]] * 100


def test_impossible_sampling_is_refused():
    for changes in ({"temperature": -1.0}, {"top_p": 0.0}, {"min_p": 1.5}, {"top_k": -1}):
        with pytest.raises(UsageError):
            verify_rounds([[0.0, 1.0]], [], sampling(**changes), 1)


def test_the_same_seed_draws_the_same_tokens(token_wise):
    rng = np.random.default_rng(4)
    target, drafter = rng.normal(0, 2, (4, 20)).tolist(), rng.normal(0, 2, (3, 20)).tolist()
    one, two, other = (
        verify_rounds(target, drafter, sampling(s), 200, token_wise=token_wise) for s in (7, 7, 8)
    )
    assert one == two
    assert one != other


def test_joint_distribution_of_a_round_is_that_of_drawing_one_by_one(token_wise):
    """Two drafts and the token after them, compared cell by cell with the product of the p."""
    rng = np.random.default_rng(21)
    target = rng.normal(0, 1, (3, 3)).astype(np.float32)
    drafter = rng.normal(0, 1, (2, 3)).astype(np.float32)
    filler = random.Random(5)
    p = [reference(row, **ALL) for row in target]
    counts: Counter = Counter()
    rounds = verify_rounds(
        target.tolist(), drafter.tolist(), sampling(13), 60_000, token_wise=token_wise
    )
    for tokens in rounds:
        # A rejected round stops early; the tokens it owes come from p, as a next round would.
        owed = [filler.choices(range(3), p[i])[0] for i in range(len(tokens), 3)]
        counts[(*tokens, *owed)] += 1
    expected = {
        cell: p[0][cell[0]] * p[1][cell[1]] * p[2][cell[2]]
        for cell in itertools.product(range(3), repeat=3)
    }
    assert g_test(counts, expected, len(rounds)) > 1e-3
