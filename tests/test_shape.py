"""A row of logits becomes the distribution that NumPy makes of it, on every instruction set."""

from __future__ import annotations

import ctypes
import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
from embedded import PROMPTS, TARGET, chat_tokens, open_handle, probe
from reference_sampling import TOLERANCE, references
from scipy import stats

from gemmachat import Engine, bridge
from gemmachat.errors import DamagedFileError, UsageError
from gemmachat.native import library
from gemmachat.native_structs import MAX_WIDTH, NativeSampling

FULL = 262_144
SIZES = (1, 2, 63, 64, 65, 1000, 5000, 70_001, FULL)
SETTINGS: tuple[dict[str, float], ...] = (
    {},
    {"temperature": 0.7},
    {"top_k": 64, "top_p": 0.95},
    {"top_k": 1},
    {"top_k": 5000},
    {"top_p": 0.95},
    {"top_p": 0.3, "temperature": 1.5},
    {"top_p": 1e-6},
    {"top_p": 0.9999},
    {"min_p": 0.05},
    {"min_p": 1.0},
    {"typical_p": 0.9},
    {"top_k": 100, "typical_p": 0.2},
    {"temperature": 1.3, "top_p": 0.9, "min_p": 0.02},
    {"temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.05, "typical_p": 0.8},
    {"temperature": 1e-3, "top_p": 0.9},
    {"temperature": 100.0, "top_k": 300, "top_p": 0.5},
    {"temperature": 100.0, "min_p": 0.98},
    {"temperature": 0.0},
)


class Shaped(NamedTuple):
    ids: np.ndarray  # int32, ascending
    p: np.ndarray  # float64
    log_total: float


def pointer(row: np.ndarray) -> ctypes.Array:
    return row.ctypes.data_as(ctypes.POINTER(ctypes.c_float))


def shape(row: np.ndarray, variant: str | None = None, **filters: float) -> Shaped:
    settings = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, **filters}
    ids, p = np.empty(len(row), np.int32), np.empty(len(row), np.float64)
    count, log_total = ctypes.c_int32(), ctypes.c_double()
    bridge.check(
        library().gc_shape_row(
            pointer(row),
            len(row),
            NativeSampling(**settings, seed=0),
            variant and variant.encode(),
            ids.ctypes.data_as(ctypes.POINTER(ctypes.c_int32)),
            p.ctypes.data_as(ctypes.POINTER(ctypes.c_double)),
            len(row),
            ctypes.byref(count),
            ctypes.byref(log_total),
        )
    )
    return Shaped(ids[: count.value], p[: count.value], log_total.value)


def agrees(shaped: Shaped, row: np.ndarray, temperature: float, ids: np.ndarray, p: np.ndarray):
    """Whether the support is the same and every probability as good as single precision allows."""
    possible = p > 1e-37  # e^-87 times the largest is nothing in single precision
    order = np.argsort(ids[possible])
    ids, p = ids[possible][order], p[possible][order]
    ours = shaped.p > 1e-37
    if not np.array_equal(shaped.ids[ours], ids):
        return False
    x = (row[ids].astype(np.float64) - row.max()) / (temperature or 1.0)
    error = np.abs(shaped.p[ours] - p)
    return error.max() <= TOLERANCE and (error / p <= 5e-7 + 3e-7 * np.abs(x)).all()


def check(row: np.ndarray, **filters: float) -> None:
    shaped = shape(row, **filters)
    assert (np.diff(shaped.ids) > 0).all()
    assert (shaped.p > 0).all()
    assert abs(shaped.p.sum() - 1.0) < 1e-12
    temperature = filters.get("temperature", 1.0)
    answers = references(row, **filters)
    assert any(agrees(shaped, row, temperature, ids, p) for ids, p in answers)
    logits = row.astype(np.float64)
    assert shaped.log_total == pytest.approx(np.log(np.exp(logits - logits.max()).sum()), abs=1e-6)


