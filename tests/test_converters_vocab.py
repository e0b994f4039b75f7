"""A converted vocabulary encodes text as the original does and marks its tokens rightly."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llama_runner
import pytest
import tiny_checkpoint as tiny
from gemmachat.converters import CheckpointError, convert
from gemmachat.converters.vocab import read_vocab
from reference_bpe import ReferenceTokenizer

from gemmachat.gguf_info import ArrayInfo, read_header

NORMAL, CONTROL, USER_DEFINED, BYTE = 1, 3, 4, 6
TEXTS = (
    "hello hello", "  hello", "he ll o", "世界你好", "世世界界", "x = {a: 1};\n\n\n\nreturn(y)",
    "\n" * 9, "tab\tand\r\nreturn", "emoji 🎉 é ﬀ", "▁ hello ▁", "<|turn>user<turn|>",
    "<bos><0x41><filler3>", "<|channel>hello", "", " ", "\x01\x7f\u200b",
)  # fmt: skip


def random_texts(count: int) -> list[str]:
    rng = random.Random(5)
    alphabet = [*"helo \n世界{}=1é🎉▁<|>", "hello", "<|channel>", "\n\n\n"]
    return ["".join(rng.choices(alphabet, k=rng.randrange(1, 60))) for _ in range(count)]


def test_llama_cpp_encodes_converted_vocabularies_like_the_original(tmp_path: Path) -> None:
    tiny.write_target(tmp_path / "target")
    convert(tmp_path / "target", tmp_path / "out.gguf", quant="F16")
    reference = ReferenceTokenizer(
        tiny.TOKENS, [merge.split(" ") for merge in tiny.MERGES], added=["<|channel>"]
    )
    with llama_runner.loaded(tmp_path / "out.gguf") as model:
        for text in (*TEXTS, *random_texts(300)):
            assert llama_runner.tokenize(model, text) == reference.encode(text), repr(text)


def write_tokenizer(
    folder: Path,
    change: Callable[[dict[str, Any]], object] = lambda _: None,
    settings: dict[str, Any] | None = None,
) -> Path:
    tokenizer = tiny.tokenizer_json()
    change(tokenizer)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    if settings is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def test_token_types_follow_what_the_tokenizer_says(tmp_path: Path) -> None:
    last = tiny.TOKENS[-1]

    def change(tokenizer: dict[str, Any]) -> None:
        known = {"id": tiny.TOKENS.index("hello"), "content": "hello", "special": False}
        new = {"id": tiny.VOCAB - 1, "content": last, "special": False}
        tokenizer["added_tokens"] += [known, new]
        del tokenizer["model"]["vocab"][last]
        merges = tokenizer["model"]["merges"]
        merges[:] = [merge for merge in merges if "".join(merge) != last]

    vocab = read_vocab(write_tokenizer(tmp_path, change), tiny.VOCAB)
    types = dict(zip(vocab.tokens, vocab.types, strict=True))
    assert types["<bos>"] == types["<|turn>"] == CONTROL
    assert types["<|channel>"] == USER_DEFINED
    assert types[last] == USER_DEFINED
    assert types["<0x0A>"] == BYTE
    assert types["hello"] == NORMAL
    assert vocab.special_ids == {"pad": 0, "eos": 1, "bos": 2, "unk": 3, "mask": 4}


def test_special_tokens_come_from_the_settings(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path, settings={"eos_token": {"content": "<turn|>"}})
    assert read_vocab(folder, tiny.VOCAB).special_ids["eos"] == tiny.TOKENS.index("<turn|>")


def test_template_file_takes_precedence_over_the_settings(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path, settings={"chat_template": "from settings"})
    assert read_vocab(folder, tiny.VOCAB).chat_template == "from settings"
    (tmp_path / "chat_template.jinja").write_text("from file")
    assert read_vocab(folder, tiny.VOCAB).chat_template == "from file"


def test_rows_without_a_token_get_a_spelling_of_their_own(tmp_path: Path) -> None:
    folder = write_tokenizer(
        tmp_path, lambda tokenizer: tokenizer["model"]["vocab"].pop(tiny.TOKENS[-1])
    )
    tokens = read_vocab(folder, tiny.VOCAB).tokens
    assert len(set(tokens)) == tiny.VOCAB
    assert tokens[:-1] == tiny.TOKENS[:-1]


def set_id(token: str, index: object) -> Callable[[dict[str, Any]], None]:
    return lambda tokenizer: tokenizer["model"]["vocab"].__setitem__(token, index)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda t: t["model"].update(type="Unigram"), "byte-pair"),
        (lambda t: t["model"].update(byte_fallback=False), "byte-pair"),
        (lambda t: t.update(model=None), "byte-pair"),
        (lambda t: t["model"].update(vocab=[]), "no vocabulary"),
        (lambda t: t["model"].update(merges=[]), "no merges"),
        (lambda t: t["model"]["merges"].append(["he", "xyz"]), "impossible merge"),
        (lambda t: t["model"]["merges"].append(["he"]), "impossible merge"),
        (lambda t: t["model"]["merges"].append("h  e"), "impossible merge"),
        (lambda t: t["model"]["merges"].append(["", "he"]), "impossible merge"),
        (set_id("hello", tiny.VOCAB), "but the model has"),
        (set_id("hello", -1), "but the model has"),
        (set_id("hello", "7"), "but the model has"),
        (set_id("hello", 0), "the same id 0"),
        (lambda t: t["added_tokens"].append({"id": 9, "content": "<bos>"}), "two ids"),
        (lambda t: t["added_tokens"].append({"id": 9}), "without content"),
        (lambda t: t["added_tokens"].append(7), "without content"),
    ],
)
def test_tokenizer_of_another_kind_or_with_errors_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], expected: str
) -> None:
    with pytest.raises(CheckpointError) as caught:
        read_vocab(write_tokenizer(tmp_path, change), tiny.VOCAB)
    assert expected in str(caught.value)


@pytest.mark.parametrize("spelling", ["", "a\0b", "\ud800"])
def test_token_that_cannot_be_stored_is_refused(tmp_path: Path, spelling: str) -> None:
    def rename(tokenizer: dict[str, Any]) -> None:
        vocab = tokenizer["model"]["vocab"]
        vocab[spelling] = vocab.pop(tiny.TOKENS[-1])

    with pytest.raises(CheckpointError, match="cannot be encoded"):
        read_vocab(write_tokenizer(tmp_path, rename), tiny.VOCAB)


@pytest.mark.parametrize("template", [7, "\ud800", "x" * (1 << 20) + "y"])
def test_template_that_cannot_be_stored_is_refused(tmp_path: Path, template: object) -> None:
    folder = write_tokenizer(tmp_path, settings={"chat_template": template})
    with pytest.raises(CheckpointError, match="template"):
        read_vocab(folder, tiny.VOCAB)


def test_missing_start_token_is_refused(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path, settings={"bos_token": "<start>"})
    with pytest.raises(CheckpointError, match="bos token '<start>'"):
        read_vocab(folder, tiny.VOCAB)


def test_vocabulary_arrives_whole_in_the_file(tmp_path: Path) -> None:
    tiny.write_target(tmp_path / "target")
    convert(tmp_path / "target", tmp_path / "out.gguf", quant="F16")
    metadata = read_header(tmp_path / "out.gguf").metadata
    tokens = metadata["tokenizer.ggml.tokens"]
    assert (tokens.strings() if isinstance(tokens, ArrayInfo) else tokens) == tiny.TOKENS
    assert metadata["tokenizer.ggml.merges"] == tiny.MERGES
    assert metadata["tokenizer.ggml.scores"] == (-1000.0,) * tiny.VOCAB
    assert metadata["tokenizer.chat_template"] == "{{ bos_token }}"
