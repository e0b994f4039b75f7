"""Pulls a model: target and drafter, fetched, checked and described as one unit.

Importing this module loads huggingface-hub.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from gemmachat import clusters
from gemmachat.bridge import CancelledError, Stop
from gemmachat.download import download, missing_bytes
from gemmachat.errors import DamagedFileError, DownloadError, GemmachatError, NotFoundError
from gemmachat.file_lock import locked
from gemmachat.gguf_info import GgufInfo, check_pair, read_header
from gemmachat.hub import Hub, HubFile
from gemmachat.hub_http import RefusedError
from gemmachat.interrupt import on_interrupt
from gemmachat.manifest import CHECKPOINTS, MANIFEST, Manifest, ManifestFile, mark, unmark_empty
from gemmachat.partial import storage_error
from gemmachat.pull_drafter import (
    Drafter,
    check_is_gguf,
    fetch_drafter,
    find_drafter,
    is_same,
)
from gemmachat.pull_events import Progress, PullEvent, silent
from gemmachat.shelf_check import sha256_of
from gemmachat.source import ModelSource


def pull(source: ModelSource, folder: Path, hub: Hub, progress: Progress = silent) -> Manifest:
    """Put a model into its folder, and return its manifest.

    `folder` is the model's own: one name, one quantization. What is there and still the hub's is
    kept; a file that the hub has changed is reported, and comes under another name: until the new
    pair is complete the manifest describes the old one, which stays usable. The first drafter that
    can be had is taken; where there is none, the model is pulled without. Two pulls of one model
    take turns.

    Raises NotFoundError where the target is not on the hub, or, offline, not on this machine;
    DamagedFileError where files are not what the hub told, or not a pair that can be run;
    DownloadError where they cannot be fetched or stored. Partial downloads are then kept.
    """
    try:
        return _pull_locked(source, folder, hub, progress)
    finally:
        unmark_empty(folder)


def _pull_locked(source: ModelSource, folder: Path, hub: Hub, progress: Progress) -> Manifest:
    with locked(folder / MANIFEST, lambda: progress(PullEvent("wait", MANIFEST)), make_folder=True):
        try:
            mark(folder)
        except OSError as error:
            raise storage_error(folder, error) from error
        manifest = _Pull(source, folder, hub, progress).run()
        shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
        return manifest


class _Pull:
    """One pull, under its lock."""

    def __init__(self, source: ModelSource, folder: Path, hub: Hub, progress: Progress) -> None:
        self._source, self._folder = source, folder
        self._hub, self._progress = hub, progress
        self._candidates = list(source.drafters)
        self._known = self._read_known()

    def run(self) -> Manifest:
        known = self._known
        whole = known is not None and all(map(self._is_here, known.files))
        if known and whole and self._hub.offline:
            return known
        target = self._hub.resolve(self._source.target, self._progress)
        check_is_gguf(target)
        name = self._target_name(target)
        drafter = self._next_drafter(name)
        if (
            known
            and whole
            and is_same(known.target, target)
            and (not drafter or drafter.is_in(known.drafter))
        ):
            return known
        self._report_change(target)
        self._check_disk(target, name, drafter)
        files, header = self._fetch_target(target, name)
        while drafter:
            try:
                files = (*files, self._fetch_drafter(drafter, header))
                break
            except GemmachatError as error:
                self._pass_over(drafter.parts[0].repo, error)
                drafter = self._next_drafter(name)
        return self._finish(files)

    def _read_known(self) -> Manifest | None:
        """What was pulled before; a manifest of another model, copied here, does not count."""
        try:
            known = Manifest.read(self._folder)
        except DamagedFileError as error:
            self._note(str(error))
            return None
        wanted = (self._source.name, self._source.quant)
        return known if known and (known.name, known.quant) == wanted else None

    def _is_here(self, file: ManifestFile) -> bool:
        place = self._folder / file.file
        return place.is_file() and place.stat().st_size == file.bytes

    def _target_name(self, target: HubFile) -> str:
        if self._known and is_same(self._known.target, target):
            return self._known.target.file
        return self._free_name(target.name, target)

    def _drafter_name(self, drafter: Drafter, target: str) -> str:
        entry = self._known.drafter if self._known else None
        if entry and drafter.is_in(entry):
            return entry.file
        same = drafter.file.lower() == target.lower()
        return self._free_name(
            f"drafter-{drafter.file}" if same else drafter.file, drafter.parts[0]
        )

    def _free_name(self, name: str, file: HubFile) -> str:
        """A name under which the manifest has no file: what it describes must stay as it is."""
        taken = {known.file.lower() for known in self._known.files} if self._known else set()
        if name.lower() not in taken:
            return name
        return f"{name.removesuffix('.gguf')[:150]}-{(file.sha256 or file.commit)[:8]}.gguf"

    def _next_drafter(self, target: str) -> Drafter | None:
        """The best drafter that is on the hub and was not tried yet."""
        while self._candidates:
            place = self._candidates.pop(0)
            try:
                found = find_drafter(place, self._hub, self._progress)
            except GemmachatError as error:
                self._pass_over(place.repo, error)
                continue
            return replace(found, file=self._drafter_name(found, target))
        return None

    def _pass_over(self, repo: str, error: GemmachatError) -> None:
        """Go on without this one; raise where it is the last and may come another time."""
        refused = isinstance(error, (NotFoundError, DamagedFileError, RefusedError))
        if not self._candidates and (not refused or self._hub.offline):
            raise error
        rest = "trying the next" if self._candidates else "the model is pulled without a drafter"
        self._note(f"the drafter in {repo} is passed over, {rest}: {error}")

    def _report_change(self, target: HubFile) -> None:
        known = self._known
        if known and target.path == known.target.path and not is_same(known.target, target):
            self._note(
                f"{target} has changed on the hub since {known.pulled_at}: its SHA-256 was "
                f"{known.target.sha256} and is {target.sha256 or 'not told'}: it is pulled anew"
            )

    def _check_disk(self, target: HubFile, name: str, drafter: Drafter | None) -> None:
        need = missing_bytes(target, self._folder / name, self._hub)
        if drafter and not self._kept(drafter):
            need += drafter.missing_bytes(self._folder, self._hub)
        free = shutil.disk_usage(self._folder).free
        sizes = f"{need:,} bytes are to be stored and {free:,} are free in {self._folder}"
        if need > free:
            raise DownloadError(
                f"{self._source.name} does not fit on the disk: {sizes}; free {need - free:,} "
                "bytes, or choose another folder with GEMMACHAT_MODELS"
            )
        parts = (target, *(drafter.parts if drafter else ()))
        total = sum(part.size for part in parts)
        self._progress(
            PullEvent("plan", self._source.name, max(total - need, 0), total, text=sizes)
        )

    def _fetch_target(
        self, target: HubFile, name: str
    ) -> tuple[tuple[ManifestFile, ...], GgufInfo]:
        place = self._folder / name
        sha256 = download(target, place, self._hub, self._progress)
        header = self._checked(place, None)
        entry = ManifestFile(
            "target", name, target.size, sha256, target.repo, target.path, target.commit
        )
        return (entry,), header

    def _fetch_drafter(self, drafter: Drafter, target: GgufInfo) -> ManifestFile:
        entry = self._kept(drafter)
        place = self._folder / drafter.file
        if entry is None or sha256_of(place, lambda _: None) != entry.sha256:
            entry = fetch_drafter(drafter, self._folder, self._hub, self._progress)
        self._provide_clusters(self._checked(place, target))
        return entry

    def _kept(self, drafter: Drafter) -> ManifestFile | None:
        """The entry of a drafter that was pulled before and is here."""
        entry = self._known.drafter if self._known else None
        return entry if entry and drafter.is_in(entry) and self._is_here(entry) else None

    def _checked(self, place: Path, target: GgufInfo | None) -> GgufInfo:
        """The header of a target, or of its drafter; a file that cannot be run is removed."""
        try:
            header = read_header(place)
            check_pair(target or header, header if target else None)
        except DamagedFileError:
            place.unlink()
            raise
        return header

    def _provide_clusters(self, drafter: GgufInfo) -> None:
        """Compute what makes drafts faster now, not in the first chat."""
        if not clusters.lacks_clusters(drafter) or clusters.find(drafter):
            return
        self._progress(PullEvent("clusters", drafter.path.name))
        stop = Stop()
        try:
            with on_interrupt(stop.set):
                clusters.provide(drafter, stop)
        except CancelledError:
            raise KeyboardInterrupt from None
        except GemmachatError as error:  # a chat computes them too, and drafts without them
            self._note(f"no clusters were computed: {error}")

    def _finish(self, files: tuple[ManifestFile, ...]) -> Manifest:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        manifest = Manifest(self._source.name, self._source.quant, files, now)
        try:
            manifest.write(self._folder)
        except OSError as error:
            raise storage_error(self._folder / MANIFEST, error) from error
        names = {file.file for file in files}
        for old in self._known.files if self._known else ():
            if old.file not in names:
                (self._folder / old.file).unlink(missing_ok=True)
                (self._folder / f"{old.file}.clusters").unlink(missing_ok=True)
        return manifest

    def _note(self, text: str) -> None:
        self._progress(PullEvent("note", text=text))
