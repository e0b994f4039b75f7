"""Importance matrices: for every weight matrix, how much each input column matters.

llama.cpp's llama-imatrix writes them as GGUF: `NAME.in_sum2` holds the sums of squared inputs,
[matrices, width], and `NAME.counts` over how many tokens they were summed. The mean weighs the
error of a column in quantization.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .errors import CheckpointError, quoted
from .files import opened
from .ggml import Floats
from .gguf_source import GgufSource, read_gguf
from .gguf_values import Metadata, int32, string

_SUMS, _COUNTS = ".in_sum2", ".counts"
_MAX = 1e20


@dataclass(frozen=True, slots=True)
class ImportanceMatrix:
    """The means of one file, by tensor name, each [matrices, width]."""

    path: Path
    means: dict[str, Floats]

    def metadata(self) -> Metadata:
        """The keys by which llama.cpp records what file was used."""
        name = self.path.name.encode("utf-8", "replace").decode("utf-8")
        return {
            "quantize.imatrix.file": string(name),
            "quantize.imatrix.entries_count": int32(len(self.means)),
        }

    def of(self, name: str, shape: tuple[int, ...]) -> Floats | None:
        """The means for a tensor of this shape; None where the file has none for it.

        Raises CheckpointError where they do not fit.
        """
        means = self.means.get(name)
        if means is None:
            return None
        expected = (int(np.prod(shape[:-2])), shape[-1])
        if means.shape != expected:
            raise CheckpointError(
                f"{quoted(self.path, 200)} has {list(means.shape)} values for tensor "
                f"{quoted(name)} where {list(expected)} are needed: it belongs to another model."
            )
        return means


def read_imatrix(path: Path) -> ImportanceMatrix:
    """The importance matrix in a file. Raises CheckpointNotFoundError or CheckpointError."""
    with opened(path, missing="does not exist") as file:
        if file.read(4) != b"GGUF":
            raise CheckpointError(
                f"{quoted(path, 200)} is not a GGUF file: make the importance matrix with "
                "llama-imatrix --output-format gguf."
            )
    source = read_gguf(path)
    means: dict[str, Floats] = {}
    for stored in source.tensors:
        if stored.endswith(_SUMS):
            name = stored.removesuffix(_SUMS)
            means[name] = _mean(path, source, name)
    if not means:
        raise CheckpointError(
            f"{quoted(path, 200)} holds no importance matrix: give a GGUF file of llama-imatrix."
        )
    return ImportanceMatrix(path, means)


def _mean(path: Path, source: GgufSource, name: str) -> Floats:
    sums, counts = source.tensors[name + _SUMS], source.tensors.get(name + _COUNTS)
    if counts is None or (sums.dtype, counts.dtype) != ("F32", "F32"):
        raise CheckpointError(f"{quoted(path, 200)} lacks float counts for tensor {quoted(name)}.")
    total = sums.floats().reshape(-1, sums.width)
    count = counts.floats().reshape(-1, 1)
    if len(count) != len(total):
        raise CheckpointError(f"{quoted(path, 200)} has the wrong counts for {quoted(name)}.")
    # What llama.cpp multiplies with it must stay finite.
    if not ((total >= 0).all() and (total <= _MAX).all() and np.isfinite(count).all()):
        raise CheckpointError(
            f"{quoted(path, 200)} holds an impossible importance for tensor {quoted(name)}."
        )
    # An expert that no token chose says nothing: all its columns count the same.
    return np.where(count > 0, total / np.maximum(count, 1), 1).astype(np.float32)
