"""`gemmachat pull` against a stand-in hub: what is chosen, shown, refused, and gone on with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Command
from embedded import DRAFTER, TARGET
from fakes import FakeEngine
from gemmachat.converters import convert
from hub_server import StandIn, serving
from hub_settings import environment

from gemmachat import memory
from gemmachat.file_lock import locked
from gemmachat.manifest import MANIFEST
from gemmachat.pull_events import PullEvent
from gemmachat.pull_view import PullView, duration_text
from gemmachat.render import Screen
from gemmachat.shelf import Shelf

CATALOG = """
[mine]
description = "my own"
context = 4096
memory = 1_000_000
[mine.quants]
Q4_0 = { repo = "me/mine", file = "mine-Q4_0.gguf" }
Q8_0 = { repo = "me/mine", file = "mine-Q8_0.gguf" }
F16 = { repo = "me/mine", file = "mine-F16.gguf" }
[[mine.drafters]]
repo = "me/mine"
file = "mtp-*.gguf"
"""


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the repository holds: two quantizations of the target, drafters, and other files."""
    small = tmp_path_factory.mktemp("q4") / "q4.gguf"
    convert(TARGET, small, quant="Q4_0")
    return {
        "README.md": b"# mine",
        "mine-Q4_0.gguf": small.read_bytes(),
        "mine-Q8_0.gguf": TARGET.read_bytes(),
        "mmproj-mine-Q8_0.gguf": b"GGUF",
        "mtp-mine.gguf": DRAFTER.read_bytes(),
    }


@pytest.fixture
def catalog(models: Path, tmp_path: Path) -> None:
    """A catalog of the user's, with a model of the stand-in."""
    own = tmp_path / "config" / "gemmachat"
    own.mkdir(parents=True)
    (own / "models.toml").write_text(CATALOG)


@pytest.fixture
def server(stand_in: StandIn, files: dict[str, bytes], catalog: None) -> StandIn:
    stand_in.put("me/mine", files)
    return stand_in


def give_memory(monkeypatch: pytest.MonkeyPatch, nbytes: int) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: nbytes)


# ---- what is chosen ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("available", "chosen"),
    [(100_000_000, "Q8_0"), (18_000_000, "Q4_0"), (8_000_000, "Q4_0")],
)
def test_without_a_quantization_the_memory_decides_and_one_line_says_so(
    command: Command,
    server: StandIn,
    models: Path,
    monkeypatch: pytest.MonkeyPatch,
    available: int,
    chosen: str,
) -> None:
    give_memory(monkeypatch, available)
    done = command("pull", "mine")
    assert done.code == 0, done.err
    assert done.out.startswith(f"mine:{chosen.lower()}: ")
    assert f"{chosen} of Q4_0, Q8_0: it needs about" in done.err
    assert "of memory that can be had here" in done.err
    assert done.err.endswith(f"Chat with it: gemmachat run mine:{chosen.lower()}\n")
    unit = Shelf(models).find("mine")
    assert unit is not None
    assert unit.manifest.quant == chosen
    assert unit.drafter is not None


