"""A model by what the user calls it, found and loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmachat.catalog import ResolvedModel, resolve, resolve_default
from gemmachat.interrupt import exit_on_interrupt

if TYPE_CHECKING:
    from gemmachat.engine import Engine


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
    from gemmachat.engine import Engine

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
