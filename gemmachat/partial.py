"""A file that is on its way: its bytes so far, and a note of which file they are of.

`<file>.part` grows as bytes come and `<file>.part.json` says whose they are. Both outlive the
process, so that another one goes on where this one ended; only a whole file whose hash is right
gets its name.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from gemmachat.errors import DownloadError
from gemmachat.files import open_regular
from gemmachat.hub import HubFile
from gemmachat.publish import publish

_CHUNK = 1 << 20
_MAX_NOTE = 1 << 14


class Digest:
    """The hashes that tell whether bytes are those of a file."""

    def __init__(self, file: HubFile) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()
        # Git names a file by the SHA-1 of its size and its bytes.
        self._git = hashlib.sha1(f"blob {file.size}\0".encode(), usedforsecurity=False)

    def update(self, data: bytes) -> None:
        """Go on with more bytes."""
        self._sha256.update(data)
        if self._file.git_blob:
            self._git.update(data)

    @property
    def sha256(self) -> str:
        """The SHA-256 of the bytes so far, in hex."""
        return self._sha256.hexdigest()

    @property
    def is_right(self) -> bool:
        """Whether the bytes so far are those that the hub told; true where it told nothing."""
        if self._file.git_blob:
            return self._git.hexdigest() == self._file.git_blob
        return self._file.sha256 in (None, self.sha256)


def read_digest(path: Path, file: HubFile, hashed: Callable[[int], None]) -> Digest | None:
    """Hash a file that should be `file`; `hashed` is told how far. None where its size differs."""
    digest, done = Digest(file), 0
    with path.open("rb") as source:
        if os.fstat(source.fileno()).st_size != file.size:
            return None
        while data := source.read(_CHUNK):
            digest.update(data)
            done += len(data)
            hashed(done)
    return digest


class Partial:
    """The bytes of `file` that are here so far, to become `place`.

    Its lock must be held. Raises DownloadError where the folder cannot take them.
    """

    def __init__(self, place: Path, file: HubFile) -> None:
        self._place, self._file = place, file
        self._path, self._note = part_paths(place)
        self.size = 0
        self.digest = Digest(file)
        try:
            if not _is_of(self._note, file):
                self._path.unlink(missing_ok=True)
                publish(self._note, json.dumps(_description(file)).encode())
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(self._path, flags, 0o666)
        except OSError as error:
            raise storage_error(place, error) from error

    def __enter__(self) -> Partial:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._descriptor)

    def read(self, hashed: Callable[[int], None]) -> None:
        """Take up the bytes that an earlier process left; `hashed` is told how far."""
        if os.fstat(self._descriptor).st_size > self._file.size:
            self.clear()
        while data := os.read(self._descriptor, _CHUNK):
            self.digest.update(data)
            self.size += len(data)
            hashed(self.size)

    def append(self, data: bytes) -> None:
        """Take more bytes; they are out of this process's hands when it returns."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            missing = self._file.size - self.size
            raise storage_error(self._place, error, missing) from error
        self.digest.update(data)
        self.size += len(data)

    def clear(self) -> None:
        """Start afresh."""
        os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        self.size, self.digest = 0, Digest(self._file)

    def remove(self) -> None:
        """Leave nothing."""
        self._path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)

    def publish(self) -> None:
        """Give the file its name, once it is on the disk."""
        try:
            os.fsync(self._descriptor)
            self._path.replace(self._place)
            _sync_folder(self._place.parent)
        except OSError as error:
            raise storage_error(self._place, error) from error
        self._note.unlink(missing_ok=True)


def part_paths(place: Path) -> tuple[Path, Path]:
    """Where the bytes of a file on its way are, and the note on them."""
    return place.with_name(f"{place.name}.part"), place.with_name(f"{place.name}.part.json")


def bytes_here(place: Path, file: HubFile) -> int:
    """How many bytes of `file` need not be fetched, if what is here is right."""
    part, note = part_paths(place)
    if _is_of(note, file) and part.is_file():
        return min(part.stat().st_size, file.size)
    return 0


def storage_error(place: Path, error: OSError, missing: int | None = None) -> DownloadError:
    """What a failed write means to the user; `missing` is how many bytes had still to come."""
    rest = "" if missing is None else f" with {missing:,} bytes to come"
    return DownloadError(
        f"{place} cannot be written{rest}: {error.strerror or error}; what is here is kept: pull "
        "again when that is changed, or choose another folder with GEMMACHAT_MODELS"
    )


def _is_of(note: Path, file: HubFile) -> bool:
    """Whether a note is on this file: on one with its hash, or else from the same place."""
    try:
        with open_regular(note) as source:
            found = json.loads(source.read(_MAX_NOTE))
    except (OSError, ValueError, RecursionError):
        return False
    wanted = _description(file)
    keys = ("size", "sha256") if file.sha256 else wanted.keys()
    return isinstance(found, dict) and all(found.get(key) == wanted[key] for key in keys)


def _description(file: HubFile) -> dict[str, object]:
    return {
        "repo": file.repo,
        "path": file.path,
        "commit": file.commit,
        "size": file.size,
        "sha256": file.sha256,
        "etag": file.etag,
    }


def _sync_folder(folder: Path) -> None:
    """Make a rename outlive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
