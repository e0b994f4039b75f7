"""Typed GGUF metadata values. A GGUF key carries its type, and readers insist on the right one."""

import enum
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


class ValueType(enum.IntEnum):
    """Type ids of the GGUF format, as far as a Gemma 4 file needs them."""

    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9


@dataclass(frozen=True, slots=True)
class Value:
    """One metadata value as it is stored: its type id and its encoded bytes."""

    type: int
    encoded: bytes

    def numbers(self) -> list[float]:
        """The number, or all numbers of an array; empty where the value is of another kind."""
        data, item = self.encoded, self.type
        if self.type == ValueType.ARRAY:
            (item,) = struct.unpack_from("<I", data)
            data = data[12:]
        kind = _NUMBERS.get(item)
        return [] if kind is None else np.frombuffer(data, kind).tolist()


Metadata = dict[str, Value]

_NUMBERS: dict[int, str] = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    ValueType.UINT32: "<u4",
    ValueType.INT32: "<i4",
    ValueType.FLOAT32: "<f4",
    ValueType.BOOL: "?",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}


def uint32(value: int) -> Value:
    """An unsigned 32-bit number."""
    return Value(ValueType.UINT32, struct.pack("<I", value))


def int32(value: int) -> Value:
    """A signed 32-bit number."""
    return Value(ValueType.INT32, struct.pack("<i", value))


def float32(value: float) -> Value:
    """A single-precision number."""
    return Value(ValueType.FLOAT32, struct.pack("<f", value))


def boolean(value: bool) -> Value:
    """A truth value."""
    return Value(ValueType.BOOL, struct.pack("<?", value))


def string(value: str) -> Value:
    """A text."""
    return Value(ValueType.STRING, encode_string(value))


def uint32_array(values: Iterable[int]) -> Value:
    """An array of unsigned 32-bit numbers."""
    return _array(ValueType.UINT32, np.asarray(list(values), "<u4"))


def int32_array(values: Iterable[int] | npt.NDArray[np.integer]) -> Value:
    """An array of signed 32-bit numbers."""
    return _array(ValueType.INT32, np.asarray(values, "<i4"))


def float32_array(values: Iterable[float] | npt.NDArray[np.floating]) -> Value:
    """An array of single-precision numbers."""
    return _array(ValueType.FLOAT32, np.asarray(values, "<f4"))


def boolean_array(values: Iterable[bool]) -> Value:
    """An array of truth values."""
    return _array(ValueType.BOOL, np.asarray(list(values), np.uint8))


def string_array(values: Iterable[str]) -> Value:
    """An array of texts."""
    items = [encode_string(value) for value in values]
    head = struct.pack("<IQ", ValueType.STRING, len(items))
    return Value(ValueType.ARRAY, head + b"".join(items))


def encode_string(text: str) -> bytes:
    """`text` as GGUF stores it: its length in bytes, then UTF-8."""
    data = text.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def is_text(text: str) -> bool:
    """Whether `text` can be stored: JSON may hold halves of UTF-16 pairs, which cannot."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def encode_metadata(metadata: Mapping[str, Value]) -> bytes:
    """The key-value section of a file."""
    return b"".join(
        encode_string(key) + struct.pack("<I", value.type) + value.encoded
        for key, value in metadata.items()
    )


def _array(item: ValueType, values: npt.NDArray[np.generic]) -> Value:
    return Value(ValueType.ARRAY, struct.pack("<IQ", item, values.size) + values.tobytes())
