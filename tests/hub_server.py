"""A stand-in for a Hugging Face hub, over real sockets, with faults by switch.

It answers what huggingface-hub 2.4 and gemmachat ask for: model info, the tree in pages, HEAD and
GET of files by revision with ETag, X-Repo-Commit, X-Linked-Size and X-Linked-Etag. Large files are
redirected to a second server, as the hub does with its CDN; ranges are honoured there.
"""

from __future__ import annotations

import hashlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

LARGE = (".gguf", ".safetensors")
TOKEN = "hf_secret"
_PIECE = 1 << 14


@dataclass
class Request:
    """One request as a server saw it."""

    server: str  # "hub" or "cdn"
    method: str
    path: str
    token: str | None
    start: int = 0  # first byte asked for
    sent: int = 0  # bytes of content that were sent


@dataclass
class Faults:
    """What goes wrong. Lists are used up, one item per request to the server they are for."""

    statuses: list[tuple[str, int, dict[str, str]]] = field(default_factory=list)
    """(part of the path or "", status, headers): refusals to come, on either server."""
    cuts: list[int] = field(default_factory=list)
    """Positions in the content at which connections break."""
    reset: bool = False
    """Break by a reset and not by an orderly end."""
    change: Callable[[bytes], bytes] | None = None
    """What is sent instead of the content, as if it were it."""
    etag: str | None = None
    """Entity tag told with GET; None is the right one."""
    ignore_ranges: bool = False
    shift: int = 0
    """How far from where it was asked for a range begins."""
    chunked: bool = False
    """Send without a Content-Length."""
    rate: float | None = None
    """Bytes per second."""
    redirect: str | None = None
    """Where every GET and HEAD of a file leads; "loop" is to itself."""
    listing: list[dict[str, Any]] = field(default_factory=list)
    """Further entries of every tree."""
    silence: bool = False
    """Accept requests to the cdn and never answer."""


