"""The real vocabulary of Gemma 4 arrives as llama.cpp's own converter wrote it, and encodes so."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_model import write_real_model
from real_vocab import BYTE, CONTROL, NORMAL, USER_DEFINED, RealVocab, real_vocab
from reference_bpe import ReferenceTokenizer

from gemmachat import Engine
from gemmachat.gguf_info import ArrayInfo, read_header
from gemmachat.vocab import Vocab


@pytest.fixture(scope="module")
def real() -> RealVocab:
    return real_vocab()


@pytest.fixture(scope="module")
def converted(real: RealVocab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two narrow layers with all the tokens."""
    return write_real_model(tmp_path_factory.mktemp("real-vocab"), real)


@pytest.fixture(scope="module")
def vocab(converted: Path) -> Iterator[Vocab]:
    with Engine.load(converted, threads=1) as engine:
        yield engine.vocab


def test_every_tokenizer_key_is_what_llama_cpps_converter_wrote(
    real: RealVocab, converted: Path
) -> None:
    found = {
        key: value
        for key, value in read_header(converted).metadata.items()
        if key.startswith("tokenizer.")
    }
    expected = {key: value for key, value in real.metadata.items() if key.startswith("tokenizer.")}
    assert found.keys() == expected.keys()
    for key, value in found.items():
        if isinstance(value, ArrayInfo):
            strings = value.item_type == "str"
            items = [s.decode() for s in value.strings()] if strings else list(value.numbers())
            # Not through `==` in the assertion: pytest would explain every one of the items.
            same = items == expected[key]
            assert same, key
        else:
            assert value == expected[key], key


def test_the_vectors_of_llama_cpp_are_met(real: RealVocab, vocab: Vocab) -> None:
    assert len(real.vectors) == 46
    for text, expected in real.vectors:
        assert vocab.tokenize(text) == expected, repr(text)


def test_the_vectors_decode_to_their_texts(real: RealVocab, vocab: Vocab) -> None:
    for text, tokens in real.vectors:
        assert text_of(vocab, tokens) == text


def test_the_reference_in_python_meets_the_vectors_too(real: RealVocab) -> None:
    reference = ReferenceTokenizer(real.tokens, [merge.split(" ") for merge in real.merges])
    for text, expected in real.vectors:
        assert reference.encode(text) == expected, repr(text)


def test_random_texts_encode_like_the_reference_and_decode_back(
    real: RealVocab, vocab: Vocab
) -> None:
    reference = ReferenceTokenizer(real.tokens, [merge.split(" ") for merge in real.merges])
    rng = random.Random(7)
    words = [token for token in real.spellings(NORMAL) if "▁" not in token]
    parts = [
        *words,
        *(" ", "  ", "\n", "\n\n\n", "\t", "é", "\u0301", "世", "🎉", "\x00", "\U0010ffff"),
    ]
    weights = [1] * len(words) + [len(words) // 11] * 11
    for _ in range(300):
        text = "".join(rng.choices(parts, weights, k=rng.randrange(1, 30)))
        tokens = vocab.tokenize(text)
        assert tokens == reference.encode(text), repr(text)
        assert text_of(vocab, tokens) == text


def test_no_spelling_of_a_control_token_becomes_one(real: RealVocab, vocab: Vocab) -> None:
    markers = real.spellings(CONTROL, USER_DEFINED)
    controls = {real.tokens.index(marker) for marker in markers}
    assert len(controls) == 24
    rng = random.Random(3)
    parts = [
        *markers,
        *(m[:-1] for m in markers),
        *(m[1:] for m in markers),
        "user",
        "\n",
        " ",
        "<",
    ]
    texts = ["".join(rng.choices(parts, k=rng.randint(1, 12))) for _ in range(1000)]
    for text in (*markers, *texts):
        tokens = vocab.tokenize(text)
        assert not controls & set(tokens), repr(text)
        assert text_of(vocab, tokens) == text


def test_bytes_without_a_character_stand_for_themselves(real: RealVocab, vocab: Vocab) -> None:
    assert [vocab.piece(real.tokens.index(name)) for name in real.spellings(BYTE)] == [
        bytes([byte]) for byte in range(256)
    ]


def test_the_tokens_that_end_a_turn(real: RealVocab, vocab: Vocab) -> None:
    ends = [token for index, token in enumerate(real.tokens) if vocab.is_end(index)]
    assert ends == ["<eos>", "<|tool_response>", "<turn|>"]


def text_of(vocab: Vocab, tokens: list[int]) -> str:
    return b"".join(vocab.piece(token) for token in tokens).decode()
