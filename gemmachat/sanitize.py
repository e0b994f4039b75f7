"""Bytes to text that is safe to show: pure functions, nothing is written here.

Text from a model, a file or a paste may hold terminal commands. Every decision is taken for one
code point at a time, so a sequence that is split across tokens is treated like one that is not.
"""

from __future__ import annotations

import codecs
import re

# C0 but tab and newline, DEL, C1, bidi embeddings, overrides and isolates, lone surrogates.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Utf8Stream:
    """Incremental UTF-8 decoder; bytes of an incomplete character wait for the rest.

    Bytes that can never become a character turn into U+FFFD, as does what `flush` still holds.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> str:
        """Return the text that `data` completes; "" while a character is incomplete."""
        return self._decoder.decode(data)

    def flush(self) -> str:
        """Return what was waiting (one U+FFFD, or "") and start afresh."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest


def _visible(match: re.Match[str]) -> str:
    char = match.group()
    if char == "\r":  # alone it would overwrite the line; before a newline it means nothing
        return ""
    if "\ud800" <= char <= "\udfff":  # cannot be encoded at all
        return "\ufffd"
    return f"<U+{ord(char):04X}>"


def safe_text(text: str) -> str:
    """Return `text` with every control character made visible as `<U+XXXX>`.

    Newlines and tabs stay, carriage returns are dropped. Without its ESC (or C1) introducer an
    escape sequence is plain text, so `ESC[31m` shows as `<U+001B>[31m` and hides nothing. Bidi
    overrides are made visible too, because they can make code read differently from what it is.
    """
    return _UNSAFE.sub(_visible, text)


def safe_line(text: str) -> str:
    """Return `text` on one line: like `safe_text`, with every run of white space one blank."""
    return " ".join(safe_text(text).split())
