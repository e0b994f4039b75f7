"""The model catalog, and what a MODEL on the command line means."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmachat.errors import DamagedFileError, NotFoundError, UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_MODEL = "tiny"

_PACKAGE = Path(__file__).parent
_KEYS: dict[str, type] = {
    "description": str,
    "embedded": bool,
    "target": str,
    "drafter": str,
    "context": int,
    "temperature": float,
}
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.gguf")


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One model of the catalog. `target` and `drafter` are names of files, `context` is tokens."""

    name: str
    description: str
    embedded: bool
    target: str
    drafter: str
    context: int
    temperature: float


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """The files of one model, and what a chat gets when nobody says; None is the usual."""

    name: str
    target: Path
    drafter: Path | None
    context: int | None
    temperature: float | None


def catalog_path() -> Path:
    """Where models.toml is: in the package, or beside it in a source tree."""
    installed = _PACKAGE / "models.toml"
    return installed if installed.exists() else _PACKAGE.parent / "models.toml"


def load_catalog(path: Path | None = None) -> dict[str, CatalogEntry]:
    """Read and validate a catalog.

    Raises `NotFoundError`, or `DamagedFileError` that names the entry and what is wrong with it.
    """
    path = path or catalog_path()
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotFoundError(f"the model catalog {path} is missing: reinstall gemmachat") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedFileError(f"{path} is not valid TOML: {error}") from error
    return {name: _entry(path, name, table) for name, table in tables.items()}


def _entry(path: Path, name: str, table: object) -> CatalogEntry:
    problem = _problem(name, table)
    if problem or not isinstance(table, dict):
        raise DamagedFileError(f"{path}: model {name!r} {problem}")
    return CatalogEntry(name=name, **table)


def _problem(name: str, table: object) -> str | None:
    if not _NAME.fullmatch(name):
        return "has a name that is not made of a-z, 0-9, '.', '_' and '-'"
    if not isinstance(table, dict):
        return "is not a table"
    if unknown := sorted(table.keys() - _KEYS.keys()):
        return f"has an unknown key {unknown[0]!r}"
    for key, kind in _KEYS.items():
        if key not in table:
            return f"lacks the key {key!r}"
        if type(table[key]) is not kind:
            return f"has a {key!r} that is not of type {kind.__name__}"
    return _bad_value(table)


def _bad_value(table: dict[str, Any]) -> str | None:
    for key in ("target", "drafter"):
        # A name may not lead out of the model folder.
        if not _FILE.fullmatch(table[key]):
            return f"has a {key!r} that is not the plain name of a .gguf file"
    if table["context"] < 1:
        return "has a 'context' below 1"
    if not 0 <= table["temperature"] <= 100:
        return "has a 'temperature' that is not between 0 and 100"
    if not table["embedded"]:
        return "is not embedded, and nothing says where to get it"
    return None


def looks_like_model(text: str) -> bool:
    """Whether a lone argument is a MODEL rather than a PROMPT.

    It is when it names a model of the catalog, ends in .gguf, or is a path (with a separator in
    it) to something that exists.
    """
    if text in load_catalog() or text.lower().endswith(".gguf"):
        return True
    separators = {os.sep, os.altsep or os.sep}
    return any(sep in text for sep in separators) and _find(text) is not None


def _find(text: str) -> Path | None:
    """Return what exists under this path."""
    try:
        path = Path(text).expanduser()
        return path if path.exists() else None
    except (OSError, ValueError, RuntimeError):  # too long, with a NUL, of an unknown ~user
        return None


def resolve(name: str, drafter: str | None = None) -> ResolvedModel:
    """Return the files that a MODEL stands for.

    `drafter`, a path, replaces the drafter of the catalog. Whether the files are sound is checked
    when they are loaded. Raises `NotFoundError` for a name that is neither known nor a file, and
    `UsageError` for an empty one.
    """
    if name == "" or drafter == "":
        empty = "MODEL" if name == "" else "--drafter"
        raise UsageError(f"{empty} is empty: give the path of a GGUF file")
    own_drafter = None if drafter is None else _find(drafter) or Path(drafter)
    catalog = load_catalog()
    if entry := catalog.get(name):
        data = _PACKAGE / "data"
        target = data / entry.target
        if not target.exists():
            raise NotFoundError(
                f"the embedded model {name} is missing from this installation ({target}): "
                "reinstall gemmachat, or give the path of a GGUF file"
            )
        return ResolvedModel(
            name, target, own_drafter or data / entry.drafter, entry.context, entry.temperature
        )
    found = _find(name)
    if found is None:
        if name.lower().endswith(".gguf"):
            raise NotFoundError(f"there is no file {name}")
        raise NotFoundError(
            f"there is no model {name!r}: give the path of a GGUF file or one of these names: "
            f"{', '.join(catalog)} (a prompt of several words needs quotes)"
        )
    if found.is_dir():
        raise UsageError(f"{name} is a folder: give the path of a GGUF file in it")
    return ResolvedModel(found.stem, found, own_drafter, context=None, temperature=None)
