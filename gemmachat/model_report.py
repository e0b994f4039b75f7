"""What `gemmachat show` says of a model: as JSON has it, and as lines for a reader."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from gemmachat import memory, model_facts
from gemmachat.catalog import ResolvedModel
from gemmachat.catalog_entry import CatalogEntry
from gemmachat.engine import DEFAULT_CONTEXT
from gemmachat.gguf_info import GgufInfo, ModelShape, check_pair, read_header
from gemmachat.gguf_model import read_shape
from gemmachat.manifest import ManifestFile
from gemmachat.sanitize import safe_line
from gemmachat.source import HubCheckpoint, HubPath
from gemmachat.table import context_text, size_text

_NARROWEST = 20  # characters in which text is still wrapped
_CONTEXTS = (DEFAULT_CONTEXT, 32768, 131072, 262144)


def describe(model: ResolvedModel, entry: CatalogEntry | None) -> dict[str, Any]:
    """Return the facts of a model whose files are here.

    Raises `GemmachatError` where the files cannot be used.
    """
    target = read_header(model.target)
    drafter = None if model.drafter is None else read_header(model.drafter)
    check_pair(target, drafter)
    shape = read_shape(target)
    unit = model.unit
    used = None if unit is None else unit.last_used()
    origins = {} if unit is None else {file.file: file for file in unit.manifest.files}
    return {
        "model": model.name,
        "here": True,
        "description": None if entry is None else entry.description,
        "page": None if entry is None else entry.page,
        "licence": model_facts.licence(target) or (None if entry is None else entry.licence),
        "pulled_at": None if unit is None else unit.manifest.pulled_at,
        "last_used": None if used is None else used.isoformat(timespec="seconds"),
        "architecture": target.architecture,
        "layers": shape.layers,
        "width": shape.hidden,
        "vocabulary": shape.vocab,
        "experts": shape.experts,
        "context": shape.context,
        "sliding_window": shape.window,
        "chat_template": model_facts.template_kind(target),
        "files": [_file(info, origins) for info in (target, drafter) if info is not None],
        "prefill": _prefill(shape),
        "drafts": model_facts.draft_head(drafter),
        "memory": _memory(target, drafter, shape),
    }


def description_lines(facts: dict[str, Any], width: int | None) -> list[str]:
    """Return the facts of `describe` or `describe_entry` for a reader, wrapped at `width`."""
    told = _pairs(facts) if facts["here"] else _entry_pairs(facts)
    pairs = [(label, safe_line(text)) for label, text in told]
    margin = max(len(label) for label, _ in pairs) + 4
    lines = [": ".join(safe_line(facts[key]) for key in ("model", "description") if facts[key])]
    for label, text in pairs:
        room = None if width is None else max(width - margin, _NARROWEST)
        parts = [text] if room is None else textwrap.wrap(text, room, break_on_hyphens=False)
        for number, part in enumerate(parts):
            lines.append(f"{'' if number else f'  {label}':{margin}}{part}")
    return lines


def describe_entry(entry: CatalogEntry, model: str) -> dict[str, Any]:
    """Return what the catalog knows of a model that is not here."""
    return {
        "model": model,
        "here": False,
        "description": entry.description,
        "page": entry.page,
        "licence": entry.licence,
        "context": entry.context,
        "quants": [
            {"quant": quant, **_place(file.path), "bytes": file.nbytes}
            for quant, file in entry.quants.items()
        ],
        "drafters": [_place(drafter) for drafter in entry.drafters],
        "mmproj": None if entry.mmproj is None else _place(entry.mmproj),
        "memory_beside_weights": entry.memory,
    }


def _pairs(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "licence", facts["licence"] or f"not in the file; see {facts['page'] or 'its source'}"
    experts = f", {facts['experts']} experts" if facts["experts"] else ""
    yield (
        "model",
        f"{facts['architecture']}, {facts['layers']} layers of width {facts['width']:,}{experts}",
    )
    yield "vocabulary", f"{facts['vocabulary']:,} tokens"
    window = facts["sliding_window"]
    yield "context", f"{facts['context']:,} tokens, sliding window of {window:,}"
    yield "chat template", facts["chat_template"]
    for file in facts["files"]:
        yield from _file_pairs(file)
    yield "prefill", facts["prefill"]
    yield "drafts", facts["drafts"]
    needed = facts["memory"]
    yield "memory", f"{size_text(needed['available'])} can be had here"
    for row in needed["contexts"]:
        fits = "fits" if row["fits"] else "does not fit"
        yield (
            "",
            f"{size_text(row['bytes'])} for a context of {context_text(row['tokens'])}: {fits}",
        )
    yield "", f"up to {needed['largest_context']:,} tokens of context fit"


def _file_pairs(file: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield file["role"], file["path"]
    kinds = ", ".join(f"{kind['tensors']} {kind['type']}" for kind in file["types"])
    yield "", f"{size_text(file['bytes'])}, tensors: {kinds}"
    if file["repo"]:
        commit = file["commit"] and f"commit {file['commit'][:12]}"
        yield "", "from " + ", ".join(filter(None, (file["repo"], file["source"], commit)))
    if file["made_from"]:
        yield "", file["made_from"]


def _entry_pairs(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "licence", facts["licence"] or f"see {facts['page'] or 'the repository'}"
    yield "context", f"{facts['context']:,} tokens"
    for row in facts["quants"]:
        size = "" if row["bytes"] is None else f", about {size_text(row['bytes'])}"
        yield row["quant"], f"{_place_text(row)}{size}"
    for label, row in zip(("drafter", *("or",) * 9), facts["drafters"], strict=False):
        yield label, _place_text(row)
    if facts["memory_beside_weights"]:
        yield "memory", f"the file and about {size_text(facts['memory_beside_weights'])}"
    yield "", f"not here yet: gemmachat pull {facts['model']}"


def _file(info: GgufInfo, origins: dict[str, ManifestFile]) -> dict[str, Any]:
    origin = origins.get(info.path.name)
    return {
        "role": "drafter" if "assistant" in info.architecture else "target",
        "path": str(info.path),
        "bytes": info.state.size,
        "sha256": None if origin is None else origin.sha256,
        "repo": None if origin is None else origin.repo,
        "source": None if origin is None else origin.path,
        "commit": None if origin is None else origin.commit,
        "made_from": None if origin is None else origin.made_from,
        "types": [
            {"type": name, "tensors": use.tensors, "bytes": use.nbytes}
            for name, use in model_facts.types_used(info).items()
        ],
    }


def _prefill(shape: ModelShape) -> str:
    if not shape.shared_kv_layers:
        return "complete: every layer owns keys and values"
    return f"ends early: layers {shape.first_shared} to {shape.layers - 1} own no keys and values"


def _memory(target: GgufInfo, drafter: GgufInfo | None, shape: ModelShape) -> dict[str, Any]:
    available = memory.available_memory()
    contexts = sorted({min(tokens, shape.context) for tokens in _CONTEXTS})
    totals = {tokens: memory.estimate(target, drafter, tokens).total for tokens in contexts}
    return {
        "available": available,
        "contexts": [
            {"tokens": tokens, "bytes": total, "fits": total <= available}
            for tokens, total in totals.items()
        ],
        "largest_context": memory.largest_context(target, drafter, available),
    }


def _place(place: HubPath | HubCheckpoint) -> dict[str, Any]:
    file = place.path if isinstance(place, HubPath) else None
    return {"repo": place.repo, "file": file, "revision": place.revision}


def _place_text(row: dict[str, Any]) -> str:
    if row["file"] is None:
        return f"{row['repo']}, a checkpoint that is converted here"
    return f"{row['repo']}, {row['file']}"
