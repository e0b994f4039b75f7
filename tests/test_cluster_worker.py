"""Clusters computed beside a chat: used by sessions opened later, kept, and given up on closing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from embedded import DRAFTER, GREEDY, PROMPTS, TARGET, chat_tokens

from gemmachat import Engine, clusters
from gemmachat.gguf_info import read_header


@pytest.fixture
def drafter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that would gain by clusters, as the library is told."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(clusters, "lacks_clusters", lambda info: True)
    return Path(shutil.copy(DRAFTER, tmp_path / "drafter.gguf"))


def test_clusters_are_computed_beside_the_first_chat_and_found_by_the_next(drafter: Path) -> None:
    assert clusters.find(read_header(drafter)) is None
    with Engine.load(TARGET, drafter, threads=1) as engine:
        engine.wait_for_clusters()
        assert clusters.find(read_header(drafter)) is not None
        with engine.session(n_ctx=128) as session:
            list(session.generate(chat_tokens(engine, PROMPTS[0]), GREEDY, draft=3, max_tokens=8))
            assert session.stats().draft_head == "clusters"
    kept = clusters.places(drafter)[0].stat()
    with Engine.load(TARGET, drafter, threads=1) as engine:
        engine.wait_for_clusters()
    assert clusters.places(drafter)[0].stat() == kept


def test_closing_at_once_leaves_a_whole_file_or_none(drafter: Path) -> None:
    for _ in range(5):
        Engine.load(TARGET, drafter, threads=1).close()
        assert not [name for name in os.listdir(drafter.parent) if name.endswith(".part")]
        if clusters.places(drafter)[0].exists():
            assert clusters.find(read_header(drafter)) is not None
