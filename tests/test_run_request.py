"""A chat without options starts without the command line's library, and is the same chat."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict

import pytest
import typer

from gemmachat.cli import app
from gemmachat.run_request import RunRequest, plain_chat


def test_defaults_are_those_of_the_command_line() -> None:
    group = typer.main.get_command(app)
    command = group.get_command(None, "run")
    with command.make_context("run", []) as context:
        parsed = {name: value for name, value in context.params.items() if name != "_resume"}
    assert {name: value or None for name, value in parsed.items()} == {
        name: value or None for name, value in asdict(RunRequest()).items()
    }


@pytest.mark.parametrize(
    ("words", "first"), [(["run"], None), (["run", "tiny"], "tiny"), (["run", ""], "")]
)
def test_command_line_without_options_is_plain(words: list[str], first: str | None) -> None:
    assert plain_chat(words) == RunRequest(first=first)


@pytest.mark.parametrize(
    "words", [[], ["list"], ["run", "-h"], ["run", "--plain"], ["run", "a", "b"], ["run", "--"]]
)
def test_every_other_command_line_is_parsed(words: list[str]) -> None:
    assert plain_chat(words) is None


def test_prompt_needs_neither_the_parser_nor_what_loads_models() -> None:
    imports = (
        "import sys; from gemmachat import run_request, outcome, terminal_chat, line_editor; "
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", imports], capture_output=True, text=True, check=True
    )
    slow = {"typer", "pydantic", "numpy", "gguf", "rich", "huggingface_hub", "httpx2", "llama_cpp"}
    assert not slow & set(done.stdout.split())
