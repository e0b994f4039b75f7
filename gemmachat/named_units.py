"""Which units of the shelf the MODELs of a command name."""

from __future__ import annotations

from pathlib import Path

from gemmachat.aliases import alias_reference, read_aliases
from gemmachat.catalog import load_catalog, meaning
from gemmachat.errors import NotFoundError, UsageError
from gemmachat.manifest import MANIFEST
from gemmachat.reference import HostedModel, LocalModel, NamedModel
from gemmachat.shelf import Shelf, Unit


def named_units(shelf: Shelf, models: list[str]) -> list[Unit]:
    """Return the units of what was named; every quantization where none is.

    Raises `NotFoundError` where one is not on the shelf, `DamagedFileError` on its manifest.
    """
    folders = dict.fromkeys(folder for text in models for folder in _named_folders(shelf, text))
    read = [shelf.find(folder.parent.name, folder.name) for folder in folders]
    return [unit for unit in read if unit is not None]


def only_folder(shelf: Shelf, text: str) -> Path:
    """Return the folder of the one unit that a text names, whatever state it is in.

    Raises `UsageError` where it names several, `NotFoundError` where none.
    """
    folders = _named_folders(shelf, text)
    if len(folders) > 1:
        names = " or ".join(f"{folder.parent.name}:{folder.name}" for folder in folders)
        raise UsageError(f"{text} is here in several quantizations: name one, {names}")
    return folders[0]


def aliases_of(shelf: Shelf, folder: Path) -> list[str]:
    """Return the aliases that lead to the unit in a folder and to no other."""
    return [
        alias
        for alias, model in read_aliases(shelf.models).items()
        if _leads_only_to(shelf, folder, alias_reference(model))
    ]


def _leads_only_to(
    shelf: Shelf, folder: Path, reference: NamedModel | HostedModel | LocalModel | None
) -> bool:
    if isinstance(reference, LocalModel):
        return Path(reference.path).parent == folder
    return unit_folders(shelf, reference) == [folder]


def _named_folders(shelf: Shelf, text: str) -> list[Path]:
    """The folders of the units that a text names, at least one; raises `GemmachatError`."""
    reference = meaning(text)
    if isinstance(reference, NamedModel):
        entry = load_catalog().get(reference.name)
        if entry is not None and entry.embedded is not None:
            raise UsageError(f"{text} ships inside gemmachat and does not lie on the shelf")
    folders = unit_folders(shelf, reference)
    if not folders:
        raise NotFoundError(f"{text[:100]} is not on the shelf: gemmachat list shows what is")
    return folders


def unit_folders(
    shelf: Shelf, reference: NamedModel | HostedModel | LocalModel | None
) -> list[Path]:
    """Return the folders of the units that a reference means.

    Raises `GemmachatError` where they cannot be listed.
    """
    if not isinstance(reference, NamedModel | HostedModel):
        return []
    quant = None if reference.quant is None else reference.quant.lower()
    return [
        folder
        for folder in shelf.folders_of(reference.name)
        if quant in (None, folder.name) and _has_manifest(folder)
    ]


def _has_manifest(folder: Path) -> bool:
    try:
        return (folder / MANIFEST).exists()
    except OSError:  # nobody may look: who reads it is told so
        return True
