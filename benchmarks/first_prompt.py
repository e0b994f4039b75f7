"""How long `gemmachat run` takes until its prompt is seen: first_prompt.py [RUNS].

Starts the command in a pseudo-terminal, with the embedded pair, and stops the clock when the prompt
is drawn. The model may still be loading then.
"""

from __future__ import annotations

import os
import pty
import statistics
import sys
import time

COMMAND = [sys.executable, "-m", "gemmachat", "run", "tiny"]
READY = b"\x1b[?2004h"  # bracketed paste, which the editor asks for when it begins
WHERE = b"\x1b[6n"  # the editor asks where the cursor is


def seconds_to_prompt() -> float:
    """Run the command once."""
    started = time.perf_counter()
    process, terminal = pty.fork()
    if process == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execv(COMMAND[0], COMMAND)
    shown = b""
    answered = False
    while b">" not in shown.partition(READY)[2]:
        shown += os.read(terminal, 1 << 16)
        if WHERE in shown and not answered:
            answered = True
            os.write(terminal, b"\x1b[1;1R")
    seconds = time.perf_counter() - started
    os.kill(process, 9)
    os.waitpid(process, 0)
    os.close(terminal)
    return seconds


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    seconds_to_prompt()  # so that all files are cached
    found = [1000 * seconds_to_prompt() for _ in range(runs)]
    print(
        f"first prompt after {statistics.median(found):.0f} ms "
        f"(median of {runs}; {min(found):.0f} to {max(found):.0f})"
    )


if __name__ == "__main__":
    main()
