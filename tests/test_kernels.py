"""Products by the kernels in native/kernels, held against ggml's and against float64."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Kind
from gguf.quants import dequantize
from matrix_products import Bytes, Floats, by_ggml, kernels
from random_blocks import fill, random_rows, set_scales

from gemmachat.errors import UsageError

WIDTHS = [*range(1, 10), 16, 31, 33, 64]


def runs(instructions: str, kind: Kind) -> bool:
    """Whether this processor has a kernel of these instructions for the type."""
    rows = np.zeros((16, GGML_QUANT_SIZES[kind][1]), np.uint8)
    try:
        with kernels(rows, kind, instructions):
            return True
    except UsageError:
        return False


# Of these, ggml adds up the same numbers in the same order.
EXACT = (Kind.Q4_0, Kind.IQ4_NL, Kind.Q8_0)
KINDS = (*EXACT, Kind.Q4_K, Kind.Q5_K, Kind.Q6_K)
ALL = [
    pytest.param(instructions, kind, id=f"{kind.name}-{instructions}")
    for kind in KINDS
    for instructions in ("portable", "portable16", "avx2", "avxvnni", "avx512vnni")
    if runs(instructions, kind)
]
each_kernel = pytest.mark.parametrize(("instructions", "kind"), ALL)


def activations(m: int, k: int, rng: np.random.Generator) -> Floats:
    """Activations whose magnitudes differ as much as a network's do."""
    return (rng.standard_normal((m, k)) * rng.lognormal(0, 2, (m, k))).astype(np.float32)


def quantized(x: Floats, kind: Kind) -> np.ndarray:
    """The values [m, k], in float64, that ggml quantizes rows of activations to."""
    block = GGML_QUANT_SIZES[kind][0]
    blocks = x.reshape(len(x), -1, block)
    if block == 32:
        largest = np.abs(blocks).max(-1, keepdims=True)
        scales = (largest / np.float32(127)).astype(np.float16)
        quanta = np.rint(blocks * (np.float32(127) / largest))
    else:
        at = np.abs(blocks).argmax(-1, keepdims=True)
        inverse = np.float32(-127) / np.take_along_axis(blocks, at, -1)
        scales = 1 / inverse
        quanta = np.rint(blocks * inverse)
    return (scales.astype(np.float64) * quanta).reshape(x.shape)


def magnitude(rows: Bytes, kind: Kind, x: Floats) -> np.ndarray:
    """The sums [m, n] of absolute products, against which errors are measured."""
    return np.abs(x).astype(np.float64) @ np.abs(dequantize(rows, kind)).astype(np.float64).T


def assert_agrees_with_ggml(ours: Floats, rows: Bytes, kind: Kind, x: Floats) -> None:
    """Holds a product against ggml's: the same bits, or at most 1e-6 off."""
    theirs = by_ggml(rows, kind, x)
    if kind in EXACT:
        assert same_bits(ours, theirs)
    else:
        assert np.all(np.abs(ours - theirs.astype(np.float64)) <= 1e-6 * magnitude(rows, kind, x))


def same_bits(a: Floats, b: Floats) -> bool:
    return bool(np.array_equal(a.view(np.uint32), b.view(np.uint32)))


@each_kernel
@pytest.mark.parametrize("m", WIDTHS)
def test_products_agree_with_ggml(instructions: str, kind: Kind, m: int) -> None:
    rng = np.random.default_rng(m)
    rows, x = random_rows(32, 1536, kind, rng), activations(m, 1536, rng)
    with kernels(rows, kind, instructions) as packed:
        assert_agrees_with_ggml(packed.multiply(x)[0], rows, kind, x)


@each_kernel
def test_products_are_as_near_to_float64_as_those_of_ggml(instructions: str, kind: Kind) -> None:
    rng = np.random.default_rng(0)
    rows, x = random_rows(96, 2048, kind, rng), activations(16, 2048, rng)
    exact = quantized(x, kind) @ dequantize(rows, kind).astype(np.float64).T
    size = magnitude(rows, kind, x)
    with kernels(rows, kind, instructions) as packed:
        ours = np.abs(packed.multiply(x)[0] - exact) / size
    theirs = np.abs(by_ggml(rows, kind, x) - exact) / size
    assert ours.max() <= 1e-6
    assert np.sqrt(np.mean(ours**2)) <= 1.05 * np.sqrt(np.mean(theirs**2))


def test_one_row_of_q4_k_has_the_bits_of_ggml() -> None:
    # With four rows or more, ggml itself adds up in another order.
    rng = np.random.default_rng(0)
    rows, x = random_rows(64, 2560, Kind.Q4_K, rng), activations(1, 2560, rng)
    with kernels(rows, Kind.Q4_K, "portable") as packed:
        assert same_bits(packed.multiply(x)[0], by_ggml(rows, Kind.Q4_K, x))


@each_kernel
@pytest.mark.parametrize("n_blocks", [1, 2, 3, 9, 63, 65])
def test_any_number_of_blocks(instructions: str, kind: Kind, n_blocks: int) -> None:
    rng, k = np.random.default_rng(n_blocks), n_blocks * GGML_QUANT_SIZES[kind][0]
    for n in (16, 48):
        rows, x = random_rows(n, k, kind, rng), activations(9, k, rng)
        with kernels(rows, kind, instructions) as packed:
            assert_agrees_with_ggml(packed.multiply(x)[0], rows, kind, x)


