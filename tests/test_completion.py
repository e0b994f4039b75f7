"""Names of models complete in shells: as each shell asks, and in a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest
from conftest import Command
from small_models import shelve


@pytest.fixture
def asked(command: Command, monkeypatch: pytest.MonkeyPatch):
    """Ask as a shell does: `asked("bash", "run e2")`, the cursor at the end."""

    def ask(shell: str, line: str) -> list[str]:
        words = f"gemmachat {line}".replace(":", " : ").split()
        if line.endswith(" "):
            words.append("")
        monkeypatch.setenv("_GEMMACHAT_COMPLETE", f"complete_{shell}")
        monkeypatch.setenv("COMP_WORDS", "\n".join(words))
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", f"gemmachat {line}")
        monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
        done = command()
        assert done.err == ""
        return done.out.splitlines()

    return ask


def test_names_of_the_catalog_the_shelf_and_aliases_are_offered(asked, models: Path) -> None:
    shelve(models, "mine", "Q8_0")
    offered = asked("bash", "run ")
    assert {"tiny", "e2b", "26b-a4b-qat", "mine:q8_0", "e2b:q4_0"} <= set(offered)
    assert asked("bash", "run mi") == ["mine:q8_0"]
    assert asked("bash", "show 31b-") == ["31b-qat", "31b-qat:q4_0", "31b-qat:ud-q4_k_xl"]


def test_commands_on_the_shelf_offer_only_what_is_there(
    asked, command: Command, models: Path
) -> None:
    shelve(models, "e2b", "Q4_0")
    command("alias", "fast", "e2b")
    for line in ("rm ", "verify ", "rm e2b:q4_0 "):
        assert asked("bash", line) == ["e2b:q4_0", "fast"]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("run e2b:", ["q4_0", "q4_k_m", "q8_0"]),
        ("run e2b:q4", ["q4_0", "q4_k_m"]),
        ("run e2b:q9", []),
        ("show 31b-qat:", ["q4_0", "ud-q4_k_xl"]),
    ],
)
def test_bash_gets_what_follows_the_colon(
    asked, models: Path, line: str, offered: list[str]
) -> None:
    assert asked("bash", line) == offered


def test_word_after_one_with_a_colon_is_completed_in_bash(asked, models: Path) -> None:
    shelve(models, "mine", "Q8_0")
    assert asked("bash", "rm mine:q8_0 mi") == ["mine:q8_0"]


def test_zsh_and_fish_get_whole_names_with_a_word_on_each(asked, models: Path) -> None:
    shelve(models, "mine", "Q8_0")
    assert asked("zsh", "run mine:") == [r"""_arguments '*: :(("mine\\:q8_0":"11.3 MB"))'"""]
    assert asked("fish", "run mine:") == ["mine:q8_0\t11.3 MB"]


def test_broken_shelf_completes_what_can_be_read(asked, models: Path) -> None:
    models.mkdir()
    (models / "aliases.json").write_text("[")
    shelve(models, "mine", "Q8_0")
    assert asked("bash", "rm ") == ["mine:q8_0"]


def test_script_for_a_shell_is_written_by_typer(command: Command) -> None:
    with pytest.raises(SystemExit):
        command("--show-completion", "bash")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_tab_completes_a_model_in_a_real_bash(models: Path, tmp_path: Path) -> None:
    shelve(models, "mine", "Q8_0")
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "gemmachat"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gemmachat "$@"\n')
    program.chmod(0o700)
    environment = {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PS1": "$ ",
        "TERM": "dumb",
    }
    script = subprocess.run(
        [program, "--show-completion", "bash"],
        env={**environment, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (tmp_path / "script").write_text(script)
    bash = pexpect.spawn(
        "bash", ["--norc", "--noprofile", "-i"], env=environment, timeout=20, encoding="utf-8"
    )
    bash.sendline(f"source {tmp_path / 'script'}; echo re''ady")
    bash.expect("ready")
    bash.send("gemmachat show mi\t")
    bash.expect("mine:q8_0")
    bash.sendline(" | head -n 1")
    bash.expect("mine:q8_0\r\n")
    bash.send("gemmachat show mine:\t")
    bash.expect("mine:q8_0")
    bash.sendline(" | head -n 1")
    bash.expect("mine:q8_0\r\n")
    bash.close(force=True)
