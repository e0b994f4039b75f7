"""Conversations survive being written down; what is none is refused in a sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gemmachat.conversation import Conversation, Message, ToolCall
from gemmachat.errors import UsageError

CALL = ToolCall("time.now", {"zone": "UTC", "n": 1, "deep": [{"a": None}]}, {"hour": 7.5})
TALK = Conversation(
    (
        Message("system", "Be brief."),
        Message("user", "When?"),
        Message("model", "", "I must look.", (CALL,), (5, 6, 7)),
        Message("model", "At 7.", tokens=(8,)),
        Message("user", "Sure? <|turn>"),
        Message("model", "Yes 你好."),
    )
)


def test_written_and_read_again_it_is_the_same() -> None:
    assert Conversation.from_dict(json.loads(json.dumps(TALK.as_dict()))) == TALK
    assert Conversation.from_dict(Conversation().as_dict()) == Conversation()


def test_unknown_keys_are_skipped() -> None:
    data = {"format": 1, "title": "x", "messages": [{"role": "user", "text": "a", "mood": 3}]}
    assert Conversation.from_dict(data) == Conversation((Message("user", "a"),))


def test_turns_hold_a_question_and_all_that_answers_it() -> None:
    assert [[message.text for message in turn] for turn in TALK.turns()] == [
        ["When?", "", "At 7."],
        ["Sure? <|turn>", "Yes 你好."],
    ]


def test_last_turn_is_taken_back_as_a_whole() -> None:
    once, question = TALK.without_last_turn()
    assert (once.messages, question) == (TALK.messages[:4], "Sure? <|turn>")
    twice, question = once.without_last_turn()
    assert (twice.messages, question) == (TALK.messages[:1], "When?")
    assert twice.without_last_turn() == (twice, None)
    assert TALK.without_turns() == twice


@pytest.mark.parametrize(("given", "kept"), [("New.", "New."), (None, None), (" \n", None)])
def test_system_prompt_is_replaced(given: str | None, kept: str | None) -> None:
    changed = TALK.with_system(given)
    assert changed.system == kept
    assert changed.turns() == TALK.turns()


def test_lone_surrogates_become_replacement_characters() -> None:
    data = {"format": 1, "messages": [{"role": "user", "text": "a\ud800b"}]}
    assert Conversation.from_dict(data).messages[0].text == "a\ufffdb"


def test_lone_surrogates_in_calls_become_replacement_characters() -> None:
    call = ToolCall("f", {"a\ud800": ["\udfff"]}, {"b": "c\ud800"})
    said = Conversation((Message("user", "q"), Message("model", "", tool_calls=(call,))))
    read = Conversation.from_dict(json.loads(json.dumps(said.as_dict())))
    assert read.messages[1].tool_calls == (
        ToolCall("f", {"a\ufffd": ["\ufffd"]}, {"b": "c\ufffd"}),
    )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "no list of messages"),
        ({"format": 1}, "no list of messages"),
        ({"format": 2, "messages": []}, "format 2"),
        ({"messages": []}, "format None"),
        ([{"role": "tool", "text": ""}], "message 1"),
        ([{"role": "user"}], "no text"),
        ([{"role": "user", "text": 3}], "no text"),
        ([{"role": "user", "text": "a", "tokens": [1]}], "not the model's"),
        ([{"role": "model", "text": "a"}], "answers no question"),
        ([{"role": "system", "text": "a"}, {"role": "model", "text": "b"}], "answers no question"),
        ([{"role": "user", "text": "a"}, {"role": "system", "text": "b"}], "second system prompt"),
        ([{"role": "user", "text": "a"}, {"role": "model", "text": "", "tokens": [-1]}], "tokens"),
        ([{"role": "user", "text": "a"}, {"role": "model", "text": "", "tokens": [True]}], "ids"),
        ([{"role": "user", "text": "a"}, {"role": "model", "text": "", "tool_calls": 1}], "list"),
        (
            [
                {"role": "user", "text": "a"},
                {"role": "model", "text": "", "tool_calls": [{"name": "f", "arguments": []}]},
            ],
            "without a name or arguments",
        ),
        (
            [
                {"role": "user", "text": "a"},
                {
                    "role": "model",
                    "text": "",
                    "tool_calls": [{"name": "f", "arguments": {}, "result": float("nan")}],
                },
            ],
            "no JSON",
        ),
    ],
)
def test_what_is_no_conversation_is_refused(data: Any, said: str) -> None:
    if isinstance(data, list):
        data = {"format": 1, "messages": data}
    with pytest.raises(UsageError, match=said):
        Conversation.from_dict(data)
