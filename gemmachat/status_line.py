"""The quiet line under the prompt: which model, how full the context is, how fast it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gemmachat.stats import Stats


def status_line(model: str, *, used: int, n_ctx: int, stats: Stats | None) -> str:
    """Put the figures together: tokens of the context that are used, and those of `stats`."""
    share = used / n_ctx if n_ctx else 0.0
    parts = [model, f"{used} of {n_ctx} tokens ({share:.0%})"]
    if stats is not None and stats.completion_tokens and stats.total_s > 0:
        parts.append(f"{stats.completion_tokens / stats.total_s:.1f} tokens/s")
        parts.append(f"{stats.mean_accepted_length:.2f} per pass")
    return " | ".join(parts)
