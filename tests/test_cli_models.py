"""list, show, rm, verify, prune, import and alias: what they print, ask and refuse."""

from __future__ import annotations

import json
import os
import pwd
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Command, Stdin
from embedded import DRAFTER, TARGET
from fakes import FakeEngine
from small_models import shelve

from gemmachat import cli, render
from gemmachat.manifest import MANIFEST
from gemmachat.shelf import Shelf, unit_lock


def answered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str, *arguments: str
) -> tuple[int, str]:
    """Run a command on a terminal on which something is typed."""
    stdin = Stdin(typed.encode(), terminal=True)
    monkeypatch.setattr(sys, "stdin", stdin)
    code = cli.main(arguments)
    out, err = capsys.readouterr()
    return code, out + err


# ---- list ----------------------------------------------------------------------------------------


def test_list_without_models_shows_the_demo_and_how_to_get_more(
    command: Command, models: Path
) -> None:
    done = command("list")
    assert done.code == 0
    heading, tiny = done.out.splitlines()
    assert heading.split() == ["NAME", "QUANT", "SIZE", "DRAFTER", "CONTEXT", "LAST", "USED"]
    assert tiny.split() == ["tiny", "Q8_0", "11.3", "MB", "Q8_0", "4K", "embedded"]
    assert "gemmachat pull NAME gets one of e2b" in done.err


def test_list_shows_each_model_in_a_line(command: Command, models: Path) -> None:
    shelve(models, "e2b", "Q4_0")
    shelve(models, "e4b", "Q8_0").touch()
    lines = [line.split() for line in command("list").out.splitlines()]
    assert lines[1] == ["e2b:q4_0", "Q4_0", "11.3", "MB", "Q8_0", "4K", "never"]
    assert lines[2][-2:] == ["just", "now"]
    assert len(lines) == 4


def test_list_for_programs_has_every_fact(command: Command, models: Path) -> None:
    unit = shelve(models, "e2b", "Q4_0")
    command("alias", "fast", "e2b")
    listing = json.loads(command("list", "--json").out)
    assert listing["folder"] == str(models)
    model, tiny = listing["models"]
    assert model["model"] == "e2b:q4_0"
    assert model["bytes"] == unit.nbytes
    assert model["files"] == [str(unit.target), str(unit.drafter)]
    assert (model["context"], model["drafter"], model["last_used"]) == (4096, "Q8_0", None)
    assert model["aliases"] == ["fast"]
    assert (tiny["embedded"], model["embedded"]) == (True, False)


def test_list_fits_a_narrow_terminal(
    command: Command, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelve(models, "26b-a4b-qat", "UD-Q4_K_XL")
    monkeypatch.setattr(render.Screen, "width", 40)
    lines = command("list").out.splitlines()
    assert max(map(len, lines)) <= 40
    assert lines[0].split() == ["NAME", "SIZE"]
    assert lines[1].startswith("26b-a4b-qat:ud-q4_k_xl")


def test_damaged_models_are_listed_as_such_and_hide_no_others(
    command: Command, models: Path
) -> None:
    shelve(models, "e2b", "Q4_0").target.write_bytes(b"GGUF")
    (shelve(models, "e4b", "Q4_0").folder / MANIFEST).write_text("{}")
    shelve(models, "31b", "Q4_0")
    done = command("list")
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()] == [
        *("NAME", "31b:q4_0", "e2b:q4_0", "tiny")
    ]
    assert "DAMAGED" in done.out.splitlines()[2]
    assert "e4b" in done.err
    assert json.loads(command("list", "--json").out)["problems"] != []


def test_aliases_that_cannot_be_used_hide_no_model(command: Command, models: Path) -> None:
    shelve(models, "e2b", "Q4_0")
    bad = models / "bad.gguf"
    bad.write_bytes(b"GGUF")
    aliases = models / "aliases.json"
    aliases.write_text(json.dumps({"tiny": str(bad), "fast": str(bad), "gone": "hf:"}))
    listing = command("list")
    assert (listing.code, listing.err) == (0, "")
    assert [line.split()[0] for line in listing.out.splitlines()] == ["NAME", "e2b:q4_0", "tiny"]
    for damage in ("{", '{"../x": "e2b"}'):
        aliases.write_text(damage)
        again = command("list")
        assert (again.code, again.out) == (0, listing.out)
        assert "aliases.json are damaged" in again.err
    aliases.unlink()
    aliases.mkdir()
    assert command("list").out == listing.out
    (problem,) = json.loads(command("list", "--json").out)["problems"]
    assert problem == f"{aliases} cannot be read: not a regular file"


