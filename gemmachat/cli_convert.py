"""`gemmachat convert`: a checkpoint, or a GGUF file, to GGUF."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gemmachat.errors import UsageError
from gemmachat.gguf_info import read_header, validate_drafter, validate_target
from gemmachat.gguf_model import DRAFTER as DRAFTER_ARCHITECTURE

if TYPE_CHECKING:
    from gemmachat.converters.write import GgufFile
    from gemmachat.render import Screen

TYPES = "F32, F16, BF16, Q8_0, Q6_K, Q5_K_M, Q4_K_M, Q4_0, IQ4_NL"


def convert(
    context: typer.Context,
    source: Annotated[
        Path,
        typer.Argument(metavar="SRC", help="Checkpoint folder (safetensors) or GGUF file."),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="OUT", help="GGUF file to write.")
    ],
    quant: Annotated[
        str | None,
        typer.Option(metavar="TYPE", help=f"{TYPES}. Default: Q4_K_M; of a drafter Q8_0."),
    ] = None,
    drafter: Annotated[
        Path | None,
        typer.Option(
            metavar="SRC",
            help="Its drafter (folder or GGUF): written beside OUT as NAME-drafter.gguf.",
        ),
    ] = None,
    drafter_quant: Annotated[
        str | None,
        typer.Option(metavar="TYPE", help="Type of that drafter. Default: Q8_0."),
    ] = None,
    imatrix: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Importance matrix of SRC by llama-imatrix (GGUF)."),
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

    if drafter is None and drafter_quant is not None:
        raise UsageError("--drafter-quant needs --drafter SRC, the drafter to convert")
    if output.suffix != ".gguf":
        raise UsageError(f"OUT must be a file name that ends in .gguf, not '{output}'")
    sources = [path for path in (source, drafter) if path is not None]
    for path in map(_expanded, sources):
        if os.path.isfile(path):
            _check_file(path)
    screen: Screen = context.obj
    try:
        with screen.transfer("converting") as progress:
            report = run(
                _expanded(source),
                _expanded(output),
                quant=quant,
                drafter=None if drafter is None else _expanded(drafter),
                drafter_quant=drafter_quant,
                imatrix=None if imatrix is None else _expanded(imatrix),
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
    if drafter is not None:
        screen.note(f"Chat with it: gemmachat run {' --drafter '.join(map(str, report.files))}")


def _expanded(path: Path) -> Path:
    """The path with ~ resolved; a user that is not known stays as it is."""
    return Path(os.path.expanduser(path))


def _check_file(path: Path) -> None:
    """A GGUF file must be one that gemmachat would run; raises `GemmachatError`."""
    header = read_header(path)
    check = validate_drafter if header.architecture == DRAFTER_ARCHITECTURE else validate_target
    check(header)


def _summary(file: GgufFile) -> str:
    from gguf.constants import GGMLQuantizationType

    kinds = Counter(GGMLQuantizationType(tensor.type_id).name for tensor in file.tensors)
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return f"{file.nbytes / 1e6:,.1f} MB, {len(file.tensors)} tensors ({counts})"
