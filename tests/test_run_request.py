"""A chat without options starts without the command line's library, and is the same chat."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict

import pytest
import typer

from gemmachat.cli import app
from gemmachat.plain_chat import words_of
from gemmachat.run_request import RunRequest


def test_defaults_are_those_of_the_command_line() -> None:
    group = typer.main.get_command(app)
    command = group.get_command(None, "run")
    with command.make_context("run", []) as context:
        parsed = {name: value for name, value in context.params.items() if name != "_resume"}
    assert {name: value or None for name, value in parsed.items()} == {
        name: value or None for name, value in asdict(RunRequest()).items()
    }


@pytest.mark.parametrize("words", [[], ["tiny"], [""]])
def test_command_line_without_options_is_plain(words: list[str]) -> None:
    assert words_of(["run", *words]) == words


@pytest.mark.parametrize(
    "words", [[], ["list"], ["run", "-h"], ["run", "--plain"], ["run", "a", "b"], ["run", "--"]]
)
def test_every_other_command_line_is_parsed(words: list[str]) -> None:
    assert words_of(words) is None


def test_prompt_needs_neither_the_parser_nor_what_chats_and_loads_models() -> None:
    imports = (
        "import sys; from gemmachat import plain_chat, outcome, line_editor, catalog, loading; "
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", imports], capture_output=True, text=True, check=True
    )
    slow = {"typer", "pydantic", "numpy", "gguf", "rich", "huggingface_hub", "httpx2", "llama_cpp"}
    later = {f"gemmachat.{name}" for name in ("talk", "store", "conversation", "command_runner")}
    assert not (slow | later) & set(done.stdout.split())
