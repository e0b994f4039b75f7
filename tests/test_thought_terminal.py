"""Thoughts and plain answers in a real terminal: what the options and commands show and hide."""

from __future__ import annotations

from pathlib import Path

import pytest
from pseudo_terminal import pseudo_terminal, scripted

THINKS = "<|channel>thought\nsecret plan<channel|>"


def test_budget_ends_a_thought_and_the_answer_begins() -> None:
    script = scripted("<|channel>thought\nabcdefghij<channel|>never", "the answer")
    arguments = ("--think", "--thought-budget", "5")
    with pseudo_terminal("run", "tiny", "hi", *arguments, script=script) as terminal:
        assert terminal.end() == 0
        assert terminal.screen[:3] == ["abcde", "", "the answer"]
        assert "fghij" not in terminal.text


def test_thinking_is_saved_and_can_be_switched_off(tmp_path: Path) -> None:
    data = {"XDG_DATA_HOME": str(tmp_path)}
    with pseudo_terminal("run", "tiny", "--think", script=scripted("one"), **data) as terminal:
        terminal.wait_for_prompt()
        terminal.ask("/set thought_budget 7")
        terminal.ask("hi")
        assert terminal.leave() == 0
    for option, value in (("--think", "on"), ("--no-think", "off")):
        with pseudo_terminal(
            "run", "tiny", "--resume", option, script=scripted("one"), **data
        ) as terminal:
            terminal.wait_for_prompt()
            terminal.ask("/show think")
            terminal.ask("/show thought_budget")
            assert f"think {value}" in terminal.screen
            assert "thought_budget 7" in terminal.screen
            assert terminal.leave() == 0


@pytest.mark.parametrize("options", [(), ("--plain",)])
def test_thoughts_are_folded_and_shown_on_request(options: tuple[str, ...]) -> None:
    script = scripted(THINKS + "**yes**")
    with pseudo_terminal("run", "tiny", *options, script=script) as terminal:
        terminal.wait_for_prompt()
        terminal.ask("/think show")
        assert "the last answer came without a thought" in terminal.screen
        terminal.ask("/think hide")
        assert "the model thinks before it answers and its thoughts are folded" in terminal.screen
        terminal.ask("hi")
        assert "secret plan" not in terminal.text
        assert "thought for 0 s (/think show)" in terminal.screen
        terminal.ask("/think show")
        assert terminal.text.count("secret plan") == 1
        terminal.ask("/think on")
        terminal.ask("again")
        assert terminal.text.count("secret plan") == 2
        terminal.ask("/think off")
        assert "the model does not think first" in terminal.screen
        terminal.ask("/think perhaps")
        assert "takes on, off, hide or show" in terminal.text
        assert terminal.text.count("**yes**" if options else "yes") == 2
        assert ("**" in terminal.text) == bool(options)
        assert terminal.leave() == 0


def test_markdown_goes_off_and_on_between_answers() -> None:
    with pseudo_terminal("run", "tiny", script=scripted("# **a** b")) as terminal:
        terminal.wait_for_prompt()
        terminal.ask("/set markdown off")
        terminal.ask("hi")
        assert "# **a** b" in terminal.screen
        terminal.ask("/set markdown on")
        terminal.ask("hi")
        assert "a b" in terminal.screen
        terminal.ask("/set markdown maybe")
        assert "markdown takes on, off, not 'maybe'" in terminal.text
        assert terminal.leave() == 0
