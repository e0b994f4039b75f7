"""Files on a Hugging Face hub, or in its cache on this machine: which there are, and their hashes.

huggingface-hub gives the names, the token (HF_TOKEN), the mirror (HF_ENDPOINT), the cache and the
offline mode (HF_HUB_OFFLINE). Importing this module loads it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, TypeGuard
from urllib.parse import quote

from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import OIDCError
from huggingface_hub.file_download import repo_folder_name
from huggingface_hub.utils import build_hf_headers

from gemmachat.errors import DamagedFileError, DownloadError, NotFoundError
from gemmachat.file_names import is_plain_path, is_repository
from gemmachat.files import read_small
from gemmachat.hub_http import (
    Answer,
    Patience,
    RefusedError,
    get,
    get_json,
    retrying,
    translated,
)
from gemmachat.pull_events import Progress, silent
from gemmachat.source import HubPath

_MAX_FILES = 20_000
_MAX_REF = 1 << 10
_MAX_PAGES = 1000
_MAX_BYTES = 1 << 50
_SHA256 = re.compile(r"[0-9a-f]{64}")
_GIT_BLOB = re.compile(r"[0-9a-f]{40}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class HubFile:
    """One file of a repository at one commit. What the hub does not tell is None."""

    repo: str
    path: str
    commit: str
    size: int  # bytes
    sha256: str | None
    etag: str | None
    """The SHA-256 of a large file, the git blob id of a small one; of another hub anything."""
    url: str

    @property
    def name(self) -> str:
        """Its name without the folders."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def git_blob(self) -> str | None:
        """Its git blob id, where that is what tells its content."""
        if self.sha256 is None and self.etag and _GIT_BLOB.fullmatch(self.etag):
            return self.etag
        return None

    def __str__(self) -> str:
        return f"{self.repo}/{self.path}"


class Hub:
    """The hub that huggingface-hub's settings name when a method is called."""

    def __init__(self, patience: Patience | None = None) -> None:
        self.patience = patience or Patience()

    @property
    def offline(self) -> bool:
        """Whether no connection may be opened: files are then found in the cache only."""
        return constants.HF_HUB_OFFLINE

    def resolve(self, place: HubPath, progress: Progress = silent) -> HubFile:
        """Find one file. A `*` in its path stands for anything in a name.

        Raises NotFoundError where it is not there, or, offline, not in the cache; DamagedFileError
        for a name that is not to be trusted; DownloadError for anything else.
        """
        if "*" in place.path:
            return _only_match(place, self.listing(place.repo, place.revision, progress))
        _check_names(place.repo, place.path, place.revision)
        if self.offline:
            return _only_match(place, _cached_listing(place.repo, place.revision))
        return retrying(place.path, self.patience, progress, lambda: self._head(place))

    def listing(
        self, repo: str, revision: str = "main", progress: Progress = silent
    ) -> tuple[HubFile, ...]:
        """All files of a repository at one commit, but those of which the hub tells nonsense.

        That is a name that is not plain, or a size that is none. Offline those in the cache. Raises
        as `resolve` does.
        """
        _check_names(repo, "any", revision)
        if self.offline:
            return _cached_listing(repo, revision)
        return retrying(repo, self.patience, progress, lambda: self._tree(repo, revision))

    @contextmanager
    def open(self, file: HubFile, start: int) -> Iterator[Answer]:
        """Ask for the bytes of a file from `start` on; see `hub_http.get`."""
        headers = {**self._headers, "accept-encoding": "identity"}
        if start:
            headers["range"] = f"bytes={start}-"
        with get(file.url, headers, str(file)) as answer:
            yield answer

    def cached(self, file: HubFile) -> Path | None:
        """The file in the user's Hugging Face cache, unchecked; None where it is not."""
        try:
            return self._cached(file)
        except OSError:  # a cache that cannot be read
            return None

    def _cached(self, file: HubFile) -> Path | None:
        if file.sha256 or file.git_blob:
            folder = repo_folder_name(repo_id=file.repo, repo_type="model")
            blob = Path(constants.HF_HUB_CACHE, folder, "blobs", file.sha256 or file.etag or "")
            if blob.is_file():
                return blob.resolve()
        found = try_to_load_from_cache(
            file.repo, file.path, constants.HF_HUB_CACHE, revision=file.commit
        )
        return Path(found).resolve() if isinstance(found, str) else None

    @property
    def _headers(self) -> dict[str, str]:
        """Raise RefusedError where the user's token cannot be used. It is never shown."""
        _check_token_files()
        try:
            headers = build_hf_headers(library_name="gemmachat", library_version=_own_version())
        except (OSError, ValueError, OIDCError) as error:
            raise RefusedError(f"the Hugging Face token cannot be read: {error}") from error
        token = headers.get("authorization", "").removeprefix("Bearer ")
        if not token.isascii() or not token.isprintable() or " " in token:
            raise RefusedError("the Hugging Face token holds what no token holds: set HF_TOKEN")
        return headers

    def _head(self, place: HubPath) -> HubFile:
        what = f"{place.repo}/{place.path}"
        with translated(what):
            url = hf_hub_url(place.repo, place.path, revision=place.revision)
            found = get_hf_file_metadata(
                url, timeout=constants.HF_HUB_ETAG_TIMEOUT, headers=self._headers
            )
        if found.commit_hash is None or found.size is None:
            raise DownloadError(
                f"{what}: the answer tells no commit or no size: is HF_ENDPOINT a Hugging Face hub?"
            )
        return _file(place.repo, place.path, found.commit_hash, found.size, found.etag)

    def _tree(self, repo: str, revision: str) -> tuple[HubFile, ...]:
        api = f"{constants.ENDPOINT}/api/models/{repo}"
        info, _ = get_json(f"{api}/revision/{quote(revision, safe='')}", self._headers, repo)
        commit = info.get("sha") if isinstance(info, dict) else None
        if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
            raise DownloadError(f"{repo}: the hub does not tell its commit")
        files = []
        entries = self._entries(f"{api}/tree/{commit}?recursive=True&expand=False", repo)
        for entry in islice(entries, _MAX_FILES):
            path = entry.get("path")
            if entry.get("type") == "file" and isinstance(path, str) and is_plain_path(path):
                lfs = entry["lfs"] if isinstance(entry.get("lfs"), dict) else {}
                size, etag = lfs.get("size", entry.get("size")), lfs.get("oid", entry.get("oid"))
                if _is_size(size):
                    files.append(_file(repo, path, commit, size, etag))
        return tuple(files)

    def _entries(self, url: str, repo: str) -> Iterator[dict[str, Any]]:
        for _ in range(_MAX_PAGES):
            page, following = get_json(url, self._headers, repo)
            if not isinstance(page, list) or not page:
                return
            yield from (entry for entry in page if isinstance(entry, dict))
            if not following:
                return
            url = following


