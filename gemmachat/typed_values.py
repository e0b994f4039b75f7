"""Values of options, from how they are typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmachat.errors import UsageError
from gemmachat.native_structs import MAX_DRAFT

if TYPE_CHECKING:
    from gemmachat.session import DraftPolicy


def draft_policy(text: str) -> DraftPolicy:
    """Return what --draft asks for. Raises `UsageError`."""
    if text == "auto":
        return "auto"
    if text == "off":
        return "off"
    if text in map(str, range(1, MAX_DRAFT + 1)):
        return int(text)
    raise UsageError(
        f"--draft must be auto, off or a number from 1 to {MAX_DRAFT}, not {text[:40]!r}"
    )


def plain_number(text: str) -> str:
    """Return the text; `ValueError` where Python reads a number that nobody else does: 5_0."""
    if "_" in text or not text.isascii():
        raise ValueError
    return text