# ---- show ----------------------------------------------------------------------------------------


def test_show_tells_files_types_memory_and_levers(command: Command, models: Path) -> None:
    unit = shelve(models, "e2b", "Q4_0")
    facts = json.loads(command("show", "e2b", "--json").out)
    target, drafter = facts["files"]
    assert (target["path"], target["role"]) == (str(unit.target), "target")
    assert drafter["sha256"] == unit.manifest.files[1].sha256
    assert target["repo"] == "me/mine"
    assert sum(kind["bytes"] for kind in target["types"]) < target["bytes"]
    assert {kind["type"] for kind in target["types"]} == {"Q8_0", "F32"}
    assert (facts["context"], facts["layers"], facts["licence"]) == (4096, 8, "apache-2.0")
    assert facts["drafts"] == "from clusters trained with the drafter"
    assert facts["prefill"] == "ends early: layers 4 to 7 own no keys and values"
    (row,) = facts["memory"]["contexts"]
    assert row["fits"] is True
    assert TARGET.stat().st_size < row["bytes"] < facts["memory"]["available"]
    assert facts["memory"]["largest_context"] == 4096


def test_show_for_a_reader_wraps_at_the_terminal(
    command: Command, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render.Screen, "width", 60)
    lines = command("show", "e2b").out.splitlines()
    assert lines[0].startswith("e2b: Gemma 4 E2B")
    assert max(map(len, lines[1:])) <= 60
    assert "  licence  see https://huggingface.co/google/gemma-4-E2B-it" in lines


def test_show_makes_no_line_of_what_others_wrote(command: Command, models: Path) -> None:
    unit = shelve(models, "e2b", "Q4_0")
    target, drafter = unit.manifest.files
    drafter = replace(drafter, path=None, commit=None, made_from="quantized\n  licence  mine")
    replace(unit.manifest, files=(target, drafter)).write(unit.folder)
    lines = [line.strip() for line in command("show", "e2b").out.splitlines()]
    assert "from me/mine, e2b-Q4_0.gguf, commit 000000000000" in lines
    assert lines[lines.index("from me/mine") + 1] == "quantized licence mine"


def test_show_of_a_model_that_is_not_here_tells_where_it_is(command: Command, models: Path) -> None:
    facts = json.loads(command("show", "gemma4:e2b", "--json").out)
    assert facts["here"] is False
    assert [row["quant"] for row in facts["quants"]] == ["Q4_0", "Q4_K_M", "Q8_0"]
    assert facts["quants"][0]["bytes"] == 2841481184
    assert facts["drafters"][0] == {
        "repo": "google/gemma-4-E2B-it-assistant",
        "file": None,
        "revision": "main",
    }
    assert facts["mmproj"]["file"] == "mmproj-gemma-4-E2B-it-Q8_0.gguf"
    done = command("show", "e2b")
    assert done.out.splitlines()[-1].split(None, 3)[-1].endswith("gemmachat pull e2b")


def test_show_tells_the_licence_of_the_file_else_that_of_the_catalog(
    command: Command, models: Path, tmp_path: Path
) -> None:
    own = tmp_path / "config" / "gemmachat" / "models.toml"
    own.parent.mkdir(parents=True)
    own.write_text(
        '[mine]\ndescription = "my own"\ncontext = 64\nlicence = "my own terms"\n'
        'quants.Q8_0 = { repo = "me/mine", file = "mine.gguf" }\n'
    )
    assert json.loads(command("show", "mine", "--json").out)["licence"] == "my own terms"
    assert "  licence  my own terms\n" in command("show", "mine").out
    unit = shelve(models, "mine", "Q8_0")
    assert json.loads(command("show", "mine", "--json").out)["licence"] == "apache-2.0"
    key = b"general.license"
    data = unit.target.read_bytes()
    assert data.count(key) == 1
    unit.target.write_bytes(data.replace(key, b"general.lizense"))
    assert json.loads(command("show", "mine", "--json").out)["licence"] == "my own terms"
    assert json.loads(command("show", "e2b", "--json").out)["licence"] is None


