"""What sampling parameters make of a row of logits, in NumPy and float64, written for reading."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

TOLERANCE = 1e-6


def references(row: np.ndarray, **filters: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Token ids and probabilities by the book, in float64: the exact answer comes first.

    Where a filter's cut lies within TOLERANCE of another one that keeps a token more or less, the
    answers with that cut follow: single precision may round to either.
    """
    parameters = {name: float(np.float32(value)) for name, value in filters.items()}
    temperature = parameters.get("temperature", 1.0)
    logits = row.astype(np.float64)
    if temperature == 0.0:
        yield np.array([np.argmax(logits)]), np.ones(1)
        return
    ranked = np.lexsort((np.arange(len(row)), -logits))  # ties by ascending id
    if parameters.get("top_k", 0) > 0:
        ranked = ranked[: int(parameters["top_k"])]
    x = (logits[ranked] - logits.max()) / temperature
    for n_top in cuts(np.exp(x), parameters.get("top_p", 1.0)):
        for slack in (1.0, 1 - TOLERANCE, 1 + TOLERANCE):
            likely = np.exp(x[:n_top]) >= parameters.get("min_p", 0.0) * slack
            likely[0] = True
            ids, kept = ranked[:n_top][likely], x[:n_top][likely]
            for typical in typicals(kept, parameters.get("typical_p", 1.0)):
                yield ids[typical], np.exp(kept[typical]) / np.exp(kept[typical]).sum()


def cuts(weight: np.ndarray, goal: float) -> list[int]:
    """How many of the weights make up the share `goal` of them all, and how many nearly do."""
    if goal >= 1.0:
        return [len(weight)]
    mass = np.cumsum(weight) / weight.sum()
    exact, low, high = (
        min(int(np.searchsorted(mass, goal + d)) + 1, len(mass)) for d in (0, -TOLERANCE, TOLERANCE)
    )
    return [exact, *range(low, exact), *range(exact + 1, high + 1)]


def typicals(x: np.ndarray, goal: float) -> Iterator[np.ndarray]:
    """Positions that typical sampling keeps of tokens with log-weights x.

    As transformers' TypicalLogitsWarper ranks them: by the distance of -log p from the entropy.
    With -log p = log sum exp x - x, that is the distance of x from its mean under p.
    """
    if goal >= 1.0:
        yield np.arange(len(x))
        return
    weight = np.exp(x)
    distance = np.abs(x - np.sum(np.where(weight > 0, x, 0) * weight) / weight.sum())
    order = np.argsort(distance, kind="stable")
    for n in cuts(weight[order], goal):
        last = distance[order[n - 1]]
        for slack in (0.0, TOLERANCE, -TOLERANCE):
            near = distance <= last + slack * (1 + last)
            if near.any():
                yield np.flatnonzero(near)
