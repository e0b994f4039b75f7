"""`gemmachat convert`: a checkpoint, or a GGUF file, to GGUF."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gemmachat.converters.write import GgufFile
    from gemmachat.render import Screen

TYPES = "F32, F16, BF16, Q8_0, Q6_K, Q5_K_M, Q4_K_M, Q4_0, IQ4_NL"


def convert(
    context: typer.Context,
    source: Annotated[
        Path,
        typer.Argument(metavar="SRC", help="Checkpoint folder (safetensors), or a GGUF file."),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="OUT", help="GGUF file to write.")
    ],
    quant: Annotated[str, typer.Option(metavar="TYPE", help=f"Quantization: {TYPES}.")] = "Q4_K_M",
    drafter: Annotated[
        Path | None,
        typer.Option(metavar="SRC", help="Convert its drafter too, to OUT's name with -drafter."),
    ] = None,
    drafter_quant: Annotated[
        str, typer.Option(metavar="TYPE", help="Quantization of the drafter.")
    ] = "Q8_0",
    imatrix: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Importance matrix of llama-imatrix, as GGUF."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse weights that are NaN or infinite.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> None:
    """Convert Gemma 4 or its drafter to GGUF.

    SRC is the folder of a checkpoint, as downloaded from Hugging Face, or a GGUF file to quantize
    anew. Nothing is written under OUT's name before it is complete.
    """
    from gemmachat.converters import ConversionError
    from gemmachat.converters import convert as run

    screen: Screen = context.obj
    try:
        with screen.transfer("converting") as progress:
            report = run(
                source.expanduser(),
                output.expanduser(),
                quant=quant,
                drafter=drafter and drafter.expanduser(),
                drafter_quant=drafter_quant,
                imatrix=imatrix and imatrix.expanduser(),
                strict=strict,
                force=force,
                progress=progress,
            )
    except ConversionError as error:
        screen.error(str(error))
        raise typer.Exit(error.exit_code) from None
    screen.note(*report.notes)
    for path, file in report.files.items():
        screen.result(f"{path}: {_summary(file)}")


def _summary(file: GgufFile) -> str:
    from gguf.constants import GGMLQuantizationType

    kinds = Counter(GGMLQuantizationType(tensor.type_id).name for tensor in file.tensors)
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return f"{file.nbytes / 1e6:,.1f} MB, {len(file.tensors)} tensors ({counts})"
