"""Writes a file whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def publish(path: Path, data: bytes) -> None:
    """Put a file in its place in one step, with the permissions that new files have.

    It is written beside the place first and flushed to the disk, so that neither a full disk nor a
    crash leaves a part of it there. Raises `OSError`, and then leaves what was there before.
    """
    part = path.with_name(f".{path.name}-{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
