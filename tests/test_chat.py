"""A conversation keeps exactly what was generated, and nothing of what failed."""

from __future__ import annotations

import pytest
from fakes import LARGE_TEMPLATE, ByteVocab, FakeEngine, FakeSession

from gemmachat.chat import Answer, Chat, GenerationOptions
from gemmachat.errors import ContextFullError
from gemmachat.sampling import SamplingParams

VOCAB = ByteVocab()


def options(seed: int | None = 7, max_tokens: int | None = None) -> GenerationOptions:
    return GenerationOptions(SamplingParams(seed=seed), "auto", max_tokens, exact=False)


def start(
    engine: FakeEngine, *, n_ctx: int | None = None, system: str | None = None, **given: int | None
) -> tuple[Chat, FakeSession]:
    session = engine.session(n_ctx=n_ctx)
    return Chat(engine, session, options(**given), system=system), session


def ask(chat: Chat, question: str) -> Answer:
    for _ in chat.ask(question):
        pass
    assert chat.last is not None
    return chat.last


def test_answer_is_streamed_and_kept() -> None:
    chat, _ = start(FakeEngine("<|channel>thought\nhm\n<channel|>Hé 你好."))
    pieces = list(chat.ask("hi"))
    assert "".join(piece.text for piece in pieces if piece.part == "answer") == "Hé 你好."
    assert chat.last is not None
    assert chat.last.text == "Hé 你好."
    assert chat.last.thinking == "hm"
    assert chat.last.finish_reason == "stop"
    assert VOCAB.decode(chat.last.tokens) == "<|channel>thought\nhm\n<channel|>Hé 你好.<turn|>"


def test_second_prompt_extends_the_first_one_and_its_answer() -> None:
    chat, session = start(FakeEngine("one", "two"), system="Be brief.")
    ask(chat, "a")
    answer = ask(chat, "b")
    first, second = session.prompts
    assert second[: len(first) + 3] == first + VOCAB.tokenize("one")
    assert answer.stats.cached_tokens == len(first) + len("one<")
    assert VOCAB.decode(second) == (
        "<bos><|turn>system\nBe brief.<turn|>\n<|turn>user\na<turn|>\n<|turn>model\none<turn|>\n"
        "<|turn>user\nb<turn|>\n<|turn>model\n"
    )


def test_thoughts_are_not_sent_again() -> None:
    engine = FakeEngine("<|channel>thought\nhm<channel|>yes", chat_template=LARGE_TEMPLATE)
    chat, session = start(engine)
    ask(chat, "a")
    ask(chat, "b")
    assert "hm" not in VOCAB.decode(session.prompts[1])
    assert "<|turn>model\nyes<turn|>" in VOCAB.decode(session.prompts[1])


def test_clear_keeps_the_system_prompt_only() -> None:
    chat, session = start(FakeEngine("one"), system="Be brief.")
    ask(chat, "a")
    chat.clear()
    ask(chat, "b")
    assert VOCAB.decode(session.prompts[1]) == (
        "<bos><|turn>system\nBe brief.<turn|>\n<|turn>user\nb<turn|>\n<|turn>model\n"
    )


@pytest.mark.parametrize("system", [None, "", " \n"])
def test_blank_system_prompt_makes_no_turn(system: str | None) -> None:
    chat, session = start(FakeEngine("one"), system=system)
    ask(chat, "a")
    assert "system" not in VOCAB.decode(session.prompts[0])


def test_answer_cut_by_the_token_limit_stays_in_history() -> None:
    chat, session = start(FakeEngine("abcdef"), max_tokens=3)
    answer = ask(chat, "a")
    assert (answer.text, answer.finish_reason) == ("abc", "length")
    ask(chat, "b")
    assert "<|turn>model\nabc<turn|>\n<|turn>user\nb" in VOCAB.decode(session.prompts[1])


def test_cancelled_answer_keeps_what_was_said() -> None:
    chat, session = start(FakeEngine("abcdef"))
    stream = chat.ask("a")
    next(stream)
    session.cancel()
    assert list(stream) == []
    assert chat.last is not None
    assert (chat.last.text, chat.last.finish_reason) == ("a", "cancelled")
    ask(chat, "b")
    assert "<|turn>model\na<turn|>\n<|turn>user\nb" in VOCAB.decode(session.prompts[1])


@pytest.mark.parametrize("script", ["abc", "<|channel>thought\nhm<channel|>abc"])
def test_question_cancelled_before_anything_was_said_leaves_no_trace(script: str) -> None:
    engine = FakeEngine(script, "two")
    engine.hang_at = VOCAB.encode(script).index(VOCAB.tokenize("a")[0])
    chat, session = start(engine)
    engine.on_hang = session.cancel
    lost = ask(chat, "lost")
    assert (lost.text, lost.finish_reason) == ("", "cancelled")
    engine.hang_at = None
    ask(chat, "b")
    assert VOCAB.decode(session.prompts[1]) == "<bos><|turn>user\nb<turn|>\n<|turn>model\n"


def test_prompt_that_does_not_fit_leaves_no_trace() -> None:
    chat, session = start(FakeEngine("one"), n_ctx=60)
    with pytest.raises(ContextFullError):
        ask(chat, "x" * 100)
    assert chat.last is None
    ask(chat, "b")
    assert VOCAB.decode(session.prompts[0]) == "<bos><|turn>user\nb<turn|>\n<|turn>model\n"


def test_full_context_ends_the_answer_and_says_so() -> None:
    chat, session = start(FakeEngine("a" * 100), n_ctx=40)
    answer = ask(chat, "hi")
    assert answer.finish_reason == "context"
    assert len(session.prompts[0]) + len(answer.text) == 40


def test_abandoned_stream_leaves_no_trace() -> None:
    chat, session = start(FakeEngine("abc", "two"))
    stream = chat.ask("lost")
    next(stream)
    del stream
    ask(chat, "b")
    assert "lost" not in VOCAB.decode(session.prompts[1])


def test_given_seed_is_used_for_every_answer() -> None:
    chat, session = start(FakeEngine("one"))
    assert [ask(chat, "a").seed, ask(chat, "b").seed] == [7, 7]
    assert [sampling.seed for sampling in session.samplings] == [7, 7]


def test_without_a_seed_the_session_draws_one_and_learns_about_drafting() -> None:
    chat, session = start(FakeEngine("one"), seed=None)
    assert ask(chat, "a").seed is None
    assert [sampling.seed for sampling in session.samplings] == [None]
