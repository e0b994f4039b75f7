"""Files are written whole or not at all, and nothing is left of what was not finished."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gemmachat.publish import publish

KILLED_BEFORE_IT_IS_WHOLE = """
import os, sys, time
from pathlib import Path
from gemmachat.publish import publish

def hang(descriptor):
    print("written", flush=True)
    time.sleep(60)

os.fsync = hang
publish(Path(sys.argv[1]), b"new")
"""


@pytest.fixture(params=["nameless", "named"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the file is called before it is whole: not at all, or, as a fallback, hidden."""
    if request.param == "nameless" and sys.platform != "linux":
        pytest.skip("needs files without a name")
    if request.param == "named":
        monkeypatch.setattr(os.path, "isdir", lambda path: False)
    return request.param


def test_file_takes_the_place_of_what_was_there_and_leaves_nothing_else(tmp_path: Path, kind: str):
    path = tmp_path / "state.json"
    for data in (b"old", b"new"):
        publish(path, data)
        assert path.read_bytes() == data
        assert os.listdir(tmp_path) == [path.name]


def test_file_has_the_permissions_of_new_files(tmp_path: Path, kind: str):
    before = os.umask(0o027)
    try:
        publish(tmp_path / "a", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_failure_leaves_what_was_there_before(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
):
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    path = tmp_path / "state.json"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left") as error:
        publish(path, b"new")
    assert error.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.skipif(sys.platform != "linux", reason="needs files without a name")
def test_killed_program_leaves_nothing(tmp_path: Path):
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED_BEFORE_IT_IS_WHOLE, str(tmp_path / "drafter.clusters")],
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout.readline() == b"written\n"
        process.send_signal(signal.SIGKILL)
    assert os.listdir(tmp_path) == []