def _check_token_files() -> None:
    """huggingface-hub would wait for the other end of a pipe in the place of a token."""
    named = os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN")
    if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN or (named and named.strip()):
        return  # it reads none then
    for path in (constants.HF_TOKEN_PATH, constants.HF_STORED_TOKENS_PATH):
        if os.path.exists(path) and not os.path.isfile(path):
            raise RefusedError(
                f"the Hugging Face token cannot be read: {path} is not a regular file: remove it, "
                "or set HF_TOKEN"
            )


@cache
def _own_version() -> str:
    return version("gemmachat")


def _file(repo: str, path: str, commit: str, size: object, etag: object) -> HubFile:
    """Check what a hub says about a file."""
    if not _COMMIT.fullmatch(commit):
        raise DownloadError(f"{repo}/{path}: the hub tells a commit that is none")
    if not _is_size(size):
        raise DownloadError(f"{repo}/{path}: the hub tells a size that is none")
    tag = etag if isinstance(etag, str) and len(etag) <= 200 and etag.isprintable() else None
    sha256 = tag if tag and _SHA256.fullmatch(tag) else None
    url = hf_hub_url(repo, path, revision=commit)
    return HubFile(repo, path, commit, size, sha256, tag, url)


def _is_size(size: object) -> TypeGuard[int]:
    return type(size) is int and 0 <= size <= _MAX_BYTES


def _check_names(repo: str, path: str, revision: str) -> None:
    if not is_repository(repo):
        raise DamagedFileError(f"{repo!r} is no repository: it must look like OWNER/NAME")
    if not is_plain_path(path):
        raise DamagedFileError(f"{path!r} in {repo} is no name that can be trusted as a file's")
    if not is_plain_path(revision):
        raise DamagedFileError(f"{revision!r} is no revision of {repo}")


def _only_match(place: HubPath, files: tuple[HubFile, ...]) -> HubFile:
    pattern = re.compile("[^/]*".join(map(re.escape, place.path.split("*"))))
    found = [file for file in files if pattern.fullmatch(file.path)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFoundError(f"{place.repo} has no file {place.path}")
    names = ", ".join(file.path for file in found[:5])
    raise NotFoundError(
        f"{place.repo} has {len(found)} files like {place.path} ({names}): name one of them"
    )


def _cached_listing(repo: str, revision: str) -> tuple[HubFile, ...]:
    """The files of a repository in the cache, at the commit that the revision last meant."""
    folder = Path(constants.HF_HUB_CACHE, repo_folder_name(repo_id=repo, repo_type="model"))
    try:
        commit = read_small(folder / "refs" / revision, _MAX_REF).decode("utf-8").strip()
    except (OSError, ValueError):
        commit = revision
    snapshot = folder / "snapshots" / commit
    if not _COMMIT.fullmatch(commit) or not snapshot.is_dir():
        raise NotFoundError(
            f"{repo} at {revision} is not on this machine, and HF_HUB_OFFLINE is set: unset it to "
            "fetch it"
        )
    files = []
    for path in sorted(snapshot.rglob("*")):
        name = path.relative_to(snapshot).as_posix()
        if path.is_file() and is_plain_path(name):
            blob = path.resolve()
            files.append(_file(repo, name, commit, blob.stat().st_size, blob.name))
    return tuple(files)
