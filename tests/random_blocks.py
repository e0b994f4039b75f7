"""Rows of random quantized weights, and what tests change in them."""

from __future__ import annotations

import numpy as np
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Kind
from matrix_products import Bytes, Floats

# Where blocks hold half-precision floats.
SCALES = {
    Kind.Q4_0: (0,),
    Kind.IQ4_NL: (0,),
    Kind.Q8_0: (0,),
    Kind.Q4_K: (0, 2),
    Kind.Q5_K: (0, 2),
    Kind.Q6_K: (208,),
}


def random_rows(n: int, k: int, kind: Kind, rng: np.random.Generator) -> Bytes:
    """Rows of random blocks, whose scales are about 1e-2 and of either sign."""
    block, size = GGML_QUANT_SIZES[kind]
    rows = rng.integers(0, 256, (n, k // block, size), np.uint8)
    set_scales(rows, kind, rng.standard_normal((n, k // block)) * 1e-2)
    return rows.reshape(n, -1)


def set_scales(blocks: Bytes, kind: Kind, scales: Floats) -> None:
    """Gives every block [n, block, bytes] its scale [n, block], and the same minimum."""
    for at in SCALES[kind]:
        blocks[:, :, at : at + 2] = scales.astype("<f2")[:, :, None].view(np.uint8)


def fill(blocks: Bytes, kind: Kind, byte: int) -> None:
    """Makes every byte of the blocks but the scales this one."""
    kept = [at + i for at in SCALES[kind] for i in range(2)]
    others = np.setdiff1d(np.arange(blocks.shape[2]), kept)
    blocks[:, :, others] = byte
