"""Which names from a hub, a catalog or a manifest may become names of files: pure functions.

Nothing that passes leads out of a folder, hides in it, or means a device on some system.
"""

from __future__ import annotations

import re

MAX_NAME = 200  # characters; leaves room for what is added to it, such as ".part.json"

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
# Windows takes these for devices, whatever follows the first point.
_DEVICE = re.compile(r"(CON|PRN|AUX|NUL|COM[0-9]|LPT[0-9])(\..*)?", re.IGNORECASE)
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


def is_plain_name(name: str) -> bool:
    """Whether a file of any folder may be called this."""
    return (
        len(name) <= MAX_NAME
        and _NAME.fullmatch(name) is not None
        and not name.endswith(".")
        and _DEVICE.fullmatch(name) is None
    )


def is_plain_path(path: str) -> bool:
    """Whether every part of a path in a repository, parted by `/`, is a plain name."""
    return len(path) <= 5 * MAX_NAME and all(map(is_plain_name, path.split("/")))


def is_repository(name: str) -> bool:
    """Whether this is OWNER/NAME of a repository."""
    return (
        len(name) < MAX_NAME  # as a name on the shelf it is one character longer
        and _REPOSITORY.fullmatch(name) is not None
        and ".." not in name
        and "--" not in name
        and not name.endswith((".", "-", ".git"))
    )
