"""The commands on models that lie on this machine: list, show, rm, verify, prune, import."""

from __future__ import annotations

import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gemmachat import loading
from gemmachat.aliases import read_aliases, remove_aliases
from gemmachat.catalog import (
    DEFAULT_MODEL,
    known_aliases,
    load_catalog,
    meaning,
    open_shelf,
    resolve,
)
from gemmachat.cli_shared import Drafter, JsonReport, Model, Yes, ask_to_remove
from gemmachat.completion import complete_here
from gemmachat.errors import DamagedFileError, GemmachatError, UsageError
from gemmachat.named_units import aliases_of, named_units, only_folder, unit_folders
from gemmachat.reference import NamedModel
from gemmachat.table import size_text

if TYPE_CHECKING:
    from gemmachat.render import Screen
    from gemmachat.shelf import Shelf, Unit
    from gemmachat.shelf_check import FileCheck
    from gemmachat.shelf_cleanup import Removal

ModelHere = Annotated[
    list[str],
    typer.Argument(metavar="MODEL...", autocompletion=complete_here, show_default=False),
]
ModelsHere = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[MODEL]...",
        autocompletion=complete_here,
        help="Default: all.",
        show_default=False,
    ),
]


def list_models(context: typer.Context, as_json: JsonReport = False) -> None:
    """List the models on this machine."""
    from gemmachat.shelf_report import list_lines, listed_embedded, listed_unit

    screen: Screen = context.obj
    shelf = open_shelf()
    units, problems = shelf.units()
    try:
        aliases = read_aliases(shelf.models)
    except GemmachatError as error:
        aliases = {}
        problems.append(error)
    models = [listed_unit(unit, aliases) for unit in units]
    models.append(listed_embedded(resolve(DEFAULT_MODEL)))
    if as_json:
        screen.json(
            {
                "folder": str(shelf.models),
                "models": [model.as_dict() for model in models],
                "problems": list(map(str, problems)),
            }
        )
    else:
        screen.result(*list_lines(models, datetime.now(UTC), screen.width))
        for problem in problems:
            screen.error(str(problem))
        if not units:
            names = ", ".join(name for name, entry in load_catalog().items() if entry.quants)
            screen.note(f"gemmachat pull NAME gets one of {names}")


def show(
    context: typer.Context,
    model: Model = None,
    drafter: Drafter = None,
    as_json: JsonReport = False,
) -> None:
    """Show what a model is and what it needs.

    That is its files and where they are from, tensors, licence, and memory at several contexts; of
    a model that is known and not here yet, what the catalog says.
    """
    from gemmachat.model_report import describe, describe_entry, description_lines

    reference = None if model is None else meaning(model)
    entry = load_catalog().get(reference.name) if isinstance(reference, NamedModel) else None
    if entry is not None and entry.quants and not unit_folders(open_shelf(), reference):
        facts = describe_entry(entry, str(model))
    else:
        resolved, _ = loading.find_model(model, drafter)
        entry = load_catalog().get(resolved.name.partition(":")[0])
        facts = describe(resolved, entry)
    screen: Screen = context.obj
    if as_json:
        screen.json(facts)
    else:
        screen.result(*description_lines(facts, screen.width))


def rm(
    context: typer.Context,
    models: ModelHere,
    yes: Yes = False,
    as_json: JsonReport = False,
) -> None:
    """Remove models: target and drafter together, and the aliases that lead to them alone."""
    screen: Screen = context.obj
    shelf = open_shelf()
    folders = list(dict.fromkeys(only_folder(shelf, text) for text in models))
    names = [f"{folder.parent.name}:{folder.name}" for folder in folders]
    sizes = size_text(sum(file.lstat().st_size for part in folders for file in part.iterdir()))
    ask_to_remove(screen, f"remove {', '.join(names)} ({sizes})?", yes)
    removed = [(name, *_remove(shelf, folder)) for name, folder in zip(names, folders, strict=True)]
    if as_json:
        screen.json(
            {
                "removed": [
                    {
                        "model": name,
                        "bytes": removal.nbytes,
                        "aliases": aliases,
                        "left": list(map(str, removal.left)),
                    }
                    for name, removal, aliases in removed
                ]
            }
        )
        return
    for name, removal, aliases in removed:
        screen.result(f"removed {name}, {size_text(removal.nbytes)}")
        screen.result(*(f"removed {alias}, an alias of it" for alias in aliases))
        if removal.left:
            screen.note(f"left what gemmachat did not make: {', '.join(map(str, removal.left))}")


