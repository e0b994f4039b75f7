"""What an answer cost and how drafting went: figures with fixed names."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
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


def _ratio(part: float, whole: float) -> float:
    return max(part, 0) / whole if whole > 0 else 0.0
