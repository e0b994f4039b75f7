"""Fixtures that point huggingface-hub's settings at a stand-in, with nothing of the user's."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_server import StandIn, serving
from huggingface_hub import close_session, constants

from gemmachat.hub import Hub
from gemmachat.hub_http import Patience

QUICK = Patience(tries=4, first_wait_s=0.01, longest_wait_s=0.02)


@pytest.fixture
def hf_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The Hugging Face cache, empty; no token, and not offline."""
    folder = tmp_path / "hf-cache"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_OIDC_RESOURCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "*")
    return folder


@pytest.fixture
def stand_in(hf_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """A running stand-in that huggingface-hub takes for the hub."""
    with serving() as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.endpoint)
        monkeypatch.setattr(
            constants,
            "HUGGINGFACE_CO_URL_TEMPLATE",
            server.endpoint + "/{repo_id}/resolve/{revision}/{filename}",
        )
        close_session()
        yield server
        close_session()


@pytest.fixture
def hub() -> Hub:
    return Hub(QUICK)


@pytest.fixture
def offline(hf_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline, where the first socket that is opened fails the test."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def environment(server: StandIn, folder: Path) -> dict[str, str]:
    """Settings of a process that pulls from a stand-in."""
    return {
        "HF_ENDPOINT": server.endpoint,
        "HF_HOME": str(folder),
        "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
        "NO_PROXY": "*",
    }