def _remove(shelf: Shelf, folder: Path) -> tuple[Removal, list[str]]:
    """Remove a unit and the aliases that would lead nowhere without it."""
    from gemmachat.shelf_cleanup import remove

    aliases = aliases_of(shelf, folder)
    removal = remove(folder)
    if aliases:
        remove_aliases(shelf.models, aliases)
    return removal, aliases


def verify(context: typer.Context, models: ModelsHere = None, as_json: JsonReport = False) -> None:
    """Hash the files of models again.

    They are compared with what was pulled or imported. Ends with 4 if a file is damaged or gone,
    with 1 if one cannot be read or another program is changing a model.
    """
    from gemmachat.shelf_check import verify_all

    screen: Screen = context.obj
    shelf = open_shelf()
    units, problems = shelf.units() if not models else (named_units(shelf, models), [])
    total, done = sum(unit.nbytes for unit in units), 0
    with screen.transfer("verifying") as progress:

        def hashed(nbytes: int) -> None:
            nonlocal done
            done += nbytes
            progress(done, total)

        checks, busy = verify_all(units, hashed)
    broken = any(isinstance(problem, DamagedFileError) for problem in problems)
    damaged = broken or any(result.damaged for result in checks)
    said = [*map(str, problems), *busy.values()]
    right = not said and not any(result.problem for result in checks)
    if as_json:
        files = [asdict(result) for result in checks]
        screen.json({"ok": right, "files": files, "problems": said})
    else:
        for unit in units:
            if unit.reference not in busy:
                wrong = [item for item in checks if item.model == unit.reference and item.problem]
                _show_checks(screen, unit, wrong)
        for problem in said:
            screen.error(problem)
        if not units and not problems:
            screen.note("nothing was pulled yet")
    if not right:
        raise typer.Exit((DamagedFileError if damaged else GemmachatError).exit_code)


def _show_checks(screen: Screen, unit: Unit, wrong: list[FileCheck]) -> None:
    if not wrong:
        screen.result(f"{unit.reference}: {len(unit.manifest.files)} files are right")
        return
    for item in wrong:
        state = " is damaged" if item.damaged else ""
        screen.result(f"{unit.reference}: {item.file}{state}: {item.problem}")
    if any(item.damaged for item in wrong):
        screen.note(_remedy(unit))


def prune(context: typer.Context, yes: Yes = False, as_json: JsonReport = False) -> None:
    """Remove what interrupted pulls left.

    That is partial downloads, and files that belong to no model any more.
    """
    from gemmachat.shelf_cleanup import find_leftovers
    from gemmachat.shelf_cleanup import prune as remove_leftovers

    screen: Screen = context.obj
    shelf = open_shelf()
    leftovers, skipped = find_leftovers(shelf)
    skipped += map(str, shelf.unreadable())
    files = [file for part in leftovers for file in part.files]
    screen.note(*(f"left as it is: {reason}" for reason in skipped))
    if leftovers:
        screen.note(*map(str, files))
        nbytes = sum(part.nbytes for part in leftovers)
        ask_to_remove(screen, f"remove {_counted(len(files), 'file')} ({size_text(nbytes)})?", yes)
    freed = sum(map(remove_leftovers, leftovers))
    if as_json:
        screen.json({"files": list(map(str, files)), "bytes": freed, "skipped": skipped})
    elif leftovers:
        screen.result(f"removed {_counted(len(files), 'file')}, {size_text(freed)}")
    else:
        screen.result("there is nothing to remove")


def import_model(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="GGUF file of a target.")],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Default: made of the file's name.")
    ] = None,
    drafter: Drafter = None,
    as_json: JsonReport = False,
) -> None:
    """Put GGUF files of your own on the shelf.

    They are checked first, alone and as a pair. On the same disk they are linked, else copied.
    """
    from gemmachat.shelf_import import import_model as take
    from gemmachat.shelf_import import name_of

    screen: Screen = context.obj
    path = Path(os.path.expanduser(path))
    name = name_of(path) if name is None else name
    if name in load_catalog() or name in known_aliases():
        raise UsageError(f"{name} means a model already: choose another --name")
    with screen.transfer("importing") as progress:
        unit = take(
            open_shelf(),
            path,
            None if drafter is None else Path(os.path.expanduser(drafter)),
            name,
            progress,
        )
    if as_json:
        screen.json({"model": unit.reference, **asdict(unit.manifest), "folder": str(unit.folder)})
    else:
        screen.result(f"{unit.reference}: {size_text(unit.nbytes)} in {unit.folder}")
        screen.note(f"Chat with it: gemmachat run {unit.reference}")


def _remedy(unit: Unit) -> str:
    again = f"then gemmachat pull {unit.reference} gets it again"
    if unit.manifest.target.repo is None:
        again = "then it can be imported again"
    return f"gemmachat rm {unit.reference} removes it, {again}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
