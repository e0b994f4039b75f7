"""What counts as one message of typed text.

Three double quotes begin a message of several lines, which lasts until they come again.
"""

from __future__ import annotations

QUOTES = '"""'


def is_open(text: str) -> bool:
    """Whether `text` has begun with three quotes and they have not come again."""
    stripped = text.strip()
    if not stripped.startswith(QUOTES):
        return False
    return len(stripped) < 2 * len(QUOTES) or not stripped.endswith(QUOTES)


def valid(text: str) -> str:
    """Return the text with U+FFFD for what was typed and is no UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def message_of(text: str) -> str:
    """Return the text without the quotes around it, if there are any."""
    stripped = text.strip()
    if not stripped.startswith(QUOTES) or is_open(text):
        return text
    return stripped[len(QUOTES) : -len(QUOTES)].strip("\n")
