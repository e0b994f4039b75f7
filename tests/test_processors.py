"""How many threads are used, on machines made of files like those of /sys and /proc."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gemmachat.processors import default_threads

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's files")


@pytest.fixture
def eight(monkeypatch):
    """Eight processors that the process may use; the files say how they belong together."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def pair_up(root: Path) -> None:
    """Processors n and n + 4 share a core."""
    for n in range(8):
        place = f"sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list"
        write(root, place, f"{n % 4},{n % 4 + 4}\n")


def test_two_threads_of_a_core_count_once(eight, tmp_path):
    pair_up(tmp_path)
    assert default_threads(tmp_path) == 4


def test_a_machine_that_says_nothing_has_a_core_for_every_processor(eight, tmp_path):
    assert default_threads(tmp_path) == 8


def test_only_processors_of_the_affinity_count(monkeypatch, tmp_path):
    pair_up(tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 5, 6})
    assert default_threads(tmp_path) == 2


def test_the_narrowest_cgroup_above_the_process_limits(eight, tmp_path):
    write(tmp_path, "proc/self/cgroup", "0::/user/chat\n")
    write(tmp_path, "sys/fs/cgroup/user/chat/cpu.max", "max 100000\n")
    write(tmp_path, "sys/fs/cgroup/user/cpu.max", "350000 100000\n")
    assert default_threads(tmp_path) == 3


def test_less_than_a_processor_is_one_thread(eight, tmp_path):
    write(tmp_path, "proc/self/cgroup", "0::/\n")
    write(tmp_path, "sys/fs/cgroup/cpu.max", "50000 100000\n")
    assert default_threads(tmp_path) == 1


def test_cgroups_of_version_one_limit_too(eight, tmp_path):
    write(tmp_path, "proc/self/cgroup", "12:memory:/a\n4:cpu,cpuacct:/a\n")
    write(tmp_path, "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "200000\n")
    write(tmp_path, "sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n")
    write(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    write(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert default_threads(tmp_path) == 2


@pytest.mark.parametrize("text", ["", "x y\n", "0 0\n", "1000\n", "-5 100\n"])
def test_a_limit_that_makes_no_sense_is_none(eight, tmp_path, text):
    write(tmp_path, "proc/self/cgroup", "0::/\nbroken\n")
    write(tmp_path, "sys/fs/cgroup/cpu.max", text)
    assert default_threads(tmp_path) == 8


def test_here_there_are_threads():
    assert 1 <= default_threads() <= (os.cpu_count() or 1)
