"""`gemmachat pull`: a model of a hub, target and drafter, onto the shelf."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from gemmachat.catalog import load_catalog, meaning, open_shelf, unknown_model
from gemmachat.completion import complete_known
from gemmachat.errors import FAILURES, DamagedFileError, UsageError, outcome
from gemmachat.hub_settings import check_hub_settings
from gemmachat.pull_view import PullView
from gemmachat.reference import HostedModel, LocalModel, NamedModel
from gemmachat.shelf import Unit
from gemmachat.table import size_text

if TYPE_CHECKING:
    from gemmachat.catalog_entry import CatalogEntry
    from gemmachat.hub import Hub
    from gemmachat.pull_choice import Choice
    from gemmachat.pull_events import Progress, PullEvent
    from gemmachat.render import Screen
    from gemmachat.shelf import Shelf
    from gemmachat.source import ModelSource


def pull(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            autocompletion=complete_known,
            help="NAME[:QUANT], or hf:OWNER/REPO[:FILE].",
            show_default=False,
        ),
    ],
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing but what goes wrong.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print what happens, errors too, one JSON object a line."),
    ] = False,
) -> None:
    """Download a model and its drafter.

    Both are checked against what the hub tells of them, and whether they belong together.

    Without QUANT the one that suits this machine's memory is taken, or of a model that is here the
    one that is here is compared with the hub's. What was interrupted goes on where it ended.
    HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE and HF_HOME work as in Hugging Face's own programs.
    """
    screen: Screen = context.obj
    try:
        _pull(screen, model, quiet=quiet, as_json=as_json)
    except FAILURES as error:
        if as_json:
            _tell_failure(screen, *outcome(error))
        raise


def _tell_event(screen: Screen, event: PullEvent) -> None:
    try:
        screen.json(event.as_json())
    except BrokenPipeError:  # nobody reads it any more, which is no reason to stop
        screen.abandon_output()


def _tell_failure(screen: Screen, code: int, sentence: str) -> None:
    try:
        screen.json({"kind": "error", "text": sentence, "exit_code": code})
    except OSError:  # nobody reads it, which is not what went wrong
        screen.abandon_output()


def _pull(screen: Screen, model: str, *, quiet: bool, as_json: bool) -> None:
    reference = meaning(model)
    if reference is None or isinstance(reference, LocalModel):
        raise _not_on_a_hub(model, reference)
    # Before the hub's library is loaded, which takes a moment: most errors are found here.
    shelf = open_shelf()
    here = _here(shelf, reference)
    if isinstance(reference, NamedModel):
        reference = _place_of(reference, here)
    entry = _entry(reference) if isinstance(reference, NamedModel) else None

    check_hub_settings()
    from gemmachat.hub import Hub
    from gemmachat.pull import pull as fetch
    from gemmachat.pull_events import silent

    view: Progress = (
        partial(_tell_event, screen) if as_json else silent if quiet else PullView(screen)
    )
    hub = Hub()
    choice = _choice(reference, entry, here, hub, view)
    if choice.reason is not None and not (quiet or as_json):
        screen.note(choice.reason)
    source = choice.source
    before = _here(shelf, NamedModel(source.name, source.quant))
    if isinstance(reference, HostedModel):
        _check_place(source, before)
    try:
        manifest = fetch(source, shelf.folder(source.name, source.quant), hub, view)
    except KeyboardInterrupt:
        screen.progress("")
        if not quiet:
            screen.note("stopped; the same command goes on from here")
        raise
    finally:
        screen.progress("")
    unit = Unit(shelf.folder(source.name, source.quant), manifest)
    if as_json:
        screen.json(
            {"kind": "pulled", "model": unit.reference, "folder": str(unit.folder)}
            | {"reason": choice.reason}
            | asdict(manifest)
        )
    elif not quiet:
        screen.result(_summary(unit, unchanged=before == unit, offline=hub.offline))
        screen.note(f"Chat with it: gemmachat run {unit.reference}")


def _not_on_a_hub(text: str, reference: LocalModel | None) -> Exception:
    if reference is None:
        return unknown_model(text)
    return UsageError(
        f"{text[:100]} is a path: gemmachat import puts files of your own on the shelf"
    )


def _entry(reference: NamedModel) -> CatalogEntry:
    """The catalog's entry, which has the quantization that was asked for."""
    entry = load_catalog().get(reference.name)
    if entry is None:
        raise unknown_model(reference.name)
    if entry.embedded is not None:
        raise UsageError(f"{entry.name} ships inside gemmachat: there is nothing to pull")
    if reference.quant is not None and reference.quant not in entry.quants:
        there = ", ".join(f"{entry.name}:{quant.lower()}" for quant in entry.quants)
        raise UsageError(f"the catalog has no {reference.quant} of {entry.name}: take {there}")
    return entry


def _here(shelf: Shelf, reference: NamedModel | HostedModel) -> Unit | None:
    """The unit that is here; one with a damaged manifest is pulled anew."""
    try:
        return shelf.find(reference.name, reference.quant)
    except DamagedFileError:
        return None


def _place_of(reference: NamedModel, here: Unit | None) -> NamedModel | HostedModel:
    """A name that only the shelf knows stands for the place that the model was pulled from."""
    if here is None or reference.name in load_catalog():
        return reference
    origin = here.manifest.target
    if origin.repo is None or origin.path is None:
        raise UsageError(f"{here.reference} was imported: there is nothing to pull")
    place = HostedModel(origin.repo, origin.path, here.manifest.quant)
    return place if place.name == reference.name else reference


def _choice(
    reference: NamedModel | HostedModel,
    entry: CatalogEntry | None,
    here: Unit | None,
    hub: Hub,
    view: Progress,
) -> Choice:
    from gemmachat.memory import available_memory
    from gemmachat.pull_choice import Choice, choose_again, choose_of_catalog, choose_of_repository

    if isinstance(reference, HostedModel):
        path = here.manifest.target.path if here else None
        if here and path is not None and reference.file in (None, path):
            if hub.offline:
                return choose_again(here.manifest)
            reference = replace(reference, file=path)
        return choose_of_repository(reference, hub, available_memory(), view)
    assert entry is not None
    quant = reference.quant or (here.manifest.quant if here else None)
    if quant is not None and quant in entry.quants:
        return Choice(entry.source(quant), None)
    return choose_of_catalog(entry, hub, available_memory(), view)


def _check_place(source: ModelSource, here: Unit | None) -> None:
    """Two files of a repository with one quantization would have one place."""
    if here is not None and here.manifest.target.path != source.target.path:
        raise UsageError(
            f"{here.reference} holds {here.manifest.target.path} of that repository: remove it "
            f"first, with gemmachat rm {here.reference}"
        )


def _summary(unit: Unit, *, unchanged: bool, offline: bool) -> str:
    drafter = "with its drafter" if unit.drafter else "without a drafter"
    if not unchanged:
        return f"{unit.reference}: {size_text(unit.nbytes)}, {drafter}"
    state = "is here; offline it was compared with no hub" if offline else "is as the hub has it"
    return f"{unit.reference} {state}"