def test_model_that_cannot_fit_is_not_fetched_unless_it_is_named(
    command: Command, server: StandIn, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_memory(monkeypatch, 1_000_000)
    done = command("pull", "mine")
    assert done.code == 5
    assert "Q4_0, the smallest, needs about" in done.err
    assert "mine:q4_0" in done.err
    assert server.of("cdn") == []
    assert command("pull", "mine:q4_0").code == 0
    assert Shelf(models).find("mine", "Q4_0") is not None


def test_pulled_model_can_be_chatted_with_listed_verified_and_removed(
    command: Command, server: StandIn, models: Path
) -> None:
    assert command("pull", "mine:Q8_0").code == 0
    engine = FakeEngine()
    command("run", "mine", "hi", engine=engine)
    assert engine.opened[0][0].target.read_bytes() == TARGET.read_bytes()
    assert engine.opened[0][0].drafter.read_bytes() == DRAFTER.read_bytes()
    assert command("list").out.splitlines()[1].split()[0] == "mine:q8_0"
    assert "from me/mine, mine-Q8_0.gguf, commit" in command("show", "mine").out
    assert command("verify", "mine").code == 0
    assert command("rm", "mine", "--yes").code == 0
    assert list(models.iterdir()) == []


def test_second_pull_fetches_nothing_and_compares(
    command: Command, server: StandIn, files: dict[str, bytes], models: Path
) -> None:
    command("pull", "mine:q8_0")
    server.requests.clear()
    done = command("pull", "mine")
    assert done.out == "mine:q8_0 is as the hub has it\n"
    assert server.of("cdn") == []
    server.put("me/mine", {**files, "mine-Q8_0.gguf": files["mine-Q4_0.gguf"]})
    done = command("pull", "mine")
    assert done.code == 0
    assert "has changed on the hub" in done.err
    unit = Shelf(models).find("mine")
    assert unit is not None
    assert unit.target.read_bytes() == files["mine-Q4_0.gguf"]


# ---- places on a hub -----------------------------------------------------------------------------


def test_repository_gives_its_target_and_its_drafter(
    command: Command, server: StandIn, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_memory(monkeypatch, 10**11)
    done = command("pull", "hf:me/mine")
    assert done.code == 0, done.err
    assert "Q8_0 of Q4_0, Q8_0" in done.err
    unit = Shelf(models).find("me--mine")
    assert unit is not None
    assert [file.path for file in unit.manifest.files] == ["mine-Q8_0.gguf", "mtp-mine.gguf"]
    engine = FakeEngine()
    command("run", "hf:me/mine", "hi", engine=engine)
    assert engine.opened[0][0].unit == unit


@pytest.mark.parametrize("which", ["q4_0", "Q4_0", "mine-Q4_0.gguf"])
def test_quantization_or_file_of_a_repository_is_taken_as_named(
    command: Command, server: StandIn, models: Path, which: str
) -> None:
    done = command("pull", f"hf:me/mine:{which}")
    assert done.code == 0, done.err
    assert " of memory " not in done.err
    assert Shelf(models).find("me--mine", "Q4_0") is not None


def test_drafters_of_eight_bits_come_before_others(
    command: Command, server: StandIn, files: dict[str, bytes], models: Path
) -> None:
    drafter = files["mtp-mine.gguf"]
    server.put(
        "me/two",
        {
            "two-Q8_0.gguf": files["mine-Q8_0.gguf"],
            "mtp-two-F16.gguf": drafter,
            "MTP/mtp-two-Q8_0.gguf": drafter,
        },
    )
    assert command("pull", "hf:me/two").code == 0
    unit = Shelf(models).find("me--two")
    assert unit is not None
    assert unit.manifest.files[1].path == "MTP/mtp-two-Q8_0.gguf"


def test_what_a_repository_lacks_is_said_with_what_it_has(
    command: Command, server: StandIn
) -> None:
    done = command("pull", "hf:me/mine:q5_k_m")
    assert done.code == 3
    assert "but mine-Q4_0.gguf, mine-Q8_0.gguf" in done.err
    server.put("me/weights", {"model.safetensors": b"x"})
    assert "but no target in GGUF" in command("pull", "hf:me/weights").err
    assert command("pull", "hf:me/nothing").code == 3


def test_two_files_of_one_quantization_do_not_replace_each_other(
    command: Command, server: StandIn, files: dict[str, bytes], models: Path
) -> None:
    server.put("me/two", {"a-Q8_0.gguf": files["mine-Q8_0.gguf"], "b-Q8_0.gguf": b"GGUF"})
    assert command("pull", "hf:me/two:a-Q8_0.gguf").code == 0
    done = command("pull", "hf:me/two:b-Q8_0.gguf")
    assert done.code == 2
    assert "gemmachat rm me--two:q8_0" in done.err


def test_pulled_repository_stays_in_its_quantization_and_needs_no_hub_offline(
    command: Command, server: StandIn, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command("pull", "hf:me/mine:q4_0")
    give_memory(monkeypatch, 10**11)
    for name in ("hf:me/mine", "me--mine", "me--mine:q4_0"):
        done = command("pull", name)
        assert (done.code, done.out) == (0, "me--mine:q4_0 is as the hub has it\n")
    assert len(Shelf(models).units()[0]) == 1
    server.requests.clear()
    monkeypatch.setattr("gemmachat.hub.constants.HF_HUB_OFFLINE", True)
    done = command("pull", "hf:me/mine")
    assert (done.code, done.out) == (
        0,
        "me--mine:q4_0 is here; offline it was compared with no hub\n",
    )
    assert command("pull", "hf:me/mine:q8_0").code == 3
    assert server.requests == []


def test_imported_model_cannot_be_pulled(command: Command, models: Path) -> None:
    command("import", str(TARGET), "--name", "own")
    done = command("pull", "own")
    assert (done.code, "own:q8_0 was imported" in done.err) == (2, True)
    next(models.rglob("*.gguf")).unlink()
    assert "gemmachat pull" not in command("run", "own", "hi").err


@pytest.mark.parametrize("name", ["mine:q8_0", "hf:me/mine:q8_0"])
def test_damaged_manifest_is_made_anew(
    command: Command, server: StandIn, models: Path, name: str
) -> None:
    command("pull", name)
    (manifest,) = models.rglob(MANIFEST)
    manifest.write_text("{}")
    server.requests.clear()
    done = command("pull", name)
    assert done.code == 0, done.err
    assert "is damaged" in done.err
    assert command("verify").code == 0
    assert server.of("cdn") == []


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("tiny", 2, "ships inside gemmachat"),
        ("minne", 3, "did you mean mine?"),
        ("A prompt", 3, "there is no model 'A prompt'"),
        ("mine:q5_0", 2, "the catalog has no Q5_0 of mine: take mine:q4_0, mine:q8_0, mine:f16"),
        ("x.gguf", 2, "gemmachat import"),
        ("hf:mine", 2, "hf:OWNER/REPO"),
        ("mine:f16", 3, "mine-F16.gguf"),
    ],
)
def test_what_cannot_be_pulled_is_one_sentence(
    command: Command, server: StandIn, models: Path, name: str, code: int, said: str
) -> None:
    done = command("pull", name)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert done.err.count("error: ") == 1
    assert not list(models.rglob("*.gguf*"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_ENDPOINT", "http://[::1"),
        ("HF_ENDPOINT", "http://127.0.0.1:99999"),
        ("HF_ENDPOINT", "http://127.0.0.1:abc"),
        ("HF_ENDPOINT", "http://a\x1b[31m.invalid"),
        ("HF_ENDPOINT", "http://a\x1b.invalid"),
        ("HF_ENDPOINT", "http://"),
        ("HF_ENDPOINT", "ftp://127.0.0.1"),
        ("HF_ENDPOINT", ""),
        ("HF_HUB_DOWNLOAD_TIMEOUT", "abc"),
        ("HF_HUB_DOWNLOAD_TIMEOUT", "-1"),
        ("HF_HUB_ETAG_TIMEOUT", "abc"),
        ("HF_HUB_ETAG_TIMEOUT", "9" * 400),
    ],
)
def test_hub_settings_that_make_no_sense_are_refused_by_name(
    command: Command,
    server: StandIn,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
) -> None:
    monkeypatch.setenv(name, value)
    done = command("pull", "mine:q8_0")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {name} is not")
    assert not server.requests


def test_hub_settings_are_checked_before_the_library_reads_them(tmp_path: Path) -> None:
    folders = {"HF_HOME": str(tmp_path), "GEMMACHAT_MODELS": str(tmp_path / "models")}
    done = subprocess.run(
        [sys.executable, "-m", "gemmachat", "pull", "e2b:q4_0"],
        env={**os.environ, **folders, "HF_HUB_OFFLINE": "1", "HF_HUB_ETAG_TIMEOUT": "abc"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: HF_HUB_ETAG_TIMEOUT is not")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.usefixtures("offline")
def test_offline_is_told_and_what_is_here_is_still_used(
    command: Command, catalog: None, models: Path
) -> None:
    done = command("pull", "mine:q8_0")
    assert (done.code, done.out) == (3, "")
    assert "offline" in done.err.lower()
    assert command("list").code == 0


# ---- what is shown -------------------------------------------------------------------------------


def test_quiet_says_nothing(command: Command, server: StandIn) -> None:
    assert command("pull", "mine:q8_0", "--quiet") == (0, "", "")


def test_events_for_programs_are_one_object_a_line(
    command: Command, server: StandIn, models: Path, files: dict[str, bytes]
) -> None:
    done = command("pull", "mine:q8_0", "--json")
    assert (done.code, done.err) == (0, "")
    *events, last = map(json.loads, done.out.splitlines())
    assert events[0]["kind"] == "plan"
    fetched = [event for event in events if event["kind"] == "fetch"]
    assert fetched[-1]["done"] == fetched[-1]["total"] == len(files["mtp-mine.gguf"])
    assert (last["kind"], last["model"]) == ("pulled", "mine:q8_0")
    assert last["folder"] == str(models / "mine" / "q8_0")
    assert [file["role"] for file in last["files"]] == ["target", "drafter"]


@pytest.mark.parametrize(
    ("name", "code"), [("minne", 3), ("mine:f16", 3), ("x.gguf", 2), ("mine:q8_0", 4)]
)
def test_error_is_the_last_event_for_programs_and_a_sentence_for_people(
    command: Command, server: StandIn, name: str, code: int
) -> None:
    server.faults.change = lambda data: data[:-1] + b"?"
    plain = command("pull", name)
    done = command("pull", name, "--json")
    assert (done.code, plain.code) == (code, code)
    *events, last = map(json.loads, done.out.splitlines())
    assert last == {"kind": "error", "text": plain.err.splitlines()[-1][7:], "exit_code": code}
    assert "error" not in {event["kind"] for event in events}
    assert done.err == f"error: {last['text']}\n"


def test_error_of_the_system_is_an_event_too(
    command: Command, models: Path, tmp_path: Path
) -> None:
    place = tmp_path / "config" / "gemmachat" / "models.toml"
    place.mkdir(parents=True)
    done = command("pull", "e2b", "--json")
    text = f"access to {place} failed: not a regular file"
    assert json.loads(done.out) == {"kind": "error", "text": text, "exit_code": 1}
    assert (done.code, done.err) == (1, f"error: {text}\n")


def test_error_keeps_its_exit_code_where_nobody_reads_its_event(models: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "gemmachat", "pull", "nothing", "--json"],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 3
    assert done.stderr.startswith("error: there is no model 'nothing'")
    assert len(done.stderr.splitlines()) == 1


def test_pull_goes_on_where_nobody_reads_its_events(
    tmp_path: Path, files: dict[str, bytes], catalog: None, models: Path
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with serving() as server, os.fdopen(writer, "wb") as closed:
        server.put("me/mine", files)
        done = subprocess.run(
            [sys.executable, "-m", "gemmachat", "pull", "mine:q8_0", "--json"],
            env={**os.environ, **environment(server, tmp_path / "hf")},
            stdout=closed,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, b"")
    assert Shelf(models).find("mine", "Q8_0") is not None


def test_progress_off_a_terminal_is_a_plain_line_now_and_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = PullView(Screen())
    for done in (500_000_000, 510_000_000):
        view(PullEvent("fetch", "a.gguf", done, 10**9, rate=1e6, seconds=500))
    view(PullEvent("retry", "a.gguf", seconds=2, text="the connection ended early"))
    view(PullEvent("ready", "a.gguf", 10**9, 10**9))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "[========........] 50% 500.0 MB of 1.00 GB, 1.0 MB/s, 8 min 20 s left: a.gguf",
        "the connection ended early; again in 2 s",
        "a.gguf: 1.00 GB, complete and right",
    ]


def test_error_does_not_share_a_line_with_the_progress(
    command: Command,
    server: StandIn,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    server.faults.change = lambda data: data[:-1] + b"?"
    done = command("pull", "mine:q8_0")
    assert done.code == 4
    before, _, error = done.err.rpartition("\r\x1b[K")
    assert "mine-Q8_0.gguf" in before
    assert error.startswith("\x1b[1;31merror:")


def test_durations() -> None:
    assert [duration_text(seconds) for seconds in (0.4, 59, 185, 7800)] == [
        *("0 s", "59 s", "3 min 5 s", "2 h 10 min")
    ]


# ---- real processes ------------------------------------------------------------------------------


def test_real_command_pulls_lists_answers_and_removes(
    tmp_path: Path, files: dict[str, bytes], catalog: None, models: Path
) -> None:
    with serving() as server:
        server.put("me/mine", files)
        settings = {**os.environ, **environment(server, tmp_path / "hf")}

        def gemmachat(*arguments: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [sys.executable, "-m", "gemmachat", *arguments],
                env=settings,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )

        done = gemmachat("pull", "mine:q8_0")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("mine:q8_0: 11.3 MB, with its drafter")
        assert "\x1b" not in done.stderr
    done = gemmachat("run", "Who are you?", "--temperature", "0", "--json", "--threads", "1")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["model"] == "mine:q8_0"
    assert answer["stats"]["accepted"] > 0
    assert json.loads(gemmachat("list", "--json").stdout)["models"][0]["last_used"]
    assert gemmachat("rm", "mine").returncode == 2
    assert gemmachat("rm", "mine", "--yes").returncode == 0
    assert gemmachat("run", "mine", "hi").returncode == 3


def test_interrupted_pull_says_how_to_go_on_and_prune_takes_what_it_left(
    tmp_path: Path, files: dict[str, bytes], catalog: None, models: Path, command: Command
) -> None:
    with serving() as server:
        server.put("me/mine", files)
        server.faults.rate = 200_000
        pull = subprocess.Popen(
            [sys.executable, "-m", "gemmachat", "pull", "mine:q8_0", "--json"],
            env={**os.environ, **environment(server, tmp_path / "hf")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert pull.stdout is not None
        assert any(json.loads(line).get("done", 0) > 1 << 16 for line in pull.stdout)
        pull.send_signal(2)
        _, err = pull.communicate(timeout=60)
    assert pull.returncode == 130
    assert err.splitlines() == ["stopped; the same command goes on from here"]
    part = models / "mine" / "q8_0" / "mine-Q8_0.gguf.part"
    assert part.stat().st_size > 1 << 16
    assert command("list").out.count("mine") == 0
    with locked(part.parent / MANIFEST, lambda: None):
        assert "another gemmachat" in command("prune", "--yes").err
    assert part.exists()
    assert command("prune", "--yes").code == 0
    assert list(models.iterdir()) == []
