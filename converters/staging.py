"""A file that has no name until it is complete.

Where the system can do it (Linux, most file systems), the bytes go to a file without a name: when
the process is killed, nothing is left. Elsewhere they go to a hidden file beside the target.
"""

import contextlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO


@dataclass(slots=True)
class Staged:
    """`stream` is open for writing; `temporary` is None while the file has no name."""

    path: Path
    stream: BinaryIO
    temporary: Path | None

    def sync(self) -> None:
        """Returns when the data has reached the disk."""
        self.stream.flush()
        os.fsync(self.stream.fileno())

    def publish(self, *, replace: bool) -> None:
        """Gives the synced file its name and makes that last.

        With `replace` it takes the place of a file that has the name. Raises OSError.
        """
        if self.temporary is None and not replace:
            _link(self.stream.fileno(), self.path)
        else:
            if self.temporary is None:
                self.temporary = _beside(self.path)
                _link(self.stream.fileno(), self.temporary)
            os.replace(self.temporary, self.path)
        _sync_folder(self.path.parent)


@contextmanager
def staged(path: Path) -> Iterator[Staged]:
    """A file to be published as `path`; without that, it is gone at the end of the block."""
    stream = _open_nameless(path.parent)
    temporary = None
    if stream is None:
        temporary = _beside(path)
        stream = temporary.open("xb")
    output = Staged(path, stream, temporary)
    try:
        yield output
    finally:
        with contextlib.suppress(OSError):  # what could not be written has been reported by then
            stream.close()
        if output.temporary is not None:
            with contextlib.suppress(OSError):
                output.temporary.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    return path.with_name(f".{secrets.token_hex(8)}.part")


def _open_nameless(folder: Path) -> BinaryIO | None:
    if not hasattr(os, "O_TMPFILE") or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return os.fdopen(os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666), "wb")
    except OSError:  # this file system has no such files; another cause shows on the next try
        return None


def _link(descriptor: int, path: Path) -> None:
    """Gives an open file a name: linkat(2), which follows the link in /proc when asked to."""
    folder = os.open(path.parent, os.O_PATH)
    try:
        # With a folder descriptor, Python calls linkat; without, link, which does not follow.
        os.link(f"/proc/self/fd/{descriptor}", path.name, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def _sync_folder(folder: Path) -> None:
    """Makes the rename itself durable where the system can do that (not on Windows)."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:  # a folder that may be written but not read
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
