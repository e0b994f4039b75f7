"""The doctor tells a sound installation from a broken one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from conftest import Command
from embedded import TARGET, without_centroids

from gemmachat import catalog, clusters, native
from gemmachat.bridge import Stop
from gemmachat.catalog import ResolvedModel
from gemmachat.doctor import copies
from gemmachat.errors import EngineError
from gemmachat.gguf_info import read_header
from gemmachat.levers import describe_levers

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
    assert [Path(path).name for path in report["model"]] == [
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
    assert "model: " in done.out


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


def test_levers_of_the_embedded_pair_are_all_on(command: Command) -> None:
    report = json.loads(command("doctor", "--json").out)
    assert report["draft_head"] == "on, over clusters trained with the drafter"
    assert report["draft_length"].startswith("by measured costs")
    assert report["copied_drafts"].startswith("on")


def test_without_a_drafter_the_doctor_says_that_nothing_drafts(command: Command) -> None:
    report = json.loads(command("doctor", str(TARGET), "--json").out)
    assert report["model"] == [str(TARGET)]
    assert report["draft_head"] == "off: no drafter"


def test_a_drafter_without_clusters_is_told_apart_from_one_that_needs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    drafter = without_centroids(tmp_path / "dense.gguf")
    model = ResolvedModel("pair", TARGET, drafter, None, None)
    levers = describe_levers(model, threads=1)
    assert levers["draft_head"] == "off: this drafter scores all tokens, as it was trained to"
    monkeypatch.setattr(clusters, "_FEWEST", 1)
    clusters.provide(read_header(drafter), Stop())
    levers = describe_levers(model, threads=1)
    assert levers["draft_head"] == "on, over clusters computed from the drafter's embedding"


def test_a_damaged_model_has_its_own_exit_code(command: Command, tmp_path: Path) -> None:
    (tmp_path / "cut.gguf").write_bytes(TARGET.read_bytes()[:1000])
    done = command("doctor", str(tmp_path / "cut.gguf"))
    assert done.code == 4
    assert done.err.count("error: ") == 1
