"""Opens regular files only: a pipe in the place of a file must not be waited for."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


class IrregularFileError(OSError):
    """There is a folder, a pipe or a device in the place of a file."""


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading, at once. Raises `IrregularFileError` or another `OSError`."""
    return open(path, "rb", opener=_open)


def _open(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise IrregularFileError(errno.EINVAL, "not a regular file", path)
    return descriptor
