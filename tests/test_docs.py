"""Every example runs as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from llama_server import KEY, llama_server

import gemmachat
from gemmachat.errors import UsageError

DOCS = Path(__file__).parents[1] / "docs"
SAID = {
    "stream.py": "per pass",
    "turns.py": "taken back: What is top-p?",
    "thinking.py": "answer:",
    "tools.py": "answer:",
    "json_answer.py": "Ann 30",
    "cancel.py": "ended by:",
    "save.py": "2 turns",
}


def example(name: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, str(DOCS / name), *arguments],
        cwd=DOCS.parent,
        env={**os.environ, "PYTHONPATH": str(DOCS.parent), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_every_example_is_listed_and_tested() -> None:
    files = {path.name for path in DOCS.glob("*.py")}
    assert files == {*SAID, "server.py"}
    page = (DOCS / "README.md").read_text()
    assert all(f"`{name}" in page for name in files)


@pytest.mark.parametrize("name", SAID)
def test_an_example_runs(name: str) -> None:
    assert SAID[name] in example(name)


def test_the_example_of_a_server_runs() -> None:
    with llama_server() as url:
        assert "tiny" in example("server.py", url, GEMMACHAT_API_KEY=KEY)


def test_options_of_this_machine_are_refused_for_a_server() -> None:
    with pytest.raises(UsageError, match="server's to choose"):
        gemmachat.Chat("m", base_url="http://127.0.0.1:9/v1", n_ctx=5)


def test_a_context_without_tokens_is_refused() -> None:
    with pytest.raises(UsageError, match="between 1 and"):
        gemmachat.Chat("tiny", n_ctx=0)


def test_one_text_stops_an_answer_as_a_list_of_one_does() -> None:
    texts = []
    for stop in (" ", (" ",)):
        sampling = gemmachat.SamplingParams(temperature=0.0)
        with gemmachat.Chat("tiny", sampling=sampling, stop=stop) as chat:
            texts.append(chat.ask("Who are you?").text)
    assert texts[0] == texts[1]
    assert " " not in texts[0]


@pytest.mark.parametrize("limit", ["max_tokens", "thought_budget"])
def test_a_limit_below_one_is_refused(limit: str) -> None:
    with pytest.raises(UsageError, match=f"{limit} must be at least 1, not -1"):
        gemmachat.Chat("tiny", **{limit: -1})


def test_a_cancel_between_answers_stops_none() -> None:
    with gemmachat.Chat("tiny", sampling=gemmachat.SamplingParams(temperature=0.0)) as chat:
        chat.ask("hi")
        chat.cancel()
        assert chat.ask("Who are you?").finish_reason == "stop"
        chat.cancel()
        assert chat.compact() is not None
