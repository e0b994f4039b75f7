"""An answer on a terminal while it comes: Markdown, drawn a few times a second.

A thread of its own draws, so that what a burst of tokens brought is seen before the next burst, and
the model does not wait for the terminal. Blocks that have ended are printed once; the one that
grows is drawn anew, as much of its end as the window holds.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TextIO

from gemmachat.block_view import BlockView
from gemmachat.live_area import LiveArea
from gemmachat.markdown import Block, MarkdownBlocks, ThoughtLines, folded_thought
from gemmachat.parse import Part, Piece
from gemmachat.sanitize import safe_text

_PAUSE_S = 0.04  # between two draws
_SHARE = 4  # a draw is followed by a pause of at least so many times what it took
_WAIT_S = 0.5  # until a wait is worth a word
_SMALLEST = os.terminal_size((20, 3))


class AnswerView:
    """Draws one answer. `begin`, then pieces, then `end`, which may come at any time."""

    def __init__(self, out: TextIO, view: BlockView, *, fold_thoughts: bool) -> None:
        self._out = out
        self._view = view
        self._fold = fold_thoughts
        self._area = LiveArea(out)
        self._answer = MarkdownBlocks()
        self._thought = ThoughtLines()
        self._part: Part | None = None
        self._size = _SMALLEST
        self._ended: list[Block] = []
        self._changed = False
        self._began = self._thought_began = time.monotonic()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._failure: OSError | None = None
        self._painter = threading.Thread(target=self._paint, name="painter", daemon=True)
        self._painter.start()

    def add(self, piece: Piece) -> None:
        """Take a piece; it is drawn soon. Raises what went wrong with the terminal meanwhile."""
        with self._lock:
            if piece.part != self._part:
                self._end_part()
                self._part = piece.part
                self._thought_began = time.monotonic()
            if piece.part == "answer":
                self._ended += self._answer.feed(safe_text(piece.text))
            elif not self._folded():
                self._ended += self._thought.feed(safe_text(piece.text))
            self._changed = True
        if self._failure:
            raise self._failure

    def end(self) -> None:
        """Draw the rest for good; the cursor is at the start of a line afterwards."""
        self._stopped.set()
        self._painter.join()
        with self._lock:
            self._end_part()
            self._part = None
            self._draw()

    def _folded(self) -> bool:
        return self._part == "thought" and self._fold

    def _end_part(self) -> None:
        if self._part == "answer":
            self._ended += self._answer.flush()
        elif self._folded():
            seconds = time.monotonic() - self._thought_began
            lines = (folded_thought(seconds), "")
            self._ended += [Block("thought", text, spaced=False) for text in lines]
        elif self._part:
            self._ended += self._thought.flush()

    def _paint(self) -> None:
        pause = _PAUSE_S
        while not self._stopped.wait(pause):
            started = time.monotonic()
            try:
                with self._lock:
                    if self._changed or self._part != "answer" or self._size != _size(self._out):
                        self._draw()
            except OSError as error:  # `add` and `end` tell
                self._failure = error
                return
            pause = max(_PAUSE_S, _SHARE * (time.monotonic() - started))

    def _draw(self) -> None:
        self._size = _size(self._out)
        width, height = self._size
        printed = [line for block in self._ended for line in self._view.lines(block, width)]
        self._ended, self._changed = [], False
        rows = [
            line
            for block in self._growing()
            for line in self._view.lines(block, width, ended=False)
        ]
        if not rows:
            rows = self._waiting(width)
        self._area.draw(printed, rows[-(height - 1) :])

    def _growing(self) -> list[Block]:
        if self._part == "answer":
            return self._answer.growing()
        return self._thought.growing() if self._part else []

    def _waiting(self, width: int) -> list[str]:
        """One row on what takes so long, while there is nothing else to see."""
        if self._stopped.is_set() or (self._part and not self._folded()):
            return []
        what, since = "reading the prompt", self._began
        if self._part:
            what, since = "thinking", self._thought_began
        seconds = time.monotonic() - since
        if seconds < _WAIT_S:
            return []
        word = f"{what}, {seconds:.0f} s; Ctrl-C stops"[: width - 1]
        return self._view.lines(Block("thought", word, spaced=False), width)


def _size(out: TextIO) -> os.terminal_size:
    """Columns and rows of a terminal now; it may have changed since the last draw."""
    try:
        size = os.get_terminal_size(out.fileno())
    except (OSError, ValueError):
        return _SMALLEST
    return os.terminal_size((max(size.columns, 1), max(size.lines, 2)))
