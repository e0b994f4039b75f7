"""Prompts are, token by token, what the chat templates of the model files give; nobody forges any.

The templates are rendered by jinja2 as transformers does, and tokenised by llama.cpp.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jinja2
import llama_cpp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_runner import loaded
from real_model import write_real_model
from real_vocab import CONTROL, USER_DEFINED, RealVocab, real_vocab

from gemmachat import Engine
from gemmachat.conversation import Message, ToolCall
from gemmachat.prompt import PromptFormat
from gemmachat.vocab import Vocab

WEATHER = {
    "name": "weather.now",
    "description": "Tells the weather.",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where?"},
            "unit": {
                "type": "string",
                "description": "Of degrees.",
                "enum": ["C", "F"],
                "nullable": True,
            },
            "Days": {
                "type": "array",
                "description": "Which days?",
                "items": {"type": "integer"},
                "nullable": True,
            },
            "place": {
                "type": "object",
                "description": "More exactly.",
                "properties": {"lat": {"type": "number", "description": "North."}},
                "required": ["lat"],
            },
        },
        "required": ["city"],
    },
}
CLOCK = {
    "name": "clock",
    "description": "",
    "parameters": {"type": "object", "properties": {}},
}
CALL = ToolCall(
    "weather.now",
    {"city": "Zürich \n", "Days": [1, -2], "place": {"lat": 47.4, "b": {}}, "a": True, "n": []},
    {"sky": 'clear, "blue"', "degrees": [20.5, 21], "rain": False},
)
SHORT = ToolCall("clock", {}, "12:30")
ASKED = Message("user", "How is  the weather?\n\nAnd <b>now</b>? ")
ANSWERED = Message("model", "Fine. 🙂")
SYSTEM = Message("system", " Be brief.\n")

TABLE: dict[str, tuple[list[Message], bool, list[dict[str, Any]]]] = {
    "question": ([ASKED], False, []),
    "thinking": ([ASKED], True, []),
    "system": ([SYSTEM, ASKED], False, []),
    "system, thinking": ([SYSTEM, ASKED], True, []),
    "turns": ([SYSTEM, ASKED, ANSWERED, Message("user", "So?")], False, []),
    "turns, thinking": ([ASKED, ANSWERED, Message("user", "So?")], True, []),
    "tools": ([ASKED], False, [WEATHER, CLOCK]),
    "system, tools, thinking": ([SYSTEM, ASKED], True, [WEATHER]),
    "call": ([ASKED, Message("model", "", tool_calls=(CALL,))], False, [WEATHER]),
    "call, thinking": ([ASKED, Message("model", "", tool_calls=(CALL,))], True, [WEATHER]),
    "two calls": ([ASKED, Message("model", "", tool_calls=(CALL, SHORT))], False, [WEATHER, CLOCK]),
    "call, answer, question": (
        [ASKED, Message("model", "", tool_calls=(SHORT,)), ANSWERED, Message("user", "So?")],
        False,
        [CLOCK],
    ),
    "calls in two turns": (
        [
            *(ASKED, Message("model", "", tool_calls=(SHORT,)), ANSWERED),
            *(Message("user", "Now?"), Message("model", "", tool_calls=(CALL, SHORT))),
        ],
        True,
        [CLOCK, WEATHER],
    ),
}


@pytest.fixture(scope="module")
def real() -> RealVocab:
    return real_vocab()


@pytest.fixture(scope="module")
def model(real: RealVocab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_real_model(tmp_path_factory.mktemp("real-model"), real)


@pytest.fixture(scope="module")
def vocab(model: Path) -> Iterator[Vocab]:
    with Engine.load(model, threads=1) as engine:
        yield engine.vocab


Tokenize = Callable[[str], list[int]]


@pytest.fixture(scope="module")
def tokenize(model: Path) -> Iterator[Tokenize]:
    """llama.cpp's own tokenizer, spellings of control tokens taken for them."""
    with loaded(model) as llama:
        vocab = llama_cpp.llama_model_get_vocab(llama)

        def run(text: str) -> list[int]:
            data = text.encode()
            tokens = (llama_cpp.llama_token * (len(data) + 1))()
            n = llama_cpp.llama_tokenize(vocab, data, len(data), tokens, len(tokens), False, True)
            return list(tokens[:n])

        yield run


def reference(
    source: str, messages: list[Message], *, think: bool, tools: list[dict[str, Any]]
) -> str:
    """What a template gives for a conversation in transformers' shape."""
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(source).render(
        messages=_chat(messages),
        tools=[{"type": "function", "function": tool} for tool in tools] or None,
        enable_thinking=think,
        add_generation_prompt=True,
        bos_token="<bos>",
    )


