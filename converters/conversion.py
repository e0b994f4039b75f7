"""One conversion, start to end: read the checkpoint, plan the tensors, write the file."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from gguf.constants import GGMLQuantizationType

from . import names
from .checkpoint import Checkpoint, open_checkpoint
from .config import read_hparams
from .errors import CheckpointError
from .gguf_values import Metadata, float32_array, int32_array, string, uint32
from .hparams import DRAFTER_ARCH, CentroidHead, Hparams
from .quantize import Quantization, encode, encoded_bytes, find_quantization, tensor_type
from .vocab import read_vocab
from .write import TensorData, write_gguf

_QUANTIZATION_VERSION = 2
# A frequency factor that divides a rotation angle down to nothing.
_NO_ROTATION = 1e30


@dataclass(frozen=True, slots=True)
class Plan:
    """What a GGUF file will hold. The numbers are read and encoded only when it is written."""

    metadata: Metadata
    tensors: list[TensorData]


def convert(source: Path, output: Path, *, quant: str, force: bool = False) -> None:
    """Converts the checkpoint in folder `source` to the GGUF file `output`.

    `quant` names the type of the matrices (see `quantize.QUANTIZATIONS`). Targets and drafters are
    told apart by their config. Raises ConversionError; `output` is then as it was before.
    """
    plan = plan_file(source, quant=quant)
    write_gguf(output, plan.metadata, plan.tensors, force=force)


def plan_file(source: Path, *, quant: str) -> Plan:
    """Everything that `convert` would write. Raises ConversionError."""
    choice = find_quantization(quant)
    checkpoint = open_checkpoint(source)
    hparams = read_hparams(checkpoint.config)
    tensors = _tensors(checkpoint, hparams, choice)
    metadata = {
        **_general(checkpoint, hparams, choice),
        **hparams.metadata(),
        **_centroid_arrays(checkpoint, hparams),
        **read_vocab(source, hparams.vocab).metadata(),
    }
    return Plan(metadata, tensors)


def _general(checkpoint: Checkpoint, hparams: Hparams, choice: Quantization) -> Metadata:
    folder = Path(os.path.abspath(checkpoint.folder)).name
    # A folder's name may hold bytes that are no text.
    name = folder.encode("utf-8", "replace").decode("utf-8")
    return {
        "general.architecture": string(hparams.arch),
        "general.type": string("model"),
        "general.name": string(name),
        "general.file_type": uint32(choice.file_type),
        "general.quantization_version": uint32(_QUANTIZATION_VERSION),
    }


def _tensors(checkpoint: Checkpoint, hparams: Hparams, choice: Quantization) -> list[TensorData]:
    planned = [_rope_freqs(hparams)]
    for rename in names.renames(hparams, checkpoint.tensors):
        kind = tensor_type(rename.shape, choice)

        def blocks(
            source: str = rename.source, kind: GGMLQuantizationType = kind
        ) -> Iterator[npt.NDArray[np.generic]]:
            return (encode(rows, kind) for rows in checkpoint.float_rows(source))

        size = encoded_bytes(rename.shape, kind)
        planned.append(TensorData(rename.name, rename.shape, kind, size, blocks))
    return planned


def _rope_freqs(hparams: Hparams) -> TensorData:
    """The factors by which full layers divide each pair's angle: 1 for the pairs that rotate.

    Proportional RoPE spreads its exponents over the whole head but turns only the first pairs.
    """
    factors = np.full(hparams.head_dim_full // 2, _NO_ROTATION, np.float32)
    factors[: hparams.rotated_pairs_full] = 1.0
    return TensorData(
        names.ROPE_FREQS,
        factors.shape,
        GGMLQuantizationType.F32,
        factors.nbytes,
        lambda: iter([factors]),
    )


def _centroid_arrays(checkpoint: Checkpoint, hparams: Hparams) -> Metadata:
    if hparams.centroids is None:
        return {}
    centroids, ordering = _read_centroids(checkpoint, hparams, hparams.centroids)
    return {
        f"{DRAFTER_ARCH}.masked_embedding.centroids": float32_array(centroids.reshape(-1)),
        f"{DRAFTER_ARCH}.masked_embedding.token_ordering": int32_array(ordering),
    }


def _read_centroids(
    checkpoint: Checkpoint, hparams: Hparams, head: CentroidHead
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    expected = {
        names.CENTROIDS: (head.count, hparams.hidden),
        names.TOKEN_ORDERING: (hparams.vocab,),
    }
    for name, shape in expected.items():
        stored = checkpoint.tensors.get(name)
        if stored is None or stored.shape != shape:
            found = "missing" if stored is None else f"of shape {list(stored.shape)}"
            raise CheckpointError(
                f"Tensor '{name}' is {found} where config.json calls for {list(shape)}."
            )
    ordering = checkpoint.integers(names.TOKEN_ORDERING)
    if not np.array_equal(np.sort(ordering), np.arange(hparams.vocab)):
        raise CheckpointError(
            f"Tensor '{names.TOKEN_ORDERING}' does not name every token exactly once."
        )
    return np.concatenate(list(checkpoint.float_rows(names.CENTROIDS))), ordering
