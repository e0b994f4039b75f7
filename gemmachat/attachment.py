"""Text from files of the user's that goes into a prompt."""

from __future__ import annotations

import os
from pathlib import Path

from gemmachat.errors import ContextFullError, NotFoundError, UsageError
from gemmachat.files import IrregularFileError, open_regular

# More than the longest context of any Gemma 4 can hold.
MAX_INPUT_BYTES = 16 * 2**20


def read_text(path: str) -> str:
    """Return the text of a file, `~` in its path expanded.

    Raises `NotFoundError`, `UsageError` where it is no readable UTF-8 text, and `ContextFullError`
    where it is larger than any context.
    """
    try:
        with open_regular(Path(os.path.expanduser(path))) as file:
            data = file.read(MAX_INPUT_BYTES + 1)
    except IrregularFileError:
        raise UsageError(f"{path} is not a file with text") from None
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {path}") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"{path} cannot be read: {why}") from None
    return decode(data, path)


def decode(data: bytes | bytearray, what: str) -> str:
    """Return bytes that came from `what` as text; raises what `read_text` raises."""
    if len(data) > MAX_INPUT_BYTES:
        raise ContextFullError(
            f"{what} holds more than {MAX_INPUT_BYTES} bytes, which fits into the context of no "
            "model"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{what} is not UTF-8 text: byte {error.start} is 0x{data[error.start]:02x}"
        ) from None


def attached(path: str) -> str:
    """Return the text of a file under a line with its name, as it goes into a prompt."""
    return f"{os.path.basename(path)}:\n{read_text(path)}"
