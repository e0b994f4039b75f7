"""The model catalog, and what a MODEL on the command line means."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from gemmachat import settings
from gemmachat.aliases import alias_reference, read_aliases
from gemmachat.catalog_entry import CatalogEntry, parse_entry
from gemmachat.errors import DamagedFileError, NotFoundError, UsageError
from gemmachat.files import FileState, read_small
from gemmachat.reference import HostedModel, LocalModel, NamedModel, parse_reference
from gemmachat.shelf import Shelf, Unit

DEFAULT_MODEL = "tiny"
SUGGESTED_MODEL = "e2b"

_PACKAGE = Path(__file__).parent
_MAX_BYTES = 1 << 22


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """The files of one model, and what a chat gets when nobody says; None is the usual.

    `unit` is where it lies on the shelf; None if it does not.
    """

    name: str
    target: Path
    drafter: Path | None
    context: int | None
    temperature: float | None
    unit: Unit | None = None


def catalog_path() -> Path:
    """Where models.toml is: in the package, or beside it in a source tree."""
    installed = _PACKAGE / "models.toml"
    return installed if installed.exists() else _PACKAGE.parent / "models.toml"


def user_catalog_path() -> Path | None:
    """Where the user's own models.toml is; None if there is none."""
    try:
        path = settings.config_folder() / "models.toml"
    except NotFoundError:  # no home folder
        return None
    return path if path.exists() else None


def load_catalog(path: Path | None = None) -> dict[str, CatalogEntry]:
    """Return a valid catalog: without `path` the shipped one and the user's, who has the say.

    A file is read once for all callers, and again when it has changed. Raises `NotFoundError`, or
    `DamagedFileError` that names the entry and what is wrong with it.
    """
    if path is not None:
        return _read_catalog(path)
    catalog = _read_catalog(catalog_path())
    own = user_catalog_path()
    for name, entry in {} if own is None else _read_catalog(own).items():
        if entry.embedded is not None:
            raise DamagedFileError(f"{own}: model {name!r} is not embedded: give it 'quants'")
        if name in catalog and catalog[name].embedded is not None:
            raise DamagedFileError(f"{own}: model {name!r} is embedded: choose another name")
        catalog[name] = entry
    return catalog


def _read_catalog(path: Path) -> dict[str, CatalogEntry]:
    try:
        return dict(_parsed_catalog(path, FileState.of(path)))
    except FileNotFoundError:
        raise NotFoundError(f"the model catalog {path} is missing: reinstall gemmachat") from None


@lru_cache(maxsize=4)
def _parsed_catalog(path: Path, _state: FileState) -> dict[str, CatalogEntry]:
    try:
        tables = tomllib.loads(read_small(path, _MAX_BYTES).decode("utf-8"))
    except (ValueError, RecursionError) as error:  # of UTF-8 and of endless numbers too
        raise DamagedFileError(f"{path} is not valid TOML: {error}") from error
    return {name: parse_entry(path, name, table) for name, table in tables.items()}


def open_shelf() -> Shelf:
    """The shelf in the models folder that the settings name."""
    return Shelf(settings.models_folder())


def known_aliases() -> dict[str, str]:
    """Return what every alias stands for. Raises as `read_aliases` does."""
    try:
        return read_aliases(settings.models_folder())
    except NotFoundError:  # a user without a home
        return {}


def meaning(text: str) -> NamedModel | HostedModel | LocalModel | None:
    """Return what a MODEL refers to, aliases followed; None if it can be no name of a model."""
    return parse_reference(_without_alias(text))


def _without_alias(text: str) -> str:
    """The catalog has the say: a name that came into it later means its model, not the alias's."""
    return text if text in load_catalog() else known_aliases().get(text, text)


def looks_like_model(text: str) -> bool:
    """Whether a lone argument is a MODEL rather than a PROMPT.

    It is when it is a name of the catalog, of a pulled model or an alias, begins with hf:, ends in
    .gguf, or is a path (with a separator in it) to something that exists.
    """
    try:
        reference = meaning(text)
    except UsageError:  # hf: and something wrong, which will be said
        return True
    if isinstance(reference, NamedModel):
        return reference.name in load_catalog() or _is_on_shelf(reference.name)
    if isinstance(reference, LocalModel):
        return text.lower().endswith(".gguf") or _find(reference.path) is not None
    return reference is not None


def resolve(name: str, drafter: str | None = None) -> ResolvedModel:
    """Return the files that a MODEL stands for.

    `drafter`, a path, replaces the model's own drafter. Whether the files are sound is checked when
    they are loaded. Raises `NotFoundError` for a name that is neither known nor a file or that is
    known and not pulled, and `UsageError` for an empty one.
    """
    if name == "" or drafter == "":
        empty = "MODEL" if name == "" else "--drafter"
        raise UsageError(f"{empty} is empty: give the path of a GGUF file")
    model = _resolve(name)
    if drafter is not None:
        model = replace(model, drafter=_find(drafter) or Path(drafter))
    return model


