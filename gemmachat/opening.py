"""A chat whose model is loaded while the first question is typed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gemmachat.background import Background

if TYPE_CHECKING:
    from gemmachat.dialogue import Dialogue
    from gemmachat.vocab import Vocab


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
        self._work = Background(self._open)
        self._opened: OpenedChat | None = None
        self._closed = False
        self._lock = threading.Lock()

    def start(self, done: Callable[[BaseException | None], None]) -> None:
        """Begin to load; `done` is called from the thread, with what went wrong if anything did."""
        self._work.start(done)

    @property
    def opened(self) -> OpenedChat | None:
        """The chat; None while it is not there."""
        return self._opened

    @property
    def loading(self) -> bool:
        """Whether the thread is at work."""
        return self._work.running

    def wait(self) -> OpenedChat:
        """Return the chat as soon as it is there. Raises what loading it raised."""
        return self._work.wait()

    def after(self, other: Opening, prepare: Callable[[Dialogue], None]) -> Opening:
        """Return what loads this model anew once `other` loads no more, and prepares its chat."""

        def load() -> OpenedChat:
            other._work.join()
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

    def _open(self) -> OpenedChat:
        opened = self._load()
        with self._lock:
            self._opened = opened
            closed = self._closed
        if closed:
            opened.close()
        return opened
