"""The chat inside a real terminal multiplexer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pseudo_terminal import scripted

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not there")

_PATIENCE_S = 60.0
ANSWER = "# Title\n\n" + "\n\n".join(f"Paragraph {n:03} of *some* words." for n in range(60))


class Tmux:
    """A server of its own with one window."""

    def __init__(self, socket: Path) -> None:
        self._socket = str(socket)

    def run(self, *arguments: str) -> str:
        command = ["tmux", "-S", self._socket, "-f", os.devnull, *arguments]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout

    def lines(self) -> list[str]:
        """All lines, those scrolled away too."""
        return [line.rstrip() for line in self.run("capture-pane", "-p", "-S", "-").split("\n")]

    def wait(self, shown: Callable[[list[str]], bool]) -> list[str]:
        end = time.monotonic() + _PATIENCE_S
        while not shown(lines := self.lines()):
            assert time.monotonic() < end, "\n".join(lines)
            time.sleep(0.05)
        return lines

    def wait_for_end(self) -> None:
        end = time.monotonic() + _PATIENCE_S
        while self.lives:
            assert time.monotonic() < end, "the window is still there"
            time.sleep(0.05)

    @property
    def lives(self) -> bool:
        command = ["tmux", "-S", self._socket, "has-session"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def kill(self) -> None:
        with suppress(subprocess.CalledProcessError):  # it has ended
            self.run("kill-server")


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    server = Tmux(tmp_path / "socket")
    yield server
    server.kill()


def prompt_below(text: str) -> Callable[[list[str]], bool]:
    """Whether the prompt is there, empty, somewhere below a line."""

    def shown(lines: list[str]) -> bool:
        at = max((i for i, line in enumerate(lines) if text in line), default=len(lines))
        return ">" in lines[at:]

    return shown


def test_chat_in_tmux(tmux: Tmux, tmp_path: Path) -> None:
    program = tmp_path / "chat.py"
    program.write_text(scripted("first *answer*", ANSWER, pause_s=0.0005))
    environment = [
        word
        for name in ("XDG_DATA_HOME", "XDG_STATE_HOME")
        for word in ("-e", f"{name}={tmp_path}")
    ]
    size = ("-x", "80", "-y", "24")
    command = (sys.executable, str(program), "run", "tiny")
    tmux.run("new-session", "-d", *size, *environment, *command, ";", "set", "-g", "status", "off")
    tmux.wait(prompt_below("/help lists the commands"))
    tmux.run("send-keys", "-l", "hello")
    tmux.run("send-keys", "Enter")
    lines = tmux.wait(prompt_below("first answer"))
    assert lines[:3] == ["/help lists the commands, Ctrl-D leaves", "> hello", "first answer"]
    tmux.run("send-keys", "-l", "and more")
    tmux.run("send-keys", "Enter")
    tmux.wait(lambda lines: any("Paragraph 020" in line for line in lines))
    tmux.run("resize-window", "-x", "60", "-y", "20")
    lines = tmux.wait(prompt_below("Paragraph 059"))
    text = "\n".join(lines)
    for number in range(60):  # a block that grew when the window did not may leave a trace
        assert 1 <= text.count(f"Paragraph {number:03} of some words.") <= 2
    assert sum(text.count(f"Paragraph {number:03} of some words.") for number in range(60)) <= 61
    assert not [line for line in lines if "\x1b" in line or "?20" in line or "reading" in line]
    lines = tmux.wait(lambda lines: any(line.startswith("tiny | ") for line in lines))
    below = [line for line in lines[lines.index(">", -25) :] if line]
    assert [below[0], below[1][:7], *below[2:]] == [">", "tiny | "]
    tmux.run("send-keys", "C-d")
    tmux.wait_for_end()
