"""A stop string ends the answer before it, however the text comes in pieces."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from fakes import ByteVocab, FakeEngine
from hypothesis import given
from hypothesis import strategies as st

from gemmachat.chat import Answer, Chat, GenerationOptions
from gemmachat.errors import UsageError
from gemmachat.sampling import SamplingParams
from gemmachat.stop import MAX_LENGTH, MAX_STOPS, StopStrings

VOCAB = ByteVocab()
# Few letters, so that stop strings overlap themselves and the text around them.
few_letters = st.text("ab你", max_size=30)
stop_strings = st.text("ab你", min_size=1, max_size=5)


def shown(stops: Sequence[str], chunks: Sequence[str]) -> tuple[str, bool]:
    watcher = StopStrings(stops)
    text = "".join(map(watcher.feed, chunks))
    return text + watcher.flush(), watcher.found


@st.composite
def chunked(draw: st.DrawFn, text: st.SearchStrategy[str]) -> list[str]:
    whole = draw(text)
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


@given(stop_strings, chunked(few_letters))
def test_one_stop_string_cuts_at_its_first_place_whatever_the_chunks(
    stop: str, chunks: list[str]
) -> None:
    before, found, _ = "".join(chunks).partition(stop)
    assert shown([stop], chunks) == (before, bool(found))


@given(st.lists(stop_strings, max_size=4), chunked(few_letters))
def test_text_is_shown_up_to_a_stop_string_and_no_further(
    stops: list[str], chunks: list[str]
) -> None:
    text = "".join(chunks)
    out, found = shown(stops, chunks)
    assert found == any(stop in text for stop in stops)
    assert text.startswith(out)
    assert not any(stop in out for stop in stops)
    if found:
        assert any(text.startswith(stop, len(out)) for stop in stops)
    else:
        assert out == text


@given(stop_strings, chunked(few_letters))
def test_no_more_is_held_back_than_may_become_a_stop_string(stop: str, chunks: list[str]) -> None:
    watcher = StopStrings([stop])
    text = out = ""
    for chunk in chunks:
        text += chunk
        out += watcher.feed(chunk)
        if watcher.found:
            break
        held = text.removeprefix(out)
        assert stop.startswith(held)
        assert len(held) < len(stop)


@pytest.mark.parametrize(
    ("stops", "chunks", "out"),
    [
        ([], ["abc"], "abc"),
        (["STOP"], ["one STOP two"], "one "),
        (["STOP"], list("one STOP two"), "one "),
        (["STOP"], ["one STO", "RE"], "one STORE"),
        (["STOP"], ["one ST"], "one ST"),
        (["STOP"], ["STOP"], ""),
        (["STOP"], ["", "x", "", "ST", "", "OP", "y"], "x"),
        (["aab"], list("aaab"), "a"),
        (["abab!"], ["ababab!"], "ab"),
        (["b", "abc"], ["xabc"], "x"),
        (["bc", "abc"], ["xabc"], "x"),
        (["abcd", "bc"], ["xabc"], "xa"),
        (["\n\n"], ["a\n", "b\n", "\nc"], "a\nb"),
        (["。"], ["你好", "。再见"], "你好"),
        (["😀"], ["a😀b"], "a"),
        (["é"], ["e\u0301é"], "e\u0301"),
        (["S"], ["s", "ſ"], "sſ"),
        ([" "], ["a\u00a0b c"], "a\u00a0b"),
        (["longer than the answer"], ["short"], "short"),
    ],
)
def test_examples(stops: list[str], chunks: list[str], out: str) -> None:
    assert shown(stops, chunks)[0] == out


def test_nothing_is_shown_after_a_stop_string() -> None:
    watcher = StopStrings(["x"])
    assert [watcher.feed(text) for text in ("ax", "b", "x", "")] == ["a", "", "", ""]
    assert watcher.flush() == ""
    assert watcher.found


@pytest.mark.parametrize(
    ("stops", "said"),
    [
        ([""], "a stop string must have 1 to 256 characters, not 0"),
        (["x" * (MAX_LENGTH + 1)], "a stop string must have 1 to 256 characters, not 257"),
        (["x"] * (MAX_STOPS + 1), "there are 17 stop strings; at most 16"),
    ],
)
def test_stop_strings_that_make_no_sense_are_refused(stops: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        StopStrings(stops)
    StopStrings(["x" * MAX_LENGTH] * MAX_STOPS)


# ---- in a conversation ---------------------------------------------------------------------------


def start(engine: FakeEngine, *stops: str, max_tokens: int | None = None) -> Chat:
    sampling = SamplingParams(seed=7)
    options = GenerationOptions(sampling, "auto", max_tokens, exact=False, stop=stops)
    return Chat(engine, engine.session(), options)


def ask(chat: Chat, question: str) -> Answer:
    streamed = "".join(piece.text for piece in chat.ask(question) if piece.part == "answer")
    assert chat.last is not None
    assert chat.last.text == streamed
    return chat.last


def test_an_answer_ends_before_a_stop_string_and_says_so() -> None:
    answer = ask(start(FakeEngine("one STOP two"), "STOP"), "a")
    assert (answer.text, answer.finish_reason) == ("one ", "stop")
    assert VOCAB.decode(answer.tokens) == "one STOP"
    assert answer.stats.completion_tokens == len("one STOP")


def test_text_that_was_held_back_is_shown_when_the_answer_ends() -> None:
    for limit, reason in ((None, "stop"), (6, "length")):
        answer = ask(start(FakeEngine("one ST"), "STOP", max_tokens=limit), "a")
        assert (answer.text, answer.finish_reason) == ("one ST", reason)


def test_a_stop_string_in_the_last_token_counts_as_a_stop() -> None:
    answer = ask(start(FakeEngine("one STOP"), "STOP", max_tokens=8), "a")
    assert (answer.text, answer.finish_reason) == ("one ", "stop")


def test_the_conversation_goes_on_after_a_stop_string() -> None:
    engine = FakeEngine("one STOP two", "three")
    chat = start(engine, "STOP")
    ask(chat, "a")
    answer = ask(chat, "b")
    assert (answer.text, answer.finish_reason) == ("three", "stop")
    first, second = engine.sessions[0].prompts
    assert second[: len(first)] == first
    assert "<|turn>model\none STOP<turn|>\n<|turn>user\nb<turn|>" in VOCAB.decode(second)


def test_each_answer_is_watched_afresh() -> None:
    chat = start(FakeEngine("one ST", "OP two", "x STOP"), "STOP")
    assert [ask(chat, q).text for q in "abc"] == ["one ST", "OP two", "x "]


def test_thoughts_are_not_watched() -> None:
    script = "<|channel>thought\nmaybe STOP here\n<channel|>yes STOP no"
    answer = ask(start(FakeEngine(script), "STOP"), "a")
    assert (answer.thinking, answer.text) == ("maybe STOP here", "yes ")


def test_thought_and_answer_do_not_make_a_stop_string_together() -> None:
    answer = ask(start(FakeEngine("<|channel>thought\nST<channel|>OP"), "STOP"), "a")
    assert (answer.thinking, answer.text) == ("ST", "OP")


def test_characters_of_several_tokens_are_found() -> None:
    answer = ask(start(FakeEngine("你好。再见"), "。"), "a")
    assert answer.text == "你好"
