"""While the model loads: typing, leaving, waiting, and a model that fails to load."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pseudo_terminal import Gate, pseudo_terminal, scripted, untouched_modes


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    with closing(Gate(tmp_path / "gate")) as gate:
        yield gate


@pytest.mark.parametrize("keys", ["\x04", "/bye\r", "half\x03\x03"])
def test_leaving_does_not_wait_for_the_model(keys: str, gate: Gate) -> None:
    with pseudo_terminal("run", "tiny", script=scripted("a", gate=gate)) as terminal:
        terminal.wait_for_prompt()
        terminal.wait_for("loading tiny")
        if keys.startswith("half"):
            terminal.send("half\x03")
            terminal.wait_for("press Ctrl-C again")
            terminal.wait_for_prompt()
            keys = "\x03"
        terminal.send(keys)
        assert terminal.end() == 0
        assert terminal.modes == untouched_modes()


def test_what_is_typed_while_the_model_loads_is_answered(gate: Gate) -> None:
    with pseudo_terminal("run", "tiny", script=scripted("the answer", gate=gate)) as terminal:
        terminal.wait_for_prompt()
        terminal.send("first half")
        terminal.wait_for("> first half")
        gate.open()
        terminal.wait_for("of 4096 tokens")
        assert "> first half" in terminal.screen
        terminal.send(", second half")
        terminal.wait_for("> first half, second half")
        terminal.ask("")
        assert "the answer" in terminal.screen
        assert terminal.leave() == 0


def test_question_waits_for_the_model_and_can_be_taken_back(gate: Gate) -> None:
    with pseudo_terminal("run", "tiny", script=scripted("the answer", gate=gate)) as terminal:
        terminal.wait_for_prompt()
        terminal.ask("/help undo")  # needs no model
        terminal.line("early question")
        terminal.wait(lambda shown: shown.screen[shown.cursor[1]] == "loading tiny")
        terminal.send("\x03")
        terminal.wait(lambda shown: shown.screen[shown.cursor[1]] == "> early question")
        terminal.send("!\r")
        terminal.wait(lambda shown: shown.screen[shown.cursor[1]] == "loading tiny")
        gate.open()
        terminal.wait_for("the answer")
        terminal.wait_for_prompt()
        assert "> early question!" in terminal.screen
        assert terminal.text.count("the answer") == 1
        assert terminal.leave() == 0


@pytest.mark.parametrize("typed", ["half a question", "asked\r"])
def test_model_that_cannot_be_loaded_ends_the_chat_with_its_sentence(
    typed: str, gate: Gate
) -> None:
    with pseudo_terminal("run", "tiny", script=scripted("a", gate=gate)) as terminal:
        terminal.wait_for_prompt()
        terminal.send(typed)
        terminal.wait_for("> " + typed.strip())
        if typed.endswith("\r"):
            terminal.wait(lambda shown: shown.screen[shown.cursor[1]] == "loading tiny")
        gate.open("it is too large")
        assert terminal.end() == 5
        assert "error: it is too large" in terminal.screen
        assert terminal.modes == untouched_modes()


def test_what_is_wrong_before_a_model_is_found_ends_the_chat_with_its_sentence(
    tmp_path: Path,
) -> None:
    config = tmp_path / "gemmachat" / "config.toml"
    config.parent.mkdir()
    config.write_text("model = 5")
    with pseudo_terminal("run", script=scripted("a"), XDG_CONFIG_HOME=str(tmp_path)) as terminal:
        assert terminal.end() == 2
        assert f"error: {config}: model must be a text in quotes" in "".join(terminal.screen)


def test_what_is_told_of_a_chat_stands_above_the_prompt(tmp_path: Path) -> None:
    with pseudo_terminal("run", script=scripted("fine"), XDG_DATA_HOME=str(tmp_path)) as terminal:
        terminal.wait_for_prompt()
        terminal.send("hello")
        terminal.wait(lambda shown: "> hello" in shown.screen and "small demo model" in shown.text)
        above = terminal.screen[: terminal.screen.index("> hello")]
        assert any("small demo model" in line for line in above)
        terminal.ask("")
        assert "fine" in terminal.screen
        assert terminal.leave() == 0


def test_interrupt_while_another_model_loads_goes_back_to_the_old_one(gate: Gate) -> None:
    with pseudo_terminal("run", "tiny", script=scripted("one", "two", gate=gate)) as terminal:
        terminal.wait_for_prompt()
        gate.open()
        terminal.ask("first question")
        terminal.line("/model tiny")
        terminal.wait(lambda shown: shown.screen[shown.cursor[1]] == "loading tiny")
        terminal.send("\x03")
        terminal.wait_for("stopped")
        terminal.wait_for_prompt()
        terminal.line("/undo")
        terminal.wait(lambda shown: shown.screen[shown.cursor[1]] == "loading tiny")
        gate.open("too late")  # what was given up fails, and nobody minds
        gate.open()  # the old one is back
        terminal.wait_for("taken back: first question")
        terminal.wait_for_prompt()
        terminal.ask("second question")
        assert "too late" not in terminal.text
        assert terminal.leave() == 0


def test_leaving_while_a_model_that_was_given_up_still_loads(gate: Gate) -> None:
    with pseudo_terminal("run", "tiny", script=scripted("one", gate=gate)) as terminal:
        terminal.wait_for_prompt()
        gate.open()
        terminal.ask("/tokens")
        terminal.line("/model tiny")
        terminal.wait(lambda shown: shown.screen[shown.cursor[1]] == "loading tiny")
        terminal.send("\x03")
        terminal.wait_for("stopped")
        terminal.wait_for_prompt()
        assert terminal.leave() == 0


def test_other_model_that_cannot_be_loaded_leaves_the_chat_going(gate: Gate) -> None:
    with pseudo_terminal("run", "tiny", script=scripted("one", "two", gate=gate)) as terminal:
        terminal.wait_for_prompt()
        gate.open()
        terminal.ask("/set temperature 0.25")
        terminal.line("/model tiny")
        terminal.wait(lambda shown: shown.screen[shown.cursor[1]] == "loading tiny")
        gate.open("it is too large")
        terminal.wait_for("error: it is too large")
        terminal.wait_for_prompt()
        gate.open()
        terminal.ask("hi")
        terminal.ask("/show temperature")
        assert "temperature 0.25" in terminal.screen
        assert terminal.leave() == 0


def test_interrupt_on_a_dumb_terminal_ends_a_load_at_once(gate: Gate) -> None:
    with pseudo_terminal("run", "tiny", script=scripted("one", gate=gate), TERM="dumb") as terminal:
        terminal.wait_for("/help lists the commands")
        terminal.send("\x03")
        assert terminal.end() == 130
        assert "Traceback" not in terminal.text
