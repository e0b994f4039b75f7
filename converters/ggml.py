"""llama.cpp's own quantizer, row by row, through ctypes: the bytes are those of llama-quantize.

The library is the one that the Python package llama_cpp carries; its functions release the
interpreter lock, so that blocks of rows can be quantized on several threads.
"""

import ctypes
import functools
import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from .errors import ConversionError

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

_TO_FLOAT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


class _TypeTraits(ctypes.Structure):
    """ggml_type_traits of ggml.h."""

    _fields_ = (
        ("type_name", ctypes.c_char_p),
        ("blck_size", ctypes.c_int64),
        ("blck_size_interleave", ctypes.c_int64),
        ("type_size", ctypes.c_size_t),
        ("is_quantized", ctypes.c_bool),
        ("to_float", _TO_FLOAT),
        ("from_float_ref", ctypes.c_void_p),
    )


def quantize(rows: Floats, kind: GGMLQuantizationType, importance: Floats | None = None) -> Bytes:
    """`rows` [n, width], finite and of the magnitudes that weights have, as `kind`.

    Returns [n, bytes of a row]. `importance` [width] weighs the squared error of each column.
    """
    rows = np.ascontiguousarray(rows, np.float32)
    count, width = rows.shape
    encoded = np.empty((count, row_bytes(width, kind)), np.uint8)
    if importance is not None:
        importance = np.ascontiguousarray(importance, np.float32)
    written = _library().ggml_quantize_chunk(
        kind, rows.ctypes.data, encoded.ctypes.data, 0, count, width,
        None if importance is None else importance.ctypes.data,
    )  # fmt: skip
    if written != encoded.nbytes:
        raise ConversionError(f"llama.cpp quantized to {written} bytes, not {encoded.nbytes}.")
    return encoded


def as_float(rows: Floats, kind: GGMLQuantizationType) -> Bytes:
    """`rows` [n, width], of any value, as F32, F16 or BF16."""
    rows = np.ascontiguousarray(rows, np.float32)
    if kind == GGMLQuantizationType.F32:
        return rows.view(np.uint8)
    encoded = np.empty((len(rows), row_bytes(rows.shape[1], kind)), np.uint8)
    _library().ggml_quantize_chunk(
        kind, rows.ctypes.data, encoded.ctypes.data, 0, len(rows), rows.shape[1], None
    )
    return encoded


def can_dequantize(kind: GGMLQuantizationType) -> bool:
    """Whether llama.cpp can turn the type into floats; F32 needs no turning."""
    return kind == GGMLQuantizationType.F32 or bool(
        _library().ggml_get_type_traits(kind).contents.to_float
    )


def dequantize(encoded: Bytes, kind: GGMLQuantizationType, width: int) -> Floats:
    """The float32 rows [n, width] that `encoded` stands for: whole rows of a readable `kind`."""
    traits = _library().ggml_get_type_traits(kind).contents
    rows = np.empty((encoded.nbytes // row_bytes(width, kind), width), np.float32)
    traits.to_float(encoded.ctypes.data, rows.ctypes.data, rows.size)
    return rows


def row_bytes(width: int, kind: GGMLQuantizationType) -> int:
    """How many bytes a row of `width` weights, a multiple of the block size, takes."""
    block, block_bytes = GGML_QUANT_SIZES[kind]
    return width // int(block) * int(block_bytes)


def block_size(kind: GGMLQuantizationType) -> int:
    """How many weights of a row share one scale."""
    return int(GGML_QUANT_SIZES[kind][0])


@functools.cache
def _library() -> Any:
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or not spec.submodule_search_locations:
        raise ConversionError("llama-cpp-python, which quantizes, is not installed: install it.")
    packaged = Path(spec.submodule_search_locations[0]) / "lib"
    folder = Path(os.environ.get("LLAMA_CPP_LIB_PATH") or packaged)
    # The very file that llama_cpp opens: another copy would bring a second ggml into the process.
    # What it depends on, ggml, is found through it.
    paths = [folder / f"libllama{suffix}" for suffix in (".so", ".dylib")]
    path = next((path for path in paths if path.exists()), paths[0])
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ConversionError(f"llama.cpp cannot be loaded: {error}.") from error
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    library.ggml_quantize_chunk.argtypes = [
        ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p,
        ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p,
    ]  # fmt: skip
    library.ggml_get_type_traits.restype = ctypes.POINTER(_TypeTraits)
    library.ggml_get_type_traits.argtypes = [ctypes.c_int]
    return library
