"""The drafter of a pulled model: a GGUF file as it is, or a checkpoint that is converted here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from gemmachat.download import download, missing_bytes
from gemmachat.errors import (
    DamagedFileError,
    DownloadError,
    GemmachatError,
    MemoryLimitError,
    NotFoundError,
    UsageError,
)
from gemmachat.hub import Hub, HubFile
from gemmachat.manifest import CHECKPOINTS, ManifestFile
from gemmachat.pull_events import Progress, PullEvent
from gemmachat.shelf_check import sha256_of
from gemmachat.source import HubCheckpoint, HubPath

_WEIGHTS = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors")
_BESIDE = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "README.md",
    "model.safetensors.index.json",
)


@dataclass(frozen=True, slots=True)
class Drafter:
    """A drafter that was found on the hub: one GGUF file, or the files of a checkpoint."""

    file: str  # its plain name here
    parts: tuple[HubFile, ...]
    quant: str | None = None  # what a checkpoint is converted to

    @property
    def origin(self) -> str | None:
        """What a converted file is made from, and how; None for a file that is as it was found."""
        if self.quant is None:
            return None
        part = self.parts[0]
        return f"the checkpoint {part.repo} at {part.commit}, converted to {self.quant}"

    def is_in(self, entry: ManifestFile | None) -> bool:
        """Whether an entry of a manifest is this very drafter."""
        if entry is None:
            return False
        if self.quant is not None:
            return entry.made_from == self.origin
        return is_same(entry, self.parts[0])

    def missing_bytes(self, folder: Path, hub: Hub) -> int:
        """How many bytes the disk must still take."""
        if self.quant is None:
            return missing_bytes(self.parts[0], folder / self.file, hub)
        inside = _snapshot(folder, self.parts[0])
        # A converted file is no larger than its weights.
        weights = sum(part.size for part in self.parts if _WEIGHTS.fullmatch(part.path))
        return weights + sum(missing_bytes(part, inside / part.name, hub) for part in self.parts)


def check_is_gguf(file: HubFile) -> None:
    """Raise UsageError unless a file is a GGUF file by its name."""
    if not file.name.endswith(".gguf"):
        raise UsageError(f"{file} is no .gguf file: name one that is")


def is_same(entry: ManifestFile, file: HubFile) -> bool:
    """Whether a file that was pulled is the one that the hub has: by its hash, else its commit."""
    if file.sha256 is not None:
        return entry.sha256 == file.sha256
    return (entry.repo, entry.path, entry.commit) == (file.repo, file.path, file.commit)


def find_drafter(source: HubCheckpoint | HubPath, hub: Hub, progress: Progress) -> Drafter:
    """Look a drafter up on the hub. Raises GemmachatError as `Hub.resolve` does."""
    if isinstance(source, HubPath):
        found = hub.resolve(source, progress)
        check_is_gguf(found)
        return Drafter(found.name, (found,))
    listed = hub.listing(source.repo, source.revision, progress)
    weights = [file for file in listed if _WEIGHTS.fullmatch(file.path)]
    if any(file.path == "model.safetensors" for file in weights):
        weights = [file for file in weights if file.path == "model.safetensors"]
    beside = [file for file in listed if file.path in _BESIDE]
    if not weights or "config.json" not in {file.path for file in beside}:
        raise NotFoundError(f"{source.repo} holds no safetensors checkpoint")
    name = source.repo.split("/")[1]
    return Drafter(f"{name}-{source.quant}.gguf", (*beside, *weights), source.quant)


def fetch_drafter(drafter: Drafter, folder: Path, hub: Hub, progress: Progress) -> ManifestFile:
    """Put a drafter into its folder and describe it. Whether it fits its target is not checked.

    Raises GemmachatError. The parts of a checkpoint stay, in case they are needed again.
    """
    place = folder / drafter.file
    first = drafter.parts[0]
    if drafter.quant is None:
        sha256 = download(first, place, hub, progress)
        return ManifestFile(
            "drafter", drafter.file, first.size, sha256, first.repo, first.path, first.commit
        )
    inside = _snapshot(folder, first)
    inside.mkdir(parents=True, exist_ok=True)
    for part in drafter.parts:
        download(part, inside / part.name, hub, progress)
    _convert(inside, place, drafter.quant, progress)
    return ManifestFile(
        "drafter",
        drafter.file,
        place.stat().st_size,
        sha256_of(place, lambda _: None),
        repo=first.repo,
        commit=first.commit,
        made_from=drafter.origin,
    )


def _convert(folder: Path, place: Path, quant: str, progress: Progress) -> None:
    from gemmachat.converters import (
        CheckpointError,
        CheckpointNotFoundError,
        ConversionError,
        ResourceError,
        convert,
    )

    kinds: dict[type[ConversionError], type[GemmachatError]] = {
        CheckpointError: DamagedFileError,
        CheckpointNotFoundError: NotFoundError,
        ResourceError: MemoryLimitError,
    }

    def tell(done: int, total: int) -> None:
        progress(PullEvent("convert", place.name, done, total))

    try:
        report = convert(folder, place, quant=quant, force=True, progress=tell)
    except ConversionError as error:
        kind = kinds.get(type(error), DownloadError)
        raise kind(f"the drafter cannot be converted: {error}") from error
    for note in report.notes:
        progress(PullEvent("note", place.name, text=note))


def _snapshot(folder: Path, file: HubFile) -> Path:
    """Where a checkpoint goes: named as in the cache, which tells the converter its origin."""
    cached = f"models--{file.repo.replace('/', '--')}"
    return folder / CHECKPOINTS / cached / "snapshots" / file.commit
