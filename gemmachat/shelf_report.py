"""The list of models: for a reader a table, for a program JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from gemmachat.catalog import ResolvedModel
from gemmachat.errors import GemmachatError
from gemmachat.gguf_info import read_header, validate_target
from gemmachat.model_facts import main_type
from gemmachat.shelf import Unit
from gemmachat.table import Column, age_text, context_text, size_text, table_lines


@dataclass(frozen=True, slots=True)
class ListedModel:
    """One line of the list. `drafter` is its quantization, `context` tokens; None: unknown."""

    model: str
    name: str
    quant: str
    nbytes: int
    drafter: str | None
    context: int | None
    aliases: tuple[str, ...]
    unit: Unit | None  # None: embedded
    problem: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The line for a program."""
        unit = self.unit
        used = None if unit is None else unit.last_used()
        files = () if unit is None else unit.manifest.files
        return {
            "model": self.model,
            "name": self.name,
            "quant": self.quant,
            "bytes": self.nbytes,
            "drafter": self.drafter,
            "context": self.context,
            "last_used": None if used is None else used.isoformat(timespec="seconds"),
            "pulled_at": None if unit is None else unit.manifest.pulled_at,
            "aliases": list(self.aliases),
            "embedded": unit is None,
            "files": [str(unit.folder / file.file) for file in files] if unit else [],
            "problem": self.problem,
        }


def listed_unit(unit: Unit, aliases: dict[str, str]) -> ListedModel:
    """Return the line of a pulled model."""
    name, quant = unit.manifest.name, unit.manifest.quant
    meant = tuple(alias for alias, model in aliases.items() if model in (name, unit.reference))
    drafter, context, problem = _facts(unit.target, unit.drafter)
    return ListedModel(
        unit.reference, name, quant, unit.nbytes, drafter, context, meant, unit, problem
    )


def listed_embedded(model: ResolvedModel) -> ListedModel:
    """Return the line of an embedded model."""
    paths = [path for path in (model.target, model.drafter) if path is not None]
    drafter, _, problem = _facts(model.target, model.drafter)
    return ListedModel(
        model.name,
        model.name,
        main_type(read_header(model.target)),
        sum(path.stat().st_size for path in paths),
        drafter,
        model.context,
        aliases=(),
        unit=None,
        problem=problem,
    )


def list_lines(models: Sequence[ListedModel], now: datetime, width: int | None) -> list[str]:
    """Return the table, the least important columns left out where it is too wide."""
    return table_lines(
        [
            Column("NAME", [model.model for model in models]),
            Column("QUANT", [model.quant for model in models], rank=4),
            Column("SIZE", [size_text(model.nbytes) for model in models], right=True),
            Column("DRAFTER", [model.drafter or "none" for model in models], rank=2),
            Column("CONTEXT", [_context(model) for model in models], rank=3, right=True),
            Column("LAST USED", [_used(model, now) for model in models], rank=1),
        ],
        width,
    )


def _facts(target: Path, drafter: Path | None) -> tuple[str | None, int | None, str | None]:
    """Quantization of the drafter, context of the target, and what is wrong with the files."""
    try:
        context = validate_target(read_header(target)).context
        return None if drafter is None else main_type(read_header(drafter)), context, None
    except GemmachatError as error:
        return None, None, str(error)


def _context(model: ListedModel) -> str:
    return "?" if model.context is None else context_text(model.context)


def _used(model: ListedModel, now: datetime) -> str:
    if model.unit is None:
        return "embedded"
    return "DAMAGED" if model.problem else age_text(model.unit.last_used(), now)
