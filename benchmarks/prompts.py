"""The prompts that benchmarks on trained models answer."""

from __future__ import annotations

from pathlib import Path

from gemmachat.bridge_engine import EngineHandle
from gemmachat.conversation import Message
from gemmachat.prompt import PromptFormat
from gemmachat.vocab import ModelVocab

_FILE = Path(__file__).parents[1] / "tests" / "prompts.txt"


def chat_prompts(engine: EngineHandle) -> list[list[int]]:
    """The lines of `tests/prompts.txt`, each as the tokens of a chat's first turn."""
    style = PromptFormat(ModelVocab(engine), engine.chat_template())
    lines = _FILE.read_text(encoding="utf-8").splitlines()
    return [style.render([Message("user", line)]) for line in lines]
