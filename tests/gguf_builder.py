"""GGUF files byte by byte, right or wrong on purpose; knows nothing of the project's own writer."""

from __future__ import annotations

import struct
from collections.abc import Sequence

U8, U16, U32, I32, F32, BOOL, STR, ARR, U64 = 0, 2, 4, 5, 6, 7, 8, 9, 10
TYPE_F32, TYPE_Q8_0 = 0, 8


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def key(name: str | bytes, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def u32(name: str, value: int) -> bytes:
    return key(name, U32, struct.pack("<I", value))


def array(name: str, item: int, length: int, content: bytes) -> bytes:
    return key(name, ARR, struct.pack("<IQ", item, length) + content)


def tensor(name: str | bytes, dims: Sequence[int], kind: int = TYPE_F32, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def gguf(
    keys: Sequence[bytes] = (),
    tensors: Sequence[bytes] = (),
    data: bytes = b"",
    *,
    magic: bytes = b"GGUF",
    version: int = 3,
    key_count: int | None = None,
    tensor_count: int | None = None,
    alignment: int = 32,
) -> bytes:
    """A file with the parts given; the counts are right unless they are given too."""
    header = magic + struct.pack(
        "<IQQ",
        version,
        len(tensors) if tensor_count is None else tensor_count,
        len(keys) if key_count is None else key_count,
    )
    header += b"".join(keys) + b"".join(tensors)
    if tensors:
        header += bytes(-len(header) % alignment)
    return header + data
