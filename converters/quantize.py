"""Which GGML type each tensor gets, and the bytes of that type.

Vectors (norms, scales) and the rotary factors stay F32: they are small and every value counts.
A matrix whose rows the block type cannot divide stays F16.
"""

import math
from dataclasses import dataclass

import gguf.quants
import numpy as np
import numpy.typing as npt
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from .errors import ConversionError, quoted


@dataclass(frozen=True, slots=True)
class Quantization:
    """A choice on the command line: the GGML type of matrices and llama.cpp's file type id."""

    name: str
    matrix_type: GGMLQuantizationType
    file_type: int


QUANTIZATIONS = {
    choice.name: choice
    for choice in (
        Quantization("F32", GGMLQuantizationType.F32, 0),
        Quantization("F16", GGMLQuantizationType.F16, 1),
        Quantization("Q8_0", GGMLQuantizationType.Q8_0, 7),
    )
}


def find_quantization(name: str) -> Quantization:
    """The choice called `name`. Raises ConversionError, naming the choices there are."""
    try:
        return QUANTIZATIONS[name]
    except KeyError:
        raise ConversionError(
            f"Quantization {quoted(name)} is not known: choose one of {', '.join(QUANTIZATIONS)}."
        ) from None


def tensor_type(shape: tuple[int, ...], choice: Quantization) -> GGMLQuantizationType:
    """The type of a tensor of this shape, last dimension contiguous."""
    if len(shape) < 2:
        return GGMLQuantizationType.F32
    block, _ = GGML_QUANT_SIZES[choice.matrix_type]
    return GGMLQuantizationType.F16 if shape[-1] % block else choice.matrix_type


def encoded_bytes(shape: tuple[int, ...], kind: GGMLQuantizationType) -> int:
    """How many bytes a tensor of this shape takes in `kind`."""
    block, block_bytes = GGML_QUANT_SIZES[kind]
    return math.prod(shape) // int(block) * int(block_bytes)


def encode(rows: npt.NDArray[np.float32], kind: GGMLQuantizationType) -> npt.NDArray[np.generic]:
    """`rows` [n, width] as `kind`. Raises ConversionError where F16 cannot hold a value."""
    if kind == GGMLQuantizationType.F32:
        return rows
    if kind == GGMLQuantizationType.F16 and np.abs(rows).max(initial=0.0) > 65504.0:
        raise ConversionError("A weight is too large for F16: convert with --quant F32.")
    encoded: npt.NDArray[np.generic] = gguf.quants.quantize(rows, kind)
    return encoded
