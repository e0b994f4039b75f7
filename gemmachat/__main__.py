"""The `gemmachat` command, and `python -m gemmachat`."""

# What signal consists of; its enums take longer to import than all else before the handler is set.
import _signal
import gc
import os
import sys


def main() -> int:
    """Run the command that `sys.argv` holds and return its exit code."""
    # Importing takes a moment, in which Ctrl-C is no error to report. It may also be ignored.
    interruptible = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
    if interruptible:
        _signal.signal(_signal.SIGINT, lambda *_: os._exit(130))
    # What is imported is no garbage: looking for some is a tenth of the time to the first prompt.
    gc.disable()
    from gemmachat import plain_chat

    words = plain_chat.words_of(sys.argv[1:])
    if words is None:
        from gemmachat import cli

        gc.enable()
    else:
        from gemmachat.outcome import exit_code_of
    try:
        if interruptible:
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        if words is None:
            return cli.main()
        return exit_code_of(lambda screen: plain_chat.execute(words, screen))
    except KeyboardInterrupt:  # just before the command or after it
        return 130


if __name__ == "__main__":
    sys.exit(main())
