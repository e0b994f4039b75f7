"""The answer to one question of `gemmachat run`, in a chat of its own or a saved one."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from gemmachat.ask import Form, answer_once

if TYPE_CHECKING:
    from gemmachat.chat_source import Source
    from gemmachat.render import Screen
    from gemmachat.saving import Saving


def answer_one(
    source: Source, screen: Screen, saving: Saving, question: str, form: Form, *, stats: bool
) -> int:
    """Answer one question and return the exit code; a chat that goes on is saved."""
    with closing(source.open()) as opened:
        chat = opened.chat
        if saving.resumed is None:
            return answer_once(chat, question, screen, model=source.name, form=form, stats=stats)
        saving.restore(chat, source.system)
        before = chat.conversation
        recording = saving.recording(source, chat.options, screen.note)
        recording.ask(question, before.as_dict())
        try:
            return answer_once(chat, question, screen, model=source.name, form=form, stats=stats)
        finally:
            if chat.conversation is not before:  # otherwise the question stays saved as unanswered
                recording.keep(chat.conversation.as_dict())
