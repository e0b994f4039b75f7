"""The verification of drafts written for reading, and the law of a round by enumeration.

Nothing here draws anything. Rows hold Fractions for exact results, or floats.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Prefix = tuple[int, ...]
Row = Sequence[Any]  # probabilities by token, Fraction or float
Law = dict[Prefix, Any]  # probability by the tokens of a text


@dataclass(frozen=True)
class Tree:
    """A target and a drafter that have a distribution of their own after every prefix."""

    n_draft: int
    p: dict[Prefix, Row]  # the target's, after up to n_draft tokens
    q: dict[Prefix, Row]  # the drafter's, after fewer
    stops: frozenset[Prefix] = frozenset()  # where drafting stops early
    end: int | None = None  # the token after which there is no more text


@dataclass(frozen=True)
class Outcome:
    """What happens with a probability: so many drafts accepted, and then a token from a row."""

    accepted: int
    probability: Any
    last: Row


# From p (a row more than drafts), q and drafts to the outcomes.
Verifier = Callable[[Sequence[Row], Sequence[Row], Prefix], list[Outcome]]
# From a tree to the drafts of a round, each with its probability.
Drafting = Callable[[Tree], Iterator[tuple[Prefix, Any]]]
# From a weight, p and q to the row of the token that follows a rejection.
Residual = Callable[[Any, Row, Row], Row]


def excess(weight: Any, p: Row, q: Row) -> list[Any]:
    return [max(weight * px - qx, 0) for px, qx in zip(p, q, strict=True)]


def residual(weight: Any, p: Row, q: Row) -> Row:
    left = excess(weight, p, q)
    return [x / sum(left) for x in left] if sum(left) > 0 else p


def token_wise(
    p: Sequence[Row], q: Sequence[Row], drafts: Prefix, residual: Residual = residual
) -> list[Outcome]:
    """Each draft x is accepted with probability min(1, p(x)/q(x)), up to the first that is not."""
    outcomes, arrived = [], Fraction(1)
    for i, x in enumerate(drafts):
        accept = min(p[i][x] / q[i][x], 1)
        outcomes.append(Outcome(i, arrived * (1 - accept), residual(1, p[i], q[i])))
        arrived *= accept
    return [*outcomes, Outcome(len(drafts), arrived, p[-1])]


def block(
    p: Sequence[Row], q: Sequence[Row], drafts: Prefix, residual: Residual = residual
) -> list[Outcome]:
    """The longest prefix that stands is accepted; prefix i stands with probability h[i]."""
    weights = [Fraction(1)]
    for i, x in enumerate(drafts):
        weights.append(min(weights[-1] * p[i][x] / q[i][x], 1))
    stands = []
    for i, weight in enumerate(weights[:-1]):
        s = sum(excess(weight, p[i], q[i]))
        stands.append(s / (s + 1 - weight) if weight < 1 else 1)
    stands.append(weights[-1])
    outcomes, longer_fell = [], Fraction(1)
    for i in range(len(drafts), -1, -1):
        last = p[i] if i == len(drafts) else residual(weights[i], p[i], q[i])
        outcomes.append(Outcome(i, longer_fell * stands[i], last))
        longer_fell *= 1 - stands[i]
    return outcomes[::-1]


def drafts_of(tree: Tree, prefix: Prefix = ()) -> Iterator[tuple[Prefix, Any]]:
    """All drafts of a round that are drawn from q, and how likely they are."""
    ended = tree.end is not None and prefix[-1:] == (tree.end,)
    if len(prefix) == tree.n_draft or prefix in tree.stops or ended:
        yield prefix, Fraction(1)
        return
    for x, qx in enumerate(tree.q[prefix]):
        if qx > 0:
            for drafts, probability in drafts_of(tree, (*prefix, x)):
                yield drafts, qx * probability


def rounds(
    tree: Tree, verifier: Verifier, drafting: Drafting
) -> Iterator[tuple[Prefix, Any, list[Outcome]]]:
    """The drafts of a round, their probability, and what the verifier makes of them."""
    for drafts, probability in drafting(tree):
        p = [tree.p[drafts[:i]] for i in range(len(drafts) + 1)]
        q = [tree.q[drafts[:i]] for i in range(len(drafts))]
        yield drafts, probability, verifier(p, q, drafts)


def law_of_rounds(tree: Tree, verifier: Verifier, drafting: Drafting = drafts_of) -> Law:
    """The law of what a round emits, continued by the target alone to n_draft + 1 tokens."""
    emitted: Law = defaultdict(int)
    for drafts, probability, outcomes in rounds(tree, verifier, drafting):
        for outcome in outcomes:
            for x, mass in enumerate(outcome.last):
                text = until_end(tree, (*drafts[: outcome.accepted], x))
                emitted[text] += probability * outcome.probability * mass
    return continued(tree, emitted)


def law_of_target(tree: Tree) -> Law:
    return continued(tree, {(): Fraction(1)})


def until_end(tree: Tree, text: Prefix) -> Prefix:
    return text[: text.index(tree.end) + 1] if tree.end in text else text


def continued(tree: Tree, law: Law) -> Law:
    """The law after the target has continued every text to n_draft + 1 tokens or its end."""
    for length in range(tree.n_draft + 1):
        longer: Law = defaultdict(int)
        for text, probability in law.items():
            if len(text) > length or tree.end in text:
                longer[text] += probability
                continue
            for x, px in enumerate(tree.p[text]):
                longer[(*text, x)] += probability * px
        law = longer
    return law


def law_error(tree: Tree, verifier: Verifier, drafting: Drafting = drafts_of) -> Any:
    """The largest difference of a probability from what it is without drafting."""
    found, wanted = law_of_rounds(tree, verifier, drafting), law_of_target(tree)
    return max(abs(found.get(text, 0) - wanted.get(text, 0)) for text in {*found, *wanted})


def mean_accepted(tree: Tree, verifier: Verifier) -> Any:
    """Drafts that a round accepts on average."""
    return sum(
        probability * outcome.probability * outcome.accepted
        for _, probability, outcomes in rounds(tree, verifier, drafts_of)
        for outcome in outcomes
    )
