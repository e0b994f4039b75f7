"""A chat in the terminal, put together: the prompt first, the model while one types."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gemmachat import cli_shared, settings
from gemmachat.errors import NotFoundError
from gemmachat.opening import OpenedChat, Opening
from gemmachat.recording import ChatOrigin, Recording
from gemmachat.repl import PlainReader, Reader, Repl
from gemmachat.talk import Talk

if TYPE_CHECKING:
    from gemmachat.catalog import ResolvedModel
    from gemmachat.generation import GenerationOptions
    from gemmachat.line_editor import LineEditor
    from gemmachat.render import Screen
    from gemmachat.store import Store

_WORDS = "/help lists the commands, Ctrl-D leaves"


def run_chat(
    model: ResolvedModel,
    options: GenerationOptions,
    screen: Screen,
    *,
    system: str | None,
    threads: int | None,
    n_ctx: int | None,
    force: bool,
    stats: bool,
    store: Store | None,
) -> None:
    """Chat until the user leaves. Raises what loading the model raises; `store` None saves nothing.

    Ends the process where the user leaves while the model is still loading.
    """

    def opening_of(model: ResolvedModel) -> Opening:
        def load() -> OpenedChat:
            from gemmachat.chat import Chat

            with ExitStack() as opened:
                engine = opened.enter_context(
                    cli_shared.open_engine(
                        model, threads, n_ctx=n_ctx, exact=options.exact, force=force
                    )
                )
                session = opened.enter_context(
                    engine.session(n_ctx=n_ctx or model.context, exact=options.exact)
                )
                if model.unit is not None:
                    model.unit.touch()
                chat = Chat(engine, session, options, system=system)
                return OpenedChat(chat, engine.vocab, opened.pop_all().close)

        return Opening(model.name, load)

    talk = Talk(
        opening_of(model),
        screen,
        Recording(store, ChatOrigin(model.name, {}), screen.note),
        store=store,
        reopen=lambda name: opening_of(cli_shared.find_model(name, None)[0]),
        stats=stats,
    )
    screen.note(f"{model.name}: {_WORDS}")
    try:
        Repl(talk, _reader(talk, screen, private=store is None)).run()
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

    def shown() -> None:
        talk.opening.start(lambda error: _loaded(editor, error))

    editor = LineEditor(
        screen.terminal,
        history=None if private else _history_file(),
        suggest=lambda text: suggestions(text, settings=SETTINGS, chats=chats),
        status=lambda: talk.status,
        shown=shown,
    )
    return editor


def _loaded(editor: LineEditor, error: BaseException | None) -> None:
    if error is None:
        editor.refresh()
    else:
        editor.fail(error)


def _history_file() -> Path | None:
    try:
        return settings.history_file()
    except NotFoundError:  # a user without a home
        return None


def _leave(talk: Talk, *, failed: bool) -> None:
    if not talk.opening.loading:
        talk.opening.close()
    elif not failed:
        # Native code that loads cannot be stopped, and must not be waited for.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(0)
