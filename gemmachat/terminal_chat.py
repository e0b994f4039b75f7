"""A chat in the terminal, put together: the prompt first, the model while one types."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gemmachat import settings
from gemmachat.errors import NotFoundError
from gemmachat.opening import OpenedChat, Opening, any_loading
from gemmachat.repl import PlainReader, Reader, Repl
from gemmachat.talk import Talk

if TYPE_CHECKING:
    from gemmachat.chat_source import Source
    from gemmachat.render import Screen
    from gemmachat.saving import Saving

_WORDS = "/help lists the commands, Ctrl-D leaves"


def run_chat(source: Source, screen: Screen, saving: Saving, *, stats: bool) -> None:
    """Chat until the user leaves. Raises what loading the model raises.

    Ends the process where the user leaves while the model is still loading.
    """

    def load() -> OpenedChat:
        # Imported by the first answer, this would be there for Ctrl-C to break off.
        from gemmachat import answer_view, block_view  # noqa: F401

        opened = source.open()
        saving.restore(opened.chat, source.system)
        if saving.resumed is not None:
            talk.used = opened.chat.used_tokens
        return opened

    def reopen(name: str) -> Opening:
        other = source.other(name)
        return Opening(other.name, other.open, other.settings)

    talk = Talk(
        Opening(source.name, load, source.settings),
        screen,
        saving.recording(source, source.options, screen.note),
        store=saving.store,
        reopen=reopen,
        stats=stats,
    )
    screen.note(f"{source.name}: {_WORDS}")
    if saving.resumed is not None:
        screen.note(f"chat {saving.resumed.id}: {saving.resumed.content.name}")
        talk.typed_again = saving.resumed.content.pending
    try:
        Repl(talk, _reader(talk, screen, private=saving.store is None)).run()
    finally:
        _leave(talk, failed=sys.exc_info()[0] is not None)


def _reader(talk: Talk, screen: Screen, *, private: bool) -> Reader:
    """Return a line editor that loads the model once it is seen, or what reads plain lines."""
    if screen.terminal is None:
        talk.opening.wait()
        return PlainReader(screen)
    from gemmachat.chat_settings import SETTINGS
    from gemmachat.command_completion import suggestions
    from gemmachat.line_editor import LineEditor

    def chats() -> Iterable[tuple[str, str]]:
        known = talk.store.chats() if talk.store else []
        return [(str(chat.id), chat.name) for chat in known]

    def loaded(error: BaseException | None) -> None:
        editor.refresh() if error is None else editor.fail(error)

    talk.loaded = loaded
    editor = LineEditor(
        screen.terminal,
        history=None if private else _history_file(),
        suggest=lambda text: suggestions(text, settings=SETTINGS, chats=chats),
        status=lambda: talk.status,
        shown=lambda: talk.start(talk.opening),
        warn=screen.error,
    )
    return editor


def _history_file() -> Path | None:
    try:
        return settings.history_file()
    except NotFoundError:  # a user without a home
        return None


def _leave(talk: Talk, *, failed: bool) -> None:
    if not any_loading():
        talk.opening.close()
    elif not failed:
        # Native code that loads cannot be stopped, and must not be waited for.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(0)