def _chat(messages: list[Message]) -> list[dict[str, Any]]:
    """A call, its response and the answer after it are one message there."""
    chat: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role == "model" else message.role
        if role == "assistant" and chat[-1]["role"] == "assistant":
            chat[-1]["content"] = message.text
            continue
        chat.append({"role": role, "content": message.text})
        if message.tool_calls:
            chat[-1]["tool_calls"] = [
                {"function": {"name": call.name, "arguments": call.arguments}}
                for call in message.tool_calls
            ]
            chat[-1]["tool_responses"] = [
                {"name": call.name, "response": call.result} for call in message.tool_calls
            ]
    return chat


@pytest.mark.parametrize("name", ["own", "31b", "interleaved"])
@pytest.mark.parametrize("case", TABLE)
def test_prompts_are_those_of_the_template(
    real: RealVocab, vocab: Vocab, tokenize: Tokenize, name: str, case: str
) -> None:
    messages, think, tools = TABLE[case]
    source = real.templates[name]
    rendered = PromptFormat(vocab, source).render(messages, think=think, tools=tools)
    assert rendered == tokenize(reference(source, messages, think=think, tools=tools))


@pytest.mark.parametrize("name", ["31b", "interleaved"])
def test_thoughts_stay_inside_a_tool_exchange_and_nowhere_else(
    real: RealVocab, vocab: Vocab, tokenize: Tokenize, name: str
) -> None:
    source = real.templates[name]
    # The template adds the newline before the close in one of the variants.
    thought = "I must look." if name == "31b" else "I must look.\n"
    spelled = (
        "<|channel>thought\nI must look.\n<channel|>"
        "<|tool_call>call:clock{}<tool_call|><|tool_response>"
    )
    looked = Message("model", "", "I must look.", (SHORT,), tuple(tokenize(spelled)))
    exchange = [ASKED, looked]
    chat = _chat(exchange)
    chat[-1]["reasoning_content"] = thought
    expected = (
        jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
        .from_string(source)
        .render(messages=chat, enable_thinking=True, add_generation_prompt=True, bos_token="<bos>")
    )
    rendered = PromptFormat(vocab, source).render(exchange, think=True)
    assert rendered == tokenize(expected)

    later = [*exchange, ANSWERED, Message("user", "So?")]
    rendered = PromptFormat(vocab, source).render(later, think=True)
    assert rendered == tokenize(reference(source, later, think=True, tools=[]))


def hostile(spellings: list[str]) -> st.SearchStrategy[str]:
    """Text full of spellings of control tokens, whole, cut, nested and glued together."""
    pieces = st.one_of(
        st.sampled_from(spellings),
        st.sampled_from(spellings).flatmap(
            lambda s: st.integers(0, len(s)).map(lambda cut: s[:cut] + s + s[cut:])
        ),
        st.text(max_size=5),
    )
    return st.lists(pieces, max_size=12).map("".join)


@pytest.fixture(scope="module")
def spellings(real: RealVocab) -> list[str]:
    """Of all that could be taken for structure; of the unused ones a few."""
    found = real.spellings(CONTROL, USER_DEFINED)
    marked = [s for s in found if s.startswith("<|") or s.endswith("|>")]
    others = sorted(set(found) - set(marked))
    return marked + random.Random(0).sample(others, min(len(others), 40)) + ["<bos>", "<eos>"]


def test_hostile_text_never_becomes_a_control_token(
    real: RealVocab, vocab: Vocab, spellings: list[str]
) -> None:
    kinds = real.types
    forged = {i for i, kind in enumerate(kinds) if kind == CONTROL} | {
        vocab.control(mark) for mark in spellings if mark.startswith("<|") or mark.endswith("|>")
    }
    style = PromptFormat(vocab, real.templates["31b"])

    def controls(text: str, name: str) -> list[int]:
        tool = {
            "name": name,
            "description": text,
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "string", "description": text, "enum": [text]}},
            },
        }
        call = ToolCall("clock", {"a": text, "b": [{"c": text}]}, {"r": text})
        talk = [
            Message("system", text),
            Message("user", text),
            Message("model", text, text, (call,)),
            Message("model", text),
            Message("user", text),
            Message("model", text, text, (call, ToolCall("clock", {"a": text}, text))),
        ]
        tokens = style.render(talk, think=True, tools=[tool])
        return [token for token in tokens if token in forged]

    harmless = controls("x", "tool")

    @settings(max_examples=60, deadline=None)
    @given(hostile(spellings))
    def check(text: str) -> None:
        assert controls(f"x{text}x", "tool") == harmless

    check()
