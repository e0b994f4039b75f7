"""A small pair as a hub has it: GGUF files of target and drafter, and the drafter's checkpoint."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import nano_checkpoint as nano
from gemmachat.converters import convert
from hub_server import StandIn

from gemmachat.source import HubCheckpoint, HubPath, ModelSource

MODELS, ASSISTANT, OTHER = "owner/nano-GGUF", "owner/nano-assistant", "other/nano-GGUF"
TARGET_FILE, DRAFTER_FILE = "nano-Q8_0.gguf", "mtp-nano-Q8_0.gguf"
CONVERTED = "nano-assistant-Q8_0.gguf"

CHECKPOINT = HubCheckpoint(ASSISTANT)
DRAFTER = HubPath(OTHER, "mtp-*.gguf")
SOURCE = ModelSource("nano", "Q8_0", HubPath(MODELS, "nano-*.gguf"), (CHECKPOINT, DRAFTER))


@dataclass(frozen=True)
class Pair:
    """Contents of the files."""

    target: bytes
    drafter: bytes
    checkpoint: dict[str, bytes]
    other_drafter: bytes  # of a model with other layers

    def put(self, server: StandIn) -> None:
        server.put(MODELS, {"README.md": b"# nano", TARGET_FILE: self.target})
        server.put(ASSISTANT, self.checkpoint)
        server.put(OTHER, {DRAFTER_FILE: self.drafter, "mmproj.gguf": b"?"})


def make_pair(folder: Path) -> Pair:
    target, drafter = nano.write_pair(folder, "e2b")
    _, other = nano.write_pair(folder, "31b")
    (drafter / "README.md").write_text("---\nlicense: apache-2.0\n---\n")
    convert(target, folder / "target.gguf", quant="Q8_0", drafter=drafter)
    convert(other, folder / "other.gguf")
    files = {path.name: path.read_bytes() for path in drafter.iterdir()}
    return Pair(
        (folder / "target.gguf").read_bytes(),
        (folder / "target-drafter.gguf").read_bytes(),
        files | {"model.bin": b"pickle"},
        (folder / "other.gguf").read_bytes(),
    )


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
