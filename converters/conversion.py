"""One conversion, start to end: read the sources, plan the tensors, write the files."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gguf.constants import GGMLQuantizationType as Kind

from .encode import Encoder
from .errors import CheckpointError, OptionError, OutputError, quoted
from .ggml import Floats, row_bytes
from .imatrix import ImportanceMatrix, read_imatrix
from .pair import check_pair
from .provenance import describe_quantization
from .quantize import Quantization, find_quantization, narrowed, tensor_types
from .source import Source, read_source
from .tensors import FLOATS, StoredTensor
from .write import GgufFile, Progress, TensorData, refuse_existing, write_files

TARGET_QUANT, DRAFTER_QUANT = "Q4_K_M", "Q8_0"
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
    quant: str | None = None,
    drafter: Path | None = None,
    drafter_quant: str | None = None,
    imatrix: Path | None = None,
    strict: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Converts a checkpoint folder, or a GGUF file, to the GGUF file `output`.

    Targets and drafters are told apart by their config. With `drafter`, the drafter of the target
    `source` is converted too, to the file that `drafter_output` names; neither appears before both
    are complete. `quant` and `drafter_quant` are names of `quantize.QUANTIZATIONS`; the defaults
    are `TARGET_QUANT` and, for a drafter, `DRAFTER_QUANT`. `strict` refuses weights that are not
    finite. A GGUF file is taken at its word: whether it holds a whole model is not checked. Raises
    ConversionError; outputs are then as they were before, but where the system itself fails between
    the publishing of a target and of its drafter.
    """
    choices = [
        find_quantization(quant or TARGET_QUANT),
        find_quantization(drafter_quant or DRAFTER_QUANT),
    ]
    refuse_existing(output, force)
    outputs = [output]
    if drafter is not None:
        outputs.append(drafter_output(output))
        refuse_existing(outputs[1], force)
    encoder = Encoder(strict)
    importance = read_imatrix(imatrix) if imatrix else None
    sources = [read_source(source)]
    if quant is None and sources[0].drafter:
        choices[0] = find_quantization(DRAFTER_QUANT)
    plans = [_plan(sources[0], choices[0], encoder, importance)]
    if drafter is not None:
        sources.append(read_source(drafter))
        check_pair(sources[0], sources[1])
        plans.append(_plan(sources[1], choices[1], encoder, None))
    for path in outputs:
        _refuse_overwriting(path, sources)
    files = dict(zip(outputs, plans, strict=True))
    write_files(files, force=force, progress=progress)
    notes = [note for read in sources for note in read.notes]
    for read, choice in zip(sources, choices, strict=False):
        notes += _notes(read, choice)
    if importance is not None:
        notes += _coverage(importance, sources[0], plans[0])
    return Report(files, (*notes, *encoder.warnings()))


def _notes(source: Source, choice: Quantization) -> Iterator[str]:
    """What the user may not expect of the types."""
    lossy = sorted({t.dtype for t in source.tensors.values() if t.dtype not in FLOATS})
    if lossy:
        file = next(iter(source.tensors.values())).file
        yield (
            f"{quoted(file.name)} is quantized already ({', '.join(lossy)}): what that lost stays "
            "lost; for full quality convert the checkpoint."
        )
    narrow = narrowed(
        source.shapes(), choice, layers=source.layers, drafter=source.drafter
    ).values()
    if narrow:
        yield (
            f"{len(narrow)} tensors have rows that K-quants cannot divide: they are stored as "
            f"{' or '.join(sorted({kind.name for kind in narrow}))}, as llama.cpp does."
        )


def _coverage(imatrix: ImportanceMatrix, source: Source, plan: GgufFile) -> Iterator[str]:
    quantized = [t.name for t in plan.tensors if Kind(t.type_id).name not in _UNWEIGHED]
    known = sum(name in imatrix.means for name in quantized)
    # Nobody measures how much the columns of an embedding matter.
    if known < len([name for name in quantized if name in source.tensors and "embd" not in name]):
        yield f"The importance matrix knows {known} of {len(quantized)} quantized tensors."


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
    types = tensor_types(source.shapes(), choice, layers=source.layers, drafter=source.drafter)
    planned = [_computed(name, values) for name, values in source.computed.items()]
    weighed = 0
    for name, tensor in source.tensors.items():
        importance = imatrix.of(name, tensor.shape) if imatrix else None
        weighed += importance is not None and types[name].name not in _UNWEIGHED
        planned.append(_encoded(name, tensor, types[name], importance, encoder))
    if imatrix and all(kind.name in _UNWEIGHED for kind in types.values()):
        raise OptionError(f"{choice.name} weighs no importance: leave out the importance matrix.")
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
