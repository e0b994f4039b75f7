"""Requests to a hub: redirects, refusals and failures, on top of huggingface-hub's client.

Importing this module loads huggingface-hub, so it is imported only by what needs a hub.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx2
from huggingface_hub import constants
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled
from huggingface_hub.utils import get_session, parse_ratelimit_headers

from gemmachat.errors import DamagedFileError, DownloadError, GemmachatError, NotFoundError
from gemmachat.pull_events import Progress, PullEvent

# It would add what else is installed to every request, and ask its own hub which programs to name.
constants.HF_HUB_DISABLE_TELEMETRY = True
logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)

_MAX_REDIRECTS = 10
_MAX_JSON = 32 << 20
_TRANSIENT = (408, 425, 429, 500, 502, 503, 504)
_HOME = ("https://huggingface.co", "https://hf.co")

T = TypeVar("T")


class TransientError(DownloadError):
    """A failure that another try may not meet."""

    def __init__(
        self, sentence: str, *, wait_s: float | None = None, no_progress: bool = False
    ) -> None:
        super().__init__(sentence)
        self.wait_s = wait_s  # as the server asks
        self.no_progress = no_progress  # whatever came was too little to count


class RefusedError(DownloadError):
    """The hub does not give a file to this user."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to try. Waits double from `first_wait_s` to `longest_wait_s`."""

    tries: int = 5  # in a row that bring nothing
    first_wait_s: float = 1.0
    longest_wait_s: float = 30.0
    longest_asked_s: float = 600.0  # a server that asks for more is not waited for
    slow_window_s: float = 30.0  # a connection that brings less than `slow_bytes`
    slow_bytes: int = 30_000  # in this time is given up

    def wait(self, failures: int, error: TransientError) -> float:
        """Seconds to wait after so many failures in a row; raises DownloadError when enough."""
        if failures >= self.tries:
            raise DownloadError(f"{error} ({failures} tries): pull again later") from error
        if error.wait_s is None:
            return min(self.first_wait_s * 2.0 ** (failures - 1), self.longest_wait_s)
        if error.wait_s > self.longest_asked_s:
            raise DownloadError(f"{error}: pull again in {error.wait_s:.0f} s") from error
        return error.wait_s


def retrying(file: str, patience: Patience, progress: Progress, action: Callable[[], T]) -> T:
    """What `action` returns, tried again while it raises TransientError."""
    failures = 0
    while True:
        try:
            return action()
        except TransientError as error:
            failures += 1
            pause(file, patience.wait(failures, error), error, progress)


def pause(file: str, seconds: float, error: TransientError, progress: Progress) -> None:
    """Tell why, and wait."""
    progress(PullEvent("retry", file, seconds=seconds, text=str(error)))
    time.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Answer:
    """The last response of a chain of redirects, its body unread."""

    response: httpx2.Response
    linked_etag: str | None
    """Which file it is in the words of the hub that redirected to it, if it said so."""


@contextmanager
def get(url: str, headers: Mapping[str, str], what: str) -> Iterator[Answer]:
    """GET with redirects. `what` names in error sentences what is asked for.

    A token goes to the hub and to Hugging Face itself only: it is dropped on the first redirect to
    anywhere else. Raises TransientError, or another GemmachatError, for whatever is not a success
    and for what happens to the connection inside the block.
    """
    sent = dict(headers)
    linked_etag = None
    with translated(what):
        for _ in range(_MAX_REDIRECTS):
            if not is_trusted(url):
                sent.pop("authorization", None)
            with get_session().stream(
                "GET",
                url,
                headers=sent,
                follow_redirects=False,
                timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT,
            ) as response:
                if is_trusted(url):
                    linked_etag = _linked_etag(response) or linked_etag
                if not response.has_redirect_location:
                    if response.status_code not in (200, 206):
                        raise refusal(response, what)
                    yield Answer(response, linked_etag)
                    return
                url = urljoin(url, response.headers["Location"])
    raise DownloadError(f"{what}: {_host(url)} redirects without end")


