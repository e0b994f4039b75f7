"""Mistakes that verification invites, planted: each must break the law that the library keeps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import reference_verify as reference
from library_verify import REFERENCE, both
from reference_verify import Outcome, Prefix, Row, Tree, Verifier, law_error, mean_accepted

TOLERANCE = 1e-9
BROKEN = 1e-3


def fixed_tree(noise: float = 0.5, temperature: float = 1.0, q_temperature: float = 1.0) -> Tree:
    """Four tokens, three drafts; the drafter's logits are the target's and some noise."""
    rng = np.random.default_rng(1)

    def softmax(logits: np.ndarray) -> list[float]:
        powers = np.exp(logits)
        return (powers / powers.sum()).tolist()

    p, q = {}, {}
    for prefix in (t for n in range(4) for t in itertools.product(range(4), repeat=n)):
        logits = rng.normal(0, 1.5, 4)
        p[prefix] = softmax(logits / temperature)
        if len(prefix) < 3:
            q[prefix] = softmax((logits + rng.normal(0, noise, 4)) / q_temperature)
    return Tree(3, p, q)


def best_drafts(tree: Tree) -> Iterator[tuple[Prefix, float]]:
    """Fault: drafts the most likely tokens and has them judged as drawn from q."""
    drafts: Prefix = ()
    while len(drafts) < tree.n_draft:
        drafts += (int(np.argmax(tree.q[drafts])),)
    yield drafts, 1.0


def without_unlikely_drafts(tree: Tree) -> Iterator[tuple[Prefix, float]]:
    """Fault: drops a draft, and stops, because its own probability came out low."""
    for drafts, probability in reference.drafts_of(tree):
        kept = itertools.takewhile(
            lambda i, drafts=drafts: tree.q[drafts[:i]][drafts[i]] >= 0.3, range(len(drafts))
        )
        yield drafts[: len([*kept])], probability


def without_drafts_where_unsure(tree: Tree) -> Iterator[tuple[Prefix, float]]:
    """No fault: stops because q was flat before anything was drawn from it."""
    flat = frozenset(prefix for prefix, row in tree.q.items() if max(row) < 0.5)
    assert flat, "no place is unsure: this has tested nothing"
    return reference.drafts_of(replace(tree, stops=flat))


def not_renormalised(weight: Any, p: Row, q: Row) -> Row:
    """Fault: what is missing of 1 falls to the last candidate, as it does in a draw."""
    left = reference.excess(weight, p, q)
    last = max((x for x, mass in enumerate(left) if mass > 0), default=0)
    left[last] += 1 - sum(left)
    return left


def from_p(weight: Any, p: Row, q: Row) -> Row:
    """Fault: draws anew from the target in place of a rejected draft."""
    return p


def without_weight(weight: Any, p: Row, q: Row) -> Row:
    """Fault: the residual of token-wise rejection; only block verification weighs it."""
    return reference.residual(1, p, q)


def bonus_from_the_row_before(verifier: Verifier) -> Verifier:
    def faulty(p: Sequence[Row], q: Sequence[Row], drafts: Prefix) -> list[Outcome]:
        return verifier([*p[:-1], p[-2]], q, drafts)

    return faulty


@both
def test_the_fixed_tree_passes_where_the_planted_faults_fail(verifier):
    assert law_error(fixed_tree(), verifier) <= TOLERANCE
    assert law_error(fixed_tree(), REFERENCE[verifier]) <= TOLERANCE
    assert law_error(fixed_tree(), verifier, without_drafts_where_unsure) <= TOLERANCE


@both
@pytest.mark.parametrize("drafting", [best_drafts, without_unlikely_drafts])
def test_faulty_drafting_breaks_the_law(verifier, drafting):
    assert law_error(fixed_tree(), verifier, drafting) > BROKEN


@both
@pytest.mark.parametrize("residual", [not_renormalised, from_p])
def test_a_faulty_residual_breaks_the_law(verifier, residual):
    def faulty(p: Sequence[Row], q: Sequence[Row], drafts: Prefix) -> list[Outcome]:
        return REFERENCE[verifier](p, q, drafts, residual)

    assert law_error(fixed_tree(), faulty) > BROKEN


def test_a_residual_without_its_weight_breaks_the_law_of_block_verification():
    def faulty(p: Sequence[Row], q: Sequence[Row], drafts: Prefix) -> list[Outcome]:
        return reference.block(p, q, drafts, without_weight)

    assert law_error(fixed_tree(), faulty) > BROKEN


@both
def test_a_bonus_token_from_the_wrong_row_breaks_the_law(verifier):
    assert law_error(fixed_tree(), bonus_from_the_row_before(verifier)) > BROKEN


@both
def test_a_temperature_that_the_drafter_ignores_only_costs_acceptance(verifier):
    right, wrong = fixed_tree(0.1, 0.5, 0.5), fixed_tree(0.1, 0.5, 1.0)
    assert law_error(wrong, verifier) <= TOLERANCE
    assert mean_accepted(wrong, verifier) < mean_accepted(right, verifier) - 0.1
