"""Opens files that nobody vouches for: regular ones only, failures as errors that name the file."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from .errors import (
    CheckpointError,
    CheckpointNotFoundError,
    ConversionError,
    ResourceError,
    quoted,
)

_INCOMPLETE = "is missing: give the folder of a complete Gemma 4 checkpoint"


@contextmanager
def opened(path: Path, *, missing: str = _INCOMPLETE) -> Iterator[BinaryIO]:
    """The file for reading. Raises ConversionError, also for what goes wrong inside the block.

    `missing` says what is wrong where there is no such file.
    """
    try:
        # A pipe in the place of a file must not be waited for.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise CheckpointError(f"{quoted(path, 200)} is not a regular file.")
            yield file
    except FileNotFoundError:
        raise CheckpointNotFoundError(f"{quoted(path, 200)} {missing}.") from None
    except OSError as error:
        raise unreadable(path, error) from error


def is_there(path: Path) -> bool:
    """Whether a file that may be missing exists; a link that points nowhere is not missing."""
    return os.path.lexists(path)


def unreadable(path: Path, error: OSError) -> ConversionError:
    """The error for a file that the system does not let be read."""
    kind = ResourceError if error.errno == errno.ENOMEM else ConversionError
    return kind(f"{quoted(path, 200)} cannot be read: {error.strerror or error}.")
