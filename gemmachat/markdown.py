"""Streamed Markdown to blocks: pure, nothing is drawn here.

A block is what can be drawn on its own: a heading, a paragraph, a table, a quote, one item of a
list, a line of code. A block that has ended never changes again, so it can be printed for good
while the next one still grows. Blocks are told apart by their lines as in CommonMark, in one pass.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

BlockKind = Literal["text", "item", "code_open", "code_line", "code_close", "thought"]

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`\n]*)$")
_NESTED_FENCE = re.compile(r"[ >]*(?:[-*+][ ]+|\d{1,9}[.)][ ]+)?(`{3,}|~{3,})")
_ITEM = re.compile(r"( {0,3})([-*+]|\d{1,9}[.)])([ \t]+)(?=\S)|( {0,3})([-*+]|\d{1,9}[.)])[ \t]*$")
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_RULE = re.compile(r" {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
_QUOTE = re.compile(r" {0,3}>")
# The beginning of a line that may yet turn out to be anything.
_UNDECIDED = re.compile(r"(?:[-*+_=~`#>|: \t]*| {0,3}\d{1,9}[.)]?)$")


@dataclass(frozen=True, slots=True)
class Block:
    """Markdown source that is drawn in one piece.

    `text` is the source of a "text" or "item", one line of code or of a thought without its
    newline, or the language that a code block names. `spaced`: a blank line goes before it.
    """

    kind: BlockKind
    text: str
    spaced: bool


class MarkdownBlocks:
    """Splits a text into blocks while it comes in, in pieces of any size."""

    def __init__(self) -> None:
        self._partial = ""  # a line without its end yet
        self._lines: list[str] = []  # of the block that grows
        self._kind: Literal["text", "item"] = "text"
        self._indent = 0  # of the content of an item
        self._fence = ""  # that is open, at the top level
        self._nested_fence = ""  # that is open inside the block
        self._blank = False  # a blank line since the last line with text
        self._spaced = False  # whether a blank line goes before the block that grows
        self._any = False  # whether there was a block

    def feed(self, text: str) -> list[Block]:
        """Return the blocks that `text` completes."""
        *lines, self._partial = (self._partial + text).split("\n")
        return [block for line in lines for block in self._line(line)]

    def flush(self) -> list[Block]:
        """Return what was left open at the end of the text."""
        line, self._partial = self._partial, ""
        blocks = self._line(line) if line else []
        blocks += self._end_block()
        if self._fence:
            self._fence = ""
            blocks.append(Block("code_close", "", spaced=False))
        return blocks

    def growing(self) -> list[Block]:
        """Return how the open end would be drawn now: at most two blocks."""
        partial = "" if _UNDECIDED.match(self._partial) and not self._fence else self._partial
        if self._fence:
            closes = partial.strip(" ") and set(partial.strip(" ")) <= {self._fence[0]}
            return [] if closes or not partial else [Block("code_line", partial, spaced=False)]
        if not partial or (_FENCE.match(partial) and not self._nested_fence):
            return [self._block()] if self._lines else []
        if self._lines and not self._begins_block(partial):
            return [Block(self._kind, "\n".join([*self._lines, partial]), self._spaced)]
        started = self._start_kind(partial)
        new = Block(started, partial, spaced=self._is_spaced(started))
        return [*([self._block()] if self._lines else []), new]

    def _line(self, line: str) -> list[Block]:
        if self._fence:
            return [self._code_line(line)]
        if not line.strip():
            return self._blank_line(line)
        ended: list[Block] = []
        if self._lines and self._begins_block(line):
            ended = self._end_block()
        fence = None if self._lines else _FENCE.match(line)
        if fence:
            self._fence = fence[1]
            language = fence[2].split()[0] if fence[2].split() else ""
            ended.append(Block("code_open", language, spaced=self._any))
            self._any, self._blank = True, False
            return ended
        if not self._lines:
            self._start(line)
        elif self._blank:
            self._lines.append("")
        self._blank = False
        self._add(line)
        alone = len(self._lines) == 1 and (_HEADING.match(line) or _RULE.match(line))
        underlined = len(self._lines) > 1 and _UNDERLINE.match(line) and self._kind == "text"
        if (alone or underlined) and not self._nested_fence:
            ended += self._end_block()
        return ended

    def _code_line(self, line: str) -> Block:
        bare = line.strip(" \t")
        if bare and set(bare) == {self._fence[0]} and len(bare) >= len(self._fence):
            self._fence = ""
            return Block("code_close", "", spaced=False)
        return Block("code_line", line, spaced=False)

    def _blank_line(self, line: str) -> list[Block]:
        if self._nested_fence:
            self._lines.append(line)
            return []
        self._blank = True
        # An item may go on after a blank line, if what follows is indented.
        return [] if self._kind == "item" and self._lines else self._end_block()

    def _begins_block(self, line: str) -> bool:
        """Whether a line with text cannot belong to the block that grows."""
        if self._nested_fence:
            return False
        indent = len(line) - len(line.lstrip(" "))
        if self._kind == "item":
            if indent >= min(self._indent, 2):
                return bool(self._blank and indent < 2)
            if self._blank:
                return True
        if _QUOTE.match(line):
            return not _QUOTE.match(self._lines[0])
        if _RULE.match(line) and _UNDERLINE.match(line) and self._kind == "text":
            return bool(_QUOTE.match(self._lines[0]))  # otherwise it underlines a heading
        return any(
            pattern.match(line) is not None for pattern in (_FENCE, _HEADING, _RULE)
        ) or self._is_item(line)

    def _is_item(self, line: str) -> bool:
        item = _ITEM.match(line)
        if item is None or _RULE.match(line):
            return False
        # A number inside a paragraph begins a list only if it is 1, as in CommonMark.
        number = (item[2] or item[5]).rstrip(".)")
        inside_text = bool(self._lines) and self._kind == "text"
        empty = item[2] is None
        return not inside_text or (not empty and (not number.isdigit() or number == "1"))

    def _start_kind(self, line: str) -> Literal["text", "item"]:
        return "item" if _ITEM.match(line) and not _RULE.match(line) else "text"

    def _start(self, line: str) -> None:
        kind = self._start_kind(line)
        self._spaced = self._is_spaced(kind)
        self._kind = kind
        item = _ITEM.match(line)
        self._indent = item.end() if item else 0
        self._any = True

    def _is_spaced(self, kind: str) -> bool:
        """Items are as close to what precedes them as in the source."""
        return self._any and (self._blank or kind != "item")

    def _add(self, line: str) -> None:
        self._lines.append(line)
        fence = _NESTED_FENCE.match(line)
        if fence is None or (self._kind == "text" and not _QUOTE.match(self._lines[0])):
            return
        if not self._nested_fence:
            self._nested_fence = fence[1]
        elif fence[1].startswith(self._nested_fence) and line.rstrip().endswith(fence[1]):
            self._nested_fence = ""

    def _block(self) -> Block:
        return Block(self._kind, "\n".join(self._lines), self._spaced)

    def _end_block(self) -> list[Block]:
        if not self._lines:
            return []
        block = self._block()
        self._lines, self._nested_fence = [], ""
        self._kind = "text"
        return [block]


class ThoughtLines:
    """Splits a thought into lines like `MarkdownBlocks`; it has no further structure.

    Blank lines at its end are left out, and one is put after it.
    """

    def __init__(self) -> None:
        self._partial = ""
        self._blank = 0  # lines that wait for text to follow
        self._any = False

    def feed(self, text: str) -> list[Block]:
        """Return the lines that `text` completes."""
        *lines, self._partial = (self._partial + text).split("\n")
        return [block for line in lines for block in self._line(line)]

    def flush(self) -> list[Block]:
        """Return what was left open at the end of the thought."""
        line, self._partial = self._partial, ""
        blocks = self._line(line)
        if self._any:
            blocks.append(Block("thought", "", spaced=False))
        self._blank, self._any = 0, False
        return blocks

    def growing(self) -> list[Block]:
        """Return the line that is not complete yet."""
        return [Block("thought", self._partial, spaced=False)] if self._partial.strip() else []

    def _line(self, line: str) -> list[Block]:
        if not line.strip():
            self._blank += self._any
            return []
        lines = [""] * self._blank + [line]
        self._blank, self._any = 0, True
        return [Block("thought", text, spaced=False) for text in lines]


def folded_thought(seconds: float) -> str:
    """What stands for a thought that is not shown."""
    return f"thought for {seconds:.0f} s (/think show)"
