"""What is on the shelf, what is left beside it, and that only gemmachat's own files go away."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from embedded import DRAFTER, TARGET
from gguf_builder import gguf
from small_models import shelve

from gemmachat import shelf_cleanup
from gemmachat.errors import DamagedFileError, GemmachatError, PairMismatchError, UsageError
from gemmachat.file_lock import locked
from gemmachat.manifest import CHECKPOINTS, MANIFEST, Manifest
from gemmachat.shelf import LAST_USED, Shelf
from gemmachat.shelf_check import verify
from gemmachat.shelf_import import import_model, name_of


def quiet(*_: int) -> None:
    pass


# ---- units ---------------------------------------------------------------------------------------


def test_units_are_found_by_name_and_quantization(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    assert shelf.units() == ([], [])
    unit = shelve(tmp_path, "e4b", "Q8_0")
    other = shelve(tmp_path, "e2b", "Q4_0")
    assert shelf.units() == ([other, unit], [])
    assert shelf.find("e4b") == shelf.find("e4b", "q8_0") == unit
    assert shelf.find("e4b", "Q4_0") is None
    assert shelf.find("31b") is None
    assert unit.nbytes == TARGET.stat().st_size + DRAFTER.stat().st_size


def test_of_several_quantizations_the_last_used_one_is_meant(tmp_path: Path) -> None:
    old, new = shelve(tmp_path, "e2b", "Q4_0"), shelve(tmp_path, "e2b", "Q8_0")
    shelf = Shelf(tmp_path)
    old.touch()
    assert shelf.find("e2b") == old
    os.utime(old.folder / LAST_USED, (1, 1))
    assert shelf.find("e2b") == new
    assert old.last_used() == datetime.fromtimestamp(1, UTC)


def test_folder_without_a_manifest_is_not_on_the_shelf(tmp_path: Path) -> None:
    (shelve(tmp_path, "e2b", "Q4_0").folder / MANIFEST).unlink()
    assert Shelf(tmp_path).units() == ([], [])
    assert Shelf(tmp_path).find("e2b") is None


def test_damaged_manifest_hides_no_other_unit(tmp_path: Path) -> None:
    unit = shelve(tmp_path, "e2b", "Q4_0")
    broken = shelve(tmp_path, "e4b", "Q4_0")
    (broken.folder / MANIFEST).write_text("{}")
    units, problems = Shelf(tmp_path).units()
    assert units == [unit]
    assert [str(broken.folder) in str(problem) for problem in problems] == [True]
    with pytest.raises(DamagedFileError):
        Shelf(tmp_path).find("e4b")


UNREADABLE = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from gemmachat import cli
commands = ["list"], ["prune"], ["verify"], ["verify", "e4b"], ["show", "e4b"]
for command in commands:
    assert cli.main(command) == 0  # loads what another user may not be allowed to read
os.chmod(sys.argv[1], 0)
if os.getuid() == 0:
    os.setuid(65534)  # nothing is unreadable to root
print("codes", *map(cli.main, commands))
"""


