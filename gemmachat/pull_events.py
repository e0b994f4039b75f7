"""What a pull tells while it works, for a progress line, for plain lines and for JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Kind = Literal[
    "plan",  # before the first byte: `total` bytes in all, of which `done` are here; `text` says it
    "wait",  # another process fetches `file`; `done` and `total` of it
    "cached",  # `file`, of `total` bytes, is in the Hugging Face cache and need not be fetched
    "check",  # hashing what is here of `file`: `done` of `total`
    "fetch",  # fetching `file`: `done` of `total`; the first has a rate of 0, `done` is resumed
    "retry",  # fetching `file` failed, for the reason in `text`; again in `seconds`
    "convert",  # making `file` of a checkpoint: `done` of `total`
    "clusters",  # computing clusters of the drafter's tokens: `file`
    "ready",  # `file` is complete and right: `total` bytes
    "note",  # something the user should know: `text`
]


@dataclass(frozen=True, slots=True)
class PullEvent:
    """One thing that happened. Sizes are bytes, `rate` is bytes per second."""

    kind: Kind
    file: str = ""  # its plain name
    done: int = 0
    total: int = 0
    rate: float = 0.0
    seconds: float | None = None  # time left for "fetch", time to wait for "retry"
    text: str = ""  # one sentence; of a hub's making in part, so it needs sanitising

    def as_json(self) -> dict[str, Any]:
        """The event as one JSON object; fields that say nothing are left out."""
        return {key: value for key, value in asdict(self).items() if value not in ("", None)}


Progress = Callable[[PullEvent], None]
"""Called in the thread that pulls, several times a second at most while bytes flow."""


def silent(_event: PullEvent) -> None:
    """Tell nobody."""
