"""Blocks of a stored tensor as another GGML type, each a job of its own for any thread."""

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from gguf.constants import GGMLQuantizationType

from .errors import CheckpointError, ConversionError, quoted
from .ggml import Bytes, Floats, as_float, quantize
from .tensors import FLOATS, StoredTensor, count_not_finite, decoded

BLOCK_WEIGHTS = 1 << 20  # some 10 MB in flight for each thread
_MAX_F16 = 65504.0
_MOST_TOLD = 10

Job = Callable[[], Bytes]


@dataclass(slots=True)
class Encoder:
    """Encodes tensors and remembers which hold weights that are NaN or infinite.

    `strict` refuses such weights. Otherwise a float type keeps them and a block type, where one
    would spoil its whole block, stores 0.
    """

    strict: bool
    # (file, tensor, weights) for every block with such weights; threads append, which is atomic.
    faults: list[tuple[str, str, int]] = field(default_factory=list)

    def warnings(self) -> list[str]:
        """One sentence for every tensor with such weights."""
        counts: Counter[tuple[str, str]] = Counter()
        for file, name, count in self.faults:
            counts[file, name] += count
        told = [
            f"Tensor {quoted(name)} in {quoted(file)} holds {count} weights that are NaN or "
            "infinite: the model may be damaged (--strict refuses it)."
            for (file, name), count in sorted(counts.items())[:_MOST_TOLD]
        ]
        if len(counts) > _MOST_TOLD:
            told.append(f"So do {len(counts) - _MOST_TOLD} more tensors.")
        return told

    def jobs(
        self, tensor: StoredTensor, kind: GGMLQuantizationType, importance: Floats | None
    ) -> Iterator[Job]:
        """Jobs that yield the tensor as `kind` in file order.

        `importance` is [matrices, width] where the tensor is [matrices, rows, width], one row of
        weights for each matrix; a plain matrix has one.
        """
        matrices = math.prod(tensor.shape[:-2])
        rows = tensor.rows // matrices
        step = max(1, BLOCK_WEIGHTS // tensor.width)
        for matrix in range(matrices):
            weights = None if importance is None else importance[matrix]
            for first in range(0, rows, step):
                block = _Block(tensor, matrix * rows + first, min(step, rows - first))
                yield functools.partial(self._encode, block, kind, weights)

    def _encode(
        self, block: "_Block", kind: GGMLQuantizationType, importance: Floats | None
    ) -> Bytes:
        tensor = block.tensor
        stored = tensor.encoded(block.first, block.count)
        bad = count_not_finite(stored, tensor.kind, tensor.width)
        if bad:
            self._report(tensor, bad)
        keeps_bad = kind.name in FLOATS
        if kind == tensor.kind and (keeps_bad or not bad):
            return stored
        rows = decoded(stored, tensor.kind, tensor.width)
        if keeps_bad:
            return self._as_float(tensor, rows, kind)
        if bad:
            rows = np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0)
        # Far beyond any weight of a model; the scales of blocks are half-precision numbers.
        if np.abs(rows).max() > _MAX_F16:
            raise _too_large(tensor, kind)
        return quantize(rows, kind, importance)

    def _as_float(self, tensor: StoredTensor, rows: Floats, kind: GGMLQuantizationType) -> Bytes:
        encoded = as_float(rows, kind)
        # Rounding to a narrower type may overflow, which must not pass for an infinity.
        if count_not_finite(encoded, kind, tensor.width) != np.count_nonzero(~np.isfinite(rows)):
            raise _too_large(tensor, kind)
        return encoded

    def _report(self, tensor: StoredTensor, bad: int) -> None:
        if self.strict:
            raise CheckpointError(
                f"Tensor {quoted(tensor.name)} in {quoted(tensor.file.name)} holds weights that "
                "are not finite numbers, so the checkpoint is damaged."
            )
        self.faults.append((tensor.file.name, tensor.name, bad))


@dataclass(frozen=True, slots=True)
class _Block:
    """Some rows of a tensor."""

    tensor: StoredTensor
    first: int
    count: int


def _too_large(tensor: StoredTensor, kind: GGMLQuantizationType) -> ConversionError:
    return ConversionError(
        f"Tensor {quoted(tensor.name)} in {quoted(tensor.file.name)} holds a weight that is too "
        f"large for {kind.name}: choose BF16 or F32."
    )
