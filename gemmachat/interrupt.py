"""Ctrl-C, and the end of the process by SIGTERM, while native code runs.

Python runs its signal handlers between bytecodes, so not before a call into native code returns.
The wakeup descriptor is written at once, by the C level handler: a thread reads it and acts.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Protocol

from gemmachat.errors import MemoryLimitError

INTERRUPTED = 130  # exit code: 128 + SIGINT


class Cancellable(Protocol):
    """Something that another thread can ask to stop."""

    def cancel(self) -> None:
        """Return at once; what runs stops soon after."""


@dataclass(slots=True)
class Interrupt:
    """Whether Ctrl-C was pressed since the block was entered."""

    pressed: bool = False


def no_thread() -> MemoryLimitError:
    """The error where the system allows no further thread."""
    return MemoryLimitError(
        "no thread can be started: memory or the number of processes is at its limit"
    )


@contextmanager
def on_interrupt(action: Callable[[], None]) -> Iterator[Interrupt]:
    """Call `action` from another thread on every Ctrl-C; a second raises KeyboardInterrupt too.

    The action runs even while the main thread is inside native code. On leaving, the previous
    handler and wakeup descriptor are back. It does nothing outside the main thread, which alone
    receives signals, and where Ctrl-C is ignored, as in a background job of a script. A handler of
    SIGTERM, which must end the process, is called from that thread as well. Raises
    `MemoryLimitError` when the system allows no further thread.
    """
    interrupt = Interrupt()
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield interrupt
        return

    reader, writer = socket.socketpair()
    writer.setblocking(False)

    handled = 0
    leaving = False

    def listen() -> None:
        while numbers := reader.recv(64):
            if signal.SIGINT in numbers:
                interrupt.pressed = True
                action()
            terminated = signal.getsignal(signal.SIGTERM)
            if signal.SIGTERM in numbers and callable(terminated):
                terminated(signal.SIGTERM, None)

    def handle(_number: int, _frame: FrameType | None) -> None:
        # Runs in the main thread once native code has returned. The listener does the work; this
        # is for Python code that goes on all the same, such as a write that blocks.
        nonlocal handled
        handled += 1
        if handled > 1 and not leaving:
            raise KeyboardInterrupt

    listener = threading.Thread(target=listen, name="interrupt", daemon=True)
    try:
        listener.start()
    except RuntimeError:
        reader.close()
        writer.close()
        raise no_thread() from None
    old_descriptor = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    old_handler = signal.signal(signal.SIGINT, handle)
    try:
        yield interrupt
    finally:
        leaving = True
        signal.signal(signal.SIGINT, old_handler)
        signal.set_wakeup_fd(old_descriptor)
        writer.close()  # ends the listener
        listener.join()
        reader.close()


@contextmanager
def interrupts_raise() -> Iterator[None]:
    """In the block, within one of `on_interrupt`, the first Ctrl-C raises KeyboardInterrupt too."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def cancel_on_interrupt(session: Cancellable) -> AbstractContextManager[Interrupt]:
    """Return a block in which Ctrl-C cancels what `session` is doing; see `on_interrupt`."""
    return on_interrupt(session.cancel)


def exit_on_interrupt() -> AbstractContextManager[Interrupt]:
    """Return a block, such as loading a model, in which Ctrl-C ends the process at once."""
    return on_interrupt(lambda: os._exit(INTERRUPTED))
