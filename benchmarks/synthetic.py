"""Files in the shapes of E2B or E4B with synthetic weights, as fast as they can be written.

    python benchmarks/synthetic.py FOLDER [--model E2B] [--quant Q4_0] [--drafter-quant Q8_0]

writes a target, its drafter and the same drafter without a centroid head, as published files have
it: FOLDER/e2b-Q4_0.gguf, e2b-drafter-Q8_0.gguf, e2b-drafter-dense-Q8_0.gguf. Those that are there
already are kept. Names, types and metadata are what the converter plans for a checkpoint of these
shapes, with Gemma 4's own vocabulary. The blocks of the tensors are random, so that nothing needs
to be quantized, and are made as they are written, so that memory holds a few of them.

A pass does the work of one with real weights. Texts are noise, drafts are accepted by chance alone,
and `general.name` says so: "synthetic weights, E2B shapes".
"""

from __future__ import annotations

import argparse
import functools
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from gemmachat.converters.conversion import plan_file
from gemmachat.converters.encode import BLOCK_WEIGHTS, Job
from gemmachat.converters.ggml import Bytes, Floats, as_float, dequantize
from gemmachat.converters.gguf_values import Metadata, float32_array
from gemmachat.converters.hparams import DRAFTER_ARCH
from gemmachat.converters.names import ROPE_FREQS
from gemmachat.converters.write import GgufFile, TensorData, write_files
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Kind

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from full_size import CENTROIDS, E2B, E2B_DRAFTER, E4B, E4B_DRAFTER, Model
from real_vocab import real_vocab
from sparse_checkpoint import write_checkpoint

QUANTS = ("Q4_0", "Q8_0", "Q4_K_M")
FLOATS = (Kind.F32, Kind.F16, Kind.BF16)
# Attention scores are not scaled down after the norms, so queries are: scores then spread by 1.
QUERY_NORM = "attn_q_norm.weight"
# Spreads logits by 4: a hundred or so of 262,144 tokens are likely, as with a real model. Weights
# are of either sign, or the last token, whose embedding the hidden state still holds, would recur.
OUTPUT_NORM, OUTPUT_SCALE = "output_norm.weight", 4.0


@dataclass(frozen=True)
class Pair:
    """A target and its drafter; `label` names their shapes."""

    label: str
    target: Model
    drafter: Model

    def models(self, quant: str, drafter_quant: str) -> dict[str, tuple[Model, str]]:
        """Each file's model and quantization, by the file's name."""
        stem, name = self.label.lower(), f"synthetic weights, {self.label} shapes"
        drafter = replace(self.drafter, name=f"{name}, drafter")
        dense = replace(self.drafter, name=f"{name}, drafter without centroids", ordered=False)
        return {
            f"{stem}-{quant}.gguf": (replace(self.target, name=name), quant),
            f"{stem}-drafter-{drafter_quant}.gguf": (drafter, drafter_quant),
            f"{stem}-drafter-dense-{drafter_quant}.gguf": (dense, drafter_quant),
        }


