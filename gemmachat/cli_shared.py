"""What several commands share: options, and the loading of a model."""

from __future__ import annotations

from typing import Annotated

import typer

from gemmachat.catalog import ResolvedModel
from gemmachat.engine import MAX_THREADS, Engine
from gemmachat.interrupt import exit_on_interrupt

Drafter = Annotated[
    str | None, typer.Option(metavar="PATH", help="Drafter GGUF that belongs to the model.")
]
Threads = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, max=MAX_THREADS, help="Default: all physical cores."),
]
JsonReport = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def open_engine(model: ResolvedModel, threads: int | None = None) -> Engine:
    """Load a pair. Tests put an engine without weights in its place."""
    with exit_on_interrupt():
        return Engine.load(model.target, model.drafter, threads=threads)
