"""Colours for source code, one line after the other, as it comes in.

A line is coloured once, in the light of the lines before it, and never again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.syntax import Syntax
from rich.text import Text

if TYPE_CHECKING:
    from pygments.lexer import Lexer

# Lexers run regular expressions over any text: only well-known ones may, on little of it.
_LANGUAGES = frozenset(
    {
        "bash",
        "c",
        "c++",
        "c#",
        "cpp",
        "csharp",
        "css",
        "diff",
        "docker",
        "dockerfile",
        "go",
        "golang",
        "haskell",
        "html",
        "ini",
        "java",
        "javascript",
        "js",
        "json",
        "jsx",
        "kotlin",
        "lua",
        "makefile",
        "perl",
        "php",
        "py",
        "python",
        "py3",
        "r",
        "rb",
        "rs",
        "ruby",
        "rust",
        "scala",
        "sh",
        "shell",
        "sql",
        "swift",
        "toml",
        "ts",
        "tsx",
        "typescript",
        "xml",
        "yaml",
        "yml",
        "zsh",
    }
)
_MAX_LINE = 500  # characters
_MAX_CONTEXT = 50  # lines; they are read again for every line


class CodeHighlighter:
    """The colours of one code block. Languages that are not known stay plain."""

    def __init__(self, language: str, palette: str) -> None:
        self._lexer = _lexer(language)
        self._palette = Syntax.get_theme(palette)
        self._before: list[str] = []

    def line(self, source: str, *, ended: bool = True) -> Text:
        """Return a line in colours; one that has not `ended` may still grow."""
        text = Text(source, end="")
        if self._lexer is not None and len(source) <= _MAX_LINE:
            text = self._coloured(source)
        if ended and len(source) <= _MAX_LINE:
            self._before.append(source)
            if len(self._before) > 2 * _MAX_CONTEXT:
                del self._before[:_MAX_CONTEXT]
        return text

    def _coloured(self, source: str) -> Text:
        assert self._lexer is not None
        line, number = Text("", end=""), 0
        for kind, value in self._lexer.get_tokens("\n".join([*self._before, source])):
            for place, piece in enumerate(value.split("\n")):
                number += place > 0
                if number == len(self._before):
                    line.append(piece, self._palette.get_style_for_token(kind))
        # A lexer that swallows or adds anything must not change what is shown.
        return line if line.plain == source else Text(source, end="")


def _lexer(language: str) -> Lexer | None:
    if language.lower() not in _LANGUAGES:
        return None
    from pygments.lexers import get_lexer_by_name

    return get_lexer_by_name(language.lower(), stripnl=False)
