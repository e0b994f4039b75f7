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


def remove(token: str) -> Callable[[dict[str, Any]], None]:
    def change(tokenizer: dict[str, Any]) -> None:
        del tokenizer["model"]["vocab"][token]
        added = tokenizer["added_tokens"]
        added[:] = [entry for entry in added if entry["content"] != token]

    return change


def mark_as_text(token: str) -> Callable[[dict[str, Any]], None]:
    return lambda t: next(e for e in t["added_tokens"] if e["content"] == token).update(
        special=False
    )


def add_newline_merge(tokenizer: dict[str, Any]) -> None:
    tokenizer["model"]["vocab"]["a\n"] = tokenizer["model"]["vocab"].pop(tiny.TOKENS[-1])
    tokenizer["model"]["merges"].append(["a", "\n"])


REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
UNDO = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
BYTES, FUSE = {"type": "ByteFallback"}, {"type": "Fuse"}


def split(regex: str, behavior: str = "Isolated", **more: object) -> dict[str, object]:
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, **more}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda t: t["model"].update(type="Unigram"), "its model is 'Unigram', not byte pairs"),
        (lambda t: t["model"].update(byte_fallback=False), "it has no byte fallback"),
        (lambda t: t.update(model=None), "it holds no model"),
        (lambda t: t["model"].update(unk_token="<what>"), "unknown token '<what>' is not in"),
        (lambda t: t["model"].update(dropout=0.1), "leaves out merges at random"),
        (lambda t: t["model"].update(ignore_merges=True), "looks up whole lines"),
        (lambda t: t["model"].update(end_of_word_suffix="</w>"), "parts of words ('end_of_"),
        (lambda t: t.update(normalizer=None), "its normalizer (none) is not"),
        (lambda t: t.update(normalizer={"type": "NFKC"}), "its normalizer ('NFKC') is not"),
        (lambda t: t["normalizer"].update(content="_"), "its normalizer ('Replace') is not"),
        (
            lambda t: t.update(
                normalizer={
                    "type": "Sequence",
                    "normalizers": [{"type": "Prepend", "prepend": "▁"}, REPLACE],
                }
            ),
            "its normalizer ('Prepend', 'Replace') is not",
        ),
        (lambda t: t.update(pre_tokenizer={"type": "Metaspace"}), "its pre-tokenizer ('Metaspace'"),
        (lambda t: t.update(pre_tokenizer=split(r"\w+")), "its pre-tokenizer ('Split') splits"),
        (lambda t: t.update(pre_tokenizer=split(r"\n+", "Removed")), "its pre-tokenizer ('Split')"),
        (lambda t: t.update(pre_tokenizer=split(" ", invert=True)), "its pre-tokenizer ('Split')"),
        (lambda t: t.update(pre_tokenizer=[7]), "its pre-tokenizer ('[7]') splits"),
        (lambda t: t.update(decoder=None), "its decoder (none) does"),
        (lambda t: t.update(decoder={"type": "ByteLevel"}), "its decoder ('ByteLevel') does"),
        (lambda t: t["decoder"].update(decoders=[UNDO, FUSE]), "its decoder ('Replace', 'Fuse')"),
        (lambda t: t["decoder"]["decoders"].append({"type": "Strip"}), "'Strip') does more"),
        (remove("<0x7F>"), "it has no token '<0x7F>'"),
        (remove("<|turn>"), "it has no token '<|turn>'"),
        (mark_as_text("<turn|>"), "it does not mark the token '<turn|>' as special"),
        (remove("<bos>"), "has no bos token '<bos>'"),
        (lambda t: t["model"].update(vocab=[]), "no vocabulary"),
        (lambda t: t["model"].update(merges=[]), "no merges"),
        (lambda t: t["model"].pop("merges"), "no merges"),
        (lambda t: t["model"]["merges"].append(["he", "xyz"]), "'xyz' is not in its vocabulary"),
        (lambda t: t["model"]["merges"].append(["he", "he"]), "'hehe' is not in its vocabulary"),
        (add_newline_merge, "joins a newline with other text"),
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
def test_tokenizer_of_another_kind_or_with_errors_is_refused_by_its_difference(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], expected: str
) -> None:
    with pytest.raises(CheckpointError) as caught:
        read_vocab(write_tokenizer(tmp_path, change), tiny.VOCAB)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t["model"].update(merges=list(tiny.MERGES)),
        lambda t: t["model"].update(unk_token="<unk>", fuse_unk=True, ignore_merges=False),
        lambda t: t.update(normalizer={"type": "Sequence", "normalizers": [REPLACE]}),
        lambda t: t.update(pre_tokenizer=None),
        lambda t: t.update(pre_tokenizer=split(r"\n+")),
        lambda t: t["decoder"].update(decoders=[BYTES, FUSE, UNDO]),
        lambda t: t.update(post_processor={"type": "TemplateProcessing"}, truncation=None),
    ],
)
def test_other_spellings_of_the_same_scheme_give_the_same_vocabulary(
    tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    expected = read_vocab(write_tokenizer(tmp_path), tiny.VOCAB)
    assert read_vocab(write_tokenizer(tmp_path, change), tiny.VOCAB) == expected


@pytest.mark.parametrize(
    "settings",
    [
        {"eot_token": "<turn|>"},
        {"eot_token": {"content": "<turn|>"}},
        {"extra_special_tokens": {"eot_token": "<turn|>"}},
        {"additional_special_tokens": ["<turn|>"]},
    ],
)
def test_tokens_that_only_the_settings_call_special_are_control_tokens(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    vocab = read_vocab(write_tokenizer(tmp_path, mark_as_text("<turn|>"), settings), tiny.VOCAB)
    assert vocab.types[tiny.TOKENS.index("<turn|>")] == CONTROL


def write_generation_config(folder: Path, suppressed: object) -> Path:
    write_tokenizer(folder)
    (folder / "generation_config.json").write_text(json.dumps({"suppress_tokens": suppressed}))
    return folder


def test_suppressed_tokens_arrive_in_the_file(tmp_path: Path) -> None:
    tiny.write_target(tmp_path / "target")
    convert(tmp_path / "target", tmp_path / "without.gguf", quant="F16")
    assert "tokenizer.ggml.suppress_tokens" not in read_header(tmp_path / "without.gguf").metadata
    write_generation_config(tmp_path / "target", [tiny.VOCAB - 1, 0])
    convert(tmp_path / "target", tmp_path / "with.gguf", quant="F16")
    found = read_header(tmp_path / "with.gguf").metadata["tokenizer.ggml.suppress_tokens"]
    assert found == (tiny.VOCAB - 1, 0)


@pytest.mark.parametrize("suppressed", [None, []])
def test_no_suppressed_tokens_leave_no_key(tmp_path: Path, suppressed: object) -> None:
    vocab = read_vocab(write_generation_config(tmp_path, suppressed), tiny.VOCAB)
    assert "tokenizer.ggml.suppress_tokens" not in vocab.metadata()


@pytest.mark.parametrize("suppressed", [7, "7", [True], ["7"], [-1], [tiny.VOCAB], [1 << 40]])
def test_suppressed_tokens_that_the_model_lacks_are_refused(
    tmp_path: Path, suppressed: object
) -> None:
    with pytest.raises(CheckpointError, match=r"suppress_tokens in generation_config\.json"):
        read_vocab(write_generation_config(tmp_path, suppressed), tiny.VOCAB)


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


def test_the_default_of_several_templates_is_taken(tmp_path: Path) -> None:
    templates = [{"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}]
    folder = write_tokenizer(tmp_path, settings={"chat_template": templates})
    assert read_vocab(folder, tiny.VOCAB).chat_template == "b"


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
