"""Stop strings: texts at which an answer ends, also where they are spread over several tokens."""

from __future__ import annotations

from collections.abc import Sequence

from gemmachat.errors import UsageError

MAX_STOPS = 16
MAX_LENGTH = 256


class StopStrings:
    """Watches one answer. Text that may yet become a stop string is held back.

    Raises `UsageError` on an empty or overlong stop string, or too many.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if len(stops) > MAX_STOPS:
            raise UsageError(
                f"there are {len(stops)} stop strings; at most {MAX_STOPS} are possible"
            )
        for stop in stops:
            if not 1 <= len(stop) <= MAX_LENGTH:
                raise UsageError(
                    f"a stop string must have 1 to {MAX_LENGTH} characters, not {len(stop)}"
                )
        self._stops = tuple(stops)
        self._held = ""
        self.found = False
        """Whether a stop string has come; what follows is no part of the answer."""

    def feed(self, text: str) -> str:
        """The text that can be shown now: what comes before a stop string, without it."""
        if self.found:
            return ""
        text = self._held + text
        ends = [at for at in (text.find(stop) for stop in self._stops) if at >= 0]
        if ends:
            self.found, self._held = True, ""
            return text[: min(ends)]
        held = self._suffix_that_may_become_one(text)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def flush(self) -> str:
        """What was held back when the answer ended without a stop string."""
        held, self._held = self._held, ""
        return held

    def _suffix_that_may_become_one(self, text: str) -> int:
        longest = max((len(stop) - 1 for stop in self._stops), default=0)
        for length in range(min(longest, len(text)), 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self._stops):
                return length
        return 0