def test_show_without_a_model_shows_the_default_one(command: Command, models: Path) -> None:
    assert command("show").out.startswith("tiny: embedded demo pair")
    shelve(models, "mine", "Q4_0")
    assert command("show").out.startswith("mine:q4_0\n")


def test_show_of_damaged_files_says_what_is_wrong(command: Command, models: Path) -> None:
    unit = shelve(models, "e2b", "Q4_0")
    unit.target.write_bytes(b"GGUF")
    done = command("show", "e2b")
    assert done.code == 4
    assert str(unit.target) in done.err
    assert command("show", "nothing").code == 3
    assert command("show", "hf:me/mine").code == 3


# ---- rm ------------------------------------------------------------------------------------------


def test_rm_asks_and_takes_no_for_an_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], models: Path
) -> None:
    unit = shelve(models, "e2b", "Q4_0")
    for typed in ("n\n", "\n", ""):
        code, text = answered(monkeypatch, capsys, typed, "rm", "e2b")
        assert code == 1
        assert "remove e2b:q4_0 (11.3 MB)? [y/N]" in text
        assert "nothing was removed" in text
        assert unit.target.exists()
    assert answered(monkeypatch, capsys, "y\n", "rm", "e2b")[0] == 0
    assert not unit.folder.exists()


def test_rm_where_nobody_can_be_asked_needs_yes(command: Command, models: Path) -> None:
    unit = shelve(models, "e2b", "Q4_0")
    done = command("rm", "e2b", stdin=b"y\n")
    assert (done.code, done.out) == (2, "")
    assert "pass --yes" in done.err
    assert unit.target.exists()
    done = command("rm", "e2b", "--yes", "--json", stdin=b"")
    assert json.loads(done.out)["removed"] == [
        {"model": "e2b:q4_0", "bytes": unit.nbytes, "aliases": [], "left": []}
    ]
    assert not unit.folder.exists()


@pytest.mark.parametrize("arguments", [("rm", "e2b"), ("prune",)])
def test_closed_standard_input_is_nobody_to_ask(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    models: Path,
    arguments: tuple[str, ...],
) -> None:
    unit = shelve(models, "e2b", "Q4_0")
    partial = unit.folder / "x.gguf.part"
    partial.write_bytes(b"GGUF")
    monkeypatch.setattr(sys, "stdin", None)  # as Python has it where it was closed
    assert cli.main(arguments) == 2
    assert "pass --yes" in capsys.readouterr().err
    assert unit.target.exists()
    assert partial.exists()


def test_rm_never_guesses_a_quantization(command: Command, models: Path) -> None:
    shelve(models, "e2b", "Q4_0")
    kept = shelve(models, "e2b", "Q8_0")
    done = command("rm", "e2b", "--yes")
    assert done.code == 2
    assert "name one, e2b:q4_0 or e2b:q8_0" in done.err
    assert command("rm", "e2b:q4_0", "--yes").code == 0
    assert Shelf(models).units() == ([kept], [])


def test_model_that_is_named_twice_is_taken_once(command: Command, models: Path) -> None:
    shelve(models, "e2b", "Q4_0")
    command("alias", "fast", "e2b")
    twice = ("e2b", "e2b:q4_0", "fast")
    assert command("verify", *twice).out == "e2b:q4_0: 2 files are right\n"
    done = command("rm", *twice, "--yes")
    assert done.code == 0
    assert done.out == "removed e2b:q4_0, 11.3 MB\nremoved fast, an alias of it\n"


def test_rm_takes_the_aliases_that_lead_to_nothing_else(command: Command, models: Path) -> None:
    unit = shelve(models, "e2b", "Q4_0")
    shelve(models, "e2b", "Q8_0")
    shelve(models, "me--mine", "Q4_0")
    stand_for = {"any": "e2b", "exact": "e2b:q4_0", "path": str(unit.target), "own": "hf:me/mine"}
    for alias, model in stand_for.items():
        command("alias", alias, model)
    assert command("alias").out.count("\n") == len(stand_for)
    done = command("rm", "e2b:q4_0", "me--mine", "--yes", "--json")
    removed = json.loads(done.out)["removed"]
    assert [item["aliases"] for item in removed] == [["exact", "path"], ["own"]]
    assert command("alias").out == "any -> e2b\n"
    done = command("rm", "any", "--yes")
    assert done.out.splitlines()[1:] == ["removed any, an alias of it"]
    assert command("alias").out == ""


