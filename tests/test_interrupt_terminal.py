"""Ctrl-C at each stage of a chat in a real terminal: the stage ends, the chat goes on.

Loading is in `test_loading_terminal.py`, calls of tools in `test_tool_terminal.py`.
"""

from __future__ import annotations

import select
import signal

import pytest
from pseudo_terminal import PseudoTerminal, pseudo_terminal, scripted, untouched_modes

ANSWERS = ("first answer", "second answer", "third answer", "fourth answer")


def stopped(terminal: PseudoTerminal, times: int) -> None:
    """Wait until it has been told so often that an answer was stopped, and for the prompt."""
    terminal.wait(lambda shown: shown.text.count("stopped") == times)
    terminal.wait_for_prompt()


def test_interrupt_while_the_prompt_is_read() -> None:
    with pseudo_terminal("run", "tiny", script=scripted(*ANSWERS, hang_at=0)) as terminal:
        terminal.wait_for_prompt()
        terminal.line("hi")
        terminal.wait_for("reading the prompt")
        terminal.send("\x03")
        stopped(terminal, 1)
        assert "reading the prompt" not in terminal.text
        # The question left no trace.
        assert "there is nothing to take back" in terminal.told("/undo")
        assert terminal.leave() == 0


def test_interrupt_keeps_what_was_said_before() -> None:
    script = scripted("one", "two", "third answer", hang_at=5)
    with pseudo_terminal("run", "tiny", script=script, lines=60) as terminal:
        terminal.wait_for_prompt()
        terminal.ask("first question")
        terminal.ask("second question")
        commands = ("hi", "/compact", "/regen", "/edit anew")
        for number, command in enumerate(commands, 1):
            terminal.line(command)
            terminal.wait(lambda shown, number=number: shown.text.count("third") == number)
            terminal.send("\x03")
            stopped(terminal, number)
            if command == "/compact":
                assert "nothing was changed" in terminal.text
            if command in ("hi", "/edit anew"):
                assert f"taken back: {command[-4:].strip()}" in terminal.told("/undo")
        assert "this summary stands for" not in terminal.text
        assert "taken back: first question" in terminal.told("/undo")
        assert terminal.leave() == 0


def test_many_interrupts_at_once_end_the_answer_and_not_the_chat() -> None:
    with pseudo_terminal("run", "tiny", script=scripted(*ANSWERS, hang_at=5)) as terminal:
        terminal.wait_for_prompt()
        terminal.line("hi")
        terminal.wait_for("first")
        terminal.send("\x03" * 20)
        terminal.wait_for("stopped")
        terminal.wait_for_prompt()
        terminal.line("/bye")
        assert terminal.end() == 0
        assert "Traceback" not in terminal.text


def test_interrupt_in_a_thought_leaves_no_thought_behind() -> None:
    thinks = "<|channel>thought\nsecret plan<channel|>yes"
    with pseudo_terminal("run", "tiny", script=scripted(thinks, hang_at=15)) as terminal:
        terminal.wait_for_prompt()
        terminal.line("hi")
        terminal.wait_for("secre")
        terminal.send("\x03")
        stopped(terminal, 1)
        assert "there is nothing to take back" in terminal.told("/undo")
        assert terminal.leave() == 0


def test_interrupts_in_a_row_at_the_prompt_leave_only_when_they_are_two() -> None:
    with pseudo_terminal("run", "tiny", script=scripted(*ANSWERS)) as terminal:
        terminal.wait_for_prompt()
        terminal.send("\x03")
        terminal.wait_for("press Ctrl-C again")
        terminal.wait_for_prompt()
        terminal.ask("hi")
        terminal.send("\x03")
        terminal.wait(lambda shown: shown.text.count("press Ctrl-C again") == 2)
        terminal.wait_for_prompt()
        terminal.send("\x03")
        assert terminal.end() == 0


def test_interrupt_of_what_was_typed_since_the_first_one_does_not_leave() -> None:
    with pseudo_terminal("run", "tiny", script=scripted(*ANSWERS)) as terminal:
        terminal.wait_for_prompt()
        for times, typed in enumerate(("abc", "def", "ghi"), 1):
            terminal.send(typed)
            terminal.wait_for(f"> {typed}")
            terminal.send("\x03")
            terminal.wait(lambda shown, n=times: shown.text.count("press Ctrl-C again") == n)
            terminal.wait_for_prompt()
        terminal.send("\x03")
        assert terminal.end() == 0


@pytest.mark.parametrize("answering", [False, True])
def test_termination_leaves_the_terminal_as_it_was(answering: bool) -> None:
    with pseudo_terminal("run", "tiny", script=scripted(*ANSWERS, hang_at=0)) as terminal:
        terminal.wait_for_prompt()
        if answering:
            terminal.line("hi")
            terminal.wait_for("reading the prompt")
        assert terminal.modes != untouched_modes()
        terminal.child.kill(signal.SIGTERM)
        assert terminal.end() == 128 + signal.SIGTERM
        assert terminal.modes == untouched_modes()
        assert terminal.raw.rindex(b"\x1b[?2004l") > terminal.raw.rindex(b"\x1b[?2004h")


def test_termination_does_not_wait_for_a_terminal_that_was_stopped() -> None:
    script = scripted("word " * 2000, pause_s=0.01)
    with pseudo_terminal("run", "tiny", script=script) as terminal:
        terminal.wait_for_prompt()
        terminal.line("hi")
        terminal.wait_for("word word")
        terminal.send("\x13")  # Ctrl-S
        while terminal.child.child_fd in select.select([terminal.child.child_fd], [], [], 0.5)[0]:
            terminal.pump(0.1)
        terminal.child.kill(signal.SIGTERM)
        assert terminal.end() == 128 + signal.SIGTERM
