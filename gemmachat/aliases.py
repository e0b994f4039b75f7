"""Names that the user gave to models, kept beside the models."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from gemmachat.errors import DamagedFileError, GemmachatError, NotFoundError, UsageError
from gemmachat.file_lock import locked
from gemmachat.files import open_regular
from gemmachat.publish import publish
from gemmachat.reference import (
    ALIASES,
    HostedModel,
    LocalModel,
    NamedModel,
    is_model_name,
    parse_reference,
)

_MAX_BYTES = 1 << 16


def read_aliases(models: Path) -> dict[str, str]:
    """Return what every alias of a models folder stands for.

    Raises `DamagedFileError`, `GemmachatError` where they cannot be read.
    """
    path = models / ALIASES
    try:
        with open_regular(path) as file:
            data = file.read(_MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise GemmachatError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        value = json.loads(data) if len(data) <= _MAX_BYTES else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not all(
        is_model_name(name) and isinstance(model, str) for name, model in value.items()
    ):
        raise DamagedFileError(f"the aliases in {path} are damaged: delete the file, or correct it")
    return value


def alias_reference(model: str) -> NamedModel | HostedModel | LocalModel | None:
    """Return what an alias refers to; None if that can be no model, as in a file edited by hand."""
    try:
        return parse_reference(model)
    except UsageError:
        return None


def set_alias(models: Path, name: str, model: str) -> None:
    """Make an alias stand for a model. Raises `OSError`."""
    models.mkdir(parents=True, exist_ok=True)
    with locked(models / ALIASES, _wait):
        _write(models, {**read_aliases(models), name: model})


def remove_alias(models: Path, name: str) -> None:
    """Forget an alias. Raises `NotFoundError` if there is none of this name, `OSError`."""
    if name not in read_aliases(models):
        raise NotFoundError(f"there is no alias {name[:100]!r}: gemmachat alias lists them")
    remove_aliases(models, [name])


def remove_aliases(models: Path, names: Collection[str]) -> None:
    """Forget those aliases of these names that there are. Raises `OSError`."""
    with locked(models / ALIASES, _wait):
        _write(models, {key: to for key, to in read_aliases(models).items() if key not in names})


def _write(models: Path, aliases: dict[str, str]) -> None:
    data = json.dumps(dict(sorted(aliases.items())), indent=1).encode() + b"\n"
    if len(data) > _MAX_BYTES:
        raise UsageError(
            f"the aliases would take {len(data):,} bytes of the {_MAX_BYTES:,} that they may: "
            "remove some with gemmachat alias --remove NAME"
        )
    publish(models / ALIASES, data)


def _wait() -> None:
    """Another program changes them, which takes a moment."""
