"""The figures of an answer from a server: those that it reports, and those that show from here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gemmachat.remote_reply import count, figure
from gemmachat.stats import Stats
from gemmachat.stats_text import FROM_SERVER


@dataclass(frozen=True, slots=True)
class Clock:
    """Readings of `time.perf_counter`; `first` is None where no text came."""

    started: float
    first: float | None
    ended: float


def server_stats(usage: Mapping[str, Any], timings: Mapping[str, Any], clock: Clock) -> Stats:
    """Put what a server reports together with what the clock says.

    `usage` is that of OpenAI's API, `timings` that of llama-server, in milliseconds. Both may be
    empty: what is not known stays 0. With usage but no timings the rate is over the time that
    text came in, the network's included.
    """
    details = usage.get("prompt_tokens_details")
    cached = count(details, "cached_tokens") if isinstance(details, dict) else 0
    prompt = count(usage, "prompt_tokens")
    completion = count(usage, "completion_tokens") or count(timings, "predicted_n")
    if not prompt:
        cached = cached or count(timings, "cache_n")
        prompt = cached + count(timings, "prompt_n")
    first = clock.ended if clock.first is None else clock.first
    streamed = (completion - 1) / (clock.ended - first) if clock.ended > first else 0.0
    drafted, accepted = count(timings, "draft_n"), count(timings, "draft_n_accepted")
    accepted = min(accepted, drafted)
    rounds = completion - accepted if drafted else 0
    return Stats(
        prompt_tokens=prompt,
        cached_tokens=min(cached, prompt),
        completion_tokens=completion,
        ttft_s=0.0 if clock.first is None else clock.first - clock.started,
        prefill_tps=figure(timings, "prompt_per_second"),
        decode_tps=figure(timings, "predicted_per_second") or max(streamed, 0.0),
        total_s=clock.ended - clock.started,
        rounds=max(rounds, 0),
        drafted=drafted,
        accepted=accepted,
        acceptance_rate=accepted / drafted if drafted else 0.0,
        mean_accepted_length=completion / rounds if rounds > 0 else 0.0,
        draft_policy=FROM_SERVER,
    )
