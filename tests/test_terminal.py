"""The chat in a real terminal: keys, colours, and Ctrl-C while native code runs."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
from pseudo_terminal import pseudo_terminal, scripted

_COLOUR = re.compile(rb"\x1b\[(?:\d+;)*(?:[349]\d|10\d|[34]8;[0-9;]*)(?:;\d+)*m")


def test_conversation_with_the_real_engine() -> None:
    with pseudo_terminal("run", "tiny", "--max-tokens", "8", "--threads", "1") as terminal:
        terminal.wait_for_prompt()
        terminal.ask("hello")
        terminal.ask("/stats")
        assert "tokens per target pass" in terminal.text
        terminal.ask("and again")
        terminal.ask("/stats full")
        cached = re.search(r"prompt \d+ tokens \((\d+) cached", terminal.text)
        assert cached is not None
        assert int(cached[1]) > 0
        assert terminal.leave() == 0


def test_interrupt_stops_the_real_engine_and_the_chat_goes_on() -> None:
    # Reading this prompt alone takes longer than the key press, and the answer is no short one.
    options = ("--ctx", "4096", "--threads", "1", "--min-tokens", "3000")
    with pseudo_terminal("run", "tiny", *options) as terminal:
        terminal.wait_for_prompt()
        terminal.wait_for("of 4096 tokens")  # the model is there
        terminal.send("\x1b[200~" + "hello " * 600 + "\x1b[201~")
        terminal.wait(lambda shown: "hello" in "\n".join(shown.screen))
        terminal.send("\r")
        terminal.wait(lambda shown: shown.raw.count(b"\x1b[?2004h") == 2)  # it is answered
        terminal.send("\x03")
        terminal.wait_for("stopped")
        terminal.wait_for_prompt()
        terminal.line("/bye")
        assert terminal.end() == 0


def test_interrupt_stops_an_answer_where_it_is() -> None:
    with pseudo_terminal("run", "tiny", script=scripted("abcdef", hang_at=3)) as terminal:
        terminal.wait_for_prompt()
        terminal.line("hi")
        terminal.wait_for("abc")
        terminal.send("\x03")
        terminal.wait_for("stopped")
        terminal.wait_for_prompt()
        assert "abc" in terminal.screen
        assert "^C" not in terminal.text
        assert terminal.leave() == 0


def test_interrupt_in_one_shot_exits_with_130() -> None:
    with pseudo_terminal("run", "tiny", "hi", script=scripted("abcdef", hang_at=3)) as terminal:
        terminal.wait_for("abc")
        terminal.send("\x03")
        assert terminal.end() == 130


def test_interrupt_at_the_prompt_hints_and_the_second_one_leaves() -> None:
    with pseudo_terminal("run", "tiny", script=scripted("a")) as terminal:
        terminal.wait_for_prompt()
        terminal.send("half a line")
        terminal.wait_for("> half a line")
        terminal.send("\x03")
        terminal.wait_for("press Ctrl-C again or Ctrl-D to leave")
        terminal.wait_for_prompt()
        terminal.send("\x03")
        assert terminal.end() == 0


def test_interrupt_while_reading_a_pipe_exits_with_130() -> None:
    # Said by another thread a while after the main one has gone to read.
    said = "import threading; threading.Timer(1, print, ['started'], {'flush': True}).start()"
    script = scripted("a").replace("sys.exit", f"{said}\nsys.exit")
    with pseudo_terminal("run", "tiny", script=script, redirect="< <(sleep 100)") as terminal:
        terminal.wait_for("started")
        terminal.send("\x03")
        assert terminal.end() == 130


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {}])
def test_model_cannot_send_escape_sequences_to_the_terminal(environment: dict[str, str]) -> None:
    script = scripted("\x1b]0;owned\x07\x1b[2J\x9b5m &#27;[31m &#x9b;5m end")
    with pseudo_terminal("run", "tiny", "hi", script=script, **environment) as terminal:
        terminal.end()
        assert "<U+001B>]0;owned<U+0007>" in terminal.text
        for sequence in (b"\x1b]", b"\x07", b"\x1b[2J", b"\x1b[31m", b"\xc2\x9b", b"\x9b"):
            assert sequence not in terminal.raw


def test_thoughts_are_dim_and_answers_are_not() -> None:
    script = scripted("<|channel>thought\nhm<channel|>yes")
    with pseudo_terminal("run", "tiny", "hi", script=script) as terminal:
        terminal.end()
        assert b"\x1b[2mhm\x1b[0m\r\r\n" in terminal.raw
        assert b"\x1b[2myes" not in terminal.raw
        assert terminal.screen[:3] == ["hm", "", "yes"]


def test_terminal_without_colours_gets_none() -> None:
    script = scripted("# A `b`\n\n```python\nx = 1\n```\n[l](http://u)")
    with pseudo_terminal("run", "tiny", "hi", script=script, NO_COLOR="1") as terminal:
        terminal.end()
        assert _COLOUR.search(terminal.raw) is None
        assert "x = 1" in terminal.screen
    with pseudo_terminal("run", "tiny", "hi", script=script) as terminal:
        terminal.end()
        assert _COLOUR.search(terminal.raw) is not None


@pytest.mark.parametrize("arguments", [(), ("--stats",)])
def test_dumb_terminal_gets_no_escape_sequences(arguments: tuple[str, ...]) -> None:
    script = scripted("<|channel>thought\nhm<channel|>**yes**")
    with pseudo_terminal("run", "tiny", "hi", *arguments, script=script, TERM="dumb") as terminal:
        terminal.end()
        assert b"\x1b" not in terminal.raw
        assert "**yes**" in terminal.screen


def test_chat_on_a_dumb_terminal_needs_no_editor() -> None:
    with pseudo_terminal("run", "tiny", script=scripted("one"), TERM="dumb") as terminal:
        terminal.wait_for("> ".rstrip())
        terminal.send('"""\nseveral\nlines"""\n')
        terminal.wait_for("one")
        terminal.send("/bye\n")
        assert terminal.end() == 0
        assert b"\x1b" not in terminal.raw


def test_prompt_of_a_dumb_terminal_is_seen_while_errors_go_to_a_file(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    script = scripted("one")
    with pseudo_terminal(
        "run", "tiny", script=script, TERM="dumb", redirect=f"2> {errors}"
    ) as terminal:
        terminal.wait(lambda shown: shown.screen[0] == ">")
        terminal.send("hi\n/bye\n")
        assert terminal.end() == 0
        assert "one" in terminal.screen
    assert "> " not in errors.read_text()


def test_answers_can_be_redirected_while_the_chat_stays_on_the_terminal(tmp_path: Path) -> None:
    answers = tmp_path / "answers.txt"
    script = scripted("**one**\x1b", "two")
    with pseudo_terminal("run", "tiny", script=script, redirect=f"> {answers}") as terminal:
        terminal.wait_for_prompt()
        terminal.ask("a")
        terminal.ask("b")
        assert terminal.leave() == 0
    assert answers.read_text() == "**one**<U+001B>\ntwo\n"


def test_typed_lines_are_found_again_also_in_the_next_chat(tmp_path: Path) -> None:
    data = {"XDG_DATA_HOME": str(tmp_path)}
    with pseudo_terminal("run", "tiny", script=scripted("one"), **data) as terminal:
        terminal.wait_for_prompt()
        terminal.ask("first question")
        terminal.send("\x1b[A")  # Up
        terminal.wait_for("> first question")
        terminal.send("\x03")
        terminal.wait_for_prompt()
        assert terminal.leave() == 0
    assert (tmp_path / "gemmachat" / "history").stat().st_mode & 0o777 == 0o600
    with pseudo_terminal("run", "tiny", script=scripted("one"), **data) as terminal:
        terminal.wait_for_prompt()
        terminal.send("\x12quest")  # Ctrl-R
        terminal.wait_for("first question")
        terminal.send("\r")
        terminal.wait_for("> first question")


def test_bytes_that_are_no_utf8_do_not_end_the_chat() -> None:
    with pseudo_terminal("run", "tiny", script=scripted("one")) as terminal:
        terminal.wait_for_prompt()
        os.write(terminal.child.child_fd, b"a\xffb\r")
        terminal.wait_for("one")
        terminal.wait_for_prompt()
        assert terminal.leave() == 0


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_chat_goes_on_without_an_output(closed: str) -> None:
    with pseudo_terminal("run", "tiny", script=scripted("one"), redirect=closed) as terminal:
        time.sleep(1)  # nothing tells whether the prompt is there
        terminal.send("a\r")
        terminal.send("/bye\r")
        assert terminal.end() == 0
        assert "Error" not in terminal.text
