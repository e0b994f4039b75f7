"""One conversion, start to end: read the sources, plan the tensors, write the files."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gguf.constants import GGMLQuantizationType as Kind

from . import names
from .checkpoint import Checkpoint, open_checkpoint
from .config import read_hparams
from .encode import Encoder
from .errors import CheckpointError, quoted
from .ggml import Floats, row_bytes
from .gguf_source import read_gguf
from .gguf_values import Metadata, ValueType, float32_array, int32_array, string
from .hparams import DRAFTER_ARCH, TARGET_ARCH, Hparams
from .imatrix import ImportanceMatrix, read_imatrix
from .pair import check_pair
from .provenance import describe, describe_quantization
from .quantize import Quantization, find_quantization, tensor_types
from .tensors import StoredTensor
from .vocab import read_vocab
from .write import GgufFile, Progress, TensorData, refuse_existing, write_files

# A frequency factor that divides a rotation angle down to nothing.
_NO_ROTATION = 1e30


@dataclass(frozen=True, slots=True)
class Source:
    """What is to be written of a checkpoint folder or a GGUF file, before types are chosen."""

    metadata: Metadata
    tensors: Mapping[str, StoredTensor]
    computed: Mapping[str, Floats]
    layers: int
    drafter: bool
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """The files that were written, and what the user should know, one sentence each."""

    files: Mapping[Path, GgufFile]
    notes: tuple[str, ...]


def convert(
    source: Path,
    output: Path,
    *,
    quant: str,
    drafter: Path | None = None,
    drafter_quant: str = "Q8_0",
    imatrix: Path | None = None,
    strict: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Converts a checkpoint folder, or a GGUF file, to the GGUF file `output`.

    Targets and drafters are told apart by their config. With `drafter`, the drafter of the target
    `source` is converted too, to the file that `drafter_output` names, and both appear together.
    `quant` and `drafter_quant` are names of `quantize.QUANTIZATIONS`. `strict` refuses weights that
    are not finite. Raises ConversionError; all outputs are then as they were before.
    """
    choice, drafter_choice = find_quantization(quant), find_quantization(drafter_quant)
    outputs = [output] if drafter is None else [output, drafter_output(output)]
    for path in outputs:
        refuse_existing(path, force)
    encoder = Encoder(strict)
    importance = read_imatrix(imatrix) if imatrix else None
    sources = [read_source(source)]
    plans = [_plan(sources[0], choice, encoder, importance)]
    if drafter is not None:
        sources.append(read_source(drafter))
        check_pair(sources[0].metadata, sources[1].metadata)
        plans.append(_plan(sources[1], drafter_choice, encoder, None))
    files = dict(zip(outputs, plans, strict=True))
    write_files(files, force=force, progress=progress)
    notes = [note for read in sources for note in read.notes]
    return Report(files, (*notes, *encoder.warnings()))


def drafter_output(output: Path) -> Path:
    """Where the drafter of the target written to `output` goes: NAME-drafter.gguf beside it."""
    return output.with_name(f"{output.stem}-drafter{output.suffix}")


def plan_file(source: Path, *, quant: str) -> GgufFile:
    """Everything that `convert` would write of one model. Raises ConversionError."""
    return _plan(read_source(source), find_quantization(quant), Encoder(strict=False), None)


def read_source(path: Path) -> Source:
    """Reads and checks what `path`, a folder or a GGUF file, holds. Raises ConversionError."""
    return _read_file(path) if path.is_file() else _read_folder(path)


def _read_folder(folder: Path) -> Source:
    checkpoint = open_checkpoint(folder)
    hparams = read_hparams(checkpoint.config)
    tensors = {
        rename.name: checkpoint.tensors[rename.source]
        for rename in names.renames(hparams, checkpoint.tensors)
    }
    skipped = names.skipped(hparams, checkpoint.tensors)
    metadata = {
        **describe(folder, hparams.arch, (tensor.shape for tensor in tensors.values())),
        **hparams.metadata(),
        **_centroid_arrays(checkpoint, hparams),
        **read_vocab(folder, hparams.vocab).metadata(),
    }
    note = f"{len(skipped)} tensors for images and sound are left out: gemmachat reads text only."
    return Source(
        metadata,
        tensors,
        computed={names.ROPE_FREQS: _rope_freqs(hparams)},
        layers=hparams.layers,
        drafter=hparams.arch == DRAFTER_ARCH,
        notes=(note,) if skipped else (),
    )


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
    return Source(
        source.metadata,
        source.tensors,
        computed={},
        layers=int(layers.numbers()[0]),
        drafter=arch == DRAFTER_ARCH,
        notes=(),
    )


def _plan(
    source: Source, choice: Quantization, encoder: Encoder, imatrix: ImportanceMatrix | None
) -> GgufFile:
    shapes = {name: tensor.shape for name, tensor in source.tensors.items()}
    types = tensor_types(shapes, choice, layers=source.layers, drafter=source.drafter)
    planned = [_computed(name, values) for name, values in source.computed.items()]
    weighed = 0
    for name, tensor in source.tensors.items():
        importance = imatrix.of(name, tensor.shape) if imatrix else None
        weighed += importance is not None
        planned.append(_encoded(name, tensor, types[name], importance, encoder))
    if imatrix and not weighed:
        raise CheckpointError(
            f"{quoted(imatrix.path, 200)} knows none of the model's tensors: it belongs to another."
        )
    metadata = {
        **source.metadata,
        **describe_quantization(choice),
        **(imatrix.metadata() if imatrix else {}),
    }
    return GgufFile(metadata, planned)


def _computed(name: str, values: Floats) -> TensorData:
    return TensorData(
        name,
        values.shape,
        Kind.F32,
        values.nbytes,
        lambda: iter([lambda: values.view(np.uint8)]),
    )


def _encoded(
    name: str, tensor: StoredTensor, kind: Kind, importance: Floats | None, encoder: Encoder
) -> TensorData:
    return TensorData(
        name,
        tensor.shape,
        kind,
        tensor.rows * row_bytes(tensor.width, kind),
        lambda: encoder.jobs(tensor, kind, importance),
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
        stored = checkpoint.tensors.get(name)
        if stored is None or stored.shape != shape:
            found = "missing" if stored is None else f"of shape {list(stored.shape)}"
            raise CheckpointError(
                f"Tensor '{name}' is {found} where config.json calls for {list(shape)}."
            )
    centroids = checkpoint.tensors[names.CENTROIDS].floats()
    if not np.isfinite(centroids).all():
        raise CheckpointError(f"Tensor '{names.CENTROIDS}' holds values that are not finite.")
    ordering = checkpoint.tensors[names.TOKEN_ORDERING].integers()
    if not np.array_equal(np.sort(ordering), np.arange(hparams.vocab)):
        raise CheckpointError(
            f"Tensor '{names.TOKEN_ORDERING}' does not name every token exactly once."
        )
    return {
        f"{DRAFTER_ARCH}.masked_embedding.centroids": float32_array(centroids.reshape(-1)),
        f"{DRAFTER_ARCH}.masked_embedding.token_ordering": int32_array(ordering),
    }
