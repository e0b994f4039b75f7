"""With every lever on and off: the same greedy tokens in exact mode, the same law otherwise."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import pytest
from embedded import DRAFTER, NATIVE_GREEDY, PROMPTS, TARGET, chat_tokens
from test_law import N_TOKENS, law, p_value

from gemmachat import Engine, SamplingParams
from gemmachat.bridge_session import SessionHandle
from gemmachat.native_structs import NativeSampling, NativeSchedule, SessionParams

AUTO = -1
DRAFTS = {"off": 0, "3 drafts": 3, "7 drafts": 7, "as it pays": AUTO}
REPEATING = "red green blue red green blue red green blue red green"
EXIT_AND_HEAD = list(itertools.product((False, True), repeat=2))
N_SAMPLES = 1200
# Passes that cost little more with more rows, so that drafting pays.
CHEAP = NativeSchedule(NativeSchedule.PASSES(*(1 + 0.1 * i for i in range(8))), 0.02)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        yield engine


def opened(engine: Engine, *, complete: bool, dense: bool, exact: bool) -> SessionHandle:
    params = SessionParams(
        n_ctx=512,
        n_threads=1,
        exact=exact,
        trace_logits=True,
        no_early_exit=complete,
        dense_head=dense,
    )
    return SessionHandle(engine._handle, params, CHEAP)


def test_no_lever_changes_a_greedy_token_in_exact_mode(engine: Engine) -> None:
    prompts = [chat_tokens(engine, prompt) for prompt in (*PROMPTS[:30], REPEATING)]
    texts: dict[tuple[bool, bool, str], list[list[tuple[int, int]]]] = {}
    copied = drafted = 0
    for complete, dense in EXIT_AND_HEAD:
        handle = opened(engine, complete=complete, dense=dense, exact=True)
        handle.set_sampling(NATIVE_GREEDY)
        for name, n_draft in DRAFTS.items():
            texts[complete, dense, name] = []
            for prompt in prompts:
                handle.sync(prompt[:1])  # so that every answer starts from the same, empty cache
                handle.sync(prompt)
                text: list[tuple[int, int]] = []
                while len(text) < 24:
                    emitted = handle.step(n_draft, 24 - len(text))
                    text += [(token.id, token.logits_hash) for token in emitted]
                texts[complete, dense, name].append(text)
                copied += handle.stats().copied_drafted
                drafted += handle.stats().drafted
        handle.free()
    assert copied > 20
    assert drafted > copied + 1000
    first = texts[False, False, "off"]
    assert all(text == first for text in texts.values())


@pytest.mark.parametrize(("complete", "dense"), EXIT_AND_HEAD)
def test_no_lever_changes_the_law(engine: Engine, complete: bool, dense: bool) -> None:
    """Drafts as it pays, from the drafter and copied, for every way to prefill and to score."""
    params, prompt = SamplingParams(1.0), chat_tokens(engine, PROMPTS[18])
    expected = law(engine, prompt, params, 1.0 / N_SAMPLES)
    handle = opened(engine, complete=complete, dense=dense, exact=False)
    sampling = NativeSampling.of(params, 11)
    sampling.repeatable = True  # by the costs that it was given
    handle.set_sampling(sampling)
    seen: Counter[tuple[int, ...]] = Counter()
    drafted = 0
    for _ in range(N_SAMPLES):
        handle.sync(prompt)
        said: list[int] = []
        while len(said) < N_TOKENS and not (said and engine.vocab.is_end(said[-1])):
            said += [token.id for token in handle.step(AUTO, 16)]
        said = said[:N_TOKENS]
        seen[tuple(said + [-1] * (N_TOKENS - len(said)))] += 1
        drafted += handle.stats().drafted
    handle.free()
    assert drafted > N_SAMPLES / 2
    assert sum(mass * N_SAMPLES >= 5 for mass in expected.values()) > 10
    assert p_value(seen, expected) > 1e-3 / len(EXIT_AND_HEAD)
