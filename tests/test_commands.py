"""The commands of the chat: how they are told from questions, help, completion, near misses."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmachat import commands
from gemmachat.command_completion import suggestions
from gemmachat.live_area import LiveArea
from gemmachat.theme import theme_of
from gemmachat.typed_text import is_open, message_of


def completed(text: str) -> list[str]:
    found = suggestions(text, settings=("top_k", "top_p"), chats=lambda: [("12", "a chat")])
    return [text[: len(text) - back] + value for value, back, _ in found]


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("/help", ("/help", "")),
        ("/HELP  me ", ("/help", "me")),
        ("/exit", ("/bye", "")),
        ("/set top_k\t5", ("/set", "top_k\t5")),
        ("/etc/passwd", None),
        ("/ x", None),
        (" /help", None),
        ("//", None),
        ("", None),
    ],
)
def test_command_is_a_word_after_a_slash(line: str, command: tuple[str, str] | None) -> None:
    assert commands.split(line) == command


@pytest.mark.parametrize(
    ("typed", "meant"), [("/stat", "/stats"), ("/regne", "/regen"), ("/comp", "/compact")]
)
def test_near_miss_is_suggested(typed: str, meant: str) -> None:
    assert f"did you mean {meant}?" in commands.unknown(typed)


def test_every_command_has_help_of_its_own() -> None:
    listed = "\n".join(commands.help_lines())
    for name, command in commands.BY_NAME.items():
        assert name in listed
        assert command.help in commands.help_lines(name)[0]
        assert commands.help_lines(name.removeprefix("/")) == commands.help_lines(name)


def test_completion_of_names_settings_choices_and_chats() -> None:
    assert completed("/re") == ["/regen", "/rename", "/read"]
    assert completed("/set top_") == ["/set top_k", "/set top_p"]
    assert completed("/think h") == ["/think hide"]
    assert completed("/load 1") == ["/load 12"]
    assert completed("hello /re") == completed("/nothing ") == completed("/re\nx") == []


def test_completion_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "你好.md").touch()
    (tmp_path / ".hidden").touch()
    assert completed("/read ") == ["/read folder/", "/read notes.txt"]
    assert completed("/read folder/") == ["/read folder/你好.md"]
    assert completed(f"/read {tmp_path}/n") == [f"/read {tmp_path}/notes.txt"]
    assert completed("/read .") == ["/read .hidden"]
    assert completed("/read nowhere/") == []


def test_three_quotes_hold_a_message_open_until_they_come_again() -> None:
    assert is_open('"""a\nb')
    assert is_open('"""')
    assert not is_open('"""a"""')
    assert not is_open('a """')
    assert message_of('"""\na\n  b\n"""') == "a\n  b"
    assert message_of('say """x"""') == 'say """x"""'


@pytest.mark.parametrize(
    ("value", "name"),
    [("0;15", "light"), ("15;0", "dark"), ("12;default;7", "light"), ("", "dark")],
)
def test_theme_follows_the_background(value: str, name: str) -> None:
    assert theme_of({"COLORFGBG": value}) == name


def test_unchanged_area_is_not_written_again() -> None:
    import io

    out = io.StringIO()
    area = LiveArea(out)
    area.draw([], ["a", "b"])
    written = out.getvalue()
    area.draw([], ["a", "b"])
    assert out.getvalue() == written
    area.draw([], ["a", "b", "c"])
    assert "a" not in out.getvalue()[len(written) :].replace("\x1b", "")
