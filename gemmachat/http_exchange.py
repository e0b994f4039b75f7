"""One request to a server and its response, which another thread can end at any moment.

Redirects are not followed: a key or a conversation goes to the server that was named and to no
other. Each request has a connection of its own.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Generator, Iterator
from typing import Any

from gemmachat.endpoint import OWN_KEY, SHARED_KEY, Endpoint
from gemmachat.errors import ContextFullError, GemmachatError, NotFoundError, ServerError

CONNECT_S = 10.0
FIRST_S = 900.0
"""Until the first byte: a server may have to load a model and to read a long prompt."""
STALL_S = 180.0
_CHUNK = 1 << 16
_MAX_JSON = 4 << 20


class CancelledExchangeError(Exception):
    """Another thread ended the exchange."""


class Exchange:
    """Requests to one server, one at a time."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._cancelled = False
        self._socket: socket.socket | None = None

    def cancel(self) -> None:
        """End the request that is running, or the next one. Any thread."""
        with self._lock:
            self._cancelled = True
            if self._socket is not None:
                with contextlib.suppress(OSError):  # it has just ended
                    self._socket.shutdown(socket.SHUT_RDWR)

    def clear_cancel(self) -> None:
        """Take back a cancel that nothing has answered."""
        with self._lock:
            self._cancelled = False

    def without_key(self, text: str) -> str:
        """The text without the key, which some servers repeat; cut it afterwards only."""
        key = self._endpoint.key
        return text if key is None else text.replace(key, "...")

    def get_json(self, path: str) -> Any:
        """The JSON value at a path below the base URL."""
        with self._response("GET", path, None) as response:
            body = _bounded(response, _MAX_JSON)
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            raise ServerError(
                f"{self._endpoint.name} answers with something that is no JSON: does --base-url "
                "name an OpenAI-compatible server?"
            ) from None

    def post(self, path: str, body: dict[str, Any]) -> Generator[bytes, None, None]:
        """Send a JSON value and yield the chunks of the stream of events that comes back.

        Raises `CancelledExchangeError`, `NotFoundError`, `ContextFullError`, or `ServerError` for
        whatever else is no success.
        """
        with self._response("POST", path, json.dumps(body).encode("ascii")) as response:
            kind = self.without_key(response.headers.get_content_type())
            if kind != "text/event-stream":
                raise ServerError(
                    f"{self._endpoint.name} answers with {kind[:40]} and not with a stream of "
                    "events: does --base-url name an OpenAI-compatible server?"
                )
            while chunk := response.read1(_CHUNK):
                yield chunk

    @contextlib.contextmanager
    def _response(
        self, method: str, path: str, body: bytes | None
    ) -> Iterator[http.client.HTTPResponse]:
        connection = self._connection()
        with self._translated(), contextlib.closing(connection):
            connection.connect()
            connected: socket.socket = connection.sock
            with self._cancellable(connected):
                connected.settimeout(FIRST_S)
                connection.request(method, self._endpoint.path + path, body, self._headers())
                with connection.getresponse() as response:
                    connected.settimeout(STALL_S)
                    if response.status != 200:
                        raise self._refusal(response)
                    yield response
            self._check_cancelled()  # a connection that was shut down looks like one that ended

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._endpoint.host, self._endpoint.port
        if self._endpoint.secure:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=CONNECT_S, context=context)
        return http.client.HTTPConnection(host, port, timeout=CONNECT_S)

    def _headers(self) -> dict[str, str]:
        headers = {
            "Accept": "text/event-stream, application/json",
            "Accept-Encoding": "identity",
            "Connection": "close",
            "Content-Type": "application/json",
            "User-Agent": "gemmachat",
        }
        if self._endpoint.key is not None:
            headers["Authorization"] = f"Bearer {self._endpoint.key}"
        return headers

    @contextlib.contextmanager
    def _cancellable(self, connected: socket.socket) -> Iterator[None]:
        with self._lock:
            self._socket = connected
        self._check_cancelled()
        try:
            yield
        finally:
            with self._lock:
                self._socket = None

    def _check_cancelled(self) -> None:
        with self._lock:
            if self._cancelled:
                self._cancelled = False
                raise CancelledExchangeError

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn what the client and the system raise into a sentence, or into the cancel it was."""
        name = self._endpoint.name
        try:
            yield
        except (OSError, UnicodeError, http.client.HTTPException, ServerError) as error:
            self._check_cancelled()
            if isinstance(error, ServerError):
                raise
            if isinstance(error, TimeoutError):
                raise ServerError(f"{name} does not answer") from error
            if isinstance(error, http.client.HTTPException):
                said = self.without_key(repr(error))[:80]
                raise ServerError(f"{name} breaks off, or speaks no HTTP: {said}") from error
            why = getattr(error, "strerror", None) or str(error)
            raise ServerError(
                f"{name} cannot be reached: {why}: is the server running, and --base-url right?"
            ) from error

    def _refusal(self, response: http.client.HTTPResponse) -> GemmachatError:
        """The error that a response without success stands for."""
        name, status = self._endpoint.name, response.status
        if 300 <= status < 400:
            place = self.without_key(response.headers.get("Location", "nowhere"))[:200]
            return ServerError(
                f"{name} redirects to {place}: give that place as --base-url if you trust it"
            )
        code, message = _reported(_bounded(response, _CHUNK))
        said = f"{name} answers {status}: {self.without_key(message or response.reason)[:300]}"
        if status in (401, 403):
            return ServerError(f"{said}; the key comes from {OWN_KEY} or {SHARED_KEY}")
        if status == 404:
            return NotFoundError(f"{said}; are --model and --base-url right?")
        if code in ("context_length_exceeded", "exceed_context_size_error"):
            return ContextFullError(said)
        return ServerError(said)


def _bounded(response: http.client.HTTPResponse, limit: int) -> bytes:
    body = b""
    while len(body) <= limit and (chunk := response.read1(_CHUNK)):
        body += chunk
    if len(body) > limit:
        raise ServerError(f"the server answers with more than {limit} bytes")
    return body


def _reported(body: bytes) -> tuple[str, str]:
    """What kind of error a server reports, and in what words."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return "", body.decode("utf-8", "replace")
    if not isinstance(value, dict):
        return "", ""
    found = value.get("error", value)
    if not isinstance(found, dict):
        return "", str(found)
    code = found.get("code") if isinstance(found.get("code"), str) else found.get("type")
    message = found.get("message") or found.get("detail") or ""
    return str(code), str(message)
