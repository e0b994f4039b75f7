"""Every command of the chat once in a real terminal."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest
from pseudo_terminal import pseudo_terminal, scripted

from gemmachat.commands import COMMANDS
from gemmachat.store import Store

NO_DESKTOP = {"DISPLAY": "", "WAYLAND_DISPLAY": ""}
CODE = "Here:\n\n```python\nx = 1\n```\n\nand ~~~ no more."


def test_help_and_near_misses() -> None:
    with pseudo_terminal("run", "tiny", script=scripted("one"), lines=50) as terminal:
        terminal.wait_for_prompt()
        everything = terminal.told("/help")
        for command in COMMANDS:
            assert command.name in everything
        assert "/undo: take back the last question" in terminal.told("/help undo")
        assert "/copy [code]: copy the last answer" in terminal.told("/help /copy")
        assert "did you mean /undo?" in terminal.told("/udno")
        assert "did you mean /compact?" in terminal.told("/compcat now")
        assert "there is no command /zzz: /help lists them" in terminal.told("/zzz")
        assert "did you mean /stats?" in terminal.told("/help stat")
        assert "/clear takes nothing more" in terminal.told("/clear all")
        terminal.line("/BYE")
        assert terminal.end() == 0


def test_settings_system_and_figures() -> None:
    with pseudo_terminal("run", "tiny", script=scripted("one"), lines=60) as terminal:
        terminal.wait_for_prompt()
        assert "no system prompt" in terminal.told("/system")
        assert "system prompt: Be brief." in terminal.told("/system Be brief.")
        assert "system             Be brief." in terminal.told("/show")
        assert "no system prompt" in terminal.told("/system off")
        assert "draft 3" in terminal.told("/draft 3")
        assert "draft takes auto, off or 1 to 7, not '99'" in terminal.told("/draft 99")
        assert "draft 3" in terminal.told("/draft")
        assert "temperature 0.5" in terminal.told("/set temperature 0.5")
        for value in ("nan", "-1", "1e999", "warm"):
            assert "error:" in terminal.told(f"/set temperature {value}")
        for name, value in (("top_k", "9" * 30), ("seed", "-9" * 20), ("max_tokens", "9" * 30)):
            assert "error:" in terminal.told(f"/set {name} {value}")
        assert "there is no setting 'warmth'" in terminal.told("/set warmth 1")
        assert "temperature 0.5" in terminal.told("/show temperature")
        assert "no answer yet" in terminal.told("/stats")
        terminal.ask("hi")
        assert "tokens per target pass" in terminal.told("/stats")
        assert "by position" in terminal.told("/stats full")
        assert "takes full or nothing" in terminal.told("/stats fast")
        assert "are left" in terminal.told("/tokens")
        assert "5 tokens" in terminal.told("/tokens seven")
        assert terminal.leave() == 0


def test_chats_are_named_listed_loaded_and_written(tmp_path: Path) -> None:
    data = {"XDG_DATA_HOME": str(tmp_path)}
    with pseudo_terminal(
        "run",
        "tiny",
        script=scripted("first answer", "second answer"),
        lines=60,
        columns=200,
        **data,
    ) as terminal:
        terminal.wait_for_prompt()
        assert "there is nothing to save yet" in terminal.told("/save early")
        assert "there are no saved chats yet" in terminal.told("/chats")
        terminal.ask("first question")
        assert "chat 1: Fruit" in terminal.told("/save Fruit")
        assert "chat 1: Apples" in terminal.told("/rename Apples")
        assert "give the new name" in terminal.told("/rename")
        assert "a new conversation" in terminal.told("/clear")
        terminal.ask("second question")
        listed = terminal.told("/chats")
        assert listed.index("second question") < listed.index("Apples")
        assert "Apples" in terminal.told("/chats FIRST question")
        assert "no chat holds that text" in terminal.told("/chats pears")
        loaded = terminal.told("/load 1")
        assert "chat 1: Apples (1 questions)" in loaded
        assert "> first question" in loaded
        assert "first answer" in loaded
        for wrong in ("", "99", "9" * 30, "one"):
            assert "error:" in terminal.told(f"/load {wrong}")
        assert "written to" in terminal.told(f"/export {tmp_path}/all.md")
        assert "written to" in terminal.told(f"/export {tmp_path}/all.json")
        assert "exists already" in terminal.told(f"/export {tmp_path}/all.md")
        assert "ends in .md or .json" in terminal.told(f"/export {tmp_path}/all.txt")
        assert "No such file" in terminal.told(f"/export {tmp_path}/no/all.md")
        assert "error:" in terminal.told(f"/export {tmp_path}/{'x' * 300}.md")
        assert terminal.leave() == 0
    assert "## You\n\nfirst question" in (tmp_path / "all.md").read_text()
    assert "first answer" in json.dumps(json.loads((tmp_path / "all.json").read_text()))


def test_answer_and_code_are_copied_by_the_terminal() -> None:
    with pseudo_terminal("run", "tiny", script=scripted(CODE), lines=40, **NO_DESKTOP) as terminal:
        terminal.wait_for_prompt()
        assert "there is no answer to copy" in terminal.told("/copy")
        terminal.ask("hi")
        for command, text in (("/copy", CODE), ("/copy code", "x = 1\n")):
            assert f"copied {len(text)} characters" in terminal.told(command)
            sequence = b"\x1b]52;c;" + base64.b64encode(text.encode()) + b"\x07"
            assert terminal.raw.count(sequence) == 1
        assert "/copy takes code or nothing" in terminal.told("/copy all")
        assert terminal.leave() == 0


def test_compact_shows_what_it_did() -> None:
    script = scripted("one", "two", "In short: one.", "In short: both.")
    with pseudo_terminal("run", "tiny", script=script, lines=40) as terminal:
        terminal.wait_for_prompt()
        assert "nothing to compact" in terminal.told("/compact")
        terminal.ask("a")
        terminal.ask("b")
        shown = terminal.told("/compact")
        assert "In short: one." in shown
        assert "this summary stands for one turn now" in shown
        kept = re.search(r"chat (\d+) keeps them, this goes on as chat (\d+)", shown)
        assert kept is not None
        assert re.findall(r"^ +(\d+)  2", terminal.told("/chats"), re.MULTILINE) == [
            kept[2],
            kept[1],
        ]
        terminal.ask("/undo")
        again = terminal.told("/compact")
        assert "nothing to compact" in again
        assert "this summary" not in again
        assert terminal.leave() == 0


def test_full_context_has_no_tokens_left_and_the_advice_helps() -> None:
    script = scripted("long " * 100, "fine")
    with pseudo_terminal("run", "tiny", "--ctx", "100", script=script, columns=200) as terminal:
        terminal.wait_for_prompt()
        assert "/compact or /undo makes room" in terminal.told("first")
        assert "100 tokens are used, 0 are left" in terminal.told("/tokens")
        assert "nothing to compact" in terminal.told("/compact")
        assert "taken back: first" in terminal.told("/undo")
        assert "fine" in terminal.told("second")
        assert terminal.leave() == 0


def test_notes_are_broken_between_words() -> None:
    with pseudo_terminal("run", "tiny", script=scripted("one"), columns=40) as terminal:
        terminal.wait_for_prompt()
        told = terminal.told("/help think")
        assert "fold the thoughts, or show the last ones" in " ".join(told.split())
        assert terminal.leave() == 0


def test_taken_up_chat_is_compacted_too(tmp_path: Path) -> None:
    data = {"XDG_DATA_HOME": str(tmp_path)}
    with pseudo_terminal("run", "tiny", script=scripted("one", "two"), **data) as terminal:
        terminal.wait_for_prompt()
        terminal.ask("a")
        terminal.ask("b")
        assert terminal.leave() == 0
    with pseudo_terminal(
        "run", "tiny", "--resume", script=scripted("In short."), **data
    ) as terminal:
        terminal.wait_for_prompt()
        assert "this summary stands for one turn now" in terminal.told("/compact")
        assert terminal.leave() == 0


def test_compact_keeps_turns_of_a_chat_that_another_program_has_deleted(tmp_path: Path) -> None:
    store = Store(tmp_path / "gemmachat" / "chats.sqlite3", print)
    with pseudo_terminal(
        "run", "tiny", script=scripted("one", "two", "In short."), XDG_DATA_HOME=str(tmp_path)
    ) as terminal:
        terminal.wait_for_prompt()
        terminal.ask("a")
        terminal.ask("b")
        store.delete(1)
        assert "chat 2 keeps them, this goes on as chat 3" in terminal.told("/compact")
        assert questions(store, 2) == ["a", "b"]
        assert questions(store, 3)[1:] == ["b"]
        assert terminal.leave() == 0


@pytest.mark.parametrize("mended", [True, False])
def test_compact_tells_the_truth_about_turns_that_could_not_be_saved(
    mended: bool, tmp_path: Path
) -> None:
    store = Store(tmp_path / "gemmachat" / "chats.sqlite3", print)
    aside = tmp_path / "aside"
    with pseudo_terminal(
        "run", "tiny", script=scripted("one", "two", "In short."), XDG_DATA_HOME=str(tmp_path)
    ) as terminal:
        terminal.wait_for_prompt()
        terminal.ask("a")
        store.path.rename(aside)
        store.path.mkdir()
        assert "this chat is not saved" in terminal.told("b")
        if mended:
            store.path.rmdir()
            aside.rename(store.path)
        shown = terminal.told("/compact")
        assert "this summary stands for one turn now" in shown
        assert ("chat 1 keeps them, this goes on as chat 2" in shown) == mended
        assert ("keeps them" in shown) == mended
        assert terminal.leave() == 0
    if mended:
        assert questions(store, 1) == ["a", "b"]


def questions(store: Store, chat: int) -> list[str]:
    """What was asked in a saved chat."""
    messages = store.load(chat).content.document["messages"]
    return [message["text"] for message in messages if message["role"] == "user"]


def test_edit_that_was_given_up_changes_nothing() -> None:
    script = scripted("one", "two", "three")
    with pseudo_terminal("run", "tiny", script=script) as terminal:
        terminal.wait_for_prompt()
        assert "there is no question to edit" in terminal.told("/edit")
        terminal.ask("first question")
        terminal.line("/edit")
        terminal.wait(lambda shown: shown.screen[shown.cursor[1]] == "> first question")
        terminal.send("\x15")  # Ctrl-U
        terminal.wait_for_prompt()
        assert "a new conversation" in terminal.told("/clear")
        assert "two" in terminal.told("second question")
        assert "taken back: second question" in terminal.told("/undo")
        assert terminal.leave() == 0


@pytest.mark.parametrize("kind", ["damaged", "missing"])
def test_model_that_cannot_be_used_leaves_the_chat_with_the_old_one(
    kind: str, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.gguf"
    if kind == "damaged":
        bad.write_bytes(b"GGUF\x03\x00\x00\x00" + b"\xff" * 1000)
    with pseudo_terminal(
        "run", "tiny", "--max-tokens", "4", "--threads", "1", lines=40
    ) as terminal:
        terminal.wait_for_prompt()
        terminal.ask("first question")
        assert "error:" in terminal.told(f"/model {bad}")
        assert terminal.told("/model").count("tiny") >= 1
        assert "tiny goes on with this chat" in terminal.told("/model tiny")
        assert "taken back: first question" in terminal.told("/undo")
        terminal.ask("another one")
        assert "tokens per target pass" in terminal.told("/stats")
        assert terminal.leave() == 0


def test_private_chat_saves_and_lists_nothing(tmp_path: Path) -> None:
    with pseudo_terminal(
        "run", "tiny", "--no-save", script=scripted("one"), XDG_DATA_HOME=str(tmp_path)
    ) as terminal:
        terminal.wait_for_prompt()
        terminal.ask("secret question")
        for command in ("/save x", "/chats", "/load 1"):
            assert "--no-save" in terminal.told(command)
        assert terminal.leave() == 0
    assert not any(b"secret" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
