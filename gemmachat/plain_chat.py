"""`gemmachat run` and `gemmachat run MODEL`: at a terminal, the prompt comes before all else.

Without options nothing is needed to show it, neither the command line's library, which takes longer
to import than all the rest, nor what a chat consists of: that is imported while one types.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gemmachat.background import Background
from gemmachat.terminal_chat import run_chat

if TYPE_CHECKING:
    from gemmachat.render import Screen
    from gemmachat.talk import Talk


def words_of(arguments: Sequence[str]) -> list[str] | None:
    """The words after `run` where they are one at most and no option; None of any other command."""
    if not arguments or arguments[0] != "run" or len(arguments) > 2:
        return None
    words = list(arguments[1:])
    return None if words and words[0].startswith("-") else words


def execute(words: Sequence[str], screen: Screen) -> int:
    """Do what `run` with these words does and return the exit code.

    Python collects garbage from when the prompt has been seen.
    """
    name = words[0] if words else None
    if screen.terminal is None or not _is_model(name):
        from gemmachat.run_request import RunRequest, execute

        gc.enable()
        return execute(RunRequest(first=name), screen)

    def begin() -> Talk:
        from gemmachat import run_request

        gc.enable()
        return run_request.begin(name, screen)

    run_chat(Background(begin), screen, private=False)
    return 0


def _is_model(name: str | None) -> bool:
    """Whether a chat is asked for. Raises what finding the model raises."""
    if name is None:
        return True
    from gemmachat.catalog import looks_like_model
    from gemmachat.loading import find_model

    return looks_like_model(name) and find_model(name, None) is not None
