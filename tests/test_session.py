"""A session's bookkeeping: whatever way a round ends, no trace of it may stay behind."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from embedded import (
    DRAFTER,
    GREEDY,
    PROMPTS,
    TARGET,
    chat_tokens,
    fill_tensor,
    open_handle,
    probe,
    scramble,
)

from gemmachat import (
    ContextFullError,
    DamagedFileError,
    Engine,
    EngineError,
    SamplingParams,
    UsageError,
)
from gemmachat.bridge import CancelledError
from gemmachat.bridge_session import SessionHandle
from gemmachat.native_structs import MAX_DRAFT, MAX_WIDTH


@pytest.fixture(scope="module")
def engine():
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        yield engine


def noise_of(engine: Engine, tokens: list[int]) -> float:
    """How far the logits after these tokens move with the widths of the passes that led there."""
    logits = []
    for width in (1, 2, 4, MAX_WIDTH, 512):
        handle = open_handle(engine, n_ctx=2048)
        for end in range(2, len(tokens), width):
            handle.sync(tokens[:end])
        handle.sync(tokens)
        logits.append(probe(handle))
        handle.free()
    return float(max(np.abs(one - two).max() for one in logits for two in logits))


@pytest.fixture(scope="module")
def noise(engine) -> float:
    """Twice the width noise measured on a long timeline; more than this is not noise."""
    return 2 * noise_of(engine, chat_tokens(engine, " ".join(PROMPTS))[:600])


def assert_like_fresh(
    handle: SessionHandle, tokens: list[int], engine: Engine, noise: float, **kind
) -> None:
    """The session cannot be told from a new one that was given the same tokens."""
    fresh = open_handle(engine, **kind)
    fresh.sync(tokens)
    ours, theirs = handle.inspect(), fresh.inspect()
    for field in ("n_committed", "n_cached", "position_max", "state_bytes"):
        assert getattr(ours, field) == getattr(theirs, field), field
    assert ours.n_committed == len(tokens)
    assert ours.n_cached == ours.position_max + 1 == len(tokens) - 1
    assert np.abs(probe(handle) - probe(fresh)).max() < noise
    # What is drafted next is judged the same.
    ours_next = handle.step(3, 100)[0].id
    theirs_next = fresh.step(3, 100)[0].id
    assert ours_next == theirs_next or near_tie(fresh, tokens, ours_next, theirs_next, noise)
    fresh.free()


def near_tie(handle: SessionHandle, tokens: list[int], one: int, two: int, noise: float) -> bool:
    handle.sync(tokens)
    logits = probe(handle)
    return abs(logits[one] - logits[two]) < noise


def test_a_round_commits_what_it_emits_and_nothing_else(engine, noise):
    for prompt in PROMPTS[:6]:
        tokens = chat_tokens(engine, prompt)
        for n_draft in (0, 1, 3, MAX_DRAFT):
            handle = open_handle(engine)
            handle.sync(tokens)
            timeline = list(tokens)
            for _ in range(5):
                timeline += [t.id for t in handle.step(n_draft, 100)]
                if engine.vocab.is_end(timeline[-1]):
                    break
            assert_like_fresh(handle, timeline, engine, noise)
            handle.free()


def test_rejected_tokens_leave_no_trace_in_kv(engine, noise):
    tokens = chat_tokens(engine, PROMPTS[0])
    handle = open_handle(engine)
    handle.sync(tokens)
    answer = [t.id for t in handle.step(0, 1)]
    handle.sync(tokens)
    wrong = [(answer[0] + i) % engine.vocab.size for i in range(1, MAX_DRAFT + 1)]
    emitted = handle.verify(wrong, 100)
    assert [t.id for t in emitted] == answer
    assert not emitted[0].from_draft
    assert_like_fresh(handle, tokens + answer, engine, noise)


def test_a_perfect_draft_is_accepted_whole_and_the_output_is_the_same(engine):
    tokens = chat_tokens(engine, PROMPTS[1])
    handle = open_handle(engine, exact=True)
    handle.sync(tokens)
    greedy = [t.id for _ in range(24) for t in handle.step(0, 1)]
    greedy = up_to_end(engine, greedy)

    handle.sync(tokens)
    emitted: list[int] = []
    while len(emitted) < len(greedy):
        ahead = greedy[len(emitted) : len(emitted) + MAX_DRAFT]
        emitted += [t.id for t in handle.verify(ahead, len(greedy) - len(emitted))]
    assert emitted == greedy
    stats = handle.stats()
    assert stats.accepted == stats.drafted > 0


def up_to_end(engine: Engine, tokens: list[int]) -> list[int]:
    for i, token in enumerate(tokens):
        if engine.vocab.is_end(token):
            return tokens[: i + 1]
    return tokens


def test_a_drafter_with_scrambled_weights_changes_speed_only(engine, tmp_path):
    wrong = scramble(DRAFTER, tmp_path / "wrong.gguf")
    with Engine.load(TARGET, wrong, threads=1) as misled:
        for prompt in PROMPTS[:12]:
            tokens = chat_tokens(engine, prompt)
            texts, accepted = [], []
            for pair, draft in ((engine, "off"), (engine, 4), (misled, 4)):
                with pair.session(n_ctx=512, exact=True) as session:
                    events = session.generate(tokens, GREEDY, draft=draft, max_tokens=40)
                    texts.append([event.token for event in events])
                    accepted.append(session.stats().acceptance_rate)
            assert texts[0] == texts[1] == texts[2]
            assert accepted[2] < 0.5


def test_the_end_of_the_turn_inside_a_draft_ends_the_answer_there(engine, noise):
    ended_inside = 0
    for prompt in PROMPTS[:12]:
        tokens = chat_tokens(engine, prompt)
        handle = open_handle(engine)
        handle.sync(tokens)
        greedy = up_to_end(engine, [t.id for _ in range(80) for t in handle.step(0, 1)])
        if not engine.vocab.is_end(greedy[-1]):
            continue
        ended_inside += 1
        before = len(greedy) // 2
        handle.sync(tokens + greedy[:before])
        emitted: list[int] = []
        while not emitted or not engine.vocab.is_end(emitted[-1]):
            ahead = [*greedy[before + len(emitted) :], 7, 8, 9, 10, 11, 12][:MAX_DRAFT]
            emitted += [t.id for t in handle.verify(ahead, 100)]
        assert emitted == greedy[before:]
        assert_like_fresh(handle, tokens + greedy, engine, noise)
        handle.free()
    assert ended_inside > 5


def test_a_token_limit_inside_a_draft_is_kept_to_the_token(engine, noise):
    tokens = chat_tokens(engine, PROMPTS[2])
    for limit in range(1, 12):
        handle = open_handle(engine)
        handle.sync(tokens)
        timeline = list(tokens)
        while len(timeline) - len(tokens) < limit:
            timeline += [
                t.id for t in handle.step(MAX_DRAFT, limit - (len(timeline) - len(tokens)))
            ]
        assert len(timeline) - len(tokens) == limit
        assert_like_fresh(handle, timeline, engine, noise)
        handle.free()


@pytest.mark.parametrize("exact", [False, True])
def test_a_context_that_fills_inside_a_draft_holds_exactly_its_size(engine, noise, exact):
    tokens = chat_tokens(engine, PROMPTS[3])
    for n_ctx in range(len(tokens) + 1, len(tokens) + 10):
        handle = open_handle(engine, n_ctx=n_ctx, exact=exact)
        handle.sync(tokens)
        timeline = list(tokens)
        while len(timeline) < n_ctx:
            timeline += [t.id for t in handle.step(MAX_DRAFT, 100)]
        with pytest.raises(ContextFullError, match=str(n_ctx)):
            handle.step(MAX_DRAFT, 100)
        assert len(timeline) == n_ctx
        bigger = open_handle(engine, n_ctx=n_ctx + 64, exact=exact)
        bigger.sync(timeline)
        assert np.abs(probe(handle) - probe(bigger)).max() < noise
        assert handle.inspect().n_cached == bigger.inspect().n_cached
        handle.free()
        bigger.free()


def test_cancel_in_prefill_leaves_a_session_like_a_fresh_one(engine, noise):
    prompt = chat_tokens(engine, " ".join(PROMPTS))[:1200]
    left = set()
    for poll in (1, 2, 80, 160, 240, 320):
        handle = open_handle(engine, n_ctx=2048)
        handle.sync(prompt[:20])
        handle.cancel_at_poll(poll)
        with pytest.raises(CancelledError):
            handle.sync(prompt)
        n_kept = handle.inspect().n_committed
        left.add(n_kept)
        assert_like_fresh(handle, prompt[:n_kept], engine, noise, n_ctx=2048)
        handle.sync(prompt)
        assert_like_fresh(handle, prompt, engine, noise, n_ctx=2048)
        handle.free()
    assert len(left) > 1, "every cancel came in the same pass"


def test_cancel_in_drafting_and_in_verifying_leaves_a_session_like_a_fresh_one(engine, noise):
    prompt = chat_tokens(engine, PROMPTS[0])
    interrupted: Counter[str] = Counter()
    for poll in range(1, 10_000, 45):
        handle = open_handle(engine)
        handle.sync(prompt)
        timeline = prompt + [token.id for token in handle.step(0, 1)]
        before = handle.inspect()
        first_round_s = handle.stats().verify_s
        handle.cancel_at_poll(poll)
        try:
            handle.step(MAX_DRAFT, 100)
            break  # the round has fewer polls
        except CancelledError:
            verified = handle.stats().verify_s > first_round_s
            interrupted["verify" if verified else "draft"] += 1
        assert bytes(handle.inspect()) == bytes(before)
        assert_like_fresh(handle, timeline, engine, noise)
        handle.free()
    assert min(interrupted["draft"], interrupted["verify"]) > 1, interrupted


def test_cancel_before_a_call_stops_that_call_and_no_other(engine):
    prompt = chat_tokens(engine, PROMPTS[0])
    handle = open_handle(engine)
    handle.cancel()
    with pytest.raises(CancelledError):
        handle.sync(prompt)
    handle.sync(prompt)
    handle.cancel()
    with pytest.raises(CancelledError):
        handle.step(3, 100)
    assert len(handle.step(3, 100)) >= 1


def test_a_round_that_fails_leaves_the_session_as_it_was(engine, tmp_path):
    """Logits that are not numbers are noticed after the pass, when its rows are in the cache."""
    broken = fill_tensor(TARGET, tmp_path / "nan.gguf", "output_norm.weight", np.nan)
    with Engine.load(broken, threads=1) as bad:
        tokens = chat_tokens(bad, PROMPTS[0])
        handle = open_handle(bad)
        handle.sync(tokens)
        before = bytes(handle.inspect())
        for _ in range(3):
            with pytest.raises(DamagedFileError, match="is damaged"):
                handle.verify([5, 6, 7], 100)
            assert bytes(handle.inspect()) == before
        handle.sync([*tokens, 9])
        assert handle.inspect().n_cached == len(tokens)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("broken", ["target", "drafter"])
def test_the_file_whose_weights_give_no_numbers_is_blamed_by_name(broken, value, tmp_path):
    files = {"target": TARGET, "drafter": DRAFTER}
    path = tmp_path / f"broken {broken}.gguf"
    files[broken] = fill_tensor(files[broken], path, "output_norm.weight", value)
    with Engine.load(files["target"], files["drafter"], threads=1) as pair:
        tokens = chat_tokens(pair, PROMPTS[0])
        with pair.session(n_ctx=512) as session:
            with pytest.raises(DamagedFileError, match=f"broken {broken}.gguf is damaged"):
                list(session.generate(tokens, GREEDY, draft=3))
            if broken == "drafter":
                assert len(list(session.generate(tokens, GREEDY, draft="off", max_tokens=5))) == 5


def test_the_hidden_row_is_that_of_the_row_that_produced_the_last_token(engine):
    """At one pass width its bits are those of a session that drafted nothing."""
    for prompt in PROMPTS[:8]:
        tokens = chat_tokens(engine, prompt)
        handle = open_handle(engine, exact=True)
        handle.sync(tokens)
        by_length = {}
        for _ in range(40):
            if engine.vocab.is_end(handle.step(0, 1)[0].id):
                break
            by_length[handle.inspect().n_committed] = handle.inspect().hidden_hash
        for n_draft in (1, 3, MAX_DRAFT):
            handle.sync(tokens[:1])
            handle.sync(tokens)
            while True:
                handle.step(n_draft, 100)
                seen = handle.inspect()
                if seen.n_committed not in by_length:
                    break
                assert seen.hidden_hash == by_length[seen.n_committed]
        handle.free()


def test_a_cancelled_answer_reports_it_and_the_next_one_is_whole(engine):
    tokens = chat_tokens(engine, PROMPTS[4])
    with engine.session(n_ctx=512, exact=True) as session:
        whole = [e.token for e in session.generate(tokens, GREEDY, max_tokens=30)]
        events = []
        for event in session.generate(tokens, GREEDY, max_tokens=30):
            events.append(event)
            session.cancel()
        assert events[-1].finish_reason == "cancelled"
        assert len(events) < len(whole)
        again = [e.token for e in session.generate(tokens, GREEDY, max_tokens=30)]
    assert again == whole


def test_a_cancel_while_the_prompt_is_being_prepared_stops_its_prefill(engine):
    tokens = chat_tokens(engine, PROMPTS[4])
    with engine.session(n_ctx=512) as session:
        session.cancel()
        events = list(session.generate(tokens, GREEDY, max_tokens=5))
        assert [(e.token, e.finish_reason) for e in events] == [(None, "cancelled")]
        assert session.inspect().n_cached == 0
        assert len(list(session.generate(tokens, GREEDY, max_tokens=5))) == 5


def test_a_cancel_that_comes_after_the_last_token_does_not_touch_the_next_answer(engine):
    tokens = chat_tokens(engine, PROMPTS[4])
    with engine.session(n_ctx=512) as session:
        for event in session.generate(tokens, GREEDY, max_tokens=5):
            if event.finish_reason:
                session.cancel()
        assert len(list(session.generate(tokens, GREEDY, max_tokens=5))) == 5


def test_past_the_sliding_window_the_session_is_still_like_a_fresh_one(engine, noise):
    """1,100 tokens: the ring of the sliding layers has wrapped around."""
    timeline = chat_tokens(engine, " ".join(PROMPTS))[:1000]
    handle = open_handle(engine, n_ctx=2048)
    handle.sync(timeline)
    while len(timeline) < 1100:
        timeline += [t.id for t in handle.step(MAX_DRAFT, 100)]
    assert_like_fresh(handle, timeline, engine, noise, n_ctx=2048)


def test_a_shorter_prompt_after_a_long_one_starts_from_the_right_cells(engine, noise):
    long = chat_tokens(engine, " ".join(PROMPTS))[:1500]
    handle = open_handle(engine, n_ctx=2048)
    for length in (1500, 1498, 1300, 40, 900, 2, 1, 1500):
        handle.sync(long[:length])
        fresh = open_handle(engine, n_ctx=2048)
        fresh.sync(long[:length])
        assert np.abs(probe(handle) - probe(fresh)).max() < noise, length
        assert handle.inspect().has_hidden == fresh.inspect().has_hidden
        fresh.free()


def test_the_next_turn_computes_only_what_is_new(engine):
    tokens = chat_tokens(engine, PROMPTS[5])
    with engine.session(n_ctx=1024) as session:
        answer = [e.token for e in session.generate(tokens, GREEDY, max_tokens=30)]
        assert session.stats().cached_tokens == 0
        following = tokens + answer + chat_tokens(engine, "And then?")[1:]
        list(session.generate(following, GREEDY, max_tokens=3))
        assert session.stats().cached_tokens == len(tokens) + len(answer) - 1


def test_sampled_text_repeats_with_its_seed_and_differs_without(engine):
    tokens = chat_tokens(engine, PROMPTS[6])

    def texts(seed: int) -> list[int | None]:
        with engine.session(n_ctx=512) as session:
            params = SamplingParams(temperature=1.0, seed=seed)
            return [e.token for e in session.generate(tokens, params, draft=3, max_tokens=40)]

    assert texts(5) == texts(5)
    assert len({tuple(texts(seed)) for seed in range(8)}) > 1


def test_logprobs_are_the_targets_own(engine):
    tokens = chat_tokens(engine, PROMPTS[7])
    handle = open_handle(engine, exact=True)
    handle.sync(tokens)
    logits = probe(handle, MAX_WIDTH).astype(np.float64)
    token = handle.step(0, 1)[0]
    expected = logits[token.id] - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
    assert token.logprob == pytest.approx(expected, abs=1e-5)


def test_a_timeline_of_one_token_and_no_drafter_work(engine):
    bos = engine.vocab.control("<bos>")
    with Engine.load(TARGET, threads=1) as alone, alone.session(n_ctx=64) as session:
        events = list(session.generate([bos], GREEDY, max_tokens=5))
        assert session.stats().drafted == 0
    with engine.session(n_ctx=64) as session:
        drafted = list(session.generate([bos], GREEDY, draft=3, max_tokens=5))
    assert [e.token for e in events][:1] == [e.token for e in drafted][:1]


def test_bad_requests_are_refused_before_anything_runs(engine):
    with engine.session(n_ctx=64) as session:
        for draft in (0, 8, 99, -1, "sometimes"):
            with pytest.raises(UsageError, match="draft"):
                session.generate([2], GREEDY, draft=draft)
        with pytest.raises(UsageError, match="empty"):
            session.generate([], GREEDY)
        with pytest.raises(UsageError, match="max-tokens"):
            session.generate([2], GREEDY, max_tokens=0)
        with pytest.raises(UsageError, match="outside the vocabulary"):
            list(session.generate([2, 10**6], GREEDY))
        with pytest.raises(ContextFullError, match=r"64.*64"):
            session.generate([2] * 64, GREEDY)
        tokens = chat_tokens(engine, PROMPTS[0])
        events = list(session.generate(tokens, GREEDY, max_tokens=1))
        assert [event.finish_reason for event in events] == ["length"]
    for n_ctx in (0, -1, 10**9):
        with pytest.raises(UsageError, match="context"):
            engine.session(n_ctx=n_ctx)
    with pytest.raises(EngineError, match="closed"):
        session.generate([2], GREEDY)


def test_every_round_is_counted(engine):
    tokens = chat_tokens(engine, PROMPTS[8])
    with engine.session(n_ctx=512) as session:
        events = list(session.generate(tokens, GREEDY, draft=3, max_tokens=40))
        stats = session.stats()
    assert stats.completion_tokens == len(events)
    assert stats.accepted == sum(e.from_draft for e in events)
    assert stats.rounds == sum(not e.from_draft for e in events) + (
        events[-1].from_draft  # a round that the end of the turn cut short
    )
    assert stats.mean_accepted_length == pytest.approx(len(events) / stats.rounds)
    assert all(a >= b for a, b in pairwise(stats.accepted_by_position))


def long_turns(engine: Engine) -> tuple[list[int], list[int]]:
    """A prompt past the sliding window, and one that goes on from it, just as long."""
    first = chat_tokens(engine, " ".join(PROMPTS))[:400]
    return first, first + chat_tokens(engine, " ".join(reversed(PROMPTS)))[1:401]


def test_going_back_past_the_sliding_window_computes_only_what_is_new(engine, noise):
    first, second = long_turns(engine)
    third = first + second[100:130]
    handle = open_handle(engine, n_ctx=2048)
    for tokens in (first, second):
        handle.sync(tokens)
        handle.step(0, 200)
    handle.sync(third)
    # The state from before the second prompt: the answer's token put the first one's last in KV.
    assert handle.stats().cached_tokens == len(first)
    assert_same_logits(engine, handle, third, noise)
    handle.free()


def test_going_back_into_a_saved_state_uses_what_it_holds_of_the_window(engine, noise):
    first, second = long_turns(engine)
    handle = open_handle(engine, n_ctx=2048)
    handle.sync(first)
    handle.sync(second)
    third = [*first[:-10], *second[50:90]]
    handle.sync(third)
    assert handle.stats().cached_tokens == len(first) - 10
    assert_same_logits(engine, handle, third, noise)
    # What was abandoned is never taken for the timeline again.
    handle.sync(second)
    assert handle.stats().cached_tokens == len(first) - 10
    assert_same_logits(engine, handle, second, noise)
    handle.free()


def assert_same_logits(engine: Engine, handle: SessionHandle, tokens: list[int], noise: float):
    fresh = open_handle(engine, n_ctx=2048)
    fresh.sync(tokens)
    assert np.abs(probe(handle) - probe(fresh)).max() <= noise
    fresh.free()
