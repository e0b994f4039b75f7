"""The manifest of a pulled model: what is written is read, and nothing but that is believed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gemmachat.errors import DamagedFileError
from gemmachat.file_names import is_plain_name, is_plain_path, is_repository
from gemmachat.manifest import MANIFEST, Manifest, ManifestFile

TARGET = ManifestFile(
    "target", "e2b-Q8_0.gguf", 5, "a" * 64, "owner/model", "sub/e2b-Q8_0.gguf", "b" * 40
)
DRAFTER = ManifestFile(
    "drafter",
    "e2b-assistant-Q8_0.gguf",
    4,
    "c" * 64,
    "owner/e2b-assistant",
    commit="d" * 40,
    made_from="converted to Q8_0",
)
MODEL = Manifest("e2b", "Q8_0", (TARGET, DRAFTER), "2026-01-02T03:04:05+00:00")


@pytest.mark.parametrize("model", [MODEL, replace(MODEL, files=(TARGET,))])
def test_what_is_written_is_read(tmp_path, model):
    model.write(tmp_path)
    assert Manifest.read(tmp_path) == model
    assert [path.name for path in tmp_path.iterdir()] == [MANIFEST]


def test_target_and_drafter_are_told_apart():
    assert (MODEL.target, MODEL.drafter) == (TARGET, DRAFTER)
    assert replace(MODEL, files=(TARGET,)).drafter is None


def test_a_folder_without_a_manifest_holds_no_model(tmp_path):
    assert Manifest.read(tmp_path) is None
    assert Manifest.read(tmp_path / "missing") is None


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"version": 2}, "version"),
        ({"version": True}, "version"),
        ({"name": "../up"}, "name"),
        ({"quant": ""}, "quant"),
        ({"pulled_at": "yesterday"}, "yesterday"),
        ({"pulled_at": "2026-01-02T03:04:05"}, "offset"),
        ({"files": []}, "files"),
        ({"files": {}}, "files"),
        ({"more": 1}, "keys"),
        ({"file": "../up.gguf"}, "file"),
        ({"file": "/etc/x.gguf"}, "file"),
        ({"file": "a\x00.gguf"}, "file"),
        ({"file": "manifest.json"}, "file"),
        ({"role": "drafter"}, "target"),
        ({"role": "mmproj"}, "role"),
        ({"bytes": -1}, "bytes"),
        ({"bytes": 1.5}, "bytes"),
        ({"bytes": True}, "bytes"),
        ({"bytes": 1 << 60}, "bytes"),
        ({"sha256": "A" * 64}, "sha256"),
        ({"sha256": None}, "sha256"),
        ({"repo": "one"}, "repo"),
        ({"path": "../../x.gguf"}, "path"),
        ({"commit": "main"}, "commit"),
        ({"made_from": "x" * 1001}, "made_from"),
        ({"made_from": 3}, "made_from"),
        ({"extra": 1}, "keys"),
    ],
)
def test_a_manifest_that_gemmachat_did_not_write_is_refused(tmp_path, changes, word):
    MODEL.write(tmp_path)
    value = json.loads((tmp_path / MANIFEST).read_bytes())
    for key, replacement in changes.items():
        (value if key in {*value, "more"} else value["files"][0])[key] = replacement
    (tmp_path / MANIFEST).write_text(json.dumps(value))
    with pytest.raises(DamagedFileError, match=word):
        Manifest.read(tmp_path)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"\xff", b"[" * 60_000, b" " * 70_000, b"1" * 5000]
)
def test_what_is_no_manifest_at_all_is_refused(tmp_path, data):
    (tmp_path / MANIFEST).write_bytes(data)
    with pytest.raises(DamagedFileError, match="damaged"):
        Manifest.read(tmp_path)


@pytest.mark.parametrize(
    "swapped", [(DRAFTER,), (DRAFTER, TARGET), (TARGET, replace(DRAFTER, file="E2B-q8_0.gguf"))]
)
def test_files_in_another_order_or_under_one_name_are_refused(tmp_path, swapped):
    replace(MODEL, files=swapped).write(tmp_path)
    with pytest.raises(DamagedFileError, match="files"):
        Manifest.read(tmp_path)


@pytest.mark.parametrize("name", ["a", "a.gguf", "Model-1_b+c.Q8_0.gguf", "console", "_x"])
def test_plain_names_pass(name):
    assert is_plain_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", ".hidden", "-o", "a/b", "a\\b", "C:a", "a\x00", "a\n", "a b", "é"),
        *("a.", "CON", "nul.gguf", "Com1.tar.gz", "LPT9", "x" * 201, "a\x1b[31m", "~", "\u202ea"),
    ],
)
def test_names_that_could_lead_elsewhere_or_mislead_do_not_pass(name):
    assert not is_plain_name(name)


def test_every_part_of_a_path_must_be_plain():
    assert is_plain_path("sub/folder/model.gguf")
    for path in ("", "/a", "a/", "a//b", "a/../b", "./a", "a/nul", "a/" * 600 + "a"):
        assert not is_plain_path(path)


def test_repositories_have_an_owner_and_a_name():
    assert is_repository("google/gemma-4-E2B-it")
    for name in ("x", "a/b/c", "../a", "a/..", "a/b--c", "a/b.git", "/a", "a/", "a/b?c", "a b/c"):
        assert not is_repository(name)
