"""What `gemmachat bench --sweep` compares: draft lengths, or numbers of threads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain

from gemmachat.errors import UsageError
from gemmachat.native_structs import MAX_DRAFT
from gemmachat.processors import MAX_THREADS

MAX_VALUES = 16

_LIMITS = {"draft": (0, MAX_DRAFT), "threads": (1, MAX_THREADS)}
_RANGE = re.compile(r"[0-9]{1,4}(\.\.[0-9]{1,4})?")


@dataclass(frozen=True, slots=True)
class Sweep:
    """A setting, draft or threads, and its values: the first is compared with all others.

    A draft of 0 is none.
    """

    what: str
    values: tuple[int, ...]

    def check(self, *, draft_given: bool, threads_given: bool, has_drafter: bool) -> None:
        """Raise `UsageError` where other options contradict it, or the drafter is missing."""
        if self.what == "draft" and draft_given:
            raise UsageError("give either --draft or --sweep draft=..., not both")
        if self.what == "draft" and not has_drafter:
            raise UsageError("--sweep draft=... needs a drafter: pass its file with --drafter PATH")
        if self.what == "threads" and threads_given:
            raise UsageError("give either --threads or --sweep threads=..., not both")


def parse_sweep(text: str) -> Sweep:
    """Return what a text such as `draft=0..3,7` asks for. Raises `UsageError`."""
    what, _, given = text.partition("=")
    parts = [part.strip() for part in given.split(",")]
    if what not in _LIMITS or not all(map(_RANGE.fullmatch, parts)):
        raise UsageError(
            f"--sweep must be draft or threads and a list, as in draft=0..{MAX_DRAFT} or "
            f"threads=1,2,4, not {text[:40]!r}"
        )
    values = tuple(chain.from_iterable(_numbers(what, part) for part in parts))
    least, most = _LIMITS[what]
    for value in values:
        if not least <= value <= most:
            raise UsageError(f"--sweep {what} takes {least} to {most}, not {value}")
    if len(set(values)) < len(values):
        raise UsageError(f"--sweep {what} names a value twice")
    if not 2 <= len(values) <= MAX_VALUES:
        raise UsageError(f"--sweep compares 2 to {MAX_VALUES} values, not {len(values)}")
    return Sweep(what, values)


def _numbers(what: str, text: str) -> range:
    """Return the numbers of `N` or `N..M`."""
    first, _, last = text.partition("..")
    numbers = range(int(first), int(last or first) + 1)
    if not numbers:
        raise UsageError(f"--sweep {what}: {text} runs backwards, write {last}..{first}")
    return numbers
