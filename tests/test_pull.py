"""A model is pulled as one unit, by the best drafter there is, and kept as it was described."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pull_sources as sources
import pytest
from hub_settings import QUICK
from pull_sources import CONVERTED, DRAFTER_FILE, SOURCE, TARGET_FILE, Pair, make_pair, sha256

from gemmachat import clusters, pull_drafter
from gemmachat import pull as pulling
from gemmachat.errors import DamagedFileError, DownloadError, NotFoundError, UsageError
from gemmachat.file_lock import locked
from gemmachat.gguf_info import check_pair, read_header
from gemmachat.hub import Hub
from gemmachat.manifest import MANIFEST, MARK, Manifest, ManifestFile
from gemmachat.pull import pull
from gemmachat.pull_events import PullEvent
from gemmachat.source import HubCheckpoint, HubPath


@pytest.fixture(scope="session")
def pair(tmp_path_factory) -> Pair:
    return make_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture
def server(stand_in, pair):
    pair.put(stand_in)
    return stand_in


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    return tmp_path / "models" / "nano" / "q8_0"


@pytest.fixture
def events() -> list[PullEvent]:
    return []


def kinds(events: list[PullEvent]) -> list[str]:
    return [event.kind for event in events]


def notes(events: list[PullEvent]) -> str:
    return "\n".join(event.text for event in events if event.kind == "note")


PLAIN = replace(SOURCE, drafters=(sources.DRAFTER,))


def test_a_checkpoint_becomes_the_drafter_and_leaves_nothing_else(server, pair, unit, hub, events):
    manifest = pull(SOURCE, unit, hub, events.append)
    assert sorted(os.listdir(unit)) == sorted([MARK, MANIFEST, TARGET_FILE, CONVERTED])
    assert Manifest.read(unit) == manifest
    commit = server.commit(sources.MODELS, "main")[0]
    assert manifest.target == ManifestFile(
        "target",
        TARGET_FILE,
        len(pair.target),
        sha256(pair.target),
        sources.MODELS,
        TARGET_FILE,
        commit,
    )
    drafter = manifest.drafter
    assert drafter.file == CONVERTED
    assert drafter.sha256 == sha256((unit / CONVERTED).read_bytes())
    assert drafter.bytes == (unit / CONVERTED).stat().st_size
    origin = server.commit(sources.ASSISTANT, "main")[0]
    assert (
        drafter.made_from == f"the checkpoint owner/nano-assistant at {origin}, converted to Q8_0"
    )
    header = read_header(unit / CONVERTED)
    check_pair(read_header(unit / TARGET_FILE), header)
    assert header.metadata["general.source.url"].endswith(f"nano-assistant/tree/{origin}")
    assert header.metadata["general.license"] == "apache-2.0"
    assert kinds(events)[0] == "plan"
    assert {"fetch", "ready", "convert"} <= set(kinds(events))


def test_only_what_a_conversion_needs_is_fetched(server, unit, hub):
    pull(SOURCE, unit, hub)
    asked = [r.path.rsplit("/", 1)[-1] for r in server.of("hub") if "resolve" in r.path]
    assert "model.bin" not in asked
    assert DRAFTER_FILE not in asked


def test_a_drafter_that_is_a_file_is_taken_as_it_is(server, pair, unit, hub):
    manifest = pull(PLAIN, unit, hub)
    assert sorted(os.listdir(unit)) == sorted([MARK, MANIFEST, TARGET_FILE, DRAFTER_FILE])
    assert (unit / DRAFTER_FILE).read_bytes() == pair.drafter
    assert manifest.drafter.path == DRAFTER_FILE
    assert manifest.drafter.made_from is None


def test_a_model_that_is_there_is_not_fetched_again(server, unit, hub, events):
    first = pull(SOURCE, unit, hub)
    fetched = server.fetched
    assert pull(SOURCE, unit, hub, events.append) == first
    assert server.fetched == fetched
    assert events == []


def test_a_file_that_is_gone_is_all_that_is_fetched(server, pair, unit, hub):
    pull(PLAIN, unit, hub)
    (unit / DRAFTER_FILE).unlink()
    fetched = server.fetched
    pull(PLAIN, unit, hub)
    assert server.fetched - fetched == len(pair.drafter)


def test_a_damaged_manifest_is_told_and_made_anew(server, unit, hub, events):
    first = pull(PLAIN, unit, hub)
    (unit / MANIFEST).write_text("{")
    fetched = server.fetched
    assert pull(PLAIN, unit, hub, events.append).files == first.files
    assert "damaged" in notes(events)
    assert server.fetched == fetched


def test_a_manifest_of_another_model_is_made_anew(server, unit, hub):
    first = pull(PLAIN, unit, hub)
    replace(first, name="other").write(unit)
    fetched = server.fetched
    assert pull(PLAIN, unit, hub) == Manifest.read(unit)
    assert Manifest.read(unit).name == first.name
    assert server.fetched == fetched


def test_a_file_that_changed_on_the_hub_is_told_and_replaced(server, pair, unit, hub, events):
    old = pull(PLAIN, unit, hub)
    changed = bytearray(pair.target)
    changed[-1] ^= 1
    server.put(sources.MODELS, {TARGET_FILE: bytes(changed)})
    new = pull(PLAIN, unit, hub, events.append)
    assert new.target.file == f"nano-Q8_0-{sha256(bytes(changed))[:8]}.gguf"
    assert (unit / new.target.file).read_bytes() == changed
    assert new.target.sha256 == sha256(bytes(changed))
    assert new.drafter == old.drafter
    assert sorted(os.listdir(unit)) == sorted([MARK, MANIFEST, new.target.file, DRAFTER_FILE])
    for part in (old.target.sha256, new.target.sha256, old.pulled_at):
        assert part in notes(events)
    assert pull(PLAIN, unit, hub) == new
    (unit / new.target.file).unlink()
    assert pull(PLAIN, unit, hub).files == new.files


def is_as_described(unit: Path) -> bool:
    manifest = Manifest.read(unit)
    return all(sha256((unit / file.file).read_bytes()) == file.sha256 for file in manifest.files)


@pytest.mark.parametrize("content", ["changed", "junk"])
def test_an_update_that_fails_leaves_the_old_pair_usable(server, pair, unit, hub, content):
    old = pull(PLAIN, unit, hub)
    target = pair.target[:-1] + b"?" if content == "changed" else b"GGUF" + bytes(1000)
    server.put(sources.MODELS, {TARGET_FILE: target})
    server.put(sources.OTHER, {DRAFTER_FILE: pair.drafter[:-1] + b"?"})
    drafter = sha256(pair.drafter[:-1] + b"?")
    server.faults.statuses = [(f"cdn GET /blob/{drafter}", 503, {})] * 4
    with pytest.raises((DownloadError, DamagedFileError)):
        pull(PLAIN, unit, hub)
    assert Manifest.read(unit) == old
    assert is_as_described(unit)
    server.put(sources.MODELS, {TARGET_FILE: pair.target[:-1] + b"?"})
    server.faults.statuses = []
    new = pull(PLAIN, unit, hub)
    assert (new.target.sha256, new.drafter.sha256) == (sha256(pair.target[:-1] + b"?"), drafter)
    assert is_as_described(unit)
    assert sorted(os.listdir(unit)) == sorted([MARK, MANIFEST, new.target.file, new.drafter.file])


def test_a_drafter_that_was_converted_is_kept_when_the_target_is_fetched_anew(
    server, pair, unit, hub, events
):
    old = pull(SOURCE, unit, hub)
    (unit / TARGET_FILE).unlink()
    fetched = server.fetched
    assert pull(SOURCE, unit, hub, events.append).files == old.files
    assert server.fetched - fetched == len(pair.target)
    assert "convert" not in kinds(events)
    (unit / CONVERTED).write_bytes((unit / CONVERTED).read_bytes()[:-1] + b"?")
    (unit / TARGET_FILE).unlink()
    assert pull(SOURCE, unit, hub).files == old.files
    assert is_as_described(unit)


def test_a_better_drafter_replaces_the_one_that_was_pulled_before(server, unit, hub, events):
    server.gated.add(sources.ASSISTANT)
    assert pull(SOURCE, unit, hub, events.append).drafter.file == DRAFTER_FILE
    assert "HF_TOKEN" in notes(events)
    (unit / f"{DRAFTER_FILE}.clusters").write_bytes(b"of the old one")
    server.gated.clear()
    assert pull(SOURCE, unit, hub).drafter.file == CONVERTED
    assert sorted(os.listdir(unit)) == sorted([MARK, MANIFEST, TARGET_FILE, CONVERTED])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda files: {name: data for name, data in files.items() if name != "config.json"},
        lambda files: {name: data for name, data in files.items() if "safetensors" not in name},
        lambda files: files | {"config.json": b"{}"},
        lambda files: files | {"model.safetensors": files["model.safetensors"][:-4]},
        lambda files: files | {"tokenizer.json": b"["},
    ],
)
def test_a_checkpoint_that_cannot_be_converted_makes_way(server, pair, unit, hub, events, spoil):
    server.put(sources.ASSISTANT, spoil(pair.checkpoint))
    manifest = pull(SOURCE, unit, hub, events.append)
    assert manifest.drafter.file == DRAFTER_FILE
    assert "owner/nano-assistant is passed over, trying the next" in notes(events)
    assert sorted(os.listdir(unit)) == sorted([MARK, MANIFEST, TARGET_FILE, DRAFTER_FILE])


def test_a_drafter_of_another_model_makes_way_or_is_left_out(server, pair, unit, hub, events):
    server.put("owner/wrong", {"mtp-wrong.gguf": pair.other_drafter})
    wrong = HubPath("owner/wrong", "mtp-wrong.gguf")
    manifest = pull(replace(SOURCE, drafters=(wrong, sources.DRAFTER)), unit, hub, events.append)
    assert manifest.drafter.file == DRAFTER_FILE
    assert not (unit / "mtp-wrong.gguf").exists()
    alone = pull(replace(SOURCE, drafters=(wrong,)), unit.with_name("x"), hub, events.append)
    assert alone.drafter is None
    assert "without a drafter" in notes(events)


def test_a_drafter_that_cannot_be_reached_fails_the_pull_and_the_next_goes_on(
    server, pair, unit, hub
):
    server.faults.statuses = [("other/nano-GGUF", 503, {})] * 4
    with pytest.raises(DownloadError, match="503"):
        pull(PLAIN, unit, hub)
    assert Manifest.read(unit) is None
    assert pull(PLAIN, unit, hub).drafter.file == DRAFTER_FILE


def test_a_model_without_drafters_is_pulled_alone(server, unit, hub):
    manifest = pull(replace(SOURCE, drafters=()), unit, hub)
    assert manifest.files == (manifest.target,)
    assert pull(replace(SOURCE, drafters=()), unit, hub) == manifest


def test_target_and_drafter_of_one_name_do_not_overwrite_each_other(server, pair, unit, hub):
    server.put("owner/same", {"NANO-q8_0.gguf": pair.drafter})
    source = replace(SOURCE, drafters=(HubPath("owner/same", "NANO-q8_0.gguf"),))
    manifest = pull(source, unit, hub)
    assert manifest.drafter.file == "drafter-NANO-q8_0.gguf"
    assert Manifest.read(unit) == manifest
    assert pull(source, unit, hub) == manifest


@pytest.mark.parametrize("content", ["drafter", "junk"])
def test_a_target_that_cannot_be_run_is_refused_and_not_kept(server, pair, unit, hub, content):
    data = pair.drafter if content == "drafter" else b"GGUF" + bytes(1000)
    server.put(sources.MODELS, {TARGET_FILE: data})
    with pytest.raises(DamagedFileError) as error:
        pull(SOURCE, unit, hub)
    assert error.value.exit_code == 4
    assert not unit.exists()


def test_a_target_that_is_not_there_is_not_found(server, unit, hub):
    for place in (HubPath(sources.MODELS, "x.gguf"), HubPath("owner/none", "*.gguf")):
        with pytest.raises(NotFoundError):
            pull(replace(SOURCE, target=place), unit, hub)
    with pytest.raises(UsageError, match=r"README\.md"):
        pull(replace(SOURCE, target=HubPath(sources.MODELS, "README.md")), unit, hub)


def test_a_full_disk_is_told_before_the_first_byte(server, pair, unit, hub, monkeypatch):
    weights = len(pair.checkpoint["model.safetensors"])
    parts = sum(len(data) for name, data in pair.checkpoint.items() if name != "model.bin")
    need = len(pair.target) + parts + weights  # of which the converted file becomes a part
    usage = pulling.shutil.disk_usage(unit.anchor)
    monkeypatch.setattr(pulling.shutil, "disk_usage", lambda _: usage._replace(free=need - 1))
    with pytest.raises(DownloadError, match=f"{need:,}.*{need - 1:,}.*free 1 bytes"):
        pull(SOURCE, unit, hub)
    assert server.fetched == 0
    monkeypatch.setattr(pulling.shutil, "disk_usage", lambda _: usage._replace(free=need))
    pull(SOURCE, unit, hub)


def test_what_is_here_already_needs_no_room(server, pair, unit, hub, monkeypatch):
    server.faults.cuts = [len(pair.target) // 2] * 9
    with pytest.raises(DownloadError):
        pull(PLAIN, unit, hub)
    server.faults.cuts = []
    need = len(pair.target) - len(pair.target) // 2 + len(pair.drafter)
    usage = pulling.shutil.disk_usage(unit)
    monkeypatch.setattr(pulling.shutil, "disk_usage", lambda _: usage._replace(free=need))
    events: list[PullEvent] = []
    pull(PLAIN, unit, hub, events.append)
    assert (events[0].kind, events[0].done) == ("plan", len(pair.target) // 2)


def test_a_folder_that_is_a_file_is_told(server, unit, hub):
    unit.parent.mkdir(parents=True)
    unit.write_bytes(b"mine")
    with pytest.raises(DownloadError, match="cannot be written"):
        pull(SOURCE, unit, hub)
    assert unit.read_bytes() == b"mine"


def test_a_folder_that_is_removed_while_a_pull_waits_is_made_again(server, unit, hub, events):
    unit.mkdir(parents=True)
    other = ExitStack()
    other.enter_context(locked(unit / MANIFEST, lambda: None))

    def remove(event: PullEvent) -> None:
        events.append(event)
        if event.kind == "wait":
            other.close()
            unit.rmdir()
            unit.parent.rmdir()

    manifest = pull(PLAIN, unit, hub, remove)
    assert kinds(events)[0] == "wait"
    assert Manifest.read(unit) == manifest


def fill_cache(hf_cache: Path, repo: str, files: dict[str, bytes]) -> None:
    folder = hf_cache / f"models--{repo.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("c" * 40)
    (folder / "blobs").mkdir()
    (folder / "snapshots" / ("c" * 40)).mkdir(parents=True)
    for name, data in files.items():
        blob = folder / "blobs" / sha256(data)
        blob.write_bytes(data)
        (folder / "snapshots" / ("c" * 40) / name).symlink_to(blob)


def test_offline_a_model_comes_from_the_cache(offline, pair, unit, hub, hf_cache):
    fill_cache(hf_cache, sources.MODELS, {TARGET_FILE: pair.target})
    fill_cache(hf_cache, sources.ASSISTANT, pair.checkpoint)
    manifest = pull(SOURCE, unit, hub)
    assert manifest.target.sha256 == sha256(pair.target)
    assert manifest.target.commit == "c" * 40
    assert manifest.drafter.file == CONVERTED
    check_pair(read_header(unit / TARGET_FILE), read_header(unit / CONVERTED))


def test_offline_without_the_cache_nothing_is_found(offline, unit, hub, hf_cache, pair):
    with pytest.raises(NotFoundError) as error:
        pull(SOURCE, unit, hub)
    assert error.value.exit_code == 3
    fill_cache(hf_cache, sources.MODELS, {TARGET_FILE: pair.target})
    with pytest.raises(NotFoundError, match="nano-GGUF"):
        pull(SOURCE, unit, hub)
    assert Manifest.read(unit) is None


def test_offline_a_pulled_model_is_there(server, unit, hub, monkeypatch):
    pulled = pull(PLAIN, unit, hub)
    asked = len(server.requests)
    monkeypatch.setattr("gemmachat.hub.constants.HF_HUB_OFFLINE", True)
    assert pull(PLAIN, unit, hub) == pulled
    assert len(server.requests) == asked


def test_what_the_cache_has_is_not_fetched(server, pair, unit, hub, hf_cache):
    fill_cache(hf_cache, sources.MODELS, {TARGET_FILE: pair.target})
    fill_cache(hf_cache, sources.OTHER, {DRAFTER_FILE: pair.drafter})
    pull(PLAIN, unit, hub)
    assert server.fetched == 0


@pytest.mark.parametrize("count", [2, 5])
def test_pulls_of_one_model_at_once_fetch_it_once(server, pair, unit, count):
    server.faults.rate = 2e6
    events: list[PullEvent] = []
    found: list[Manifest] = []

    def work() -> None:
        found.append(pull(SOURCE, unit, Hub(QUICK), events.append))

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == count
    assert len(set(found)) == 1
    assert server.fetched == len(pair.target) + len(pair.checkpoint["model.safetensors"])
    assert "wait" in kinds(events)
    assert kinds(events).count("plan") == 1
    assert sorted(os.listdir(unit)) == sorted([MARK, MANIFEST, TARGET_FILE, CONVERTED])


def test_ctrl_c_while_converting_keeps_what_was_fetched(server, unit, hub):
    def interrupt(event: PullEvent) -> None:
        if event.kind == "convert":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull(SOURCE, unit, hub, interrupt)
    assert Manifest.read(unit) is None
    assert not (unit / CONVERTED).exists()
    fetched = server.fetched
    pull(SOURCE, unit, hub)
    assert server.fetched == fetched


def test_a_checkpoint_that_changed_halfway_is_fetched_anew(server, pair, unit, hub):
    def interrupt(event: PullEvent) -> None:
        if event.kind == "convert":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull(SOURCE, unit, hub, interrupt)
    new = server.put(sources.ASSISTANT, pair.checkpoint | {"README.md": b"new"})
    assert new in pull(SOURCE, unit, hub).drafter.made_from
    assert sorted(os.listdir(unit)) == sorted([MARK, MANIFEST, TARGET_FILE, CONVERTED])


def test_shards_are_fetched_with_their_index(server, pair, unit, hub, events):
    shards = {
        "config.json": b"{}",
        "model.safetensors.index.json": b"{}",
        "model-00001-of-00002.safetensors": b"1",
        "model-00002-of-00002.safetensors": b"2",
        "optimizer.safetensors": b"3",
    }
    server.put(sources.ASSISTANT, shards)
    found = pull_drafter.find_drafter(HubCheckpoint(sources.ASSISTANT, "F16"), hub, events.append)
    assert sorted(part.path for part in found.parts) == sorted(
        shards.keys() - {"optimizer.safetensors"}
    )
    assert found.file == "nano-assistant-F16.gguf"


def test_clusters_are_computed_for_a_drafter_that_lacks_them(
    server, unit, hub, events, monkeypatch
):
    monkeypatch.setattr(clusters, "lacks_clusters", lambda info: True)
    monkeypatch.setattr(clusters, "TOKENS_PER_CLUSTER", 16)
    manifest = pull(PLAIN, unit, hub, events.append)
    assert "clusters" in kinds(events)
    assert clusters.find(read_header(unit / manifest.drafter.file)) is not None
    assert f"{DRAFTER_FILE}.clusters" in os.listdir(unit)


def test_a_drafter_whose_clusters_cannot_be_computed_is_taken_all_the_same(
    server, unit, hub, events, monkeypatch
):
    monkeypatch.setattr(clusters, "lacks_clusters", lambda info: True)
    monkeypatch.setattr(clusters, "TOKENS_PER_CLUSTER", 7)  # which does not divide the tokens
    manifest = pull(PLAIN, unit, hub, events.append)
    assert manifest.drafter.file == DRAFTER_FILE
    assert "no clusters were computed" in notes(events)
