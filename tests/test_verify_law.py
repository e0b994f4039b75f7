"""Verification is exact: laws by enumeration of every draft and every decision.

Which faults the same check finds is tested in `test_verify_faults.py`.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import reference_verify as reference
from embedded import DRAFTER, NATIVE_GREEDY, PROMPTS, TARGET, chat_tokens, open_handle, probe
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from library_verify import REFERENCE, block, both, token_wise
from reference_verify import Row, Tree, law_error, mean_accepted
from scipy import stats
from scipy.special import softmax
from simulated_drafting import DRAFTER as BY_DRAFTER
from simulated_drafting import Schedule

from gemmachat import Engine
from gemmachat.bridge_session import SessionHandle
from gemmachat.errors import UsageError
from gemmachat.native_structs import NativeSampling, NativeSchedule, SessionParams

TOLERANCE = 1e-9


def normalised(weights: Sequence[int]) -> Row:
    return [Fraction(weight, sum(weights)) for weight in weights]


def rows(n_vocab: int) -> st.SearchStrategy[Row]:
    """Distributions with zeros and ties, one-hot ones, and some of very unequal probabilities."""
    weights = st.one_of(
        st.lists(st.integers(0, 9), min_size=n_vocab, max_size=n_vocab),
        st.lists(st.sampled_from([0, 1, 10**6, 10**12]), min_size=n_vocab, max_size=n_vocab),
        st.permutations([1] + [0] * (n_vocab - 1)),
    )
    return weights.filter(any).map(normalised)


@st.composite
def trees(draw: st.DrawFn, n_draft: int | None = None) -> Tree:
    """Rows from a small pool after every prefix, so that p and q are often equal."""
    n_vocab = draw(st.integers(2, 4))
    n_draft = n_draft or draw(st.integers(1, 3))
    pool = draw(st.lists(rows(n_vocab), min_size=2, max_size=8))
    stopping = draw(st.sampled_from([0.0, 0.3]))
    end = draw(st.one_of(st.none(), st.integers(0, n_vocab - 1)))
    pick = draw(st.randoms(use_true_random=False))
    prefixes = [t for n in range(n_draft + 1) for t in itertools.product(range(n_vocab), repeat=n)]
    inner = [prefix for prefix in prefixes if len(prefix) < n_draft]
    p = {prefix: pick.choice(pool) for prefix in prefixes}
    q = {prefix: pick.choice(pool) for prefix in inner}
    stops = frozenset(prefix for prefix in inner if pick.random() < stopping)
    return Tree(n_draft, p, q, stops, end)


examples = settings(
    max_examples=150,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@both
@examples
@given(trees())
def test_the_reference_keeps_the_targets_law_in_exact_arithmetic(verifier, tree):
    assert law_error(tree, REFERENCE[verifier]) == 0


@both
@examples
@given(trees())
def test_a_round_and_what_follows_it_has_the_targets_law(verifier, tree):
    assert law_error(tree, verifier) <= TOLERANCE


def schedule_that_trusts_the_sure() -> Schedule:
    """One that has seen drafts accepted where the drafter was sure, and nowhere else."""
    saved = NativeSchedule(NativeSchedule.PASSES(*(1 + 0.2 * i for i in range(8))), 0.2)
    schedule = Schedule(saved, learns_costs=False)
    for _ in range(40):
        for confidence, accepted in ((0.99, 1), (0.99, 1), (0.6, 0)):
            if schedule.begin(1)[0] == BY_DRAFTER and schedule.wants_step():
                drawn = schedule.wants_draw(confidence)
                schedule.end(int(drawn), accepted * drawn)
    return schedule


def stops_of_the_schedule(tree: Tree) -> frozenset[reference.Prefix]:
    """Where the library's schedule ends a draft, each decision made anew."""

    def goes_on(prefix: reference.Prefix) -> bool:
        schedule = schedule_that_trusts_the_sure()
        return schedule.begin(tree.n_draft)[0] == BY_DRAFTER and all(
            schedule.wants_step() and schedule.wants_draw(float(max(tree.q[prefix[:n]])))
            for n in range(len(prefix) + 1)
        )

    return frozenset(prefix for prefix in tree.q if not goes_on(prefix))


