"""What the terminal does with keys while nobody reads them."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TextIO

if sys.platform != "win32":
    import termios

_INPUT, _LOCAL = 0, 3  # where `tcgetattr` puts these flags
_PATIENCE_S = 0.5  # with a terminal that takes nothing more
UNMARKED = "\x1b[?2004l"
"""Ends bracketed paste."""
_CURSOR = "\x1b[?25h"  # shows it


@contextmanager
def keys_held(stdin: TextIO | None) -> Iterator[None]:
    """Show no key that is pressed in the block; the next prompt finds them all.

    Ctrl-C and Ctrl-Z go on to work. Does nothing where `stdin` is no terminal.
    """

    def held(mode: list[Any]) -> None:
        mode[_INPUT] &= ~termios.ICRNL
        mode[_LOCAL] &= ~(termios.ECHO | termios.ICANON)

    with _mode(stdin, held):
        yield


@contextmanager
def keys_asked(stdin: TextIO | None) -> Iterator[None]:
    """Forget the keys that were pressed, and show those of the block, which are read by the line.

    Does nothing where `stdin` is no terminal.
    """

    def asked(mode: list[Any]) -> None:
        mode[_INPUT] |= termios.ICRNL
        mode[_LOCAL] |= termios.ECHO | termios.ICANON

    with _mode(stdin, asked) as descriptor:
        if descriptor is not None:
            # Unlike TCSAFLUSH this reaches keys, too, that the system is still passing on.
            termios.tcflush(descriptor, termios.TCIFLUSH)
        yield


@contextmanager
def restored_when_terminated(stdin: TextIO, out: TextIO) -> Iterator[None]:
    """Have SIGTERM leave the terminal as it is now, and end the process, whatever it does.

    Main thread only. `interrupt.on_interrupt` passes the signal on while native code runs.
    """
    before = termios.tcgetattr(stdin.fileno())

    def end(number: int, _frame: FrameType | None) -> None:
        with suppress(OSError, termios.error):
            termios.tcsetattr(stdin.fileno(), termios.TCSANOW, before)
            # Ctrl-S may have stopped it: the write would never return.
            termios.tcflow(out.fileno(), termios.TCOON)
            if select.select([], [out], [], _PATIENCE_S)[1]:
                os.write(out.fileno(), f"{UNMARKED}{_CURSOR}\n".encode())
        os._exit(128 + number)

    previous = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextmanager
def _mode(stdin: TextIO | None, change: Callable[[list[Any]], None]) -> Iterator[int | None]:
    """Change the mode of a terminal for the block, which gets its descriptor, or None."""
    try:
        descriptor = stdin.fileno() if stdin is not None and stdin.isatty() else -1
        before = termios.tcgetattr(descriptor) if descriptor >= 0 else None
    except (OSError, ValueError, termios.error):
        before = None
    if before is None:
        yield None
        return
    changed = list(before)
    change(changed)
    termios.tcsetattr(descriptor, termios.TCSANOW, changed)
    try:
        yield descriptor
    finally:
        with suppress(OSError, termios.error):  # the terminal is gone
            termios.tcsetattr(descriptor, termios.TCSANOW, before)