PAIRS = {"E2B": Pair("E2B", E2B, E2B_DRAFTER), "E4B": Pair("E4B", E4B, E4B_DRAFTER)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", choices=PAIRS, default="E2B")
    parser.add_argument("--quant", choices=QUANTS, default="Q4_0")
    parser.add_argument("--drafter-quant", choices=QUANTS, default="Q8_0")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        real_vocab().write_tokenizer(Path(temporary))
        models = PAIRS[args.model].models(args.quant, args.drafter_quant)
        for name, (model, quant) in models.items():
            path = args.folder / name
            if path.exists():
                print(f"{path} is there already")
                continue
            began = time.monotonic()
            write_model(path, model, quant, Path(temporary))
            seconds = time.monotonic() - began
            print(f"{path}: {model.name}, {path.stat().st_size / 1e9:.3f} GB in {seconds:.0f} s")


def write_model(path: Path, model: Model, quant: str, tokenizer: Path) -> None:
    """Writes `model` to the new file `path`; `tokenizer` is a folder with a tokenizer's files."""
    write_files({path: plan_model(model, quant, tokenizer)}, force=False)


def plan_model(model: Model, quant: str, tokenizer: Path) -> GgufFile:
    """What the converter would write of such a checkpoint, its weights replaced by random ones."""
    with tempfile.TemporaryDirectory() as temporary:
        # The folder's name becomes the model's.
        checkpoint = Path(temporary, model.name)
        write_checkpoint(model, checkpoint, tokenizer)
        planned = plan_file(checkpoint, quant=quant)
    tensors = [
        tensor if tensor.name == ROPE_FREQS else replace(tensor, jobs=_Random(tensor).jobs)
        for tensor in planned.tensors
    ]
    return GgufFile({**planned.metadata, **_centroids(model)}, tensors)


def _centroids(model: Model) -> Metadata:
    if not model.ordered:
        return {}
    rng = np.random.default_rng(0)
    centroids = rng.standard_normal(CENTROIDS * model.hidden) * model.hidden**-0.5
    return {f"{DRAFTER_ARCH}.masked_embedding.centroids": float32_array(centroids)}


@dataclass(frozen=True)
class _Random:
    """Random data for a tensor, the same for the same name.

    The rows of a matrix have a norm of about 1, so that what goes through it keeps its magnitude;
    the weights of a norm and the scale of a layer are about 1.
    """

    tensor: TensorData

    def jobs(self) -> Iterator[Job]:
        block, size = GGML_QUANT_SIZES[self.tensor.type_id]
        blocks, step = self.tensor.nbytes // size, BLOCK_WEIGHTS // block
        for first in range(0, blocks, step):
            yield functools.partial(self._encode, first, min(step, blocks - first))

    def _encode(self, first: int, count: int) -> Bytes:
        rng = np.random.default_rng((zlib.crc32(self.tensor.name.encode()), first))
        kind, width = Kind(self.tensor.type_id), self.tensor.shape[-1]
        if len(self.tensor.shape) == 1:
            return as_float(self._vector(count, rng), kind)
        if kind in FLOATS:
            rows = rng.standard_normal((1, count), np.float32) * np.float32(width**-0.5)
            return as_float(rows, kind)
        return random_blocks(kind, count, width**-0.5 / _unit(kind), rng)

    def _vector(self, count: int, rng: np.random.Generator) -> Floats:
        weights = rng.uniform(0.9, 1.1, (1, count)).astype(np.float32)
        if self.tensor.name.endswith(QUERY_NORM):
            return weights * np.float32(count**-0.5)
        if self.tensor.name == OUTPUT_NORM:
            return weights * rng.choice(np.float32([-OUTPUT_SCALE, OUTPUT_SCALE]), count)
        return weights


def random_blocks(kind: Kind, count: int, scale: float, rng: np.random.Generator) -> Bytes:
    """`count` blocks [count, bytes of a block] of random weights, whose mean is 0.

    Every block's scale is `scale` or its negative; how far the weights spread is up to the type.
    Raises ValueError for a type other than Q4_0, Q8_0, Q4_K and Q6_K.
    """
    size = GGML_QUANT_SIZES[kind][1]
    blocks = np.frombuffer(bytearray(rng.bytes(count * size)), np.uint8).reshape(count, size)
    # Quants of 4 bits reach from -8 to 7: scales of either sign make up for it.
    scales = np.where(blocks[:, -1] & 1, scale, -scale)
    if kind == Kind.Q4_0:
        _store(blocks, 0, scales)
    elif kind == Kind.Q8_0:
        quants = blocks[:, 2:].view(np.int8)
        np.maximum(quants, -127, out=quants)  # no quantizer writes -128
        _store(blocks, 0, scales)
    elif kind == Kind.Q4_K:
        # A weight is d * s * q - dmin * m, with s and m of 6 bits and q from 0 to 15: here m is s
        # and dmin is 7.5 d. The 12 bytes hold s and m by turns, each with parts of the later ones.
        packed = blocks[:, 4:16]
        packed[:, 4:8] = packed[:, :4]
        packed[:, 8:] = (packed[:, 8:] & 15) * 17
        _store(blocks, 0, scales)
        _store(blocks, 2, 7.5 * scales)
    elif kind == Kind.Q6_K:
        _store(blocks, size - 2, scales)
    else:
        raise ValueError(f"no random blocks of {kind.name} are made here")
    return blocks


def _store(blocks: Bytes, begin: int, scales: np.ndarray) -> None:
    blocks[:, begin : begin + 2] = scales.astype("<f2").view(np.uint8).reshape(-1, 2)


@functools.cache
def _unit(kind: Kind) -> float:
    """How far the weights of random blocks of scale 1 spread: their standard deviation."""
    blocks = random_blocks(kind, 4096, 1.0, np.random.default_rng(0))
    return float(dequantize(blocks, kind, GGML_QUANT_SIZES[kind][0]).std())


if __name__ == "__main__":
    main()
