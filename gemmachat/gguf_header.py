"""Reads the header of a GGUF file without trusting it.

Every count, length and offset is compared with the bytes that exist before it is used, so a small
file cannot make the reader allocate or loop for long. What llama.cpp's own reader would refuse or
trip over is refused here first, in one sentence.
"""

from __future__ import annotations

import math
import stat
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from .errors import DamagedFileError, NotFoundError
from .sanitize import safe_line

MAX_HEADER_BYTES = 256 << 20
MAX_KEYS = 1 << 16
MAX_TENSORS = 1 << 16
MAX_KEY_BYTES = (1 << 16) - 1
MAX_NAME_BYTES = 63  # llama.cpp keeps names in 64 bytes with a final NUL
MAX_DIMS = 4
MAX_INLINE_ITEMS = 1024
DEFAULT_ALIGNMENT = 32

_FIRST_READ = 1 << 16
_MIN_KEY_BYTES = 8 + 1 + 4 + 1
_MIN_TENSOR_BYTES = 8 + 1 + 4 + 4 + 8
_STRING, _ARRAY = 8, 9
_SCALARS = {
    0: ("u8", "B"), 1: ("i8", "b"), 2: ("u16", "H"), 3: ("i16", "h"), 4: ("u32", "I"),
    5: ("i32", "i"), 6: ("f32", "f"), 7: ("bool", "?"), 10: ("u64", "Q"), 11: ("i64", "q"),
    12: ("f64", "d"),
}  # fmt: skip
# Type id: name, elements per block, bytes per block. Ids that llama.cpp has retired are absent.
TENSOR_TYPES = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36),
    10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50), 20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136), 24: ("I8", 1, 1), 25: ("I16", 1, 2),
    26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8), 29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18), 42: ("Q2_0", 64, 18),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """An array too long to unpack at once. `raw` is its encoded content, after type and length."""

    item_type: str
    length: int
    raw: memoryview = field(repr=False)

    def strings(self) -> list[bytes]:
        """The items of a string array."""
        length_at = struct.Struct("<Q").unpack_from
        raw = bytes(self.raw)
        items: list[bytes] = []
        position = 0
        for _ in range(self.length):
            start = position + 8
            position = start + length_at(raw, position)[0]
            items.append(raw[start:position])
        return items

    def numbers(self) -> tuple[int | float | bool, ...]:
        """The items of an array of numbers."""
        code = next(code for name, code in _SCALARS.values() if name == self.item_type)
        return struct.unpack(f"<{self.length}{code}", self.raw)


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor. `shape[0]` is the length of a row; `offset` counts bytes from the file's start."""

    name: str
    shape: tuple[int, ...]
    type_name: str
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class GgufInfo:
    """A checked header. Arrays of up to 1024 items are tuples, longer ones ArrayInfo.

    `value_types` names the GGUF type of each key: u8 to f64, bool, str, or arr[item type].
    """

    path: Path
    version: int
    alignment: int
    metadata: dict[str, object]
    value_types: dict[str, str]
    tensors: dict[str, TensorInfo]
    file_size: int

    @property
    def architecture(self) -> str:
        """What `general.architecture` says, or "" when it says nothing."""
        name = self.metadata.get("general.architecture")
        return name if isinstance(name, str) else ""


def read_header(path: Path | str) -> GgufInfo:
    """Read and check the header of the file at `path`.

    Raises NotFoundError when there is no such file, DamagedFileError when it is not an intact GGUF
    file.
    """
    path = Path(path)
    try:
        # Opening a named pipe would wait for a writer.
        if not stat.S_ISREG(path.stat().st_mode):
            raise NotFoundError(f"{quoted(path)} is not a file.")
        with path.open("rb") as file:
            return _Reader(path, file).read()
    except FileNotFoundError:
        raise NotFoundError(f"{quoted(path)} does not exist.") from None
    except OSError as error:
        reason = error.strerror or error
        raise DamagedFileError(f"{quoted(path)} cannot be read: {reason}.") from error


def quoted(name: object, limit: int = 120) -> str:
    """`name` in quotes, made safe to print and cut to `limit` characters."""
    text = safe_line(str(name))
    return f"'{text[:limit]}…'" if len(text) > limit else f"'{text}'"


