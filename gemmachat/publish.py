"""Writes a file whole or not at all.

Where the system can do it (Linux, most file systems), the bytes go to a file that has no name: of a
program that is killed meanwhile nothing is left. Elsewhere they go to a hidden file.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import BinaryIO


def publish(path: Path, data: bytes) -> None:
    """Put a file in its place in one step, with the permissions that new files have.

    It is flushed to the disk first, so that neither a full disk nor a crash leaves a part of it
    there. Raises `OSError` that names the file, and then leaves what was there before.
    """
    part = path.with_name(f".{path.name}-{os.urandom(4).hex()}.part")
    try:
        with _open(part) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            _name(file, part)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        error.filename = str(path)
        raise


def _open(part: Path) -> BinaryIO:
    """Open a new file in the folder of the part, without a name where that is possible."""
    if sys.platform == "linux" and os.path.isdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # another cause than the file system shows again below
            return open(os.open(part.parent, os.O_TMPFILE | os.O_WRONLY, 0o666), "wb")
    return part.open("xb")


def _name(file: BinaryIO, part: Path) -> None:
    descriptor = file.fileno()
    if os.fstat(descriptor).st_nlink == 0:
        # The link in /proc is followed only where a folder is given, which it makes no use of.
        os.link(f"/proc/self/fd/{descriptor}", part, src_dir_fd=descriptor)
