"""Lines broken between words where they are wider than the terminal."""

from __future__ import annotations

_NARROWEST = 20  # columns; below, a break between words would waste too many


def wrapped(line: str, width: int | None) -> list[str]:
    """Return a line in parts of at most `width` columns, None for any; it keeps its indentation.

    A word that is too wide is left to the terminal to break.
    """
    if width is None or width < _NARROWEST or len(line) * 2 <= width or "\n" in line:
        return [line]
    from wcwidth import wcswidth

    indent = line[: len(line) - len(line.lstrip(" "))]
    parts = [indent]
    for number, word in enumerate(line[len(indent) :].split(" ")):
        longer = f"{parts[-1]} {word}" if number else parts[-1] + word
        if number and wcswidth(longer) > width:
            parts.append(indent + word)
        else:
            parts[-1] = longer
    return parts
