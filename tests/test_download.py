"""One file over real sockets: whatever goes wrong, it is whole and right, or it is not there."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hub_server import TOKEN, StandIn, serving
from hub_settings import QUICK

from gemmachat import hub_http
from gemmachat.download import download, missing_bytes
from gemmachat.errors import DamagedFileError, DownloadError, NotFoundError
from gemmachat.hub import Hub, HubFile
from gemmachat.partial import part_paths
from gemmachat.pull_events import PullEvent
from gemmachat.source import HubPath

REPO, PATH = "owner/model", "model.gguf"
DATA = bytes(range(256)) * 1000 + b"end"  # 256,003 bytes
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def file(stand_in: StandIn, hub: Hub) -> HubFile:
    stand_in.put(REPO, {PATH: DATA, "config.json": b"{}"})
    return hub.resolve(HubPath(REPO, PATH))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "unit"
    folder.mkdir()
    return folder / PATH


def assert_nothing_else(place: Path) -> None:
    assert os.listdir(place.parent) == [place.name]


def test_a_file_arrives_whole_and_leaves_nothing_beside_it(file, place, hub, stand_in):
    events: list[PullEvent] = []
    assert download(file, place, hub, events.append) == SHA256
    assert place.read_bytes() == DATA
    assert_nothing_else(place)
    assert stand_in.fetched == len(DATA)
    assert (events[-1].kind, events[-1].total) == ("ready", len(DATA))
    fetched = [event.done for event in events if event.kind == "fetch"]
    assert fetched == sorted(fetched)
    assert (fetched[0], fetched[-1]) == (0, len(DATA))


def test_what_is_there_already_is_hashed_and_not_fetched(file, place, hub, stand_in):
    download(file, place, hub)
    download(file, place, hub)
    assert stand_in.fetched == len(DATA)
    place.write_bytes(DATA[:-1] + b"?")
    download(file, place, hub)
    assert place.read_bytes() == DATA


def test_an_empty_file_arrives(stand_in, hub, place):
    stand_in.put(REPO, {"empty.json": b""})
    file = hub.resolve(HubPath(REPO, "empty.json"))
    assert download(file, place, hub) == hashlib.sha256(b"").hexdigest()
    assert place.read_bytes() == b""


@pytest.mark.parametrize("reset", [False, True])
def test_connections_cut_at_every_tenth_cost_no_byte_twice(file, place, hub, stand_in, reset):
    stand_in.faults.reset = reset
    stand_in.faults.cuts = [len(DATA) * tenth // 10 for tenth in range(10)]
    download(file, place, hub)
    assert place.read_bytes() == DATA
    if not reset:  # a reset can take back what was on its way
        assert stand_in.fetched == len(DATA)
        assert [r.start for r in stand_in.of("cdn")[1:]] == [
            len(DATA) * tenth // 10 for tenth in range(10)
        ]


def test_a_connection_that_never_brings_anything_is_given_up_and_the_partial_kept(
    file, place, hub, stand_in
):
    stand_in.faults.cuts = [1000] * 20
    with pytest.raises(DownloadError, match="pull again") as error:
        download(file, place, hub)
    assert error.value.exit_code == 1
    assert not place.exists()
    assert part_paths(place)[0].read_bytes() == DATA[:1000]
    stand_in.faults.cuts = []
    fetched = stand_in.fetched
    download(file, place, hub)
    assert place.read_bytes() == DATA
    assert stand_in.fetched - fetched == len(DATA) - 1000
    assert_nothing_else(place)


def test_wrong_bytes_of_the_right_size_are_not_published_and_not_kept(file, place, hub, stand_in):
    stand_in.faults.change = lambda data: data[:100] + b"?" + data[101:]
    with pytest.raises(DamagedFileError, match=SHA256) as error:
        download(file, place, hub)
    assert error.value.exit_code == 4
    assert os.listdir(place.parent) == []


@pytest.mark.parametrize("chunked", [False, True])
def test_a_longer_file_is_refused(file, place, hub, stand_in, chunked):
    stand_in.faults.chunked = chunked
    stand_in.faults.change = lambda data: data + b"more"
    with pytest.raises(DamagedFileError, match="256003"):
        download(file, place, hub)
    assert not place.exists()


def test_a_shorter_file_is_refused(file, place, hub, stand_in):
    stand_in.faults.change = lambda data: data[:-1]
    with pytest.raises(DamagedFileError, match="256002"):
        download(file, place, hub)
    assert not place.exists()


def test_a_shorter_file_without_a_length_is_refused(file, place, hub, stand_in):
    stand_in.faults.chunked = True
    stand_in.faults.change = lambda data: data[:-1]
    with pytest.raises((DamagedFileError, DownloadError)):
        download(file, place, hub)
    assert not place.exists()


def test_a_file_that_shrank_between_two_attempts_is_refused(file, place, hub, stand_in):
    stand_in.faults.cuts = [200_000]
    stand_in.faults.change = lambda data: data if stand_in.faults.cuts else data[:100_000]
    with pytest.raises(DamagedFileError, match="pull again"):
        download(file, place, hub)
    assert not place.exists()


def test_a_file_that_the_hub_calls_another_is_refused(file, place, hub, stand_in):
    stand_in.faults.etag = "f" * 64
    with pytest.raises(DamagedFileError, match="changed"):
        download(file, place, hub)
    assert part_paths(place)[0].read_bytes() == b""


def test_a_new_version_is_never_joined_to_a_part_of_the_old_one(file, place, hub, stand_in):
    stand_in.faults.cuts = [100_000] * 9
    with pytest.raises(DownloadError):
        download(file, place, hub)
    stand_in.faults.cuts = []
    changed = DATA[::-1]
    stand_in.put(REPO, {PATH: changed})
    download(hub.resolve(HubPath(REPO, PATH)), place, hub)
    assert place.read_bytes() == changed
    assert stand_in.of("cdn")[-1].start == 0


def test_the_same_file_at_another_commit_is_resumed(file, place, hub, stand_in):
    stand_in.faults.cuts = [100_000] * 9
    with pytest.raises(DownloadError):
        download(file, place, hub)
    stand_in.faults.cuts = []
    stand_in.put(REPO, {PATH: DATA, "README.md": b"new"})
    download(hub.resolve(HubPath(REPO, PATH)), place, hub)
    assert place.read_bytes() == DATA
    assert stand_in.of("cdn")[-1].start == 100_000


@pytest.mark.parametrize(
    "spoil",
    [
        lambda part, note: part.write_bytes(b"?" * 1000),
        lambda part, note: part.write_bytes(b"?" * len(DATA)),
        lambda part, note: part.write_bytes(DATA + b"more"),
        lambda part, note: note.write_bytes(b"{"),
        lambda part, note: note.write_text(json.dumps({"size": len(DATA)})),
        lambda part, note: note.unlink(),
        lambda part, note: part.unlink(),
    ],
)
def test_a_partial_that_was_spoiled_costs_time_and_not_the_file(file, place, hub, stand_in, spoil):
    stand_in.faults.cuts = [100_000] * 9
    with pytest.raises(DownloadError):
        download(file, place, hub)
    stand_in.faults.cuts = []
    spoil(*part_paths(place))
    assert download(file, place, hub) == SHA256
    assert place.read_bytes() == DATA
    assert_nothing_else(place)


def test_a_range_that_was_not_asked_for_is_refused(file, place, hub, stand_in):
    stand_in.faults.cuts = [100_000]
    stand_in.faults.shift = -1
    with pytest.raises(DamagedFileError, match="bytes 99999-"):
        download(file, place, hub)
    assert part_paths(place)[0].read_bytes() == DATA[:100_000]


def test_a_partial_that_is_a_link_is_not_written_through(file, place, hub, stand_in, tmp_path):
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    part, note = part_paths(place)
    stand_in.faults.cuts = [100_000] * 9
    with pytest.raises(DownloadError):
        download(file, place, hub)
    stand_in.faults.cuts = []
    part.unlink()
    part.symlink_to(outside)
    with pytest.raises(DownloadError, match="cannot be written"):  # its note is right
        download(file, place, hub)
    assert outside.read_bytes() == b"mine"
    note.unlink()
    download(file, place, hub)
    assert outside.read_bytes() == b"mine"
    assert place.read_bytes() == DATA
    assert not place.is_symlink()


def test_a_server_that_cannot_resume_sends_all_again(file, place, hub, stand_in):
    stand_in.faults.cuts = [100_000]
    stand_in.faults.ignore_ranges = True
    download(file, place, hub)
    assert place.read_bytes() == DATA
    assert stand_in.fetched == len(DATA) + 100_000


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
@pytest.mark.parametrize("server", ["hub GET", "cdn GET"])
def test_passing_refusals_are_waited_out(file, place, hub, stand_in, server, status):
    stand_in.faults.statuses = [(server, status, {})] * 3
    events: list[PullEvent] = []
    download(file, place, hub, events.append)
    assert place.read_bytes() == DATA
    retries = [event for event in events if event.kind == "retry"]
    assert len(retries) == 3
    assert str(status) in retries[0].text


def test_an_address_that_has_expired_is_asked_for_again(file, place, hub, stand_in):
    stand_in.faults.statuses = [("cdn", 403, {})]
    download(file, place, hub)
    assert place.read_bytes() == DATA
    assert len(stand_in.of("hub")) == 2


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (401, DownloadError, 1),
        (403, DownloadError, 1),
        (404, NotFoundError, 3),
        (416, DamagedFileError, 4),
        (418, DownloadError, 1),
    ],
)
def test_final_refusals_end_it_at_once(file, place, hub, stand_in, status, kind, code):
    stand_in.faults.statuses = [("hub GET", status, {})]
    with pytest.raises(kind) as error:
        download(file, place, hub)
    assert error.value.exit_code == code
    assert "owner/model/model.gguf" in str(error.value)
    assert len(stand_in.of("hub")) == 1


def test_a_wait_that_the_server_asks_for_is_kept(file, place, stand_in, monkeypatch):
    waits: list[float] = []
    monkeypatch.setattr(hub_http.time, "sleep", waits.append)
    limit = {"RateLimit": '"resolvers";r=0;t=9'}
    stand_in.faults.statuses = [
        ("hub GET", 429, {"Retry-After": "7"}),
        ("cdn GET", 503, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}),
        ("hub GET", 429, limit),
        ("cdn GET", 429, {"Retry-After": "nonsense"}),
        ("cdn GET", 429, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 +99999999999999999999"}),
    ]
    download(file, place, Hub(replace(QUICK, tries=9, first_wait_s=0.5, longest_wait_s=60)))
    assert waits == [7.0, 9.0, 0.0, 0.5 * 2**3, 0.5 * 2**4]  # the hub is asked before its CDN


def test_a_wait_that_is_too_long_ends_it(file, place, hub, stand_in):
    stand_in.faults.statuses = [("hub GET", 429, {"Retry-After": "86400"})]
    with pytest.raises(DownloadError, match="86400 s"):
        download(file, place, hub)


def test_a_drip_is_given_up(file, place, stand_in):
    stand_in.faults.rate = 2000
    hub = Hub(replace(QUICK, slow_window_s=0.1, slow_bytes=10_000))
    with pytest.raises(DownloadError, match="only"):
        download(file, place, hub)
    stand_in.faults.rate = None
    download(file, place, hub)
    assert place.read_bytes() == DATA


def test_a_server_that_says_nothing_is_given_up(file, place, hub, stand_in, monkeypatch):
    monkeypatch.setattr(hub_http.constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.1)
    stand_in.faults.silence = True
    with pytest.raises(DownloadError, match="does not answer"):
        download(file, place, hub)


def test_redirects_in_a_circle_end(file, place, hub, stand_in):
    stand_in.faults.redirect = "loop"
    with pytest.raises(DownloadError, match="redirects"):
        download(file, place, hub)


@pytest.mark.parametrize("address", ["ftp://127.0.0.1/x", "http://[::1", "http://:0:0/", "//"])
def test_redirects_to_nowhere_end(file, place, hub, stand_in, address):
    stand_in.faults.redirect = address
    with pytest.raises(DownloadError):
        download(file, place, hub)


def test_the_token_goes_to_the_hub_and_to_no_other_host(stand_in, hub, place, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    stand_in.put(REPO, {PATH: DATA})
    stand_in.gated.add(REPO)
    download(hub.resolve(HubPath(REPO, PATH)), place, hub)
    assert {request.token for request in stand_in.of("hub")} == {TOKEN}
    assert {request.token for request in stand_in.of("hub", "HEAD")} == {TOKEN}
    assert {request.token for request in stand_in.of("cdn")} == {None}


def test_the_token_does_not_come_back_with_a_redirect_from_another_host(
    file, place, hub, stand_in, monkeypatch
):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with serving() as other:
        stand_in.faults.redirect = f"{other.endpoint}/owner/model/resolve/main/model.gguf"
        other.faults.redirect = f"{stand_in.cdn}/blob/{SHA256}"
        download(file, place, hub)
        assert [request.token for request in other.of("hub")] == [None]
    assert [request.token for request in stand_in.of("hub")] == [TOKEN]
    assert [request.token for request in stand_in.of("cdn")] == [None]


def blob(folder: Path, data: bytes) -> Path:
    """Where the Hugging Face cache keeps a file."""
    blobs = folder / "models--owner--model" / "blobs"
    blobs.mkdir(parents=True)
    found = blobs / SHA256
    found.write_bytes(data)
    return found


def test_a_file_in_the_hugging_face_cache_is_shared_and_not_fetched(
    file, place, hub, stand_in, hf_cache
):
    cached = blob(hf_cache, DATA)
    events: list[PullEvent] = []
    assert missing_bytes(file, place, hub) == 0
    assert download(file, place, hub, events.append) == SHA256
    assert place.samefile(cached)
    assert stand_in.fetched == 0
    assert "cached" in [event.kind for event in events]
    assert_nothing_else(place)


def test_a_file_that_the_cache_has_on_another_disk_is_copied(
    file, hub, stand_in, hf_cache, place, monkeypatch
):
    cached = blob(hf_cache, DATA)

    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "another disk")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    assert download(file, place, hub) == SHA256
    assert place.read_bytes() == DATA
    assert not place.samefile(cached)
    assert stand_in.fetched == 0
    assert_nothing_else(place)


@pytest.mark.parametrize("data", [DATA[:-1], DATA[:-1] + b"?", b"?" + DATA])
def test_a_damaged_file_in_the_cache_is_passed_over(file, place, hub, stand_in, hf_cache, data):
    cached = blob(hf_cache, data)
    assert download(file, place, hub) == SHA256
    assert place.read_bytes() == DATA
    assert cached.read_bytes() == data
    assert stand_in.fetched == len(DATA)


def test_a_damaged_file_in_the_cache_does_not_cost_the_partial(
    file, place, hub, stand_in, hf_cache
):
    stand_in.faults.cuts = [100_000] * 9
    with pytest.raises(DownloadError):
        download(file, place, hub)
    stand_in.faults.cuts = []
    blob(hf_cache, DATA[:-1] + b"?")
    download(file, place, hub)
    assert place.read_bytes() == DATA
    assert stand_in.of("cdn")[-1].start == 100_000


@pytest.mark.parametrize("others", [1, 4])
def test_downloads_of_one_file_at_once_fetch_it_once(file, place, stand_in, others):
    stand_in.faults.rate = 1e6
    events: list[PullEvent] = []
    threads = [
        threading.Thread(target=download, args=(file, place, Hub(QUICK), events.append))
        for _ in range(1 + others)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert place.read_bytes() == DATA
    assert stand_in.fetched == len(DATA)
    assert [event.kind for event in events].count("ready") == 1 + others
    assert "wait" in [event.kind for event in events]
    assert_nothing_else(place)


def test_ctrl_c_keeps_the_partial_and_the_lock_is_free(file, place, hub, stand_in):
    stand_in.faults.rate = 100_000

    def interrupt(event: PullEvent) -> None:
        if event.kind == "fetch" and event.done > 10_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(file, place, hub, interrupt)
    part, note = part_paths(place)
    kept = part.stat().st_size
    assert sorted(os.listdir(place.parent)) == [part.name, note.name]
    stand_in.faults.rate = None
    download(file, place, hub)
    assert stand_in.of("cdn")[-1].start == kept
    assert place.read_bytes() == DATA


@pytest.fixture
def small_disk(tmp_path: Path):
    """A disk with room for 128 KiB, where this machine lets one be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.call(command, stderr=subprocess.DEVNULL):
        pytest.skip("no disk can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_told_and_the_download_goes_on_once_there_is_room(
    file, hub, stand_in, small_disk
):
    place = small_disk / PATH
    with pytest.raises(DownloadError, match="No space left") as error:
        download(file, place, hub)
    assert str(place) in str(error.value)
    assert not place.exists()
    kept = part_paths(place)[0].stat().st_size
    assert kept > 0
    subprocess.run(["mount", "-o", "remount,size=1m", str(small_disk)], check=True)
    download(file, place, hub)
    assert place.read_bytes() == DATA
    assert stand_in.of("cdn")[-1].start == kept


