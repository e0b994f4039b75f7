"""Where the files of a model come from: places on a Hugging Face hub."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HubPath:
    """One file of a repository. `path` may hold `*`: the listing must then match exactly once."""

    repo: str  # OWNER/NAME
    path: str
    revision: str = "main"  # branch, tag or commit


@dataclass(frozen=True, slots=True)
class HubCheckpoint:
    """A repository with a safetensors checkpoint, which is converted after the download."""

    repo: str
    quant: str = "Q8_0"
    revision: str = "main"


@dataclass(frozen=True, slots=True)
class ModelSource:
    """One model to pull: its target in one quantization, and drafters, the best one first."""

    name: str  # as in the catalog
    quant: str  # as in file names, in upper case
    target: HubPath
    drafters: tuple[HubCheckpoint | HubPath, ...] = ()
