"""The errors a user can meet. Each class carries the exit code of the command that fails with it.

GemmachatError             1  something failed
├── EngineError            1  llama.cpp or the native library reported a failure
├── DownloadError          1  a file that cannot be fetched, or not be stored
├── ServerError            1  a server of models that cannot be reached, or fails
├── UsageError             2  an option, a parameter or a request that makes no sense
├── NotFoundError          3  a model or file that is not there
├── DamagedFileError       4  a file that is damaged, of the wrong kind or not to be trusted
│   └── PairMismatchError  4  a target and a drafter that do not belong together
├── MemoryLimitError       5  does not fit in memory
└── ContextFullError       6  does not fit in the context window

`str(error)` is one sentence for the user: what is wrong, where, and what to do.
"""


class GemmachatError(Exception):
    """Base of every error that gemmachat raises on purpose."""

    exit_code = 1


class EngineError(GemmachatError):
    """llama.cpp or the native library reported a failure."""


class DownloadError(GemmachatError):
    """A file that cannot be fetched, or not be stored."""


class ServerError(GemmachatError):
    """A server of models that cannot be reached, or fails."""


class UsageError(GemmachatError):
    """An option, a parameter or a request that makes no sense."""

    exit_code = 2


class NotFoundError(GemmachatError):
    """A model or file that is not there."""

    exit_code = 3


class DamagedFileError(GemmachatError):
    """A file that is damaged, of the wrong kind or not to be trusted."""

    exit_code = 4


class PairMismatchError(DamagedFileError):
    """A target and a drafter that do not belong together."""


class MemoryLimitError(GemmachatError):
    """Something that does not fit in memory."""

    exit_code = 5


class ContextFullError(GemmachatError):
    """Something that does not fit in the context window."""

    exit_code = 6


FAILURES = (GemmachatError, MemoryError, OSError, ImportError)
"""What a command can fail with."""


def outcome(error: GemmachatError | MemoryError | OSError | ImportError) -> tuple[int, str]:
    """Return the exit code and the sentence with which a command ends."""
    if isinstance(error, GemmachatError):
        return error.exit_code, str(error)
    if isinstance(error, MemoryError):
        return MemoryLimitError.exit_code, "there is not enough memory"
    if isinstance(error, ImportError):
        return GemmachatError.exit_code, f"gemmachat cannot be loaded: reinstall it ({error})"
    what = "reading or writing" if error.filename is None else f"access to {error.filename}"
    return GemmachatError.exit_code, f"{what} failed: {error.strerror or error}"
