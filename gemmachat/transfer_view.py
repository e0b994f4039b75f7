"""How far a long copy is: a bar on a terminal, and a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS_BETWEEN_LINES = 5.0


class Bar:
    """A bar with bytes, rate and time left, on a terminal."""

    def __init__(self, what: str) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        self._shown = Progress(
            TextColumn(what),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._shown.add_task(what, total=None)

    def __enter__(self) -> None:
        self._shown.start()

    def __exit__(self, *_: object) -> None:
        self._shown.stop()

    def update(self, done: int, total: int) -> None:
        """Move the bar."""
        self._shown.update(self._task, completed=done, total=total)


class Lines:
    """A line now and then, where a bar cannot be drawn."""

    def __init__(self, what: str, tell: Callable[[str], None]) -> None:
        self._what, self._tell = what, tell
        self._began = self._told = time.monotonic()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, done: int, total: int) -> None:
        """Write a line if the last one is long enough ago."""
        now = time.monotonic()
        if now - self._told >= SECONDS_BETWEEN_LINES:
            self._told = now
            left = (now - self._began) * (total - done) / done
            self._tell(
                f"{self._what}: {done / 1e9:.2f} of {total / 1e9:.2f} GB, {left:.0f} s left\n"
            )
