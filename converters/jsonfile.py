"""Reads JSON that nobody vouches for: bounded, no duplicate keys, no NaN, always an object."""

import json
from pathlib import Path
from typing import Any, NoReturn

from .errors import CheckpointError, CheckpointNotFoundError, quoted

JsonObject = dict[str, Any]


def read_json(path: Path, *, max_bytes: int) -> JsonObject:
    """The object in the file at `path`. Raises CheckpointError or CheckpointNotFoundError."""
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except FileNotFoundError:
        raise CheckpointNotFoundError(
            f"{quoted(path.name)} is missing in {quoted(path.parent, 200)}: "
            "give the folder of a complete Gemma 4 checkpoint."
        ) from None
    except OSError as error:
        raise CheckpointError(
            f"{quoted(path, 200)} cannot be read: {error.strerror or error}."
        ) from error
    if len(data) > max_bytes:
        raise CheckpointError(f"{quoted(path, 200)} is larger than {max_bytes} bytes.")
    return parse_json(data, where=quoted(path, 200))


def parse_json(data: bytes, *, where: str) -> JsonObject:
    """The object that `data` holds; `where` names its origin in messages."""
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object_without_duplicates,
            parse_constant=_refuse_constant,
        )
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{where} is not valid JSON: {_one_line(error)}.") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{where} does not hold a JSON object.")
    return value


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> JsonObject:
    # A reader that keeps the first of two equal keys and one that keeps the last disagree.
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {quoted(key)} appears twice")
            seen.add(key)
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _one_line(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    return str(error).replace("\n", " ").rstrip(".")
