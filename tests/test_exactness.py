"""Drafting changes speed, never output: bit for bit where that is promised, by law elsewhere."""

from __future__ import annotations

import ctypes
import resource
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from embedded import (
    DRAFTER,
    NATIVE_GREEDY,
    PROMPTS,
    TARGET,
    chat_tokens,
    open_handle,
    probe,
    requantize,
)

from gemmachat import Engine, SamplingParams
from gemmachat.bridge_session import SessionHandle
from gemmachat.native_structs import MAX_WIDTH, NativeSampling, SessionParams

DRAFTS = (1, 2, 3, 4, 7)
TYPES = ("Q8_0", "F16", "Q4_0", "Q4_K_M")
N_TOKENS = 32
N_WORKERS = 2


@pytest.fixture(scope="session")
def targets(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("types")
    return {
        ftype: TARGET if ftype == "Q8_0" else requantize(TARGET, folder / f"{ftype}.gguf", ftype)
        for ftype in TYPES
    }


def answer(
    handle: SessionHandle, engine: Engine, prompt: list[int], n_draft: int
) -> list[tuple[int, int]]:
    """The greedy answer as (token, hash of its logits row), cut at the end of the turn."""
    handle.sync(prompt[:1])  # so that every answer starts from the same, empty cache
    handle.sync(prompt)
    emitted: list[tuple[int, int]] = []
    while len(emitted) < N_TOKENS:
        emitted += [(t.id, t.logits_hash) for t in handle.step(n_draft, N_TOKENS - len(emitted))]
        if engine.vocab.is_end(emitted[-1][0]):
            break
    return emitted


def answers(
    engine: Engine, prompts: list[list[int]], *, exact: bool
) -> dict[int, list[list[tuple[int, int]]]]:
    """Every prompt's answer for every draft length, 0 being off."""

    def some(part: list[list[int]]) -> dict[int, list[list[tuple[int, int]]]]:
        handle = open_handle(engine, n_ctx=512, exact=exact, trace=True)
        done = {
            n_draft: [answer(handle, engine, prompt, n_draft) for prompt in part]
            for n_draft in (0, *DRAFTS)
        }
        handle.free()
        return done

    parts = [prompts[i::N_WORKERS] for i in range(N_WORKERS)]
    with ThreadPoolExecutor(N_WORKERS) as pool:
        done = list(pool.map(some, parts))
    return {n_draft: [a for part in done for a in part[n_draft]] for n_draft in (0, *DRAFTS)}


def in_worker_order(prompts: list[list[int]]) -> list[list[int]]:
    return [prompt for i in range(N_WORKERS) for prompt in prompts[i::N_WORKERS]]


@pytest.mark.parametrize("ftype", TYPES)
def test_exact_mode_gives_the_same_tokens_from_the_same_bits_whatever_is_drafted(targets, ftype):
    with Engine.load(targets[ftype], DRAFTER, threads=1) as engine:
        prompts = [chat_tokens(engine, prompt) for prompt in PROMPTS[:200]]
        assert len(prompts) == 200
        by_draft = answers(engine, prompts, exact=True)
        for n_draft in DRAFTS:
            assert by_draft[n_draft] == by_draft[0], f"{ftype}, draft {n_draft}"
        assert len({tuple(a) for a in by_draft[0]}) > 50, "the answers are all alike"


# Held-out prompts, and pairs of them as one text each: 500 in all.
PAIRS = [(i, i + step) for step in (1, 2) for i in range(len(PROMPTS) - step)]
MANY_PROMPTS = (*PROMPTS, *(f"{PROMPTS[i]} {PROMPTS[j]}" for i, j in PAIRS))[:500]
OBJECT = 'root ::= "{" [^{}]{0,60} "}"'
RULES = {
    "nothing else": SamplingParams(0.0),
    "penalties": SamplingParams(
        0.0, repeat_penalty=1.3, repeat_last_n=-1, presence_penalty=0.5, frequency_penalty=0.4
    ),
    "grammar": SamplingParams(0.0, grammar=OBJECT),
}


@pytest.mark.parametrize("rule", RULES)
def test_exact_mode_holds_for_five_hundred_prompts_under(rule: str):
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        prompts = [chat_tokens(engine, prompt) for prompt in MANY_PROMPTS]
        assert len(prompts) == 500

        def some(part: list[list[int]]) -> list[list[list[tuple[int, int]]]]:
            handle = open_handle(engine, n_ctx=512, exact=True, trace=True)
            handle.set_sampling(NativeSampling.of(RULES[rule], 0))
            done = [[answer(handle, engine, prompt, n) for n in (0, 3, 7)] for prompt in part]
            assert handle.stats().rounds > 0
            handle.free()
            return done

        with ThreadPoolExecutor(N_WORKERS) as pool:
            parts = list(pool.map(some, (prompts[i::N_WORKERS] for i in range(N_WORKERS))))
    for off, three, seven in (answers for part in parts for answers in part):
        assert three == off
        assert seven == off


def test_exact_mode_holds_while_the_sliding_window_moves_on():
    """800 tokens: without a cell for every position, cells would have been used again by now.

    Drafts that are all accepted meet the end of the ring elsewhere than single tokens do.
    """
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        prompt = chat_tokens(engine, " ".join(PROMPTS))[:720]
        handle = open_handle(engine, exact=True, trace=True)
        handle.sync(prompt)
        plain = [(t.id, t.logits_hash) for _ in range(90) for t in handle.step(0, 1)]
        for n_draft in (3, 7):
            handle.sync(prompt[:1])
            handle.sync(prompt)
            emitted: list[tuple[int, int]] = []
            while len(emitted) < 90:
                ahead = ids(plain)[len(emitted) : len(emitted) + n_draft]
                emitted += [(t.id, t.logits_hash) for t in handle.verify(ahead, 90 - len(emitted))]
            assert handle.stats().accepted == handle.stats().drafted
            assert emitted == plain


def test_exact_mode_holds_with_two_threads():
    with Engine.load(TARGET, DRAFTER, threads=2) as engine:
        runs = []
        for n_draft in (0, 3, 7):
            params = SessionParams(n_ctx=512, n_threads=2, exact=True, trace_logits=True)
            handle = SessionHandle(engine._handle, params)
            handle.set_sampling(NATIVE_GREEDY)
            prompts = [chat_tokens(engine, prompt) for prompt in PROMPTS[:10]]
            runs.append([answer(handle, engine, prompt, n_draft) for prompt in prompts])
            handle.free()
        assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize("ftype", TYPES)
def test_default_mode_parts_from_it_only_at_near_ties(targets, ftype, record_property):
    with Engine.load(targets[ftype], DRAFTER, threads=1) as engine:
        prompts = [chat_tokens(engine, prompt) for prompt in PROMPTS[:200]]
        by_draft = answers(engine, prompts, exact=False)
        ordered = in_worker_order(prompts)
        checker = open_handle(engine, n_ctx=512)
        for n_draft in DRAFTS:
            parted = [i for i in range(200) if ids(by_draft[n_draft][i]) != ids(by_draft[0][i])]
            record_property(f"identical_{ftype}_draft_{n_draft}", 200 - len(parted))
            print(f"{ftype} draft {n_draft}: {200 - len(parted)} of 200 texts identical")
            for i in parted:
                assert_near_tie(checker, ordered[i], ids(by_draft[0][i]), ids(by_draft[n_draft][i]))


def ids(emitted: list[tuple[int, int]]) -> list[int]:
    return [token for token, _ in emitted]


def assert_near_tie(
    handle: SessionHandle, prompt: list[int], one: list[int], two: list[int]
) -> None:
    """At the first difference, pass width alone moves the two logits as far as they are apart."""
    at = next(i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b)
    prefix = prompt + one[:at]
    gaps = []
    for step in (1, 2, 4, MAX_WIDTH, 512):
        handle.sync(prompt[:1])
        for end in range(len(prompt), len(prefix), step):
            handle.sync(prefix[:end])
        handle.sync(prefix)
        for width in range(1, MAX_WIDTH + 1):
            logits = probe(handle, width)
            gaps.append(float(logits[one[at]] - logits[two[at]]))
    noise = max(gaps) - min(gaps)
    assert min(abs(gap) for gap in gaps) <= 2 * noise, f"gap {min(gaps)}, noise {noise}"


linux_only = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads /proc and trims glibc's heap"
)


