"""Blocks of a stored tensor as another GGML type, each a job of its own for any thread."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from gguf.constants import GGMLQuantizationType

from .errors import CheckpointError, ConversionError, quoted
from .ggml import Bytes, Floats, quantize
from .tensors import FLOATS, StoredTensor, count_not_finite, decoded

BLOCK_WEIGHTS = 4 << 20
_MAX_F16 = 65504.0

Job = Callable[[], Bytes]


@dataclass(slots=True)
class Encoder:
    """Encodes tensors and remembers which hold weights that are NaN or infinite.

    `strict` refuses such weights. Otherwise a float type keeps them and a block type, where one
    would spoil its whole block, stores 0.
    """

    strict: bool
    # One entry per block with such weights; threads append, which is atomic.
    faults: list[tuple[str, int]] = field(default_factory=list)

    def warnings(self) -> list[str]:
        """One sentence for every tensor with such weights."""
        counts: Counter[str] = Counter()
        for name, count in self.faults:
            counts[name] += count
        return [
            f"Tensor {quoted(name)} holds {count} weights that are NaN or infinite: the model may "
            "be damaged (--strict refuses it)."
            for name, count in counts.items()
        ]

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
                yield self._job(
                    tensor, kind, matrix * rows + first, min(step, rows - first), weights
                )

    def _job(
        self,
        tensor: StoredTensor,
        kind: GGMLQuantizationType,
        first: int,
        count: int,
        importance: Floats | None,
    ) -> Job:
        def encode() -> Bytes:
            stored = tensor.encoded(first, count)
            bad = count_not_finite(stored, tensor.kind, tensor.width)
            if bad:
                self._report(tensor, bad)
            if kind == tensor.kind:
                return stored
            rows = decoded(stored, tensor.kind, tensor.width)
            if bad and kind.name not in FLOATS:
                rows = np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0)
            try:
                return _as_kind(rows, kind, importance)
            except ConversionError as error:
                raise ConversionError(
                    f"Tensor {quoted(tensor.name)} in {quoted(tensor.file.name)}: {error}; "
                    "choose --quant BF16 or F32."
                ) from None

        return encode

    def _report(self, tensor: StoredTensor, bad: int) -> None:
        if self.strict:
            raise CheckpointError(
                f"Tensor {quoted(tensor.name)} in {quoted(tensor.file.name)} holds weights that "
                "are not finite numbers, so the checkpoint is damaged."
            )
        self.faults.append((tensor.name, bad))


def _as_kind(rows: Floats, kind: GGMLQuantizationType, importance: Floats | None) -> Bytes:
    if kind == GGMLQuantizationType.F32:
        return rows.view(np.uint8)
    if kind == GGMLQuantizationType.F16 and (np.abs(rows[np.isfinite(rows)]) > _MAX_F16).any():
        raise ConversionError("a weight is too large for F16")
    if kind.name in FLOATS:
        importance = None
    return quantize(rows, kind, importance)
