"""What was typed before, in this program and in earlier ones, for Up and Ctrl-R."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from gemmachat.typed_text import valid

_MAX_BYTES = 2**20  # read at the start; older lines are forgotten then


class _PrivateFile(FileHistory):
    """A file that only its owner reads. That it cannot be written must not stop the chat."""

    def load_history_strings(self) -> Iterable[str]:
        with suppress(OSError):
            return list(super().load_history_strings())
        return []

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            super().store_string(valid(string))


def open_history(path: Path | None) -> History:
    """Return the history in a file, which is made where it is not; None keeps it in memory."""
    if path is None:
        return InMemoryHistory()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        _shorten(path)
    return _PrivateFile(str(path))


def _shorten(path: Path) -> None:
    """Leave the newer half of a file that has become too large."""
    if path.stat().st_size <= _MAX_BYTES:
        return
    from gemmachat.publish import publish

    newer = path.read_bytes()[-_MAX_BYTES // 2 :]
    publish(path, newer[newer.find(b"\n#") + 1 :])
    path.chmod(0o600)
