"""Saved chats and servers in the prompt loop of a real terminal, and a chat that was killed."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

from pseudo_terminal import PseudoTerminal, pseudo_terminal, scripted
from scripted_server import STREAM, event, scripted_server


def said(text: str) -> bytes:
    return event(json.dumps({"choices": [{"delta": {"content": text}}]}))


def answer(text: str) -> bytes:
    return STREAM + said(text) + event("[DONE]")


def kill(terminal: PseudoTerminal) -> None:
    os.kill(terminal.child.pid, signal.SIGKILL)
    while terminal.pump(0.05):
        pass


def test_chat_that_was_killed_in_an_answer_shows_its_question_again(tmp_path: Path) -> None:
    data = {"XDG_DATA_HOME": str(tmp_path)}
    script = scripted("first answer", "abcdefghijklmnop", hang_at=13)
    with pseudo_terminal("run", "tiny", script=script, **data) as terminal:
        terminal.wait_for_prompt()
        terminal.ask("first question")
        terminal.send("second\x1b\rquestion")
        terminal.wait_for("  question")
        terminal.send("\r")
        terminal.wait_for("abcdefghijklm")
        kill(terminal)
    with pseudo_terminal("run", "tiny", "--resume", script=scripted("two"), **data) as terminal:
        terminal.wait(
            lambda shown: "> second\n  question" in "\n".join(shown.screen) and shown.cursor[0] > 2
        )
        assert "chat 1: first question" in terminal.screen
        terminal.ask("")
        assert "two" in terminal.screen
        terminal.ask("/undo")
        assert "taken back: second" in terminal.text
        terminal.ask("/undo")
        assert "taken back: first question" in terminal.screen
        assert terminal.leave() == 0


def test_real_engine_goes_on_with_what_was_said(tmp_path: Path) -> None:
    data = {"XDG_DATA_HOME": str(tmp_path)}
    run = ("run", "tiny", "--threads", "1", "--max-tokens", "8")
    with pseudo_terminal(*run, "--ctx", "512", "--seed", "4", **data) as terminal:
        terminal.wait_for_prompt()
        terminal.ask("My name is Ann.")
        terminal.ask("/system off")
        assert terminal.leave() == 0
    with pseudo_terminal("run", "--resume", "1", "--threads", "1", **data) as terminal:
        terminal.wait_for_prompt()
        terminal.wait_for("of 512 tokens")
        assert "| 0 of" not in terminal.text
        terminal.ask("/show")
        assert "max_tokens         8" in terminal.text
        assert "seed               4" in terminal.text
        terminal.ask("/tokens")
        terminal.ask("And my name?")
        terminal.ask("/undo")
        terminal.ask("/undo")
        assert "taken back: My name is Ann." in terminal.screen
        assert terminal.leave() == 0


def test_server_answers_in_the_prompt_loop(tmp_path: Path) -> None:
    missing = (
        b"HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n"
        + json.dumps({"error": {"message": "no model \x1b[2Jx"}}).encode()
    )
    usage = event(
        json.dumps({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7}})
    )
    answers = [
        STREAM + said("**first** \x1b]0;x\x07") + usage + event("[DONE]"),
        missing,
        answer("second"),
        STREAM + said("third, bro"),
        answer("fourth"),
    ]
    data = {"XDG_DATA_HOME": str(tmp_path)}
    with scripted_server(*answers) as server:
        with pseudo_terminal(
            "run", "--base-url", server.url, "--model", "m", lines=50, **data
        ) as terminal:
            terminal.wait_for_prompt()
            terminal.ask("one")
            assert "first <U+001B>]0;x<U+0007>" in terminal.screen
            assert b"\x1b]0;" not in terminal.raw
            terminal.wait_for("m | 12 tokens")
            terminal.ask("/tokens")
            assert "12 tokens were used by the last turn" in terminal.text
            terminal.ask("/tokens a text")
            assert "a server counts no tokens of a text" in terminal.text
            terminal.ask("/model nowhere")
            terminal.ask_in_vain("two")
            assert "answers 404: no model <U+001B>[2Jx" in terminal.text
            terminal.ask("/model m")
            terminal.ask("two again")
            assert "second" in terminal.screen
            terminal.ask_in_vain("three")
            assert "broke off" in terminal.text
            assert terminal.leave() == 0
        with pseudo_terminal("run", "--resume", **data) as terminal:
            terminal.wait_for("> three")  # which got no answer
            terminal.send("\x15")
            terminal.wait_for_prompt()
            terminal.ask("four")
            assert "fourth" in terminal.screen
            assert terminal.leave() == 0
        sent = json.loads(server.requests[-1].split(b"\r\n\r\n")[-1])
    assert [message["content"] for message in sent["messages"]][:2] == [
        "one",
        "**first** \x1b]0;x\x07",
    ]
    assert sent["messages"][-1] == {"role": "user", "content": "four"}


def test_interrupt_stops_a_server_that_hangs_and_the_chat_goes_on() -> None:
    def hang(connection: socket.socket) -> None:
        connection.sendall(STREAM + said("half an ans"))
        connection.recv(1)  # until the client is gone

    with (
        scripted_server(hang, answer("whole")) as server,
        pseudo_terminal("run", "--base-url", server.url, "--model", "m") as terminal,
    ):
        terminal.wait_for_prompt()
        terminal.line("one")
        terminal.wait_for("half an ans")
        terminal.send("\x03")
        terminal.wait_for("stopped")
        terminal.wait_for_prompt()
        terminal.ask("two")
        assert "whole" in terminal.screen
        assert terminal.leave() == 0
    assert b"half an ans" in server.requests[1]


def test_server_that_is_not_there_is_told_and_the_chat_goes_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1"
    with pseudo_terminal("run", "--base-url", url, "--model", "m", columns=120) as terminal:
        terminal.wait_for_prompt()
        terminal.ask_in_vain("one")
        assert "cannot be reached" in terminal.text
        assert terminal.leave() == 0
