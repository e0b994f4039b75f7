"""A text in the user's own editor: handed over, and taken back whatever became of it."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from gemmachat.errors import UsageError
from gemmachat.files import read_small

MAX_BYTES = 1 << 20
"""More than this takes too long to draw in a line."""
_USUAL = ("editor", "nano", "vi")


def edit(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return what the editor of `VISUAL` or `EDITOR`, else a usual one, makes of a text.

    It is the same text where the editor fails. Bytes that are no UTF-8 become U+FFFD. Raises
    `UsageError` where no editor can be started, or where it leaves no file, or one too large.
    """
    # The folder goes with all that the editor leaves in it, such as its backups.
    with tempfile.TemporaryDirectory(prefix="gemmachat-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "message.md"
        path.write_text(text, encoding="utf-8", errors="replace")
        if _status(path, environment) != 0:
            return text
        try:
            edited = read_small(path, MAX_BYTES).decode("utf-8", "replace")
        except OSError as error:
            raise UsageError(
                f"the message stays as it was: what the editor left cannot be read: "
                f"{error.strerror or error}"
            ) from None
    return edited.replace("\r\n", "\n").removesuffix("\n")


def _status(path: Path, environment: Mapping[str, str]) -> int:
    """Run the first editor that there is; returns its exit status."""
    for command in _commands(environment):
        try:
            return subprocess.call([*command, str(path)])
        except OSError:  # not there, or no program
            continue
    raise UsageError("no editor can be started: set EDITOR to one")


def _commands(environment: Mapping[str, str]) -> Iterator[list[str]]:
    for variable in ("VISUAL", "EDITOR"):
        try:
            command = shlex.split(environment.get(variable, ""))
        except ValueError:  # a quote that is not closed
            continue
        if command:
            yield command
    yield from ([name] for name in _USUAL)
