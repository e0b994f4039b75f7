"""`gemmachat chats`, and chats as Markdown and JSON."""

from __future__ import annotations

import json

import pytest
from conftest import Command

from gemmachat.conversation import Conversation, Message, ToolCall
from gemmachat.errors import UsageError
from gemmachat.export import export
from gemmachat.settings import chats_file
from gemmachat.store import ChatContent, Store

CONVERSATION = Conversation(
    (
        Message("system", "Be brief."),
        Message("user", "What is 1 + 2?"),
        Message("model", "", "hm", (ToolCall("add", {"a": 1}, "```3```"),), (1, 2)),
        Message("model", "It is \x1b[31m3.\n```python\n1 + 2"),
        Message("user", "Thanks"),
    )
)


@pytest.fixture
def store() -> Store:
    return Store(chats_file(), print)


def saved(store: Store, name: str, conversation: Conversation = CONVERSATION) -> int:
    return store.save(ChatContent(name, "tiny", {}, conversation.as_dict())).id


def test_markdown_holds_what_was_said_and_every_part_ends_in_its_section() -> None:
    assert export(CONVERSATION, "md", name="Sums\n# x", model="tiny") == (
        "# Sums # x\n\nModel: tiny\n\n## System\n\nBe brief.\n\n## You\n\nWhat is 1 + 2?\n\n"
        "## Model\n\n````\nadd(a=1)\n" + describe_three() + "\n````\n\n"
        "## Model\n\nIt is <U+001B>[31m3.\n```python\n1 + 2\n```\n\n## You\n\nThanks\n"
    )


def describe_three() -> str:
    from gemmachat.tool_calls import describe_result

    return describe_result(ToolCall("add", {"a": 1}, "```3```"))


def test_json_holds_everything() -> None:
    data = json.loads(export(CONVERSATION, "json", name="Sums", model="tiny"))
    assert (data["name"], data["model"]) == ("Sums", "tiny")
    assert Conversation.from_dict(data) == CONVERSATION


def test_another_format_is_refused() -> None:
    with pytest.raises(UsageError, match="md or json, not 'pdf'"):
        export(CONVERSATION, "pdf", name="Sums", model="tiny")


def test_chats_are_listed_and_searched(command: Command, store: Store) -> None:
    first, second = saved(store, "Sums"), saved(store, "Other \x1b[2J", Conversation())
    listed = command("chats").out
    assert listed.splitlines()[0].split() == ["id", "changed", "questions", "model", "name"]
    assert [line.split()[0] for line in listed.splitlines()[1:]] == [str(second), str(first)]
    assert "\x1b" not in listed
    assert [entry["id"] for entry in json.loads(command("chats", "--json").out)["chats"]] == [
        second,
        first,
    ]
    found = json.loads(command("chats", "search", "WHAT IS", "--json").out)["chats"]
    assert [(entry["id"], entry["questions"]) for entry in found] == [(first, 2)]
    assert command("chats", "search", "nowhere").out == ""


def test_without_chats_the_list_is_empty(command: Command) -> None:
    assert command("chats").out == ""
    assert json.loads(command("chats", "--json").out) == {"chats": []}
    assert not chats_file().exists()


def test_a_chat_is_shown_renamed_exported_and_deleted(command: Command, store: Store) -> None:
    chat = str(saved(store, "Sums"))
    assert command("chats", "rename", chat, "Renamed").code == 0
    assert command("chats", "show", chat).out.startswith("# Renamed\n")
    exported = command("chats", "export", chat, "--format", "json").out
    assert json.loads(exported) == json.loads(command("chats", "show", chat, "--json").out)
    assert command("chats", "export", chat).out == command("chats", "show", chat).out
    assert command("chats", "delete", chat, "99", "--yes").code == 3
    assert command("chats", "rename", chat, "\x1b[2Jevil").code == 0
    asked = command("chats", "delete", chat)
    assert (asked.code, "evil" in asked.out + asked.err) == (1, True)  # nobody said yes
    assert "\x1b[2J" not in asked.out + asked.err
    assert len(store.chats()) == 1
    assert command("chats", "delete", chat, "--yes").code == 0
    assert store.chats() == []


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["show", "7"], 3, "no saved chats yet"),
        (["delete", "0"], 2, "ID"),
        (["show", "x"], 2, "ID"),
        (["export", "1", "--format", "pdf"], 2, "md or json"),
        (["export", "99999999999999999999999"], 3, "no saved chat"),
        (["no-such"], 2, "no-such"),
    ],
)
def test_bad_input_is_one_sentence(
    command: Command, arguments: list[str], code: int, words: str, store: Store
) -> None:
    if arguments != ["show", "7"]:
        saved(store, "Sums")
    done = command("chats", *arguments)
    assert done.code == code
    assert done.out == ""
    assert done.err.count("\n") == 1
    assert words in done.err
