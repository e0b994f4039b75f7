"""Where an OpenAI-compatible server is, and the key that may be shown to it."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from gemmachat.errors import UsageError

OWN_KEY = "GEMMACHAT_API_KEY"
SHARED_KEY = "OPENAI_API_KEY"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The parts of a base URL such as http://127.0.0.1:8000/v1."""

    secure: bool
    host: str
    port: int
    path: str
    """Without a slash at its end."""
    key: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, base_url: str, environment: Mapping[str, str] = os.environ) -> Endpoint:
        """Read a base URL, and the key from the environment.

        GEMMACHAT_API_KEY is sent to whatever server is named. OPENAI_API_KEY, which is there for
        other programs too, is sent only where nobody on the way can read it: over https, or to
        this machine. Raises `UsageError` where the URL or the key makes no sense.
        """
        try:
            parts = urlsplit(base_url.strip())
            host, port = parts.hostname or "", parts.port
        except ValueError:
            host, port, parts = "", None, urlsplit("")
        if parts.scheme not in ("http", "https") or not _is_plain(host):
            raise UsageError(
                f"--base-url must be like http://127.0.0.1:8000/v1, not {base_url[:80]!r}"
            )
        if parts.username is not None or parts.password is not None:
            raise UsageError(f"--base-url holds a password: put the key into {OWN_KEY} instead")
        if parts.query or parts.fragment or not _is_plain(parts.path or "/"):
            raise UsageError("--base-url is the beginning of addresses: give it without ? and #")
        secure = parts.scheme == "https"
        key = environment.get(OWN_KEY)
        if not key and (secure or _is_this_machine(host)):
            key = environment.get(SHARED_KEY)
        key = (key or "").strip()
        if key and not _is_plain(key):
            raise UsageError(f"the key in {OWN_KEY} or {SHARED_KEY} is not one printable word")
        port = port or (443 if secure else 80)
        return cls(secure, host, port, parts.path.rstrip("/"), key or None)

    @property
    def name(self) -> str:
        """What error sentences call the server."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _is_plain(text: str) -> bool:
    return bool(text) and all("!" <= char <= "~" for char in text)


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
