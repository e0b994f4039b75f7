"""The commands of the chat: their names, what they take, their help. Data, nothing is done here."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Literal

# What a command's argument is, for completion.
ArgumentKind = Literal["none", "text", "file", "model", "setting", "chat", "command", "choice"]


@dataclass(frozen=True, slots=True)
class Command:
    """One command. `argument` is how its help spells what it takes; `choices` are offered."""

    name: str
    argument: str
    help: str
    kind: ArgumentKind = "none"
    choices: tuple[str, ...] = ()


COMMANDS = (
    Command("/help", "[COMMAND]", "list the commands, or explain one", "command"),
    Command("/model", "[NAME]", "tell the model, or go on with another one", "model"),
    Command("/system", "[TEXT|off]", "show, set or remove the system prompt", "text"),
    Command("/set", "NAME VALUE", "change a setting; /show lists them", "setting"),
    Command("/show", "[NAME]", "show the settings, or one", "setting"),
    Command(
        "/think",
        "on|off|hide|show",
        "think before the answer, fold the thoughts, or show the last ones",
        "choice",
        ("on", "off", "hide", "show"),
    ),
    Command("/draft", "auto|off|N", "how many tokens to draft", "choice", ("auto", "off", "3")),
    Command("/stats", "[full]", "figures of the last answer", "choice", ("full",)),
    Command("/regen", "", "answer the last question again"),
    Command("/undo", "", "take back the last question and its answer"),
    Command("/edit", "[TEXT]", "change the last question and have it answered", "text"),
    Command("/copy", "[code]", "copy the last answer, or its last code", "choice", ("code",)),
    Command("/save", "[NAME]", "give this chat, which is saved anyway, a name", "text"),
    Command("/load", "ID", "go on with a saved chat", "chat"),
    Command("/chats", "[TEXT]", "list the saved chats, or those with a text in them", "text"),
    Command("/rename", "NAME", "give this chat another name", "text"),
    Command("/export", "FILE.md|FILE.json", "write this chat to a new file", "file"),
    Command("/read", "FILE", "put a text file before the next question", "file"),
    Command("/clear", "", "start a new conversation"),
    Command("/compact", "", "have the model summarise all but the last turn"),
    Command("/tokens", "[TEXT]", "how full the context is, or the tokens of a text", "text"),
    Command("/bye", "", "leave; so do /exit, /quit, Ctrl-D, and Ctrl-C twice"),
)
BY_NAME = {command.name: command for command in COMMANDS}
ALIASES = {"/exit": "/bye", "/quit": "/bye", "/?": "/help"}
KEYS = (
    "Alt-Enter starts a new line, and so does Enter after three double quotes. Up and Ctrl-R find",
    "what was typed before, Tab completes, Ctrl-G opens your editor. Ctrl-C stops an answer.",
    "A line that begins with a blank is never a command.",
)

_WORD = re.compile(r"/[A-Za-z]+|/\?")


def split(line: str) -> tuple[str, str] | None:
    """Return a command's name and argument as they were typed; None if the line is no command."""
    word = _WORD.match(line)
    if word is None or not (word.end() == len(line) or line[word.end()].isspace()):
        return None
    name = word.group().lower()
    return ALIASES.get(name, name), line[word.end() :].strip()


def unknown(name: str) -> str:
    """Say that there is no such command, and which one may have been meant."""
    like = difflib.get_close_matches(name, [*BY_NAME, *ALIASES], 1, cutoff=0.5)
    starts = [known for known in BY_NAME if known.startswith(name)]
    meant = (starts or like)[:1]
    hint = f"did you mean {meant[0]}? " if meant else ""
    return f"there is no command {name}: {hint}/help lists them"


def help_lines(name: str = "") -> list[str]:
    """The help on a command, or on all of them."""
    if name:
        full = name if name.startswith("/") else f"/{name}"
        full = ALIASES.get(full, full)
        if full not in BY_NAME:
            return [unknown(full)]
        command = BY_NAME[full]
        return [f"{command.name} {command.argument}".rstrip() + f": {command.help}"]
    heads = [f"{command.name} {command.argument}".rstrip() for command in COMMANDS]
    width = max(map(len, heads))
    listed = zip(heads, COMMANDS, strict=True)
    return [*(f"{head:{width}}  {command.help}" for head, command in listed), *KEYS]
