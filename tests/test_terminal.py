"""The chat in a real terminal: keys, colours, and Ctrl-C while native code runs."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pytest

TESTS = Path(__file__).parent
ENGINE = """
import sys
sys.path.insert(0, {tests!r})
from fakes import FakeEngine
from gemmachat import cli, cli_shared
engine = FakeEngine({answers})
engine.hang_at = {hang_at}
cli_shared.open_engine = lambda model, threads=None, **memory: engine
sys.exit(cli.main())
"""


@contextmanager
def terminal(
    *arguments: str, script: str | None = None, redirect: str = "", **environment: str
) -> Iterator[pexpect.spawn[str]]:
    """Run gemmachat in a terminal of its own, with the real engine or with a script's."""
    words = ["-c", script] if script else ["-m", "gemmachat"]
    child = pexpect.spawn(
        "bash",
        ["-c", f'exec "$0" "$@" {redirect}', sys.executable, *words, *arguments],
        encoding="utf-8",
        codec_errors="replace",
        timeout=120,
        dimensions=(24, 200),
        env={**os.environ, "TERM": "xterm", **environment},
    )
    try:
        yield child
    finally:
        child.close(force=True)


def fake(*answers: str, hang_at: int | None = None) -> str:
    return ENGINE.format(
        tests=str(TESTS), answers=", ".join(map(repr, answers)), hang_at=repr(hang_at)
    )


def wait_for_prompt(child: pexpect.spawn[str]) -> str:
    """Everything up to the next prompt."""
    child.expect(r"(?:^|\n)(?:\x1b\[\?2004h)?> ")
    return str(child.before)


def leave(child: pexpect.spawn[str]) -> int:
    child.sendeof()
    child.expect(pexpect.EOF)
    child.wait()
    assert child.exitstatus is not None, f"killed by signal {child.signalstatus}"
    return int(child.exitstatus)


def test_conversation_with_the_real_engine() -> None:
    with terminal("run", "tiny", "--max-tokens", "8", "--threads", "1") as child:
        wait_for_prompt(child)
        child.sendline("hello")
        assert "hello" in wait_for_prompt(child)
        child.sendline("/stats")
        assert "tokens per target pass" in wait_for_prompt(child)
        child.sendline("and again")
        wait_for_prompt(child)
        child.sendline("/stats")
        cached = re.search(r"prompt \d+ tokens \((\d+) cached", wait_for_prompt(child))
        assert cached is not None
        assert int(cached[1]) > 0
        assert leave(child) == 0


def test_interrupt_stops_the_real_engine_and_the_chat_goes_on() -> None:
    with terminal("run", "tiny", "--ctx", "4096", "--threads", "1") as child:
        wait_for_prompt(child)
        # Reading this prompt alone takes longer than the key press.
        child.sendline("hello " * 600)
        child.expect("hello \r\n")
        child.sendintr()
        child.expect("stopped")
        wait_for_prompt(child)
        child.sendline("/bye")
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 0


def test_interrupt_stops_an_answer_where_it_is() -> None:
    with terminal("run", "tiny", script=fake("abcdef", hang_at=3)) as child:
        wait_for_prompt(child)
        child.sendline("hi")
        child.expect("abc")
        child.sendintr()
        child.expect("stopped")
        wait_for_prompt(child)
        assert leave(child) == 0


def test_interrupt_in_one_shot_exits_with_130() -> None:
    with terminal("run", "tiny", "hi", script=fake("abcdef", hang_at=3)) as child:
        child.expect("abc")
        child.sendintr()
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 130


def test_interrupt_at_the_prompt_hints_and_the_second_one_leaves() -> None:
    with terminal("run", "tiny", script=fake("a")) as child:
        wait_for_prompt(child)
        child.send("half a line")
        child.expect("half a line")
        child.sendintr()
        child.expect("press Ctrl-C again or Ctrl-D to leave")
        wait_for_prompt(child)
        child.sendintr()
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 0


def test_interrupt_while_reading_a_pipe_exits_with_130() -> None:
    # Said by another thread a while after the main one has gone to read.
    said = "import threading; threading.Timer(1, print, ['started'], {'flush': True}).start()"
    script = fake("a").replace("sys.exit", f"{said}\nsys.exit")
    with terminal("run", "tiny", script=script, redirect="< <(sleep 100)") as child:
        child.expect_exact("started")
        child.sendintr()
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 130


def test_model_cannot_send_escape_sequences_to_the_terminal() -> None:
    script = fake("\x1b]0;owned\x07\x1b[2J\x9b5m end")
    with terminal("run", "tiny", "hi", script=script, NO_COLOR="1") as child:
        child.expect(pexpect.EOF)
        assert "\x1b" not in child.before
        assert "\x07" not in child.before
        assert "\x9b" not in child.before
        assert "<U+001B>]0;owned" in child.before


def test_thoughts_are_dim_and_answers_are_not() -> None:
    script = fake("<|channel>thought\nhm<channel|>yes")
    with terminal("run", "tiny", "hi", script=script) as child:
        child.expect(pexpect.EOF)
        assert "\x1b[2mh\x1b[0m" in child.before
        assert child.before.endswith("\r\nyes\r\n")


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_plain_terminal_gets_no_escape_sequences(environment: dict[str, str]) -> None:
    script = fake("<|channel>thought\nhm<channel|>yes")
    with terminal("run", "hi", "--stats", script=script, **environment) as child:
        child.expect(pexpect.EOF)
        assert "\x1b" not in child.before
        assert "yes" in child.before


def test_answers_can_be_redirected_while_the_chat_stays_on_the_terminal(tmp_path: Path) -> None:
    answers = tmp_path / "answers.txt"
    with terminal("run", "tiny", script=fake("one", "two"), redirect=f"> {answers}") as child:
        for line in ("a", "b"):
            child.expect_exact("> ")
            child.sendline(line)
        child.expect_exact("> ")
        assert leave(child) == 0
    assert answers.read_text() == "one\ntwo\n"


def test_line_editor_knows_the_prompt_and_the_history() -> None:
    with terminal("run", "tiny", script=fake("one", "two", "three")) as child:
        wait_for_prompt(child)
        child.sendline("first question")
        wait_for_prompt(child)
        child.send("\x1b[A")  # up
        child.expect_exact("first question")
        child.sendline("")
        child.expect("two")
        wait_for_prompt(child)
        assert leave(child) == 0


def test_bytes_that_are_no_utf8_do_not_end_the_chat() -> None:
    with terminal("run", "tiny", script=fake("one")) as child:
        wait_for_prompt(child)
        os.write(child.child_fd, b"a\xffb\n")
        child.expect("one")
        wait_for_prompt(child)
        assert leave(child) == 0


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_chat_goes_on_without_an_output(closed: str) -> None:
    with terminal("run", "tiny", script=fake("one"), redirect=closed) as child:
        child.sendline("a")
        child.sendline("/bye")
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 0
        assert "Error" not in child.before
