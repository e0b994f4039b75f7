"""What a folder of pulled files is: one target, the drafter that belongs to it, and their hashes.

`manifest.json` is written last, so a folder without it holds nothing that is complete.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from gemmachat.errors import DamagedFileError, GemmachatError
from gemmachat.file_names import is_plain_name, is_plain_path, is_repository
from gemmachat.files import open_regular
from gemmachat.publish import publish

MANIFEST = "manifest.json"
CHECKPOINTS = "checkpoint"
"""The folder beside the model's files in which a checkpoint lies until it is converted."""
MARK = ".gemmachat"
"""An empty file in every folder that gemmachat made for a model: other programs' are left alone."""

_VERSION = 1
_MAX_BYTES = 1 << 16
_MAX_FILE_BYTES = 1 << 50
_MAX_TEXT = 1000
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")

Role = Literal["target", "drafter"]


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One file, and where it is from; what is not known is None."""

    role: Role
    file: str  # a plain name that ends in .gguf
    bytes: int
    sha256: str
    repo: str | None = None  # OWNER/NAME
    path: str | None = None  # of the file in that repository
    commit: str | None = None
    made_from: str | None = None  # one sentence, where this machine made the file


@dataclass(frozen=True, slots=True)
class Manifest:
    """One model as it lies in its folder: the target first, then the drafter if there is one."""

    name: str
    quant: str  # as in file names, in upper case
    files: tuple[ManifestFile, ...]
    pulled_at: str  # ISO 8601 with an offset

    @property
    def target(self) -> ManifestFile:
        """The file of the target."""
        return self.files[0]

    @property
    def drafter(self) -> ManifestFile | None:
        """The file of the drafter, if there is one."""
        return self.files[1] if len(self.files) > 1 else None

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """The manifest of a folder; None where there is none.

        Raises `DamagedFileError` where it is not exactly what `write` writes, `GemmachatError`
        where it cannot be read.
        """
        path = folder / MANIFEST
        try:
            with open_regular(path) as file:
                data = file.read(_MAX_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise GemmachatError(f"{path} cannot be read: {error.strerror or error}") from error
        try:
            if len(data) > _MAX_BYTES:
                raise ValueError(f"is larger than {_MAX_BYTES} bytes")
            return _parsed(json.loads(data))
        except (ValueError, RecursionError) as error:  # of JSON and UTF-8 too
            what = error if str(error) else "is no JSON"
            raise DamagedFileError(
                f"the manifest {path} is damaged: {what}; pull {folder.parent.name}:{folder.name} "
                "again, or remove it with gemmachat rm"
            ) from None

    def write(self, folder: Path) -> None:
        """Put the manifest in its folder in one step. Raises `OSError`."""
        value = {"version": _VERSION, **asdict(self)}
        publish(folder / MANIFEST, json.dumps(value, indent=1).encode() + b"\n")


def mark(folder: Path) -> None:
    """Remember that a folder is gemmachat's. Raises `OSError`."""
    (folder / MARK).touch()


def unmark_empty(folder: Path) -> None:
    """Remove a folder in which nothing but the mark is left, and that of its name if empty then."""
    with contextlib.suppress(OSError):
        if [path.name for path in folder.iterdir()] == [MARK]:
            (folder / MARK).unlink()
        folder.rmdir()
        folder.parent.rmdir()


def _parsed(value: object) -> Manifest:
    """Raise ValueError with what is wrong."""
    fields = _fields(value, {"version", "name", "quant", "files", "pulled_at"})
    if fields["version"] != _VERSION or isinstance(fields["version"], bool):
        raise ValueError(f"'version' is not {_VERSION}: it is of another gemmachat")
    name, quant = _text(fields, "name"), _text(fields, "quant")
    for key, text in (("name", name), ("quant", quant)):
        if not is_plain_name(text):
            raise ValueError(f"{key!r} is no plain name")
    pulled_at = _text(fields, "pulled_at")
    if datetime.fromisoformat(pulled_at).tzinfo is None:
        raise ValueError("'pulled_at' has no offset")
    files = fields["files"]
    if not isinstance(files, list) or not 1 <= len(files) <= 2:
        raise ValueError("'files' is no list of one or two files")
    parsed = tuple(map(_file, files))
    if [file.role for file in parsed] != ["target", "drafter"][: len(parsed)]:
        raise ValueError("'files' is not a target, then a drafter")
    if len({file.file.lower() for file in parsed}) < len(parsed):
        raise ValueError("'files' has one file twice")
    return Manifest(name, quant, parsed, pulled_at)


def _file(value: object) -> ManifestFile:
    fields = _fields(
        value, {"role", "file", "bytes", "sha256", "repo", "path", "commit", "made_from"}
    )
    role, size = fields["role"], fields["bytes"]
    if role not in ("target", "drafter"):
        raise ValueError("'role' is neither 'target' nor 'drafter'")
    if type(size) is not int or not 0 < size <= _MAX_FILE_BYTES:
        raise ValueError("'bytes' is no size of a file")
    file = _text(fields, "file")
    if not is_plain_name(file) or not file.endswith(".gguf"):
        raise ValueError("'file' is not the plain name of a .gguf file")
    if not _SHA256.fullmatch(_text(fields, "sha256")):
        raise ValueError("'sha256' is no SHA-256")
    repo, path, commit = (_optional(fields, key) for key in ("repo", "path", "commit"))
    if repo is not None and not is_repository(repo):
        raise ValueError("'repo' is not OWNER/NAME")
    if path is not None and not is_plain_path(path):
        raise ValueError("'path' is no path in a repository")
    if commit is not None and not _COMMIT.fullmatch(commit):
        raise ValueError("'commit' is no commit")
    made_from = _optional(fields, "made_from")
    return ManifestFile(role, file, size, fields["sha256"], repo, path, commit, made_from)


def _fields(value: object, names: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict) or value.keys() != names:
        raise ValueError(f"an object has not exactly the keys {', '.join(sorted(names))}")
    return value


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields[key]
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_TEXT:
        raise ValueError(f"{key!r} is no text of 1 to {_MAX_TEXT} characters")
    return value


def _optional(fields: Mapping[str, Any], key: str) -> str | None:
    return None if fields[key] is None else _text(fields, key)