@each_kernel
def test_a_row_does_not_depend_on_width_place_or_threads(instructions: str, kind: Kind) -> None:
    rng = np.random.default_rng(0)
    x = activations(64, 1536, rng)
    with kernels(random_rows(48, 1536, kind, rng), kind, instructions) as packed:
        alone = np.concatenate([packed.multiply(x[i : i + 1])[0] for i in range(64)])
        for m in (*range(2, 10), 31, 64):
            for first, threads in ((0, 1), (1, 2), (64 - m, 3)):
                batch = x[first : first + m]
                expected = alone[first : first + m]
                assert same_bits(packed.multiply(batch, threads)[0], expected)


@each_kernel
def test_rows_of_a_prefill_equal_single_rows(instructions: str, kind: Kind) -> None:
    # More rows and columns than stay in the cache at a time.
    rng = np.random.default_rng(0)
    x = activations(140, 4096, rng)
    with kernels(random_rows(16, 4096, kind, rng), kind, instructions) as packed:
        together = packed.multiply(x)[0]
        for i in (0, 1, 63, 127, 128, 139):
            assert same_bits(together[i : i + 1], packed.multiply(x[i : i + 1])[0])


@each_kernel
def test_zeros_extremes_and_denormals(instructions: str, kind: Kind) -> None:
    rng = np.random.default_rng(0)
    rows = random_rows(80, 1024, kind, rng)
    blocks = rows.reshape(80, -1, GGML_QUANT_SIZES[kind][1])
    smallest, largest = 2.0**-24, 65504.0
    for i, scale in enumerate((0.0, -0.0, smallest, -smallest, 2.0**-14, largest, -largest)):
        set_scales(blocks[i * 8 : i * 8 + 8], kind, np.full((8, blocks.shape[1]), scale))
    for i, byte in enumerate((0x00, 0xFF, 0x80, 0x7F)):
        fill(blocks[56 + i * 4 : 60 + i * 4], kind, byte)
    x = activations(12, 1024, rng)
    x[0] = 0.0
    x[1] = -0.0
    x[2] = np.finfo(np.float32).smallest_subnormal
    x[3] = np.finfo(np.float32).tiny
    x[4] = 1.0
    x[5] = -1.0
    x[6] = np.where(np.arange(1024) % 2 == 0, 1.0, -1.0)
    x[7] = 65504.0
    x[8, 500:] = 0.0
    with kernels(rows, kind, instructions) as packed:
        assert_agrees_with_ggml(packed.multiply(x)[0], rows, kind, x)


@each_kernel
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_scales_that_are_no_numbers_spread_as_in_ggml(
    instructions: str, kind: Kind, bad: float
) -> None:
    rng = np.random.default_rng(0)
    rows, x = random_rows(48, 512, kind, rng), activations(5, 512, rng)
    blocks = rows.reshape(48, -1, GGML_QUANT_SIZES[kind][1])
    scales = rng.standard_normal((48, blocks.shape[1]))
    scales[[3, 17, 40], [0, 1, -1]] = bad
    set_scales(blocks, kind, scales)
    with kernels(rows, kind, instructions) as packed:
        ours, theirs = packed.multiply(x)[0], by_ggml(rows, kind, x)
    if kind in EXACT:
        np.testing.assert_array_equal(ours, theirs)
    else:  # which infinity, or inf - inf, is a matter of order
        np.testing.assert_array_equal(np.isfinite(ours), np.isfinite(theirs))
    assert np.isfinite(ours).sum() == 5 * 45


@each_kernel
def test_activations_that_are_no_numbers_stay_in_their_row(instructions: str, kind: Kind) -> None:
    rng = np.random.default_rng(0)
    rows, x = random_rows(48, 512, kind, rng), activations(7, 512, rng)
    with kernels(rows, kind, instructions) as packed:
        before = packed.multiply(x)[0]
        x[3, 100] = np.inf
        x[5, -1] = np.nan
        after = packed.multiply(x)[0]
    others = [0, 1, 2, 4, 6]
    assert same_bits(after[others], before[others])
    assert not np.isfinite(after[3]).any()


def test_sizes_that_no_group_has_are_refused() -> None:
    rows = random_rows(9, 64, Kind.Q4_0, np.random.default_rng(0))
    with pytest.raises(UsageError, match="of this size"), kernels(rows, Kind.Q4_0, "portable"):
        pass


def test_matrices_of_unlike_columns_and_too_many_threads_are_refused() -> None:
    rng = np.random.default_rng(13)
    x = np.ones((1, 64), np.float32)
    with (
        kernels(random_rows(16, 64, Kind.Q4_0, rng), Kind.Q4_0, "portable") as one,
        kernels(random_rows(16, 128, Kind.Q4_0, rng), Kind.Q4_0, "portable") as other,
    ):
        for threads in (0, 513):
            with pytest.raises(UsageError, match="that many threads cannot run"):
                one.multiply(x, threads)
        both = (ctypes.c_void_p * 2)(one.handles[0], other.handles[0])
        one.handles, kept = both, one.handles
        with pytest.raises(UsageError, match="all matrices need the same columns"):
            one.multiply(x)
        one.handles = kept
