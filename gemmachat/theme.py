"""Colours for dark and for light terminals: names of the terminal's own palette only.

The user has chosen what these sixteen colours look like, so nothing here can be unreadable there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

ThemeName = Literal["dark", "light"]
THEMES: tuple[ThemeName, ...] = ("dark", "light")

_LIGHT_BACKGROUNDS = {"7", "15"}  # white and bright white


@dataclass(frozen=True, slots=True)
class Theme:
    """Styles as rich spells them; `code` is the name of one of rich's palettes for source code."""

    code: str
    styles: Mapping[str, str]


_COMMON = {
    "gc.text": "none",
    "gc.strong": "bold",
    "gc.em": "italic",
    "gc.s": "strike",
    "gc.h1": "bold underline",
    "gc.quote": "italic",
    "gc.mark": "dim",
    "gc.thought": "dim",
    "gc.status": "dim",
    "gc.table.header": "bold",
}


def _theme(code: str, accent: str, inline_code: str) -> Theme:
    accents = {f"gc.h{level}": f"bold {accent}" for level in range(2, 7)}
    return Theme(
        code,
        {
            **_COMMON,
            **accents,
            "gc.bullet": accent,
            "gc.url": f"underline {accent}",
            "gc.code": inline_code,
        },
    )


_THEMES: dict[ThemeName, Theme] = {
    "dark": _theme("ansi_dark", "bright_cyan", "bright_yellow"),
    "light": _theme("ansi_light", "blue", "magenta"),
}


def theme(name: ThemeName) -> Theme:
    """Return the theme of this name."""
    return _THEMES[name]


def theme_of(environment: Mapping[str, str]) -> ThemeName:
    """Guess from COLORFGBG ("foreground;background"), which many terminals set; else "dark"."""
    background = environment.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if background in _LIGHT_BACKGROUNDS else "dark"
