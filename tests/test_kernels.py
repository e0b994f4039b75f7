"""Products by the kernels in native/kernels, held against ggml's and against float64."""

from __future__ import annotations

import numpy as np
import pytest
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Kind
from gguf.quants import dequantize
from matrix_products import Floats, by_ggml, kernels
from random_blocks import fill, random_rows, set_scales

from gemmachat.errors import UsageError

WIDTHS = [*range(1, 18), 31, 33, 64]


def runs(instructions: str, kind: Kind) -> bool:
    """Whether this processor has a kernel of these instructions for the type."""
    rows = np.zeros((16, GGML_QUANT_SIZES[kind][1]), np.uint8)
    try:
        with kernels(rows, kind, instructions):
            return True
    except UsageError:
        return False


EXACT = [Kind.Q4_0, Kind.Q8_0]
ALL = [
    pytest.param(instructions, kind, id=f"{kind.name}-{instructions}")
    for kind in EXACT
    for instructions in ("portable", "portable16", "avx2", "avxvnni", "avx512vnni")
    if runs(instructions, kind)
]
each_kernel = pytest.mark.parametrize(("instructions", "kind"), ALL)


def activations(m: int, k: int, rng: np.random.Generator) -> Floats:
    """Activations whose magnitudes differ as much as a network's do."""
    return (rng.standard_normal((m, k)) * rng.lognormal(0, 2, (m, k))).astype(np.float32)


def same_bits(a: Floats, b: Floats) -> bool:
    return bool(np.array_equal(a.view(np.uint32), b.view(np.uint32)))


@each_kernel
@pytest.mark.parametrize("m", WIDTHS)
def test_products_equal_ggml_bit_for_bit(instructions: str, kind: Kind, m: int) -> None:
    rng = np.random.default_rng(m)
    rows, x = random_rows(48, 1536, kind, rng), activations(m, 1536, rng)
    with kernels(rows, kind, instructions) as packed:
        assert same_bits(packed.multiply(x)[0], by_ggml(rows, kind, x))


@each_kernel
def test_products_agree_with_float64(instructions: str, kind: Kind) -> None:
    rng = np.random.default_rng(0)
    rows, x = random_rows(16, 512, kind, rng), activations(8, 512, rng)
    # Activations that Q8 holds exactly: multiples of a scale of which the largest is 127.
    x = (np.round(x.clip(-1, 1) * 127) * 2**-6).astype(np.float32)
    x[:, ::32] = 127 * 2**-6
    weights = dequantize(rows, kind).astype(np.float64)
    exact, magnitude = x.astype(np.float64) @ weights.T, np.abs(x) @ np.abs(weights.T)
    with kernels(rows, kind, instructions) as packed:
        assert np.all(np.abs(packed.multiply(x)[0] - exact) <= 1e-6 * magnitude)


@each_kernel
@pytest.mark.parametrize("k", [32, 64, 96, 512, 2016, 2048, 2080, 12288])
def test_any_number_of_blocks(instructions: str, kind: Kind, k: int) -> None:
    if k % GGML_QUANT_SIZES[kind][0] != 0:
        pytest.skip("not a whole number of blocks")
    rng = np.random.default_rng(k)
    for n in (16, 80):
        rows, x = random_rows(n, k, kind, rng), activations(9, k, rng)
        with kernels(rows, kind, instructions) as packed:
            assert same_bits(packed.multiply(x)[0], by_ggml(rows, kind, x))


@each_kernel
def test_a_row_does_not_depend_on_width_place_or_threads(instructions: str, kind: Kind) -> None:
    rng = np.random.default_rng(0)
    x = activations(64, 3072, rng)
    with kernels(random_rows(112, 3072, kind, rng), kind, instructions) as packed:
        alone = np.concatenate([packed.multiply(x[i : i + 1])[0] for i in range(64)])
        for m in WIDTHS:
            for first in {0, 1, 64 - m}:
                batch = x[first : first + m]
                for threads in (1, 2, 3):
                    together = packed.multiply(batch, threads)[0]
                    assert same_bits(together, alone[first : first + m])


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
    x[7] = 65504.0 * 127
    x[8, 500:] = 0.0
    with kernels(rows, kind, instructions) as packed:
        assert same_bits(packed.multiply(x)[0], by_ggml(rows, kind, x))


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
    np.testing.assert_array_equal(ours, theirs)
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
