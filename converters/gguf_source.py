"""A GGUF file as the source of a conversion: its metadata as it is, its tensors to be re-encoded.

The file is not trusted: every count is compared with the bytes that exist before it is used.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import math
import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from gguf.constants import GGMLQuantizationType

from .errors import CheckpointError, quoted
from .files import opened
from .ggml import block_size, row_bytes
from .gguf_values import Metadata, Value, ValueType
from .tensors import StoredTensor

_MAX_DIMS = 4
_MAX_NAME = 64
_DEFAULT_ALIGNMENT = 32
_FIXED = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


@dataclass(frozen=True, slots=True)
class GgufSource:
    """What one file holds; shapes are [out, in]."""

    metadata: Metadata
    tensors: dict[str, StoredTensor]


def read_gguf(path: Path) -> GgufSource:
    """The directory of the file. Raises CheckpointNotFoundError or CheckpointError."""
    with opened(path, missing="does not exist") as file:
        if os.fstat(file.fileno()).st_size < 24:
            raise CheckpointError(f"{quoted(path, 200)} is too short for a GGUF file.")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(path, data).read()


class _Reader:
    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path, self._data, self._at = path, data, 0

    def read(self) -> GgufSource:
        magic, version, tensor_count, key_count = struct.unpack("<4sIQQ", self._take(24))
        if magic != b"GGUF" or version not in (2, 3):
            raise self._damaged("is not a GGUF file of version 2 or 3")
        metadata: Metadata = {}
        for _ in range(key_count):
            key = self._text(self._count())
            if key in metadata:
                raise self._damaged(f"holds the key {quoted(key)} twice")
            metadata[key] = self._value()
        found: list[tuple[str, tuple[int, ...], int, int]] = []
        for _ in range(tensor_count):
            name = self._text(self._count(limit=_MAX_NAME))
            dims = struct.unpack("<I", self._take(4))[0]
            if not 1 <= dims <= _MAX_DIMS:
                raise self._damaged(f"gives tensor {quoted(name)} {dims} dimensions")
            shape = struct.unpack(f"<{dims}Q", self._take(8 * dims))[::-1]
            kind, offset = struct.unpack("<IQ", self._take(12))
            found.append((name, shape, kind, offset))
        alignment = _DEFAULT_ALIGNMENT
        if "general.alignment" in metadata:
            alignment = self._alignment(metadata["general.alignment"])
        begin = -(-self._at // alignment) * alignment
        tensors: dict[str, StoredTensor] = {}
        for name, shape, kind, offset in found:
            if name in tensors:
                raise self._damaged(f"holds the tensor {quoted(name)} twice")
            tensors[name] = self._tensor(name, shape, kind, begin + offset)
        return GgufSource(metadata, tensors)

    def _tensor(self, name: str, shape: tuple[int, ...], kind: int, begin: int) -> StoredTensor:
        try:
            known = GGMLQuantizationType(kind)
        except ValueError:
            raise self._damaged(
                f"stores tensor {quoted(name)} in the unknown type {kind}"
            ) from None
        if 0 in shape or shape[-1] % block_size(known):
            raise self._damaged(f"gives tensor {quoted(name)} the impossible shape {list(shape)}")
        size = math.prod(shape[:-1]) * row_bytes(shape[-1], known)
        if begin + size > len(self._data):
            raise self._damaged(
                f"is truncated: tensor {quoted(name)} ends after the file, so download it again"
            )
        return StoredTensor(name, known.name, shape, self._path, begin)

    def _value(self) -> Value:
        kind = struct.unpack("<I", self._take(4))[0]
        start = self._at
        if kind == ValueType.ARRAY:
            self._skip_array()
        elif kind == ValueType.STRING:
            self._take(self._count())
        else:
            self._take(self._fixed(kind))
        return Value(kind, self._data[start : self._at])

    def _skip_array(self) -> None:
        item, count = struct.unpack("<IQ", self._take(12))
        if item != ValueType.STRING:
            self._take(count * self._fixed(item))
            return
        # A vocabulary holds hundreds of thousands: nothing but the lengths is looked at.
        at, end, length = self._at, len(self._data), struct.Struct("<Q").unpack_from
        for _ in range(count):
            if at + 8 > end:
                raise self._damaged("is truncated: download it again")
            at += 8 + length(self._data, at)[0]
        if at > end:
            raise self._damaged("is truncated: download it again")
        self._at = at

    def _alignment(self, value: Value) -> int:
        if value.type != ValueType.UINT32:
            raise self._damaged("has an alignment that is no number")
        alignment: int = struct.unpack("<I", value.encoded)[0]
        if alignment < 8 or alignment & (alignment - 1) or alignment > 1 << 16:
            raise self._damaged(f"has the impossible alignment {alignment}")
        return alignment

    def _fixed(self, kind: int) -> int:
        if kind not in _FIXED:
            raise self._damaged(f"holds a value of the unknown type {kind}")
        return _FIXED[kind]

    def _count(self, limit: int | None = None) -> int:
        count: int = struct.unpack("<Q", self._take(8))[0]
        if limit is not None and count > limit:
            raise self._damaged(f"holds a name of {count} bytes")
        return count

    def _text(self, size: int) -> str:
        try:
            return self._take(size).decode("utf-8")
        except UnicodeDecodeError:
            raise self._damaged("holds a name that is not UTF-8") from None

    def _take(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise self._damaged("is truncated: download it again")
        taken = self._data[self._at : self._at + size]
        self._at += size
        return taken

    def _damaged(self, problem: str) -> CheckpointError:
        return CheckpointError(f"{quoted(self._path, 200)} {problem}.")