class StandIn:
    """The hub, its CDN, what is on them and what was asked of them."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.requests: list[Request] = []
        self.gated: set[str] = set()
        self.page = 1000  # entries of a tree in one answer
        self._commits: dict[str, list[tuple[str, dict[str, bytes]]]] = {}
        self._blobs: dict[str, bytes] = {}
        self._stop = threading.Event()
        self._servers = {name: _Server(self, name) for name in ("hub", "cdn")}
        self.endpoint = self._servers["hub"].address
        self.cdn = self._servers["cdn"].address

    def close(self) -> None:
        self._stop.set()
        for server in self._servers.values():
            server.shutdown()
            server.server_close()

    def put(self, repo: str, files: Mapping[str, bytes]) -> str:
        """Make a commit that holds these files and no others, and return it."""
        digest = hashlib.sha1(repo.encode() + str(len(self._commits.get(repo, ()))).encode())
        for path, data in files.items():
            digest.update(path.encode() + hashlib.sha256(data).digest())
            self._blobs[hashlib.sha256(data).hexdigest()] = data
        self._commits.setdefault(repo, []).append((digest.hexdigest(), dict(files)))
        return digest.hexdigest()

    def commit(self, repo: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
        commits = self._commits.get(repo, [])
        if revision == "main" and commits:
            return commits[-1]
        return next((commit for commit in commits if commit[0] == revision), None)

    def blob(self, sha256: str) -> bytes | None:
        return self._blobs.get(sha256)

    def of(self, server: str, method: str = "GET") -> list[Request]:
        return [r for r in self.requests if (r.server, r.method) == (server, method)]

    @property
    def fetched(self) -> int:
        """Bytes of large files that were sent."""
        return sum(request.sent for request in self.of("cdn"))

    def pause(self, seconds: float) -> None:
        self._stop.wait(seconds)


@contextmanager
def serving() -> Iterator[StandIn]:
    hub = StandIn()
    try:
        yield hub
    finally:
        hub.close()


def etag_of(path: str, data: bytes) -> str:
    """SHA-256 of a large file, git's blob id of a small one."""
    if path.endswith(LARGE):
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def entry(path: str, data: bytes) -> dict[str, Any]:
    """A file in a tree."""
    found: dict[str, Any] = {"type": "file", "path": path, "size": len(data), "oid": "0" * 40}
    if path.endswith(LARGE):
        sha256 = hashlib.sha256(data).hexdigest()
        found["lfs"] = {"oid": sha256, "size": len(data), "pointerSize": 130}
    else:
        found["oid"] = etag_of(path, data)
    return found


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, hub: StandIn, name: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hub, self.name = hub, name
        self.address = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def handle_error(self, *_: object) -> None:
        """A client that goes away is what these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        hub, faults = self.server.hub, self.server.hub.faults
        authorization = self.headers.get("Authorization")
        token = authorization.removeprefix("Bearer ") if authorization else None
        request = Request(self.server.name, self.command, self.path, token)
        hub.requests.append(request)
        for refusal in faults.statuses:
            part, status, headers = refusal
            if part in f"{self.server.name} {self.command} {self.path}":
                faults.statuses.remove(refusal)
                self._send(status, headers)
                return
        if self.server.name == "cdn":
            if faults.silence:
                hub.pause(60)
            data = hub.blob(urlsplit(self.path).path.removeprefix("/blob/"))
            self._send_content(request, data or b"", {})
        elif self.path.startswith("/api/models/"):
            self._answer_api(token)
        else:
            self._answer_file(request)

    def _answer_api(self, token: str | None) -> None:
        parts = urlsplit(self.path)
        owner, name, what, revision = parts.path.removeprefix("/api/models/").split("/")[:4]
        found = self._commit(f"{owner}/{name}", unquote(revision), token)
        if found is None:
            return
        commit, files = found
        if what == "revision":
            self._send_json({"id": f"{owner}/{name}", "sha": commit}, {})
            return
        entries = [entry(path, data) for path, data in files.items()]
        entries += self.server.hub.faults.listing
        start = int(parse_qs(parts.query).get("cursor", ["0"])[0])
        end = start + self.server.hub.page
        links = {}
        if end < len(entries):
            url = f"{self.server.address}{parts.path}?recursive=True&cursor={end}"
            links["Link"] = f'<{url}>; rel="next"'
        self._send_json(entries[start:end], links)

    def _answer_file(self, request: Request) -> None:
        faults = self.server.hub.faults
        if faults.redirect is not None:
            self._send(
                302, {"Location": self.path if faults.redirect == "loop" else faults.redirect}
            )
            return
        owner, name, _, revision, path = unquote(self.path).lstrip("/").split("/", 4)
        found = self._commit(f"{owner}/{name}", revision, request.token)
        if found is None:
            return
        commit, files = found
        if path not in files:
            self._send(404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
            return
        data = files[path]
        etag = etag_of(path, data)
        if faults.etag is not None and request.method == "GET":
            etag = faults.etag
        headers = {"X-Repo-Commit": commit}
        if path.endswith(LARGE):
            address = f"{self.server.hub.cdn}/blob/{hashlib.sha256(data).hexdigest()}"
            headers |= {"X-Linked-Size": str(len(data)), "X-Linked-Etag": f'"{etag}"'}
            self._send(302, {**headers, "Location": f"{address}?name={quote(path)}"})
        else:
            self._send_content(request, data, {**headers, "ETag": f'"{etag}"'})

    def _commit(
        self, repo: str, revision: str, token: str | None
    ) -> tuple[str, dict[str, bytes]] | None:
        hub = self.server.hub
        if repo in hub.gated and token != TOKEN:
            self._send(401 if token is None else 403, {"X-Error-Code": "GatedRepo"})
            return None
        found = hub.commit(repo, revision)
        if found is None:
            known = hub.commit(repo, "main") is not None
            self._send(404, {"X-Error-Code": "RevisionNotFound" if known else "RepoNotFound"})
        return found

    def _send_json(self, value: object, headers: Mapping[str, str]) -> None:
        data = json.dumps(value).encode()
        self._send(200, {"Content-Type": "application/json", **headers}, data)

    def _send(self, status: int, headers: Mapping[str, str], data: bytes = b"") -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def _send_content(self, request: Request, data: bytes, headers: Mapping[str, str]) -> None:
        faults = self.server.hub.faults
        if faults.change and self.command == "GET":
            data = faults.change(data)
        asked = self.headers.get("Range")
        if asked and not faults.ignore_ranges:
            request.start = int(asked.removeprefix("bytes=").rstrip("-")) + faults.shift
            if request.start >= len(data):
                self._send(416, {"Content-Range": f"bytes */{len(data)}"})
                return
        self.send_response(206 if request.start else 200)
        if request.start:
            span = f"bytes {request.start}-{len(data) - 1}/{len(data)}"
            self.send_header("Content-Range", span)
        for key, value in headers.items():
            self.send_header(key, value)
        if faults.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(data) - request.start))
        self.end_headers()
        if self.command == "GET":
            self._send_body(request, data)

    def _send_body(self, request: Request, data: bytes) -> None:
        faults = self.server.hub.faults
        cut = faults.cuts.pop(0) if faults.cuts else None
        end = len(data) if cut is None else min(cut, len(data))
        piece = _PIECE if faults.rate is None else max(int(faults.rate / 100), 1)
        began = time.monotonic()
        for start in range(request.start, end, piece):
            part = data[start : min(start + piece, end)]
            self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part) if faults.chunked else part)
            request.sent += len(part)
            if faults.rate:
                due = began + request.sent / faults.rate
                self.server.hub.pause(max(due - time.monotonic(), 0.0))
        if cut is not None:
            self._break()
        elif faults.chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _break(self) -> None:
        self.close_connection = True
        if self.server.hub.faults.reset:
            # With no time to linger, closing sends a reset.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        else:
            self.connection.shutdown(socket.SHUT_RDWR)
