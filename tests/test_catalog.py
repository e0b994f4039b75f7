"""The catalog is checked like any file from outside, and MODEL means what a user expects."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Command
from small_models import shelve

from gemmachat import catalog
from gemmachat.aliases import set_alias
from gemmachat.catalog import load_catalog, looks_like_model, resolve, resolve_default
from gemmachat.catalog_entry import CatalogEntry
from gemmachat.errors import DamagedFileError, NotFoundError, UsageError
from gemmachat.files import read_small
from gemmachat.source import HubCheckpoint, HubPath

EMBEDDED = """
[demo]
description = "a demo"
embedded = true
target = "demo.gguf"
drafter = "demo-drafter.gguf"
context = 64
temperature = 0.5
"""
HOSTED = """
[mine]
description = "my own"
context = 64
memory = 100
page = "https://example.org"
licence = "my own terms"
mmproj = { repo = "me/mine", file = "mmproj.gguf" }
drafters = [{ repo = "me/assistant" }, { repo = "me/mine", file = "MTP/mtp-*.gguf" }]
[mine.quants]
Q8_0 = { repo = "me/mine", file = "mine-Q8_0.gguf", bytes = 7, revision = "v1" }
"""
FAMILY = ("e2b", "e4b", "12b", "26b-a4b", "31b")


def load(folder: Path, text: str | bytes) -> dict[str, CatalogEntry]:
    path = folder / "models.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_catalog(path)


# ---- the shipped catalog -------------------------------------------------------------------------


def test_shipped_catalog_has_the_demo_and_the_family_with_its_qat_variants() -> None:
    entries = load_catalog()
    family = {f"{name}{variant}" for name in FAMILY for variant in ("", "-qat")}
    assert entries.keys() == {"tiny", *family}
    assert entries[catalog.DEFAULT_MODEL].embedded
    assert catalog.SUGGESTED_MODEL in entries
    for name in family:
        entry = entries[name]
        assert "Q4_0" in entry.quants
        assert entry.drafters
        assert entry.memory
        assert entry.page


@pytest.mark.parametrize("name", FAMILY)
def test_qat_targets_get_qat_drafters_and_no_others_do(name: str) -> None:
    entries = load_catalog()
    qat = entries[f"{name}-qat"]
    assert all("-qat-" in file.path.repo for file in qat.quants.values())
    assert all("-qat-" in drafter.repo for drafter in qat.drafters)
    assert not any("-qat" in drafter.repo for drafter in entries[name].drafters)


@pytest.mark.parametrize("name", ["e2b", "e4b"])
def test_drafters_of_the_e_series_come_with_trained_centroids_first(name: str) -> None:
    first, *others = load_catalog()[name].drafters
    assert first == HubCheckpoint(f"google/gemma-4-{name.upper()}-it-assistant", "Q8_0")
    assert all(isinstance(other, HubPath) for other in others)


def test_context_is_that_of_the_model_cards() -> None:
    contexts = {name: load_catalog()[name].context for name in FAMILY}
    assert contexts == {
        "e2b": 131072, "e4b": 131072, "12b": 262144, "26b-a4b": 262144, "31b": 262144,
    }  # fmt: skip


# ---- entries -------------------------------------------------------------------------------------


def test_embedded_entry_is_read(tmp_path: Path) -> None:
    entry = load(tmp_path, EMBEDDED)["demo"]
    assert entry.embedded is not None
    assert (entry.embedded.target, entry.embedded.drafter) == ("demo.gguf", "demo-drafter.gguf")
    assert (entry.context, entry.temperature, entry.quants) == (64, 0.5, {})


def test_hosted_entry_is_read(tmp_path: Path) -> None:
    entry = load(tmp_path, HOSTED)["mine"]
    source = entry.source("Q8_0")
    assert (source.name, source.quant) == ("mine", "Q8_0")
    assert source.target == HubPath("me/mine", "mine-Q8_0.gguf", "v1")
    assert source.drafters == (
        HubCheckpoint("me/assistant", "Q8_0"),
        HubPath("me/mine", "MTP/mtp-*.gguf"),
    )
    assert entry.quants["Q8_0"].nbytes == 7
    assert entry.mmproj == HubPath("me/mine", "mmproj.gguf")
    assert (entry.memory, entry.page) == (100, "https://example.org")
    assert entry.licence == "my own terms"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[demo]", "[demo", "not valid TOML"),
        ("[demo]", f"x = {'[' * 100_000}", "not valid TOML"),
        ("[demo]", f"x = {'1' * 5000}", "not valid TOML"),
        ("[demo]", '["../demo"]', "has a name"),
        ("[demo]", '["con"]', "has a name"),
        ("[demo]", f"[{'x' * 300}]", "has a name"),
        ("[demo]", "x = 1\n[demo]", "'x' is not a table"),
        ("context", "contxt", "unknown key 'contxt'"),
        ("context = 64", "", "lacks the key 'context'"),
        ("context = 64", "context = true", "'context' that is not of type int"),
        ("context = 64", "context = 0", "'context' that is not between 1 and"),
        ("context = 64", f"context = {2**31}", "'demo' has a 'context' that is not between"),
        ("temperature = 0.5", "temperature = -1.0", "'temperature' that is not between"),
        ("temperature = 0.5", "temperature = nan", "'temperature' that is not between"),
        ('"demo.gguf"', '"../demo.gguf"', "'target' that is not the plain name"),
        ('"demo.gguf"', '"/etc/demo.gguf"', "'target' that is not the plain name"),
        ('"demo.gguf"', '"demo.bin"', "'target' that is not the plain name"),
        ('"demo-drafter.gguf"', '"..\\\\x.gguf"', "'drafter' that is not the plain name"),
        ("embedded = true", "embedded = false", "no 'quants' say where to get it"),
    ],
)
def test_damaged_embedded_entries_are_refused_by_name(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    with pytest.raises(DamagedFileError, match=said):
        load(tmp_path, EMBEDDED.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("me/mine", "mine", "'repo' that is not OWNER/NAME"),
        ("me/mine", "../mine", "'repo' that is not OWNER/NAME"),
        ("me/assistant", "a/b/c", "drafters number 1 has a 'repo' that is not OWNER/NAME"),
        ("mine-Q8_0.gguf", "mine-Q8_0.bin", "'file' that is not the path of a .gguf file"),
        ("mine-Q8_0.gguf", "../x.gguf", "'file' that is not the path of a .gguf file"),
        ("mine-Q8_0.gguf", "/x.gguf", "'file' that is not the path of a .gguf file"),
        ("mine-Q8_0.gguf", "a//x.gguf", "'file' that is not the path of a .gguf file"),
        ("MTP/mtp-*.gguf", "*/mtp.gguf", "drafters number 2 has a 'file' that is not the path"),
        ('"v1"', '"../v1"', "'revision' that is not a branch, tag or commit"),
        ('"v1"', "1", "'revision' that is not of type str"),
        ("bytes = 7", "bytes = 0", "'bytes' that is not between 1 and"),
        ("bytes = 7", f"bytes = 1{'0' * 400}", "quants 'Q8_0' has a 'bytes' that is not between"),
        ('"my own terms"', "1", "'licence' that is not of type str"),
        ('"my own terms"', '" "', "'licence' that is not a line of 1 to 200 characters"),
        ('"my own terms"', '""', "'licence' that is not a line"),
        ('"my own terms"', '"a\\nb"', "'licence' that is not a line"),
        ('"my own terms"', f'"{"x" * 201}"', "'licence' that is not a line"),
        ("memory = 100", "memory = -1", "'mine' has a 'memory' that is not between"),
        ("memory = 100", f"memory = 1{'0' * 400}", "'memory' that is not between"),
        ("bytes = 7", "sha = 7", "quants 'Q8_0' has an unknown key 'sha'"),
        ("Q8_0 =", '"q8 0" =', "has a name that is not made of"),
        ("Q8_0 = {", "Q8_0 = 1 # {", "has quants of which 'Q8_0' is not a table"),
        ('{ repo = "me/assistant" }', "1", "has drafters of which number 1 is not a table"),
        ('mmproj = { repo = "me/mine", file = "mmproj.gguf" }', "mmproj = 1", "'mmproj' that is"),
        ("[mine.quants]", "[mine.quant]", "unknown key 'quant'"),
    ],
)
def test_damaged_hosted_entries_are_refused_by_name(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert old in HOSTED
    with pytest.raises(DamagedFileError, match=said):
        load(tmp_path, HOSTED.replace(old, new, 1))


def test_catalog_that_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DamagedFileError, match="not valid TOML"):
        load(tmp_path, b"\xff\xfe")


def test_missing_catalog_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="reinstall"):
        load_catalog(tmp_path / "models.toml")


def test_users_own_models_join_the_catalog_and_have_the_say(models: Path, tmp_path: Path) -> None:
    own = tmp_path / "config" / "gemmachat" / "models.toml"
    own.parent.mkdir(parents=True)
    own.write_text(HOSTED + HOSTED.replace("[mine", "[e2b"))
    entries = load_catalog()
    assert entries["mine"].description == "my own"
    assert entries["e2b"].description == "my own"
    assert "e4b" in entries
    own.write_text(EMBEDDED)
    with pytest.raises(DamagedFileError, match="'demo' is not embedded"):
        load_catalog()
    own.write_text(HOSTED.replace("[mine", "[tiny"))
    with pytest.raises(DamagedFileError, match="'tiny' is embedded: choose another name"):
        load_catalog()
    own.write_text("[x")
    with pytest.raises(DamagedFileError, match=f"{own} is not valid TOML"):
        load_catalog()


def test_catalog_is_read_once_until_it_changes(
    command: Command, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "config" / "gemmachat" / "models.toml"
    own.parent.mkdir(parents=True)
    own.write_text(HOSTED)
    reads: list[Path] = []

    def counted(path: Path, limit: int) -> bytes:
        reads.append(path)
        return read_small(path, limit)

    monkeypatch.setattr(catalog, "read_small", counted)
    assert command("run", "mine", "hi").code == 3
    assert command("run", "mine").code == 3
    assert reads.count(own) == 1
    own.write_text(HOSTED.replace("mine", "other"))
    assert "gemmachat pull other" in command("run", "other", "hi").err
    assert reads.count(own) == 2
    load_catalog().clear()
    assert "other" in load_catalog()


# ---- what MODEL means ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["tiny", "e2b", "e2b:q8_0", "gemma4:e2b", "hf:a/b", "hf:", "x.gguf", "/no/X.GGUF", "~/x.gguf"],
)
def test_names_places_and_gguf_paths_are_models(models: Path, text: str) -> None:
    assert looks_like_model(text)


@pytest.mark.parametrize(
    "text",
    [
        *("hello", "What is 2+2?", "Tiny", "a/b", "/no/such", "a\0/b", "x/" * 5000, "", "."),
        *("e2b: explain", "note:this", "gemma4:"),
    ],
)
def test_everything_else_is_a_prompt(models: Path, text: str) -> None:
    assert not looks_like_model(text)


def test_aliases_and_names_on_the_shelf_are_models(models: Path) -> None:
    shelve(models, "mine", "Q8_0")
    set_alias(models, "fast", "mine")
    assert looks_like_model("mine")
    assert looks_like_model("fast")
    assert not looks_like_model("slow")


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


def test_pulled_model_resolves_to_its_pair(models: Path) -> None:
    unit = shelve(models, "e2b", "Q4_0")
    for text in ("e2b", "e2b:q4_0", "e2b:Q4_0", "gemma4:e2b", "gemma4:e2b:q4_0"):
        model = resolve(text)
        assert (model.target, model.drafter, model.unit) == (unit.target, unit.drafter, unit)
        assert model.name == "e2b:q4_0"
        assert model.context is None
    assert resolve("e2b", "other.gguf").drafter == Path("other.gguf")


def test_alias_resolves_to_its_model(models: Path) -> None:
    unit = shelve(models, "e2b", "Q4_0")
    set_alias(models, "fast", "e2b:q4_0")
    set_alias(models, "demo", "tiny")
    assert resolve("fast").target == unit.target
    assert resolve("demo").name == "tiny"


def test_alias_of_what_is_gone_says_what_it_stood_for(models: Path) -> None:
    set_alias(models, "fast", "mine:q4_0")
    with pytest.raises(NotFoundError, match="no model 'mine:q4_0'"):
        resolve("fast")


def test_hub_place_resolves_to_what_was_pulled_from_it(models: Path) -> None:
    unit = shelve(models, "me--mine", "Q4_0", path="a/mine-Q4_0.gguf")
    for text in ("hf:me/mine", "hf:Me/Mine:q4_0", "hf:me/mine:a/mine-Q4_0.gguf"):
        assert resolve(text).unit == unit
    with pytest.raises(NotFoundError, match=r"pull hf:me/mine:b-Q4_0\.gguf"):
        resolve("hf:me/mine:b-Q4_0.gguf")
    with pytest.raises(UsageError, match="hf:OWNER/REPO"):
        resolve("hf:mine")


@pytest.mark.parametrize("text", ["e2b", "e2b:q8_0", "gemma4:e2b", "hf:me/mine"])
def test_known_model_that_is_not_here_asks_for_a_pull(models: Path, text: str) -> None:
    with pytest.raises(NotFoundError, match=f"gemmachat pull {text}"):
        resolve(text)


def test_model_that_lost_a_file_is_damaged(models: Path) -> None:
    unit = shelve(models, "e2b", "Q4_0")
    assert unit.drafter is not None
    unit.drafter.unlink()
    with pytest.raises(DamagedFileError, match=f"{unit.drafter} is gone: gemmachat pull e2b"):
        resolve("e2b")


def test_given_drafter_replaces_the_one_of_the_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "tiny.gguf").write_bytes(b"")
    monkeypatch.setattr(catalog, "_PACKAGE", tmp_path)
    (tmp_path / "models.toml").write_text(EMBEDDED.replace("demo", "tiny"))
    assert resolve("tiny").drafter == tmp_path / "data" / "tiny-drafter.gguf"
    assert resolve("tiny", "other.gguf").drafter == Path("other.gguf")


def test_embedded_model_has_no_quantizations(models: Path) -> None:
    with pytest.raises(UsageError, match="no quantizations"):
        resolve("tiny:q4_0")


def test_missing_embedded_files_ask_for_a_reinstallation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "_PACKAGE", tmp_path)
    (tmp_path / "models.toml").write_text(EMBEDDED)
    with pytest.raises(NotFoundError, match="reinstall gemmachat"):
        resolve("demo")


def test_unknown_names_and_missing_files_are_reported(tmp_path: Path, models: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no model 'tinny': did you mean tiny\? .*e2b"):
        resolve("tinny")
    with pytest.raises(NotFoundError, match=r"no file /no/such/x\.gguf"):
        resolve("/no/such/x.gguf")
    with pytest.raises(UsageError, match="is a folder"):
        resolve(str(tmp_path))


# ---- no MODEL ------------------------------------------------------------------------------------


def test_default_is_the_demo_with_a_word_on_how_to_get_more(models: Path) -> None:
    model, hint = resolve_default()
    assert model.name == "tiny"
    assert hint == "tiny is a small demo model; for a real one: gemmachat pull e2b"


def test_default_is_the_only_pulled_model_in_any_quantization(models: Path) -> None:
    unit = shelve(models, "e4b", "Q4_0")
    assert resolve_default()[0].unit == unit
    shelve(models, "e4b", "Q8_0")
    model, hint = resolve_default()
    assert model.name.startswith("e4b:")
    assert hint is None


def test_default_among_several_models_is_the_demo_until_one_is_configured(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelve(models, "e2b", "Q4_0")
    unit = shelve(models, "e4b", "Q4_0")
    model, hint = resolve_default()
    assert model.name == "tiny"
    assert "e2b, e4b" in str(hint)
    monkeypatch.setenv("GEMMACHAT_MODEL", "e4b")
    assert resolve_default() == (resolve("e4b"), None)
    assert resolve_default()[0].unit == unit


def test_configured_model_that_is_not_here_is_no_reason_to_use_another(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelve(models, "e2b", "Q4_0")
    monkeypatch.setenv("GEMMACHAT_MODEL", "31b")
    with pytest.raises(NotFoundError, match=r"configured model .*gemmachat pull 31b"):
        resolve_default()
