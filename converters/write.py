"""Writes a GGUF file: streamed to a temporary file beside the target, synced, then renamed.

Whoever opens the target path sees the whole new file or what was there before, never a part.
"""

import contextlib
import os
import secrets
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from .errors import OutputError, quoted
from .gguf_values import Value, encode_metadata, encode_string

ALIGNMENT = 32
_VERSION = 3

Blocks = Callable[[], Iterator[npt.NDArray[np.generic]]]


@dataclass(frozen=True, slots=True)
class TensorData:
    """One tensor to write. `shape` is [out, in]: GGUF stores it reversed."""

    name: str
    shape: tuple[int, ...]
    type_id: int
    nbytes: int
    blocks: Blocks


def write_gguf(
    path: Path, metadata: Mapping[str, Value], tensors: Sequence[TensorData], *, force: bool
) -> None:
    """Publishes a complete file at `path`, or raises and leaves nothing behind.

    Raises OutputError when `path` exists and `force` is not set, or when writing fails.
    """
    _refuse_existing(path, force)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("xb") as file:
            _write(file, metadata, tensors)
            file.flush()
            os.fsync(file.fileno())
        _refuse_existing(path, force)
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise OutputError(
            f"{quoted(path, 200)} cannot be written: {error.strerror or error}."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _refuse_existing(path: Path, force: bool) -> None:
    if path.is_dir():
        raise OutputError(f"{quoted(path, 200)} is a folder: name a file to write.")
    if path.exists() and not force:
        raise OutputError(f"{quoted(path, 200)} exists already: pass --force to replace it.")


def _write(file: BinaryIO, metadata: Mapping[str, Value], tensors: Sequence[TensorData]) -> None:
    file.write(struct.pack("<4sIQQ", b"GGUF", _VERSION, len(tensors), len(metadata)))
    file.write(encode_metadata(metadata))
    offset = 0
    for tensor in tensors:
        dims = tensor.shape[::-1]
        file.write(encode_string(tensor.name))
        file.write(struct.pack(f"<I{len(dims)}Q", len(dims), *dims))
        file.write(struct.pack("<IQ", tensor.type_id, offset))
        offset += _padded(tensor.nbytes)
    _pad(file)
    for tensor in tensors:
        begin = file.tell()
        for block in tensor.blocks():
            file.write(np.ascontiguousarray(block).data)
        written = file.tell() - begin
        if written != tensor.nbytes:
            raise OutputError(
                f"Tensor {quoted(tensor.name)} came out as {written} bytes, not {tensor.nbytes}."
            )
        _pad(file)


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _pad(file: BinaryIO) -> None:
    file.write(bytes(_padded(file.tell()) - file.tell()))


def _sync_folder(folder: Path) -> None:
    """Makes the rename itself durable where the system can do that (not on Windows)."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
