"""The figures of an answer as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gemmachat.stats import Stats

FOUR_NUMBERS = 2  # lines of `stats_lines` that hold them
FROM_SERVER = "by the server"
"""The draft policy of an answer that came from a server."""


def stats_lines(stats: Stats, agreement: str) -> list[str]:
    """Summarise one answer: the four numbers, acceptance by position, where the time went."""
    rate = stats.completion_tokens / stats.total_s if stats.total_s > 0 else 0.0
    prefilled = stats.prompt_tokens - stats.cached_tokens
    lines = [
        f"{stats.mean_accepted_length:.2f} tokens per target pass, "
        f"first token after {stats.ttft_s:.2f} s, "
        f"{rate:.1f} tokens/s end to end",
        f"agreement with the target alone: {agreement}",
        f"prompt {stats.prompt_tokens} tokens ({stats.cached_tokens} cached, {prefilled} read at "
        f"{stats.prefill_tps:.1f}/s), answer {stats.completion_tokens} tokens at "
        f"{stats.decode_tps:.1f}/s",
        f"early exit: {stats.early_exit}",
    ]
    if stats.drafted:
        positions = " ".join(f"{share:.0%}" for share in stats.accepted_by_position)
        lines.append(
            f"drafted {stats.drafted}, accepted {stats.accepted} ({stats.acceptance_rate:.0%}); "
            f"accepted by position: {positions}"
        )
    lines.append(
        f"time {stats.total_s:.2f} s: first token {stats.ttft_s:.2f}, draft {stats.draft_s:.2f}, "
        f"verify {stats.verify_s:.2f}, sampling {stats.sample_s:.2f} ({stats.rounds} passes)"
    )
    lines.append(f"draft {stats.draft_policy}")
    return lines


def agreement(stats: Stats, *, exact: bool, greedy: bool) -> str:
    """How the answer relates to what the target alone would have written, and how that is known."""
    if not stats.drafted:
        return "it is the target alone, nothing was drafted"
    if exact and greedy:
        return "same tokens, as every pass has one width (--exact)"
    if greedy:
        return (
            "same tokens but for near-ties, where passes of different width can round differently "
            "(--exact rules that out)"
        )
    return "same distribution, by construction (gemmachat selftest checks it)"


def server_lines(stats: Stats) -> list[str]:
    """Summarise one answer of a server, with no word on what it does not report."""
    rate = stats.completion_tokens / stats.total_s if stats.total_s > 0 else 0.0
    first = f"first token after {stats.ttft_s:.2f} s, {stats.total_s:.2f} s in all"
    if not stats.completion_tokens:
        return [first, "the server reports no figures of its own"]
    lines = [f"{first}, {rate:.1f} tokens/s end to end"]
    read = f" at {stats.prefill_tps:.1f}/s" if stats.prefill_tps else ""
    lines.append(
        f"prompt {stats.prompt_tokens} tokens ({stats.cached_tokens} cached){read}, answer "
        f"{stats.completion_tokens} tokens at {stats.decode_tps:.1f}/s"
    )
    if stats.drafted:
        lines.append(
            f"drafted {stats.drafted}, accepted {stats.accepted} ({stats.acceptance_rate:.0%})"
        )
    return lines