@pytest.mark.parametrize("part", ["e4b/q4_0/manifest.json", "e4b/q4_0", "e4b"])
def test_unreadable_unit_is_one_problem_and_hides_no_other(part: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        models = Path(name)
        models.chmod(0o755)
        shelve(models, "e2b", "Q4_0")
        shelve(models, "e4b", "Q4_0")
        done = subprocess.run(
            [sys.executable, "-c", UNREADABLE, models / part, Path(__file__).parent.parent],
            env={**os.environ, "GEMMACHAT_MODELS": name, "XDG_CONFIG_HOME": name},
            capture_output=True,
            text=True,
            check=False,
        )
        (models / part).chmod(0o755)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "codes 0 0 1 1 1"
    assert lines.count("e2b:q4_0: 2 files are right") == 2  # before and after
    assert done.stderr.count("cannot be read: Permission denied") == 5


def test_unit_in_the_folder_of_another_is_refused(tmp_path: Path) -> None:
    unit = shelve(tmp_path, "e2b", "Q4_0")
    unit.folder.rename(tmp_path / "e2b" / "q8_0")
    with pytest.raises(DamagedFileError, match="holds the manifest of e2b:q4_0"):
        Shelf(tmp_path).find("e2b")


@pytest.mark.parametrize("seconds", [-1, -(1 << 40), 1 << 38])
def test_use_at_a_time_that_cannot_be_is_unknown(tmp_path: Path, seconds: int) -> None:
    unit = shelve(tmp_path, "e2b", "Q4_0")
    unit.touch()
    try:
        os.utime(unit.folder / LAST_USED, (seconds, seconds))
    except (OSError, OverflowError):
        pytest.skip("this file system keeps no such time")
    if (unit.folder / LAST_USED).stat().st_mtime != seconds:
        pytest.skip("this file system keeps no such time")
    assert unit.last_used() is None
    assert Shelf(tmp_path).find("e2b") == unit


def test_use_that_cannot_be_remembered_is_no_error(tmp_path: Path) -> None:
    unit = shelve(tmp_path, "e2b", "Q4_0")
    (unit.folder / LAST_USED).symlink_to(LAST_USED)  # a circle: nothing can be written there
    unit.touch()
    assert unit.last_used() is None


def test_models_of_other_programs_are_none_of_ours(tmp_path: Path) -> None:
    theirs = tmp_path / "SomeOne" / "Model-GGUF" / "model.gguf"
    theirs.parent.mkdir(parents=True)
    theirs.write_bytes(TARGET.read_bytes())
    assert Shelf(tmp_path).units() == ([], [])
    assert shelf_cleanup.find_leftovers(Shelf(tmp_path)) == ([], [])


# ---- verify --------------------------------------------------------------------------------------


def test_sound_unit_passes_and_every_byte_is_hashed(tmp_path: Path) -> None:
    unit = shelve(tmp_path, "e2b", "Q4_0")
    hashed: list[int] = []
    checks = verify(unit, hashed.append)
    assert [(check.model, check.problem) for check in checks] == [("e2b:q4_0", None)] * 2
    assert sum(hashed) == unit.nbytes


def test_each_kind_of_damage_is_told(tmp_path: Path) -> None:
    unit = shelve(tmp_path, "e2b", "Q4_0")
    assert unit.drafter is not None
    data = bytearray(unit.target.read_bytes())
    data[-1] ^= 1
    unit.target.write_bytes(data)
    unit.drafter.write_bytes(b"short")
    flipped, short = verify(unit, quiet)
    assert flipped.problem is not None
    assert unit.manifest.target.sha256 in flipped.problem
    assert short.problem == f"it has 5 bytes, not {DRAFTER.stat().st_size:,}"
    unit.drafter.unlink()
    assert verify(unit, quiet)[1].problem == "it is gone"
    unit.drafter.mkdir()
    assert verify(unit, quiet)[1].problem == "it is not a file"


def test_files_that_were_wrong_from_the_start_do_not_pass(tmp_path: Path) -> None:
    unit = shelve(tmp_path, "e2b", "Q4_0")
    target, drafter = unit.manifest.files
    swapped = (
        type(target)("target", drafter.file, drafter.bytes, drafter.sha256),
        type(target)("drafter", target.file, target.bytes, target.sha256),
    )
    Manifest("e2b", "Q4_0", swapped, unit.manifest.pulled_at).write(unit.folder)
    again = Shelf(tmp_path).find("e2b")
    assert again is not None
    *right, pair = verify(again, quiet)
    assert [check.problem for check in right] == [None, None]
    assert "swapped" in str(pair.problem)


def test_unit_that_another_program_changes_is_left_alone(tmp_path: Path) -> None:
    unit = shelve(tmp_path, "e2b", "Q4_0")
    with locked(unit.folder / MANIFEST, quiet):
        for action in (lambda: verify(unit, quiet), lambda: shelf_cleanup.remove(unit.folder)):
            with pytest.raises(GemmachatError, match="another gemmachat is at work"):
                action()
        leftovers, skipped = shelf_cleanup.find_leftovers(Shelf(tmp_path))
        assert leftovers == []
        assert "another gemmachat" in skipped[0]
    assert Shelf(tmp_path).find("e2b") == unit


READ_ONLY = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from gemmachat import cli
assert cli.main(["verify"]) == 0  # loads what another user may not be allowed to read
os.chmod(sys.argv[1], 0o500)
if os.getuid() == 0:
    os.chmod(sys.argv[1], 0o555)
    os.setuid(65534)  # nothing is read-only to root
sys.exit(cli.main(["verify"]))
"""


UNREADABLE_FILE = """
import os, sys
sys.path.insert(0, sys.argv[2])
from gemmachat import cli
cli.main(["verify"])  # loads what another user may not be allowed to read
os.chmod(sys.argv[1], 0)
if os.getuid() == 0:
    os.setuid(65534)  # nothing is unreadable to root
code = cli.main(["verify"])
assert cli.main(["verify", "--json"]) == code
sys.exit(code)
"""


@pytest.mark.parametrize(("damaged", "code"), [(False, 1), (True, 4)])
def test_file_that_cannot_be_read_is_not_called_damaged(damaged: bool, code: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        unit = shelve(Path(folder), "e2b", "Q4_0")
        if damaged:
            shelve(Path(folder), "e4b", "Q4_0").target.write_bytes(b"short")
        done = subprocess.run(
            [sys.executable, "-c", UNREADABLE_FILE, unit.target, Path(__file__).parent.parent],
            env={**os.environ, "GEMMACHAT_MODELS": folder},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == code, done.stderr
    assert "e2b:q4_0: e2b.gguf: it cannot be read: Permission denied\n" in done.stdout
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["ok"] is False
    assert [item["damaged"] for item in report["files"] if item["model"] == "e2b:q4_0"] == [
        *(False, False)
    ]
    assert ("is damaged" in done.stdout, "gemmachat rm e4b:q4_0" in done.stderr) == (damaged,) * 2
    assert "gemmachat rm e2b" not in done.stderr


def test_shelf_that_is_read_only_can_be_verified() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        unit = shelve(Path(folder), "e2b", "Q4_0")
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, unit.folder, Path(__file__).parent.parent],
            env={**os.environ, "GEMMACHAT_MODELS": folder},
            capture_output=True,
            text=True,
            check=False,
        )
        unit.folder.chmod(0o755)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "e2b:q4_0: 2 files are right\n" * 2


# ---- remove and prune ----------------------------------------------------------------------------


def test_target_and_drafter_go_together(tmp_path: Path) -> None:
    unit = shelve(tmp_path, "e2b", "Q4_0")
    unit.touch()
    (unit.folder / f"{unit.manifest.files[1].file}.clusters").write_bytes(b"x")
    (unit.folder / "e2b.gguf.part").write_bytes(b"xy")
    removal = shelf_cleanup.remove(unit.folder)
    assert removal.nbytes == unit.nbytes + 3
    assert removal.left == ()
    assert not (tmp_path / "e2b").exists()


def test_files_of_others_stay(tmp_path: Path) -> None:
    unit = shelve(tmp_path, "e2b", "Q4_0")
    notes = unit.folder / "notes.txt"
    notes.write_text("mine")
    (unit.folder / "folder").mkdir()
    assert shelf_cleanup.remove(unit.folder).left == (unit.folder / "folder", notes)
    assert notes.read_text() == "mine"
    assert Shelf(tmp_path).find("e2b") is None


def test_checkpoint_of_an_interrupted_pull_goes_too(tmp_path: Path) -> None:
    unit = shelve(tmp_path, "e2b", "Q4_0")
    snapshot = unit.folder / CHECKPOINTS / "models--me--mine" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").write_bytes(b"x")
    for name in ("config.json", "model.safetensors.part"):
        (snapshot / name).write_bytes(b"12")
    (snapshot / "link").symlink_to(outside)
    leftovers, _ = shelf_cleanup.find_leftovers(Shelf(tmp_path))
    assert [file.name for file in leftovers[0].files] == [
        *("config.json", "link", "model.safetensors.part")
    ]
    shelf_cleanup.prune(leftovers[0])
    assert not (unit.folder / CHECKPOINTS).exists()
    assert Shelf(tmp_path).find("e2b") == unit
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_bytes(b"1")
    shelf_cleanup.remove(unit.folder)
    assert not unit.folder.exists()
    assert (outside / "keep").exists()


def test_linked_checkpoint_folder_is_not_followed(tmp_path: Path) -> None:
    unit = shelve(tmp_path / "models", "e2b", "Q4_0")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").write_bytes(b"x")
    (unit.folder / CHECKPOINTS).symlink_to(outside)
    shelf_cleanup.remove(unit.folder)
    assert (outside / "keep").exists()


def test_link_is_removed_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    outside = tmp_path / "outside.gguf"
    outside.write_bytes(b"x")
    unit = shelve(tmp_path / "models", "e2b", "Q4_0")
    (unit.folder / "link.gguf").symlink_to(outside)
    shelf_cleanup.remove(unit.folder)
    assert outside.read_bytes() == b"x"
    assert not unit.folder.exists()


def test_mapped_files_of_a_running_chat_stay_readable(tmp_path: Path) -> None:
    unit = shelve(tmp_path, "e2b", "Q4_0")
    with unit.target.open("rb") as file:
        shelf_cleanup.remove(unit.folder)
        assert file.read() == TARGET.read_bytes()


def test_prune_takes_partials_and_files_without_a_manifest_and_nothing_else(tmp_path: Path) -> None:
    unit = shelve(tmp_path, "e2b", "Q4_0")
    unit.touch()
    clusters = unit.folder / f"{unit.manifest.files[1].file}.clusters"
    clusters.write_bytes(b"c")
    orphan = shelve(tmp_path, "e4b", "Q4_0")
    (orphan.folder / MANIFEST).unlink()
    for name in ("x.gguf.part", "x.gguf.part.json", "old.gguf"):
        (unit.folder / name).write_bytes(b"12345")
    (unit.folder / "notes.txt").write_text("mine")
    before = set(unit.folder.iterdir())
    leftovers, skipped = shelf_cleanup.find_leftovers(Shelf(tmp_path))
    assert skipped == []
    assert [part.folder for part in leftovers] == [unit.folder, orphan.folder]
    assert {file.name for file in leftovers[0].files} == {
        *("x.gguf.part", "x.gguf.part.json", "old.gguf")
    }
    assert sum(map(shelf_cleanup.prune, leftovers)) == 15 + orphan.nbytes
    assert set(unit.folder.iterdir()) == before - set(leftovers[0].files)
    assert not orphan.folder.parent.exists()
    assert not any(check.problem for check in verify(unit, quiet))


def test_prune_does_not_take_what_became_a_model_meanwhile(tmp_path: Path) -> None:
    unit = shelve(tmp_path, "e2b", "Q4_0")
    (unit.folder / MANIFEST).rename(unit.folder / "away")
    leftovers, _ = shelf_cleanup.find_leftovers(Shelf(tmp_path))
    (unit.folder / "away").rename(unit.folder / MANIFEST)
    assert [shelf_cleanup.prune(part) for part in leftovers] == [0]
    assert unit.target.exists()


def test_prune_leaves_what_other_programs_keep_in_the_models_folder(tmp_path: Path) -> None:
    models, outside = tmp_path / "models", tmp_path / "outside"
    for folder in (models / "run1" / "v1" / "checkpoint", outside, models / "link"):
        folder.mkdir(parents=True)
    (models / "link" / "q8_0").symlink_to(outside)
    theirs = [
        models / "run1" / "v1" / "gemma.gguf",
        models / "run1" / "v1" / "checkpoint" / "weights.pt",
        models / "run1" / "v1" / "notes.lock",
        outside / "precious.gguf",
    ]
    for file in theirs:
        file.write_bytes(b"x")
    assert shelf_cleanup.find_leftovers(Shelf(models)) == ([], [])


def test_import_over_a_lost_manifest_leaves_no_partial_file(tmp_path: Path) -> None:
    unit = shelve(tmp_path, "mine", "Q8_0")
    own = unit.folder / "mine-Q8_0.gguf"
    unit.target.rename(own)
    (unit.folder / MANIFEST).unlink()
    import_model(Shelf(tmp_path), own, None, "mine", lambda *_: None)
    assert not list(unit.folder.glob("*.part"))


def test_failed_import_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, _ = copies(tmp_path / "files")
    monkeypatch.setattr(os, "link", no_link)
    monkeypatch.setattr(Path, "replace", no_link)
    with pytest.raises(OSError, match="no links"):
        import_model(Shelf(tmp_path / "models"), target, None, "mine", lambda *_: None)
    assert not list((tmp_path / "models").iterdir())


def no_link(*_: object) -> None:
    raise OSError("no links here")


def test_prune_leaves_folders_with_a_damaged_manifest(tmp_path: Path) -> None:
    unit = shelve(tmp_path, "e2b", "Q4_0")
    (unit.folder / MANIFEST).write_text("{}")
    leftovers, skipped = shelf_cleanup.find_leftovers(Shelf(tmp_path))
    assert leftovers == []
    assert "is damaged" in skipped[0]


# ---- import --------------------------------------------------------------------------------------


def copies(folder: Path) -> tuple[Path, Path]:
    folder.mkdir()
    target, drafter = folder / "My Model-Q8_0.gguf", folder / "d.gguf"
    target.write_bytes(TARGET.read_bytes())
    drafter.write_bytes(DRAFTER.read_bytes())
    return target, drafter


def test_imported_pair_is_linked_hashed_and_named_after_its_file(tmp_path: Path) -> None:
    target, drafter = copies(tmp_path / "mine")
    shelf = Shelf(tmp_path / "models")
    moved: list[tuple[int, int]] = []
    unit = import_model(shelf, target, drafter, name_of(target), lambda *step: moved.append(step))
    assert unit.reference == "my-model:q8_0"
    assert shelf.find("my-model") == unit
    assert unit.target.samefile(target)
    assert unit.drafter is not None
    assert unit.drafter.samefile(drafter)
    assert moved[-1] == (unit.nbytes, unit.nbytes)
    assert not any(check.problem for check in verify(unit, quiet))


def test_file_on_another_disk_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def refuse(source: Path, *places: Path, **how: int) -> None:
        if Path(source).suffix == ".gguf":
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        link(source, *places, **how)

    target, _ = copies(tmp_path / "mine")
    monkeypatch.setattr(os, "link", refuse)
    unit = import_model(Shelf(tmp_path / "models"), target, None, "mine", quiet)
    assert not unit.target.samefile(target)
    assert unit.drafter is None
    assert not any(check.problem for check in verify(unit, quiet))


def test_link_is_imported_as_the_file_that_it_leads_to(tmp_path: Path) -> None:
    target, _ = copies(tmp_path / "mine")
    link = tmp_path / "link-Q8_0.gguf"
    link.symlink_to(target)
    unit = import_model(Shelf(tmp_path / "models"), link, None, "mine", quiet)
    assert not unit.target.is_symlink()
    target.unlink()
    assert not any(check.problem for check in verify(unit, quiet))


def test_files_that_cannot_be_used_are_not_imported(tmp_path: Path) -> None:
    target, drafter = copies(tmp_path / "mine")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(gguf(key_count=1 << 60))
    shelf = Shelf(tmp_path / "models")
    with pytest.raises(DamagedFileError):
        import_model(shelf, broken, None, "mine", quiet)
    with pytest.raises(PairMismatchError, match="swapped"):
        import_model(shelf, drafter, target, "mine", quiet)
    with pytest.raises(PairMismatchError, match="is a drafter and cannot run alone"):
        import_model(shelf, drafter, None, "mine", quiet)
    assert not shelf.models.exists()


def test_place_that_is_taken_and_name_that_is_none_are_refused(tmp_path: Path) -> None:
    target, _ = copies(tmp_path / "mine")
    shelf = Shelf(tmp_path / "models")
    unit = import_model(shelf, target, None, "mine", quiet)
    with pytest.raises(UsageError, match="is on the shelf already"):
        import_model(shelf, target, None, "mine", quiet)
    for name in ("../x", "X", "a/b", "", "con"):
        with pytest.raises(UsageError, match="cannot be the name"):
            import_model(shelf, target, None, name, quiet)
    with pytest.raises(UsageError, match="too long"):
        import_model(shelf, target, None, "x" * 190, quiet)
    assert shelf.units() == ([unit], [])


def test_import_that_fails_half_way_leaves_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, drafter = copies(tmp_path / "mine")
    shelf = Shelf(tmp_path / "models")

    def stop(done: int, total: int) -> None:
        if done > TARGET.stat().st_size:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_model(shelf, target, drafter, "mine", stop)
    assert shelf.units() == ([], [])
    assert not list(shelf.models.rglob("*.part"))
    assert import_model(shelf, target, drafter, "mine", quiet).reference == "mine:q8_0"
