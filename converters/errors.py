"""The errors of a conversion. Each class carries the exit code of the command that fails with it.

ConversionError             1  something failed
├── OptionError             2  a choice that makes no sense
├── CheckpointNotFoundError 3  the checkpoint, or a file of it, is not there
├── CheckpointError         4  the checkpoint is damaged, or not one that can be converted
├── ResourceError           5  memory or threads do not suffice
└── OutputError             1  the output cannot be written

`str(error)` is one sentence for the user: what is wrong, where, and what to do.
"""


class ConversionError(Exception):
    """Base of every error that a conversion raises on purpose."""

    exit_code = 1


class OptionError(ConversionError):
    """A choice that makes no sense."""

    exit_code = 2


class CheckpointNotFoundError(ConversionError):
    """The checkpoint, or a file of it, is not there."""

    exit_code = 3


class CheckpointError(ConversionError):
    """The checkpoint is damaged, or not one that can be converted."""

    exit_code = 4


class ResourceError(ConversionError):
    """Memory or threads do not suffice."""

    exit_code = 5


class OutputError(ConversionError):
    """The output cannot be written."""


def quoted(text: object, limit: int = 80) -> str:
    """`text` in quotes, control characters escaped and cut to `limit`, for use in a message."""
    escaped = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(text))
    return f"'{escaped[:limit]}…'" if len(escaped) > limit else f"'{escaped}'"
