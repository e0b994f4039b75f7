"""One conversion, start to end: read the sources, plan the tensors, write the files."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gguf.constants import GGMLQuantizationType as Kind

from .encode import Encoder
from .errors import CheckpointError, OutputError, quoted
from .ggml import Floats, row_bytes
from .imatrix import ImportanceMatrix, read_imatrix
from .pair import check_pair
from .provenance import describe_quantization
from .quantize import Quantization, find_quantization, tensor_types
from .source import Source, read_source
from .tensors import FLOATS, StoredTensor
from .write import GgufFile, Progress, TensorData, refuse_existing, write_files

DRAFTER_QUANT = "Q8_0"
# Types whose quantizer looks at no importance.
_UNWEIGHED = (*FLOATS, "Q8_0")


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
    drafter_quant: str = DRAFTER_QUANT,
    imatrix: Path | None = None,
    strict: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Converts a checkpoint folder, or a GGUF file, to the GGUF file `output`.

    Targets and drafters are told apart by their config. With `drafter`, the drafter of the target
    `source` is converted too, to the file that `drafter_output` names; neither appears before both
    are complete. `quant` and `drafter_quant` are names of `quantize.QUANTIZATIONS`. `strict`
    refuses weights that are not finite. A GGUF file is taken at its word: whether it holds a whole
    model is not checked. Raises ConversionError; outputs are then as they were before, but where
    the system itself fails between the publishing of a target and of its drafter.
    """
    choice, drafter_choice = find_quantization(quant), find_quantization(drafter_quant)
    refuse_existing(output, force)
    outputs = [output]
    if drafter is not None:
        outputs.append(drafter_output(output))
        refuse_existing(outputs[1], force)
    encoder = Encoder(strict)
    importance = read_imatrix(imatrix) if imatrix else None
    sources = [read_source(source)]
    plans = [_plan(sources[0], choice, encoder, importance)]
    if drafter is not None:
        sources.append(read_source(drafter))
        check_pair(sources[0], sources[1])
        plans.append(_plan(sources[1], drafter_choice, encoder, None))
    for path in outputs:
        _refuse_overwriting(path, sources)
    files = dict(zip(outputs, plans, strict=True))
    write_files(files, force=force, progress=progress)
    notes = [note for read in sources for note in read.notes]
    return Report(files, (*notes, *encoder.warnings()))


def _refuse_overwriting(output: Path, sources: list[Source]) -> None:
    """A checkpoint's own file is no place for the output; a GGUF file can be quantized in place."""
    for source in sources:
        for file in {tensor.file for tensor in source.tensors.values()}:
            if output.exists() and output.samefile(file) and file.suffix == ".safetensors":
                raise OutputError(
                    f"{quoted(output, 200)} is a part of the source: write elsewhere."
                )


def drafter_output(output: Path) -> Path:
    """Where the drafter of the target written to `output` goes: NAME-drafter.gguf beside it."""
    return output.with_name(f"{output.stem}-drafter{output.suffix}")


def plan_file(source: Path, *, quant: str) -> GgufFile:
    """Everything that `convert` would write of one model. Raises ConversionError."""
    return _plan(read_source(source), find_quantization(quant), Encoder(strict=False), None)


def _plan(
    source: Source, choice: Quantization, encoder: Encoder, imatrix: ImportanceMatrix | None
) -> GgufFile:
    shapes = {name: tensor.shape for name, tensor in source.tensors.items()}
    types = tensor_types(shapes, choice, layers=source.layers, drafter=source.drafter)
    planned = [_computed(name, values) for name, values in source.computed.items()]
    weighed = 0
    for name, tensor in source.tensors.items():
        importance = imatrix.of(name, tensor.shape) if imatrix else None
        weighed += importance is not None and types[name].name not in _UNWEIGHED
        planned.append(_encoded(name, tensor, types[name], importance, encoder))
    if imatrix and not weighed:
        raise CheckpointError(
            f"{quoted(imatrix.path, 200)} weighs none of the tensors that {choice.name} quantizes: "
            "give the matrix of this model, or none."
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
