"""The standard streams as a program can rely on them: open, blocking, never an encoding error."""

from __future__ import annotations

import os
from contextlib import suppress
from io import TextIOWrapper
from typing import TextIO


def standard(stream: TextIO | None) -> TextIO:
    """A standard stream that can be written to: what was closed by the caller leads nowhere."""
    if stream is None:
        # As with the interpreter's own streams, the descriptor stays open.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        return open(nowhere, "w", encoding="utf-8", closefd=False)
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="replace")  # an answer may hold what the locale cannot encode
    return stream


def make_blocking(stream: TextIO | None) -> None:
    """Undo what a program that shares the pipe may have set: reads and writes would come short."""
    if stream is not None:
        with suppress(OSError, ValueError):  # a stream that is no file of the system
            os.set_blocking(stream.fileno(), True)


def discard(stream: TextIO) -> None:
    """Send what the stream still holds, and all that follows, nowhere."""
    with suppress(OSError, ValueError):  # a stream that is no file of the system
        # Otherwise the interpreter fails once more when it flushes it at exit.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
