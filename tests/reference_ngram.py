"""Earlier places like the end of a timeline, by looking at all of them."""

from __future__ import annotations

from collections.abc import Sequence

LEAST, MOST, PLACES = 3, 32, 64


def alike(tokens: Sequence[int], last: int) -> int:
    """How many tokens up to `last` are those at the end, at most MOST."""
    n = 0
    while n < MOST and n <= last and tokens[last - n] == tokens[len(tokens) - 1 - n]:
        n += 1
    return n


def find(tokens: Sequence[int], max_tokens: int) -> tuple[list[int], int]:
    """What may follow, and how many tokens before it are those at the end."""
    counts = [(alike(tokens, last), last) for last in range(len(tokens) - 1)]
    latest = [(n, last) for n, last in counts if n >= LEAST][-PLACES:]
    if not latest:
        return [], 0
    n, last = max(latest)
    followed = list(tokens)
    for i in range(max_tokens):
        followed.append(followed[last + 1 + i])
    return followed[len(tokens) :], n
