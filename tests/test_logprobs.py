"""Log-probabilities are the target's own, before and after what the user asked for."""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from conftest import Command, Stdin
from embedded import DRAFTER, PROMPTS, TARGET, chat_tokens, open_handle, probe
from fakes import FakeEngine

from gemmachat import Engine, SamplingParams, UsageError, cli
from gemmachat.logprobs import Alternative, TokenLogprobs
from gemmachat.native_structs import MAX_WIDTH, NativeSampling
from gemmachat.sampling import MAX_LOGPROBS
from gemmachat.session import DraftPolicy, Session, TokenEvent

N = 5
SAMPLED = SamplingParams(temperature=1.3, top_k=40, top_p=0.9, seed=5, logprobs=N)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        yield engine


@pytest.fixture(scope="module")
def session(engine: Engine) -> Iterator[Session]:
    with engine.session(n_ctx=512, exact=True) as session:
        yield session


def ask(
    engine: Engine,
    session: Session,
    sampling: SamplingParams,
    draft: DraftPolicy = 3,
    prompt: str = PROMPTS[18],
) -> list[TokenEvent]:
    tokens = chat_tokens(engine, prompt)
    return list(session.generate(tokens, sampling, draft=draft, max_tokens=20))


def details(events: list[TokenEvent]) -> list[TokenLogprobs]:
    found = [event.logprobs for event in events if event.logprobs is not None]
    assert len(found) == len(events)
    return found


@pytest.mark.parametrize("n", [1, 5, MAX_LOGPROBS])
def test_as_many_alternatives_as_asked_for_come_most_likely_first(engine, session, n):
    for prompt, seed in itertools.product(PROMPTS[18:22], range(3)):
        sampling = SamplingParams(temperature=1.5, top_k=0, top_p=1.0, seed=seed, logprobs=n)
        for found in details(ask(engine, session, sampling, prompt=prompt)):
            raw = [alternative.logprob for alternative in found.top]
            final = [alternative.final_logprob for alternative in found.final_top]
            assert len(raw) == len(final) == n
            assert raw == sorted(raw, reverse=True)
            assert final == sorted(final, reverse=True)
            for ids in (found.top, found.final_top):
                assert len({alternative.token for alternative in ids}) == n
            assert sum(map(math.exp, raw)) <= 1 + 1e-6
            assert sum(map(math.exp, final)) <= 1 + 1e-6


def test_the_chosen_token_is_described_be_it_among_the_alternatives_or_not(engine, session):
    among = outside = 0
    for seed in range(12):
        sampling = SamplingParams(temperature=2.0, top_k=0, top_p=1.0, seed=seed, logprobs=2)
        for event in ask(engine, session, sampling):
            assert event.logprobs is not None
            chosen = event.logprobs.chosen
            assert chosen.token == event.token
            assert chosen.logprob == event.logprob
            assert math.isfinite(chosen.final_logprob)
            listed = [a for a in (*event.logprobs.top, *event.logprobs.final_top)
                      if a.token == chosen.token]  # fmt: skip
            assert all(alternative == chosen for alternative in listed)
            among += bool(listed)
            outside += not listed
    assert among > 0
    assert outside > 0


def test_tokens_that_cannot_be_drawn_have_no_final_probability(engine, session):
    sampling = SamplingParams(temperature=1.0, top_k=2, top_p=1.0, seed=1, logprobs=N)
    for found in details(ask(engine, session, sampling)):
        assert len(found.top) == N
        assert len(found.final_top) == 2
        assert sum(math.exp(a.final_logprob) for a in found.final_top) == pytest.approx(1.0)
        drawn = {alternative.token for alternative in found.final_top}
        for alternative in found.top:
            assert math.isfinite(alternative.final_logprob) == (alternative.token in drawn)


