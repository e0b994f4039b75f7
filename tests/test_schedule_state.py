"""What was learned about drafting is kept, and nothing but that is believed."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

import pytest
from embedded import DRAFTER, GREEDY, PROMPTS, TARGET, chat_tokens, without_centroids

from gemmachat import Engine, SamplingParams, bridge, clusters
from gemmachat import schedule_state as store
from gemmachat.chat import Chat, GenerationOptions
from gemmachat.gguf_info import read_header
from gemmachat.native_structs import NativeSchedule
from gemmachat.session import Session


def state(passes=(0.1, 0.2), step=0.01, acceptance=0.7) -> NativeSchedule:
    return NativeSchedule(
        NativeSchedule.PASSES(*passes), step, NativeSchedule.ACCEPTANCE(*[acceptance] * 7)
    )


def numbers(schedule: NativeSchedule) -> list[float]:
    return [*schedule.pass_s, schedule.step_s, *schedule.acceptance]


NOTHING = numbers(NativeSchedule())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "state.json"


def test_what_is_saved_is_loaded(path):
    store.save(path, NativeSchedule(), state())
    assert numbers(store.load(path)) == pytest.approx(numbers(state()))
    assert os.listdir(path.parent) == [path.name]


def test_costs_keep_their_figures_until_they_change_by_a_tenth(path):
    saved = store.save(path, NativeSchedule(), state((0.1, 0.2)))
    written = path.read_bytes()
    near = store.save(path, saved, state((0.11, 0.23)))  # a slower machine of the same shape
    assert numbers(near) == numbers(saved)
    assert path.read_bytes() == written
    far = store.save(path, saved, state((0.1, 0.25)))
    assert far.pass_s[1] == 0.25
    assert store.load(path).pass_s[1] == 0.25


def test_acceptance_is_kept_up_to_date_without_touching_the_costs(path):
    saved = store.save(path, NativeSchedule(), state())
    store.save(path, saved, state((0.101, 0.199), acceptance=0.4))
    found = store.load(path)
    assert found.acceptance[0] == 0.4
    assert found.pass_s[0] == 0.1


GOOD = {"format": 1, "pass_s": [0.1, *[0.2] * 7], "step_s": 0.01, "acceptance": [0.5] * 7}


def test_the_valid_state_that_the_broken_ones_are_made_from_is_loaded(tmp_path):
    path = tmp_path / "good.json"
    path.write_text(json.dumps(GOOD))
    assert store.load(path).pass_s[7] == 0.2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 4000,
        b"[]",
        b" " * 5000 + json.dumps(GOOD).encode(),
        json.dumps({**GOOD, "more": 1}),
        json.dumps({key: GOOD[key] for key in ("format", "pass_s", "step_s")}),
        json.dumps({**GOOD, "format": 2}),
        json.dumps({**GOOD, "pass_s": [0.1] * 7}),
        json.dumps({**GOOD, "pass_s": 0.1}),
        json.dumps({**GOOD, "pass_s": [0.0, *[0.2] * 7]}),
        json.dumps({**GOOD, "pass_s": ["0.1", *[0.2] * 7]}),
        json.dumps({**GOOD, "pass_s": [1.0, 0.0, 0.0, 0.01, *[0.0] * 4]}),
        json.dumps({**GOOD, "pass_s": [True, *[0.2] * 7]}),
        json.dumps({**GOOD, "pass_s": [-0.1, *[0.2] * 7]}),
        json.dumps({**GOOD, "pass_s": [1e9, *[0.2] * 7]}),
        json.dumps({**GOOD, "step_s": float("nan")}),
        json.dumps({**GOOD, "step_s": 10**400}),
        json.dumps({**GOOD, "acceptance": [1.5] * 7}),
    ],
)
def test_anything_else_counts_as_nothing_and_is_replaced(path, content):
    path.parent.mkdir()
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert numbers(store.load(path)) == NOTHING
    store.save(path, store.load(path), state())
    assert numbers(store.load(path)) == pytest.approx(numbers(state()))


def test_what_is_no_file_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "missing", ""):
        assert numbers(store.load(tmp_path / name)) == NOTHING


def test_a_folder_that_cannot_be_made_is_left_alone(tmp_path):
    (tmp_path / "file").write_text("")
    learned = state()
    kept = store.save(tmp_path / "file" / "state.json", NativeSchedule(), learned)
    assert numbers(kept) == numbers(learned)


def test_the_number_of_files_is_bounded(tmp_path):
    for n in range(store.MAX_FILES + 5):
        path = tmp_path / f"{n}.json"
        store.save(path, NativeSchedule(), state())
        os.utime(path, (n, n))
    assert len(os.listdir(tmp_path)) <= store.MAX_FILES + 1
    assert path.exists()


def test_programs_that_write_at_once_leave_one_whole_state(path):
    def write(n: int) -> None:
        for i in range(50):
            store.save(path, NativeSchedule(), state((0.1 * n, 0.1 * i + 0.1)))

    threads = [threading.Thread(target=write, args=(n,)) for n in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.load(path).pass_s[0] > 0
    assert os.listdir(path.parent) == [path.name]


def test_every_setting_has_a_file_of_its_own(tmp_path):
    copy = tmp_path / "renamed.gguf"
    copy.write_bytes(TARGET.read_bytes())

    def file(target=TARGET, drafter=DRAFTER, clustered=True, threads=2, llama_cpp="1"):
        return store.state_file(
            target, drafter, clustered=clustered, threads=threads, llama_cpp=llama_cpp
        )

    assert file() == file(target=copy)
    others = [file(drafter=None), file(threads=1), file(llama_cpp="2"), file(target=DRAFTER)]
    assert len({file(), file(clustered=False), *others}) == 6
    assert file(target=tmp_path / "missing") is None


def test_a_relative_folder_in_the_environment_is_ignored(monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "here")
    found = store.state_file(TARGET, None, clustered=False, threads=1, llama_cpp="1")
    assert found is not None
    assert found.is_absolute()


def test_a_chat_learns_unless_it_was_given_a_seed(tmp_path):
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        for seed, files in ((1, 0), (None, 1)):
            options = GenerationOptions(
                SamplingParams(temperature=0.0, seed=seed), "auto", 40, exact=False
            )
            with engine.session(n_ctx=512) as session:
                for _ in Chat(engine, session, options).ask(PROMPTS[0]):
                    pass
            assert engine.schedule_file is not None
            assert len(list(engine.schedule_file.parent.glob("*.json"))) == files


def test_costs_of_a_dense_head_are_not_taken_for_those_of_clusters(tmp_path):
    drafter = without_centroids(tmp_path / "drafter.gguf")
    kept = clusters.provide(read_header(drafter), bridge.Stop())

    def learn(session: Session) -> str:
        tokens = chat_tokens(engine, PROMPTS[0])
        list(session.generate(tokens, GREEDY, max_tokens=40))
        list(session.generate(tokens, GREEDY, draft=3, max_tokens=8))
        return session.stats().draft_head

    with Engine.load(TARGET, drafter, threads=1) as engine:
        dense = engine.schedule_file
        with engine.session() as opened_before:
            engine._handle.set_clusters(kept.count, kept.top, kept.centroids, kept.ordering)
            clustered = engine.schedule_file
            assert learn(opened_before) == "dense"
        assert (dense.exists(), clustered.exists()) == (True, False)
        with engine.session() as opened_after:
            assert learn(opened_after) == "clusters"
        assert clustered.exists()


def test_an_answer_that_outlives_its_session_leaves_what_was_learned_alone():
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        tokens = chat_tokens(engine, PROMPTS[0])
        with engine.session() as session:
            list(session.generate(tokens, GREEDY, max_tokens=40))
            assert engine.schedule_file is not None
            before = engine.schedule_file.read_bytes()
            events = session.generate(tokens, GREEDY, max_tokens=40)
            next(events)
        events.close()
        assert engine.schedule_file.read_bytes() == before


def test_a_home_that_is_no_absolute_path_is_none(monkeypatch):
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", "here")
    assert store.state_file(TARGET, None, clustered=False, threads=1, llama_cpp="1") is None


def test_a_user_without_a_home_is_served(monkeypatch, tmp_path):
    def no_home(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as Python does without one
    monkeypatch.setattr(Path, "expanduser", no_home)
    monkeypatch.setattr(Path, "home", classmethod(no_home))
    monkeypatch.setattr(clusters, "lacks_clusters", lambda info: True)
    drafter = shutil.copy(DRAFTER, tmp_path / "drafter.gguf")
    with Engine.load(TARGET, drafter, threads=1) as engine, engine.session() as session:
        list(session.generate(chat_tokens(engine, PROMPTS[0]), GREEDY, max_tokens=4))
        assert engine.schedule_file is None


def test_an_answer_without_a_seed_is_learned_from_and_one_with_a_seed_is_not(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with Engine.load(TARGET, DRAFTER, threads=1) as engine, engine.session() as session:
        tokens = chat_tokens(engine, PROMPTS[0])
        seeded = SamplingParams(temperature=0.0, seed=1)
        list(session.generate(tokens, seeded, max_tokens=40))
        assert not list(tmp_path.rglob("*.json"))
        list(session.generate(tokens, GREEDY, max_tokens=40))
        (file,) = tmp_path.rglob("*.json")
    assert store.load(file).acceptance[0] > 0
