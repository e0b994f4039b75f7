"""The memory that cgroups leave, from files as Linux writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmachat import cgroup


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def group(root: Path, folder: str, limit: str, used: int, stat: str = "") -> None:
    """A cgroup of version 2."""
    write(root, f"sys/fs/cgroup/{folder}/memory.max", f"{limit}\n")
    write(root, f"sys/fs/cgroup/{folder}/memory.current", f"{used}\n")
    write(root, f"sys/fs/cgroup/{folder}/memory.stat", stat)


def test_no_cgroup_or_none_with_a_limit_leaves_all(tmp_path: Path) -> None:
    assert cgroup.memory_left(tmp_path) is None
    write(tmp_path, "proc/self/cgroup", "0::/user\n")
    group(tmp_path, "user", "max", 100)
    assert cgroup.memory_left(tmp_path) is None


def test_the_narrowest_cgroup_above_the_process_counts(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/user/chat\n")
    group(tmp_path, "user/chat", "5000", 1000)
    group(tmp_path, "user", "6000", 4500)
    assert cgroup.memory_left(tmp_path) == 1500


def test_pages_of_files_can_be_dropped_and_others_cannot(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/\n")
    stat = "anon 700\nfile 300\nshmem 40\ninactive_file 200\nactive_file 60\n"
    group(tmp_path, "", "1500", 1000, stat)
    assert cgroup.memory_left(tmp_path) == 500 + 260


def test_the_mark_above_which_a_group_is_slowed_down_is_a_limit(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/\n")
    group(tmp_path, "", "max", 1000)
    write(tmp_path, "sys/fs/cgroup/memory.high", "1800\n")
    assert cgroup.memory_left(tmp_path) == 800


def test_a_group_above_its_limit_leaves_nothing(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/\n")
    group(tmp_path, "", "1000", 1200)
    assert cgroup.memory_left(tmp_path) == 0


def test_cgroups_of_version_one_limit_too(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "4:cpu:/b\n3:memory:/a\n0::/\n")
    folder = "sys/fs/cgroup/memory/a"
    write(tmp_path, f"{folder}/memory.limit_in_bytes", "9000\n")
    write(tmp_path, f"{folder}/memory.usage_in_bytes", "5000\n")
    stat = "inactive_file 1\nactive_file 1\ntotal_inactive_file 1000\ntotal_active_file 500\n"
    write(tmp_path, f"{folder}/memory.stat", stat)
    write(tmp_path, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    write(tmp_path, "sys/fs/cgroup/memory/memory.usage_in_bytes", "70000\n")
    assert cgroup.memory_left(tmp_path) == 4000 + 1500


@pytest.mark.parametrize("text", ["", "what\n", "1 2\n", "\xff\n"])
def test_what_cannot_be_read_limits_nothing(tmp_path: Path, text: str) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/\nbroken\n")
    group(tmp_path, "", text, 10)
    assert cgroup.memory_left(tmp_path) is None


def test_broken_counts_of_pages_free_nothing(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/\n")
    group(tmp_path, "", "1000", 400, "inactive_file many\n")
    assert cgroup.memory_left(tmp_path) == 600
