"""One model of a catalog, checked like any text from outside."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from gemmachat.errors import DamagedFileError
from gemmachat.file_names import is_plain_name, is_plain_path, is_repository
from gemmachat.reference import is_model_name
from gemmachat.source import HubCheckpoint, HubPath, ModelSource

_QUANT = re.compile(r"[A-Z0-9][A-Z0-9._-]*")
_REVISION = re.compile(r"[\w][\w./-]{0,99}", re.ASCII)
_CHECKPOINT_QUANT = "Q8_0"
_MAX_LINE = 200
_MAX_TOKENS = 1 << 30
_MAX_BYTES = 1 << 50
_KEYS = {
    "description", "context", "temperature", "embedded", "target", "drafter", "page", "licence",
    "memory", "mmproj", "quants", "drafters",
}  # fmt: skip

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class QuantFile:
    """A target in one quantization; `nbytes` as published elsewhere, so only a hint."""

    path: HubPath
    nbytes: int | None


@dataclass(frozen=True, slots=True)
class EmbeddedPair:
    """Names of the files of a model that ships inside the package."""

    target: str
    drafter: str


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One model of the catalog. `context` is tokens, `memory` bytes beside the target's weights."""

    name: str
    description: str
    context: int
    temperature: float | None = None
    embedded: EmbeddedPair | None = None
    page: str | None = None
    licence: str | None = None
    memory: int | None = None
    quants: Mapping[str, QuantFile] = field(default_factory=dict)
    drafters: tuple[HubCheckpoint | HubPath, ...] = ()
    mmproj: HubPath | None = None

    def source(self, quant: str) -> ModelSource:
        """Where to pull the model from in one of its quantizations."""
        return ModelSource(self.name, quant, self.quants[quant].path, self.drafters)


def parse_entry(path: Path, name: str, table: object) -> CatalogEntry:
    """Read the table of one model; raises `DamagedFileError` that says what is wrong with it."""
    whole = f"{path}: model {name[:100]!r}"
    if not is_model_name(name):
        raise DamagedFileError(f"{whole} has a name that is not made of a-z, 0-9, '.', '_' and '-'")
    if not isinstance(table, dict):
        raise DamagedFileError(f"{whole} is not a table")
    return _entry(name, _Table(whole, table))


def _entry(name: str, table: _Table) -> CatalogEntry:
    table.check_keys(_KEYS)
    embedded = None
    if table.optional("embedded", bool):
        embedded = EmbeddedPair(table.file("target"), table.file("drafter"))
    entry = CatalogEntry(
        name=name,
        description=table.required("description", str),
        context=table.positive("context", _MAX_TOKENS),
        temperature=table.optional("temperature", float),
        embedded=embedded,
        page=table.optional("page", str),
        licence=_licence(table),
        memory=_nbytes(table, "memory"),
        quants={quant: _quant(quant, part) for quant, part in table.parts("quants")},
        drafters=tuple(_drafter(part) for part in table.rows("drafters")),
        mmproj=None if (part := table.part("mmproj")) is None else _hub_path(part),
    )
    if entry.temperature is not None and not 0 <= entry.temperature <= 100:
        raise table.wrong("has a 'temperature' that is not between 0 and 100")
    if not entry.quants and embedded is None:
        raise table.wrong("is not embedded, and no 'quants' say where to get it")
    return entry


def _quant(quant: str, table: _Table) -> QuantFile:
    if not _QUANT.fullmatch(quant) or not is_plain_name(quant):
        raise table.wrong("has a name that is not made of A-Z, 0-9, '.', '_' and '-'")
    table.check_keys({"repo", "file", "revision", "bytes"})
    return QuantFile(_hub_path(table), _nbytes(table, "bytes"))


def _drafter(table: _Table) -> HubCheckpoint | HubPath:
    table.check_keys({"repo", "file", "revision"})
    if table.optional("file", str) is not None:
        return _hub_path(table)
    repo = table.checked("repo", is_repository, "OWNER/NAME")
    return HubCheckpoint(repo, _CHECKPOINT_QUANT, _revision(table))