def get_json(url: str, headers: Mapping[str, str], what: str) -> tuple[Any, str | None]:
    """The JSON value at an address, and the address of the next page if it has pages."""
    with get(url, headers, what) as answer:
        data = b""
        for chunk in answer.response.iter_bytes():
            data += chunk
            if len(data) > _MAX_JSON:
                raise DownloadError(f"{what}: the hub's answer is larger than {_MAX_JSON} bytes")
        following = answer.response.links.get("next", {}).get("url")
    try:
        return json.loads(data), following and urljoin(url, following)
    except (ValueError, RecursionError):
        raise DownloadError(
            f"{what}: what {_host(url)} answers is no JSON: is HF_ENDPOINT a Hugging Face hub?"
        ) from None


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn what the client and huggingface-hub raise into a GemmachatError."""
    _check_client()
    try:
        yield
    except OfflineModeIsEnabled:
        raise NotFoundError(
            f"{what} is not on this machine, and HF_HUB_OFFLINE is set: unset it to fetch it"
        ) from None
    except HfHubHTTPError as error:
        raise refusal(error.response, what) from error
    except (httpx2.UnsupportedProtocol, httpx2.InvalidURL, ValueError) as error:
        raise DownloadError(f"{what}: there is no way to this address: {error}") from error
    except httpx2.TooManyRedirects:
        raise DownloadError(f"{what}: the hub redirects without end") from None
    except httpx2.TimeoutException as error:
        raise TransientError(f"{what}: {_host_of(error)} does not answer") from error
    except httpx2.TransportError as error:
        why = str(error) or "the connection broke"
        raise TransientError(f"{what}: {_host_of(error)} cannot be reached: {why}") from error
    except httpx2.HTTPError as error:
        raise DownloadError(f"{what}: {error}") from error


def _check_client() -> None:
    """Make huggingface-hub's client, which reads what the environment says of proxies and TLS."""
    try:
        get_session()
    except ImportError as error:
        raise DownloadError(
            "a SOCKS proxy is set (ALL_PROXY, HTTPS_PROXY or HTTP_PROXY) and what speaks to one is "
            "missing: pip install socksio, or unset it"
        ) from error
    except (OSError, ValueError) as error:
        raise DownloadError(
            f"the certificates or the proxy that the environment names cannot be used ({error}): "
            "correct or unset SSL_CERT_FILE, SSL_CERT_DIR and the proxy variables"
        ) from error


def refusal(response: httpx2.Response, what: str) -> GemmachatError:
    """The error that a response without success stands for."""
    status, code = response.status_code, response.headers.get("X-Error-Code", "")
    host = response.url.host
    answer = f"{what}: {host} answers {status} {response.reason_phrase}".rstrip()
    error: GemmachatError = DownloadError(answer)
    if status in _TRANSIENT:
        error = TransientError(answer, wait_s=_asked_wait(response.headers))
    elif status == 403 and not is_trusted(str(response.url)):
        error = TransientError(answer)  # the address has expired: the hub gives another
    elif code == "GatedRepo" or status == 403:
        error = RefusedError(
            f"{answer}: accept the licence on the page of the repository, and set HF_TOKEN to a "
            "token that may read it"
        )
    elif status == 401:
        error = RefusedError(
            f"{answer}: it is not there or needs a token: check the name, and set HF_TOKEN"
        )
    elif status in (404, 410):
        kinds = {"RepoNotFound": "repository", "RevisionNotFound": "revision"}
        kind = kinds.get(code, "file")
        error = NotFoundError(f"{what}: there is no such {kind} on {host}, or it is private")
    elif status == 416:
        error = DamagedFileError(f"{what} is shorter on {host} than the hub said: pull again")
    return error


def is_trusted(url: str) -> bool:
    """Whether the user's token may be sent there: to the hub asked for, or Hugging Face itself."""
    return _origin(url) in {_origin(constants.ENDPOINT), *map(_origin, _HOME)}


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, (parts.hostname or "").lower(), port


def _host(url: str) -> str:
    return urlsplit(url).hostname or url


def _host_of(error: httpx2.RequestError) -> str:
    try:
        return error.request.url.host
    except RuntimeError:  # it has none
        return _host(constants.ENDPOINT)


def _linked_etag(response: httpx2.Response) -> str | None:
    found = response.headers.get(constants.HUGGINGFACE_HEADER_X_LINKED_ETAG)
    return None if found is None else str(found).removeprefix("W/").strip('"')


def _asked_wait(headers: httpx2.Headers) -> float | None:
    """Seconds that a server asks to wait: Retry-After (RFC 9110, 10.2.3), or a rate limit's."""
    limit = parse_ratelimit_headers(headers)
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    if text:
        try:
            date = parsedate_to_datetime(text)
        except (ValueError, OverflowError):
            return None
        aware = date if date.tzinfo else date.replace(tzinfo=UTC)
        return max((aware - datetime.now(UTC)).total_seconds(), 0.0)
    return float(limit.reset_in_seconds) if limit and limit.remaining == 0 else None