def test_a_limit_on_file_sizes_is_told_like_a_full_disk(file, place, hub, stand_in):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(DownloadError, match="cannot be written"):
            download(file, place, hub)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert part_paths(place)[0].read_bytes() == DATA[:100_000]
    download(file, place, hub)
    assert place.read_bytes() == DATA
    assert stand_in.of("cdn")[-1].start == 100_000


READ_ONLY = """
import os, sys
from pathlib import Path
from gemmachat.errors import GemmachatError
from gemmachat.file_lock import locked
if os.getuid() == 0:
    os.setuid(65534)  # nothing is read-only to root
try:
    with locked(Path(sys.argv[1]) / "model.gguf", lambda: None):
        print("locked")
except GemmachatError as error:
    print(error.exit_code, error)
"""


def test_a_folder_that_cannot_be_written_to_is_told():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        command = [sys.executable, "-c", READ_ONLY, folder]
        root = Path(__file__).parent.parent
        told = subprocess.check_output(command, text=True, cwd=root)
    assert told.startswith("1 ")
    assert folder in told
    assert "Permission denied" in told


def test_a_small_file_is_held_against_its_git_blob_id(stand_in, hub, place):
    stand_in.put(REPO, {"config.json": b'{"a": 1}'})
    file = hub.resolve(HubPath(REPO, "config.json"))
    assert file.sha256 is None
    stand_in.faults.change = lambda data: b'{"a": 2}'
    with pytest.raises(DamagedFileError, match="other bytes"):
        download(file, place, hub)
    stand_in.faults.change = None
    assert download(file, place, hub) == hashlib.sha256(b'{"a": 1}').hexdigest()


def test_a_file_without_a_hash_is_taken_as_it_comes(file, place, hub):
    unknown = replace(file, sha256=None, etag=None)
    assert download(unknown, place, hub) == SHA256
