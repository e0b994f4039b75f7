"""Blocks of Markdown as lines for a terminal of a given width.

The source is parsed by markdown-it and laid out with rich's texts and tables. Nothing of it may be
lost: HTML stays text, links show their address, and what cannot be parsed is shown as it is. All
that leaves here is safe: text is checked once more after parsing, which can make characters out of
entities, and the only escape sequences are colours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from rich.box import ASCII2, SIMPLE_HEAD
from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text
from rich.theme import Theme as RichTheme

from gemmachat.code_highlight import CodeHighlighter
from gemmachat.markdown import Block
from gemmachat.sanitize import safe_text
from gemmachat.theme import Theme

_MAX_SOURCE = 50_000  # characters of one block; more is shown as it is
_MIN_WIDTH = 4
_RULE_WIDTH = 40


class BlockView:
    """Draws blocks. A code block is drawn line by line, so its blocks must come in order."""

    def __init__(self, theme: Theme, *, colour: bool, unicode: bool) -> None:
        self._console = Console(
            width=80,
            color_system="standard",
            force_terminal=True,
            markup=False,
            emoji=False,
            highlight=False,
            theme=RichTheme(dict(theme.styles)),
        )
        self._palette = theme.code
        self._colour = colour
        self._unicode = unicode
        self._highlighter = CodeHighlighter("", theme.code)

    def lines(self, block: Block, width: int, *, ended: bool = True) -> list[str]:
        """Return the lines of a block, none wider than `width`.

        Code and thoughts that have ended are the exception: the terminal wraps them, so that they
        can be copied as they are.
        """
        width = max(width, _MIN_WIDTH)
        block = replace(block, text=safe_text(block.text))
        texts = list(self._texts(block, width, ended=ended))
        if not ended or block.kind in ("text", "item"):  # marks alone may be wider than the window
            texts = [line for text in texts for line in self._fitting(text, width)]
        return [*([""] if block.spaced else []), *map(self._encoded, texts)]

    def _texts(self, block: Block, width: int, *, ended: bool) -> Iterable[Text]:
        if block.kind == "code_open":
            self._highlighter = CodeHighlighter(block.text, self._palette)
            return [self._rule(width, block.text)]
        if block.kind == "code_close":
            return [self._rule(width, "")]
        if block.kind in ("code_line", "thought"):
            if block.kind == "thought":
                line = Text(block.text, "gc.thought", end="")
            else:
                line = self._highlighter.line(block.text, ended=ended)
            return [line] if ended else self._wrap(line, width)
        if len(block.text) <= _MAX_SOURCE:
            try:
                return list(self._nodes(SyntaxTreeNode(_parser().parse(block.text)), width))
            except RecursionError:  # nested too deep for anyone to have meant it
                pass
        return self._wrap(Text(block.text, end=""), width)

    def _nodes(self, parent: SyntaxTreeNode, width: int) -> Iterator[Text]:
        """Draw the blocks inside a node, with blank lines between but in tight lists."""
        width = max(width, _MIN_WIDTH)
        for number, node in enumerate(parent.children):
            if number and not parent.children[number - 1].hidden:
                yield Text("", end="")
            yield from self._node(node, width)

    def _node(self, node: SyntaxTreeNode, width: int) -> Iterable[Text]:
        if node.type in ("bullet_list", "ordered_list"):
            return self._list(node, width)
        if node.type == "blockquote":
            bar = Text("▌ " if self._unicode else "> ", "gc.mark", end="")
            return _prefixed(bar, bar, self._nodes(node, width - 2), "gc.quote")
        if node.type in ("fence", "code_block"):
            return self._nested_code(node, width)
        if node.type == "hr":
            return [self._rule(width, "")]
        if node.type == "table":
            return self._table(node, width)
        style = f"gc.{node.tag}" if node.type == "heading" else "gc.text"
        inline = Text("", style, end="")
        for child in node.children:
            _add_inline(inline, child)
        return self._wrap(inline, width)

    def _list(self, node: SyntaxTreeNode, width: int) -> Iterator[Text]:
        first = int(node.attrs.get("start", 1))
        for number, item in enumerate(node.children, first):
            if node.type == "ordered_list":
                mark = f" {number}{item.markup} "
            else:
                mark = " • " if self._unicode else " - "
            mark = mark if len(mark) < width - _MIN_WIDTH else mark.strip() + " "
            bullet = Text(mark, "gc.bullet", end="")
            rest = Text(" " * len(mark), end="")
            lines = list(self._nodes(item, width - len(mark))) or [Text("", end="")]
            yield from _prefixed(bullet, rest, lines)

    def _nested_code(self, node: SyntaxTreeNode, width: int) -> Iterator[Text]:
        language = (node.info.split() or [""])[0]
        highlighter = CodeHighlighter(language, self._palette)
        for line in node.content.rstrip("\n").split("\n"):
            yield from _prefixed(
                Text("  ", end=""),
                Text("  ", end=""),
                self._wrap(highlighter.line(line), width - 2),
            )

    def _table(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        table = Table(
            box=SIMPLE_HEAD if self._unicode else ASCII2,
            show_edge=False,
            pad_edge=False,
            border_style="gc.mark",
            header_style="gc.table.header",
        )
        for part in node.children:
            for row in part.children:
                cells = [self._cell(cell) for cell in row.children]
                if part.type == "thead":
                    for cell in cells:
                        table.add_column(cell, justify=cell.justify or "left", overflow="fold")
                else:
                    table.add_row(*cells)
        options = self._console.options.update(width=width)
        drawn = self._console.render_lines(table, options, pad=False)
        return [_text_of(line) for line in drawn]

    def _cell(self, node: SyntaxTreeNode) -> Text:
        text = Text("", end="")
        for child in node.children:
            _add_inline(text, child)
        align = str(node.attrs.get("style", ""))
        text.justify = "right" if "right" in align else "center" if "center" in align else "left"
        return text

    def _rule(self, width: int, label: str) -> Text:
        line = "─" if self._unicode else "-"
        room = min(width, _RULE_WIDTH)
        head = f"{line * 2} {label[: room - 6]} " if label and room > 10 else ""
        return Text(head + line * (room - len(head)), "gc.mark", end="")

    def _fitting(self, text: Text, width: int) -> list[Text]:
        return [text] if text.cell_len <= width else self._wrap(text, width)

    def _wrap(self, text: Text, width: int) -> list[Text]:
        lines = text.wrap(self._console, width, overflow="fold", tab_size=4)
        return list(lines) or [Text("", end="")]

    def _encoded(self, text: Text) -> str:
        text.rstrip()
        text.stylize_before(text.style)  # rich leaves it to its caller where there is nothing else
        return "".join(self._segment(*segment[:2]) for segment in text.render(self._console))

    def _segment(self, text: str, style: Style | None) -> str:
        safe = safe_text(text)
        if not style:
            return safe
        if not self._colour:
            style = style.without_color
        return style.update_link(None).render(safe, color_system=ColorSystem.STANDARD)


@cache
def _parser() -> MarkdownIt:
    """CommonMark with tables, in which nothing disappears.

    HTML would, and so would definitions of references.
    """
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 1000})
    return parser.enable(["table", "strikethrough"]).disable("reference")


_INLINE_STYLES = {
    "strong": "gc.strong",
    "em": "gc.em",
    "s": "gc.s",
    "code_inline": "gc.code",
}


def _add_inline(text: Text, node: SyntaxTreeNode) -> None:
    """Append what an inline node shows."""
    start = len(text)
    children = () if node.type == "image" else node.children
    if node.type == "softbreak":
        text.append(" ")
    elif node.type == "hardbreak":
        text.append("\n")
    elif not children:
        text.append(safe_text(node.content))
    for child in children:
        _add_inline(text, child)
    if node.type in _INLINE_STYLES:
        text.stylize(_INLINE_STYLES[node.type], start)
    elif node.type in ("link", "image"):
        _add_address(text, safe_text(str(node.attrs.get("href") or node.attrs.get("src"))), start)


def _add_address(text: Text, address: str, start: int) -> None:
    if text.plain[start:] == address:
        text.stylize("gc.url", start)
    elif address:
        text.append(" (")
        text.append(address, "gc.url")
        text.append(")")


def _prefixed(
    first: Text, rest: Text, lines: Iterable[Text], style: str = "none"
) -> Iterator[Text]:
    for number, line in enumerate(lines):
        line.stylize_before(style)
        joined = Text("", end="")
        joined.append_text(rest if number else first)
        yield joined.append_text(line)


def _text_of(segments: Iterable[Segment]) -> Text:
    text = Text("", end="")
    for content, style, _ in segments:
        text.append(content, style)
    return text
