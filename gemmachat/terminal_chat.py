"""A chat in the terminal: the prompt first, all that a chat consists of while one types."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gemmachat import settings
from gemmachat.background import Background, any_running
from gemmachat.errors import NotFoundError
from gemmachat.repl import PlainReader, Reader, Repl
from gemmachat.terminal_mode import restored_when_terminated

if TYPE_CHECKING:
    from gemmachat.command_completion import Suggestion
    from gemmachat.render import Screen
    from gemmachat.talk import Talk

_WORDS = "/help lists the commands, Ctrl-D leaves"


def run_chat(chat: Background[Talk], screen: Screen, *, private: bool) -> None:
    """Chat until the user leaves. Raises what putting it together and loading its model raise.

    `private`: what is typed is not remembered. Ends the process where the user leaves while the
    model is still loading.
    """
    begun = chat.value
    screen.note(_WORDS if begun is None else f"{begun.opening.name}: {_WORDS}")
    if begun is not None and begun.recording.id is not None:
        screen.note(f"chat {begun.recording.id}: {begun.recording.name}")
    terminal = screen.terminal
    in_order = restored_when_terminated(sys.stdin, terminal) if terminal else nullcontext()
    try:
        with in_order:
            Repl(chat, _reader(chat, screen, private=private), screen).run()
    finally:
        _leave(chat, failed=sys.exc_info()[0] is not None)


def _reader(chat: Background[Talk], screen: Screen, *, private: bool) -> Reader:
    """Return a line editor that loads the model once it is seen, or what reads plain lines."""
    if screen.terminal is None:
        chat.wait().opening.wait()
        return PlainReader(screen)
    from gemmachat.line_editor import LineEditor

    def suggest(text: str) -> Iterable[Suggestion]:
        from gemmachat.chat_settings import SETTINGS
        from gemmachat.command_completion import suggestions

        return suggestions(text, settings=SETTINGS, chats=lambda: _saved_chats(chat.value))

    def loaded(error: BaseException | None) -> None:
        editor.refresh() if error is None else editor.fail(error)

    def load(error: BaseException | None) -> None:
        if error is not None:
            editor.fail(error)
            return
        talk = chat.value
        assert talk is not None
        talk.loaded = loaded
        talk.start(talk.opening)
        editor.refresh()

    editor = LineEditor(
        screen.terminal,
        history=None if private else _history_file(),
        suggest=suggest,
        status=lambda: "loading" if chat.value is None else chat.value.status,
        shown=lambda: chat.start(load),
        warn=screen.error,
    )
    screen.above_prompt = editor.above
    return editor


def _saved_chats(talk: Talk | None) -> Iterable[tuple[str, str]]:
    known = talk.store.chats() if talk is not None and talk.store is not None else []
    return [(str(chat.id), chat.name) for chat in known]


def _history_file() -> Path | None:
    try:
        return settings.history_file()
    except NotFoundError:  # a user without a home
        return None


def _leave(chat: Background[Talk], *, failed: bool) -> None:
    if not any_running():
        if chat.value is not None:
            chat.value.opening.close()
    elif not failed:
        # Native code that loads cannot be stopped, and must not be waited for.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(0)
