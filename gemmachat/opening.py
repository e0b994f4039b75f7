"""A chat whose model is loaded while the first question is typed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gemmachat.dialogue import Dialogue
    from gemmachat.vocab import Vocab

_TICK_S = 0.1  # how soon Ctrl-C ends a wait
_THREAD = "loading a model"


@dataclass(frozen=True, slots=True)
class OpenedChat:
    """A chat that can be asked. `close` frees it together with its model."""

    chat: Dialogue
    vocab: Vocab | None
    """None where the model is on a server."""
    close: Callable[[], None]


class Opening:
    """Loads a model by `load`, in a thread of its own from `start` on, or when it is waited for."""

    def __init__(
        self, name: str, load: Callable[[], OpenedChat], settings: Mapping[str, Any]
    ) -> None:
        self.name = name
        """Of the model."""
        self.settings = settings
        """What finds the model again; see `chat_source.Source`."""
        self._load = load
        self._opened: OpenedChat | None = None
        self._error: BaseException | None = None
        self._done: Callable[[BaseException | None], None] = lambda _error: None
        self._ended: threading.Event | None = None  # of the thread
        self._closed = False
        self._lock = threading.Lock()

    def start(self, done: Callable[[BaseException | None], None]) -> None:
        """Begin to load; `done` is called from the thread, with what went wrong if anything did."""
        self._done = done
        # Unlike `join`, waiting for an event can be interrupted by Ctrl-C in every Python.
        self._ended = threading.Event()
        threading.Thread(target=self._run, name=_THREAD, daemon=True).start()

    @property
    def opened(self) -> OpenedChat | None:
        """The chat; None while it is not there."""
        return self._opened

    @property
    def loading(self) -> bool:
        """Whether the thread is at work."""
        return self._ended is not None and not self._ended.is_set()

    def wait(self) -> OpenedChat:
        """Return the chat as soon as it is there. Raises what loading it raised."""
        if self._ended is not None:
            while not self._ended.wait(_TICK_S):
                pass
        elif self._opened is None and self._error is None:
            self._run()
        if self._error is not None:
            raise self._error
        assert self._opened is not None
        return self._opened

    def after(self, other: Opening, prepare: Callable[[Dialogue], None]) -> Opening:
        """Return what loads this model anew once `other` loads no more, and prepares its chat."""

        def load() -> OpenedChat:
            if other._ended is not None:
                other._ended.wait()
            opened = self._load()
            prepare(opened.chat)
            return opened

        return Opening(self.name, load, self.settings)

    def close(self) -> None:
        """Free the chat and its model; one that is still loading as soon as it is there."""
        with self._lock:
            self._closed = True
            opened = self._opened
        if opened is not None:
            opened.close()

    def _run(self) -> None:
        try:
            opened = self._load()
            with self._lock:
                self._opened = opened
                closed = self._closed
            if closed:
                opened.close()
        except BaseException as error:  # raised again where the chat is waited for
            self._error = error
        try:
            self._done(self._error)
        finally:
            if self._ended is not None:
                self._ended.set()


def any_loading() -> bool:
    """Whether a model is being loaded, also one that nobody waits for any more."""
    return any(thread.name == _THREAD for thread in threading.enumerate())
