"""Answers while they come: nothing is printed twice or lost, whatever the window does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pseudo_terminal import pseudo_terminal, scripted

LONG = "\n\n".join(f"Paragraph {number} has *some* words in it." for number in range(300))
CODE = "```python\n" + "\n".join(f"x{number} = {number}" for number in range(400)) + "\n```"


def numbers(text: str, pattern: str) -> list[int]:
    return [int(found) for found in re.findall(pattern, text)]


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (30, 6)])
def test_long_answer_is_printed_once(columns: int, lines: int) -> None:
    script = scripted(LONG, pause_s=0.00002)
    with pseudo_terminal(
        "run", "tiny", "hi", "--ctx", "100000", script=script, columns=columns, lines=lines
    ) as terminal:
        terminal.end()
        assert numbers(terminal.text, r"Paragraph (\d+)") == list(range(300))


def test_long_code_comes_line_by_line_and_once() -> None:
    script = scripted(CODE, hang_at=len(CODE) - 3)
    with pseudo_terminal(
        "run", "tiny", "hi", "--ctx", "100000", script=script, columns=40, lines=10
    ) as terminal:
        terminal.wait_for("x399 = 399")  # the block is still open
        assert numbers(terminal.text, r"x(\d+) =") == list(range(400))
        terminal.send("\x03")
        terminal.end()
        assert numbers(terminal.text, r"x(\d+) =") == list(range(400))


def test_paragraph_taller_than_the_window_shows_its_end_and_then_all() -> None:
    words = " ".join(f"w{number}" for number in range(2000))
    script = scripted(words, hang_at=len(words))
    with pseudo_terminal(
        "run", "tiny", "hi", "--ctx", "100000", script=script, columns=40, lines=10
    ) as terminal:
        terminal.wait_for("w1999")
        assert len(terminal.text.split("\n")) == 10  # nothing has been scrolled away
        terminal.send("\x03")
        terminal.end()
        assert numbers(terminal.text, r"w(\d+)") == list(range(2000))


def test_block_that_grows_is_drawn_where_it_is() -> None:
    script = scripted("first\n\n- one\n- two **bold** and more", hang_at=31)
    with pseudo_terminal("run", "tiny", "hi", script=script) as terminal:
        terminal.wait_for("and")
        assert terminal.screen[:5] == ["first", "", " • one", " • two bold and", ""]


@pytest.mark.parametrize("columns", [20, 120])
def test_resize_while_an_answer_comes_loses_nothing(columns: int) -> None:
    script = scripted(LONG, pause_s=0.0001)
    with pseudo_terminal(
        "run", "tiny", "hi", "--ctx", "100000", script=script, columns=60, lines=12
    ) as terminal:
        terminal.wait_for("Paragraph 20")
        terminal.resize(columns, 12)
        terminal.end()
        found = numbers(terminal.text, r"Paragraph\s(\d+)")
        assert set(range(300)) <= set(found)
        assert len(found) <= 303  # the block that grew may have left a trace


def test_wide_characters_and_emoji_stay_whole() -> None:
    text = "你好，世界。" * 20 + "👍🏽" * 10 + " é naïve"
    script = scripted(f"{text}\n\nend")
    with pseudo_terminal("run", "tiny", "hi", script=script, columns=21) as terminal:
        terminal.end()
        assert terminal.text.replace("\n", "").count("你好，世界。") == 20
        assert b"\xef\xbf\xbd" not in terminal.raw
        assert "end" in terminal.screen


def test_markup_of_rich_is_only_text() -> None:
    script = scripted("[bold]x[/bold] [/] :smile: [link=http://e]y[/link] [@click=f]z")
    with pseudo_terminal("run", "tiny", "hi", script=script) as terminal:
        terminal.end()
        assert "[bold]x[/bold] [/] :smile: [link=http://e]y[/link] [@click=f]z" in terminal.screen
        assert b"\x1b]8" not in terminal.raw


def test_thoughts_can_be_folded_and_shown() -> None:
    script = scripted("<|channel>thought\nsecret plan<channel|>yes")
    with pseudo_terminal("run", "tiny", script=script) as terminal:
        terminal.wait_for_prompt()
        terminal.ask("/think hide")
        terminal.ask("hi")
        assert "secret plan" not in terminal.text
        assert "thought for 0 s (/think show)" in terminal.screen
        terminal.ask("/think show")
        assert "secret plan" in terminal.screen


def test_wait_is_told_and_leaves_no_trace() -> None:
    with pseudo_terminal("run", "tiny", "hi", script=scripted("a", hang_at=0)) as terminal:
        terminal.wait_for("reading the prompt, 1 s; Ctrl-C stops")
        terminal.send("\x03")
        assert terminal.end() == 130
        assert "reading" not in terminal.text


def test_markdown_can_be_switched_off() -> None:
    with pseudo_terminal("run", "tiny", script=scripted("# **a**")) as terminal:
        terminal.wait_for_prompt()
        terminal.ask("/set markdown off")
        terminal.ask("hi")
        assert "# **a**" in terminal.screen


def test_what_is_piped_is_what_the_model_said(tmp_path: Path) -> None:
    answer = "# **a**  \n\n```\nx\n```\n<b> [bold] \u202e\x1b[31m"
    done = subprocess.run(
        [sys.executable, "-c", scripted(answer), "run", "tiny", "hi"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=tmp_path,
        check=True,
    )
    shown = answer.replace("\u202e", "<U+202E>").replace("\x1b", "<U+001B>")
    assert done.stdout.decode() == f"{shown}\n"