def test_alias_that_leads_nowhere_is_recommended_by_no_error(
    command: Command, models: Path, tmp_path: Path
) -> None:
    shelve(models, "own", "Q8_0")
    (tmp_path / "x.gguf").write_bytes(b"")
    gone = {"fast1": "mine", "fast2": "own:q4_0", "fast3": "/no/x.gguf", "fast4": "e2b:q5_0"}
    good = {"fast5": "e2b:q8_0", "fast6": "own", "fast7": str(tmp_path / "x.gguf")}
    (models / "aliases.json").write_text(json.dumps({"fast": "hf:", "fas": "?"} | gone | good))
    said = command("run", "fast9", "hi").err
    assert "did you mean fast" in said
    assert said.partition("one of these names: ")[2].endswith(
        "own:q8_0, fast5, fast6, fast7 (a prompt of several words needs quotes)\n"
    )
    for alias, model in gone.items():
        done = command("run", alias, "hi")
        assert (done.code, model in done.err, "gemmachat pull" in done.err) == (3, True, False)


def test_rm_of_several_removes_nothing_if_one_is_unknown(command: Command, models: Path) -> None:
    unit = shelve(models, "e2b", "Q4_0")
    assert command("rm", "e2b", "e4b", "--yes").code == 3
    assert unit.target.exists()


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("tiny", 2, "ships inside gemmachat"),
        ("e4b", 3, "e4b is not on the shelf"),
        (str(TARGET), 3, "is not on the shelf"),
        ("../e2b", 3, "is not on the shelf"),
        ("hf:../x", 2, "hf:OWNER/REPO"),
    ],
)
def test_rm_of_what_is_not_on_the_shelf(
    command: Command, models: Path, name: str, code: int, said: str
) -> None:
    done = command("rm", name, "--yes")
    assert done.code == code
    assert said in done.err
    assert TARGET.exists()


def test_rm_removes_a_model_whose_manifest_is_damaged(command: Command, models: Path) -> None:
    unit = shelve(models, "e2b", "Q4_0")
    (unit.folder / MANIFEST).write_text("{}")
    assert command("rm", "e2b", "--yes").code == 0
    assert not unit.folder.exists()


# ---- verify and prune ----------------------------------------------------------------------------


def test_verify_of_sound_models(command: Command, models: Path) -> None:
    shelve(models, "e2b", "Q4_0")
    shelve(models, "e4b", "Q4_0")
    done = command("verify")
    assert (done.code, done.out) == (
        0,
        "e2b:q4_0: 2 files are right\ne4b:q4_0: 2 files are right\n",
    )
    assert command("verify", "e4b").out == "e4b:q4_0: 2 files are right\n"
    assert json.loads(command("verify", "--json").out)["ok"] is True


def test_verify_goes_on_past_a_model_that_another_program_is_changing(
    command: Command, models: Path
) -> None:
    busy = shelve(models, "e2b", "Q4_0")
    shelve(models, "e4b", "Q8_0")
    with unit_lock(busy.folder):
        done = command("verify")
        listing = json.loads(command("verify", "--json").out)
    assert done.code == 1
    assert "another gemmachat is at work" in done.err
    assert "e4b:q8_0: 2 files are right" in done.out
    assert not listing["ok"]
    assert {item["model"] for item in listing["files"]} == {"e4b:q8_0"}


def test_verify_of_damaged_models_ends_with_4(command: Command, models: Path) -> None:
    unit = shelve(models, "e2b", "Q4_0")
    data = bytearray(unit.target.read_bytes())
    data[-1] ^= 1
    unit.target.write_bytes(data)
    (shelve(models, "e4b", "Q4_0").folder / MANIFEST).write_text("{}")
    done = command("verify")
    assert done.code == 4
    assert done.out.startswith("e2b:q4_0: e2b.gguf is damaged: its SHA-256 is")
    assert "e4b" in done.err
    assert "gemmachat rm e2b:q4_0 removes it, then gemmachat pull e2b:q4_0 gets it" in done.err
    report = json.loads(command("verify", "--json").out)
    assert report["ok"] is False
    assert [file["problem"] is None for file in report["files"]] == [False, True]
    assert command("verify", "e4b").code == 4


