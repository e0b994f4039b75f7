"""Calls of tools in a real terminal: who is asked, what answers, and what is shown before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pseudo_terminal import PseudoTerminal, pseudo_terminal, scripted
from scripted_server import STREAM, event, scripted_server

SUM = '<|tool_call>call:calculator{expression:<|"|>6*7<|"|>}<tool_call|><|tool_response>'
SHOWN = 'calculator(expression="6*7")'
ASKS = "run this call? [y/N]"
REFUSED = "the user did not allow this call"


def questions(terminal: PseudoTerminal) -> int:
    return terminal.text.count(ASKS)


def asked(terminal: PseudoTerminal, number: int) -> None:
    """Wait until the user has been asked so many times, and can answer."""
    terminal.wait(lambda shown: questions(shown) == number)


@pytest.mark.parametrize("options", [(), ("--plain",)])
def test_only_a_yes_runs_a_call(options: tuple[str, ...]) -> None:
    answers = [part for number in range(5) for part in (SUM, f"answer {number}.")]
    with pseudo_terminal(
        "run", "tiny", "--tools", "builtin", *options, script=scripted(*answers), lines=60
    ) as terminal:
        terminal.wait_for_prompt()
        for number, keys in enumerate(("y\r", "n\r", "\r", "\x04", "YES\r")):
            terminal.line("what is it?")
            asked(terminal, number + 1)
            above = terminal.text.split(ASKS)[-2]
            assert SHOWN in above
            terminal.send(keys)
            terminal.wait_for_prompt()
            told = terminal.text.split(ASKS)[-1]
            assert f"answer {number}." in told
            assert ("42" if "y" in keys.lower() else REFUSED) in told.split("answer")[0]
            assert ("did not allow" in told) == ("y" not in keys.lower())
        assert terminal.leave() == 0


def test_keys_that_came_before_the_question_do_not_answer_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    tools = tmp_path / "tools.py"
    tools.write_text(f"def wait() -> str:\n    return open({str(pipe)!r}).read()\n")
    calls = f"<|tool_call>call:wait{{}}<tool_call|>{SUM}"
    with pseudo_terminal(
        "run", "tiny", "--tools", str(tools), script=scripted(calls, "done.")
    ) as terminal:
        terminal.wait_for_prompt()
        terminal.line("go")
        asked(terminal, 1)
        terminal.send("y\r")
        with pipe.open("w") as opened:  # the tool is running now
            terminal.send("y\ny\r")
            opened.write("waited")
        asked(terminal, 2)
        terminal.send("\r")
        terminal.wait_for_prompt()
        assert "waited" in terminal.text
        assert REFUSED in terminal.text
        assert terminal.leave() == 0


def test_interrupt_at_the_question_stops_the_answer_and_the_chat_goes_on() -> None:
    with pseudo_terminal(
        "run", "tiny", "--tools", "builtin", script=scripted(SUM, "later answer")
    ) as terminal:
        terminal.wait_for_prompt()
        terminal.line("go")
        asked(terminal, 1)
        terminal.send("\x03")
        terminal.wait_for_prompt()
        assert "stopped" in terminal.screen
        assert "later answer" not in terminal.text
        terminal.ask("again")
        assert "later answer" in terminal.screen
        assert terminal.leave() == 0


def test_interrupt_stops_a_call_that_runs(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    tools = tmp_path / "tools.py"
    started, waits = f"open({str(pipe)!r}, 'w').close()", f"open({str(pipe)!r}).read()"
    tools.write_text(f"def hang() -> None:\n    {started}\n    {waits}\n")
    call = "<|tool_call>call:hang{}<tool_call|>"
    with pseudo_terminal(
        "run", "tiny", "--tools", str(tools), "--yes", script=scripted(call, "later answer")
    ) as terminal:
        terminal.wait_for_prompt()
        terminal.line("go")
        pipe.read_text()  # it runs
        terminal.send("\x03")
        terminal.wait_for_prompt()
        assert "stopped" in terminal.screen
        assert "the user stopped this call" in terminal.text
        terminal.ask("again")
        assert "later answer" in terminal.screen
        assert terminal.leave() == 0


def test_yes_asks_nothing() -> None:
    with pseudo_terminal(
        "run", "tiny", "go", "--tools", "builtin", "--yes", script=scripted(SUM, "It is 42.")
    ) as terminal:
        assert terminal.end() == 0
        assert questions(terminal) == 0
        assert terminal.screen[:4] == [SHOWN, "42", "", "It is 42."]


@pytest.mark.parametrize("redirect", ["< /dev/null", "2> errors", "< /dev/null > out 2> errors"])
def test_nobody_to_ask_is_refused(redirect: str, tmp_path: Path) -> None:
    redirect = redirect.replace("> ", f"> {tmp_path}/")
    with pseudo_terminal(
        "run", "tiny", "go", "--tools", "builtin", script=scripted(SUM), redirect=redirect
    ) as terminal:
        assert terminal.end() == 2


def test_pipe_is_refused_and_the_sentence_says_what_helps() -> None:
    done = subprocess.run(
        [sys.executable, "-c", scripted(SUM), "run", "tiny", "--tools", "builtin"],
        input=b"go\n",
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--yes allows all" in done.stderr


@pytest.mark.parametrize("form", ["--json", "--json-lines"])
def test_json_on_a_terminal_asks_too(form: str) -> None:
    with pseudo_terminal(
        "run", "tiny", "go", "--tools", "builtin", form, script=scripted(SUM, "ok"), columns=2000
    ) as terminal:
        asked(terminal, 1)
        assert SHOWN in terminal.text.split(ASKS)[0]
        terminal.send("y\r")
        assert terminal.end() == 0
        last = [line for line in terminal.screen if line.startswith("{")][-1]
        report = json.loads(last)
        assert report["text"] == "ok"
        assert report["tool_calls"][0]["result"] == 42


def test_calls_of_a_server_are_asked_for_too() -> None:
    function = {"name": "calculator", "arguments": json.dumps({"expression": "6*7"})}
    call = {"delta": {"tool_calls": [{"index": 0, "id": "c", "function": function}]}}
    said = {"delta": {"content": "It is 42."}, "finish_reason": "stop"}
    calling = STREAM + event(json.dumps({"choices": [{**call, "finish_reason": "tool_calls"}]}))
    answers = [
        calling + event("[DONE]"),
        STREAM + event(json.dumps({"choices": [said]})) + event("[DONE]"),
    ]
    arguments = ("run", "--base-url")
    with (
        scripted_server(*answers) as server,
        pseudo_terminal(*arguments, server.url, "--model", "m", "--tools", "builtin") as terminal,
    ):
        terminal.wait_for_prompt()
        terminal.line("go")
        asked(terminal, 1)
        assert SHOWN in terminal.screen
        terminal.send("y\r")
        terminal.wait_for_prompt()
        assert "It is 42." in terminal.screen
        assert b'"content": "42"' in server.requests[-1] or b'"content":"42"' in server.requests[-1]
        assert terminal.leave() == 0


@pytest.mark.parametrize("options", [(), ("--plain",)])
def test_hostile_call_is_shown_safely_and_in_full_before_the_question(
    options: tuple[str, ...],
) -> None:
    hostile = "\x1b[2J\x1b]52;c;eA==\x07\x9b5m\r\u202e\u2066\b" + "z" * 3000 + "end"
    call = f'<|tool_call>call:calculator{{expression:<|"|>{hostile}<|"|>}}<tool_call|>'
    with pseudo_terminal(
        "run", "tiny", "go", "--tools", "builtin", *options, script=scripted(call, "ok")
    ) as terminal:
        asked(terminal, 1)
        shown = "".join(terminal.text.split(ASKS)[0].split("\n"))
        assert "z" * 3000 + 'end")' in shown
        for visible in ("\\u001b[2J", "\\u0007", "<U+009B>", "\\r", "<U+202E>", "<U+2066>", "\\b"):
            assert visible in shown
        for sequence in (b"\x1b[2J", b"\x1b]52", b"\x07", "\x9b".encode(), "\u202e".encode()):
            assert sequence not in terminal.raw
        terminal.send("n\r")
        assert terminal.end() == 0


def test_names_of_arguments_cannot_write_lines_of_their_own() -> None:
    arguments = json.dumps({f'x"\n\n{ASKS} y\n\x1b[2J': 1})
    function = {"name": "calculator\n> ", "arguments": arguments}
    known = {"name": "calculator", "arguments": arguments}
    calls = [
        {"index": index, "id": "c", "function": each}
        for index, each in enumerate((function, known))
    ]
    choice = {"delta": {"tool_calls": calls}, "finish_reason": "tool_calls"}
    answer = STREAM + event(json.dumps({"choices": [choice]})) + event("[DONE]")
    end = {"delta": {"content": "ok"}, "finish_reason": "stop"}
    said = STREAM + event(json.dumps({"choices": [end]})) + event("[DONE]")
    with (
        scripted_server(answer, said) as server,
        pseudo_terminal(
            "run", "--base-url", server.url, "--model", "m", "--tools", "builtin", "go"
        ) as terminal,
    ):
        terminal.wait(lambda shown: ASKS in shown.screen[shown.cursor[1]])
        assert not any(line.startswith((ASKS + " y", ">")) for line in terminal.screen)
        terminal.send("n\r")
        assert terminal.end() == 0
