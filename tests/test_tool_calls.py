"""The notation of tool calls, as models write it and as they get it wrong."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmachat.conversation import ToolCall
from gemmachat.tool_calls import (
    QUOTE,
    CallError,
    describe_call,
    describe_result,
    read_call,
    with_error,
    write_call,
    write_response,
)


def body(text: str) -> list[str]:
    """Characters of a call in which the control token is spelled as a tilde."""
    return [QUOTE if char == "~" else char for char in text]


def read(text: str) -> tuple[str, Any]:
    call = read_call(body(text))
    return call.name, call.arguments


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("call:f{}", "f", {}),
        ("call:f{a:~x~}", "f", {"a": "x"}),
        ('call:f{a:~x, }]"y:\\n~,b:1}', "f", {"a": 'x, }]"y:\\n', "b": 1}),
        ("call:f{a:-1,b:2.50,c:1e3,d:0}", "f", {"a": -1, "b": 2.5, "c": 1000.0, "d": 0}),
        ("call:f{a:1e999,b:[-1e999]}", "f", {"a": "1e999", "b": ["-1e999"]}),
        ("call:f{a:true,b:false,c:null}", "f", {"a": True, "b": False, "c": None}),
        ("call:f{a:[],b:[1,[~x~,{c:2}]]}", "f", {"a": [], "b": [1, ["x", {"c": 2}]]}),
        ("call:f{a:{b:{},c:~~}}", "f", {"a": {"b": {}, "c": ""}}),
        ("call:my_api.time:now{a:1}", "my_api.time:now", {"a": 1}),
        ('call:f{a:"x \\"y\\"\\n\\u00e9\\ud83d\\ude42"}', "f", {"a": 'x "y"\né🙂'}),
        ('call:f{"a":"x",~b~:~y~}', "f", {"a": "x", "b": "y"}),
        ("call:f{a:New York,b:x}", "f", {"a": "New York", "b": "x"}),
        (" call:f {\n a : 1 ,\n b: [ 1 , 2 , ] , }\n", "f", {"a": 1, "b": [1, 2]}),
        ("call:f{a:007,b:1.,c:--1}", "f", {"a": "007", "b": "1.", "c": "--1"}),
        ('call:f{a:"\\ud800x"}', "f", {"a": "\ufffdx"}),
    ],
)
def test_calls_are_read(text: str, name: str, arguments: dict[str, Any]) -> None:
    assert read(text) == (name, arguments)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "too early"),
        ("f{}", "begin"),
        ("call:f", "too early"),
        ("call:{}", "name a tool"),
        ("call:f{a:1", "too early"),
        ("call:f{a}", "too early"),
        ("call:f{a:}", "no value"),
        ("call:f{a:~x}", "too early"),
        ("call:f{a:~x~b:1}", "after a value"),
        ("call:f{a:1,a:2}", "twice"),
        ("call:f{a:1}x", "after the arguments"),
        ('call:f{"a"1}', "colon"),
        ('call:f{a:"\\u12g4"}', "escape"),
        ("call:f{a:" + "[" * 60 + "]" * 60 + "}", "nested"),
        ("call:f~{}", "quote"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(text: str, said: str) -> None:
    with pytest.raises(CallError, match=said):
        read(text)


def test_a_quote_spelled_as_text_does_not_end_a_string() -> None:
    spelled = [*"call:f{a:", QUOTE, *'<|"|>,b:1', QUOTE, "}"]
    assert read_call(spelled).arguments == {"a": '<|"|>,b:1'}


TEXT = st.text(st.characters(exclude_categories=("Cs",)))
KEYS = st.text("abcXYZ_09", min_size=1)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_what_is_written_is_read_back(arguments: dict[str, Any]) -> None:
    parts = write_call(ToolCall("ns.f", arguments))
    inside = [char for part in parts[1:-1] for char in ([part] if part is QUOTE else part)]
    assert read_call(inside) == ToolCall("ns.f", arguments)


@pytest.mark.parametrize("start", ["", "call:f{"])
@given(noise=st.lists(st.sampled_from([QUOTE, *'call:f{}[],:"\\u12 \n-.e~']), max_size=30))
def test_any_noise_is_read_or_refused(start: str, noise: list[str]) -> None:
    with suppress(CallError):
        assert read_call([*start, *noise]).name


def test_responses_hold_values_by_name() -> None:
    text = "".join(write_response(ToolCall("f", {}, {"b": [1], "A": "x"})))
    assert text == '<|tool_response>response:f{A:<|"|>x<|"|>,b:[1]}<tool_response|>'
    assert "".join(write_response(ToolCall("f", {}, 3))) == (
        "<|tool_response>response:f{value:3}<tool_response|>"
    )


def test_calls_and_results_are_told_on_one_line() -> None:
    call = ToolCall("f", {"a": "x\n", "b": [1, None]}, {"c": True})
    assert describe_call(call) == 'f(a="x\\n", b=[1, null])'
    posing = ToolCall('f\n"\x1b', {"a\n> ": 1})
    assert describe_call(posing) == r"f\n\"\u001b(a\n> =1)"
    assert describe_result(call) == '{"c": true}'
    assert describe_result(with_error(call, "no")) == '{"error": "no"}'
    assert describe_result(ToolCall("f", {}, "12:30")) == "12:30"
