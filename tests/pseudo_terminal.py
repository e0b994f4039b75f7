"""A terminal of its own for a program: keys go in, and what is on the screen comes out."""

from __future__ import annotations

import os
import socket
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pexpect
import pyte

TESTS = Path(__file__).parent
ENGINE = """
import socket, sys
sys.path.insert(0, {tests!r})
from fakes import FakeEngine
from gemmachat import loading
from gemmachat.__main__ import main
from gemmachat.errors import MemoryLimitError
engine = FakeEngine({answers})
engine.hang_at = {hang_at}
engine.pause_s = {pause_s}
gate = {gate!r}

def load(model, threads=None, **memory):
    failure = ""
    if gate:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(gate)
            failure = connection.makefile().read()
    if failure:
        raise MemoryLimitError(failure)
    return engine

loading.open_engine = load
sys.exit(main())
"""
_PATIENCE_S = 60.0
_PROMPT_BEGINS = b"\x1b[?2004h"  # bracketed paste


class Gate:
    """Holds up every loading of a model until it is opened, once for each."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._listener = socket.create_server(self.path, family=socket.AF_UNIX)
        self._listener.settimeout(_PATIENCE_S)

    def open(self, failure: str = "") -> None:
        """Let the loading that began first go on, or fail with a sentence."""
        connection, _ = self._listener.accept()
        with connection:
            connection.sendall(failure.encode())

    def close(self) -> None:
        self._listener.close()


def scripted(
    *answers: str, hang_at: int | None = None, pause_s: float = 0.0, gate: Gate | None = None
) -> str:
    """A program that is gemmachat with an engine that plays answers, a pause before each token.

    With a `gate` loading takes until that is opened.
    """
    return ENGINE.format(
        tests=str(TESTS),
        answers=", ".join(map(repr, answers)),
        hang_at=hang_at,
        pause_s=pause_s,
        gate=gate and gate.path,
    )


class _Screen(pyte.HistoryScreen):
    def __init__(self, columns: int, lines: int) -> None:
        super().__init__(columns, lines, history=100_000, ratio=0.5)
        self.reply: Callable[[str], object] = lambda _text: None

    def write_process_input(self, data: str) -> None:
        self.reply(data)


def untouched_modes() -> list[Any]:
    """The modes of a terminal that nobody has changed."""
    ends = os.openpty()
    try:
        return termios.tcgetattr(ends[1])
    finally:
        for end in ends:
            os.close(end)


class PseudoTerminal:
    """A running program and the screen that it draws on."""

    def __init__(self, child: pexpect.spawn[bytes], columns: int, lines: int) -> None:
        self.child = child
        self.raw = b""
        """All bytes that the program has written."""
        self._screen = _Screen(columns, lines)
        self._screen.reply = lambda text: child.send(text.encode())
        self._stream = pyte.ByteStream(self._screen)
        self._prompts = 0  # that were waited for

    def send(self, text: str) -> None:
        """Press keys."""
        self.child.send(text.encode())

    def line(self, text: str) -> None:
        """Type a line and press Enter."""
        self.send(text + "\r")

    def resize(self, columns: int, lines: int) -> None:
        """Give the window another size, as a terminal that leaves old lines as they are."""
        self._screen.resize(lines, columns)
        self.child.setwinsize(lines, columns)

    @property
    def modes(self) -> list[Any]:
        """What the terminal does with keys, as `termios` has it."""
        return termios.tcgetattr(self.child.child_fd)

    @property
    def screen(self) -> list[str]:
        """The lines that can be seen."""
        return [line.rstrip() for line in self._screen.display]

    @property
    def text(self) -> str:
        """All lines, also those that have been scrolled away."""
        columns = self._screen.columns
        above = [
            "".join(line[column].data for column in range(columns)).rstrip()
            for line in self._screen.history.top
        ]
        return "\n".join([*above, *self.screen])

    @property
    def cursor(self) -> tuple[int, int]:
        """Column and line of the cursor, from 0."""
        return self._screen.cursor.x, self._screen.cursor.y

    def pump(self, seconds: float = 0.0) -> bool:
        """Draw what the program writes within a time; False when it has ended."""
        end = time.monotonic() + seconds
        while True:
            left = max(end - time.monotonic(), 0)
            try:
                data = self.child.read_nonblocking(65536, timeout=left)
            except pexpect.TIMEOUT:
                return True
            except pexpect.EOF:
                return False
            self.raw += data
            self._stream.feed(data)

    def wait(self, shown: Callable[[PseudoTerminal], bool]) -> None:
        """Wait until the screen is as `shown` wants it."""
        end = time.monotonic() + _PATIENCE_S
        while not shown(self):
            runs = self.pump(0.05)
            seen = "\n".join(self.screen)
            assert runs or shown(self), f"the program has ended, its screen was:\n{seen}"
            assert time.monotonic() < end, f"it was waited for in vain, the screen is:\n{seen}"

    def wait_for(self, text: str) -> None:
        """Wait until a text is on the screen."""
        self.wait(lambda terminal: text in "\n".join(terminal.screen))

    def wait_for_prompt(self) -> None:
        """Wait until a new prompt is there, with nothing typed."""

        def shown(terminal: PseudoTerminal) -> bool:
            column, line = terminal.cursor
            prompts = terminal.raw.count(_PROMPT_BEGINS)
            return prompts > self._prompts and column == 2 and terminal.screen[line] == ">"

        self.wait(shown)
        self._prompts = self.raw.count(_PROMPT_BEGINS)

    def ask(self, text: str) -> None:
        """Type a line and wait until it has been answered."""
        self.line(text)
        self.wait_for_prompt()

    def told(self, text: str) -> str:
        """Type a line; returns what is shown after it, up to the next prompt."""
        self.ask(text)
        return self.text.rsplit(f"> {text[:40]}", 1)[1]

    def ask_in_vain(self, text: str) -> None:
        """Ask what fails: the question comes back to the prompt, and is taken from there."""
        self.line(text)

        def back(terminal: PseudoTerminal) -> bool:
            prompts = terminal.raw.count(_PROMPT_BEGINS)
            return prompts > self._prompts and terminal.screen[terminal.cursor[1]] == f"> {text}"

        self.wait(back)
        self._prompts = self.raw.count(_PROMPT_BEGINS)
        self.send("\x15")
        self.wait(lambda shown: shown.screen[shown.cursor[1]] == ">")

    def leave(self) -> int:
        """Press Ctrl-D and wait for the end; returns the exit code."""
        self.send("\x04")
        return self.end()

    def end(self) -> int:
        """Wait until the program has ended; returns its exit code."""
        while self.pump(0.1):
            pass
        self.child.wait()
        assert self.child.exitstatus is not None, f"killed by signal {self.child.signalstatus}"
        return int(self.child.exitstatus)


@contextmanager
def pseudo_terminal(
    *arguments: str,
    script: str | None = None,
    redirect: str = "",
    columns: int = 80,
    lines: int = 24,
    **environment: str,
) -> Iterator[PseudoTerminal]:
    """Run gemmachat, or a script, in a terminal, with redirections as bash spells them."""
    program = ["-c", script] if script else ["-m", "gemmachat"]
    child: pexpect.spawn[bytes] = pexpect.spawn(
        "bash",
        ["-c", f'exec "$0" "$@" {redirect}', sys.executable, *program, *arguments],
        timeout=_PATIENCE_S,
        dimensions=(lines, columns),
        env={**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **environment},
    )
    child.delaybeforesend = None
    try:
        yield PseudoTerminal(child, columns, lines)
    finally:
        child.close(force=True)
