"""Puts a pair of the user's own files on the shelf."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from gemmachat.errors import GemmachatError, UsageError
from gemmachat.file_names import is_plain_name
from gemmachat.gguf_info import GgufInfo, check_pair, read_header
from gemmachat.gguf_types import quoted
from gemmachat.manifest import Manifest, ManifestFile, Role, mark, unmark_empty
from gemmachat.model_facts import main_type
from gemmachat.reference import UNKNOWN_QUANT, is_model_name, quant_in
from gemmachat.shelf import Shelf, Unit, unit_lock
from gemmachat.shelf_check import sha256_of

_CHUNK = 1 << 20


def import_model(
    shelf: Shelf,
    target: Path,
    drafter: Path | None,
    name: str,
    progress: Callable[[int, int], None],
) -> Unit:
    """Check a target and its drafter, put them on the shelf, and return the unit.

    Files on the same disk are linked, others are copied; `progress` gets bytes done and in all.
    Raises `UsageError` where the place is taken,
    `NotFoundError` and `DamagedFileError` where the files cannot be used, `OSError`.
    """
    headers = [read_header(path) for path in (target, drafter) if path is not None]
    check_pair(headers[0], headers[1] if drafter is not None else None)
    if not is_model_name(name):
        raise UsageError(
            f"{name[:100]!r} cannot be the name of a model: use a-z, 0-9, '.', '_' and '-'"
        )
    quant = _quant_of(headers[0])
    names = tuple(f"{name}-{quant}{suffix}.gguf" for suffix in ("", "-drafter"))
    if not all(map(is_plain_name, names)):
        raise UsageError(f"{name[:100]!r} is too long for the name of a model: choose another one")
    folder = shelf.folder(name, quant)
    if shelf.find(name, quant) is not None:
        raise UsageError(
            f"{name}:{quant.lower()} is on the shelf already: choose another --name, or remove it "
            f"with gemmachat rm {name}:{quant.lower()}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    mark(folder)
    try:
        return _shelved(folder, name, quant, names, headers, progress)
    finally:
        unmark_empty(folder)


def _shelved(
    folder: Path,
    name: str,
    quant: str,
    names: tuple[str, ...],
    headers: list[GgufInfo],
    progress: Callable[[int, int], None],
) -> Unit:
    _check_room(folder, headers)
    total, done = sum(header.state.size for header in headers), 0

    def moved(nbytes: int) -> None:
        nonlocal done
        done += nbytes
        progress(done, total)

    with unit_lock(folder):
        roles: tuple[Role, ...] = ("target", "drafter")
        files = tuple(
            _take(header.path, folder, role, file, moved)
            for role, file, header in zip(roles, names, headers, strict=False)
        )
        now = datetime.now(UTC).isoformat(timespec="seconds")
        manifest = Manifest(name, quant, files, now)
        manifest.write(folder)
    return Unit(folder, manifest)


def _take(
    source: Path, folder: Path, role: Role, file: str, moved: Callable[[int], None]
) -> ManifestFile:
    """Link or copy a file into the folder under its new name, and hash it."""
    part = folder / f"{file}.part"
    part.unlink(missing_ok=True)
    try:
        try:
            os.link(source.resolve(), part)
            sha256 = sha256_of(part, moved)
        except OSError:
            sha256 = _copy(source, part, moved)
        # What lay there without a manifest was left by a pull or an import that did not end.
        part.replace(folder / file)
        part.unlink(missing_ok=True)  # a link to the file that is replaced stays where it is
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    nbytes = (folder / file).stat().st_size
    return ManifestFile(
        role, file, nbytes, sha256, made_from=f"imported from {quoted(source.absolute(), 800)}"
    )


def _copy(source: Path, part: Path, moved: Callable[[int], None]) -> str:
    digest = hashlib.sha256()
    with source.open("rb") as reader, part.open("wb") as writer:
        while data := reader.read(_CHUNK):
            digest.update(data)
            writer.write(data)
            moved(len(data))
        writer.flush()
        os.fsync(writer.fileno())
    return digest.hexdigest()


def _check_room(folder: Path, headers: list[GgufInfo]) -> None:
    """Only what lies on another disk takes room here."""
    disk = folder.stat().st_dev
    need = sum(info.state.size for info in headers if info.path.stat().st_dev != disk)
    free = shutil.disk_usage(folder).free
    if need > free:
        raise GemmachatError(
            f"there is no room in {folder}: {need:,} bytes are needed and {free:,} are free; "
            "choose another folder with GEMMACHAT_MODELS"
        )


def name_of(target: Path) -> str:
    """Return a name for a model: its file's in lower case, without the quantization."""
    stem = re.sub(r"[^a-z0-9._-]+", "-", target.stem.lower())
    quant = quant_in(target.name).lower()
    name = stem.removesuffix(quant).strip("._-")
    return name if is_model_name(name) else f"model-{name}".strip("-")[:100]


def _quant_of(header: GgufInfo) -> str:
    """The quantization that the file's name tells, else the type that most of its bytes have."""
    told = quant_in(header.path.name)
    if told != UNKNOWN_QUANT and is_plain_name(told):
        return told
    return main_type(header)
