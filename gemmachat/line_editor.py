"""The line in which a question is typed: prompt-toolkit, with keys for messages of several lines.

Enter sends. Alt-Enter, Shift-Enter where the terminal tells it apart, and Enter after three double
quotes begin a new line. What is pasted arrives as one text, with its control characters visible.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.input import create_input
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.screen import Char
from prompt_toolkit.output import create_output
from prompt_toolkit.styles import Style

from gemmachat.errors import GemmachatError
from gemmachat.input_history import open_history
from gemmachat.sanitize import safe_line, safe_text
from gemmachat.typed_text import is_open, message_of, valid

if TYPE_CHECKING:
    from gemmachat.command_completion import Suggestion

PROMPT = "> "
_CONTINUED = "  "
_MENU_ROWS = 6

# Shift-Enter, as xterm (modifyOtherKeys) and kitty write it.
for _sequence in ("\x1b[27;2;13~", "\x1b[13;2u"):
    ANSI_SEQUENCES[_sequence] = (Keys.Escape, Keys.ControlM)

# Typed or found in the history, these would turn the line around, our prompt included.
for _code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A)):
    Char.display_mappings[chr(_code)] = safe_text(chr(_code))


class LineEditor:
    """Reads messages from a terminal.

    `suggest` returns what may complete the text before the cursor; `status` is the quiet line at
    the bottom; `shown` is called once, when the prompt is seen. `history` is a file, or None to
    forget with the program. `warn` is told what goes wrong with the user's editor.
    """

    def __init__(
        self,
        out: TextIO,
        *,
        history: Path | None,
        suggest: Callable[[str], Iterable[Suggestion]],
        status: Callable[[], str],
        shown: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        self._status = status
        self._shown = shown
        self.left_text = False
        """Whether there was text in the line when Ctrl-C was pressed."""
        self._reading = False
        self._above: deque[Callable[[], None]] = deque()
        self._warn = warn
        self._session: PromptSession[str] = PromptSession(
            PROMPT,
            multiline=True,
            prompt_continuation=_CONTINUED,
            history=open_history(history),
            completer=_Completer(suggest),
            complete_while_typing=Condition(self._typing_command),
            key_bindings=_bindings(self._edited),
            bottom_toolbar=lambda: [("class:status", safe_line(self._status()))],
            style=Style.from_dict({"bottom-toolbar": "noreverse", "status": "fg:ansibrightblack"}),
            enable_suspend=True,
            input=create_input(),
            output=create_output(stdout=out),
        )
        # A terminal that does not tell where the cursor is shows no status line, and no warning.
        self._session.app.renderer.cpr_not_supported_callback = lambda: None
        self._session.app.before_render += self._fit_menu
        self._session.app.after_render += self._first_shown

    def read(self, default: str = "") -> str | None:
        """Return a message, None at the end of input. Ctrl-C raises KeyboardInterrupt.

        `default` is there to be changed. Raises what `fail` was called with meanwhile.
        """
        self._reading = True
        self.left_text = False
        try:
            return message_of(valid(self._session.prompt(default=default)))
        except EOFError:
            return None
        except KeyboardInterrupt:
            self.left_text = bool(self._session.default_buffer.text)
            raise
        finally:
            self._reading = False
            self._show_above()

    def above(self, show: Callable[[], None]) -> bool:
        """Have `show` write above the prompt, if there is one; returns whether. Any thread."""
        app = self._session.app
        loop = app.loop
        if not self._reading or loop is None:
            return False
        self._above.append(show)
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(self._hide_and_show, context=app.context)
        if not self._reading:
            self._show_above()
        return True

    def _hide_and_show(self) -> None:
        if self._session.app.is_running:
            run_in_terminal(self._show_above)

    def _show_above(self) -> None:
        with suppress(IndexError):  # several threads may come here
            while True:
                self._above.popleft()()

    def refresh(self) -> None:
        """Show the status line anew. Any thread."""
        self._session.app.invalidate()

    def fail(self, error: BaseException) -> None:
        """Have `read`, if it waits, raise an error. Any thread."""
        app = self._session.app
        loop = app.loop

        def leave() -> None:
            if app.is_running and not app.is_done:
                app.exit(exception=error)

        if loop is not None:
            loop.call_soon_threadsafe(leave)

    def _fit_menu(self, app: Application[str]) -> None:
        """Keep no more room for the menu of completions than the window has."""
        rows = app.output.get_size().rows
        self._session.reserve_space_for_menu = max(min(_MENU_ROWS, rows - 3), 0)

    def _first_shown(self, app: Application[str]) -> None:
        app.after_render -= self._first_shown
        self._shown()

    def _edited(self, text: str) -> str:
        """Have the user's editor change a text; the terminal is all its own meanwhile."""
        from gemmachat.external_editor import edit

        try:
            return safe_text(edit(text))
        except GemmachatError as error:
            self._warn(str(error))
            return text

    def _typing_command(self) -> bool:
        return self._session.default_buffer.text.startswith("/")


class _Completer(Completer):
    def __init__(self, suggest: Callable[[str], Iterable[Suggestion]]) -> None:
        self._suggest = suggest

    def get_completions(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002 - the interface
    ) -> Iterator[Completion]:
        for text, back, about in self._suggest(document.text_before_cursor):
            yield Completion(text, -back, display=safe_line(text), display_meta=safe_line(about))


def _bindings(edited: Callable[[str], str]) -> KeyBindings:
    keys = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER)
    editing = False

    @keys.add("enter", filter=typing)
    def _send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_open(buffer.text):
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter", filter=typing)
    @keys.add("escape", "c-j", filter=typing)
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add("c-g", filter=typing)
    def _editor(event: KeyPressEvent) -> None:
        buffer = event.current_buffer

        async def take_up() -> None:
            nonlocal editing
            editing = True
            try:
                text = await run_in_terminal(lambda: edited(buffer.text), in_executor=True)
            finally:
                editing = False
            buffer.document = Document(text)

        event.app.create_background_task(take_up())

    @keys.add("<sigint>", filter=Condition(lambda: editing))
    def _for_the_editor(event: KeyPressEvent) -> None:  # noqa: ARG001 - the interface
        return

    @keys.add("c-@", filter=typing)
    def _nothing(event: KeyPressEvent) -> None:  # noqa: ARG001 - the interface
        # Ctrl-Space, often meant for an input method: a mark set by it would swallow what follows.
        return

    @keys.add(Keys.BracketedPaste, filter=typing)
    def _paste(event: KeyPressEvent) -> None:
        pasted = event.data.replace("\r\n", "\n").replace("\r", "\n")
        event.current_buffer.insert_text(safe_text(pasted))

    return keys
