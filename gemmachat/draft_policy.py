"""What drafting did in an answer and why, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gemmachat.native_structs import NativeStats


def describe(n_draft: int, native: NativeStats) -> str:
    """Return the policy of an answer; `n_draft` is that of `gc_session_step`, -1 for auto."""
    if n_draft >= 0:
        return str(n_draft) if n_draft else "off"
    if not native.rounds:
        return "auto"
    copied, width = native.copied_rounds, _usual_width(native)
    undrafted = native.rounds - copied - native.drafter_rounds
    told = [
        _told("drafter", native.drafter_rounds, *_by_drafter(native)),
        _told("copies", copied, native.copied_drafted, native.copied_accepted),
        f"nothing in {undrafted}" if undrafted else "",
    ]
    ways = ", ".join(way for way in told if way)
    line = f"auto: of {native.rounds} passes {ways}"
    if native.drafter_rounds or native.parked_rounds:
        line += (
            f"; {width} rows cost {native.pass_cost[width - 1]:.2f} passes of one, "
            f"a draft {native.step_cost:.2f}"
        )
    return line


def _by_drafter(native: NativeStats) -> tuple[int, int]:
    return native.drafted - native.copied_drafted, native.accepted - native.copied_accepted


def _told(name: str, rounds: int, drafted: int, accepted: int) -> str:
    if not rounds:
        return ""
    each, kept = drafted / rounds, 100 * accepted / max(drafted, 1)
    return f"{name} in {rounds} ({each:.1f} each, {kept:.0f} % kept)"


def _usual_width(native: NativeStats) -> int:
    """The width of most drafted passes; 4 where there were none."""
    drafted = native.rounds_by_width[1:]
    return drafted.index(max(drafted)) + 2 if any(drafted) else 4
