"""The catalog is checked like any file from outside, and MODEL means what a user expects."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmachat import catalog
from gemmachat.catalog import load_catalog, looks_like_model, resolve
from gemmachat.errors import DamagedFileError, NotFoundError, UsageError

ENTRY = """
[demo]
description = "a demo"
embedded = true
target = "demo.gguf"
drafter = "demo-drafter.gguf"
context = 64
temperature = 0.5
"""


def load(folder: Path, text: str | bytes) -> dict[str, catalog.CatalogEntry]:
    path = folder / "models.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_catalog(path)


def test_shipped_catalog_is_valid_and_has_the_default_model() -> None:
    entry = load_catalog()[catalog.DEFAULT_MODEL]
    assert entry.embedded
    assert entry.context > 0


def test_entry_is_read(tmp_path: Path) -> None:
    entry = load(tmp_path, ENTRY)["demo"]
    assert (entry.target, entry.drafter, entry.context) == ("demo.gguf", "demo-drafter.gguf", 64)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[demo]", "[demo", "not valid TOML"),
        ("[demo]", f"x = {'[' * 100_000}", "not valid TOML"),
        ("[demo]", '["../demo"]', "has a name"),
        ("[demo]", "x = 1\n[demo]", "'x' is not a table"),
        ("context", "contxt", "unknown key 'contxt'"),
        ("context = 64", "", "lacks the key 'context'"),
        ("context = 64", "context = true", "'context' that is not of type int"),
        ("context = 64", "context = 0", "'context' below 1"),
        ("temperature = 0.5", "temperature = -1.0", "'temperature' that is not between"),
        ("temperature = 0.5", "temperature = nan", "'temperature' that is not between"),
        ('"demo.gguf"', '"../demo.gguf"', "'target' that is not the plain name"),
        ('"demo.gguf"', '"/etc/demo.gguf"', "'target' that is not the plain name"),
        ('"demo.gguf"', '"demo.bin"', "'target' that is not the plain name"),
        ('"demo-drafter.gguf"', '"..\\\\x.gguf"', "'drafter' that is not the plain name"),
        ("embedded = true", "embedded = false", "nothing says where to get it"),
    ],
)
def test_damaged_entries_are_refused_by_name(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(DamagedFileError, match=said):
        load(tmp_path, ENTRY.replace(old, new, 1))


def test_catalog_that_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DamagedFileError, match="not valid TOML"):
        load(tmp_path, b"\xff\xfe")


def test_missing_catalog_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="reinstall"):
        load_catalog(tmp_path / "models.toml")


@pytest.mark.parametrize("text", ["tiny", "x.gguf", "/no/such/X.GGUF", "~/x.gguf"])
def test_names_and_gguf_paths_are_models(text: str) -> None:
    assert looks_like_model(text)


@pytest.mark.parametrize(
    "text", ["hello", "What is 2+2?", "Tiny", "a/b", "/no/such", "a\0/b", "x/" * 5000, "", "."]
)
def test_everything_else_is_a_prompt(text: str) -> None:
    assert not looks_like_model(text)


def test_existing_path_is_a_model_and_existing_word_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "weights").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    assert looks_like_model("./weights")
    assert looks_like_model(str(tmp_path / "weights"))
    assert not looks_like_model("weights")


def test_path_resolves_without_a_drafter(tmp_path: Path) -> None:
    target = tmp_path / "my-model.gguf"
    target.write_bytes(b"")
    model = resolve(str(target))
    assert (model.name, model.target, model.drafter) == ("my-model", target, None)


def test_given_drafter_replaces_the_one_of_the_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "tiny.gguf").write_bytes(b"")
    monkeypatch.setattr(catalog, "_PACKAGE", tmp_path)
    (tmp_path / "models.toml").write_text(ENTRY.replace("demo", "tiny"))
    assert resolve("tiny").drafter == tmp_path / "data" / "tiny-drafter.gguf"
    assert resolve("tiny", Path("other.gguf")).drafter == Path("other.gguf")


def test_missing_embedded_files_ask_for_a_reinstallation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "_PACKAGE", tmp_path)
    (tmp_path / "models.toml").write_text(ENTRY)
    with pytest.raises(NotFoundError, match="reinstall gemmachat"):
        resolve("demo")


def test_unknown_names_and_missing_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no model 'tinny'.*tiny"):
        resolve("tinny")
    with pytest.raises(NotFoundError, match=r"no file /no/such/x\.gguf"):
        resolve("/no/such/x.gguf")
    with pytest.raises(UsageError, match="is a folder"):
        resolve(str(tmp_path))