def resolve_default(drafter: str | None = None) -> tuple[ResolvedModel, str | None]:
    """Return the model when none is named, and what the user should know about that.

    It is the configured one, else the only pulled one, else the embedded demo.
    """
    configured = settings.default_model()
    if configured is not None:
        try:
            return resolve(configured, drafter), None
        except NotFoundError as error:
            raise NotFoundError(f"the configured model cannot be used: {error}") from None
    names = sorted({unit.manifest.name for unit in _units()})
    if len(names) == 1:
        return resolve(names[0], drafter), None
    if names:
        hint = f"name one of {', '.join(names)}, or set `model` in {settings.config_path()}"
    else:
        hint = f"for a real one: gemmachat pull {SUGGESTED_MODEL}"
    return resolve(DEFAULT_MODEL, drafter), f"{DEFAULT_MODEL} is a small demo model; {hint}"


def _resolve(text: str) -> ResolvedModel:
    meant = _without_alias(text)
    reference = parse_reference(meant)
    if isinstance(reference, HostedModel):
        return _pulled(text, reference)
    if isinstance(reference, NamedModel):
        entry = load_catalog().get(reference.name)
        if entry is not None and entry.embedded is not None:
            return _embedded(entry, reference.quant)
        if entry is not None or _is_on_shelf(reference.name):
            return _pulled(text, reference)
    return _local(reference.path if isinstance(reference, LocalModel) else meant)


def _embedded(entry: CatalogEntry, quant: str | None) -> ResolvedModel:
    assert entry.embedded is not None
    if quant is not None:
        raise UsageError(f"the embedded model {entry.name} has no quantizations to choose from")
    data = _PACKAGE / "data"
    target = data / entry.embedded.target
    if not target.exists():
        raise NotFoundError(
            f"the embedded model {entry.name} is missing from this installation ({target}): "
            "reinstall gemmachat, or give the path of a GGUF file"
        )
    drafter = data / entry.embedded.drafter
    return ResolvedModel(entry.name, target, drafter, entry.context, entry.temperature)


def _pulled(text: str, reference: NamedModel | HostedModel) -> ResolvedModel:
    unit = open_shelf().find(reference.name, reference.quant)
    file = reference.file if isinstance(reference, HostedModel) else None
    if unit is None or (file is not None and unit.manifest.target.path != file):
        if isinstance(reference, NamedModel) and not in_catalog(reference):
            raise unknown_model(_without_alias(text))
        raise NotFoundError(f"{text} is known and not here yet: gemmachat pull {text}")
    entry = load_catalog().get(reference.name)
    missing = [path for path in (unit.target, unit.drafter) if path and not path.exists()]
    if missing:
        again = f"gemmachat pull {text} gets it again, " if unit.manifest.target.repo else ""
        raise DamagedFileError(
            f"{missing[0]} is gone: {again}gemmachat rm {unit.reference} removes the rest"
        )
    temperature = None if entry is None else entry.temperature
    return ResolvedModel(unit.reference, unit.target, unit.drafter, None, temperature, unit)


def _local(name: str) -> ResolvedModel:
    found = _find(name)
    if found is None:
        if name.lower().endswith(".gguf"):
            raise NotFoundError(f"there is no file {name}")
        raise unknown_model(name)
    if found.is_dir():
        raise UsageError(f"{name} is a folder: give the path of a GGUF file in it")
    return ResolvedModel(found.stem, found, None, context=None, temperature=None)


def unknown_model(name: str) -> NotFoundError:
    """The error that says which names there are."""
    known = known_names()
    like = difflib.get_close_matches(name, known, 1)
    meant = f"did you mean {like[0]}? G" if like else "g"
    return NotFoundError(
        f"there is no model {name!r}: {meant}ive the path of a GGUF file or one of these names: "
        f"{', '.join(known)}"
    )


def known_names() -> list[str]:
    """Return every name of a model: catalog, shelf, aliases that lead somewhere."""
    units = _units()
    here = {name for unit in units for name in (unit.manifest.name, unit.reference)}
    aliases = [alias for alias, model in known_aliases().items() if _leads_somewhere(model, here)]
    return list(dict.fromkeys([*load_catalog(), *(unit.reference for unit in units), *aliases]))


def _leads_somewhere(model: str, here: set[str]) -> bool:
    """Whether what an alias stands for is here or can be pulled."""
    reference = alias_reference(model)
    if isinstance(reference, NamedModel):
        return str(reference) in here or in_catalog(reference)
    if isinstance(reference, LocalModel):
        return _find(reference.path) is not None
    return reference is not None


def in_catalog(reference: NamedModel) -> bool:
    """Whether the catalog has a model of this name, in this quantization if one is named."""
    entry = load_catalog().get(reference.name)
    return entry is not None and reference.quant in (None, *entry.quants)


def _units() -> list[Unit]:
    try:
        return open_shelf().units()[0]
    except NotFoundError:  # a user without a home
        return []


def _is_on_shelf(name: str) -> bool:
    """Whether there is a folder for models of this name, sound or not."""
    try:
        return bool(open_shelf().folders_of(name))
    except NotFoundError:
        return False


def _find(text: str) -> Path | None:
    """Return what exists under this path."""
    try:
        path = Path(text).expanduser()
        return path if path.exists() else None
    except (OSError, ValueError, RuntimeError):  # too long, with a NUL, of an unknown ~user
        return None
