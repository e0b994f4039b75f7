"""The prompt loop: what is typed is a command or a question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gemmachat.typed_text import is_open, message_of

if TYPE_CHECKING:
    from gemmachat.background import Background
    from gemmachat.render import Screen
    from gemmachat.talk import Talk

PROMPT = "> "
_CONTINUED = ". "


class Reader(Protocol):
    """Where messages come from; `line_editor.LineEditor` is one."""

    def read(self, default: str = "") -> str | None:
        """Return a message, None at the end. Ctrl-C raises KeyboardInterrupt."""

    @property
    def left_text(self) -> bool:
        """Whether there was text in the line when Ctrl-C was pressed."""


class PlainReader:
    """Reads lines without any editing, as from a terminal that can do nothing else."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    left_text = False  # unknown: the terminal had it

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
    """Asks and answers until the user leaves. The chat may be there only after the first prompt."""

    def __init__(self, chat: Background[Talk], reader: Reader, screen: Screen) -> None:
        self._chat = chat
        self._reader = reader
        self._screen = screen
        self._interrupted = ""  # a message that was sent before the chat was there
        self._leaving = False  # after one Ctrl-C at the prompt

    def run(self) -> None:
        """Run until `/bye`, the end of input or two Ctrl-C. Raises what making the chat did."""
        asking = interrupted = False
        while True:
            try:
                if interrupted:
                    interrupted = False
                    if not self._goes_on(asking):
                        return
                asking = True
                message = self._reader.read(self._typed_again())
                asking = self._leaving = False
                if message is None or not self._take(message):
                    return
            except KeyboardInterrupt:
                interrupted = True

    def _typed_again(self) -> str:
        """Take what the next prompt begins with."""
        text, self._interrupted = self._interrupted, ""
        talk = self._chat.value
        if talk is not None and talk.typed_again is not None:
            text, talk.typed_again = talk.typed_again, None
        return text

    def _goes_on(self, asking: bool) -> bool:
        """Tell what Ctrl-C did, at the prompt if `asking`; returns whether to go on."""
        talk = self._chat.value
        if talk is not None and not asking:
            talk.stopped()
        elif talk is None or talk.settled:
            if self._leaving and not self._reader.left_text:
                return False
            self._leaving = True
            if talk is not None:
                talk.edits = False
            self._screen.note("press Ctrl-C again or Ctrl-D to leave")
        return True

    def _take(self, message: str) -> bool:
        """Do what a message asks for; returns whether to go on."""
        try:
            from gemmachat import command_runner, commands

            talk = self._chat.wait()
        except KeyboardInterrupt:
            self._interrupted = message
            raise
        command = commands.split(message)
        if command is not None:
            return command_runner.CommandRunner(talk).run(*command)
        if message.strip():
            self._wait(talk, message)
            talk.ask(message)
        else:
            talk.edits = False  # the question that was to change stays as it is
        return True

    def _wait(self, talk: Talk, message: str) -> None:
        """Wait for the model. A message that was interrupted meanwhile can be sent again."""
        try:
            talk.opened  # noqa: B018 - waits
        except KeyboardInterrupt:
            talk.typed_again = message
            raise
