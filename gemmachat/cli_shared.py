"""Options that several commands share, and what they ask."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from gemmachat import settings
from gemmachat.completion import complete_known
from gemmachat.errors import UsageError
from gemmachat.native_structs import MAX_DRAFT
from gemmachat.processors import MAX_THREADS

if TYPE_CHECKING:
    from gemmachat.render import Screen

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
        help="Matrix kernels: gemmachat's own where there are any, or ggml's alone. Default: as "
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
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def ask_to_remove(screen: Screen, question: str, yes: bool) -> None:
    """Go on only if the user says so; raises `UsageError` where nobody can."""
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():  # None where it was closed
        raise UsageError("nobody can be asked here whether to remove it: pass --yes")
    answer = screen.read_line(f"{question} [y/N] ")
    if (answer or "").strip().lower() not in ("y", "yes"):
        screen.note("nothing was removed")
        raise typer.Exit(1)
