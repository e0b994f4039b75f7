"""One lock per file, so that two processes that make it take turns.

The lock is `flock` on `<file>.lock`: the system lets go of it when its process ends, however that
is. The lock's own file is removed by the one who holds it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gemmachat.errors import DownloadError

_SECONDS_BETWEEN_TRIES = 0.2


class ReadOnlyError(DownloadError):
    """A folder that this user may not write to."""


@contextmanager
def locked(path: Path, waiting: Callable[[], None], *, make_folder: bool = False) -> Iterator[None]:
    """Hold the lock of a file during the block.

    While another holds it, `waiting` is called several times a second; what it raises ends the
    wait. With `make_folder` the file's folder is made, again if the other one removed it. Raises
    `DownloadError` where the folder cannot be written to or knows no locks, `ReadOnlyError` where
    this user may not.
    """
    place = path.with_name(f"{path.name}.lock")
    while (descriptor := _descriptor(place, make_folder)) is None:
        waiting()
        time.sleep(_SECONDS_BETWEEN_TRIES)
    try:
        yield
    finally:
        place.unlink(missing_ok=True)
        os.close(descriptor)


def _descriptor(place: Path, make_folder: bool) -> int | None:
    try:
        if make_folder:
            place.parent.mkdir(parents=True, exist_ok=True)
        return _try_lock(place, gone_again=make_folder)
    except OSError as error:
        read_only = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        raise (ReadOnlyError if read_only else DownloadError)(
            f"{place.parent} cannot be written to: {error.strerror or error}; change that, or "
            "choose another folder with GEMMACHAT_MODELS"
        ) from error


def _try_lock(place: Path, *, gone_again: bool) -> int | None:
    """The descriptor that holds the lock; None while another does, or has removed its folder."""
    try:
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except FileNotFoundError:
        if gone_again:
            return None
        raise
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever held it before has removed it by now: the lock of a removed file is no lock.
        if os.path.samestat(os.fstat(descriptor), os.stat(place)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None
