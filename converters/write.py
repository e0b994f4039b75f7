"""Writes GGUF files: streamed to a temporary file, synced, then published under their names.

Whoever opens a target path sees the whole new file or what was there before, never a part. Tensor
data is encoded on several threads, a few blocks ahead of what is written.
"""

import itertools
import os
import shutil
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from .encode import Job
from .errors import OutputError, ResourceError, quoted
from .ggml import Bytes
from .gguf_values import Value, encode_metadata, encode_string
from .staging import staged

ALIGNMENT = 32
_VERSION = 3

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class TensorData:
    """One tensor to write. `shape` is [out, in]: GGUF stores it reversed.

    `jobs` begins a new pass over the blocks of its data, `nbytes` in all.
    """

    name: str
    shape: tuple[int, ...]
    type_id: int
    nbytes: int
    jobs: Callable[[], Iterator[Job]]


@dataclass(frozen=True, slots=True)
class GgufFile:
    """What one file will hold. Its numbers are read and encoded only when it is written."""

    metadata: Mapping[str, Value]
    tensors: Sequence[TensorData]

    @property
    def nbytes(self) -> int:
        """The exact size of the file."""
        return len(self.header()) + sum(_padded(tensor.nbytes) for tensor in self.tensors)

    def header(self) -> bytes:
        """Everything before the tensor data, padded to where that begins."""
        parts = [
            struct.pack("<4sIQQ", b"GGUF", _VERSION, len(self.tensors), len(self.metadata)),
            encode_metadata(self.metadata),
        ]
        offset = 0
        for tensor in self.tensors:
            dims = tensor.shape[::-1]
            parts.append(encode_string(tensor.name))
            parts.append(struct.pack(f"<I{len(dims)}Q", len(dims), *dims))
            parts.append(struct.pack("<IQ", tensor.type_id, offset))
            offset += _padded(tensor.nbytes)
        header = b"".join(parts)
        return header + bytes(_padded(len(header)) - len(header))


def write_files(
    files: Mapping[Path, GgufFile], *, force: bool, progress: Progress | None = None
) -> None:
    """Publishes every file complete, or raises and leaves nothing behind.

    `progress` is called with the bytes written and the bytes in all. Raises OutputError when a path
    exists and `force` is not set, when there is too little room, or when writing fails.
    """
    for path in files:
        refuse_existing(path, force)
    _require_room(files)
    meter = _Meter(sum(file.nbytes for file in files.values()), progress)
    threads = _processors()
    with _enough_threads(), ThreadPoolExecutor(threads, "encode") as pool, ExitStack() as stack:
        stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        outputs = []
        for path, file in files.items():
            with _named(path):
                output = stack.enter_context(staged(path))
                outputs.append(output)
                _write(output.stream, file, pool, threads + 2, meter)
                output.sync()
        for path in files:
            refuse_existing(path, force)
        published: list[Path] = []
        try:
            for path, output in zip(files, outputs, strict=True):
                with _named(path):
                    output.publish(replace=force)
                published.append(path)
        except OutputError:
            if not force:  # a file that took another's place stays
                for path in published:
                    path.unlink(missing_ok=True)
            raise


def refuse_existing(path: Path, force: bool) -> None:
    """Raises OutputError where `path` must not be written."""
    with _named(path):
        if path.is_dir():
            raise OutputError(f"{quoted(path, 200)} is a folder: name a file to write.")
        if not path.parent.is_dir():
            raise OutputError(
                f"The folder {quoted(path.parent, 200)} does not exist: create it first."
            )
        if path.is_symlink():
            raise OutputError(f"{quoted(path, 200)} is a symbolic link: name the file itself.")
        if path.exists() and not path.is_file():
            raise OutputError(f"{quoted(path, 200)} is not a regular file: name a file to write.")
        if os.path.lexists(path) and not force:
            raise OutputError(f"{quoted(path, 200)} exists already: pass --force to replace it.")


def _require_room(files: Mapping[Path, GgufFile]) -> None:
    for folder, group in itertools.groupby(sorted(files), key=lambda path: path.parent):
        needed = sum(files[path].nbytes for path in group)
        with _named(folder):
            free = shutil.disk_usage(folder).free
        if needed > free:
            raise OutputError(
                f"{quoted(folder, 200)} has {free / 1e6:,.1f} MB free and {needed / 1e6:,.1f} MB "
                "are needed: make room, or write elsewhere with -o."
            )


def _write(
    stream: BinaryIO, file: GgufFile, pool: ThreadPoolExecutor, ahead: int, meter: "_Meter"
) -> None:
    header = file.header()
    stream.write(header)
    meter.add(len(header))
    blocks = _in_order(pool, (job for tensor in file.tensors for job in tensor.jobs()), ahead)
    for tensor in file.tensors:
        written = 0
        while written < tensor.nbytes:
            block = next(blocks)
            stream.write(block.data)
            written += block.nbytes
            meter.add(block.nbytes)
        if written != tensor.nbytes:
            raise OutputError(
                f"Tensor {quoted(tensor.name)} came out as {written} bytes, not {tensor.nbytes}."
            )
        stream.write(bytes(_padded(written) - written))
        meter.add(_padded(written) - written)


def _in_order(pool: ThreadPoolExecutor, jobs: Iterable[Job], ahead: int) -> Iterator[Bytes]:
    """Results in the order of the jobs; at most `ahead` of them are begun and not yet taken."""
    waiting: deque[Future[Bytes]] = deque()
    for job in jobs:
        waiting.append(pool.submit(job))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Turns a failure of the system into an error that names the output."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{quoted(path, 200)} cannot be written: {error.strerror or error}."
        ) from error


@contextmanager
def _enough_threads() -> Iterator[None]:
    """Turns the system's refusal of a thread into an error."""
    try:
        yield
    except RuntimeError as error:
        if "thread" not in str(error):
            raise
        raise ResourceError(
            "The system lets no more threads be started, which converting needs."
        ) from error


class _Meter:
    def __init__(self, total: int, progress: Progress | None) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def add(self, count: int) -> None:
        self._done += count
        if self._progress is not None:
            self._progress(self._done, self._total)
