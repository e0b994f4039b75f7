"""Keeps one chat on disk: every question before its answer begins, every turn when it has ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gemmachat.errors import DamagedFileError, GemmachatError
from gemmachat.store import ChatContent, SavedChat, Store, first_name


@dataclass(frozen=True, slots=True)
class ChatOrigin:
    """What a new chat is saved with: the model's name, and the options that were given."""

    model: str
    settings: Mapping[str, Any]


class Recording:
    """One chat and its place in a store; a chat without questions is not saved.

    That saving fails is told once, by `warn`, and ends no chat. Without a store nothing is saved.
    """

    def __init__(
        self,
        store: Store | None,
        origin: ChatOrigin,
        warn: Callable[[str], None],
        resumed: SavedChat | None = None,
    ) -> None:
        self._store = store
        self._warn = warn
        self._saved = resumed
        self._failing = False
        self._content: ChatContent | None = None if resumed is None else resumed.content
        self.origin = origin
        """May be replaced when a setting changes; the next save has it."""

    @property
    def id(self) -> int | None:
        """The number of the chat in the store; None while it is not there."""
        return None if self._saved is None else self._saved.id

    @property
    def name(self) -> str | None:
        """The name of the chat; None while it has none."""
        return None if self._content is None else self._content.name

    def ask(self, question: str, document: Mapping[str, Any]) -> None:
        """Save a question before its answer begins. `document` is the conversation so far."""
        name = self.name or first_name(question)
        self._save(self._made(name, document, question))

    def keep(self, document: Mapping[str, Any]) -> None:
        """Save the conversation as it is now: after an answer, or after turns were taken back.

        Where it is as it was, a question without an answer stays.
        """
        content = self._content
        if content is not None:
            pending = content.pending if document == content.document else None
            self._save(self._made(content.name, document, pending))

    def rename(self, name: str) -> None:
        """Give the chat another name, for which it must have begun: see `name`."""
        if self._content is not None:
            self._save(replace(self._content, name=name))

    def switch(self, saved: SavedChat | None) -> None:
        """Go on with another saved chat, or with a new one; the old one stays as it was saved."""
        self._saved = saved
        self._content = None if saved is None else saved.content

    def secured(self) -> int | None:
        """Return the number of the chat that has all that was said; saved anew if need be.

        Saving may have failed before, or another program have deleted or changed the chat. None
        where nothing is saved.
        """
        if self._content is not None and not self._is_secure():
            self._save(self._content)
        return None if self._failing else self.id

    def branch(self) -> Callable[[], None]:
        """Save what follows as a chat of its own; the one so far stays as it was saved.

        Returns what goes back to that one.
        """
        before, self._saved = self._saved, None

        def back() -> None:
            self._saved = before

        return back

    def _is_secure(self) -> bool:
        if self._store is None or self._saved is None or self._failing:
            return False
        try:
            return self._store.load(self._saved.id).revision == self._saved.revision
        except GemmachatError:  # saving it tells
            return False

    def _made(self, name: str, document: Mapping[str, Any], pending: str | None) -> ChatContent:
        return ChatContent(name, self.origin.model, self.origin.settings, document, pending)

    def _save(self, content: ChatContent) -> None:
        self._content = content
        if self._store is None:
            return
        try:
            saved = self._stored(self._store, content)
        except GemmachatError as error:
            if not self._failing:
                self._warn(f"this chat is not saved: {error}")
            self._failing = True
            return
        self._failing = False
        if self._saved is not None and saved.id != self._saved.id:
            self._warn(
                f"chat {self._saved.id} is gone or was changed by another program: what is said "
                f"here is saved as chat {saved.id}"
            )
        self._saved = saved

    def _stored(self, store: Store, content: ChatContent) -> SavedChat:
        known = self._saved
        chat, revision = (None, 0) if known is None else (known.id, known.revision)
        try:
            return store.save(content, chat, revision)
        except DamagedFileError:
            # It showed only when something was written: the next try sets the file aside.
            return store.save(content, chat, revision)