def test_prune_asks_before_it_removes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], models: Path
) -> None:
    unit = shelve(models, "e2b", "Q4_0")
    part = unit.folder / "x.gguf.part"
    part.write_bytes(b"12345")
    code, text = answered(monkeypatch, capsys, "n\n", "prune")
    assert code == 1
    assert f"{part}\nremove 1 file (5 B)? [y/N]" in text
    assert part.exists()
    assert answered(monkeypatch, capsys, "yes\n", "prune")[0] == 0
    assert not part.exists()


def test_prune_with_nothing_to_do_asks_nothing(command: Command, models: Path) -> None:
    shelve(models, "e2b", "Q4_0")
    done = command("prune", stdin=b"")
    assert (done.code, done.out) == (0, "there is nothing to remove\n")
    (models / "e2b" / "q4_0" / "x.gguf.part").write_bytes(b"1")
    assert command("prune", stdin=b"").code == 2
    report = json.loads(command("prune", "--json", "--yes").out)
    assert (len(report["files"]), report["bytes"], report["skipped"]) == (1, 1, [])


# ---- import and alias ----------------------------------------------------------------------------


def test_imported_pair_can_be_chatted_with_by_name(command: Command, models: Path) -> None:
    done = command("import", str(TARGET), "--drafter", str(DRAFTER), "--name", "mine", "--json")
    assert done.code == 0
    assert json.loads(done.out)["model"] == "mine:q8_0"
    engine = FakeEngine()
    assert command("run", "mine", "hi", engine=engine).code == 0
    model = engine.opened[0][0]
    assert model.name == "mine:q8_0"
    assert model.target.read_bytes() == TARGET.read_bytes()
    assert model.unit.last_used() is not None


def test_import_of_what_cannot_be_used_is_refused(
    command: Command, models: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "x.gguf"
    broken.write_bytes(b"GGUF")
    assert command("import", str(broken)).code == 4
    assert command("import", str(DRAFTER)).code == 4
    assert command("import", str(tmp_path / "none.gguf")).code == 3
    assert not models.exists()


def test_import_under_a_name_that_means_something_is_refused(
    command: Command, models: Path, tmp_path: Path
) -> None:
    command("alias", "fast", "e2b")
    (tmp_path / "tiny-Q8_0.gguf").symlink_to(TARGET)
    for arguments in (
        [str(TARGET), "--name", "e2b"],
        [str(TARGET), "--name", "fast"],
        [str(tmp_path / "tiny-Q8_0.gguf")],
    ):
        done = command("import", *arguments)
        assert (done.code, "means a model already" in done.err) == (2, True)
    assert Shelf(models).units() == ([], [])


def test_alias_is_set_listed_used_and_forgotten(command: Command, models: Path) -> None:
    unit = shelve(models, "e2b", "Q4_0")
    assert command("alias", "fast", "e2b:Q4_0").code == 0
    assert command("alias", "faster", "fast").code == 0
    assert command("alias").out == "fast -> e2b:q4_0\nfaster -> e2b:q4_0\n"
    assert json.loads(command("alias", "fast", "--json").out) == {"aliases": {"fast": "e2b:q4_0"}}
    engine = FakeEngine()
    command("run", "faster", engine=engine, stdin=b"hi")
    assert engine.opened[0][0].unit == unit
    assert command("alias", "fast", "--remove").code == 0
    assert command("alias").out == "faster -> e2b:q4_0\n"
    assert command("alias", "fast", "--remove").code == 3
    assert command("alias", "fast").code == 3


def test_alias_of_a_file_holds_in_every_folder(
    command: Command, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.gguf").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    assert command("alias", "mine", "x.gguf").code == 0
    assert command("alias").out == f"mine -> {tmp_path / 'x.gguf'}\n"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["e2b", "e4b"], 2, "is the name of a model"),
        (["tiny", "e4b"], 2, "is the name of a model"),
        (["mine", "e4b"], 2, "is the name of a model"),
        (["A b", "e4b"], 2, "cannot be a name"),
        (["aliases.json", "e4b"], 2, "cannot be a name"),
        (["../x", "e4b"], 2, "cannot be a name"),
        (["fast", "nothing"], 3, "no model 'nothing'"),
        (["fast", "e2b:q5_0"], 3, "no model 'e2b:q5_0'"),
        (["fast", "tiny:q8_0"], 2, "no quantizations to choose from"),
        (["fast", "/no/such.gguf"], 3, "no file /no/such.gguf"),
        (["fast", "hf:x"], 2, "hf:OWNER/REPO"),
        (["--remove"], 2, "--remove needs the NAME"),
    ],
)
def test_aliases_that_make_no_sense_are_refused(
    command: Command, models: Path, arguments: list[str], code: int, said: str
) -> None:
    shelve(models, "mine", "Q4_0")
    done = command("alias", *arguments)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert command("alias").out == ""


