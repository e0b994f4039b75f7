"""Does what the commands on saved chats say."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from gemmachat.conversation import Conversation
from gemmachat.errors import UsageError
from gemmachat.export import export
from gemmachat.publish import publish
from gemmachat.saved_options import from_settings

if TYPE_CHECKING:
    from gemmachat.talk import Talk

_SHOWN_OF_LOADED = 500  # characters of the last answer of a chat that is taken up


class SavedChatCommands:
    """The commands of a running chat that save, find and take up chats."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._screen = talk.screen

    def save(self, name: str) -> None:
        """Give the chat a name, and tell its number and name."""
        self._saved()
        if name:
            self._talk.recording.rename(name)
        self._screen.note(f"chat {self._talk.recording.id}: {self._talk.recording.name}")

    def rename(self, name: str) -> None:
        """Give the chat another name."""
        if not name:
            raise UsageError("give the new name")
        self.save(name)

    def load(self, argument: str) -> None:
        """Go on with a saved chat."""
        if self._talk.store is None:
            raise UsageError("nothing is loaded in a chat that is not saved (--no-save)")
        if not argument.isascii() or not argument.isdigit():
            raise UsageError("give the number of a chat: /chats lists them")
        saved = self._talk.store.load(int(argument))
        conversation = Conversation.from_dict(saved.content.document)
        options = from_settings(saved.content.settings, self._talk.chat.options)
        self._talk.chat.restore(conversation)
        self._talk.chat.options = options
        self._talk.recording.switch(saved)
        self._talk.used = self._talk.chat.used_tokens
        turns = conversation.turns()
        self._screen.note(f"chat {saved.id}: {saved.content.name} ({len(turns)} questions)")
        if turns:
            last = turns[-1]
            self._screen.note(f"> {shortened(last[0].text)}", shortened(last[-1].text))
        self._talk.typed_again = saved.content.pending

    def chats(self, text: str) -> None:
        """List the saved chats that hold a text."""
        if self._talk.store is None:
            raise UsageError("this chat is not saved, and lists none (--no-save)")
        chats = self._talk.store.chats(text)
        if not chats:
            self._screen.note("no chat is saved" if not text else "no chat holds that text")
        for chat in chats:
            when = chat.changed_at.astimezone().strftime("%Y-%m-%d %H:%M")
            self._screen.note(f"{chat.id:>5}  {when}  {chat.questions:>3}  {chat.name}")

    def export(self, argument: str) -> None:
        """Write the chat to a new file."""
        path = Path(os.path.expanduser(argument))
        if path.suffix not in (".md", ".json"):
            raise UsageError("give the path of a file that ends in .md or .json")
        if path.exists():
            raise UsageError(f"{argument} exists already: give another name")
        talk = self._talk
        name = talk.recording.name or "Chat"
        text = export(talk.chat.conversation, path.suffix[1:], name=name, model=talk.opening.name)
        publish(path, text.encode("utf-8"))
        self._screen.note(f"written to {argument}")

    def _saved(self) -> None:
        if self._talk.store is None:
            raise UsageError("this chat is not saved (--no-save)")
        if self._talk.recording.name is None:
            raise UsageError("there is nothing to save yet: ask something first")


def shortened(text: str) -> str:
    """Return the beginning of a long text."""
    if len(text) <= _SHOWN_OF_LOADED:
        return text
    return f"{text[:_SHOWN_OF_LOADED]} ..."
