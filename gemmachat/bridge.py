"""ctypes only: what the native handles share, and calls that need no handle.

Turns status codes into exceptions. Nothing above the three bridge modules sees a pointer.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from array import array
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

from gemmachat.errors import (
    ContextFullError,
    DamagedFileError,
    EngineError,
    GemmachatError,
    MemoryLimitError,
    UsageError,
)
from gemmachat.native import is_forked, library

_CANCELLED = 1
_ERRORS: dict[int, type[GemmachatError]] = {
    2: UsageError,
    3: DamagedFileError,
    4: MemoryLimitError,
    5: ContextFullError,
    7: DamagedFileError,
    9: UsageError,
    10: UsageError,
}


class CancelledError(Exception):
    """The call was stopped by `SessionHandle.cancel`."""


def check(status: int) -> None:
    """Raise what a status code stands for, with the library's own words."""
    if status == 0:
        return
    if status == _CANCELLED:
        raise CancelledError
    text = library().gc_last_error().decode("utf-8", "replace")
    raise _ERRORS.get(status, EngineError)(text)


def check_grammar(grammar: str) -> None:
    """Raise `UsageError` unless an answer can follow this GBNF grammar."""
    check(library().gc_grammar_check(grammar.encode()))


def int32_array(values: Sequence[int]) -> ctypes.Array[ctypes.c_int32]:
    """Token ids as C reads them; `UsageError` where one is none."""
    try:
        items = array("i", values)
    except (OverflowError, TypeError):
        raise UsageError("a token id must be a whole number below 2^31") from None
    return (ctypes.c_int32 * len(items)).from_buffer(items)


def free_with(
    owner: object, free: Callable[[ctypes.c_void_p], None], pointer: ctypes.c_void_p
) -> weakref.finalize[Any, Any]:
    """Return what frees the pointer, once: when it is called, or when its owner is collected."""

    def free_here() -> None:
        if not is_forked():
            free(pointer)

    finalizer = weakref.finalize(owner, free_here)
    # Not at exit: threads that are still inside a call die with the process.
    finalizer.atexit = False  # type: ignore[misc]
    return finalizer


class Stop:
    """Asks a long computation to stop. Any thread."""

    def __init__(self) -> None:
        self.flag = ctypes.c_bool(False)

    def set(self) -> None:
        """Stop soon."""
        self.flag.value = True


def cluster_tokens(
    drafter: BinaryIO, count: int, width: int, n_tokens: int, stop: Stop
) -> tuple[array[float], array[int]]:
    """Group a drafter's tokens by their embedding rows into `count` clusters of one size.

    `drafter` is its file, open for reading: what has its path by now does not count. Returns the
    centroids, float32 [count, width], and the tokens in the order of their clusters.
    Takes seconds without holding the interpreter's lock; a daemon thread may be abandoned in it.
    Raises `CancelledError` soon after `stop` was set, `DamagedFileError` on a damaged file.
    """
    centroids, ordering = array("f", bytes(4 * count * width)), array("i", bytes(4 * n_tokens))
    check(
        library().gc_cluster_tokens(
            os.fsencode(drafter.name),
            drafter.fileno(),
            count,
            ctypes.byref(stop.flag),
            (ctypes.c_float * len(centroids)).from_buffer(centroids),
            len(centroids),
            (ctypes.c_int32 * len(ordering)).from_buffer(ordering),
            len(ordering),
        )
    )
    return centroids, ordering
