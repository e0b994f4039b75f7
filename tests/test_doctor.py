"""The doctor tells a sound installation from a broken one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from conftest import Command

from gemmachat import catalog, native
from gemmachat.doctor import copies
from gemmachat.errors import EngineError

MAPS = """\
7f00-7f01 r--p 00000000 08:01 101 /x/lib/libllama.so.0
7f01-7f02 r-xp 00001000 08:01 101 /x/lib/libllama.so.0
7f02-7f03 r--p 00000000 08:01 102 /x/lib/libggml-base.so.0
7f03-7f04 r--p 00000000 08:01 103 /x/my models/libggml-cpu.so.0.25.3
7f04-7f05 rw-p 00000000 00:00 0
7f05-7f06 rw-p 00000000 00:00 0 [heap]
7f06-7f07 r--p 00000000 08:01 104 /usr/lib/libc.so.6
""".splitlines()


def test_one_copy_of_each_library_is_found() -> None:
    assert copies(MAPS) == {
        "libggml-base": ["/x/lib/libggml-base.so.0"],
        "libggml-cpu": ["/x/my models/libggml-cpu.so.0.25.3"],
        "libllama": ["/x/lib/libllama.so.0"],
    }


def test_second_copy_under_another_name_is_found() -> None:
    second = "7f08-7f09 r--p 00000000 08:01 105 /x/lib/libllama.so"
    assert copies([*MAPS, second])["libllama"] == ["/x/lib/libllama.so", "/x/lib/libllama.so.0"]


def test_same_file_under_two_names_is_one_copy() -> None:
    linked = "7f08-7f09 r--p 00000000 08:01 101 /x/lib/libllama.so"
    assert len(copies([*MAPS, linked])["libllama"]) == 1


def test_this_installation_is_sound(command: Command) -> None:
    done = command("doctor", "--json")
    report = json.loads(done.out)
    assert report["problems"] == []
    assert (done.code, done.err) == (0, "")
    assert report["llama_cpp_python"] == report["built_for"]
    assert "CPU" in report["system_info"]
    assert [Path(path).name for path in report["embedded_pair"]] == [
        "tiny.gguf",
        "tiny-drafter.gguf",
    ]
    assert report["early_exit"] == "on, layers 4-7 skipped in prefill"
    if sys.platform == "linux":
        assert {"libllama", "libggml", "libggml-base", "libgemmachat"} <= set(report["libraries"])
        assert report["memory_total_bytes"] > report["memory_available_bytes"] > 0


def test_readable_report_has_a_line_for_each_fact(command: Command) -> None:
    done = command("doctor")
    assert done.code == 0
    assert "llama cpp python: 0." in done.out
    assert "embedded pair: " in done.out


def test_problems_are_reported_together_and_exit_with_1(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail() -> dict[str, object]:
        raise EngineError("the native library is missing")

    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "tiny.gguf").write_bytes(b"damaged")
    (tmp_path / "models.toml").write_bytes(catalog.catalog_path().read_bytes())
    monkeypatch.setattr(native, "library_info", fail)
    monkeypatch.setattr(catalog, "_PACKAGE", tmp_path)
    done = command("doctor")
    assert done.code == 1
    assert "error: the native library is missing\n" in done.err
    assert "tiny" in done.err
    assert done.err.count("error: ") == 2
    assert "gemmachat: 0." in done.out
