"""What is written to the terminal, by this module and by those that it hands it to.

`answer_view` and `line_editor` draw on it too, each while it has it to itself. Answers and results
go to standard output, everything else to standard error. All text is made safe on its way (see
`sanitize`), so no caller can forget to.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, TextIO

from gemmachat.interrupt import interrupts_raise
from gemmachat.sanitize import safe_line, safe_text
from gemmachat.standard_streams import discard, make_blocking, standard
from gemmachat.terminal_mode import UNMARKED, keys_asked, keys_held
from gemmachat.theme import ThemeName, theme, theme_of
from gemmachat.transfer_view import SECONDS_BETWEEN_LINES, Bar, Lines
from gemmachat.wrapping import wrapped

if TYPE_CHECKING:
    from gemmachat.answer_view import AnswerView
    from gemmachat.parse import Part, Piece

MAX_SENTENCE = 1000  # characters; it may echo an argument
_MAX_COPY = 100_000  # bytes that terminals take in one sequence
_MARKS = "\x1b[?2004h"  # bracketed paste
_DIM, _BOLD_RED, _RESET = "\x1b[2m", "\x1b[1;31m", "\x1b[0m"


@dataclass(slots=True)
class Display:
    """How answers are shown; may be changed between them."""

    theme: ThemeName
    markdown: bool = True
    """On a terminal; elsewhere answers are text as the model wrote it."""
    fold_thoughts: bool = False


class Screen:
    """The standard streams of one command.

    Escape sequences of our own are written only to a terminal and not with TERM=dumb, and those for
    colours not with NO_COLOR either.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        if isinstance(sys.stdin, TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")  # what is typed or pasted is never an error
        # input() needs both in place.
        self._out = sys.stdout = standard(sys.stdout)
        self._err = sys.stderr = standard(sys.stderr)
        for stream in (sys.stdin, self._out, self._err):
            make_blocking(stream)
        self._dumb = environment.get("TERM") == "dumb"
        self._wants_colour = not environment.get("NO_COLOR") and not self._dumb
        self._colour = self._err.isatty() and self._wants_colour
        self.display = Display(theme_of(environment))
        self.above_prompt: Callable[[Callable[[], None]], bool] = lambda _show: False
        """Has notes written above a prompt that another thread waits at; see `LineEditor.above`."""
        self._view: AnswerView | None = None
        self._part: Part = "answer"
        self._at_line_start = True
        self._marking: TextIO | None = None  # the terminal that marks pastes now
        self._folded_since: float | None = None  # when a thought began that is not shown
        self._status_at = float("-inf")

    @property
    def terminal(self) -> TextIO | None:
        """The stream on which a line editor can draw; None where there is none."""
        typed = sys.stdin is not None and sys.stdin.isatty() and not self._dumb
        return next((out for out in (self._out, self._err) if typed and out.isatty()), None)

    @contextmanager
    def answering(self, *, hold_keys: bool = False) -> Iterator[None]:
        """The block in which the pieces of one answer come.

        With `hold_keys`, keys that are pressed in it show nothing and wait for the next prompt,
        where what was pasted arrives as one text.
        """
        with (
            keys_held(sys.stdin if hold_keys else None),
            self._pastes_marked(self.terminal if hold_keys else None),
        ):
            try:
                if self._out.isatty() and not self._dumb and self.display.markdown:
                    self._view = self._new_view()
                yield
            finally:
                self.end_answer()

    def piece(self, piece: Piece) -> None:
        """Show a piece of an answer at once. Thoughts are no part of the output."""
        if self._view is not None and (piece.part == "answer" or self._err.isatty()):
            self._view.add(piece)
            return
        if piece.part == "thought" and self.display.fold_thoughts:
            self._folded_since = self._folded_since or time.monotonic()
            return
        self._tell_folded()
        text = safe_text(piece.text)
        if not text:
            return
        if piece.part != self._part:
            self._end_line()
            self._part = piece.part
        if piece.part == "answer":
            self._out.write(text)
            self._out.flush()
        else:
            self._tell(self._styled(_DIM, text))
        self._at_line_start = text.endswith("\n")

    def end_answer(self) -> None:
        """Close the last line of an answer."""
        view, self._view = self._view, None
        if view is not None:
            view.end()
        self._tell_folded()
        self._end_line()
        self._part = "answer"

    @property
    def width(self) -> int | None:
        """Characters on a line of standard output; None where it is no terminal."""
        return shutil.get_terminal_size().columns if self._out.isatty() else None

    def result(self, *lines: str) -> None:
        """Write lines to standard output."""
        self._out.write("".join(f"{safe_text(line)}\n" for line in lines))
        self._out.flush()

    def json(self, value: Any) -> None:
        """Write one JSON value on one line; all but printable ASCII is escaped by JSON's rules."""
        self._out.write(json.dumps(value, ensure_ascii=True, allow_nan=False) + "\n")
        self._out.flush()

    def note(self, *lines: str) -> None:
        """Write lines to standard error, dimmed on a terminal. Any thread."""
        width = shutil.get_terminal_size().columns if self._err.isatty() else None
        shown = [part for line in lines for part in wrapped(safe_text(line), width)]
        text = "".join(self._styled(_DIM, line) + "\n" for line in shown)
        if not self.above_prompt(lambda: self._tell(text)):
            self._tell(text)

    def error(self, sentence: str) -> None:
        """Write one error sentence to standard error; of a very long one the middle is left out."""
        line = safe_line(sentence)
        if len(line) > MAX_SENTENCE:
            line = f"{line[: MAX_SENTENCE // 2]} ... {line[-MAX_SENTENCE // 2 :]}"
        self._tell(f"{self._styled(_BOLD_RED, 'error:')} {line}\n")

    def progress(self, line: str) -> None:
        """Show a line that the next one replaces, "" removes it; on a terminal only."""
        if self._colour:
            # A line that wraps could not be replaced.
            room = max(shutil.get_terminal_size().columns - 1, 1)
            self._tell(f"\r\x1b[K{safe_line(line)[:room]}")

    def status(self, line: str) -> None:
        """Show how far something is: like `progress`, and elsewhere as a line now and then."""
        if self._colour:
            self.progress(line)
        elif time.monotonic() - self._status_at >= SECONDS_BETWEEN_LINES:
            self._status_at = time.monotonic()
            self._tell(f"{safe_line(line)}\n")

    @contextmanager
    def transfer(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """Show how far a long copy is; the block calls what it gets with bytes done and in all."""
        show = Bar(what) if self._colour else Lines(what, self._tell)
        with show:
            yield show.update

    def read_line(self, prompt: str) -> str | None:
        """Ask for a line without an editor; None at the end of input.

        Ctrl-C raises KeyboardInterrupt. Bytes that are no UTF-8 become U+FFFD.
        """
        self._prompt(prompt)
        try:
            return input()
        except (EOFError, KeyboardInterrupt) as end:
            self._tell("\n")
            if isinstance(end, KeyboardInterrupt):
                raise
            return None

    @property
    def can_ask(self) -> bool:
        """Whether somebody can see here what a question is about, and answer it."""
        return self._err.isatty() and sys.stdin is not None and sys.stdin.isatty()

    def confirm(self, question: str) -> bool:
        """Ask for a yes, also in the middle of an answer. Keys that were pressed before are lost.

        Ctrl-C raises KeyboardInterrupt, and goes on to whoever waits for it.
        """
        in_view = self._view is not None
        self.end_answer()
        try:
            with interrupts_raise(), self._pastes_marked(None):
                self._prompt(question)
                with keys_asked(sys.stdin):  # only once the question is seen
                    reply = self.read_line(" [y/N] ")
        finally:
            if in_view:
                self._view = self._new_view()
        return (reply or "").strip().lower() in ("y", "yes")

    def copy(self, text: str) -> bool:
        """Ask the terminal to copy text (OSC 52); returns whether there is one to ask.

        Some do not listen. The text is encoded: nothing of it can be a command.
        """
        data = base64.b64encode(text.encode("utf-8", "replace"))
        if self.terminal is None or len(data) > _MAX_COPY:
            return False
        self.terminal.write(f"\x1b]52;c;{data.decode('ascii')}\x07")
        self.terminal.flush()
        return True

    def abandon_output(self) -> None:
        """Give up on standard output: nobody reads it, or nothing more can be written."""
        discard(self._out)

    def _new_view(self) -> AnswerView:
        from gemmachat.answer_view import AnswerView
        from gemmachat.block_view import BlockView

        unicode = (self._out.encoding or "").lower().replace("-", "") == "utf8"
        style = theme(self.display.theme)
        blocks = BlockView(style, colour=self._wants_colour, unicode=unicode)
        return AnswerView(self._out, blocks, fold_thoughts=self.display.fold_thoughts)

    def _prompt(self, text: str) -> None:
        text = safe_text(text)
        if self._out.isatty():  # input() would write to standard error all the same
            self._out.write(text)
            self._out.flush()
        else:
            self._tell(text)

    @contextmanager
    def _pastes_marked(self, terminal: TextIO | None) -> Iterator[None]:
        """Have `terminal` mark in the block where a paste begins and ends; with None none does."""
        before, self._marking = self._marking, terminal
        self._mark_pastes(before, terminal)
        try:
            yield
        finally:
            self._marking = before
            self._mark_pastes(terminal, before)

    def _mark_pastes(self, old: TextIO | None, new: TextIO | None) -> None:
        for stream, sequence in ((old, UNMARKED), (new, _MARKS)):
            if stream is not None and old is not new:
                stream.write(sequence)
                stream.flush()

    def _tell_folded(self) -> None:
        since, self._folded_since = self._folded_since, None
        if since is not None:
            from gemmachat.markdown import folded_thought

            self._end_line()
            self.note(folded_thought(time.monotonic() - since))

    def _end_line(self) -> None:
        if not self._at_line_start:
            if self._part == "answer":
                self._out.write("\n")
                self._out.flush()
            else:
                self._tell("\n")
            self._at_line_start = True

    def _tell(self, text: str) -> None:
        """Write to standard error. That nobody can be told there must not stop what goes on."""
        try:
            self._err.write(text)
            self._err.flush()
        except OSError:
            discard(self._err)

    def _styled(self, style: str, text: str) -> str:
        return f"{style}{text}{_RESET}" if self._colour else text