def peaked(n: int, seed: int) -> np.ndarray:
    """Noise with a few likely tokens."""
    rng = np.random.default_rng(seed)
    row = rng.normal(0, 3, n).astype(np.float32)
    row[rng.integers(0, n, 20)] = rng.uniform(12, 20, 20)
    return row


def tied(n: int) -> np.ndarray:
    """Three values only: every cut goes through equal logits."""
    return np.random.default_rng(n).choice(np.float32([0.0, 1.0, 2.5]), n)


def adversaries(n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n)
    one_hot = np.full(n, -np.inf, np.float32)
    one_hot[n // 2] = 3.0
    few = np.where(rng.random(n) < 0.01, rng.normal(0, 2, n), -np.inf).astype(np.float32)
    few[-1] = 0.5
    side_by_side = rng.normal(0, 1, n).astype(np.float32)
    side_by_side[-n // 3 :][:500] += 20
    return {
        "ties": tied(n),
        "all equal": np.full(n, -7.25, np.float32),
        "zeros of both signs": rng.choice(np.float32([0.0, -0.0]), n),
        "one possible": one_hot,
        "few possible": few,
        "side by side": side_by_side,
        "ascending": np.linspace(-20, 10, n, dtype=np.float32),
        "denormal": (rng.normal(0, 1, n) * 1e-41).astype(np.float32),
        "huge": (rng.choice([-1.0, 1.0], n) * 1e30).astype(np.float32),
        "largest": rng.choice(np.float32([3.4e38, -3.4e38]), n),
        "far apart": (10.0 ** rng.uniform(-30, 30, n)).astype(np.float32),
        "flat": rng.normal(0, 0.01, n).astype(np.float32),
    }


@pytest.mark.parametrize("filters", SETTINGS, ids=str)
@pytest.mark.parametrize("n", SIZES)
def test_random_rows_become_what_numpy_makes_of_them(n, filters):
    check(peaked(n, seed=n), **filters)
    check(np.random.default_rng(n).normal(0, 1, n).astype(np.float32), **filters)


@pytest.mark.parametrize("filters", SETTINGS, ids=str)
@pytest.mark.parametrize("name", adversaries(2))
def test_adversarial_rows_become_what_numpy_makes_of_them(name, filters):
    for n in (130, 20_011):
        check(adversaries(n)[name], **filters)


@pytest.mark.parametrize("top_k", [1, 2, 31, 64, 65, 999, 1000, 1001])
def test_top_k_keeps_k_tokens_whatever_is_tied(top_k):
    for row in (peaked(1000, 1), tied(1000), np.zeros(1000, np.float32)):
        assert len(shape(row, top_k=top_k).ids) == min(top_k, 1000)
        check(row, top_k=top_k)


def test_extreme_temperatures_neither_overflow_nor_vanish():
    row = peaked(5000, 3)
    for temperature in (1e-42, 1e-30, 1e-3):
        check(row, temperature=temperature, top_p=0.9)
        assert shape(row, temperature=temperature).ids[0] == np.argmax(row)
        check(
            np.float32([1e30, np.nextafter(np.float32(1e30), 0)]),
            temperature=temperature,
            typical_p=0.9,
        )
    for temperature in (1e30, 3e38):
        check(row, temperature=temperature)
        check(row, temperature=temperature, top_k=7)


def test_equal_logits_rank_by_token_id():
    row = np.float32([0.0, 1.0, 1.0, 1.0])
    assert shape(row, temperature=0.0).ids.tolist() == [1]
    assert shape(row, top_k=2).ids.tolist() == [1, 2]
    assert shape(row, top_p=0.5).ids.tolist() == [1, 2]


def test_top_p_keeps_the_token_that_crosses_the_line():
    row = np.log(np.float32([0.5, 0.3, 0.15, 0.05]))
    assert shape(row, top_p=0.7).ids.tolist() == [0, 1]
    # Of what top-k leaves, 0.5 / 0.8 is enough.
    assert shape(row, top_k=2, top_p=0.6).ids.tolist() == [0]


def test_typical_p_can_drop_the_most_likely_token():
    row = np.log(np.float32([0.4, 0.15, 0.15, 0.15, 0.15]))
    assert shape(row, typical_p=0.2).ids.tolist() == [1, 2, 3, 4]  # equally close: all stay
    # What min-p leaves is uniform, and all of it typical.
    assert shape(row, min_p=1.0, typical_p=0.2).ids.tolist() == [0]


@pytest.mark.parametrize("bad", [math.nan, -math.nan, math.inf])
@pytest.mark.parametrize("place", [0, 1, 63, 64, 1000, 1023, 1024, 1055])
def test_a_number_that_is_not_finite_is_an_error_wherever_it_is(place, bad):
    row = peaked(1056, 2)
    row[place] = bad
    for filters in ({}, {"temperature": 0.0}, {"top_k": 3}, {"top_p": 0.5}, {"min_p": 0.5}):
        with pytest.raises(DamagedFileError, match="not finite"):
            shape(row, **filters)


def test_a_row_where_nothing_is_possible_is_an_error():
    with pytest.raises(DamagedFileError, match="not finite"):
        shape(np.full(500, -np.inf, np.float32))


def test_rows_of_a_real_model_become_what_numpy_makes_of_them():
    with Engine.load(TARGET, threads=1) as engine:
        handle = open_handle(engine)
        for prompt in PROMPTS[:4]:
            handle.sync(chat_tokens(engine, prompt))
            for filters in SETTINGS:
                check(probe(handle), **filters)


@pytest.mark.parametrize("variant", ["avx2", "avx512"])
def test_instruction_sets_return_the_same_bits(variant):
    try:
        shape(np.zeros(1, np.float32), variant)
    except UsageError:
        pytest.skip(f"this processor does not run {variant}")
    rows = [peaked(FULL, 4), peaked(70_001, 5), *adversaries(20_011).values()]
    for row, filters in itertools.product(rows, SETTINGS):
        one, other = shape(row, "portable", **filters), shape(row, variant, **filters)
        assert one.ids.tobytes() == other.ids.tobytes()
        assert one.p.tobytes() == other.p.tobytes()
        assert one.log_total == other.log_total


def test_an_unknown_instruction_set_is_refused():
    with pytest.raises(UsageError, match="does not run"):
        shape(np.zeros(1, np.float32), "mmx")


@pytest.mark.parametrize("n", [1, 5, 20, 200])
def test_best_tokens_are_ranked_with_their_log_probabilities(n):
    for row in (peaked(FULL, 6), tied(5000), adversaries(130)["few possible"]):
        ids, logprobs = (ctypes.c_int32 * n)(), (ctypes.c_float * n)()
        count = ctypes.c_int32()
        bridge.check(
            library().gc_best_tokens(pointer(row), len(row), n, ids, logprobs, ctypes.byref(count))
        )
        ranked = np.lexsort((np.arange(len(row)), -row))[:n]
        ranked = ranked[row[ranked] > -np.inf]
        logits = row.astype(np.float64)
        expected = logits[ranked] - logits.max() - np.log(np.exp(logits - logits.max()).sum())
        assert ids[: count.value] == ranked.tolist()
        np.testing.assert_allclose(logprobs[: count.value], expected, atol=2e-6)


def test_draws_follow_the_distribution():
    row = np.random.default_rng(7).normal(0, 1, 300).astype(np.float32)
    sampling = NativeSampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=9)
    n_draws = 200_000
    out, counts = (ctypes.c_int32 * (n_draws * MAX_WIDTH))(), (ctypes.c_int32 * n_draws)()
    bridge.check(
        library().gc_verify_rounds(
            pointer(row), None, 0, len(row), ctypes.byref(sampling), False, n_draws, out, counts
        )
    )
    seen = np.bincount(np.ctypeslib.as_array(out)[::MAX_WIDTH], minlength=len(row))
    assert stats.chisquare(seen, shape(row).p * n_draws).pvalue > 1e-3
