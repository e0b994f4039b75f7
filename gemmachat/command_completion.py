"""What completes a command that is being typed: its name, files, models, settings, chats."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from gemmachat.commands import BY_NAME, COMMANDS, Command, split
from gemmachat.errors import GemmachatError

_MOST = 200  # entries of a folder

# (text that replaces, where it begins counted back from the cursor, what it is)
Suggestion = tuple[str, int, str]


def suggestions(
    text: str, *, settings: Iterable[str], chats: Callable[[], Iterable[tuple[str, str]]]
) -> list[Suggestion]:
    """Return what may complete `text`, all that stands before the cursor.

    `chats` lists the numbers and names of saved chats. What cannot be read suggests nothing.
    """
    if not text.startswith("/") or "\n" in text:
        return []
    name, blank, argument = text.partition(" ")
    if not blank:
        return [
            (command.name, len(text), command.help)
            for command in COMMANDS
            if command.name.startswith(text.lower())
        ]
    known = split(name)
    command = BY_NAME.get(known[0]) if known else None
    if command is None:
        return []
    found: Iterator[tuple[str, str]] = iter(())
    with suppress(GemmachatError, OSError):
        found = iter(list(_values(command, argument, settings, chats)))
    return [(value, len(argument), about) for value, about in found if value.startswith(argument)]


def _values(
    command: Command,
    argument: str,
    settings: Iterable[str],
    chats: Callable[[], Iterable[tuple[str, str]]],
) -> Iterable[tuple[str, str]]:
    if command.kind == "model":
        from gemmachat.completion import complete_known

        return complete_known(argument)
    listed: dict[str, Callable[[], Iterable[tuple[str, str]]]] = {
        "choice": lambda: ((choice, "") for choice in command.choices),
        "command": lambda: ((each.name.removeprefix("/"), each.help) for each in COMMANDS),
        "setting": lambda: ((name, "") for name in settings),
        "chat": chats,
        "file": lambda: _files(argument),
    }
    return listed[command.kind]() if command.kind in listed else ()


def _files(typed: str) -> Iterator[tuple[str, str]]:
    """Entries of the folder that is being typed, as they would be typed on."""
    folder, _ = os.path.split(typed)
    with os.scandir(os.path.expanduser(folder) or ".") as entries:
        names = sorted((entry.name, entry.is_dir()) for entry in entries)
    start = typed[: len(typed) - len(os.path.split(typed)[1])]
    hidden = os.path.basename(typed).startswith(".")
    matching = [
        (name, is_folder)
        for name, is_folder in names
        if (start + name).startswith(typed) and name.startswith(".") == hidden
    ]
    for name, is_folder in matching[:_MOST]:
        yield start + name + ("/" if is_folder else ""), "folder" if is_folder else ""
