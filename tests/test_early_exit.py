"""Prefill that ends its passes early leaves what complete passes leave, bit for bit.

Every comparison is with a session that does the same passes without ending them early.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import nano_checkpoint as nano
import numpy as np
import pytest
from embedded import DRAFTER, GREEDY, NATIVE_GREEDY, PROMPTS, TARGET, chat_tokens, probe
from gemmachat.converters import convert

from gemmachat import Engine, UsageError
from gemmachat.bridge import CancelledError
from gemmachat.bridge_session import SessionHandle
from gemmachat.native_structs import FLASH_ATTENTION, KV_TYPES, MAX_DRAFT, SessionParams
from gemmachat.stats import describe_early_exit

PASS = 512  # tokens of a prefill pass
SHARING, ALONE = ("e2b", "e4b"), ("12b", "31b")
CACHES = {
    "F16, flash attention": {"kv_type": KV_TYPES["f16"], "flash_attention": FLASH_ATTENTION[True]},
    "F16": {"kv_type": KV_TYPES["f16"], "flash_attention": FLASH_ATTENTION[False]},
    "Q8_0": {"kv_type": KV_TYPES["q8_0"], "flash_attention": FLASH_ATTENTION[None]},
}
every_cache = pytest.mark.parametrize("cache", CACHES.values(), ids=CACHES)

Open = Callable[..., SessionHandle]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        yield engine


@pytest.fixture(scope="module")
def without_drafter() -> Iterator[Engine]:
    with Engine.load(TARGET, threads=1) as engine:
        yield engine


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Engine]]:
    """Random pairs in the shapes of the family, F32."""
    root = tmp_path_factory.mktemp("nano")
    with ExitStack() as stack:
        engines = {}
        for name in (*SHARING, *ALONE):
            files: list[Path] = []
            for folder in nano.write_pair(root, name):
                files.append(root / f"{folder.name}.gguf")
                convert(folder, files[-1], quant="F32")
            engines[name] = stack.enter_context(Engine.load(*files, threads=1))
        yield engines


@pytest.fixture
def open_session() -> Iterator[Open]:
    """Open native sessions, which are freed after the test."""
    handles: list[SessionHandle] = []

    def open_one(engine: Engine, **params: Any) -> SessionHandle:
        traced = SessionParams(**{"n_ctx": 2048, "n_threads": 1, "trace_logits": True} | params)
        handles.append(SessionHandle(engine._handle, traced))
        handles[-1].set_sampling(NATIVE_GREEDY)
        return handles[-1]

    yield open_one
    for handle in handles:
        handle.free()


@pytest.fixture(scope="module")
def text(engine: Engine) -> list[int]:
    """More than 4,000 tokens of conversation."""
    return [token for prompt in PROMPTS for token in chat_tokens(engine, prompt)]


def held(handle: SessionHandle) -> dict[str, Any]:
    """All that a timeline is."""
    found = handle.inspect()
    names = ("n_committed", "n_cached", "position_max", "state_bytes", "hidden_hash")
    return {"kv": handle.kv_hash(), **{name: getattr(found, name) for name in names}}


def said(handle: SessionHandle, n_draft: int, rounds: int = 3) -> list[tuple[int, bool, int]]:
    """Greedy tokens of some rounds, with the bits of the logits behind them."""
    tokens = [token for _ in range(rounds) for token in handle.step(n_draft, 100)]
    return [(token.id, token.from_draft, token.logits_hash) for token in tokens]


def assert_same(exiting: SessionHandle, complete: SessionHandle, n_draft: int) -> None:
    """The sessions hold the same bits now and after some rounds."""
    assert held(exiting) == held(complete)
    assert np.array_equal(probe(exiting), probe(complete))
    assert said(exiting, n_draft) == said(complete, n_draft)
    assert held(exiting) == held(complete)


def assert_all_exited(handle: SessionHandle) -> None:
    assert handle.stats().exited_tokens == handle.stats().prefilled_tokens


@every_cache
@pytest.mark.parametrize("length", [2, 3, 40, PASS + 1, PASS + 2, 1100])
def test_a_prompt_leaves_the_same_bits(engine, open_session, text, cache, length):
    exiting = open_session(engine, **cache)
    complete = open_session(engine, no_early_exit=True, **cache)
    for handle in (exiting, complete):
        handle.sync(text[:length])
    assert exiting.stats().exited_tokens == exiting.stats().prefilled_tokens == length - 1
    assert complete.stats().exited_tokens == 0
    assert complete.stats().prefilled_tokens == length - 1
    assert_same(exiting, complete, 3)


def test_a_prompt_of_4000_tokens_leaves_the_same_bits(engine, open_session, text):
    exiting = open_session(engine, n_ctx=4096)
    complete = open_session(engine, n_ctx=4096, no_early_exit=True)
    for handle in (exiting, complete):
        handle.sync(text[:4000])
    assert_all_exited(exiting)
    assert_same(exiting, complete, 3)


def assert_same_whatever_comes(
    exiting: SessionHandle, complete: SessionHandle, text: list[int], window: int
) -> None:
    """Both grow, go back within the window, go back beyond it, and wrap around it."""
    ends = (40, 60, 60, 61, 2 * window + 50, 2 * window + 30, 45, 2, 1, PASS + 2 * window)
    for n_draft, end in zip((0, 3, MAX_DRAFT) * len(ends), ends, strict=False):
        for handle in (exiting, complete):
            handle.sync(text[:end])
        assert_all_exited(exiting)
        assert exiting.stats().cached_tokens == complete.stats().cached_tokens
        assert_same(exiting, complete, n_draft)


@every_cache
@pytest.mark.parametrize("exact", [False, True])
def test_timelines_that_grow_and_go_back_hold_the_same_bits(
    engine, open_session, text, cache, exact
):
    exiting = open_session(engine, exact=exact, **cache)
    complete = open_session(engine, exact=exact, no_early_exit=True, **cache)
    assert_same_whatever_comes(exiting, complete, text, window=128)


def test_without_a_drafter_the_bits_are_the_same_too(without_drafter, open_session, text):
    exiting = open_session(without_drafter)
    complete = open_session(without_drafter, no_early_exit=True)
    assert_same_whatever_comes(exiting, complete, text, window=128)


@pytest.mark.parametrize("cache", ["F16, flash attention", "F16"])
@pytest.mark.parametrize("name", SHARING)
def test_small_models_in_the_shapes_of_the_family_hold_the_same_bits(
    family, open_session, name, cache
):
    rng = np.random.default_rng(0)
    text = [int(token) for token in rng.integers(8, nano.VOCAB, 600)]
    exiting = open_session(family[name], **CACHES[cache])
    complete = open_session(family[name], no_early_exit=True, **CACHES[cache])
    assert_same_whatever_comes(exiting, complete, text, nano.WINDOW)


@pytest.mark.parametrize("exact", [False, True])
def test_greedy_texts_are_the_same_whatever_is_drafted(engine, open_session, exact):
    exiting = open_session(engine, exact=exact)
    complete = open_session(engine, exact=exact, no_early_exit=True)
    for prompt in PROMPTS[:10]:
        tokens = chat_tokens(engine, prompt)
        texts = []
        for n_draft in (0, 3, MAX_DRAFT):
            for handle in (exiting, complete):
                handle.sync(tokens)
            texts.append(said(exiting, n_draft, rounds=8))
            assert texts[-1] == said(complete, n_draft, rounds=8)
        if exact:  # the promise: one text, whatever is drafted
            for handle in (exiting, complete):
                handle.sync(tokens)
                texts.append(said(handle, -1, rounds=8))
            whole = [[(token, bits) for token, _, bits in text] for text in texts]
            assert all(text[: len(whole[0])] == whole[0] for text in whole)


@pytest.mark.parametrize("length", [2, 3, 40, PASS + 2, 1100])
def test_an_exit_one_layer_early_is_noticed(engine, open_session, text, length):
    """The comparisons above can fail: here the last layer that owns keys and values is missing."""
    short = open_session(engine, exit_node=b"l_out-2")
    complete = open_session(engine, no_early_exit=True)
    for handle in (short, complete):
        handle.sync(text[:length])
    assert_all_exited(short)
    assert short.kv_hash() != complete.kv_hash()
    assert not np.array_equal(probe(short), probe(complete))
    assert said(short, 0, rounds=1) != said(complete, 0, rounds=1)


@pytest.mark.parametrize("node", [b"l_out-99", b"l_out", b"", b"L_OUT-3"])
def test_where_the_node_is_not_seen_the_pass_is_complete_and_that_is_reported(
    engine, open_session, text, node
):
    unseen, complete = (
        open_session(engine, exit_node=node),
        open_session(engine, no_early_exit=True),
    )
    for handle in (unseen, complete):
        handle.sync(text[:600])
    stats = unseen.stats()
    assert (stats.exited_tokens, stats.prefilled_tokens) == (0, 599)
    assert describe_early_exit(stats, engine.skipped_layers, enabled=True) == (
        "node not seen: full prefill"
    )
    assert_same(unseen, complete, 3)


def test_cancel_in_prefill_leaves_what_complete_passes_leave(engine, open_session, text):
    prompt = text[:1060]
    rng = random.Random(0)
    left = set()
    for _ in range(16):
        handle = open_session(engine)
        handle.sync(prompt[:20])
        handle.cancel_at_poll(rng.randrange(1, 280))
        try:
            handle.sync(prompt)
        except CancelledError:
            found = handle.inspect()
            left.add(found.n_committed)
            assert found.n_cached == found.position_max + 1 == found.n_committed - 1
            assert not found.has_hidden
            complete = open_session(engine, no_early_exit=True)
            complete.sync(prompt[:20])
            complete.sync(prompt[: found.n_committed])
            assert held(handle) == held(complete)
        handle.clear_cancel()
        handle.sync(prompt)
        assert handle.inspect().n_cached == len(prompt) - 1
        assert handle.step(3, 1)
        handle.free()
    assert left == {20, 20 + PASS, 20 + 2 * PASS}


def test_the_first_round_yields_the_hidden_row_and_the_next_one_drafts(engine, open_session):
    tokens = chat_tokens(engine, PROMPTS[0])
    handle = open_session(engine)
    for _ in range(2):  # also where the row was known before
        handle.sync(tokens)
        assert not handle.inspect().has_hidden
        assert len(handle.step(3, 100)) == 1
        assert (handle.stats().drafted, handle.inspect().has_hidden) == (0, True)
        handle.step(3, 100)
        assert handle.stats().drafted == 3
        known = handle.inspect().n_committed
    handle.sync([*tokens, 9])
    assert known > len(tokens)
    assert not handle.inspect().has_hidden


@pytest.mark.parametrize("name", ALONE)
def test_models_whose_layers_all_own_keys_and_values_prefill_in_full(family, open_session, name):
    engine = family[name]
    tokens = nano.prompt(name)
    handle = open_session(engine, n_ctx=512)
    handle.sync(tokens)
    stats = handle.stats()
    assert len(engine.skipped_layers) == 0
    assert (stats.exited_tokens, stats.prefilled_tokens) == (0, len(tokens) - 1)
    assert describe_early_exit(stats, engine.skipped_layers, enabled=True) == "not applicable"
    # Their prefill yields the hidden row, so that the first round drafts.
    assert handle.inspect().has_hidden
    handle.step(3, 100)
    assert handle.stats().drafted == 3


@pytest.mark.parametrize(("name", "first"), [("e2b", 4), ("e4b", 3)])
def test_the_layers_left_out_are_those_that_share(family, name, first):
    assert family[name].skipped_layers == range(first, 6)


def test_answers_report_what_prefill_left_out(engine):
    tokens = chat_tokens(engine, PROMPTS[0])
    with engine.session(n_ctx=256) as session:
        for expected in (len(tokens) - 1, 0):  # the second time all is cached
            list(session.generate(tokens, GREEDY, max_tokens=2))
            assert session.stats().exited_tokens == expected
            assert session.stats().early_exit == "on, layers 4-7 skipped in prefill"
    with engine.session(n_ctx=256, no_early_exit=True) as session:
        list(session.generate(tokens, GREEDY, max_tokens=2))
        assert session.stats().exited_tokens == 0
        assert session.stats().early_exit == "off"


def fnv(row: list[float]) -> int:
    """The fingerprint of native/hash.h."""
    value = 0xCBF29CE484222325
    for word in np.array(row, np.float32).view(np.uint32).tolist():
        value = (value ^ word) * 0x100000001B3 % 2**64
    return value


def test_rows_of_a_node_are_those_that_llama_cpp_hands_out(engine, open_session):
    """`result_norm` is the hidden row, which llama.cpp copies out on its own way."""
    width = 256
    bos = engine.vocab.control("<bos>")
    handle = open_session(engine, n_ctx=64)
    handle.sync([bos])
    handle.step(0, 1)
    row = engine._handle.node_rows([bos], "result_norm", width)
    assert row is not None
    assert fnv(row) == handle.inspect().hidden_hash
    assert engine._handle.node_rows([bos], "result_norm", width + 1) is None
    assert engine._handle.node_rows([bos], "no such node", width) is None


def test_the_cache_is_of_the_type_that_is_asked_for(engine):
    sizes = {}
    for kv_type in KV_TYPES:
        with engine.session(n_ctx=256, kv_type=kv_type) as session:
            list(session.generate(chat_tokens(engine, PROMPTS[0]), GREEDY, max_tokens=9))
            sizes[kv_type] = session.inspect().state_bytes
    assert 0.4 < sizes["q8_0"] / sizes["f16"] < 0.65


def test_impossible_caches_are_refused(engine):
    with pytest.raises(UsageError, match="q8_0 need flash attention"):
        engine.session(kv_type="q8_0", flash_attention=False)
    with pytest.raises(UsageError, match="f16, q8_0, not f32"):
        engine.session(kv_type="f32")
    for params in ({"kv_type": 2}, {"flash_attention": 3}, {"kv_type": 1, "flash_attention": 1}):
        with pytest.raises(UsageError):
            SessionHandle(engine._handle, SessionParams(n_ctx=64, n_threads=1, **params))
