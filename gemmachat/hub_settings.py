"""Checks the variables that huggingface-hub reads, before it is loaded.

It takes them as they are: an address or a number that is none ends in an error of Python's, in the
middle of a request or while the library is being imported.
"""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from gemmachat.errors import UsageError

_TIMEOUTS = ("HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_ETAG_TIMEOUT")
_LONGEST_S = 24 * 60 * 60


def check_hub_settings() -> None:
    """Raise `UsageError` where a variable of the environment makes no sense.

    The value of HF_ENDPOINT is not shown: there may be a password in it.
    """
    endpoint = os.environ.get("HF_ENDPOINT")
    if endpoint is not None and not _is_address(endpoint):
        raise UsageError(
            "HF_ENDPOINT is not an address that begins with http:// or https://: set it to the hub "
            "to use, or unset it"
        )
    for name in _TIMEOUTS:
        text = os.environ.get(name)
        if text is not None and not _is_timeout(text):
            raise UsageError(
                f"{name} is not a whole number of seconds from 0 to {_LONGEST_S}: correct or unset "
                "it"
            )


def _is_address(text: str) -> bool:
    if not text.isprintable() or " " in text:
        return False
    try:
        parts = urlsplit(text)
        has_port = parts.port is None or parts.port > 0
    except ValueError:  # brackets without an IPv6 address, or a port that is none
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and has_port


def _is_timeout(text: str) -> bool:
    try:
        return 0 <= int(text) <= _LONGEST_S
    except ValueError:
        return False
