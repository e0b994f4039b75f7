"""The `gemmachat` command, and `python -m gemmachat`."""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    """Run the command that `sys.argv` holds and return its exit code."""
    # Importing takes a moment, in which Ctrl-C is no error to report. It may also be ignored.
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from gemmachat import cli

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
