"""Pulls that are killed at random: nothing wrong gets a name, and nothing is fetched twice."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
from hub_server import StandIn, serving
from hub_settings import environment
from pull_nursery import Nursery, nursery
from pull_sources import CONVERTED, TARGET_FILE, Pair, make_pair, sha256

from gemmachat.gguf_info import check_pair, read_header
from gemmachat.manifest import MANIFEST, MARK, Manifest

KILLS = 50


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> Pair:
    return make_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture
def server(pair: Pair):
    with serving() as running:
        pair.put(running)
        yield running


@pytest.fixture
def pullers(server: StandIn, tmp_path: Path):
    with nursery(environment(server, tmp_path / "hf")) as running:
        yield running


def assert_right(unit: Path, pair: Pair, converted: str) -> None:
    """Whatever has its final name is whole, and what a manifest says is true."""
    hashes = {name: sha256(data) for name, data in pair.checkpoint.items()}
    hashes |= {TARGET_FILE: sha256(pair.target), CONVERTED: converted}
    for path in unit.rglob("*"):
        if path.name in hashes:
            assert sha256(path.read_bytes()) == hashes[path.name], path
    manifest = Manifest.read(unit)
    for file in manifest.files if manifest else ():
        assert sha256((unit / file.file).read_bytes()) == file.sha256


def parts(unit: Path, pair: Pair) -> dict[str, int]:
    """How many bytes are here of every large file, by its hash."""
    weights = next(unit.glob("checkpoint/*/snapshots/*"), unit) / "model.safetensors.part"
    places = {
        sha256(pair.target): unit / f"{TARGET_FILE}.part",
        sha256(pair.checkpoint["model.safetensors"]): weights,
    }
    return {digest: path.stat().st_size for digest, path in places.items() if path.exists()}


def first_starts(server: StandIn, since: int) -> dict[str, int]:
    """From where every large file was asked for first, by its hash."""
    starts: dict[str, int] = {}
    for request in server.requests[since:]:
        if request.server == "cdn":
            digest = request.path.split("?")[0].removeprefix("/blob/")
            starts.setdefault(digest, request.start)
    return starts


def test_fifty_kills_publish_nothing_wrong_and_fetch_nothing_twice(
    server: StandIn, pullers: Nursery, pair: Pair, tmp_path: Path
) -> None:
    unit = tmp_path / "models" / "nano" / "q8_0"
    server.faults.rate = 4e6
    for _ in range(2):  # the first finds nothing in the system's caches
        shutil.rmtree(unit, ignore_errors=True)
        began = time.monotonic()
        assert pullers.reap(pullers.start(unit)) == 0
        whole = time.monotonic() - began
    converted = sha256((unit / CONVERTED).read_bytes())
    shutil.rmtree(unit)
    rng = random.Random(7)
    kills = complete = resumed = 0
    while kills < KILLS:
        since, here = len(server.requests), parts(unit, pair)
        pid = pullers.start(unit)
        time.sleep(rng.uniform(0.0, whole))
        os.kill(pid, signal.SIGKILL)  # of a process that has ended but was not reaped: nothing
        killed = pullers.reap(pid) == -signal.SIGKILL
        kills += killed
        assert_right(unit, pair, converted)
        for digest, start in first_starts(server, since).items():
            assert start == here.get(digest, 0)
            resumed += start > 0
        if not killed:
            assert Manifest.read(unit) is not None
            complete += 1
            shutil.rmtree(unit)
    assert pullers.reap(pullers.start(unit)) == 0
    assert sorted(os.listdir(unit)) == sorted([MARK, MANIFEST, TARGET_FILE, CONVERTED])
    check_pair(read_header(unit / TARGET_FILE), read_header(unit / CONVERTED))
    assert resumed > 0


def test_processes_that_pull_at_once_fetch_once_though_some_are_killed(
    server: StandIn, pullers: Nursery, pair: Pair, tmp_path: Path
) -> None:
    unit = tmp_path / "models" / "nano" / "q8_0"
    server.faults.rate = 1e6
    pids = [pullers.start(unit) for _ in range(5)]
    while server.fetched < 20_000:
        time.sleep(0.01)
    here = parts(unit, pair)[sha256(pair.target)]
    for pid in pids[:2]:
        os.kill(pid, signal.SIGKILL)
    server.faults.rate = None
    assert [pullers.reap(pid) for pid in pids] == [-signal.SIGKILL] * 2 + [0] * 3
    assert sorted(os.listdir(unit)) == sorted([MARK, MANIFEST, TARGET_FILE, CONVERTED])
    assert Manifest.read(unit) is not None
    starts = [r.start for r in server.of("cdn") if sha256(pair.target) in r.path]
    assert starts[0] == 0
    assert len(starts) <= 3
    assert all(start >= here for start in starts[1:])