def test_the_schedule_that_trusts_the_sure_ends_drafts_here_and_there():
    rows = {(): [0.99, 0.01], (0,): [0.6, 0.4], (1,): [0.01, 0.99]}
    tree = Tree(
        2, {t: [0.5, 0.5] for n in range(3) for t in itertools.product((0, 1), repeat=n)}, rows
    )
    assert stops_of_the_schedule(tree) == {(0,)}


@both
@settings(parent=examples, max_examples=40)
@given(trees())
def test_drafts_that_end_where_the_schedule_ends_them_keep_the_law(verifier, tree):
    assert law_error(replace(tree, stops=stops_of_the_schedule(tree)), verifier) <= TOLERANCE


@both
@examples
@given(trees(), st.lists(st.integers(0, 1), min_size=3, max_size=3))
def test_copied_drafts_keep_the_law(verifier, tree, copied):
    """They are certain, whatever the target makes of them."""
    n_vocab = len(tree.p[()])
    certain = {t: [Fraction(x == copied[len(t)]) for x in range(n_vocab)] for t in tree.q}
    assert law_error(replace(tree, q=certain), verifier) <= TOLERANCE


@both
@examples
@given(trees())
def test_the_library_decides_as_the_reference_does(verifier, tree):
    found_rounds = reference.rounds(tree, verifier, reference.drafts_of)
    wanted_rounds = reference.rounds(tree, REFERENCE[verifier], reference.drafts_of)
    for (_, chance, found), (_, _, wanted) in zip(found_rounds, wanted_rounds, strict=True):
        assert sum(outcome.probability for outcome in found) == pytest.approx(1, abs=1e-12)
        for one, two in zip(found, wanted, strict=True):
            # Jointly with the drafts: what follows drafts that hardly ever come may be rounding.
            joint = [float(chance * two.probability * x) for x in two.last]
            ours = [float(chance) * one.probability * x for x in one.last]
            assert ours == pytest.approx(joint, abs=1e-12)


@both
@examples
@given(trees(), st.sampled_from([2**-52, 1e-9, 2**-24]))
def test_drafters_that_differ_by_rounding_keep_the_law(verifier, tree, size):
    rng = random.Random(1)
    nudged = {}
    for prefix in tree.q:
        row = [float(px) * (1 + rng.choice([-size, 0.0, size])) for px in tree.p[prefix]]
        nudged[prefix] = [x / sum(row) for x in row]
    assert law_error(replace(tree, q=nudged), verifier) <= TOLERANCE


@examples
@given(trees())
def test_block_verification_never_accepts_fewer_on_average(tree):
    assert mean_accepted(tree, block) >= mean_accepted(tree, token_wise) - 1e-12


def test_block_verification_accepts_11_ninths_where_token_wise_accepts_10():
    """The example of the paper (Sun et al. 2024): two tokens, two drafts, the odds reversed."""
    p, q = normalised([1, 2]), normalised([2, 1])
    prefixes = [t for n in range(3) for t in itertools.product(range(2), repeat=n)]
    tree = Tree(2, dict.fromkeys(prefixes, p), {t: q for t in prefixes if len(t) < 2})
    assert mean_accepted(tree, reference.token_wise) == Fraction(10, 9)
    assert mean_accepted(tree, reference.block) == Fraction(11, 9)
    assert mean_accepted(tree, token_wise) == pytest.approx(10 / 9, abs=1e-12)
    assert mean_accepted(tree, block) == pytest.approx(11 / 9, abs=1e-12)


