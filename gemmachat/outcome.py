"""How a command ends: its exit code, and what went wrong as one sentence."""

from __future__ import annotations

from collections.abc import Callable

from gemmachat.errors import GemmachatError, MemoryLimitError
from gemmachat.interrupt import INTERRUPTED
from gemmachat.render import Screen


def exit_code_of(command: Callable[[Screen], int]) -> int:
    """Run a command and return its exit code; every error ends as one sentence."""
    screen = Screen()
    code, problem = _outcome(command, screen)
    if problem:
        screen.error(problem)
    return code


def _outcome(command: Callable[[Screen], int], screen: Screen) -> tuple[int, str | None]:
    """Return the exit code and what went wrong. What a failed command held is free by then."""
    try:
        return command(screen), None
    except KeyboardInterrupt:
        return INTERRUPTED, None
    except BrokenPipeError:  # the reader has what it wanted, as in `gemmachat run ... | head`
        screen.abandon_output()
        return 0, None
    except GemmachatError as error:
        return error.exit_code, str(error)
    except MemoryError:
        return MemoryLimitError.exit_code, "there is not enough memory"
    except (OSError, ImportError) as error:
        screen.abandon_output()
        return GemmachatError.exit_code, _failure(error)


def _failure(error: OSError | ImportError) -> str:
    if isinstance(error, ImportError):
        return f"gemmachat cannot be loaded: reinstall it ({error})"
    what = "reading or writing" if error.filename is None else f"access to {error.filename}"
    return f"{what} failed: {error.strerror or error}"
