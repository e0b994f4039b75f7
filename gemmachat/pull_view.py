"""What a user sees of a pull: a line that moves on a terminal, plain lines elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmachat.table import size_text

if TYPE_CHECKING:
    from gemmachat.pull_events import PullEvent
    from gemmachat.render import Screen

_BAR = 16  # characters
_LASTING = ("plan", "cached", "retry", "ready", "note")  # kinds that are worth a line that stays


class PullView:
    """Shows the events of a pull on standard error."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def __call__(self, event: PullEvent) -> None:
        """Show one event."""
        if event.kind in _LASTING:
            self._screen.progress("")
            self._screen.note(_sentence(event))
        else:
            self._screen.status(_progress(event))


def _sentence(event: PullEvent) -> str:
    if event.kind == "plan":
        return f"{event.file}: {size_text(event.total - event.done)} to come"
    if event.kind == "cached":
        return f"{event.file}: {size_text(event.total)}, already in the Hugging Face cache"
    if event.kind == "retry":
        return f"{event.text}; again in {event.seconds or 0:.0f} s"
    if event.kind == "ready":
        return f"{event.file}: {size_text(event.total)}, complete and right"
    return event.text


def _progress(event: PullEvent) -> str:
    amounts = f"{size_text(event.done)} of {size_text(event.total)}"
    if event.kind == "fetch":
        rate = f", {size_text(round(event.rate))}/s" if event.rate else ""
        left = "" if event.seconds is None else f", {duration_text(event.seconds)} left"
        return f"{_share(event)} {amounts}{rate}{left}: {event.file}"
    if event.kind == "check":
        return f"{_share(event)} checking the {amounts} that are here: {event.file}"
    if event.kind == "convert":
        return f"{_share(event)} converting: {event.file}"
    if event.kind == "clusters":
        return f"computing clusters of the tokens of {event.file}"
    return "waiting for another gemmachat that is pulling this model"


def _share(event: PullEvent) -> str:
    """A bar and a percentage."""
    part = event.done / event.total if event.total else 1.0
    return f"[{'=' * round(_BAR * part):.<{_BAR}}] {part:.0%}"


def duration_text(seconds: float) -> str:
    """Return a time to come in two units at most: 42 s, 3 min 5 s, 2 h 10 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
