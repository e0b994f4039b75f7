"""Fixtures that many tests share."""

from __future__ import annotations

import io
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from fakes import FakeEngine
from hub_settings import hf_cache, hub, offline, stand_in  # noqa: F401

from gemmachat import cli, loading
from gemmachat.catalog import ResolvedModel

# Programs that tests start leave nothing in the user's folders and find nothing there.
_NOWHERE = tempfile.mkdtemp(prefix="gemmachat-tests-")
for _kind in ("STATE", "DATA", "CONFIG"):
    os.environ[f"XDG_{_kind}_HOME"] = _NOWHERE
for _name in ("GEMMACHAT_MODELS", "GEMMACHAT_MODEL", "GEMMACHAT_KERNELS"):
    os.environ.pop(_name, None)

# A script's background job starts with Ctrl-C ignored, and so would every program tested in it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path_factory) -> None:
    """What one test has learned about drafting, or saved, must not show in another."""
    for kind in ("STATE", "DATA"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path_factory.mktemp(kind.lower())))


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty models folder, and a config folder without files."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("GEMMACHAT_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


class Finished(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


class Stdin(io.TextIOWrapper):
    """Standard input with given bytes."""

    def __init__(self, data: bytes, *, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


Command = Callable[..., Finished]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `gemmachat` in this process: `command(*arguments, engine=..., stdin=...)`.

    Without `stdin` standard input is a terminal at its end; without `engine` loading one fails the
    test.
    """

    def run(
        *arguments: str, engine: FakeEngine | None = None, stdin: bytes | None = None
    ) -> Finished:
        def open_engine(
            model: ResolvedModel, threads: int | None = None, **_memory: object
        ) -> FakeEngine:
            assert engine is not None, f"{model.target} must not be loaded"
            engine.opened.append((model, threads))
            return engine

        monkeypatch.setattr(loading, "open_engine", open_engine)
        monkeypatch.setattr(sys, "stdin", Stdin(stdin or b"", terminal=stdin is None))
        code = cli.main(arguments)
        return Finished(code, *capsys.readouterr())

    return run
