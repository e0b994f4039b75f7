"""What a shell offers when the name of a model is completed, and how it asks.

typer writes the shell's half (`gemmachat --install-completion`), and asks by variables in the
environment. bash is special: it takes `e2b:q4_0` for three words, so they are joined before typer
sees them, and only what follows the last colon is offered.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout, suppress
from io import StringIO
from typing import Any

from gemmachat.errors import GemmachatError

VARIABLE = "_GEMMACHAT_COMPLETE"


def complete_known(incomplete: str) -> list[tuple[str, str]]:
    """Names that can be pulled or used, with a word on each."""
    return _matching(incomplete, _known)


def complete_here(incomplete: str) -> list[tuple[str, str]]:
    """Names of what lies on the shelf, with a word on each."""
    return _matching(incomplete, _here)


def is_asked() -> bool:
    """Whether this program was started by a shell's completion."""
    return VARIABLE in os.environ


def answer(main: Callable[..., Any]) -> tuple[int, list[str]]:
    """Return the exit code and the lines with which typer's `main` answers the shell's question."""
    split = _join_words() if os.environ[VARIABLE] == "complete_bash" else ""
    told = StringIO()
    code = 0
    with redirect_stdout(told):
        try:
            main(args=[], prog_name="gemmachat", complete_var=VARIABLE)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    lines = filter(None, told.getvalue().splitlines())
    return code, [line.removeprefix(split) for line in lines]


def _join_words() -> str:
    """Undo that bash splits words at colons; return what precedes the part that it completes."""
    words = os.environ.get("COMP_WORDS", "").split("\n")
    current = int(os.environ.get("COMP_CWORD", "0"))
    joined: list[str] = []
    place, split = current, ""
    for number, word in enumerate(words):
        goes_on = word == ":" or (number > 0 and words[number - 1] == ":")
        if goes_on and joined:
            if number <= current:
                place -= 1
            if number == current:
                split = joined[-1] if word != ":" else f"{joined[-1]}:"
            joined[-1] += word
        else:
            joined.append(word)
    os.environ.update(COMP_WORDS="\n".join(joined), COMP_CWORD=str(place))
    return split


def _matching(
    incomplete: str, names: Callable[[], Iterator[tuple[str, str]]]
) -> list[tuple[str, str]]:
    found: dict[str, str] = {}
    with suppress(GemmachatError, OSError):  # a shell has no place for complaints
        found |= names()
    return [(name, about) for name, about in found.items() if name.startswith(incomplete)]


def _here() -> Iterator[tuple[str, str]]:
    from gemmachat.aliases import read_aliases
    from gemmachat.catalog import open_shelf
    from gemmachat.table import size_text

    shelf = open_shelf()
    for unit in shelf.units()[0]:
        yield unit.reference, size_text(unit.nbytes)
    for alias, model in read_aliases(shelf.models).items():
        yield alias, f"alias of {model}"


def _known() -> Iterator[tuple[str, str]]:
    from gemmachat.catalog import load_catalog

    yield from _here()
    for name, entry in load_catalog().items():
        yield name, entry.description
        for quant in entry.quants:
            yield f"{name}:{quant.lower()}", f"{entry.description}, {quant}"
