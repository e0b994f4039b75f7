"""The prompt loop and its commands."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from gemmachat.ask import context_full, show_answer, show_stats
from gemmachat.errors import ContextFullError, GemmachatError

if TYPE_CHECKING:
    from gemmachat.chat import Chat
    from gemmachat.render import Screen

PROMPT = "> "
LEAVE = ("/bye", "/exit", "/quit")
SETTLED_S = 1.0  # a Ctrl-C sooner after an answer was stopped was still meant for it
HELP = (
    "/help   show this",
    "/clear  start a new conversation",
    "/stats  figures of the last answer",
    "/bye    leave (so do /exit, /quit, Ctrl-D, and Ctrl-C twice)",
    "Ctrl-C stops an answer. A line that begins with a blank is never a command.",
)


class Repl:
    """A chat in the terminal, line by line."""

    def __init__(self, chat: Chat, screen: Screen, *, stats: bool) -> None:
        self._chat = chat
        self._screen = screen
        self._stats = stats
        self._stopped_at = -SETTLED_S

    def run(self) -> None:
        """Ask and answer until the user leaves."""
        leaving = False  # one Ctrl-C at the prompt
        while True:
            asking = True
            try:
                line = self._screen.read_line(PROMPT)
                asking = leaving = False
                if line is None or line.rstrip() in LEAVE:
                    return
                self._take(line)
            except KeyboardInterrupt:
                if not asking:  # at any moment of a turn
                    self._stopped()
                elif monotonic() - self._stopped_at >= SETTLED_S:
                    if leaving:
                        return
                    leaving = True
                    self._screen.note("press Ctrl-C again or Ctrl-D to leave")

    def _take(self, line: str) -> None:
        if line.startswith("/") and line.rstrip()[1:].isalpha():
            self._command(line.rstrip())
        elif line.strip():
            self._answer(line)

    def _command(self, command: str) -> None:
        if command == "/help":
            self._screen.note(*HELP)
        elif command == "/clear":
            self._chat.clear()
            self._screen.note("a new conversation")
        elif command == "/stats":
            if self._chat.last:
                show_stats(self._chat.last, self._chat, self._screen)
            else:
                self._screen.note("no answer yet")
        else:
            self._screen.note(f"there is no command {command}: /help lists them")

    def _answer(self, question: str) -> None:
        try:
            answer = show_answer(self._chat, question, self._screen)
        except KeyboardInterrupt:  # the second one: the engine did not stop at once
            self._stopped()
        except ContextFullError as error:
            self._screen.error(str(error))
            self._screen.note("/clear starts a new conversation")
        except GemmachatError as error:
            self._screen.error(str(error))
        else:
            if answer.finish_reason == "context":
                self._screen.error(context_full(answer, self._chat, "start afresh with /clear"))
            elif answer.finish_reason == "cancelled":
                self._stopped()
            if self._stats:
                show_stats(answer, self._chat, self._screen)

    def _stopped(self) -> None:
        self._stopped_at = monotonic()
        self._screen.note("stopped")
