"""Whether the files on the shelf are still the bytes that were put there."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gemmachat.errors import GemmachatError
from gemmachat.gguf_info import check_pair, read_header
from gemmachat.manifest import ManifestFile
from gemmachat.shelf import Unit, unit_lock

_CHUNK = 1 << 20

Hashed = Callable[[int], None]
"""Called with the bytes that were hashed since the last call."""


@dataclass(frozen=True, slots=True)
class FileCheck:
    """One file of a unit, and what is wrong with it; None if nothing is."""

    model: str
    file: str
    problem: str | None
    damaged: bool = False
    """Not where the problem is that the file cannot be read: then nobody knows."""


def verify(unit: Unit, hashed: Hashed) -> list[FileCheck]:
    """Hash every file of a unit again, and check that target and drafter belong together.

    Raises `GemmachatError` where another program is changing the unit.
    """
    with unit_lock(unit.folder):
        checks = [_checked(unit, file, hashed) for file in unit.manifest.files]
        if not any(check.problem for check in checks):
            checks += _pair_problem(unit)
    return checks


def verify_all(units: list[Unit], hashed: Hashed) -> tuple[list[FileCheck], dict[str, str]]:
    """Verify units, and tell which of them could not be because another program changes them."""
    checks: list[FileCheck] = []
    busy: dict[str, str] = {}
    for unit in units:
        try:
            checks += verify(unit, hashed)
        except GemmachatError as error:
            busy[unit.reference] = str(error)
    return checks, busy


def sha256_of(path: Path, hashed: Hashed) -> str:
    """Return the SHA-256 of a file in hex. Raises `OSError`."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while data := file.read(_CHUNK):
            digest.update(data)
            hashed(len(data))
    return digest.hexdigest()


def _checked(unit: Unit, file: ManifestFile, hashed: Hashed) -> FileCheck:
    try:
        damage = _damage(unit.folder / file.file, file, hashed)
    except OSError as error:
        return FileCheck(unit.reference, file.file, f"it cannot be read: {error.strerror or error}")
    return FileCheck(unit.reference, file.file, damage, damaged=damage is not None)


def _damage(path: Path, expected: ManifestFile, hashed: Hashed) -> str | None:
    """What is wrong with a file. Raises `OSError` where it cannot be read."""
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):
            return "it is not a file"
        if state.st_size != expected.bytes:
            return f"it has {state.st_size:,} bytes, not {expected.bytes:,}"
        found = sha256_of(path, hashed)
    except FileNotFoundError:
        return "it is gone"
    return None if found == expected.sha256 else f"its SHA-256 is {found}, not {expected.sha256}"


def _pair_problem(unit: Unit) -> list[FileCheck]:
    """What the hashes cannot tell: files that were wrong from the start."""
    try:
        drafter = None if unit.drafter is None else read_header(unit.drafter)
        check_pair(read_header(unit.target), drafter)
    except GemmachatError as error:
        return [FileCheck(unit.reference, unit.manifest.target.file, str(error), damaged=True)]
    return []
