"""Whether and where a chat of `gemmachat run` is saved, and what it goes on from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from gemmachat.conversation import Conversation
from gemmachat.recording import ChatOrigin, Recording
from gemmachat.saved_options import as_settings

if TYPE_CHECKING:
    from gemmachat.chat_source import Source
    from gemmachat.dialogue import Dialogue
    from gemmachat.generation import GenerationOptions
    from gemmachat.store import SavedChat, Store


@dataclass(frozen=True, slots=True)
class Saving:
    """Without a store nothing is saved; `resumed` is the saved chat that goes on, if one does."""

    store: Store | None
    resumed: SavedChat | None

    def recording(
        self, source: Source, options: GenerationOptions, warn: Callable[[str], None]
    ) -> Recording:
        """Return what keeps the chat on disk."""
        return Recording(self.store, origin(source, options), warn, self.resumed)

    def restore(self, chat: Dialogue, system: str | None) -> None:
        """Give a new chat what was said before. `system` replaces the system prompt, if given.

        Raises `UsageError` where a newer gemmachat saved it.
        """
        if self.resumed is not None:
            chat.restore(Conversation.from_dict(self.resumed.content.document))
            if system is not None:
                chat.set_system(system)


class Named(Protocol):
    """A model that can be found again."""

    @property
    def name(self) -> str:
        """What the user sees as its name."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What finds it; see `chat_source.Source`."""


def origin(source: Named, options: GenerationOptions) -> ChatOrigin:
    """Return what a chat is saved with, so that it can go on one day."""
    on_server = "base_url" in source.settings
    settings = as_settings(options, defaults=not on_server)
    return ChatOrigin(source.name, {**source.settings, **settings})
