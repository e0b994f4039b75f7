"""Copying text: by the desktop's own program, else by asking the terminal."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping

_PROGRAMS = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
)
_PATIENCE_S = 5.0


def copy(text: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Give `text` to the desktop; returns the program that took it, None if there is none."""
    for command in _commands(environment):
        try:
            # These programs stay to serve the text: nothing of theirs may be waited for.
            done = subprocess.run(
                command,
                input=text.encode("utf-8"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_PATIENCE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return command[0]
    return None


def _commands(environment: Mapping[str, str]) -> list[tuple[str, ...]]:
    if sys.platform == "darwin":
        return [("pbcopy",)]
    return [
        command
        for variable, command in _PROGRAMS
        if environment.get(variable) and shutil.which(command[0])
    ]
