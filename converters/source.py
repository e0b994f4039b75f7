"""What a conversion starts from: a checkpoint folder or a GGUF file, read and checked."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import names
from .checkpoint import Checkpoint, open_checkpoint
from .config import read_hparams
from .errors import CheckpointError, CheckpointNotFoundError, quoted
from .ggml import Floats
from .gguf_source import read_gguf
from .gguf_values import Metadata, ValueType, float32_array, int32_array, string
from .hparams import DRAFTER_ARCH, TARGET_ARCH, Hparams
from .provenance import describe
from .tensors import StoredTensor
from .vocab import read_vocab

# A frequency factor that divides a rotation angle down to nothing.
_NO_ROTATION = 1e30
# What a GGUF file says about itself and not about its model.
_OF_THE_FILE = ("general.alignment", "split.", "quantize.")


@dataclass(frozen=True, slots=True)
class Source:
    """What is to be written of a checkpoint folder or a GGUF file, before types are chosen."""

    metadata: Metadata
    tensors: Mapping[str, StoredTensor]
    computed: Mapping[str, Floats]
    layers: int
    drafter: bool
    notes: tuple[str, ...]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the stored tensors, by name."""
        return {name: tensor.shape for name, tensor in self.tensors.items()}


def read_source(path: Path) -> Source:
    """Reads and checks what `path`, a folder or a GGUF file, holds. Raises ConversionError."""
    try:
        source = _read_file(path) if os.path.isfile(path) else _read_folder(path)
    except OSError as error:  # of a path that cannot be one
        reason = error.strerror or error
        raise CheckpointNotFoundError(f"{quoted(path, 200)} cannot be read: {reason}.") from error
    for tensor in source.tensors.values():
        _ = tensor.kind  # what holds no weights is refused before anything is written
    return source


def _read_folder(folder: Path) -> Source:
    checkpoint = open_checkpoint(folder)
    hparams = read_hparams(checkpoint.config)
    tensors = {
        rename.name: checkpoint.tensors[rename.source]
        for rename in names.renames(hparams, checkpoint.tensors)
    }
    metadata = {
        **describe(folder, hparams.arch, (tensor.shape for tensor in tensors.values())),
        **hparams.metadata(),
        **_centroid_arrays(checkpoint, hparams),
        **read_vocab(folder, hparams.vocab).metadata(),
    }
    return Source(
        metadata,
        tensors,
        computed={names.ROPE_FREQS: _rope_freqs(hparams)},
        layers=hparams.layers,
        drafter=hparams.arch == DRAFTER_ARCH,
        notes=tuple(_notes(checkpoint, hparams)),
    )


def _notes(checkpoint: Checkpoint, hparams: Hparams) -> Iterator[str]:
    """What the user should know about tensors that are not converted."""
    skipped = names.skipped(hparams, checkpoint.tensors)
    if skipped:
        yield f"{len(skipped)} tensors for images and sound are left out: only text is converted."
    unused = names.unused(hparams, checkpoint.tensors)
    if unused:
        yield f"{len(unused)} tensors that the model does not use are left out, {unused[0]} first."


def _read_file(path: Path) -> Source:
    source = read_gguf(path)
    arch = next(
        (
            arch
            for arch in (TARGET_ARCH, DRAFTER_ARCH)
            if source.metadata.get("general.architecture") == string(arch)
        ),
        None,
    )
    layers = source.metadata.get(f"{arch}.block_count")
    if layers is None or layers.type != ValueType.UINT32:
        raise CheckpointError(f"{quoted(path, 200)} holds no Gemma 4 model or drafter.")
    if any(key.startswith("split.") for key in source.metadata):
        raise CheckpointError(
            f"{quoted(path, 200)} is one part of a split model: merge its parts first "
            "(llama-gguf-split --merge)."
        )
    metadata = {
        key: value for key, value in source.metadata.items() if not key.startswith(_OF_THE_FILE)
    }
    return Source(
        metadata,
        source.tensors,
        computed={},
        layers=int(layers.numbers()[0]),
        drafter=arch == DRAFTER_ARCH,
        notes=(),
    )


def _rope_freqs(hparams: Hparams) -> Floats:
    """The factors by which full layers divide each pair's angle: 1 for the pairs that rotate.

    Proportional RoPE spreads its exponents over the whole head but turns only the first pairs.
    """
    factors = np.full(hparams.head_dim_full // 2, _NO_ROTATION, np.float32)
    factors[: hparams.rotated_pairs_full] = 1.0
    return factors


def _centroid_arrays(checkpoint: Checkpoint, hparams: Hparams) -> Metadata:
    head = hparams.centroids
    if head is None:
        return {}
    expected = {
        names.CENTROIDS: (head.count, hparams.hidden),
        names.TOKEN_ORDERING: (hparams.vocab,),
    }
    for name, shape in expected.items():
        tensor = checkpoint.tensors.get(name)
        if tensor is None or tensor.shape != shape:
            found = "missing" if tensor is None else f"of shape {list(tensor.shape)}"
            raise CheckpointError(
                f"Tensor '{name}' is {found} where config.json calls for {list(shape)}."
            )
    stored = checkpoint.tensors[names.CENTROIDS]
    centroids = stored.floats()
    if not np.isfinite(centroids).all():
        raise CheckpointError(
            f"Tensor '{names.CENTROIDS}' in {quoted(stored.file.name)} "
            "holds values that are not finite numbers: a drafter cannot do without its centroids."
        )
    ordering = checkpoint.tensors[names.TOKEN_ORDERING].integers()
    if not np.array_equal(np.sort(ordering), np.arange(hparams.vocab)):
        raise CheckpointError(
            f"Tensor '{names.TOKEN_ORDERING}' does not name every token exactly once."
        )
    return {
        f"{DRAFTER_ARCH}.masked_embedding.centroids": float32_array(centroids.reshape(-1)),
        f"{DRAFTER_ARCH}.masked_embedding.token_ordering": int32_array(ordering),
    }
