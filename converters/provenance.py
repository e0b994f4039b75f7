"""Where a model comes from: the `general.*` keys, from what lies beside the weights.

A download of huggingface-hub tells the repository and the revision: its cache keeps checkpoints in
`models--OWNER--NAME/snapshots/REVISION`, and a folder that it was asked to fill holds notes in
`.cache/huggingface/download`. The licence is read from the front matter of README.md.
"""

import importlib.metadata
import math
import os
import re
from collections.abc import Iterable
from pathlib import Path

from .errors import ConversionError
from .files import opened
from .gguf_values import Metadata, string, uint32
from .hparams import TARGET_ARCH
from .quantize import Quantization

_QUANTIZATION_VERSION = 2
_MAX_NOTE_BYTES = 1 << 16
_CACHED = re.compile(r"models--([\w.-]+?)--([\w.-]+)")
_REVISION = re.compile(r"[0-9a-f]{40}")
_SIZE = re.compile(r"(?:^|[-_ ])(E?\d+(?:\.\d+)?[BM](?:-A\d+(?:\.\d+)?B)?)(?=[-_ ]|$)", re.I)
_FRONT_MATTER = re.compile(r"\A---\r?\n(.*?)\r?\n---\s", re.DOTALL)
_LICENCE = re.compile(r"^license:[ \t]*[\"']?([\w.+-]+)[\"']?[ \t]*$", re.MULTILINE)


def describe(folder: Path, arch: str, shapes: Iterable[tuple[int, ...]]) -> Metadata:
    """The keys that name the model of a checkpoint folder; shapes are those of its tensors."""
    repository, revision = _origin(folder)
    name = repository.split("/")[1] if repository else _folder_name(folder)
    size = _SIZE.search(name)
    keys: Metadata = {
        "general.architecture": string(arch),
        "general.type": string("model"),
        "general.name": string(name),
        # An assistant is named after its target's size, which is not its own.
        "general.size_label": string(
            size.group(1) if size and arch == TARGET_ARCH else _size_label(shapes)
        ),
    }
    licence = _licence(folder)
    if licence:
        keys["general.license"] = string(licence)
    if repository:
        page = f"https://huggingface.co/{repository}"
        keys["general.source.repo_url"] = string(page)
        if revision:
            keys["general.source.url"] = string(f"{page}/tree/{revision}")
    elif revision:
        keys["general.version"] = string(revision)
    return keys


def describe_quantization(choice: Quantization) -> Metadata:
    """The keys that say how, and by which program, the tensors were quantized."""
    version = importlib.metadata.version("gemmachat")
    return {
        "general.quantized_by": string(f"gemmachat {version}"),
        "general.file_type": uint32(choice.file_type),
        "general.quantization_version": uint32(_QUANTIZATION_VERSION),
    }


def _origin(folder: Path) -> tuple[str | None, str | None]:
    """Repository and revision, as far as known."""
    path = Path(os.path.abspath(folder))
    cached = _CACHED.fullmatch(path.parent.parent.name)
    if cached and path.parent.name == "snapshots":
        revision = path.name if _REVISION.fullmatch(path.name) else None
        return f"{cached.group(1)}/{cached.group(2)}", revision
    note = _read(folder / ".cache" / "huggingface" / "download" / "config.json.metadata")
    first = note.split("\n", 1)[0].strip()
    return None, first if _REVISION.fullmatch(first) else None


def _folder_name(folder: Path) -> str:
    # A folder's name may hold bytes that are no text.
    return Path(os.path.abspath(folder)).name.encode("utf-8", "replace").decode("utf-8")


def _size_label(shapes: Iterable[tuple[int, ...]]) -> str:
    weights = float(sum(map(math.prod, shapes)))
    for unit, size in (("B", 1e9), ("M", 1e6), ("K", 1e3)):
        if weights >= size:
            return f"{weights / size:.1f}{unit}"
    return f"{weights:.0f}"


def _licence(folder: Path) -> str | None:
    front = _FRONT_MATTER.match(_read(folder / "README.md"))
    found = _LICENCE.search(front.group(1)) if front else None
    return found.group(1) if found else None


def _read(path: Path) -> str:
    """The start of a small text file; nothing when there is none, as it is not needed."""
    try:
        with opened(path) as file:
            return file.read(_MAX_NOTE_BYTES).decode("utf-8", "replace")
    except ConversionError:
        return ""
