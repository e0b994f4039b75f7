"""What several commands share: options, and the loading of a model."""

from __future__ import annotations

from typing import Annotated

import typer

from gemmachat import settings
from gemmachat.catalog import ResolvedModel, resolve, resolve_default
from gemmachat.completion import complete_known
from gemmachat.engine import MAX_THREADS, Engine
from gemmachat.errors import UsageError
from gemmachat.interrupt import exit_on_interrupt
from gemmachat.native_structs import MAX_DRAFT
from gemmachat.session import DraftPolicy

KnownModel = Annotated[
    str | None,
    typer.Argument(metavar="MODEL", autocompletion=complete_known, show_default=False),
]
Model = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL",
        autocompletion=complete_known,
        help="Default: as for `run`.",
        show_default=False,
    ),
]
Drafter = Annotated[
    str | None, typer.Option(metavar="PATH", help="Drafter GGUF that belongs to the model.")
]
Threads = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, max=MAX_THREADS, help="Default: all physical cores."),
]
KernelChoice = Annotated[
    str | None,
    typer.Option(
        "--kernels",
        metavar="auto|ggml",
        help="Matrix kernels: gemmachat's own where they gain, or ggml's alone. Default: as "
        f"{settings.KERNELS_VARIABLE} says, else auto.",
        show_default=False,
    ),
]
Draft = Annotated[
    str,
    typer.Option(
        metavar="auto|off|N",
        help=f"Tokens to draft per round, 1 to {MAX_DRAFT}; auto: as many as pay, or none.",
    ),
]
JsonReport = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def find_model(name: str | None, drafter: str | None) -> tuple[ResolvedModel, str | None]:
    """Return the files of a MODEL, or of the default one with what to tell about it."""
    return resolve_default(drafter) if name is None else (resolve(name, drafter), None)


def open_engine(
    model: ResolvedModel,
    threads: int | None = None,
    *,
    n_ctx: int | None = None,
    exact: bool = False,
    force: bool = False,
    kernels: str | None = None,
) -> Engine:
    """Load a pair for sessions of `n_ctx` tokens. Tests put one without weights in its place."""
    with exit_on_interrupt():
        return Engine.load(
            model.target,
            model.drafter,
            threads=threads,
            n_ctx=n_ctx,
            exact=exact,
            force=force,
            kernels=kernels,
        )


def kernel_choice(text: str | None) -> settings.Kernels:
    """Return what --kernels, or else the environment, asks for. Raises `UsageError`."""
    return settings.kernels(text, "--kernels")


def draft_policy(text: str) -> DraftPolicy:
    """Return what --draft asks for. Raises `UsageError`."""
    if text == "auto":
        return "auto"
    if text == "off":
        return "off"
    if text in map(str, range(1, MAX_DRAFT + 1)):
        return int(text)
    raise UsageError(
        f"--draft must be auto, off or a number from 1 to {MAX_DRAFT}, not {text[:40]!r}"
    )


def plain_number(text: str) -> str:
    """Return the text; `ValueError` where Python reads a number that nobody else does: 5_0."""
    if "_" in text or not text.isascii():
        raise ValueError
    return text
