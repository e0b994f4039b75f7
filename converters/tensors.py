"""A tensor as it lies in a file: whole rows are read on demand, never all of it at once."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf.constants import GGMLQuantizationType

from .errors import CheckpointError, quoted
from .files import opened
from .ggml import Bytes, Floats, can_dequantize, dequantize, row_bytes

FLOATS = ("F32", "F16", "BF16")
_NO_WEIGHTS = ("I8", "I16", "I32", "I64", "F64")
_INTEGERS: dict[str, np.dtype[Any]] = {"I64": np.dtype("<i8"), "I32": np.dtype("<i4")}
# Bits of the exponent: all set in a NaN or an infinity, and in no other value.
_EXPONENT: dict[str, np.uint32 | np.uint16] = {
    "F32": np.uint32(0x7F80_0000),
    "F16": np.uint16(0x7C00),
    "BF16": np.uint16(0x7F80),
}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Where one tensor lies. `shape` ends with the row width; `begin` counts bytes of `file`.

    `dtype` is the name of a GGML type, or one of safetensors' that GGML does not have.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: Path
    begin: int

    @property
    def width(self) -> int:
        """Weights in a row."""
        return self.shape[-1] if self.shape else 1

    @property
    def rows(self) -> int:
        """How many rows there are in all."""
        return math.prod(self.shape) // self.width

    @property
    def kind(self) -> GGMLQuantizationType:
        """The GGML type. Raises CheckpointError where there is none for weights."""
        # A safetensors integer type may share its name with a GGML type that holds no weights.
        kind = GGMLQuantizationType.__members__.get(self.dtype)
        if kind is None or self.dtype in _NO_WEIGHTS or not can_dequantize(kind):
            raise CheckpointError(
                f"Tensor {quoted(self.name)} in {quoted(self.file.name)} has type {self.dtype}, "
                "which cannot be converted: use weights in BF16, F16 or F32."
            )
        return kind

    def encoded(self, first: int, count: int) -> Bytes:
        """Rows `first` up to `first + count` as they are stored, [count, bytes of a row]."""
        size = row_bytes(self.width, self.kind)
        return _read(self, first * size, count * size).reshape(count, size)

    def integers(self) -> npt.NDArray[np.int64]:
        """The whole tensor as int64. Raises CheckpointError for a type other than I64, I32."""
        if self.dtype not in _INTEGERS:
            raise CheckpointError(
                f"Tensor {quoted(self.name)} has type {self.dtype}, but it must hold integers."
            )
        kind = _INTEGERS[self.dtype]
        values = _read(self, 0, math.prod(self.shape) * kind.itemsize).view(kind)
        integers: npt.NDArray[np.int64] = values.astype(np.int64).reshape(self.shape)
        return integers

    def floats(self) -> Floats:
        """The whole tensor as float32."""
        return decoded(self.encoded(0, self.rows), self.kind, self.width).reshape(self.shape)


def decoded(encoded: Bytes, kind: GGMLQuantizationType, width: int) -> Floats:
    """Rows of `kind` as float32 [n, width]."""
    if kind == GGMLQuantizationType.F32:
        return encoded.view("<f4").astype(np.float32, copy=False)
    if kind == GGMLQuantizationType.F16:
        return encoded.view("<f2").astype(np.float32)
    if kind == GGMLQuantizationType.BF16:
        # bfloat16 is the upper half of a float32.
        return (encoded.view("<u2").astype(np.uint32) << 16).view(np.float32)
    return dequantize(encoded, kind, width)


def count_not_finite(encoded: Bytes, kind: GGMLQuantizationType, width: int) -> int:
    """How many weights of the rows are NaN or infinite."""
    mask = _EXPONENT.get(kind.name)
    if mask is None:
        return int(np.count_nonzero(~np.isfinite(decoded(encoded, kind, width))))
    bits = encoded.view(mask.dtype)
    return int(np.count_nonzero((bits & mask) == mask))


def _read(tensor: StoredTensor, offset: int, size: int) -> Bytes:
    with opened(tensor.file) as file:
        file.seek(tensor.begin + offset)
        data = file.read(size)
    if len(data) != size:
        raise CheckpointError(f"{quoted(tensor.file, 200)} became shorter while it was read.")
    return np.frombuffer(data, np.uint8)
