"""The figures of an answer mean what their names say."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from embedded import DRAFTER, GREEDY, PROMPTS, TARGET, chat_tokens

from gemmachat import Engine
from gemmachat.draft_policy import describe
from gemmachat.native_structs import NativeStats
from gemmachat.stats import Stats, combine, measure

# The contract of `run --json`.
KEYS = [
    *("prompt_tokens", "cached_tokens", "completion_tokens", "ttft_s", "prefill_tps", "decode_tps"),
    *("total_s", "rounds", "drafted", "accepted", "acceptance_rate", "mean_accepted_length"),
    *("accepted_by_position", "drafted_by_position"),
    *("draft_s", "verify_s", "sample_s", "draft_policy"),
    *("exited_tokens", "early_exit"),
    "draft_head",
    "head_recall",
]


def native(**counts: object) -> NativeStats:
    stats = NativeStats()
    for name, value in counts.items():
        if isinstance(value, list):
            getattr(stats, name)[: len(value)] = value
        else:
            setattr(stats, name, value)
    return stats


def test_the_keys_are_those_of_the_contract():
    assert list(Stats().as_dict()) == KEYS


def test_rates_come_from_the_tokens_they_name():
    counted = native(
        cached_tokens=10,
        prefilled_tokens=40,
        rounds=4,
        drafted=12,
        accepted=8,
        drafted_by_position=[4, 4, 4],
        accepted_by_position=[4, 3, 1],
        prefill_s=0.5,
    )
    started = time.perf_counter() - 3.0
    stats = measure(
        counted,
        prompt_tokens=51,
        completion_tokens=12,
        started=started,
        first_round=(started + 1.0, 4),
        draft_policy="3",
        early_exit="off",
    )
    assert stats.prefill_tps == pytest.approx(80.0)
    assert stats.ttft_s == pytest.approx(1.0)
    # The first round's tokens are there when the clock of decoding starts.
    assert stats.decode_tps == pytest.approx((12 - 4) / 2.0, rel=0.05)
    assert stats.total_s == pytest.approx(3.0, rel=0.05)
    assert stats.acceptance_rate == pytest.approx(8 / 12)
    assert stats.mean_accepted_length == 3.0
    assert stats.accepted_by_position == (1.0, 0.75, 0.25)
    assert stats.drafted_by_position == (4, 4, 4)


def test_an_answer_without_a_token_has_no_rates():
    counted = native(prefilled_tokens=100, prefill_s=0.2)
    stats = measure(
        counted,
        prompt_tokens=500,
        completion_tokens=0,
        started=time.perf_counter() - 0.2,
        first_round=None,
        draft_policy="off",
        early_exit="off",
    )
    assert stats.prefill_tps == pytest.approx(500.0)
    assert (stats.ttft_s, stats.decode_tps, stats.mean_accepted_length) == (0.0, 0.0, 0.0)
    assert (stats.acceptance_rate, stats.accepted_by_position) == (0.0, ())


def test_a_real_answer_adds_up():
    with Engine.load(TARGET, DRAFTER, threads=1) as engine, engine.session(n_ctx=512) as session:
        tokens = chat_tokens(engine, PROMPTS[0])
        events = list(session.generate(tokens, GREEDY, draft=3, max_tokens=40))
        stats = session.stats()
        assert stats.prompt_tokens == len(tokens)
        assert stats.cached_tokens == 0
        assert stats.completion_tokens == len(events)
        assert 0 < stats.ttft_s <= stats.total_s
        assert stats.draft_s + stats.verify_s + stats.sample_s < stats.total_s
        assert stats.draft_policy == "3"
        list(session.generate(tokens, GREEDY, draft="off", max_tokens=4))
        assert session.stats().mean_accepted_length == 1.0
        assert session.stats().cached_tokens == len(tokens) - 1
        assert session.stats().draft_policy == "off"


def test_the_policy_of_an_answer_is_one_line():
    native = NativeStats(rounds=10, drafter_rounds=6, copied_rounds=1, parked_rounds=3)
    native.drafted, native.accepted, native.copied_drafted, native.copied_accepted = 25, 16, 7, 7
    native.rounds_by_width[:] = [3, 0, 0, 6, 0, 0, 0, 1]
    native.pass_cost[3], native.step_cost = 1.45, 0.08
    assert describe(-1, native) == (
        "auto: of 10 passes drafter in 6 (3.0 each, 50 % kept), "
        "copies in 1 (7.0 each, 100 % kept), nothing in 3; "
        "4 rows cost 1.45 passes of one, a draft 0.08"
    )
    assert describe(-1, NativeStats()) == "auto"
    assert [describe(n, native) for n in (0, 3)] == ["off", "3"]


def test_stretches_of_one_answer_add_up() -> None:
    first = Stats(
        prompt_tokens=100,
        cached_tokens=20,
        completion_tokens=10,
        ttft_s=0.5,
        prefill_tps=160.0,
        decode_tps=10.0,
        total_s=2.0,
        rounds=4,
        drafted=8,
        accepted=6,
        accepted_by_position=(1.0, 0.5),
        drafted_by_position=(4, 4),
        draft_head="dense",
    )
    # On top of the first, its answer included, came 10 tokens of a tool's response.
    second = Stats(
        prompt_tokens=120,
        cached_tokens=110,
        completion_tokens=30,
        ttft_s=0.1,
        prefill_tps=20.0,
        decode_tps=30.0,
        total_s=1.0,
        rounds=6,
        drafted=4,
        accepted=1,
        accepted_by_position=(0.25,),
        drafted_by_position=(4,),
        draft_head="clusters",
    )
    both = combine([first, second])
    assert (both.prompt_tokens, both.cached_tokens, both.completion_tokens) == (110, 20, 40)
    assert (both.ttft_s, both.total_s) == (0.5, 3.0)
    assert both.prefill_tps == 90.0
    assert both.decode_tps == 20.0
    assert (both.rounds, both.drafted, both.accepted) == (10, 12, 7)
    assert (both.mean_accepted_length, both.acceptance_rate) == (4.0, 7 / 12)
    assert both.accepted_by_position == (5 / 8, 0.5)
    assert both.drafted_by_position == (8, 4)
    assert both.draft_head == "mixed"
    assert combine([replace(first, draft_policy="x"), replace(second, draft_policy="x")]) == (
        replace(both, draft_policy="x")
    )
    told = combine([replace(first, draft_policy="x"), replace(second, draft_policy="y")])
    assert told.draft_policy == "y (of the last of 2 parts)"


def test_what_was_generated_and_is_read_again_is_no_part_of_the_prompt() -> None:
    first = Stats(prompt_tokens=100, cached_tokens=0, completion_tokens=10)
    # The last token of an answer is not in the cache yet: the next pass computes it.
    second = Stats(prompt_tokens=120, cached_tokens=109, completion_tokens=30)
    both = combine([first, second])
    assert (both.prompt_tokens, both.cached_tokens) == (110, 0)


def test_one_stretch_is_left_as_it_is() -> None:
    one = Stats(prompt_tokens=3, draft_policy="auto: x")
    assert combine([one]) is one
    assert combine([]) == Stats()
