"""Reads JSON that nobody vouches for: bounded, no duplicate keys, no NaN, always an object."""

import json
from pathlib import Path
from typing import Any, NoReturn

from .errors import CheckpointError, quoted
from .files import opened

JsonObject = dict[str, Any]
# Six times what the tokenizer of Gemma 4 with its merges as pairs holds.
MAX_CONTAINERS = 3_000_000


def read_json(path: Path, *, max_bytes: int) -> JsonObject:
    """The object in the file at `path`. Raises CheckpointError or CheckpointNotFoundError."""
    with opened(path) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise CheckpointError(f"{quoted(path, 200)} is larger than {max_bytes} bytes.")
    return parse_json(data, where=quoted(path, 200))


def parse_json(data: bytes, *, where: str) -> JsonObject:
    """The object that `data` holds; `where` names its origin in messages."""
    # Empty ones take fifty times the room in memory that they take in the file.
    if data.count(b"[") + data.count(b"{") > MAX_CONTAINERS:
        raise CheckpointError(f"{where} holds more than {MAX_CONTAINERS} lists and objects.")
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
    if str(error).startswith("Exceeds the limit"):
        return "it holds a number of thousands of digits"
    return str(error).replace("\n", " ").rstrip(".")