class _Reader:
    """One pass over a header. `_at` is the position of the next byte to interpret."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file
        self._size = file.seek(0, 2)
        self._limit = min(self._size, MAX_HEADER_BYTES)
        file.seek(0)
        self._data = b""
        self._at = 0

    def read(self) -> GgufInfo:
        version = self._check_magic()
        tensor_count, key_count = self._unpack("<QQ", "its counts")
        self._check_count(key_count, MAX_KEYS, _MIN_KEY_BYTES, "keys")
        self._check_count(tensor_count, MAX_TENSORS, _MIN_TENSOR_BYTES, "tensors")
        metadata: dict[str, object] = {}
        value_types: dict[str, str] = {}
        for _ in range(key_count):
            key = self._name(MAX_KEY_BYTES, "a key")
            if key in metadata:
                raise self._damaged(f"holds the key {quoted(key)} twice")
            value_types[key], metadata[key] = self._value(key)
        alignment = self._alignment(metadata, value_types)
        found = [self._tensor() for _ in range(tensor_count)]
        tensors = self._place(found, alignment)
        return GgufInfo(
            self._path, version, alignment, metadata, value_types, tensors, self._size
        )

    def _check_magic(self) -> int:
        magic = self._take(min(4, self._size), "its first bytes")
        if magic != b"GGUF":
            raise self._damaged("is not a GGUF file")
        (version,) = self._unpack("<I", "its version")
        if version and not version & 0xFFFF:
            raise self._damaged("was written for big-endian machines, which is not supported")
        if version not in (2, 3):
            raise self._damaged(f"has GGUF version {version}, but only 2 and 3 can be read")
        return int(version)

    def _check_count(self, count: int, limit: int, item_bytes: int, what: str) -> None:
        if count > limit or count * item_bytes > self._size - self._at:
            raise self._damaged(
                f"claims {count} {what}, more than a file of {self._size} bytes can hold "
                f"or than is allowed ({limit})"
            )

    def _value(self, key: str) -> tuple[str, object]:
        what = f"the value of {quoted(key)}"
        (kind,) = self._unpack("<I", what)
        if kind == _STRING:
            data = self._take(self._unpack("<Q", what)[0], what)
            return "str", self._text(data, what)
        if kind == _ARRAY:
            return self._array(what)
        if kind not in _SCALARS:
            raise self._damaged(f"gives {what} the unknown type {kind}")
        name, code = _SCALARS[kind]
        if name == "bool":
            return name, self._booleans(self._take(1, what), what)[0]
        return name, self._unpack("<" + code, what)[0]

    def _array(self, what: str) -> tuple[str, object]:
        kind, length = self._unpack("<IQ", what)
        if kind == _ARRAY:
            raise self._damaged(f"nests an array inside {what}, which is not supported")
        if kind != _STRING and kind not in _SCALARS:
            raise self._damaged(f"gives the items of {what} the unknown type {kind}")
        name, code = _SCALARS.get(kind, ("str", ""))
        item_bytes = struct.calcsize("<" + code) if code else 8
        if length > (self._size - self._at) // item_bytes:
            raise self._damaged(
                f"claims {length} items in {what}, more than a file of {self._size} bytes can hold"
            )
        start = self._at
        if code:
            self._skip(length * item_bytes, what)
        else:
            self._skip_strings(length, what)
        array = ArrayInfo(name, length, memoryview(self._data)[start : self._at])
        kind_name = f"arr[{name}]"
        if name == "bool":
            self._booleans(bytes(array.raw), what)
        if length > MAX_INLINE_ITEMS:
            return kind_name, array
        if code:
            return kind_name, array.numbers()
        return kind_name, tuple(self._text(item, what) for item in array.strings())

    def _booleans(self, data: bytes, what: str) -> tuple[bool, ...]:
        if data.strip(b"\0\1"):
            raise self._damaged(f"holds a truth value that is neither 0 nor 1 in {what}")
        return tuple(map(bool, data[:MAX_INLINE_ITEMS]))

    def _skip_strings(self, count: int, what: str) -> None:
        # The longest loop of the module: a real vocabulary has 262144 tokens and 515000 merges.
        length_at = struct.Struct("<Q").unpack_from
        data, position = self._data, self._at
        for _ in range(count):
            try:
                position += 8 + length_at(data, position)[0]
            except struct.error:
                self._fill(position + 8, what)
                data = self._data
                position += 8 + length_at(data, position)[0]
        self._fill(position, what)
        self._at = position

    def _alignment(self, metadata: dict[str, object], value_types: dict[str, str]) -> int:
        key = "general.alignment"
        alignment = metadata.get(key, DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or value_types.get(key, "u32") != "u32":
            raise self._damaged(f"does not give {key} as an unsigned 32-bit number")
        if alignment < 1 or alignment & (alignment - 1):
            raise self._damaged(f"has alignment {alignment}, which is not a power of two")
        return alignment

    def _tensor(self) -> TensorInfo:
        """One tensor as the header states it; its offset still counts from the data section."""
        name = self._name(MAX_NAME_BYTES, "a tensor name")
        what = f"tensor {quoted(name)}"
        (dims,) = self._unpack("<I", what)
        if not 1 <= dims <= MAX_DIMS:
            raise self._damaged(f"gives {what} {dims} dimensions, where 1 to {MAX_DIMS} can be")
        shape = self._unpack(f"<{dims}Q", what)
        kind, offset = self._unpack("<IQ", what)
        if kind not in TENSOR_TYPES:
            raise self._damaged(f"stores {what} in the unknown type {kind}")
        type_name, block, block_bytes = TENSOR_TYPES[kind]
        if 0 in shape:
            raise self._damaged(f"gives {what} an empty dimension")
        if shape[0] % block:
            raise self._damaged(
                f"gives {what} rows of {shape[0]} elements, which {type_name} blocks of {block} "
                "cannot fill"
            )
        nbytes = math.prod(shape) // block * block_bytes
        if nbytes > self._size:
            raise self._damaged(
                f"claims {nbytes} bytes for {what}, but is only {self._size} bytes long: "
                "it is truncated or damaged"
            )
        return TensorInfo(name, shape, type_name, offset, nbytes)

    def _place(self, found: list[TensorInfo], alignment: int) -> dict[str, TensorInfo]:
        """Check that the data is laid out without gap or overlap, as llama.cpp demands."""
        data_begin = _padded(self._at, alignment) if found else self._at
        tensors: dict[str, TensorInfo] = {}
        expected = end = 0
        for tensor in found:
            if tensor.name in tensors:
                raise self._damaged(f"holds the tensor {quoted(tensor.name)} twice")
            if tensor.offset != expected:
                raise self._damaged(
                    f"places tensor {quoted(tensor.name)} at offset {tensor.offset}, but the one "
                    f"before it ends at {expected}"
                )
            end = data_begin + tensor.offset + tensor.nbytes
            tensors[tensor.name] = TensorInfo(
                tensor.name, tensor.shape, tensor.type_name,
                data_begin + tensor.offset, tensor.nbytes,
            )  # fmt: skip
            expected = _padded(tensor.offset + tensor.nbytes, alignment)
        end = max(end, self._at)
        if end > self._size:
            raise self._damaged(
                f"is {self._size} bytes long where its tensors need {end}: it is truncated"
            )
        if self._size > _padded(end, alignment):
            raise self._damaged(f"has {self._size - end} bytes that belong to no tensor at its end")
        return tensors

    def _name(self, limit: int, what: str) -> str:
        (length,) = self._unpack("<Q", what)
        if not 1 <= length <= limit:
            raise self._damaged(f"has {what} of {length} bytes, where 1 to {limit} can be")
        data = self._take(length, what)
        if b"\0" in data:
            raise self._damaged(f"has a NUL character inside {what}")
        return self._text(data, what)

    def _text(self, data: bytes, what: str) -> str:
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise self._damaged(f"holds bytes that are not UTF-8 in {what}") from None

    def _unpack(self, layout: str, what: str) -> tuple[int, ...]:
        return struct.unpack(layout, self._take(struct.calcsize(layout), what))

    def _take(self, count: int, what: str) -> bytes:
        start = self._at
        self._skip(count, what)
        return self._data[start : self._at]

    def _skip(self, count: int, what: str) -> None:
        self._fill(self._at + count, what)
        self._at += count

    def _fill(self, end: int, what: str) -> None:
        """Have the bytes up to `end` in memory, reading ahead in doubling steps."""
        if end <= len(self._data):
            return
        if end > self._size:
            raise self._damaged(f"ends inside {what}: it is truncated or damaged")
        if end > self._limit:
            raise self._damaged(f"has a header of more than {MAX_HEADER_BYTES} bytes")
        wanted = min(max(end, 2 * len(self._data), _FIRST_READ), self._limit)
        self._data += self._file.read(wanted - len(self._data))
        if end > len(self._data):
            raise self._damaged("became shorter while it was read")

    def _damaged(self, problem: str) -> DamagedFileError:
        return DamagedFileError(f"{quoted(self._path)} {problem}.")


def _padded(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
