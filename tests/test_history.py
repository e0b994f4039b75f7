"""On the real pair: a turn computes what is new, and going back leaves what never happened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from embedded import DRAFTER, GREEDY, TARGET

from gemmachat import Engine, Session
from gemmachat.chat import Answer, Chat, GenerationOptions
from gemmachat.conversation import Conversation, Message

OPTIONS = GenerationOptions(replace(GREEDY, seed=1), "auto", 12, exact=True)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        yield engine


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    # Exact sessions keep every position of sliding layers: any turn can be gone back to.
    with engine.session(n_ctx=1024, exact=True) as session:
        yield session


@pytest.fixture
def fresh(engine: Engine) -> Iterator[Session]:
    with engine.session(n_ctx=1024, exact=True) as session:
        yield session


def finish(chat: Chat, pieces: Iterator[object]) -> Answer:
    for _ in pieces:
        pass
    assert chat.last is not None
    return chat.last


def computed(answer: Answer) -> int:
    """Tokens of the prompt that were prefilled."""
    return answer.stats.prompt_tokens - answer.stats.cached_tokens


def turn_tokens(engine: Engine, question: str) -> int:
    """What a question adds: the last answer's close, its own turn, and the opened one."""
    vocab = engine.vocab
    texts = ("\n", f"user\n{question}", "\n", "model\n")
    marks = 4  # the answer's close, the question's two marks, and the answer's open
    return marks + sum(len(vocab.tokenize(text)) for text in texts)


def test_the_next_turn_prefills_what_is_new(engine: Engine, session: Session) -> None:
    chat = Chat(engine, session, OPTIONS, system="Be brief.")
    finish(chat, chat.ask("def first(items):"))
    for question in ("And then?", "Why is that so?"):
        last = chat.last
        assert last is not None
        answer = finish(chat, chat.ask(question))
        new = turn_tokens(engine, question)
        # Of an answer that was cut at a limit the last token is still to be computed.
        assert computed(answer) <= new + (last.finish_reason != "stop")


@pytest.mark.parametrize("how", ["regenerate", "undo", "edit"])
def test_going_back_is_as_if_it_had_not_happened(
    engine: Engine, session: Session, fresh: Session, how: str
) -> None:
    chat = Chat(engine, session, OPTIONS)
    finish(chat, chat.ask("def first(items):"))
    before = chat.conversation
    old = finish(chat, chat.ask("def last(items):"))
    if how == "regenerate":
        question, answer = "def last(items):", finish(chat, chat.regenerate())
        assert answer.tokens == old.tokens
        assert computed(answer) <= 1
    elif how == "undo":
        question = chat.undo() or ""
        answer = finish(chat, chat.ask(question))
    else:
        question = "class Last:"
        answer = finish(chat, chat.edit(question))
    assert computed(answer) <= turn_tokens(engine, question)

    other = Chat(engine, fresh, OPTIONS)
    other.restore(before)
    never = finish(other, other.ask(question))
    assert answer.tokens == never.tokens
    assert session.inspect().hidden_hash == fresh.inspect().hidden_hash


def test_a_restored_conversation_continues_bit_for_bit(
    engine: Engine, session: Session, fresh: Session
) -> None:
    chat = Chat(engine, session, OPTIONS, system="Be brief.")
    for question in ("def first(items):", "def last(items):"):
        finish(chat, chat.ask(question))
    other = Chat(engine, fresh, OPTIONS)
    other.restore(Conversation.from_dict(chat.conversation.as_dict()))
    assert other.conversation == chat.conversation
    one, two = (finish(each, each.ask("And then?")) for each in (chat, other))
    assert one.tokens == two.tokens
    assert computed(two) > computed(one)


def test_text_of_another_model_is_tokenised_anew(engine: Engine, session: Session) -> None:
    chat = Chat(engine, session, OPTIONS)
    foreign = Message("model", "It is <|turn>fine<turn|>.", tokens=(200, 300, 1000))
    chat.restore(Conversation((Message("user", "How?"), foreign)))
    assert chat.conversation.messages[1].tokens is None
    finish(chat, chat.ask("So?"))
    assert session.inspect().n_committed > 0


def test_thought_budget_computes_only_the_close(engine: Engine, session: Session) -> None:
    options = replace(OPTIONS, think=True, thought_budget=4, max_tokens=40)
    opened = engine.vocab.control("<|channel>")
    # The model never learned to think: it is made to, and left to go on from there.
    forced = replace(options.sampling, logit_bias=((opened, 1000.0),))
    chat = Chat(engine, session, replace(options, sampling=forced))
    answer = finish(chat, chat.ask("def first(items):"))
    assert answer.finish_reason in ("stop", "length")
    assert answer.tokens[0] == opened
    assert answer.text == ""

    close = engine.vocab.control("<channel|>")
    assert close not in answer.tokens  # nothing but the mark was drawn: no thought had begun
