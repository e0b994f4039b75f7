"""Chats with an OpenAI-compatible server: llama-cpp-python's own, and scripted hostile ones."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_server import KEY, llama_server
from scripted_server import STREAM, event, scripted_server

from gemmachat import chat_settings, event_stream
from gemmachat.conversation import Conversation, Message, ToolCall
from gemmachat.endpoint import Endpoint
from gemmachat.errors import (
    ContextFullError,
    GemmachatError,
    NotFoundError,
    ServerError,
    UsageError,
)
from gemmachat.event_stream import events
from gemmachat.generation import UNREADABLE, Answer, GenerationOptions
from gemmachat.remote import RemoteChat, find_model
from gemmachat.remote_prompt import request
from gemmachat.render import Display
from gemmachat.sampling import SamplingParams
from gemmachat.stats_text import server_lines

GREEDY = SamplingParams(temperature=0.0)


def options(sampling: SamplingParams = GREEDY, **more) -> GenerationOptions:
    return GenerationOptions(sampling, "auto", more.pop("max_tokens", None), False, **more)


def chat_at(url: str, key: str | None = KEY, model: str = "tiny", **more) -> RemoteChat:
    environment = {} if key is None else {"GEMMACHAT_API_KEY": key}
    return RemoteChat(Endpoint.of(url, environment), model, more.pop("options", options()), **more)


def ask(chat: RemoteChat, question: str = "hi") -> Answer:
    for _ in chat.ask(question):
        pass
    assert chat.last is not None
    return chat.last


def test_settings_that_were_not_given_are_the_servers_own() -> None:
    chat, display = chat_at("http://127.0.0.1:9/v1"), Display("dark")
    assert chat_settings.one("top_k", chat, display) == "the server's"
    chat_settings.change("top_k", "5", chat, display)
    assert chat_settings.one("top_k", chat, display) == "5"
    with pytest.raises(UsageError, match="draft is for models on this machine"):
        chat_settings.change("draft", "3", chat, display)


# ---- a real server -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with llama_server() as url:
        yield url


def test_an_answer_is_streamed_and_a_conversation_goes_on(server: str) -> None:
    chat = chat_at(server)
    pieces = list(chat.ask("Who are you?"))
    assert len(pieces) > 5
    assert {piece.part for piece in pieces} == {"answer"}
    assert chat.last.text == "".join(piece.text for piece in pieces)
    assert "tiny" in chat.last.text
    assert chat.last.finish_reason == "stop"
    second = ask(chat, "What is a token?")
    assert "token" in second.text.lower()
    assert [message.role for message in chat.conversation.messages] == ["user", "model"] * 2


def test_what_is_taken_back_is_not_sent_again(server: str) -> None:
    chat = chat_at(server, system="Be brief.")
    first = ask(chat, "What is a token?")
    ask(chat, "Who are you?")
    assert chat.undo() == "Who are you?"
    for _ in chat.regenerate():
        pass
    assert chat.last.text == first.text
    for _ in chat.edit("Who are you?"):
        pass
    assert len(chat.conversation.turns()) == 1


def test_the_longest_answer_is_kept(server: str) -> None:
    chat = chat_at(server, options=options(max_tokens=3))
    assert ask(chat, "What is speculative decoding?").finish_reason == "length"


def test_a_cancel_keeps_what_was_said(server: str) -> None:
    chat = chat_at(server)
    stream = chat.ask("What is speculative decoding?")
    first = next(stream)
    chat.cancel()
    rest = list(stream)
    assert chat.last.finish_reason == "cancelled"
    assert chat.last.text == "".join(piece.text for piece in [first, *rest])
    assert chat.conversation.messages[-1].text == chat.last.text.strip()
    chat.clear_cancel()
    assert ask(chat, "hi").finish_reason == "stop"


def test_the_only_model_needs_no_name(server: str) -> None:
    assert find_model(Endpoint.of(server, {"GEMMACHAT_API_KEY": KEY})) == "tiny"


@pytest.mark.parametrize("key", [None, "sk-another"])
def test_a_server_that_refuses_the_key_is_a_sentence_without_the_key(
    server: str, key: str | None
) -> None:
    with pytest.raises(ServerError, match=r"401.*GEMMACHAT_API_KEY") as caught:
        ask(chat_at(server, key))
    assert "sk-" not in str(caught.value)


def test_a_path_that_is_not_there_is_a_sentence(server: str) -> None:
    with pytest.raises(NotFoundError, match=r"404.*--base-url"):
        ask(chat_at(server.removesuffix("/v1") + "/v2"))


def test_a_question_without_an_answer_leaves_no_trace(server: str) -> None:
    chat = chat_at(server)
    ask(chat, "hi")
    before = chat.conversation
    with pytest.raises(GemmachatError):
        ask(chat, "word " * 3000)
    assert chat.conversation == before


# ---- what is sent --------------------------------------------------------------------------------


def test_only_options_that_were_given_are_sent() -> None:
    conversation = Conversation().with_system("S").extended(Message("user", "q"))
    plain = request("m", conversation, options(SamplingParams()), None)
    assert plain == {
        "model": "m",
        "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "q"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    sampling = SamplingParams(top_k=5, repeat_penalty=1.5, logit_bias=((7, float("-inf")),), seed=3)
    asked = options(sampling, stop=("X",), think=True, given=frozenset({"top_p"}))
    body = request("m", conversation, asked, None)
    assert {name: body[name] for name in body.keys() - plain.keys()} == {
        "top_p": 0.95,
        "top_k": 5,
        "repeat_penalty": 1.5,
        "repetition_penalty": 1.5,
        "logit_bias": {"7": -100.0},
        "seed": 3,
        "stop": ["X"],
        "chat_template_kwargs": {"enable_thinking": True},
    }
    json.dumps(body, allow_nan=False)


def test_a_setting_of_a_running_chat_is_sent_although_it_is_the_default() -> None:
    chat = chat_at("http://127.0.0.1:9/v1", options=options(SamplingParams()))
    chat_settings.change("top_k", "64", chat, Display("dark"))
    conversation = Conversation().extended(Message("user", "q"))
    assert request("m", conversation, chat.options, None)["top_k"] == 64


def test_calls_of_tools_are_sent_with_their_results_and_thoughts_are_not() -> None:
    call = ToolCall("add", {"a": 1, "b": "x"}, {"sum": 2})
    conversation = Conversation().extended(
        Message("user", "q"), Message("model", "", "thinking", (call,)), Message("model", "Two.")
    )
    sent = request("m", conversation, options(), None)["messages"]
    assert "thinking" not in json.dumps(sent)
    made = sent[1]["tool_calls"][0]
    assert json.loads(made["function"]["arguments"]) == {"a": 1, "b": "x"}
    assert sent[2] == {"role": "tool", "tool_call_id": made["id"], "content": '{"sum": 2}'}
    assert sent[3] == {"role": "assistant", "content": "Two."}


def test_a_call_that_could_not_be_read_is_sent_with_what_was_wrong() -> None:
    call = ToolCall(UNREADABLE, {}, {"error": "no JSON"})
    conversation = Conversation().extended(Message("user", "q"), Message("model", "", "", (call,)))
    sent = request("m", conversation, options(), None)["messages"]
    made = sent[1]["tool_calls"][0]
    assert made["function"] == {"name": "unreadable_call", "arguments": "{}"}
    assert sent[2]["tool_call_id"] == made["id"]
    assert json.loads(sent[2]["content"]) == {"error": "no JSON"}


class Adding:
    """The tool of these tests."""

    declarations = ({"name": "add", "description": "Adds.", "parameters": {"type": "object"}},)

    def run(self, call: ToolCall, cancelled: threading.Event) -> ToolCall:
        return ToolCall(call.name, call.arguments, sum(call.arguments.values()))


def deltas(*found: dict, finish: str = "stop") -> bytes:
    last = event(json.dumps({"choices": [{"delta": {}, "finish_reason": finish}]}))
    sent = [event(json.dumps({"choices": [{"delta": delta}]})) for delta in found]
    return STREAM + b"".join(sent) + last + event("[DONE]")


def test_tools_are_called_and_the_answer_goes_on() -> None:
    calls = (
        {"tool_calls": [{"index": 0, "id": "x", "function": {"name": "add", "arguments": '{"a"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ": 1, "}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '"b": 2}'}}]},
    )
    with scripted_server(
        deltas({"reasoning_content": "hm"}, *calls, finish="tool_calls"), deltas({"content": "3"})
    ) as server:
        chat = chat_at(server.url, tools=Adding())
        answer = ask(chat, "1 + 2?")
    assert (answer.text, answer.thinking) == ("3", "hm")
    assert answer.tool_calls == (ToolCall("add", {"a": 1, "b": 2}, 3),)
    sent = json.loads(server.requests[1].partition(b"\r\n\r\n")[2])
    assert sent["tools"][0]["function"]["name"] == "add"
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "tool"]
    assert sent["messages"][2]["content"] == "3"


# ---- the key -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "environment", "key"),
    [
        ("http://10.0.0.9/v1", {"GEMMACHAT_API_KEY": "own"}, "own"),
        ("http://10.0.0.9/v1", {"OPENAI_API_KEY": "shared"}, None),
        ("http://localhost.example.com/v1", {"OPENAI_API_KEY": "shared"}, None),
        ("https://10.0.0.9/v1", {"OPENAI_API_KEY": "shared"}, "shared"),
        ("http://localhost:8000/v1", {"OPENAI_API_KEY": "shared"}, "shared"),
        ("http://[::1]:8000/v1", {"OPENAI_API_KEY": "shared", "GEMMACHAT_API_KEY": "own"}, "own"),
        ("http://127.0.0.1/v1", {"OPENAI_API_KEY": " shared\n"}, "shared"),
        ("http://127.0.0.1/v1", {"OPENAI_API_KEY": ""}, None),
    ],
)
def test_a_shared_key_is_sent_only_where_nobody_can_read_it(
    url: str, environment: dict[str, str], key: str | None
) -> None:
    endpoint = Endpoint.of(url, environment)
    assert endpoint.key == key
    assert key is None or key not in repr(endpoint)


@pytest.mark.parametrize(
    "url",
    [
        *("", "localhost:8000", "ftp://host/v1", "http://", "http://ho st/v1", "http://h:99999/v1"),
        *(
            "http://user:secret@host/v1",
            "http://host/v1?key=secret",
            "http://h/\r\nX: y",
            "http://[",
        ),
    ],
)
def test_a_base_url_that_makes_no_sense_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="--base-url") as caught:
        Endpoint.of(url, {})
    assert "secret" not in str(caught.value)


def test_a_key_that_would_break_the_request_is_refused_and_not_shown() -> None:
    with pytest.raises(UsageError, match="GEMMACHAT_API_KEY") as caught:
        Endpoint.of("http://h/v1", {"GEMMACHAT_API_KEY": "se\r\ncret"})
    assert "cret" not in str(caught.value)


def test_a_redirect_is_not_followed() -> None:
    with scripted_server(deltas({"content": "stolen"})) as other:
        moved = f"HTTP/1.1 307 Moved\r\nLocation: {other.url}\r\nContent-Length: 0\r\n\r\n".encode()
        with scripted_server(moved) as server:
            with pytest.raises(ServerError, match="redirects to") as caught:
                ask(chat_at(server.url))
            assert other.url in str(caught.value)
            assert KEY.encode() in server.requests[0]
    assert not other.requests


def test_a_key_that_the_server_repeats_is_not_shown() -> None:
    body = json.dumps({"error": {"message": f"wrong key {KEY}!"}}).encode()
    head = f"HTTP/1.1 401 No\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with scripted_server(head + body) as server, pytest.raises(ServerError) as caught:
        ask(chat_at(server.url))
    assert "wrong key ...!" in str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        STREAM + event(json.dumps({"error": {"message": "x" * 295 + KEY}})),
        STREAM + event("x" * 75 + KEY),
        b"HTTP/1.1 500 No\r\n\r\n" + b"x" * 295 + KEY.encode(),
        f"HTTP/1.1 307 Moved\r\nLocation: {'x' * 195}{KEY}\r\n\r\n".encode(),
        f"{'x' * 60}{KEY}\r\n".encode(),
    ],
    ids=["event", "no event", "body", "place", "no HTTP"],
)
def test_no_part_of_a_repeated_key_is_shown(answer: bytes) -> None:
    with scripted_server(answer) as server, pytest.raises(ServerError) as caught:
        ask(chat_at(server.url))
    assert "xxx" in str(caught.value)
    assert KEY[:3] not in str(caught.value)


# ---- hostile and broken servers ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "breaks off"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>", "text/html"),
        (b"HTTP/1.1 500 No\r\n\r\n" + b"x" * 10_000_000, "more than"),
        (b"HTTP/1.1 503 Busy\r\n\r\nloading model", "503: loading model"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000, "no HTTP"),
        (STREAM, "broke off"),
        (STREAM + event('{"choices": [{"delta": {"content": "half an ans'), "no JSON"),
        (STREAM + event('{"choices": [{"delta": {"content": "half"}}]}'), "broke off"),
        (STREAM + event("[" * 100_000), "no JSON"),
        (STREAM + event("7"), "unknown kind"),
        (STREAM + event('{"error": {"message": "out of memory"}}'), "out of memory"),
        (STREAM + event('{"error": "no"}'), "reports: no"),
        (
            STREAM + event('{"choices": [{"delta": {"tool_calls": [{"index": 100000000}]}}]}'),
            "calls of tools",
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_broken_server_is_one_sentence(answer: bytes, words: str) -> None:
    with scripted_server(answer) as server:
        chat = chat_at(server.url)
        with pytest.raises(ServerError, match=words):
            ask(chat)
    assert not chat.conversation.messages


def test_a_full_context_has_its_own_exit_code() -> None:
    body = b'{"error": {"code": "context_length_exceeded", "message": "too long"}}'
    head = f"HTTP/1.1 400 Bad\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with scripted_server(head + body) as server, pytest.raises(ContextFullError, match="too long"):
        ask(chat_at(server.url))


def test_nobody_there_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ServerError, match=f"127.0.0.1:{port} cannot be reached"):
        ask(chat_at(f"http://127.0.0.1:{port}/v1"))
    with pytest.raises(ServerError, match="cannot be reached"):
        ask(chat_at("http://a..b/v1"))


@pytest.mark.parametrize(
    "delta",
    [
        *(None, 7, [], {"content": 7}, {"content": None}, {"tool_calls": 5}, {"tool_calls": [5]}),
        {"reasoning": {"x": 1}},
    ],
)
def test_values_of_the_wrong_kind_are_nothing(delta: object) -> None:
    strange = event(json.dumps({"choices": [{"delta": delta}], "usage": {"prompt_tokens": "x"}}))
    with scripted_server(STREAM + strange + deltas({"content": "ok"})[len(STREAM) :]) as server:
        assert ask(chat_at(server.url)).text == "ok"


def test_characters_in_two_halves_are_joined_and_lone_halves_are_shown() -> None:
    halves = deltas({"content": "a\ud83d"}, {"content": "\ude00b\ude00"}, {"content": "c\ud83d"})
    with scripted_server(halves) as server:
        assert ask(chat_at(server.url)).text == "a\U0001f600b\ufffdc\ufffd"


def test_a_server_that_hangs_can_be_cancelled() -> None:
    hanging = threading.Event()

    def hang(connection: socket.socket) -> None:
        hanging.set()
        connection.recv(1)  # until the client is gone

    with scripted_server(hang) as server:
        chat = chat_at(server.url)
        threading.Thread(target=lambda: (hanging.wait(), chat.cancel())).start()
        assert ask(chat).finish_reason == "cancelled"
        assert not chat.conversation.messages


def test_figures_of_the_server_are_shown_and_nothing_is_made_up() -> None:
    figures = {
        "choices": [],
        "usage": {
            "prompt_tokens": 20,
            "completion_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 15},
        },
        "timings": {"predicted_per_second": 33.0, "draft_n": 8, "draft_n_accepted": 6},
    }
    more = STREAM + event(json.dumps(figures)) + deltas({"content": "ok"})[len(STREAM) :]
    with scripted_server(more, deltas({"content": "ok"})) as server:
        chat = chat_at(server.url)
        known, unknown = ask(chat), ask(chat)
    assert (known.stats.prompt_tokens, known.stats.cached_tokens) == (20, 15)
    assert known.stats.decode_tps == 33.0
    assert (known.stats.accepted, known.stats.mean_accepted_length) == (6, 2.5)
    assert "accepted 6 (75%)" in "\n".join(server_lines(known.stats))
    assert "no figures" in "\n".join(server_lines(unknown.stats))


def test_figures_of_another_conversation_are_not_shown() -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 10}}
    told = STREAM + event(json.dumps(usage)) + deltas({"content": "ok"})[len(STREAM) :]
    with scripted_server(told) as server:
        chat = chat_at(server.url)
        ask(chat)
        ask(chat)
        two = chat.conversation
        assert chat.used_tokens == 30
        list(chat.compact())
        assert (chat.compaction.tokens_before, chat.compaction.tokens_after) == (30, 0)
        ask(chat)
        chat.undo()
        assert chat.used_tokens == 0
        ask(chat)
        chat.restore(two)
        assert chat.used_tokens == 0
        ask(chat)
        chat.clear()
        assert chat.used_tokens == 0


@pytest.mark.parametrize("value", [-1, 1e300, float("inf"), 10**400, True, "9", None, [], {}])
def test_figures_that_cannot_be_are_not_taken(value: object) -> None:
    usage = {"usage": {"prompt_tokens": value, "completion_tokens": value}, "timings": value}
    more = STREAM + event(json.dumps(usage)) + deltas({"content": "ok"})[len(STREAM) :]
    with scripted_server(more) as server:
        assert ask(chat_at(server.url)).stats.prompt_tokens == 0


# ---- events --------------------------------------------------------------------------------------

SOURCE = (
    ": ping\r\ndata: one\r\n\r\nevent: x\ndata:two\ndata:  2\n\n\rdata: ü😀\r\rdata: lost".encode()
)


@settings(max_examples=200)
@given(cuts=st.sets(st.integers(1, len(SOURCE) - 1)))
def test_events_do_not_depend_on_how_the_stream_is_cut(cuts: set[int]) -> None:
    edges = [0, *sorted(cuts), len(SOURCE)]
    chunks = [SOURCE[a:b] for a, b in pairwise(edges)]
    assert list(events(chunks)) == ["one", "two\n 2", "ü😀"]


@pytest.mark.parametrize("chunk", [b"x" * 1000, b"data: x\n" * 100])
def test_lines_and_events_without_end_are_refused(
    chunk: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "MAX_EVENT", 10_000)
    with pytest.raises(ServerError, match="more than 10000 bytes"):
        list(events([chunk] * 1000))


def test_a_stream_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "MAX_STREAM", 10_000)
    with pytest.raises(ServerError, match="more than 10000 bytes"):
        list(events([b": ping\n"] * 10_000))
