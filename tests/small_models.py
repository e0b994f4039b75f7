"""Small models on a shelf: the embedded pair under other names."""

from __future__ import annotations

import hashlib
from pathlib import Path

from embedded import DRAFTER, TARGET

from gemmachat.manifest import Manifest, ManifestFile, mark
from gemmachat.shelf import Shelf, Unit


def shelve(models: Path, name: str, quant: str, *, path: str | None = None) -> Unit:
    """Put a real pair on the shelf, as if pulled from the place `path` of a repository."""
    folder = Shelf(models).folder(name, quant)
    folder.mkdir(parents=True)
    mark(folder)
    files = (
        _place(folder, "target", TARGET, f"{name}.gguf", path or f"{name}-{quant}.gguf"),
        _place(folder, "drafter", DRAFTER, f"mtp-{name}.gguf", f"mtp-{name}.gguf"),
    )
    Manifest(name, quant, files, "2026-01-02T03:04:05+00:00").write(folder)
    unit = Shelf(models).find(name, quant)
    assert unit is not None
    return unit


def _place(folder: Path, role: str, source: Path, file: str, path: str) -> ManifestFile:
    data = source.read_bytes()
    (folder / file).write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    return ManifestFile(role, file, len(data), digest, "me/mine", path, "0" * 40)
