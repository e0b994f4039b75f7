"""Server-sent events: bytes that may come from anybody to the data of events, within bounds.

The format is that of the HTML Standard, section 9.2; of its fields only `data` is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gemmachat.errors import ServerError

MAX_EVENT = 4 << 20  # bytes of one event, or one line
MAX_STREAM = 512 << 20  # bytes of an answer; the longest context makes about a fifth


def events(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the data of every complete event. Bytes that are no UTF-8 become U+FFFD.

    Raises `ServerError` where a line, an event or the stream is longer than any server's.
    """
    data: list[bytes] = []
    size = 0
    for line in _lines(chunks):
        if not line:
            if data:
                yield b"\n".join(data).decode("utf-8", "replace")
            data, size = [], 0
            continue
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
            size += len(line)
            if size > MAX_EVENT:
                raise ServerError(f"the server sends an event of more than {MAX_EVENT} bytes")


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield complete lines, ended by LF, CRLF or CR."""
    rest, total = bytearray(), 0
    after_cr = False  # an LF that follows belongs to the same end of a line
    for chunk in chunks:
        total += len(chunk)
        if total > MAX_STREAM:
            raise ServerError(f"the server sends more than {MAX_STREAM} bytes")
        new = chunk.removeprefix(b"\n") if after_cr else chunk
        after_cr = chunk.endswith(b"\r")
        *ends, begun = new.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for end in ends:
            yield bytes(rest + end)
            rest.clear()
        rest += begun
        if len(rest) > MAX_EVENT:
            raise ServerError(f"the server sends a line of more than {MAX_EVENT} bytes")


class SurrogatePairs:
    """Joins characters that JSON spells as two halves, where these come in two texts."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, text: str) -> str:
        """Return the text with complete characters; a lone half becomes U+FFFD."""
        text = self._half + text
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return _joined(text[: len(text) - len(self._half)])

    def flush(self) -> str:
        """Return what waited for its other half."""
        half, self._half = self._half, ""
        return _joined(half)


def _joined(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
