"""Takes models off the shelf, and away what interrupted or replaced ones left there.

Only files of the kinds that gemmachat makes are removed. On Linux and macOS a chat that is using a
removed model goes on: the system keeps the bytes until the last program that has mapped them ends.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from gemmachat.errors import GemmachatError
from gemmachat.manifest import CHECKPOINTS, MANIFEST, MARK, Manifest, unmark_empty
from gemmachat.shelf import LAST_USED, Shelf, unit_lock

_OURS = (".gguf", ".gguf.clusters", ".part", ".part.json", ".lock")


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Files of one folder that belong to no model."""

    folder: Path
    files: tuple[Path, ...]
    nbytes: int


@dataclass(frozen=True, slots=True)
class Removal:
    """What a removal freed, in bytes, and what it left because it is not gemmachat's."""

    nbytes: int
    left: tuple[Path, ...]


def remove(folder: Path) -> Removal:
    """Take the unit in a folder off the shelf, whatever state it is in.

    Raises `OSError`, and `GemmachatError` where another program is changing it.
    """
    with unit_lock(folder):
        # Without it nothing is on the shelf: a removal that is interrupted leaves no half model.
        (folder / MANIFEST).unlink(missing_ok=True)
        freed = _delete([*_ours(folder), folder / MARK])
    _remove_empty(folder)
    left = tuple(sorted(folder.iterdir())) if folder.exists() else ()
    return Removal(freed, left)


def find_leftovers(shelf: Shelf) -> tuple[list[Leftovers], list[str]]:
    """Return what prune would take away, and why some folders are left as they are."""
    found: list[Leftovers] = []
    skipped: list[str] = []
    for folder in shelf.folders():
        files = _leftovers_or_reason(folder)
        if isinstance(files, str):
            skipped.append(files)
        elif files:
            found.append(Leftovers(folder, tuple(files), sum(map(_size, files))))
    return found, skipped


def prune(leftovers: Leftovers) -> int:
    """Take away what is still left over, and return how many bytes that freed.

    Raises `OSError`, and `GemmachatError` where another program is at work in the folder.
    """
    with unit_lock(leftovers.folder):
        still = set(_leftovers(leftovers.folder))
        freed = _delete([file for file in leftovers.files if file in still])
    _remove_empty(leftovers.folder)
    return freed


def _leftovers_or_reason(folder: Path) -> list[Path] | str:
    try:
        with unit_lock(folder):
            return _leftovers(folder)
    except GemmachatError as error:
        return str(error)
    except OSError as error:
        return f"{folder} cannot be read: {error.strerror or error}"


def _leftovers(folder: Path) -> list[Path]:
    """Files of ours that no manifest names. Raises `DamagedFileError` if that cannot be told."""
    manifest = Manifest.read(folder)
    if manifest is None and not (folder / MARK).exists():
        return []  # another program's
    kept = {f"{MANIFEST}.lock"}
    if manifest is not None:
        files = [file.file for file in manifest.files]
        kept |= {MANIFEST, LAST_USED, *files, *(f"{file}.clusters" for file in files)}
    return [file for file in _ours(folder) if file.name not in kept]


def _ours(folder: Path) -> list[Path]:
    files = [file for file in folder.iterdir() if _is_ours(file)]
    checkpoint = folder / CHECKPOINTS
    if not checkpoint.is_symlink():
        files += [file for file in checkpoint.rglob("*") if file.is_symlink() or file.is_file()]
    return sorted(files)


def _is_ours(file: Path) -> bool:
    if file.name == f"{MANIFEST}.lock" or not (file.is_symlink() or file.is_file()):
        return False
    return file.name in (MANIFEST, LAST_USED) or file.name.endswith(_OURS)


def _delete(files: list[Path]) -> int:
    freed = 0
    for file in files:
        nbytes = _size(file)
        file.unlink(missing_ok=True)
        freed += nbytes
    return freed


def _size(file: Path) -> int:
    try:
        return file.lstat().st_size
    except OSError:  # another program has removed it
        return 0


def _remove_empty(folder: Path) -> None:
    """Remove the folder, and that of its name, if nothing is left in them."""
    for inside in sorted(folder.glob(f"{CHECKPOINTS}/**/"), reverse=True):
        with contextlib.suppress(OSError):
            inside.rmdir()
    unmark_empty(folder)
