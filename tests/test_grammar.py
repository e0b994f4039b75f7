"""Answers follow their grammar, drafts and thoughts included; hostile grammars are refused."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from embedded import DRAFTER, PROMPTS, TARGET, chat_tokens

from gemmachat import Engine, NotFoundError, SamplingParams, UsageError
from gemmachat.bridge import check_grammar
from gemmachat.bridge_engine import EngineHandle
from gemmachat.grammar import read_grammar, read_schema
from gemmachat.json_schema import to_grammar
from gemmachat.session import DraftPolicy, Session, TokenEvent

WORDS = 'root ::= ("a" | "b" | "the" | "model" | "." | " ")+ "!"'
GREEDY = SamplingParams(temperature=0.0)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        yield engine


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    with engine.session(n_ctx=512) as session:
        yield session


@pytest.fixture(scope="module")
def handle() -> Iterator[EngineHandle]:
    handle = EngineHandle(TARGET, None)
    yield handle
    handle.free()


def ask(
    engine: Engine,
    session: Session,
    sampling: SamplingParams,
    *,
    prompt: str = PROMPTS[0],
    draft: DraftPolicy = 3,
    n: int = 60,
    think: bool = False,
) -> list[TokenEvent]:
    tokens = chat_tokens(engine, prompt)
    if think:
        tokens.insert(1, engine.vocab.control("<|think|>"))
    return list(session.generate(tokens, sampling, draft=draft, max_tokens=n))


def text(events: list[TokenEvent]) -> str:
    return "".join(event.text for event in events)


def walks(handle: EngineHandle, text: str, n: int = 40) -> Iterator[str]:
    for seed in range(n):
        walked = handle.walk_grammar(text, seed, 60)
        assert handle.is_end(walked[-1])
        yield b"".join(map(handle.piece, walked)).decode()


# ---- texts follow the grammar --------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("top_k", [0, 64])
def test_answers_follow_the_grammar_and_drafts_are_accepted(
    engine: Engine, session: Session, temperature: float, top_k: int
) -> None:
    accepted = ended = 0
    for seed in range(12):
        sampling = SamplingParams(temperature=temperature, top_k=top_k, seed=seed, grammar=WORDS)
        events = ask(engine, session, sampling, prompt=PROMPTS[seed], draft=1 + seed % 7, n=20)
        accepted += session.stats().accepted
        ending = "!" if events[-1].finish_reason == "stop" else "!?"
        ended += ending == "!"
        assert re.fullmatch(
            rf"(a|b|the?|th?|m(o(d(el?)?)?)?|\.| |model|the)*{ending}", text(events)
        )
    assert accepted > 0
    assert ended > 0 or temperature == 0.0


@pytest.mark.parametrize("temperature", [0.0, 1.0, 2.0])
def test_answers_under_a_schema_are_json(
    engine: Engine, session: Session, temperature: float
) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12},
              "age": {"type": "integer"}, "ok": {"type": "boolean"}},
              "required": ["name", "age", "ok"]}  # fmt: skip
    accepted = 0
    for seed in range(12):
        sampling = SamplingParams(
            temperature=temperature, seed=seed, grammar=to_grammar(json.dumps(schema))
        )
        events = ask(engine, session, sampling, prompt=PROMPTS[seed], draft=1 + seed % 7, n=90)
        accepted += session.stats().accepted
        assert events[-1].finish_reason == "stop"
        found = json.loads(text(events))
        assert [type(found[key]) for key in ("name", "age", "ok")] == [str, int, bool]
    assert accepted > 12


def test_a_turn_ends_only_where_the_grammar_does(engine: Engine, session: Session) -> None:
    exactly = 'root ::= "one" " two" " three"'
    events = ask(engine, session, SamplingParams(temperature=0.0, grammar=exactly))
    assert (text(events), events[-1].finish_reason) == ("one two three", "stop")
    ends = [token for token in range(engine.vocab.size) if engine.vocab.is_end(token)]
    wanted = tuple((token, 100.0) for token in ends)
    events = ask(engine, session, SamplingParams(grammar=exactly, logit_bias=wanted, seed=1))
    assert (text(events), events[-1].finish_reason) == ("one two three", "stop")
    events = ask(engine, session, SamplingParams(grammar='root ::= "x"*', logit_bias=wanted))
    assert (text(events), len(events)) == ("", 1)


def test_text_never_holds_a_control_token(engine: Engine, session: Session) -> None:
    """Also where the grammar allows its spelling, as any string does, and it is likely."""
    vocab = engine.vocab
    ends = [token for token in range(vocab.size) if vocab.is_end(token)]
    markers = [vocab.control(name) for name in ("<|turn>", "<bos>", "<|channel>", "<channel|>")]
    likely = tuple((token, 50.0) for token in markers)
    for constraint in ('root ::= "<|turn>" [^x]{0,20}', "root ::= [^x]{20}"):
        for seed in range(5):
            sampling = SamplingParams(seed=seed, grammar=constraint, logit_bias=likely[:2])
            events = ask(engine, session, sampling, n=30)
            said = [event.token for event in events if event.token not in ends]
            assert not any(vocab.piece(token or 0) == b"" for token in said)
            assert text(events).startswith("<|turn>") or constraint[9] == "["


def test_texts_are_utf8_also_where_they_are_spelled_by_bytes(handle: EngineHandle) -> None:
    """A byte token can begin an overlong form, a surrogate, or what no character begins with."""
    for text in walks(handle, r"root ::= [^a-zA-Z]{3}"):
        assert len(text) == 3
    assert set(walks(handle, 'root ::= "\u2028" | "é" | "😀" | "你"')) == {
        "\u2028",
        "é",
        "😀",
        "你",
    }


# ---- thoughts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("draft", ["off", 3])
def test_the_grammar_starts_after_a_thought(
    engine: Engine, session: Session, draft: DraftPolicy
) -> None:
    vocab = engine.vocab
    opening, closing = vocab.control("<|channel>"), vocab.control("<channel|>")
    # The pair does not think by itself: the marks are made likely, the opening one only once.
    biases = ((opening, 40.0), (closing, 14.0))
    thoughts = set()
    for seed in range(8):
        sampling = SamplingParams(
            temperature=1.5,
            seed=seed,
            grammar='root ::= "yes" | "no"',
            logit_bias=biases,
            presence_penalty=35.0,
        )
        events = ask(engine, session, sampling, prompt=PROMPTS[18], draft=draft, n=300, think=True)
        tokens = [event.token for event in events]
        end = tokens.index(closing)
        assert tokens[0] == opening
        assert text(events[end:]) in ("yes", "no")
        assert events[-1].finish_reason == "stop"
        thoughts.add(text(events[:end]))
    assert len(thoughts) > 4, "thoughts are free"


def test_a_turn_cannot_end_inside_of_a_thought_before_the_grammar(
    engine: Engine, session: Session
) -> None:
    vocab = engine.vocab
    opening, closing = vocab.control("<|channel>"), vocab.control("<channel|>")
    ends = [token for token in range(vocab.size) if vocab.is_end(token)]
    wanted = (*((token, 60.0) for token in ends), (opening, 100.0))
    sampling = SamplingParams(seed=1, grammar='root ::= "yes"', logit_bias=wanted)
    events = ask(engine, session, sampling, n=30, think=True)
    assert events[0].token == opening
    assert len(events) == 30
    assert not {event.token for event in events} & set(ends)
    closed = SamplingParams(
        seed=1, grammar='root ::= "yes"', logit_bias=(*wanted, (closing, 110.0))
    )
    events = ask(engine, session, closed, n=30, think=True)
    assert (text(events), events[-1].finish_reason) == ("yes", "stop")


def test_without_a_thought_the_grammar_starts_at_once(engine: Engine, session: Session) -> None:
    wanted = ((engine.vocab.control("<|channel>"), 100.0),)
    sampling = SamplingParams(seed=1, grammar='root ::= "yes"', logit_bias=wanted)
    assert text(ask(engine, session, sampling)) == "yes", "a prompt that asks for no thought"
    for seed in range(5):
        sampling = SamplingParams(seed=seed, grammar='root ::= "yes" | "no"')
        assert text(ask(engine, session, sampling)) in ("yes", "no")


# ---- grammars that cannot be followed ------------------------------------------------------------


@pytest.mark.parametrize("draft", ["off", 3])
def test_a_stuck_grammar_is_an_error_that_leaves_the_session_usable(
    engine: Engine, session: Session, draft: DraftPolicy
) -> None:
    vocab = engine.vocab
    before = [event.token for event in ask(engine, session, GREEDY, draft=draft)]
    events: list[TokenEvent] = []
    banned = [
        token for token in range(vocab.size) if vocab.piece(token).startswith("é".encode()[:1])
    ]
    stuck = SamplingParams(
        grammar='root ::= "yes" "é"', logit_bias=tuple((token, -math.inf) for token in banned)
    )
    with pytest.raises(UsageError, match=r"^the grammar allows no token that could come next$"):
        events.extend(session.generate(chat_tokens(engine, PROMPTS[0]), stuck, draft=draft))
    assert text(events) == "yes", "what comes before the dead end is part of the answer"
    assert [event.token for event in ask(engine, session, GREEDY, draft=draft)] == before


def test_min_tokens_beyond_the_grammar_is_an_error(engine: Engine, session: Session) -> None:
    with pytest.raises(UsageError, match="the grammar ends before"):
        ask(engine, session, SamplingParams(grammar='root ::= "yes"', min_tokens=50))


def test_an_unreadable_grammar_is_an_error_of_the_session(engine: Engine, session: Session) -> None:
    for broken in ("root ::= nope", 'x ::= "a"', "root ::= (", "\x01"):
        with pytest.raises(UsageError, match=r"^the grammar"):
            ask(engine, session, SamplingParams(grammar=broken))
    for value in ("", " \n", "a\0b", "\ud800", 5):
        with pytest.raises(UsageError, match="the grammar"):
            SamplingParams(grammar=value)


HOSTILE = {
    "left recursion": ('root ::= root "a" | "b"', 'rule "root" comes to itself again'),
    "hidden left recursion": (
        'root ::= x | "c"\nx ::= y? root\ny ::= "b"',
        "comes to itself again before any character",
    ),
    "no finite text": ('root ::= "a" root', 'no text can ever complete .* "root"'),
    "undefined rule": ("root ::= nope", 'no rule named "nope"'),
    "no root": ('x ::= "a"', 'no rule named "root"'),
    "two roots": ('root ::= "a"\nroot ::= "b"', 'line 2: the rule "root" is there already'),
    "unbalanced parenthesis": ('root ::= ("a"', r"line 1: a symbol or a \) is expected here"),
    "unbalanced quote": ('root ::= "a', "line 1: it ends inside of quotes"),
    "unknown escape": (r'root ::= "\q"', "unknown .* escape"),
    "short escape": (r'root ::= "\u12"', "an escape needs 4 hexadecimal digits"),
    "character that is none": (r'root ::= "\ud800"', "no text holds"),
    "range": ("root ::= [z-a]", "ends before it begins"),
    "token": ("root ::= <end>", "tokens, as in <name>, cannot be part"),
    "nested": ("root ::= " + "(" * 20_000 + '"a"' + ")" * 20_000, "more than 100 parentheses"),
    "marks": ('root ::= "a"' + "*" * 20_000, "too many marks of repetition"),
    "exponential": (
        "\n".join(f"r{i} ::= r{i + 1} r{i + 1} | r{i + 1}" for i in range(40))
        + '\nr40 ::= "a" |\nroot ::= r0'.replace("|\n", '| ""\n'),
        "too complex",
    ),
    "exponential later": (
        'root ::= "' + "x" * 1200 + '" r0\n'
        + "\n".join(f"r{i} ::= r{i + 1}? r{i + 1}?" for i in range(26))
        + '\nr26 ::= "y"',
        "too complex",
    ),
    "repetitions": ('root ::= "a"{999999999}', "a number above 10000"),
    "huge number": ('root ::= "a"{1,' + "9" * 5000 + "}", "a number above 10000"),
    "maximum below minimum": ('root ::= "a"{3,2}', "maximum is below its minimum"),
    "nested repetitions": ('root ::= ((("a"{2000}){2000}){2000})', "too large"),
    "repetitions of nothing": ('root ::= "a" ""{10000}{10000}{10000}', "too large"),
    "dead ways, often": (
        "root ::= (" + '"" ' * 8000 + 'inf | "a"){10000}{25}\ninf ::= "x" inf',
        "too large",
    ),
    "dead end": (r"root ::= [^\x00-\U0010FFFF]", r"a \[\.\.\.\] without any character"),
    "binary": ("\x01\x02\x03", "a rule's name is expected here"),
    "long": ("#" * (1 << 20) + '\nroot ::= "a"', "longer than 1 MiB"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_grammars_are_refused_with_a_reason(name: str) -> None:
    hostile, said = HOSTILE[name]
    with pytest.raises(UsageError, match=said) as caught:
        check_grammar(hostile)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_deep_and_wide_grammars_can_be_followed(handle: EngineHandle) -> None:
    chain = "\n".join(f"r{i} ::= r{i + 1}" for i in range(9000))
    assert list(walks(handle, f'root ::= r0\n{chain}\nr9000 ::= "y"', 1)) == ["y"]
    words = " | ".join(f'"w{i}"' for i in range(20_000))
    assert re.fullmatch(r"w\d+", next(walks(handle, f"root ::= {words}", 1)))
    assert list(walks(handle, 'root ::= "ab"{20}', 1)) == ["ab" * 20]


def test_a_text_that_can_be_read_in_too_many_ways_is_an_error(handle: EngineHandle) -> None:
    """Every x doubles the ways: it must not double the time for ever."""
    ambiguous = 'root ::= a "!"\na ::= "x" a "b" | "x" a "c" | "x"'
    tokens = handle.tokenize("x" * 8)
    assert handle.grammar_allows(ambiguous, tokens)
    with pytest.raises(UsageError, match="its text can be read in too many ways"):
        handle.grammar_allows(ambiguous, handle.tokenize("x" * 60))


def test_a_long_answer_does_not_exhaust_what_a_grammar_may_remember(handle: EngineHandle) -> None:
    """Every place inside of nested counts is a state of its own."""
    counted = 'root ::= (("a" | "b" | "c"){0,9} [,;]){9000} "."'
    tokens = handle.tokenize("abcabcab,ac;" * 3000)
    assert handle.grammar_allows(counted, tokens)


def test_what_can_never_end_is_left_out(handle: EngineHandle) -> None:
    """A text that begins with b would go on for ever."""
    endless = 'root ::= "a" | "b" more | "c" more?\nmore ::= "x" more'
    assert set(walks(handle, endless)) == {"a", "c"}


# ---- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", [read_grammar, read_schema])
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty or holds a NUL"),
        (b" \n\t", "is empty or holds a NUL"),
        (b'root ::= "a\0b"', "is empty or holds a NUL"),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        (bytes(range(256)), "is not UTF-8 text"),
        (b"#" * (256 * 1024 + 1), "is larger than 256 KiB"),
    ],
)
def test_bad_files_are_refused(read, data: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=f"file .*file {said}"):
        read(path)


@pytest.mark.parametrize("read", [read_grammar, read_schema])
def test_missing_and_unreadable_files_are_refused(read, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no-such does not exist"):
        read(tmp_path / "no-such")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read(tmp_path)
    with pytest.raises(UsageError, match=r"cannot be read: .*null"):
        read(Path("a\0b"))
    endless = Path("/dev/zero")
    if endless.exists():
        with pytest.raises(UsageError, match="larger than"):
            read(endless)


def test_files_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "g.gbnf"
    path.write_bytes(b"\xef\xbb\xbf" + WORDS.encode())
    assert read_grammar(path) == WORDS
    path.write_bytes(b'\xef\xbb\xbf{"type": "null"}')
    assert "null" in read_schema(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_schema_may_come_through_a_pipe(tmp_path: Path) -> None:
    """As in --json-schema <(make-schema)."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    if os.fork() == 0:
        path.write_text('{"type": "boolean"}')
        os._exit(0)
    assert "boolean" in read_schema(path)
    os.wait()
