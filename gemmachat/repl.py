"""The prompt loop: what is typed is a command or a question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gemmachat import commands
from gemmachat.command_runner import CommandRunner
from gemmachat.typed_text import is_open, message_of

if TYPE_CHECKING:
    from gemmachat.render import Screen
    from gemmachat.talk import Talk

PROMPT = "> "
_CONTINUED = ". "


class Reader(Protocol):
    """Where messages come from; `line_editor.LineEditor` is one."""

    def read(self, default: str = "") -> str | None:
        """Return a message, None at the end. Ctrl-C raises KeyboardInterrupt."""


class PlainReader:
    """Reads lines without any editing, as from a terminal that can do nothing else."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def read(self, default: str = "") -> str | None:
        """Return a line, or several between three double quotes. `default` is shown before."""
        if default:
            self._screen.note("to be typed anew:", default)
        text = self._screen.read_line(PROMPT)
        while text is not None and is_open(text):
            more = self._screen.read_line(_CONTINUED)
            if more is None:
                break
            text = f"{text}\n{more}"
        return None if text is None else message_of(text)


class Repl:
    """Asks and answers until the user leaves."""

    def __init__(self, talk: Talk, reader: Reader) -> None:
        self._talk = talk
        self._reader = reader
        self._commands = CommandRunner(talk)
        self._leaving = False  # after one Ctrl-C at the prompt

    def run(self) -> None:
        """Run until `/bye`, the end of input or two Ctrl-C. Raises what loading the model did."""
        asking = interrupted = False
        while True:
            try:
                if interrupted:
                    interrupted = False
                    if not self._goes_on(asking):
                        return
                asking = True
                default, self._talk.typed_again = self._talk.typed_again or "", None
                message = self._reader.read(default)
                asking = self._leaving = False
                if message is None or not self._take(message):
                    return
            except KeyboardInterrupt:
                interrupted = True

    def _goes_on(self, asking: bool) -> bool:
        """Tell what Ctrl-C did, at the prompt if `asking`; returns whether to go on."""
        if not asking:
            self._talk.stopped()
        elif self._talk.settled:
            if self._leaving:
                return False
            self._leaving = True
            self._talk.edits = False
            self._talk.screen.note("press Ctrl-C again or Ctrl-D to leave")
        return True

    def _take(self, message: str) -> bool:
        """Do what a message asks for; returns whether to go on."""
        command = commands.split(message)
        if command is not None:
            return self._commands.run(*command)
        if message.strip():
            self._wait(message)
            self._talk.ask(message)
        else:
            self._talk.edits = False  # the question that was to change stays as it is
        return True

    def _wait(self, message: str) -> None:
        """Wait for the model. A message that was interrupted meanwhile can be sent again."""
        try:
            self._talk.opened  # noqa: B018 - waits
        except KeyboardInterrupt:
            self._talk.typed_again = message
            raise
