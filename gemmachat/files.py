"""Opens regular files only, and tells one state of a file from another."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, NamedTuple


class FileState(NamedTuple):
    """What differs once a file was replaced or written to."""

    device: int
    inode: int
    size: int
    modified_ns: int

    @classmethod
    def of(cls, file: BinaryIO | Path) -> FileState:
        """Return the state of an open file, or of that at a path. Raises `OSError`."""
        found = os.stat(file if isinstance(file, Path) else file.fileno())
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)

    def is_at(self, path: Path) -> bool:
        """Whether the path leads to a file in this state."""
        try:
            return FileState.of(path) == self
        except OSError:
            return False


class IrregularFileError(OSError):
    """There is a folder, a pipe or a device in the place of a file."""


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading, without waiting for the other end of a pipe.

    Raises `IrregularFileError` or another `OSError`.
    """
    return open(path, "rb", opener=_open)


def read_small(path: Path, limit: int) -> bytes:
    """Read a file of at most `limit` bytes. Raises `OSError`, also where it is larger."""
    with open_regular(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"more than {limit:,} bytes", str(path))
    return data


def _open(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise IrregularFileError(errno.EINVAL, "not a regular file", path)
    return descriptor
