"""What the terminal does with keys while nobody reads them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

if sys.platform != "win32":
    import termios

_INPUT, _LOCAL = 0, 3  # where `tcgetattr` puts these flags


@contextmanager
def keys_held(stdin: TextIO | None) -> Iterator[None]:
    """Show no key that is pressed in the block; the next prompt finds them all.

    Ctrl-C and Ctrl-Z go on to work. Does nothing where `stdin` is no terminal.
    """
    try:
        descriptor = stdin.fileno() if stdin is not None and stdin.isatty() else -1
        before = termios.tcgetattr(descriptor) if descriptor >= 0 else None
    except (OSError, ValueError, termios.error):
        before = None
    if before is None:
        yield
        return
    held = list(before)
    held[_INPUT] &= ~termios.ICRNL
    held[_LOCAL] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(descriptor, termios.TCSANOW, held)
    try:
        yield
    finally:
        with suppress(OSError, termios.error):  # the terminal is gone
            termios.tcsetattr(descriptor, termios.TCSANOW, before)