def _hub_path(table: _Table) -> HubPath:
    return HubPath(
        table.checked("repo", is_repository, "OWNER/NAME"),
        table.checked("file", _is_gguf_path, "the path of a .gguf file"),
        _revision(table),
    )


def _licence(table: _Table) -> str | None:
    if table.optional("licence", str) is None:
        return None
    return table.checked("licence", _is_short_line, f"a line of 1 to {_MAX_LINE} characters")


def _nbytes(table: _Table, key: str) -> int | None:
    return None if table.optional(key, int) is None else table.positive(key, _MAX_BYTES)


def _revision(table: _Table) -> str:
    if table.optional("revision", str) is None:
        return "main"
    return table.checked("revision", _is_revision, "a branch, tag or commit")


def _is_short_line(text: str) -> bool:
    return text.isprintable() and not text.isspace() and 1 <= len(text) <= _MAX_LINE


def _is_gguf_path(text: str) -> bool:
    """Whether this is a path in a repository; its file name may hold `*`."""
    folder, slash, name = text.rpartition("/")
    return text.endswith(".gguf") and is_plain_path(folder + slash + name.replace("*", "x"))


def _is_plain_gguf(text: str) -> bool:
    return text.endswith(".gguf") and is_plain_name(text)


def _is_revision(text: str) -> bool:
    return _REVISION.fullmatch(text) is not None and ".." not in text


class _Table:
    """Typed access to a table; `whole` says in messages where it is."""

    def __init__(self, whole: str, table: dict[str, object]) -> None:
        self._whole, self._table = whole, table

    def wrong(self, problem: str) -> DamagedFileError:
        """The error that says what is wrong."""
        return DamagedFileError(f"{self._whole} {problem}")

    def check_keys(self, known: set[str]) -> None:
        """No key is unknown: it may be a misspelt one."""
        if unknown := sorted(self._table.keys() - known):
            raise self.wrong(f"has an unknown key {unknown[0][:100]!r}")

    def optional(self, key: str, kind: type[T]) -> T | None:
        """The value of a key that may be absent."""
        value = self._table.get(key)
        if value is not None and type(value) is not kind:
            raise self.wrong(f"has a {key!r} that is not of type {kind.__name__}")
        return value

    def required(self, key: str, kind: type[T]) -> T:
        """The value of a key that must be there."""
        value = self.optional(key, kind)
        if value is None:
            raise self.wrong(f"lacks the key {key!r}")
        return value

    def positive(self, key: str, most: int) -> int:
        """A whole number from 1 to `most`."""
        value = self.required(key, int)
        if not 1 <= value <= most:
            raise self.wrong(f"has a {key!r} that is not between 1 and {most}")
        return value

    def checked(self, key: str, is_right: Callable[[str], bool], what: str) -> str:
        """A text of one form."""
        text = self.required(key, str)
        if not is_right(text):
            raise self.wrong(f"has a {key!r} that is not {what}: {text[:100]!r}")
        return text

    def file(self, key: str) -> str:
        """A plain name, which cannot lead out of its folder."""
        return self.checked(key, _is_plain_gguf, "the plain name of a .gguf file")

    def part(self, key: str) -> _Table | None:
        """The table under a key."""
        value = self.optional(key, dict)
        return None if value is None else _Table(f"{self._whole}, {key}", value)

    def parts(self, key: str) -> list[tuple[str, _Table]]:
        """The tables in the table under a key, by name."""
        found: list[tuple[str, _Table]] = []
        for name, value in (self.optional(key, dict) or {}).items():
            if not isinstance(value, dict):
                raise self.wrong(f"has {key} of which {name[:100]!r} is not a table")
            found.append((name, _Table(f"{self._whole}, {key} {name[:100]!r}", value)))
        return found

    def rows(self, key: str) -> list[_Table]:
        """The tables in the list under a key."""
        found: list[_Table] = []
        for number, value in enumerate(self.optional(key, list) or [], 1):
            if not isinstance(value, dict):
                raise self.wrong(f"has {key} of which number {number} is not a table")
            found.append(_Table(f"{self._whole}, {key} number {number}", value))
        return found
