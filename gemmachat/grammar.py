"""Grammars that an answer must follow: from files, checked before a model is loaded."""

from __future__ import annotations

from pathlib import Path

from gemmachat.bridge import check_grammar
from gemmachat.errors import NotFoundError, UsageError
from gemmachat.schema_trial import convert_apart

MAX_BYTES = 256 * 1024


def read_grammar(path: Path) -> str:
    """The GBNF grammar in a file. Raises `UsageError` or `NotFoundError`."""
    text = _read(path, "grammar")
    check_grammar(text)
    return text


def read_schema(path: Path) -> str:
    """The grammar of the JSON schema in a file. Raises `UsageError` or `NotFoundError`."""
    return schema_grammar(_read(path, "JSON schema"))


def schema_grammar(text: str) -> str:
    """The grammar of a JSON schema that nobody vouches for. Raises `UsageError`."""
    grammar = convert_apart(text)
    try:
        check_grammar(grammar)
    except UsageError as error:
        raise UsageError(f"the JSON schema cannot be used: {error}") from None
    return grammar


def _read(path: Path, what: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise NotFoundError(f"the {what} file {path} does not exist") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"the {what} file {path} cannot be read: {reason}") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"the {what} file {path} is larger than {MAX_BYTES // 1024} KiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"the {what} file {path} is not UTF-8 text") from None
    if "\0" in text or not text.strip():
        raise UsageError(f"the {what} file {path} is empty or holds a NUL character")
    return text
