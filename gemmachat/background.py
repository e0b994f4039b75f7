"""A value that is computed beside the program, such as a model that loads while one types."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from gemmachat.interrupt import no_thread

_TICK_S = 0.1  # how soon Ctrl-C ends a wait
_THREAD = "gemmachat: background"

Value = TypeVar("Value")


class Background(Generic[Value]):
    """Computes in a thread of its own from `start` on, or when the value is waited for."""

    def __init__(self, compute: Callable[[], Value]) -> None:
        self._compute = compute
        self._found: list[Value] = []
        self._error: BaseException | None = None
        self._ended: threading.Event | None = None  # of the thread

    def start(self, done: Callable[[BaseException | None], None]) -> None:
        """Begin; `done` is called from the thread, with what went wrong if anything did."""
        # Unlike `join`, waiting for an event can be interrupted by Ctrl-C in every Python.
        ended = self._ended = threading.Event()

        def run() -> None:
            try:
                self._run()
                done(self._error)
            finally:
                ended.set()

        try:
            threading.Thread(target=run, name=_THREAD, daemon=True).start()
        except RuntimeError:
            self._ended = None
            self._error = no_thread()
            done(self._error)

    @property
    def value(self) -> Value | None:
        """The value; None while it is not there."""
        return self._found[0] if self._found else None

    @property
    def running(self) -> bool:
        """Whether the thread is at work."""
        return self._ended is not None and not self._ended.is_set()

    def join(self) -> None:
        """Wait until the thread has ended, if there is one."""
        while self._ended is not None and not self._ended.wait(_TICK_S):
            pass

    def wait(self) -> Value:
        """Return the value as soon as it is there. Raises what computing it raised."""
        if self._ended is not None:
            self.join()
        elif not self._found and self._error is None:
            self._run()
        if self._error is not None:
            raise self._error
        return self._found[0]

    def _run(self) -> None:
        if self._found:
            return
        try:
            self._found.append(self._compute())
        except BaseException as error:  # raised again where the value is waited for
            self._error = error


def any_running() -> bool:
    """Whether anything is being computed, also what nobody waits for any more."""
    return any(thread.name == _THREAD for thread in threading.enumerate())
