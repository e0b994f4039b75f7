"""The README names what there is: every source file in its map, every option of run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from gemmachat import cli

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def line_of(path: Path) -> str:
    """What the map calls a file; a header and its source share a line."""
    pair = {path.with_suffix(".h").name, path.with_suffix(".cpp").name}
    together = pair <= {other.name for other in path.parent.iterdir()}
    return f"{path.stem}.*" if together else path.name


@pytest.mark.parametrize("folder", ["gemmachat", "converters", "native"])
def test_file_map_names_every_source_file_once(folder: str) -> None:
    listing = README.partition("### File map")[2].partition(f"\n{folder}/ ")[2]
    part = re.split(r"^\S", listing, maxsplit=1, flags=re.MULTILINE)[0]
    named = re.findall(r"^  (\w+\.(?:py|cpp|h|\*)) ", part, re.MULTILINE)
    files = (path for path in (ROOT / folder).iterdir() if path.suffix in (".py", ".cpp", ".h"))
    assert sorted({*named, "__init__.py"}) == sorted({*map(line_of, files), "__init__.py"})
    assert len(named) == len(set(named))


def test_every_option_of_run_is_told() -> None:
    command = typer.main.get_command(cli.app)
    options = [name for option in command.commands["run"].params for name in option.opts]
    told = set(re.findall(r"--[a-z-]+", README))
    assert {name for name in options if name.startswith("--")} <= told | {"--help"}
