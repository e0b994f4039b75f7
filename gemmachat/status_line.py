"""The quiet line under the prompt: which model, how full the context is, how fast it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gemmachat.stats import Stats


def status_line(model: str, *, used: int, n_ctx: int | None, stats: Stats | None) -> str:
    """Put the figures together: tokens of the context that are used, and those of `stats`.

    `n_ctx` None: nobody knows how many it holds.
    """
    parts = [model]
    if n_ctx is not None:
        parts.append(f"{used} of {n_ctx} tokens ({used / n_ctx:.0%})")
    elif used:
        parts.append(f"{used} tokens")
    if stats is not None and stats.completion_tokens and stats.total_s > 0:
        parts.append(f"{stats.completion_tokens / stats.total_s:.1f} tokens/s")
        if stats.rounds:
            parts.append(f"{stats.mean_accepted_length:.2f} per pass")
    return " | ".join(parts)
