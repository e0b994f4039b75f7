"""`gemmachat alias`: other names for models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gemmachat.aliases import read_aliases, remove_alias, set_alias
from gemmachat.catalog import (
    in_catalog,
    known_aliases,
    load_catalog,
    meaning,
    open_shelf,
    resolve,
)
from gemmachat.cli_shared import JsonReport, KnownModel
from gemmachat.errors import NotFoundError, UsageError
from gemmachat.named_units import unit_folders
from gemmachat.reference import HostedModel, LocalModel, NamedModel, is_model_name

if TYPE_CHECKING:
    from gemmachat.render import Screen


def alias(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The new name.", show_default=False)
    ] = None,
    model: KnownModel = None,
    remove: Annotated[bool, typer.Option("--remove", help="Forget the alias NAME.")] = False,
    as_json: JsonReport = False,
) -> None:
    """Give a MODEL another name. Without MODEL, list the aliases."""
    screen: Screen = context.obj
    folder = open_shelf().models
    if remove:
        if name is None or model is not None:
            raise UsageError("--remove needs the NAME of an alias, and no MODEL")
        remove_alias(folder, name)
    elif name is not None and model is not None:
        set_alias(folder, _new_name(name), _meant(model))
    aliases = read_aliases(folder)
    if name is not None and model is None and not remove:
        if name not in aliases:
            raise NotFoundError(f"there is no alias {name[:100]!r}: gemmachat alias lists them")
        aliases = {name: aliases[name]}
    if as_json:
        screen.json({"aliases": aliases})
    elif not (remove or model):
        screen.result(*(f"{alias} -> {meant}" for alias, meant in aliases.items()))


def _new_name(name: str) -> str:
    """A name that is free; raises `UsageError`."""
    if not is_model_name(name):
        raise UsageError(f"{name[:100]!r} cannot be a name: use a-z, 0-9, '.', '_' and '-'")
    if name in load_catalog() or (open_shelf().models / name).is_dir():
        raise UsageError(f"{name} is the name of a model: choose another one")
    return name


def _meant(text: str) -> str:
    """What an alias will stand for: no alias itself, and the same in every folder."""
    reference = meaning(text)
    if isinstance(reference, LocalModel):
        return str(resolve(text).target.absolute())
    if isinstance(reference, NamedModel) and (
        in_catalog(reference) or unit_folders(open_shelf(), reference)
    ):
        return str(reference)
    if isinstance(reference, HostedModel):
        return known_aliases().get(text, text)
    return str(resolve(text).target.absolute())  # a file without a separator in its path, or none
