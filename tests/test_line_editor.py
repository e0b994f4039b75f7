"""Typing in a real terminal: several lines, pastes, completion, the user's editor, commands."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from pseudo_terminal import pseudo_terminal, scripted


def test_paste_of_many_lines_is_one_message(tmp_path: Path) -> None:
    text = "\n".join(f"line {number}" for number in range(5000))
    with pseudo_terminal(
        "run", "tiny", "--ctx", "100000", script=scripted("ok"), XDG_DATA_HOME=str(tmp_path)
    ) as terminal:
        terminal.wait_for_prompt()
        terminal.send(f"\x1b[200~{text}\x1b[201~")
        terminal.wait_for("line 4999")
        terminal.ask("")
        terminal.ask(f"/export {tmp_path}/all.md")
        assert terminal.leave() == 0
    assert text in (tmp_path / "all.md").read_text()


def test_paste_during_an_answer_waits_as_one_message() -> None:
    text = "\n".join(f"line {number}" for number in range(300))
    script = scripted("answer " * 30, "understood", pause_s=0.01)
    with pseudo_terminal("run", "tiny", script=script, lines=10) as terminal:
        terminal.wait_for_prompt()
        terminal.line("hi")
        terminal.wait_for("answer")
        assert terminal.raw.count(b"\x1b[?2004h") == terminal.raw.count(b"\x1b[?2004l") + 1
        terminal.send(f"\x1b[200~{text}\x1b[201~")
        terminal.wait_for("line 299")
        assert "understood" not in terminal.text
        terminal.ask("")
        assert terminal.text.count("understood") == 1
        assert terminal.leave() == 0


def test_keys_for_a_new_line_and_three_quotes(tmp_path: Path) -> None:
    with pseudo_terminal("run", "tiny", script=scripted("ok"), XDG_DATA_HOME=str(tmp_path)) as t:
        t.wait_for_prompt()
        t.ask("a\x1b\rb\x1b[13;2uc")
        t.ask('"""x\ry"""')
        t.ask(f"/export {tmp_path}/all.md")
        assert t.leave() == 0
    written = (tmp_path / "all.md").read_text()
    assert "a\nb\nc" in written
    assert "## You\n\nx\ny\n" in written


def test_pasted_control_characters_are_made_visible() -> None:
    with pseudo_terminal("run", "tiny", script=scripted("ok")) as terminal:
        terminal.wait_for_prompt()
        terminal.send("\x1b[200~a\x1b]0;owned\x07\u202eb\x1b[201~")
        terminal.wait_for("> a<U+001B>]0;owned<U+0007><U+202E>b")


def test_what_is_typed_after_ctrl_space_is_kept() -> None:
    with pseudo_terminal("run", "tiny", script=scripted("ok")) as terminal:
        terminal.wait_for_prompt()
        terminal.send("ni\x00 hao\x7f\x7fei")
        terminal.wait_for("> ni hei")


def test_editor_of_the_user_edits_the_message(tmp_path: Path) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nprintf "from the editor" > "$1"\n')
    editor.chmod(0o755)
    with pseudo_terminal("run", "tiny", script=scripted("ok"), VISUAL=str(editor)) as terminal:
        terminal.wait_for_prompt()
        terminal.send("draft\x07")
        terminal.wait_for("> from the editor")


@pytest.mark.parametrize(
    ("script", "typed", "said"),
    [
        ("exit 1", "draft", None),
        ("kill -9 $$", "draft", None),
        ("rm $1", "draft", "cannot be read: No such file"),
        ("rm $1; mkdir $1; touch $1/x", "draft", "cannot be read: not a regular file"),
        ("rm $1; mkfifo $1", "draft", "cannot be read: not a regular file"),
        ("truncate -s 10M $1", "draft", "cannot be read: more than 1,048,576 bytes"),
        ("printf 'a\\377\\033[31m\\000b\\r\\nc' > $1", "a\ufffd<U+001B>[31m<U+0000>b", None),
    ],
)
def test_whatever_an_editor_leaves_the_message_can_be_sent(
    script: str, typed: str, said: str | None, tmp_path: Path
) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n{script}\n")
    editor.chmod(0o755)
    with pseudo_terminal(
        "run",
        "tiny",
        script=scripted("answered"),
        columns=120,
        VISUAL=str(editor),
        TMPDIR=str(tmp_path),
    ) as terminal:
        terminal.wait_for_prompt()
        terminal.send("draft\x07")
        terminal.wait(lambda seen: (tmp_path / "ran").exists())
        if said is not None:
            terminal.wait_for(said)
        else:
            terminal.wait_for(f"> {typed}")
        terminal.wait(lambda seen: not list(tmp_path.glob("gemmachat-*")))
        terminal.wait(lambda seen: f"> {typed}" in seen.screen)
        terminal.line("")
        terminal.wait_for("answered")
        assert b"Traceback" not in terminal.raw


def test_interrupt_in_the_editor_is_for_the_editor(tmp_path: Path) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text(
        f"#!/bin/sh\ntrap '' INT\ntouch {tmp_path}/ran\n"
        f'while [ ! -e {tmp_path}/go ]; do sleep 0.05; done\nprintf edited > "$1"\n'
    )
    editor.chmod(0o755)
    with pseudo_terminal("run", "tiny", script=scripted("ok"), VISUAL=str(editor)) as terminal:
        terminal.wait_for_prompt()
        terminal.send("draft\x07")
        terminal.wait(lambda seen: (tmp_path / "ran").exists())
        terminal.child.kill(signal.SIGINT)
        terminal.pump(0.3)
        (tmp_path / "go").touch()
        terminal.wait_for("> edited")
        assert "Ctrl-C again" not in terminal.text


def test_without_any_editor_the_user_is_told(tmp_path: Path) -> None:
    script = f"import os; os.environ['PATH'] = {str(tmp_path)!r}\n{scripted('ok')}"
    with pseudo_terminal("run", "tiny", script=script, VISUAL='"', EDITOR="/nowhere") as terminal:
        terminal.wait_for_prompt()
        terminal.send("draft\x07")
        terminal.wait_for("no editor can be started: set EDITOR to one")


def test_keys_pressed_during_an_answer_wait_for_the_prompt() -> None:
    script = scripted("answer " * 30, pause_s=0.01)
    with pseudo_terminal("run", "tiny", script=script) as terminal:
        terminal.wait_for_prompt()
        terminal.line("hi")
        terminal.wait_for("answer")
        terminal.send("typed ahead")
        terminal.wait_for("> typed ahead")
        assert terminal.text.count("typed ahead") == 1


def test_last_question_is_edited_in_place() -> None:
    with pseudo_terminal("run", "tiny", script=scripted("one", "two", "three")) as terminal:
        terminal.wait_for_prompt()
        terminal.ask("first question")
        terminal.line("/edit")
        terminal.wait_for("> first question")
        terminal.pump(0.2)
        terminal.line(" changed")
        terminal.wait_for("two")
        terminal.wait_for("> ".rstrip())
        terminal.pump(0.2)
        terminal.line("/undo")
        terminal.wait_for("taken back: first question changed")
        terminal.pump(0.2)
        terminal.line("/undo")
        terminal.wait_for("there is nothing to take back")


def test_regen_answers_anew_and_files_go_before_the_question(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("the notes")
    with pseudo_terminal("run", "tiny", script=scripted("one", "two"), columns=200) as terminal:
        terminal.wait_for_prompt()
        terminal.ask(f"/read {tmp_path}/notes.txt")
        terminal.ask("hi")
        terminal.ask("/regen")
        terminal.ask("/undo")
        assert "two" in terminal.screen
        assert "the notes" in terminal.text


def test_commands_are_completed() -> None:
    with pseudo_terminal("run", "tiny", script=scripted("one")) as terminal:
        terminal.wait_for_prompt()
        terminal.send("/comp")
        terminal.wait_for("have the model summarise")
        terminal.send("\t")
        terminal.wait_for("> /compact")
