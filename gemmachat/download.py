"""Fetches one file: from the cache or over the network, resumed, verified, published whole."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from gemmachat.errors import DamagedFileError, DownloadError
from gemmachat.file_lock import locked
from gemmachat.hub import Hub, HubFile
from gemmachat.hub_http import Answer, Patience, TransientError, pause
from gemmachat.partial import Partial, bytes_here, part_paths, read_digest
from gemmachat.pull_events import Kind, Progress, PullEvent, silent

_SECONDS_BETWEEN_EVENTS = 0.2
_CHUNK = 1 << 20


def download(file: HubFile, place: Path, hub: Hub, progress: Progress = silent) -> str:
    """Put a file of a hub in its place, and return its SHA-256.

    What lies there already, in the Hugging Face cache or in a partial download is used where its
    hash is right. The partial stays for a later call whatever ends this one, but when its bytes are
    wrong. Raises DownloadError; DamagedFileError when the hub sends other bytes than it told.
    """
    name = place.name
    with locked(place, lambda: _tell_wait(file, place, progress)):
        sha256 = _hash_in_place(file, place, progress) or _fetched(file, place, hub, progress)
    progress(PullEvent("ready", name, file.size, file.size))
    return sha256


def missing_bytes(file: HubFile, place: Path, hub: Hub) -> int:
    """How many bytes the disk must still take for a file."""
    if place.is_file() and place.stat().st_size == file.size:
        return 0
    cached = hub.cached(file)
    if cached and _same_disk(cached, place.parent):
        return 0
    return file.size - bytes_here(place, file)


def _hash_in_place(file: HubFile, place: Path, progress: Progress) -> str | None:
    if not place.is_file() or (file.sha256 or file.git_blob) is None:
        return None
    digest = read_digest(place, file, _Meter("check", place.name, file.size, progress).tell)
    if digest is None or not digest.is_right:
        return None
    for path in part_paths(place):
        path.unlink(missing_ok=True)
    return digest.sha256


def _fetched(file: HubFile, place: Path, hub: Hub, progress: Progress) -> str:
    cached = _sound_cached(file, place.name, hub, progress)
    if cached and _linked(cached[0], place):
        progress(PullEvent("cached", place.name, file.size, file.size))
        return cached[1]
    with Partial(place, file) as part:
        if cached:
            _copy(cached[0], part)
            progress(PullEvent("cached", place.name, part.size, file.size))
        else:
            part.read(_Meter("check", place.name, file.size, progress).tell)
        resumed = part.size > 0
        _fetch(file, part, place.name, hub, progress)
        if not part.digest.is_right and resumed:
            # What an earlier process left can be wrong, after a loss of power for one.
            part.clear()
            _fetch(file, part, place.name, hub, progress)
        if not part.digest.is_right:
            part.remove()
            raise DamagedFileError(
                f"{file}: the hub sent other bytes than it told (SHA-256 {part.digest.sha256}, "
                f"not {file.sha256 or file.etag}): nothing is kept; pull again"
            )
        part.publish()
        return part.digest.sha256


def _sound_cached(
    file: HubFile, name: str, hub: Hub, progress: Progress
) -> tuple[Path, str] | None:
    """The file in the Hugging Face cache and its SHA-256; None where it is not there or wrong."""
    cached = hub.cached(file)
    if cached is None:
        return None
    try:
        digest = read_digest(cached, file, _Meter("check", name, file.size, progress).tell)
    except OSError:
        return None
    return (cached, digest.sha256) if digest and digest.is_right else None


def _linked(cached: Path, place: Path) -> bool:
    """Whether a file of the Hugging Face cache could be given a second name."""
    part, note = part_paths(place)
    try:
        part.unlink(missing_ok=True)
        part.hardlink_to(cached)
        part.replace(place)
        note.unlink(missing_ok=True)
    except OSError:  # another disk, or links are unknown here, or not allowed
        return False
    return True


def _copy(cached: Path, part: Partial) -> None:
    """Take all from the Hugging Face cache. What cannot be read is fetched."""
    part.clear()
    with suppress(OSError), cached.open("rb") as source:
        while data := source.read(_CHUNK):
            part.append(data)


def _fetch(file: HubFile, part: Partial, name: str, hub: Hub, progress: Progress) -> None:
    """Fetch what is missing, over as many connections as it takes."""
    failures = 0
    while part.size < file.size:
        before = part.size
        try:
            with hub.open(file, part.size) as answer:
                _check_answer(file, part, answer)
                _read_body(file, part, answer, name, hub.patience, progress)
        except TransientError as error:
            failures = 1 if part.size > before and not error.no_progress else failures + 1
            pause(name, hub.patience.wait(failures, error), error, progress)


def _check_answer(file: HubFile, part: Partial, answer: Answer) -> None:
    """Make sure that what follows are the missing bytes of this very file."""
    headers = answer.response.headers
    if file.etag is not None and answer.linked_etag not in (None, file.etag):
        raise DamagedFileError(f"{file} changed on the hub while it was fetched: pull again")
    if headers.get("Content-Encoding", "identity") != "identity":
        raise DownloadError(f"{file}: the hub sends it compressed though it was asked not to")
    if answer.response.status_code == 200:
        if part.size:
            part.clear()  # it cannot resume
        length = headers.get("Content-Length", str(file.size))
        right = length == str(file.size)
    else:
        length = headers.get("Content-Range", "without a range")
        right = length == f"bytes {part.size}-{file.size - 1}/{file.size}"
    if not right:
        raise DamagedFileError(
            f"{file}: the hub sends another length than the {file.size} bytes that it told "
            f"({length}): pull again"
        )


def _read_body(
    file: HubFile,
    part: Partial,
    answer: Answer,
    name: str,
    patience: Patience,
    progress: Progress,
) -> None:
    meter = _Meter("fetch", name, file.size, progress, start=part.size)
    meter.tell(part.size)
    window_end, window_size = time.monotonic() + patience.slow_window_s, part.size
    for data in answer.response.iter_raw():
        if part.size + len(data) > file.size:
            part.clear()
            raise DamagedFileError(
                f"{file}: the hub sends more than the {file.size} bytes that it told: pull again"
            )
        part.append(data)
        meter.tell(part.size)
        if time.monotonic() >= window_end:
            if part.size - window_size < patience.slow_bytes and part.size < file.size:
                raise TransientError(
                    f"{file}: only {part.size - window_size} bytes came in "
                    f"{patience.slow_window_s:.0f} s",
                    no_progress=True,
                )
            window_end, window_size = time.monotonic() + patience.slow_window_s, part.size
    if part.size < file.size:
        raise TransientError(f"{file}: the connection ended early")


class _Meter:
    """Turns byte counts into events, a few per second, with a rate over the last seconds."""

    def __init__(
        self, kind: Kind, name: str, total: int, progress: Progress, start: int = 0
    ) -> None:
        self._kind, self._name, self._total, self._progress = kind, name, total, progress
        self._told = float("-inf")
        self._marks = [(time.monotonic(), start)]

    def tell(self, done: int) -> None:
        now = time.monotonic()
        if now - self._told < _SECONDS_BETWEEN_EVENTS and done < self._total:
            return
        self._told = now
        since, before = self._marks[0]
        rate = (done - before) / (now - since) if now > since else 0.0
        left = (self._total - done) / rate if rate > 0 else None
        self._marks = [*self._marks[-25:], (now, done)]  # about five seconds
        self._progress(PullEvent(self._kind, self._name, done, self._total, rate, left))


def _tell_wait(file: HubFile, place: Path, progress: Progress) -> None:
    progress(PullEvent("wait", place.name, bytes_here(place, file), file.size))


def _same_disk(path: Path, folder: Path) -> bool:
    """Whether a file is on the disk of a folder, which need not be there yet."""
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return path.stat().st_dev == existing.stat().st_dev
