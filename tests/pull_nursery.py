"""Processes that pull, and can be killed at any time, without the cost of starting Python for each.

Run as a program it imports what a pull needs and forks for every line `start FOLDER` of its input,
answering with the process id; `reap PID` answers with how that process ended. A result is printed
only by processes that end by themselves.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent


class Nursery:
    """The running program."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment, "PYTHONPATH": str(HERE)},
            cwd=HERE.parent,
        )

    def start(self, folder: Path) -> int:
        """Pull into a folder, in a process of its own."""
        return int(self._ask(f"start {folder}"))

    def reap(self, pid: int) -> int:
        """Wait for a process; its exit code, or minus the signal that killed it."""
        return int(self._ask(f"reap {pid}"))

    def _ask(self, line: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()


@contextmanager
def nursery(environment: dict[str, str]) -> Iterator[Nursery]:
    running = Nursery(environment)
    try:
        yield running
    finally:
        running.process.communicate()


def serve() -> None:
    import gguf  # noqa: F401 - what conversion needs
    from gemmachat.converters import convert  # noqa: F401
    from hub_settings import QUICK
    from pull_sources import SOURCE

    from gemmachat.hub import Hub
    from gemmachat.pull import pull

    for line in sys.stdin:
        what, argument = line.split()
        if what == "reap":
            _, status = os.waitpid(int(argument), 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                pull(SOURCE, Path(argument), Hub(QUICK))
                code = 0
            finally:
                os._exit(code)
        print(pid, flush=True)


if __name__ == "__main__":
    serve()