@both
@examples
@given(trees(n_draft=1))
def test_a_single_draft_is_accepted_as_often_as_the_distributions_overlap(verifier, tree):
    tree = replace(tree, stops=frozenset())
    distance = sum(abs(px - qx) for px, qx in zip(tree.p[()], tree.q[()], strict=True)) / 2
    assert mean_accepted(tree, verifier) == pytest.approx(float(1 - distance), abs=1e-12)


@both
def test_a_draft_that_its_distribution_excludes_is_refused(verifier):
    with pytest.raises(UsageError, match="cannot have been drawn"):
        verifier([[0.5, 0.5]] * 2, [[1.0, 0.0]], (1,))
    with pytest.raises(UsageError, match="cannot have been drawn"):
        verifier([[0.5, 0.5]] * 2, [[1.0, 0.0]], (7,))
    with pytest.raises(UsageError, match="probability must be in"):
        verifier([[0.5, math.nan]] * 2, [[1.0, 0.0]], (0,))


def test_a_session_accepts_as_often_as_its_distributions_say():
    """The engine passes the rows that the drafts were drawn from, and judges as it was told to."""
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        prompts = [chat_tokens(engine, prompt) for prompt in PROMPTS[:30]]
        block, token_wise = (traced_rounds(engine, prompts, mode) for mode in (False, True))
    for accepted, expected in ((block[:, 0], block[:, 1]), (token_wise[:, 0], token_wise[:, 2])):
        surprise = accepted - expected  # its sum is a martingale
        assert abs(surprise.sum()) < 4 * math.sqrt((surprise**2).sum())
    for rounds in (block, token_wise):
        assert (rounds[:, 1] >= rounds[:, 2] - 1e-12).all()
        assert rounds[:, 1].mean() > rounds[:, 2].mean() + 0.005


def test_the_first_drafted_token_of_a_session_has_the_targets_distribution():
    """Drafts that are not drawn from the q they are judged by show here: p and q are close."""
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        prompt = chat_tokens(engine, PROMPTS[18])
        handle = open_handle(engine, n_ctx=256)
        handle.sync(prompt)
        (first,) = handle.step(0, 1)
        handle.sync([*prompt, first.id])
        p = softmax(probe(handle).astype(np.float64) / 1.5)
        counts = np.zeros(len(p))
        n_drafted = 0
        for seed in range(1500):
            handle.set_sampling(NATIVE_GREEDY)
            handle.sync(prompt)
            assert handle.step(0, 1)[0].id == first.id
            handle.set_sampling(NativeSampling(temperature=1.5, top_k=0, top_p=1, seed=seed))
            counts[handle.step(2, 16)[0].id] += 1
            n_drafted += handle.stats().drafted
        assert n_drafted > 1500
    expected = p * counts.sum()
    often = expected >= 10
    assert often.sum() >= 5
    seen = [*counts[often], counts[~often].sum()]
    wanted = [*expected[often], expected[~often].sum()]
    assert stats.power_divergence(seen, wanted, lambda_="log-likelihood").pvalue > 1e-3


def traced_rounds(engine: Engine, prompts: list[list[int]], token_wise: bool) -> np.ndarray:
    """Per round: drafts accepted, expected under block and under token-wise verification."""
    params = SessionParams(n_ctx=512, n_threads=1, token_wise=token_wise, trace_acceptance=True)
    handle = SessionHandle(engine._handle, params)
    handle.set_sampling(NativeSampling(temperature=1.5, top_k=64, top_p=1, min_p=0, seed=3))
    totals = []
    for prompt in prompts:
        handle.sync(prompt[:1])
        handle.sync(prompt)
        totals.append([(0, 0.0, 0.0)])
        for _ in range(20):
            handle.step(3, 16)
            now = handle.stats()
            totals[-1].append((now.accepted, now.expected_block, now.expected_token_wise))
    handle.free()
    return np.concatenate([np.diff(run, axis=0) for run in totals])