def test_a_banned_token_keeps_its_raw_probability(engine, session):
    plain = details(ask(engine, session, SamplingParams(temperature=0.0, logprobs=N)))[0]
    ban = ((plain.chosen.token, -math.inf),)
    banned = details(
        ask(engine, session, SamplingParams(temperature=0.0, logprobs=N, logit_bias=ban))
    )[0]
    assert [a.logprob for a in banned.top] == [a.logprob for a in plain.top]
    assert banned.top[0].final_logprob == -math.inf
    assert banned.chosen.token != plain.chosen.token


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_raw_values_are_the_log_softmax_of_the_logits(engine, session, temperature):
    """Whatever penalties, filters and a grammar do to the final ones."""
    sampling = SamplingParams(
        temperature=temperature,
        top_k=3,
        seed=4,
        logprobs=N,
        repeat_penalty=1.5,
        presence_penalty=2.0,
        grammar="root ::= [a-z ,]+",
    )
    prompt = chat_tokens(engine, PROMPTS[18])
    events = ask(engine, session, sampling)
    handle = open_handle(engine, n_ctx=512, exact=True)
    handle.sync(prompt)
    for found in details(events):
        logits = probe(handle, MAX_WIDTH).astype(np.float64)
        logs = logits - logits.max()
        logs -= np.log(np.exp(logs).sum())
        best = np.lexsort((np.arange(len(logs)), -logits))[:N]
        assert [alternative.token for alternative in found.top] == best.tolist()
        for alternative in (*found.top, *found.final_top, found.chosen):
            assert alternative.logprob == pytest.approx(logs[alternative.token], abs=1e-5)
        forced = SamplingParams(temperature=0.0, logit_bias=((found.chosen.token, 1000.0),))
        handle.set_sampling(NativeSampling.of(forced, 0))
        handle.step(0, 1)
    handle.free()


@pytest.mark.parametrize("how", [{}, {"repeat_penalty": 1.3, "frequency_penalty": 0.4},
                                 {"grammar": 'root ::= [a-z ]+ "."'}])  # fmt: skip
def test_in_exact_mode_they_are_the_same_bits_whatever_is_drafted(engine, session, how):
    sampling = SamplingParams(temperature=0.0, logprobs=MAX_LOGPROBS, **how)
    for prompt in PROMPTS[18:24]:
        plain = details(ask(engine, session, sampling, "off", prompt))
        for draft in (1, 3, 7):
            assert details(ask(engine, session, sampling, draft, prompt)) == plain


def test_asking_for_them_changes_no_token(engine, session):
    without = SamplingParams(temperature=1.3, top_k=40, top_p=0.9, seed=5)
    events = ask(engine, session, without)
    assert all(event.logprobs is None for event in events)
    assert [e.token for e in ask(engine, session, SAMPLED)] == [e.token for e in events]


def test_what_an_abandoned_answer_left_is_not_mistaken_for_the_next_one_s(engine, session):
    wanted = details(ask(engine, session, SAMPLED, prompt=PROMPTS[0]))
    stream = session.generate(chat_tokens(engine, PROMPTS[27]), SAMPLED, draft=7)
    next(stream)
    assert details(ask(engine, session, SAMPLED, prompt=PROMPTS[0])) == wanted


@pytest.mark.parametrize("n", [-1, MAX_LOGPROBS + 1, 2**40])
def test_a_number_out_of_range_is_refused(n):
    with pytest.raises(UsageError, match=f"logprobs must be between 0 and 20, not {n}"):
        SamplingParams(logprobs=n)
    with pytest.raises(UsageError, match="logprobs must be a whole number"):
        SamplingParams(logprobs=1.5)


# ---- as JSON -------------------------------------------------------------------------------------


def strictly(text: str) -> dict:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_json_has_them_for_every_token_and_no_infinities(engine, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", Stdin(b"", terminal=True))
    code = cli.main(
        ["run", "tiny", PROMPTS[0], "--json", "--logprobs", "3", "--top-k", "1", "--threads", "1",
         "--max-tokens", "8", "--repeat-penalty", "1.1"]
    )  # fmt: skip
    printed = capsys.readouterr().out
    answer = strictly(printed)
    assert code == 0
    assert printed.isascii()
    assert [entry["token"] for entry in answer["logprobs"]] == answer["tokens"]
    for entry in answer["logprobs"]:
        assert set(entry) == {"token", "text", "logprob", "final_logprob", "top", "final_top"}
        assert len(entry["top"]) == 3
        assert [a["token"] for a in entry["final_top"]] == [entry["token"]]
        assert entry["final_logprob"] == 0.0
        assert any(a["final_logprob"] is None for a in entry["top"])
        for alternative in (entry, *entry["top"]):
            assert alternative["text"] == engine.vocab.piece(alternative["token"]).decode(
                "utf-8", "replace"
            )


def test_infinity_is_null_in_json(engine):
    for token in range(engine.vocab.size):
        json.dumps(Alternative(token, -math.inf, -math.inf).as_dict(engine.vocab))
    found = Alternative(5, -1.0, -math.inf).as_dict(engine.vocab)
    assert (found["logprob"], found["final_logprob"]) == (-1.0, None)


def test_without_logprobs_json_has_no_such_key(command: Command):
    printed = command("run", "tiny", "hi", "--json", engine=FakeEngine())
    assert "logprobs" not in json.loads(printed.out)
