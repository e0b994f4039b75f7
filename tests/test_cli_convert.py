"""`gemmachat convert` as a script and as a terminal see it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiny_checkpoint as tiny
from conftest import Command, Finished
from embedded import TARGET
from gemmachat.converters.quantize import QUANTIZATIONS
from pseudo_terminal import pseudo_terminal

from gemmachat import cli_convert, transfer_view
from gemmachat.gguf_info import read_header

Convert = Callable[..., Finished]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    tiny.write_target(tmp_path / "target")
    return tmp_path / "target"


@pytest.fixture
def convert(command: Command) -> Convert:
    """Run `gemmachat convert` in this process."""
    return lambda *arguments: command("convert", *map(str, arguments))


def test_written_files_are_listed_with_their_types(convert: Convert, target: Path) -> None:
    tiny.write_drafter(target.with_name("drafter"))
    output = target.with_name("m.gguf")
    done = convert(target, "-o", output, "--drafter", target.with_name("drafter"))
    assert done.code == 0
    first, second = done.out.splitlines()
    assert first.startswith(f"{output}: 0.")
    assert "Q5_0" in first
    assert second.startswith(f"{target.with_name('m-drafter.gguf')}: ")
    assert "Q8_0" in second
    assert done.err.splitlines()[-1].startswith(f"Chat with it: gemmachat run {output} --drafter ")


def test_notes_go_to_standard_error(convert: Convert, target: Path) -> None:
    tensors = tiny.stored_names(tiny.target_tensors(tiny.target_config()))
    tensors["model.norm.weight"][3] = np.nan
    tensors["model.vision_tower.patch.weight"] = np.ones((2, 2), np.float32)
    (target / "model.safetensors").write_bytes(tiny.safetensors(tensors))
    done = convert(target, "-o", target.with_name("m.gguf"), "--quant", "q8_0")
    assert done.code == 0
    assert done.out.count("\n") == 1
    assert "1 tensors for images and sound are left out" in done.err
    assert (
        "'model.norm.weight' in 'model.safetensors' holds 1 weights that are NaN or infinite"
        in done.err
    )


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (("{target}",), 2, "Missing option '-o'"),
        (("{target}", "-o", "{out}", "--quant", "Q3_K"), 2, "'Q3_K' is not known: choose one of"),
        (("{target}", "-o", "{out}", "--drafter-quant", "x", "--drafter", "{target}"), 2, "'x'"),
        (("{root}/absent", "-o", "{out}"), 3, "absent' does not exist"),
        (("{root}", "-o", "{out}"), 3, "config.json' is missing"),
        (("{target}/config.json", "-o", "{out}"), 4, "is not a GGUF file"),
        (("{target}", "-o", "{root}/none/o.gguf"), 1, "none' does not exist: create it first"),
        (("{target}", "-o", "{target}"), 2, "must be a file name that ends in .gguf"),
        (("{target}", "-o", "", "--drafter", "{target}"), 2, "ends in .gguf"),
        (("{target}", "-o", "/", "--drafter", "{target}"), 2, "ends in .gguf"),
        (("{target}", "-o", "x" * 300 + ".gguf"), 1, "File name too long"),
        (("x" * 300, "-o", "{out}"), 3, "File name too long"),
        (("~nosuchuser/x", "-o", "{out}"), 3, "'~nosuchuser/x' does not exist"),
        (("{target}", "-o", "{out}", "--drafter-quant", "Q8_0"), 2, "needs --drafter"),
        (("{target}", "-o", "{root}/here.gguf"), 1, "exists already: pass --force"),
        (("{target}", "-o", "{root}/folder.gguf"), 1, "is a folder"),
        (("{target}", "-o", "{out}", "--drafter", "{target}"), 4, "must be a Gemma 4 assistant"),
        (("{target}", "-o", "{out}", "--imatrix", "{root}/none"), 3, "none' does not exist"),
    ],
)
def test_mistake_is_one_sentence_and_its_exit_code(
    convert: Convert, target: Path, arguments: tuple[str, ...], code: int, expected: str
) -> None:
    (target.parent / "here.gguf").write_bytes(b"")
    (target.parent / "folder.gguf").mkdir()
    names = {"target": target, "root": target.parent, "out": target.with_name("out.gguf")}
    done = convert(*(argument.format(**names) for argument in arguments))
    assert done.code == code, done.err
    assert expected in done.err
    assert done.err.count("\n") == 1
    left = sorted(path.name for path in target.parent.iterdir())
    assert left == ["folder.gguf", "here.gguf", "target"]


def test_read_only_source_is_enough(convert: Convert, target: Path) -> None:
    for path in (*target.iterdir(), target):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        done = convert(target, "-o", target.with_name("m.gguf"))
    finally:
        target.chmod(0o755)
    assert done.code == 0, done.err


def test_file_name_cannot_write_to_the_terminal(convert: Convert, target: Path) -> None:
    output = target.with_name("m\x1b[2J.gguf")
    done = convert(target, "-o", output)
    assert done.code == 0
    assert output.exists()
    assert "\x1b" not in done.out + done.err


def test_progress_is_plain_lines_without_a_terminal(
    convert: Convert, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer_view, "SECONDS_BETWEEN_LINES", 0.0)
    done = convert(target, "-o", target.with_name("m.gguf"))
    assert done.code == 0
    lines = [line for line in done.err.splitlines() if line.startswith("converting")]
    assert len(lines) > 3
    assert all(line.startswith("converting: 0.00 of 0.00 GB, ") for line in lines)
    assert lines[-1].endswith(", 0 s left")


def test_progress_is_a_bar_on_a_terminal(tmp_path: Path) -> None:
    output = str(tmp_path / "m.gguf")
    with pseudo_terminal("convert", str(TARGET), "-o", output, "--quant", "Q6_K") as terminal:
        assert terminal.end() == 0
        assert b"converting" in terminal.raw
        assert re.search(rb"m\.gguf: \d", terminal.raw)
    assert read_header(tmp_path / "m.gguf").metadata["general.file_type"] == 18


def test_interrupt_ends_with_its_code_and_leaves_nothing(tmp_path: Path) -> None:
    # Enough work to be interrupted in: the weights of the embedded pair, in the slowest type.
    command = [sys.executable, "-m", "gemmachat", "convert", str(TARGET), "-o", "m.gguf"]
    child = subprocess.Popen(
        [*command, "--quant", "IQ4_NL"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    while not has_open_output(child.pid, tmp_path):
        assert child.poll() is None, "the conversion ended before it could be interrupted"
        time.sleep(0.005)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert (child.returncode, errors) == (130, "")
    assert list(tmp_path.iterdir()) == []


def has_open_output(pid: int, folder: Path) -> bool:
    """Whether the process writes a file in the folder, with a name or without one."""
    try:
        links = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False
    return any(link.startswith(f"{folder}/") for link in links)


def test_types_that_help_lists_are_those_there_are() -> None:
    assert ", ".join(QUANTIZATIONS) == cli_convert.TYPES
