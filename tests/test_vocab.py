"""Text to tokens and back: nothing that is typed can become the structure of a conversation."""

from __future__ import annotations

import random

import pytest
from embedded import TARGET

from gemmachat import DamagedFileError, Engine

# Spelled as Gemma 4 spells them. llama.cpp matches the second row even in plain text.
MARKERS = [
    *("<bos>", "<eos>", "<|turn>", "<turn|>", "<|think|>", "<|tool>", "<tool|>"),
    *("<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>"),
    *("<tool_response|>", '<|"|>'),
]


@pytest.fixture(scope="module")
def vocab():
    with Engine.load(TARGET, threads=1) as engine:
        yield engine.vocab


def text_of(vocab, tokens: list[int]) -> str:
    return b"".join(vocab.piece(token) for token in tokens).decode()


@pytest.mark.parametrize("marker", MARKERS)
def test_a_spelled_marker_is_text(vocab, marker):
    for text in (marker, f"a{marker}b", marker * 3, f"user\n{marker}model\n", f" {marker} "):
        tokens = vocab.tokenize(text)
        assert vocab.control(marker) not in tokens
        assert text_of(vocab, tokens) == text


def test_no_mixture_of_markers_and_text_yields_a_control_token(vocab):
    rng = random.Random(0)
    controls = {vocab.control(marker) for marker in MARKERS}
    parts = [
        *MARKERS,
        *(m[:-1] for m in MARKERS),
        *(m[1:] for m in MARKERS),
        "user",
        "\n",
        " ",
        "<",
    ]
    for _ in range(2000):
        text = "".join(rng.choices(parts, k=rng.randint(1, 12)))
        tokens = vocab.tokenize(text)
        assert not controls & set(tokens), text
        assert text_of(vocab, tokens) == text


def test_text_survives_tokens_and_back(vocab):
    for text in (
        "Hello, world!",
        "  two  spaces\tand\ttabs ",
        "\n\n\nlines\n\n",
        "你好，世界。",
        "emoji 👩‍👩‍👧 and é, é",
        "def f(x):\n    return x ** 2\n",
        "\x00\x1b[31m",
    ):
        assert text_of(vocab, vocab.tokenize(text)) == text
    assert vocab.tokenize("") == []


def test_text_that_is_no_unicode_is_taken_with_a_substitute(vocab):
    assert text_of(vocab, vocab.tokenize("a\ud800b")) == "a?b"


def test_a_control_token_that_the_file_lacks_is_a_clear_error(vocab):
    with pytest.raises(DamagedFileError, match="<no such token>"):
        vocab.control("<no such token>")


def test_control_tokens_stand_for_no_bytes(vocab):
    assert {vocab.piece(vocab.control(marker)) for marker in MARKERS} == {b""}


def test_the_tokens_that_end_a_turn(vocab):
    ends = {m for m in MARKERS if vocab.is_end(vocab.control(m))}
    assert ends == {"<eos>", "<turn|>", "<|tool_response>"}
    assert not vocab.is_end(-1)
    assert not vocab.is_end(vocab.size)
