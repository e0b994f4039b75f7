"""Reads the header of a GGUF file without trusting it.

Every count, length and offset is compared with the bytes that exist before it is used, so a small
file cannot make the reader allocate or loop for long. What llama.cpp's own reader would refuse or
trip over is refused here first, in one sentence.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import BinaryIO

from gemmachat.errors import DamagedFileError, GemmachatError, NotFoundError
from gemmachat.files import FileState, IrregularFileError, open_regular
from gemmachat.gguf_types import SCALARS, TENSOR_TYPES, ArrayInfo, GgufInfo, TensorInfo, quoted

MAX_HEADER_BYTES = 256 << 20
_WINDOW_BYTES = 1 << 18
MAX_KEYS = 1 << 16
MAX_TENSORS = 1 << 16
MAX_KEY_BYTES = (1 << 16) - 1
MAX_NAME_BYTES = 63  # llama.cpp keeps names in 64 bytes with a final NUL
MAX_DIMS = 4
MAX_INLINE_ITEMS = 1024
DEFAULT_ALIGNMENT = 32

_MIN_KEY_BYTES = 8 + 1 + 4 + 1
_MIN_TENSOR_BYTES = 8 + 1 + 4 + 4 + 8
_STRING, _ARRAY = 8, 9


def read_header(path: Path | str) -> GgufInfo:
    """Read and check the header of the file at `path`.

    Raises NotFoundError when there is no such file, DamagedFileError when it is not an intact GGUF
    file, and a plain GemmachatError when the system does not let it be read.
    """
    path = Path(path)
    try:
        with open_regular(path) as file:
            return _Reader(path, file).read()
    except IrregularFileError:
        raise NotFoundError(f"{quoted(path)} is not a file.") from None
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a path with a NUL in it
        raise NotFoundError(f"{quoted(path)} does not exist.") from None
    except OSError as error:
        reason = error.strerror or error
        raise GemmachatError(f"{quoted(path)} cannot be read: {reason}.") from error


class _Reader:
    """One pass over a header, through a window of the file. `_at` is the next byte to interpret."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file
        self._state = FileState.of(file)
        self._size = self._state.size
        self._at = 0
        self._window = b""
        self._window_at = 0

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
        return GgufInfo(self._path, version, alignment, metadata, value_types, tensors, self._state)

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
        if kind not in SCALARS:
            raise self._damaged(f"gives {what} the unknown type {kind}")
        name, code = SCALARS[kind]
        if name == "bool":
            return name, self._booleans(self._take(1, what), what)[0]
        return name, self._unpack("<" + code, what)[0]

    def _array(self, what: str) -> tuple[str, object]:
        kind, length = self._unpack("<IQ", what)
        if kind == _ARRAY:
            raise self._damaged(f"nests an array inside {what}, which is not supported")
        if kind != _STRING and kind not in SCALARS:
            raise self._damaged(f"gives the items of {what} the unknown type {kind}")
        name, code = SCALARS.get(kind, ("str", ""))
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
        array = ArrayInfo(name, length, self._path, start, self._at - start)
        kind_name = f"arr[{name}]"
        if length > MAX_INLINE_ITEMS:
            return kind_name, array
        if name == "bool":
            return kind_name, self._booleans(array.raw(), what)
        if code:
            return kind_name, array.numbers()
        return kind_name, tuple(self._text(item, what) for item in array.strings())

    def _booleans(self, data: bytes, what: str) -> tuple[bool, ...]:
        if data.strip(b"\0\1"):
            raise self._damaged(f"holds a truth value that is neither 0 nor 1 in {what}")
        return tuple(map(bool, data))

    def _skip_strings(self, count: int, what: str) -> None:
        # The longest loop of the module: a real vocabulary has 262144 tokens and 515000 merges.
        while count:
            window = self._look_ahead(8, what)
            start = self._at - self._window_at
            done, end = _walk_strings(window, start, count)
            count -= done
            self._skip(end - start, what)

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
        window = self._look_ahead(count, what)
        start = self._at - self._window_at
        self._at += count
        return window[start : start + count]

    def _skip(self, count: int, what: str) -> None:
        self._check_end(self._at + count, what)
        self._at += count

    def _look_ahead(self, count: int, what: str) -> bytes:
        """A window of the file that holds at least `count` bytes from the current position on."""
        end = self._at + count
        if not self._window_at <= self._at <= end <= self._window_at + len(self._window):
            self._check_end(end, what)
            self._file.seek(self._at)
            self._window = self._file.read(max(count, _WINDOW_BYTES))
            self._window_at = self._at
            if len(self._window) < count:
                raise self._damaged("became shorter while it was read")
        return self._window

    def _check_end(self, end: int, what: str) -> None:
        if end > self._size:
            raise self._damaged(f"ends inside {what}: it is truncated or damaged")
        if end > MAX_HEADER_BYTES:
            raise self._damaged(f"has a header of more than {MAX_HEADER_BYTES} bytes")

    def _damaged(self, problem: str) -> DamagedFileError:
        return DamagedFileError(f"{quoted(self._path)} {problem}.")


def _walk_strings(window: bytes, position: int, count: int) -> tuple[int, int]:
    """How many of `count` strings start in the window, and where the one after them does."""
    length_at = struct.Struct("<Q").unpack_from
    for done in range(count):
        try:
            position += 8 + length_at(window, position)[0]
        except (struct.error, OverflowError):  # noqa: PERF203 - costs nothing until it happens
            return done, position
    return count, position


def _padded(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
