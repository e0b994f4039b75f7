"""The shelf: the models that lie complete in the models folder.

Each is a unit, a target and the drafter that belongs to it, in `<name>/<quantization>/`. It is on
the shelf when its folder holds a manifest.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gemmachat.errors import DamagedFileError, GemmachatError
from gemmachat.file_lock import ReadOnlyError, locked
from gemmachat.file_names import is_plain_name
from gemmachat.manifest import MANIFEST, Manifest

LAST_USED = "last-used"
"""An empty file in a unit's folder; its time says when a chat last used the model."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One pulled or imported model."""

    folder: Path
    manifest: Manifest

    @property
    def reference(self) -> str:
        """What a command calls it: name:quantization."""
        return f"{self.manifest.name}:{self.manifest.quant.lower()}"

    @property
    def target(self) -> Path:
        """The file of the target."""
        return self.folder / self.manifest.target.file

    @property
    def drafter(self) -> Path | None:
        """The file of the drafter, if there is one."""
        drafter = self.manifest.drafter
        return None if drafter is None else self.folder / drafter.file

    @property
    def nbytes(self) -> int:
        """The size of both files."""
        return sum(file.bytes for file in self.manifest.files)

    @property
    def pulled_at(self) -> datetime:
        """When it came onto the shelf."""
        return datetime.fromisoformat(self.manifest.pulled_at)

    def last_used(self) -> datetime | None:
        """When a chat last used it; None if none did, or at a time that cannot be."""
        try:
            seconds = (self.folder / LAST_USED).stat().st_mtime
            return datetime.fromtimestamp(seconds, UTC) if seconds >= 0 else None
        except (OSError, OverflowError, ValueError):  # a year that no calendar has
            return None

    def touch(self) -> None:
        """Remember that it is used now, where that can be written."""
        with contextlib.suppress(OSError):
            (self.folder / LAST_USED).touch()


@dataclass(frozen=True, slots=True)
class Shelf:
    """The units of one models folder."""

    models: Path

    def folder(self, name: str, quant: str) -> Path:
        """Where a unit lies, or would."""
        return self.models / name / quant.lower()

    def units(self) -> tuple[list[Unit], list[GemmachatError]]:
        """Return all units by name, and what is wrong with those that cannot be read."""
        folders, problems = self._listed()
        read = [_unit_or_problem(folder) for folder in folders]
        units = [item for item in read if isinstance(item, Unit)]
        return units, [*problems, *(item for item in read if isinstance(item, GemmachatError))]

    def folders(self) -> list[Path]:
        """Return every folder in which a unit lies or could, in order; see `unreadable`."""
        return self._listed()[0]

    def folders_of(self, name: str) -> list[Path]:
        """Return those of one name. Raises `GemmachatError` where they cannot be listed."""
        return _subfolders(self.models / name) if _is_our_name(name) else []

    def unreadable(self) -> list[GemmachatError]:
        """Return why the folders of some names cannot be listed."""
        return self._listed()[1]

    def _listed(self) -> tuple[list[Path], list[GemmachatError]]:
        folders: list[Path] = []
        problems: list[GemmachatError] = []
        for name in _subfolders(self.models):
            try:
                folders += _subfolders(name)
            except GemmachatError as problem:
                problems.append(problem)
        return folders, problems

    def find(self, name: str, quant: str | None = None) -> Unit | None:
        """Return a unit; without a quantization, of several the one that was last used, or came.

        Raises `DamagedFileError` where its manifest is damaged, `GemmachatError` where it cannot be
        read.
        """
        if quant is not None:
            return _unit(self.folder(name, quant))
        units = [unit for folder in _subfolders(self.models / name) if (unit := _unit(folder))]
        return max(units, key=lambda unit: unit.last_used() or unit.pulled_at, default=None)


@contextlib.contextmanager
def unit_lock(folder: Path) -> Iterator[None]:
    """Keep other programs from changing a unit during the block.

    Raises `GemmachatError` if one is changing it. A folder that cannot be written to needs no lock.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ReadOnlyError):
            stack.enter_context(locked(folder / MANIFEST, lambda: _refuse(folder)))
        yield


def _refuse(folder: Path) -> None:
    raise GemmachatError(f"another gemmachat is at work in {folder}: wait until it is done")


def _unit_or_problem(folder: Path) -> Unit | GemmachatError | None:
    try:
        return _unit(folder)
    except GemmachatError as problem:
        return problem


def _unit(folder: Path) -> Unit | None:
    """Raises `DamagedFileError` on a manifest that is damaged, or of another folder."""
    manifest = Manifest.read(folder)
    if manifest is None:
        return None
    if (folder.parent.name, folder.name) != (manifest.name, manifest.quant.lower()):
        raise DamagedFileError(
            f"{folder} holds the manifest of {manifest.name}:{manifest.quant.lower()}: move it to "
            "a folder of that name, or remove it"
        )
    return Unit(folder, manifest)


def _subfolders(folder: Path) -> list[Path]:
    """Those that gemmachat may have made: models of other programs can lie beside them."""
    try:
        return sorted(p for p in folder.iterdir() if _is_our_name(p.name) and _is_folder(p))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise GemmachatError(f"{folder} cannot be read: {error.strerror or error}") from error


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # nobody may look: who reads it is told so
        return True


def _is_our_name(name: str) -> bool:
    return is_plain_name(name) and name == name.lower()
