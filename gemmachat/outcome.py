"""How a command ends: its exit code, and what went wrong as one sentence."""

from __future__ import annotations

import os
from collections.abc import Callable

from gemmachat.errors import FAILURES, outcome
from gemmachat.interrupt import INTERRUPTED
from gemmachat.render import Screen


def exit_code_of(command: Callable[[Screen], int]) -> int:
    """Run a command and return its exit code; every error ends as one sentence."""
    if os.environ.get("HOME") == "":
        del os.environ["HOME"]  # an empty one would make / the home: unset, the system tells it
    screen = Screen()
    code, problem = _ended(command, screen)
    if problem:
        screen.error(problem)
    return code


def _ended(command: Callable[[Screen], int], screen: Screen) -> tuple[int, str | None]:
    """Return the exit code and what went wrong. What a failed command held is free by then."""
    try:
        return command(screen), None
    except KeyboardInterrupt:
        return INTERRUPTED, None
    except BrokenPipeError:  # the reader has what it wanted, as in `gemmachat run ... | head`
        screen.abandon_output()
        return 0, None
    except FAILURES as error:
        if isinstance(error, OSError | ImportError):
            screen.abandon_output()
        return outcome(error)