@linux_only
def test_two_thousand_answers_leak_nothing():
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        prompts = [chat_tokens(engine, prompt) for prompt in PROMPTS[:50]]
        handle = open_handle(engine, n_ctx=512)
        after_warmup = 0
        for i in range(2000):
            handle.sync(prompts[i % len(prompts)])
            handle.set_sampling(NATIVE_GREEDY)
            for _ in range(3):
                handle.step(3, 100)
            if i == 100:
                after_warmup = resident_bytes()
        grown = resident_bytes() - after_warmup
        assert grown < 2 * 2**20, f"{grown} bytes more after 1,900 answers"


@linux_only
def test_two_hundred_sessions_leak_nothing():
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        prompt = chat_tokens(engine, PROMPTS[0])
        after_warmup = 0
        for i in range(200):
            handle = open_handle(engine, n_ctx=512)
            handle.sync(prompt)
            handle.step(3, 100)
            handle.free()
            if i == 50:
                after_warmup = resident_bytes()
        grown = resident_bytes() - after_warmup
        assert grown < 4 * 2**20, f"{grown} bytes more after 150 sessions"


def resident_bytes() -> int:
    """Resident memory, without what the allocator keeps for later."""
    ctypes.CDLL(None).malloc_trim(0)
    with Path("/proc/self/statm").open() as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()