def test_alias_shadows_no_model_of_the_catalog(
    command: Command, models: Path, tmp_path: Path
) -> None:
    command("alias", "fast", str(TARGET))
    own = tmp_path / "config" / "gemmachat" / "models.toml"
    own.parent.mkdir(parents=True)
    own.write_text(
        '[fast]\ndescription = "mine"\ncontext = 64\n'
        'quants.Q8_0 = { repo = "me/mine", file = "mine.gguf" }\n'
    )
    assert "gemmachat pull fast" in command("run", "fast", "hi").err
    done = command("alias", "fast", str(TARGET))
    assert done.code == 2
    assert done.err == "error: fast is the name of a model: choose another one\n"
    (models / "aliases.json").write_text(json.dumps({"tiny": str(DRAFTER)}))
    engine = FakeEngine()
    assert command("run", "tiny", "hi", engine=engine).code == 0
    assert engine.opened[0][0].target == TARGET


def test_more_aliases_than_are_read_are_refused(command: Command, models: Path) -> None:
    far = models / "/".join(["x" * 200] * 15) / "t.gguf"
    far.parent.mkdir(parents=True)
    far.write_bytes(TARGET.read_bytes())
    done = [command("alias", f"a{n}", str(far)) for n in range(30)]
    assert {result.code for result in done} == {0, 2}
    assert "gemmachat alias --remove NAME" in done[-1].err
    assert command("list").code == 0


@pytest.mark.parametrize("name", ["aliases.json", "e2b/q4_0/manifest.json", "e2b/q4_0"])
def test_a_pipe_in_the_models_folder_is_not_waited_for(
    command: Command, models: Path, name: str
) -> None:
    place = models / name
    place.parent.mkdir(parents=True)
    os.mkfifo(place)
    assert command("list").code in (0, 1)


def test_damaged_aliases_are_one_sentence(command: Command, models: Path) -> None:
    models.mkdir()
    (models / "aliases.json").write_text('{"../x": 1}')
    done = command("alias")
    assert done.code == 4
    assert "aliases.json are damaged" in done.err


# ---- run -----------------------------------------------------------------------------------------


def test_known_model_that_is_not_here_names_the_command_that_gets_it(
    command: Command, models: Path
) -> None:
    done = command("run", "e2b", "hi")
    assert done.code == 3
    assert done.err.endswith("gemmachat pull e2b\n")


def test_only_pulled_model_is_the_default_of_every_command(command: Command, models: Path) -> None:
    unit = shelve(models, "e2b", "Q4_0")
    engine = FakeEngine()
    done = command("run", "hi", engine=engine)
    assert engine.opened[0][0].unit == unit
    assert done.err == ""
    assert json.loads(command("doctor", "--json").out)["model"][0] == str(unit.target)


def test_empty_home_is_as_one_that_is_not_set(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "GEMMACHAT_MODELS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "")
    folder = Path(json.loads(command("list", "--json").out)["folder"])
    assert folder.is_relative_to(pwd.getpwuid(os.getuid()).pw_dir)
    assert folder.parts[-2:] == ("gemmachat", "models")


def test_user_without_a_home_can_chat_with_the_demo(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "GEMMACHAT_MODELS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "nowhere")
    assert command("run", "hi", engine=FakeEngine("Hello.")).out == "Hello.\n"
    assert command("run", "tiny", "hi", engine=FakeEngine("Hello.")).out == "Hello.\n"
    assert command("run", "nothing", "hi").code == 3
    done = command("list")
    assert done.code == 3
    assert "GEMMACHAT_MODELS" in done.err
