"""The real vocabulary of Gemma 4, and texts with the ids that they must get.

llama.cpp keeps both beside its source: a GGUF file without tensors, made from the 26B-A4B
checkpoint, and two text files. Two chat templates of larger models come with them. They are too big
to commit, or not ours, so they come out of the source distribution of llama-cpp-python that is
installed: pip fetches it through the index that it is set up for, once, and the files stay in
`.cache`. The environment variable GEMMACHAT_REAL_VOCAB
names a folder that holds them already.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tiny_checkpoint import tokenizer_scheme

from gemmachat.gguf_info import ArrayInfo, read_header

CACHE = Path(__file__).parents[1] / ".cache" / "real-vocab"
VARIABLE = "GEMMACHAT_REAL_VOCAB"
SIZE = 262144
GGUF, INPUTS, OUTPUTS = (f"ggml-vocab-gemma-4.gguf{end}" for end in ("", ".inp", ".out"))
TEMPLATE, INTERLEAVED = (f"google-gemma-4-31B-it{end}.jinja" for end in ("", "-interleaved"))
SHA256 = {
    GGUF: "58b1ba0b57f3b4d7c468ba4ffd91ad85190346a3d7ad7e71d1cabaae8a14bb65",
    INPUTS: "0528aa007b06965f980181d252b5dff7bb170a77af6157bd48bba56885374448",
    OUTPUTS: "ba8c596bcd05e97e62566fa994b42eeaeffd6a4e4b4a4abe7b5b689aa6b43bf3",
    TEMPLATE: "85a08664d16d8f3be4416c92427b3ac10df1024ac566cc0b4bc3bab409393f98",
    INTERLEAVED: "65f93a25708c952457106a30e185ba7beffddd726121c8d7e3f3e08b23c16c67",
}
NORMAL, CONTROL, USER_DEFINED, BYTE = 1, 3, 4, 6
_SEPARATOR = "\n__ggml_vocab_test__\n"


@dataclass(frozen=True)
class RealVocab:
    """`metadata` is what the GGUF file says, its arrays of tokens, types and merges read out."""

    metadata: dict[str, Any]
    vectors: list[tuple[str, list[int]]]
    templates: dict[str, str]
    """Sources of chat templates by a short name; that of the vocabulary's own file is "own"."""

    @property
    def tokens(self) -> list[str]:
        return self.metadata["tokenizer.ggml.tokens"]

    @property
    def types(self) -> list[int]:
        return self.metadata["tokenizer.ggml.token_type"]

    @property
    def merges(self) -> list[str]:
        return self.metadata["tokenizer.ggml.merges"]

    def spellings(self, *types: int) -> list[str]:
        """The tokens of the given types."""
        found = zip(self.tokens, self.types, strict=True)
        return [token for token, kind in found if kind in types]

    def write_tokenizer(self, folder: Path) -> None:
        """What a checkpoint's folder holds of its tokenizer."""
        folder.mkdir(parents=True, exist_ok=True)
        files = {
            "tokenizer.json": json.dumps(self._tokenizer_json(), ensure_ascii=False),
            "tokenizer_config.json": json.dumps(_SETTINGS),
            "chat_template.jinja": self.metadata["tokenizer.chat_template"],
        }
        for name, text in files.items():
            (folder / name).write_bytes(text.encode())

    def _tokenizer_json(self) -> dict[str, Any]:
        special = set(self.spellings(CONTROL, USER_DEFINED))
        plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
        return {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [
                {"id": index, "content": token, **plain, "special": True}
                for index, token in enumerate(self.tokens)
                if token in special
            ],
            **tokenizer_scheme(),
            "post_processor": None,
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": "<unk>",
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": True,
                "byte_fallback": True,
                "ignore_merges": False,
                "vocab": {token: index for index, token in enumerate(self.tokens)},
                "merges": [merge.split(" ") for merge in self.merges],
            },
        }


_SETTINGS = {
    "tokenizer_class": "GemmaTokenizer",
    "bos_token": "<bos>",
    "eos_token": "<eos>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
    "mask_token": "<mask>",
    "extra_special_tokens": {"sot_token": "<|turn>", "eot_token": "<turn|>"},
}


def real_vocab() -> RealVocab:
    """The vocabulary. Skips the test that asks when nothing holds or reaches it."""
    found = _find()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@functools.cache
def _find() -> RealVocab | str:
    named = os.environ.get(VARIABLE)
    if named is None and not all((CACHE / name).is_file() for name in SHA256):
        problem = _fetch()
        if problem is not None:
            return f"the real vocabulary is out of reach: {problem}"
    return _read(CACHE if named is None else Path(named))


def _fetch() -> str | None:
    """Fills the cache; returns what stood in the way."""
    release = f"llama-cpp-python=={importlib.metadata.version('llama-cpp-python')}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        # Without isolation pip needs no build tools of its own to read the release's metadata.
        options = ("--no-deps", "--no-build-isolation", "--no-binary=llama-cpp-python")
        quiet = ("--disable-pip-version-check", "--retries=1")
        command = (sys.executable, "-m", "pip", "download", *options, *quiet, release)
        try:
            run = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=600, check=False
            )
        except subprocess.TimeoutExpired:
            return f"pip took too long to download {release}"
        archives = list(Path(folder).glob("*.tar.gz"))
        if run.returncode or not archives:
            lines = run.stderr.strip().splitlines() or ["no reason given"]
            return f"pip cannot download {release} ({lines[-1]})"
        with tarfile.open(archives[0]) as archive:
            for member in archive:
                name = member.name.rsplit("/", 1)[-1]
                content = archive.extractfile(member) if name in SHA256 else None
                if content is not None:
                    part = Path(folder, name)
                    part.write_bytes(content.read())
                    part.replace(CACHE / name)
    return None


def _read(folder: Path) -> RealVocab:
    for name, digest in SHA256.items():
        found = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        assert found == digest, f"{folder / name} is not the file that these tests are about"
    metadata = {key: _values(value) for key, value in read_header(folder / GGUF).metadata.items()}
    texts = (folder / INPUTS).read_bytes().decode().split(_SEPARATOR)
    lines = (folder / OUTPUTS).read_bytes().decode().splitlines()
    vectors = [
        (text, [int(number) for number in line.split()])
        for text, line in zip(texts, lines, strict=True)
    ]
    templates = {
        "own": metadata["tokenizer.chat_template"],
        "31b": (folder / TEMPLATE).read_bytes().decode(),
        "interleaved": (folder / INTERLEAVED).read_bytes().decode(),
    }
    return RealVocab(metadata, vectors, templates)


def _values(value: object) -> object:
    if not isinstance(value, ArrayInfo):
        return list(value) if isinstance(value, tuple) else value
    if value.item_type == "str":
        return [item.decode() for item in value.strings()]
    return list(value.numbers())
