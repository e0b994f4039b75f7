"""What is on a hub, or in its cache: names that mislead, answers that make no sense, refusals."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hub_server import TOKEN, entry
from huggingface_hub import constants

from gemmachat.errors import DamagedFileError, DownloadError, NotFoundError
from gemmachat.hub import HubFile
from gemmachat.pull_events import PullEvent
from gemmachat.source import HubPath

REPO, PATH = "owner/model", "model.gguf"
DATA = b"GGUF" * 100
SHA256 = hashlib.sha256(DATA).hexdigest()


def test_a_file_is_told_by_commit_size_and_hash(stand_in, hub):
    commit = stand_in.put(REPO, {PATH: DATA, "sub/config.json": b"{}"})
    found = hub.resolve(HubPath(REPO, PATH))
    url = f"{stand_in.endpoint}/owner/model/resolve/{commit}/model.gguf"
    assert found == HubFile(REPO, PATH, commit, len(DATA), SHA256, SHA256, url)
    small = hub.resolve(HubPath(REPO, "sub/config.json"))
    assert (small.sha256, small.name) == (None, "config.json")
    assert small.git_blob == "9e26dfeeb6e641a33dae4961196235bdb965b21b"  # of `git hash-object`


def test_a_listing_tells_what_asking_for_each_file_tells(stand_in, hub):
    stand_in.put(REPO, {PATH: DATA, "config.json": b"{}", "sub/other.gguf": b"GGUF"})
    listed = hub.listing(REPO)
    assert [file.path for file in listed] == [PATH, "config.json", "sub/other.gguf"]
    assert list(listed) == [hub.resolve(HubPath(REPO, file.path)) for file in listed]


def test_an_older_commit_stays_what_it_was(stand_in, hub):
    old = stand_in.put(REPO, {PATH: DATA})
    stand_in.put(REPO, {PATH: b"new"})
    assert hub.resolve(HubPath(REPO, PATH, old)).sha256 == SHA256
    assert hub.listing(REPO, old)[0].sha256 == SHA256
    assert hub.resolve(HubPath(REPO, PATH)).size == 3


def test_a_listing_of_many_pages_is_read_to_its_end(stand_in, hub):
    stand_in.page = 7
    stand_in.put(REPO, {f"f{index}.json": b"{}" for index in range(30)})
    assert len(hub.listing(REPO)) == 30


def test_a_star_must_mean_one_file(stand_in, hub):
    stand_in.put(
        REPO, {"a-E4B-Q8_0.gguf": b"1", "a-e4b-Q4_0.gguf": b"2", "sub/a-x-Q8_0.gguf": b"3"}
    )
    assert hub.resolve(HubPath(REPO, "a-*-Q8_0.gguf")).path == "a-E4B-Q8_0.gguf"
    assert hub.resolve(HubPath(REPO, "*/a-*.gguf")).size == 1
    with pytest.raises(NotFoundError, match=r"2 files.*E4B-Q8_0.*e4b-Q4_0"):
        hub.resolve(HubPath(REPO, "a-*.gguf"))
    with pytest.raises(NotFoundError, match="no file"):
        hub.resolve(HubPath(REPO, "b-*.gguf"))


HOSTILE = [
    "../up.gguf",
    "/etc/up.gguf",
    "a/../../up.gguf",
    "a\\..\\up.gguf",
    "C:up.gguf",
    "nul.gguf",
    "CON",
    "up\x00.gguf",
    "up\x1b[2J.gguf",
    "\u202eup.gguf",
    "..",
    "",
    ".git/up.gguf",
    "x" * 5000,
]


@pytest.mark.parametrize("path", HOSTILE)
def test_hostile_names_are_never_resolved(stand_in, hub, path):
    stand_in.put(REPO, {PATH: DATA})
    stand_in.faults.listing = [entry(path, b"evil")]
    assert [file.path for file in hub.listing(REPO)] == [PATH]
    assert hub.resolve(HubPath(REPO, "*.gguf")).path == PATH
    with pytest.raises(DamagedFileError) as error:
        hub.resolve(HubPath(REPO, path))
    assert error.value.exit_code == 4


@pytest.mark.parametrize("repo", ["../..", "a/..", "owner", "a/b/c", "a/b?x=", "a/b#", "a b/c", ""])
def test_names_of_repositories_are_checked_before_anything_is_asked(stand_in, hub, repo):
    with pytest.raises(DamagedFileError):
        hub.resolve(HubPath(repo, PATH))
    with pytest.raises(DamagedFileError):
        hub.listing(repo)
    assert stand_in.requests == []


def test_revisions_are_checked_too(stand_in, hub):
    with pytest.raises(DamagedFileError):
        hub.resolve(HubPath(REPO, PATH, "../../x"))


@pytest.mark.parametrize(
    "made",
    [
        {"type": "file", "path": "a.gguf", "size": -1, "oid": "0" * 40},
        {"type": "file", "path": "a.gguf", "size": "7", "oid": "0" * 40},
        {"type": "file", "path": "a.gguf", "size": 1 << 60, "oid": "0" * 40},
        {"type": "file", "path": "a.gguf", "oid": "0" * 40},
        {"type": "file", "path": "a.gguf", "size": True, "oid": "0" * 40},
    ],
)
def test_files_with_sizes_that_are_none_are_not_listed(stand_in, hub, made):
    stand_in.put(REPO, {PATH: DATA})
    stand_in.faults.listing = [made]
    assert [file.path for file in hub.listing(REPO)] == [PATH]
    assert hub.resolve(HubPath(REPO, "m*.gguf")).path == PATH
    with pytest.raises(NotFoundError, match="no file"):
        hub.resolve(HubPath(REPO, "a*.gguf"))


@pytest.mark.parametrize("made", [7, None, [], {}, {"type": 1}, {"type": "file", "path": 7}])
def test_entries_that_are_none_are_passed_over(stand_in, hub, made):
    stand_in.put(REPO, {PATH: DATA})
    stand_in.faults.listing = [made]
    assert [file.path for file in hub.listing(REPO)] == [PATH]


@pytest.mark.parametrize("etag", [None, 5, "", "\x1b[2J", "x" * 300, "A" * 64])
def test_entity_tags_that_are_no_hashes_are_no_hashes(stand_in, hub, etag):
    stand_in.put(REPO, {PATH: DATA})
    stand_in.faults.listing = [{"type": "file", "path": "a.gguf", "size": 3, "oid": etag}]
    found = hub.listing(REPO)[-1]
    assert (found.sha256, found.git_blob) == (None, None)
    assert found.etag in (None, "", "A" * 64)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[" * 100_000, b"\xff\xfe", b"{}", b"[1]"])
def test_what_is_no_hub_is_told(stand_in, hub, body, monkeypatch):
    monkeypatch.setattr(
        "hub_server._Handler._answer_api", lambda self, token: self._send(200, {}, body)
    )
    with pytest.raises(DownloadError, match=r"hub|JSON"):
        hub.listing(REPO)


def test_an_answer_without_end_is_cut_off(stand_in, hub, monkeypatch):
    monkeypatch.setattr("gemmachat.hub_http._MAX_JSON", 1000)
    stand_in.put(REPO, {f"f{index}.json": b"{}" for index in range(30)})
    with pytest.raises(DownloadError, match="larger"):
        hub.listing(REPO)


def test_pages_without_end_are_cut_off(stand_in, hub, monkeypatch):
    monkeypatch.setattr("gemmachat.hub._MAX_FILES", 50)
    stand_in.page = 10
    stand_in.put(REPO, {f"f{index}.json": b"{}" for index in range(100)})
    assert len(hub.listing(REPO)) == 50


def test_pages_without_entries_and_without_end_are_cut_off(stand_in, hub, monkeypatch):
    monkeypatch.setattr("gemmachat.hub._MAX_PAGES", 5)
    monkeypatch.setattr(
        "hub_server._Handler._answer_api",
        lambda self, token: (
            self._send_json({"sha": "1" * 40}, {})
            if "/revision/" in self.path
            else self._send_json([7], {"Link": f'<{stand_in.endpoint}{self.path}>; rel="next"'})
        ),
    )
    assert hub.listing(REPO) == ()
    assert len(stand_in.of("hub")) == 1 + 5


@pytest.mark.parametrize(
    ("path", "revision", "word"),
    [("missing.gguf", "main", "file"), (PATH, "v9", "revision"), (PATH, "1" * 40, "revision")],
)
def test_what_is_not_there_is_told(stand_in, hub, path, revision, word):
    stand_in.put(REPO, {PATH: DATA})
    with pytest.raises(NotFoundError, match=word):
        hub.resolve(HubPath(REPO, path, revision))
    with pytest.raises(NotFoundError, match="repository"):
        hub.listing("owner/none")


def test_a_gated_repository_opens_to_its_token_only(stand_in, hub, monkeypatch):
    stand_in.put(REPO, {PATH: DATA})
    stand_in.gated.add(REPO)
    for token in ("", "hf_other"):
        monkeypatch.setenv("HF_TOKEN", token)
        for ask in (lambda: hub.resolve(HubPath(REPO, PATH)), lambda: hub.listing(REPO)):
            with pytest.raises(DownloadError, match="HF_TOKEN") as error:
                ask()
            assert error.value.exit_code == 1
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert hub.resolve(HubPath(REPO, PATH)).size == len(DATA)


def test_the_token_does_not_follow_the_pages_of_a_listing_elsewhere(stand_in, hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    stand_in.put(REPO, {PATH: DATA})

    def answer(self, token):
        self._send_json([entry("a.json", b"{}")], {"Link": f'<{stand_in.cdn}/more>; rel="next"'})

    monkeypatch.setattr(
        "hub_server._Handler._answer_api",
        lambda self, token: (
            self._send_json({"sha": "1" * 40}, {})
            if "/revision/" in self.path
            else answer(self, token)
        ),
    )
    with pytest.raises(DownloadError):
        hub.listing(REPO)
    assert {request.token for request in stand_in.of("hub")} == {TOKEN}
    assert [request.token for request in stand_in.of("cdn")] == [None]


@pytest.mark.parametrize("token", ["hf_a b", "hf_\u00e9", "hf_\x01"])
def test_a_token_that_is_none_is_told_and_not_shown(stand_in, hub, monkeypatch, token):
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(DownloadError, match="HF_TOKEN") as error:
        hub.listing(REPO)
    assert token not in str(error.value)
    assert stand_in.requests == []


def test_a_token_that_cannot_be_read_is_told(stand_in, hub, monkeypatch, tmp_path):
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path))
    with pytest.raises(DownloadError, match="token cannot be read"):
        hub.resolve(HubPath(REPO, PATH))


@pytest.mark.parametrize("name", ["HF_TOKEN_PATH", "HF_STORED_TOKENS_PATH"])
def test_a_pipe_in_the_place_of_a_token_is_not_waited_for(
    stand_in, hub, monkeypatch, tmp_path, name
):
    stand_in.put(REPO, {PATH: DATA})
    (tmp_path / "token").write_text(TOKEN)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setattr(constants, name, str(pipe))
    for ask in (lambda: hub.resolve(HubPath(REPO, PATH)), lambda: hub.listing(REPO)):
        with pytest.raises(DownloadError, match=f"{pipe} is not a regular file.*HF_TOKEN"):
            ask()
    assert stand_in.requests == []
    monkeypatch.setenv("HF_TOKEN", TOKEN)  # which comes before a file
    assert hub.resolve(HubPath(REPO, PATH)).size == len(DATA)
    assert stand_in.requests[-1].token == TOKEN


def test_passing_refusals_are_waited_out(stand_in, hub):
    stand_in.put(REPO, {PATH: DATA})
    stand_in.faults.statuses = [("HEAD", 503, {}), ("revision", 500, {}), ("tree", 429, {})]
    events: list[PullEvent] = []
    hub.resolve(HubPath(REPO, PATH), events.append)
    hub.listing(REPO, progress=events.append)
    assert [event.kind for event in events] == ["retry"] * 3


def test_a_hub_that_is_not_there_is_told_with_its_name(hub, hf_cache, monkeypatch):
    address = "http://127.0.0.1:9"
    monkeypatch.setattr(constants, "ENDPOINT", address)
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1 cannot be reached.*4 tries") as error:
        hub.resolve(HubPath(REPO, PATH))
    assert error.value.exit_code == 1


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"ETag": "x", "X-Linked-Size": "5"},
        {"X-Repo-Commit": "main", "X-Linked-Size": "5"},
        {"X-Repo-Commit": "../../../api", "X-Linked-Size": "5"},
        {"X-Repo-Commit": "1" * 40, "X-Linked-Size": "-5"},
        {"X-Repo-Commit": "1" * 40, "X-Linked-Size": "9" * 30},
    ],
)
def test_an_answer_that_is_not_of_a_hub_is_refused(stand_in, hub, headers):
    stand_in.faults.statuses = [("HEAD", 200, headers)]
    with pytest.raises(DownloadError, match=r"commit|size"):
        hub.resolve(HubPath(REPO, PATH))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("HTTP_PROXY", "socks5://127.0.0.1:1080", "SOCKS proxy.*pip install socksio"),
        ("HTTP_PROXY", "gopher://127.0.0.1:1080", "correct or unset .*proxy variables"),
        ("SSL_CERT_FILE", "/dev/null/none", "Not a directory.*SSL_CERT_FILE"),
    ],
)
def test_a_proxy_or_certificates_that_cannot_be_used_are_told_by_name(
    stand_in, hub, monkeypatch, name, value, said
):
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv(name, value)
    for ask in (lambda: hub.resolve(HubPath(REPO, PATH)), lambda: hub.listing(REPO)):
        with pytest.raises(DownloadError, match=said):
            ask()
    assert stand_in.requests == []


def test_redirects_in_a_circle_end(stand_in, hub):
    stand_in.put(REPO, {PATH: DATA})
    stand_in.faults.redirect = "loop"
    with pytest.raises(DownloadError, match="without end"):
        hub.resolve(HubPath(REPO, PATH))


def snapshot(folder: Path, commit: str, files: dict[str, bytes], *, links: bool = True) -> None:
    """Put files into a Hugging Face cache as huggingface-hub does, with and without links."""
    repo = folder / "models--owner--model"
    (repo / "blobs").mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(commit)
    for name, data in files.items():
        place = repo / "snapshots" / commit / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if links:
            blob = repo / "blobs" / hashlib.sha256(data).hexdigest()
            blob.write_bytes(data)
            place.symlink_to(blob)
        else:
            place.write_bytes(data)


@pytest.mark.parametrize("links", [True, False])
def test_offline_the_cache_is_all_there_is(offline, hub, hf_cache, links):
    snapshot(hf_cache, "c" * 40, {PATH: DATA, "sub/x.gguf": b"1"}, links=links)
    for place in (HubPath(REPO, PATH), HubPath(REPO, "mod*.gguf"), HubPath(REPO, PATH, "c" * 40)):
        found = hub.resolve(place)
        assert (found.commit, found.size) == ("c" * 40, len(DATA))
        assert found.sha256 == (SHA256 if links else None)
        assert hub.cached(found).read_bytes() == DATA
    assert [file.path for file in hub.listing(REPO)] == [PATH, "sub/x.gguf"]


def test_offline_and_not_in_the_cache_is_not_found(offline, hub, hf_cache):
    snapshot(hf_cache, "c" * 40, {PATH: DATA})
    for place in (HubPath(REPO, "b.gguf"), HubPath(REPO, PATH, "v2"), HubPath("owner/b", PATH)):
        with pytest.raises(NotFoundError) as error:
            hub.resolve(place)
        assert error.value.exit_code == 3
    with pytest.raises(NotFoundError, match="HF_HUB_OFFLINE"):
        hub.listing("owner/b")


def test_a_cache_that_cannot_be_read_is_no_cache(stand_in, hub, hf_cache):
    stand_in.put(REPO, {PATH: DATA})
    hf_cache.write_bytes(b"a file where a folder should be")
    assert hub.cached(hub.resolve(HubPath(REPO, PATH))) is None


def test_nothing_is_told_about_what_else_is_installed(stand_in, hub):
    """And huggingface-hub asks its hub for nothing on its own."""
    stand_in.put(REPO, {PATH: DATA})
    hub.resolve(HubPath(REPO, PATH))
    hub.listing(REPO)
    assert {request.path.split("/")[1] for request in stand_in.requests} == {"owner", "api"}
    assert not [r for r in stand_in.requests if "harness" in r.path]


@pytest.mark.parametrize(
    "arguments", [["--help"], ["list"], ["show", "e2b"], ["verify"], ["pull", "nothing"]]
)
def test_commands_that_need_no_hub_do_not_load_its_library(arguments, models):
    script = (
        "import sys; from gemmachat import cli; cli.main(sys.argv[1:]); "
        "sys.exit(' '.join({'huggingface_hub', 'httpx2', 'numpy'} & set(sys.modules)) or 0)"
    )
    command = [sys.executable, "-c", script, *arguments]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
