"""--resume: a saved chat whose settings are defaults of the other options of `gemmachat run`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from gemmachat.errors import UsageError
from gemmachat.saved_options import as_defaults

if TYPE_CHECKING:
    from gemmachat.store import SavedChat

LATEST = "latest"


def with_resume_value(arguments: Sequence[str]) -> list[str]:
    """Return a command line in which a --resume without a number asks for the latest chat."""
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    for place in range(1, end):
        is_number = place + 1 < end and words[place + 1].isascii() and words[place + 1].isdigit()
        if words[0] == "run" and words[place] == "--resume" and not is_number:
            words[place] = f"--resume={LATEST}"
    return words


def take_up(context: typer.Context, value: str | None) -> str | None:
    """Load the chat that --resume names: its settings are defaults of the other options."""
    if value is None:
        return None
    from gemmachat.settings import chats_file
    from gemmachat.store import Store

    if value != LATEST and not (value.isascii() and value.isdigit() and len(value) < 19):
        raise UsageError(
            f"--resume takes the number of a chat, as of `gemmachat chats`, not {value[:40]!r}"
        )
    store = Store(chats_file(), context.obj.note)
    saved = store.load(None if value == LATEST else int(value))
    context.meta["resumed"] = saved
    context.default_map = as_defaults(saved.content.settings)
    return value


def resumed_chat(context: typer.Context) -> SavedChat | None:
    """The chat that --resume has loaded."""
    found: SavedChat | None = context.meta.get("resumed")
    return found


def given(context: typer.Context, *, here: bool = False) -> set[str]:
    """Names of the options that the user gave; `here`: not those of a chat that goes on."""
    sources = ("COMMANDLINE",) if here else ("COMMANDLINE", "DEFAULT_MAP")
    return {
        name
        for name in context.params
        if (source := context.get_parameter_source(name)) is not None and source.name in sources
    }
