"""Which files to pull: of a model of the catalog one quantization, of a repository a pair.

Importing this module loads huggingface-hub.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gemmachat.catalog_entry import CatalogEntry, QuantFile
from gemmachat.errors import MemoryLimitError, NotFoundError
from gemmachat.hub import Hub, HubFile
from gemmachat.manifest import Manifest
from gemmachat.pull_events import Progress, silent
from gemmachat.reference import UNKNOWN_QUANT, HostedModel, quant_in
from gemmachat.source import HubPath, ModelSource
from gemmachat.table import size_text

COMFORTABLE = 0.5
"""The share of the memory that can be had which a model picked for the user may take."""

_BESIDE_WEIGHTS = 1_000_000_000  # bytes, where no catalog says: caches, buffers, drafter
_FLOATS = ("F32", "F16", "BF16")  # twice the bytes of Q8_0, which is as good
_NO_TARGET = re.compile(r"(mmproj|mtp)\b|.*-\d{5}-of-\d{5}\.gguf", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Choice:
    """What to pull, and why in one line; None where the user chose."""

    source: ModelSource
    reason: str | None


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A target that could be pulled; sizes are bytes, `need` is memory."""

    quant: str
    path: HubPath
    size: int
    need: int


def choose_of_catalog(
    entry: CatalogEntry, hub: Hub, available: int, progress: Progress = silent
) -> Choice:
    """Choose a quantization of a model by the bytes of memory that can be had.

    Raises `NotFoundError` where none is on the hub, `MemoryLimitError` where none fits, and what
    `Hub.resolve` raises.
    """
    found = {quant: _size(file, hub, progress) for quant, file in entry.quants.items()}
    beside = entry.memory or _BESIDE_WEIGHTS
    candidates = [
        _Candidate(quant, entry.quants[quant].path, size, size + beside)
        for quant, size in found.items()
        if isinstance(size, int)
    ]
    if not candidates:
        raise next(error for error in found.values() if isinstance(error, NotFoundError))
    chosen, reason = _best(entry.name, candidates, available)
    return Choice(entry.source(chosen.quant), reason)


def choose_of_repository(
    model: HostedModel, hub: Hub, available: int, progress: Progress = silent
) -> Choice:
    """Choose a target and its drafters in a repository.

    Raises `NotFoundError` where it holds no such file, and as `choose_of_catalog` does.
    """
    listed = hub.listing(model.repo, progress=progress)
    ggufs = [file for file in listed if file.name.endswith(".gguf")]
    targets = [file for file in ggufs if _NO_TARGET.match(file.name) is None]
    drafters = sorted((file for file in ggufs if _is_drafter(file)), key=_drafter_rank)
    wanted = [file for file in targets if _is_wanted(model, file)]
    if model.file is not None and not wanted:  # also one that the name tells nothing of
        wanted = [file for file in ggufs if file.path == model.file]
    if not wanted:
        there = ", ".join(file.path for file in targets) or "no target in GGUF"
        raise NotFoundError(f"{model.repo} does not hold what was asked for, but {there}")
    candidates = [
        _Candidate(
            quant_in(file.name), HubPath(file.repo, file.path), file.size, _need_of_file(file)
        )
        for file in wanted
    ]
    chosen, reason = candidates[0], None
    if len(candidates) > 1:
        quantized = [item for item in candidates if item.quant not in _FLOATS]
        chosen, reason = _best(f"hf:{model.repo}", quantized or candidates, available)
    places = tuple(HubPath(file.repo, file.path) for file in drafters)
    return Choice(ModelSource(model.name, chosen.quant, chosen.path, places), reason)


def choose_again(manifest: Manifest) -> Choice:
    """Choose what was pulled before, without asking a hub."""
    target, *drafters = (
        HubPath(file.repo, file.path) for file in manifest.files if file.repo and file.path
    )
    return Choice(ModelSource(manifest.name, manifest.quant, target, tuple(drafters)), None)


def _size(file: QuantFile, hub: Hub, progress: Progress) -> int | NotFoundError:
    """The size of a target in bytes, or why it cannot be had: not every one has been published."""
    if file.nbytes is not None:
        return file.nbytes
    try:
        return hub.resolve(file.path, progress).size
    except NotFoundError as error:
        return error


def _best(name: str, candidates: Sequence[_Candidate], available: int) -> tuple[_Candidate, str]:
    """The largest that takes a comfortable part of the memory, else the smallest if it fits."""
    by_need = sorted(candidates, key=lambda candidate: candidate.need)
    chosen = by_need[0]
    for candidate in by_need:
        if candidate.need <= available * COMFORTABLE:
            chosen = candidate
    if chosen.need > available:
        raise MemoryLimitError(
            f"{name} does not fit in memory here: {chosen.quant}, the smallest, needs about "
            f"{size_text(chosen.need)} and {size_text(available)} can be had; pull it all the same "
            f"with {name}:{chosen.quant.lower()}, or a smaller model"
        )
    return chosen, (
        f"{chosen.quant} of {', '.join(item.quant for item in by_need)}: it needs about "
        f"{size_text(chosen.need)} of the {size_text(available)} of memory that can be had here"
    )


def _is_wanted(model: HostedModel, file: HubFile) -> bool:
    if model.file is not None:
        return file.path == model.file
    return model.quant in (None, quant_in(file.name))


def _is_drafter(file: HubFile) -> bool:
    return file.name.lower().startswith("mtp-")


def _drafter_rank(file: HubFile) -> tuple[int, str]:
    """Q8_0 first, as it drafts best for its size; then what does not say, then the others."""
    order = {"Q8_0": 0, UNKNOWN_QUANT: 1}
    return order.get(quant_in(file.name), 2), file.path


def _need_of_file(file: HubFile) -> int:
    return file.size + _BESIDE_WEIGHTS
