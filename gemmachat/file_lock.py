"""One lock per file, so that two processes that make it take turns.

The lock is `flock` on `<file>.lock`: the system lets go of it when its process ends, however that
is. The lock's own file is removed by the one who holds it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gemmachat.errors import DownloadError

_SECONDS_BETWEEN_TRIES = 0.2


@contextmanager
def locked(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of a file during the block.

    While another holds it, `waiting` is called several times a second; what it raises ends the
    wait. Raises `DownloadError` where the folder cannot be written to or knows no locks.
    """
    place = path.with_name(f"{path.name}.lock")
    while (descriptor := _descriptor(place)) is None:
        waiting()
        time.sleep(_SECONDS_BETWEEN_TRIES)
    try:
        yield
    finally:
        place.unlink(missing_ok=True)
        os.close(descriptor)


def _descriptor(place: Path) -> int | None:
    try:
        return _try_lock(place)
    except OSError as error:
        raise DownloadError(
            f"{place.parent} cannot be written to: {error.strerror or error}; change that, or "
            "choose another folder with GEMMACHAT_MODELS"
        ) from error


def _try_lock(place: Path) -> int | None:
    """The descriptor that holds the lock; None while another does."""
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
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
