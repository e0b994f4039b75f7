"""The `gemmachat` command, and `python -m gemmachat`."""

# What signal consists of; its enums take longer to import than all else before the handler is set.
import _signal
import os
import sys


def main() -> int:
    """Run the command that `sys.argv` holds and return its exit code."""
    # Importing takes a moment, in which Ctrl-C is no error to report. It may also be ignored.
    interruptible = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
    if interruptible:
        _signal.signal(_signal.SIGINT, lambda *_: os._exit(130))
    from gemmachat import run_request

    plain = run_request.plain_chat(sys.argv[1:])
    if plain is None:
        from gemmachat import cli
    else:
        from gemmachat.outcome import exit_code_of
    try:
        if interruptible:
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        if plain is None:
            return cli.main()
        return exit_code_of(lambda screen: run_request.execute(plain, screen))
    except KeyboardInterrupt:  # just before the command or after it
        return 130


if __name__ == "__main__":
    sys.exit(main())
