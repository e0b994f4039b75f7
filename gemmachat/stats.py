"""What an answer cost and how drafting went: figures with fixed names."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from operator import mul
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gemmachat.native_structs import NativeStats

DraftHead = Literal["none", "dense", "clusters", "mixed"]


@dataclass(frozen=True, slots=True)
class Stats:
    """Figures of one answer. Times in seconds, rates in tokens per second."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Of the prompt, found in the KV cache."""
    completion_tokens: int = 0
    ttft_s: float = 0.0
    """Time to first token, prefill included; 0 when there was none."""
    prefill_tps: float = 0.0
    """Prompt tokens that were computed per second of prefill."""
    decode_tps: float = 0.0
    """Tokens per second after the first round: drafting, verifying and printing included."""
    total_s: float = 0.0
    rounds: int = 0
    """Target passes after prefill."""
    drafted: int = 0
    accepted: int = 0
    acceptance_rate: float = 0.0
    """Accepted per drafted token."""
    mean_accepted_length: float = 0.0
    """Completion tokens per target pass; 1 without drafting."""
    accepted_by_position: tuple[float, ...] = ()
    """Share of the drafts at each position of a round that were accepted."""
    drafted_by_position: tuple[int, ...] = ()
    """How many drafts there were at each of these positions."""
    draft_s: float = 0.0
    verify_s: float = 0.0
    sample_s: float = 0.0
    draft_policy: str = "off"
    exited_tokens: int = 0
    """Of the computed prompt tokens, those for which the layers without keys and values of their
    own were left out."""
    early_exit: str = "not applicable"
    """Whether and how prefill left out layers."""
    draft_head: DraftHead = "none"
    """What scored the drafter's drafts: its best clusters, its whole vocabulary, some both."""
    head_recall: float | None = None
    """Share of the drafts from clusters for which these held the likeliest token of all, where
    that is traced."""

    def as_dict(self) -> dict[str, object]:
        """The figures by name, as `--json` prints them."""
        return asdict(self)


def combine(parts: Sequence[Stats]) -> Stats:
    """Figures of one answer that was generated in several stretches, each on top of the last.

    The prompt is then all that was not generated; what was generated and is computed again is no
    part of it. Rates are means over the tokens, the time to the first token is that of the first
    stretch, and what is no number is as in the last one.
    """
    if len(parts) < 2:
        return parts[0] if parts else Stats()
    last = parts[-1]
    completion = sum(part.completion_tokens for part in parts)
    prompt = last.prompt_tokens + last.completion_tokens - completion
    computed = [part.prompt_tokens - part.cached_tokens for part in parts]
    cached = min(parts[0].cached_tokens, prompt)
    drafted, accepted = sum(part.drafted for part in parts), sum(part.accepted for part in parts)
    tried = _by_position(part.drafted_by_position for part in parts)
    kept = _by_position(
        list(map(mul, part.accepted_by_position, part.drafted_by_position)) for part in parts
    )
    rounds = sum(part.rounds for part in parts)
    heads = {part.draft_head for part in parts if part.drafted}
    policy = last.draft_policy
    if any(part.draft_policy != policy for part in parts):
        policy += f" (of the last of {len(parts)} parts)"
    return replace(
        last,
        draft_policy=policy,
        prompt_tokens=prompt,
        cached_tokens=cached,
        completion_tokens=completion,
        ttft_s=parts[0].ttft_s,
        prefill_tps=_mean_rate(computed, [part.prefill_tps for part in parts]),
        decode_tps=_mean_rate(
            [part.completion_tokens for part in parts], [part.decode_tps for part in parts]
        ),
        total_s=sum(part.total_s for part in parts),
        rounds=rounds,
        drafted=drafted,
        accepted=accepted,
        acceptance_rate=_ratio(accepted, drafted),
        mean_accepted_length=_ratio(completion, rounds),
        accepted_by_position=tuple(_ratio(a, n) for a, n in zip(kept, tried, strict=True)),
        drafted_by_position=tuple(round(n) for n in tried),
        draft_s=sum(part.draft_s for part in parts),
        verify_s=sum(part.verify_s for part in parts),
        sample_s=sum(part.sample_s for part in parts),
        exited_tokens=sum(part.exited_tokens for part in parts),
        draft_head=heads.pop() if len(heads) == 1 else "mixed" if heads else "none",
    )


def measure(
    native: NativeStats,
    *,
    prompt_tokens: int,
    completion_tokens: int,
    started: float,
    first_round: tuple[float, int] | None,
    draft_policy: str,
    early_exit: str,
    traces_recall: bool = False,
) -> Stats:
    """Put the native counters and the clock readings (`time.perf_counter`) together.

    `first_round` is when the first round ended and how many tokens it yielded.
    """
    now = time.perf_counter()
    first_end, first_tokens = first_round if first_round is not None else (now, completion_tokens)
    by_position = zip(native.accepted_by_position, native.drafted_by_position, strict=True)
    return Stats(
        prompt_tokens=prompt_tokens,
        cached_tokens=native.cached_tokens,
        completion_tokens=completion_tokens,
        ttft_s=first_end - started if first_round is not None else 0.0,
        # Without the prompt's last token, which the first target pass computes.
        prefill_tps=_ratio(native.prefilled_tokens, native.prefill_s),
        decode_tps=_ratio(completion_tokens - first_tokens, now - first_end),
        total_s=now - started,
        rounds=native.rounds,
        drafted=native.drafted,
        accepted=native.accepted,
        acceptance_rate=_ratio(native.accepted, native.drafted),
        mean_accepted_length=_ratio(completion_tokens, native.rounds),
        accepted_by_position=tuple(_ratio(a, d) for a, d in by_position if d),
        drafted_by_position=tuple(filter(None, native.drafted_by_position)),
        draft_s=native.draft_s,
        verify_s=native.verify_s,
        sample_s=native.sample_s,
        draft_policy=draft_policy,
        exited_tokens=native.exited_tokens,
        early_exit=early_exit,
        draft_head=_head(native),
        head_recall=_ratio(native.recalled, native.clustered) if traces_recall else None,
    )


def describe_early_exit(native: NativeStats, skipped: range, *, enabled: bool) -> str:
    """What became of the layers that prefill may leave out."""
    if not skipped:
        return "not applicable"
    if not enabled:
        return "off"
    if native.exited_tokens < native.prefilled_tokens:
        return "node not seen: full prefill"
    return f"on, layers {skipped[0]}-{skipped[-1]} skipped in prefill"


def _head(native: NativeStats) -> DraftHead:
    drawn = native.drafted - native.copied_drafted
    if not drawn:
        return "none"
    if not native.clustered:
        return "dense"
    return "clusters" if native.clustered == drawn else "mixed"


def _by_position(rows: Iterable[Sequence[float]]) -> list[float]:
    return [sum(column) for column in zip_longest(*rows, fillvalue=0.0)]


def _mean_rate(counts: Sequence[int], rates: Sequence[float]) -> float:
    known = [(count, rate) for count, rate in zip(counts, rates, strict=True) if rate > 0]
    return _ratio(sum(count for count, _ in known), sum(count / rate for count, rate in known))


def _ratio(part: float, whole: float) -> float:
    return max(part, 0) / whole if whole > 0 else 0.0
