"""Whether the tokenizer and the centroid head in a file's metadata can be used as they are."""

from __future__ import annotations

import re
from itertools import compress
from typing import TYPE_CHECKING

from gemmachat.gguf_model import Keys
from gemmachat.gguf_types import ArrayInfo, quoted

if TYPE_CHECKING:
    from .errors import DamagedFileError
    from .gguf_model import ModelShape
    from .gguf_types import GgufInfo

TOKENS = "tokenizer.ggml.tokens"

_SUPPRESSED = "tokenizer.ggml.suppress_tokens"
_BYTE_TYPE = 6
_BYTE_TOKEN = re.compile(rb"<0x[0-9A-F]{2}>")
_CENTROID_HEAD = "masked_embedding."


def check_vocab(info: GgufInfo, shape: ModelShape) -> None:
    """Raise DamagedFileError when llama.cpp could not load or use the tokenizer."""
    keys = Keys(info)
    kind = keys.text("tokenizer.ggml.model")
    if kind != "gemma4":
        raise keys.damaged(f"has a tokenizer of kind {quoted(kind)}, not that of Gemma 4")
    listed = keys.array(TOKENS, "str")
    types = keys.array("tokenizer.ggml.token_type", "i32")
    scores = keys.array("tokenizer.ggml.scores", "f32", "i32")
    merges = keys.array("tokenizer.ggml.merges", "str")
    for name, length in (
        ("tokens", _length(listed)), ("token types", _length(types)), ("scores", _length(scores)),
    ):  # fmt: skip
        if length != shape.vocab:
            raise keys.damaged(f"has {length} {name} for an embedding of {shape.vocab} rows")
    tokens = _strings(listed)
    if not _length(merges):
        raise keys.damaged("has no merges, so it cannot encode text")
    _check_spellings(keys, tokens, _numbers(types))
    for name, required in (("bos", True), ("eos", True), ("unknown", False), ("padding", False)):
        key = f"tokenizer.ggml.{name}_token_id"
        if required or keys.has(key):
            keys.count(key, minimum=0, limit=shape.vocab - 1)
    suppressed_tokens(info)


def suppressed_tokens(info: GgufInfo) -> tuple[int, ...]:
    """The tokens that must never be drawn. Raises DamagedFileError where they cannot be tokens."""
    keys = Keys(info)
    if not keys.has(_SUPPRESSED):
        return ()
    size = _length(keys.array(TOKENS, "str"))
    listed = keys.array(_SUPPRESSED, "i32", "u32")
    if _length(listed) > size:
        raise keys.damaged(f"suppresses {_length(listed)} tokens, but has {size}")
    tokens = tuple(int(str(token)) for token in _numbers(listed))
    if not all(0 <= token < size for token in tokens):
        raise keys.damaged(f"suppresses a token that is not among its {size}")
    return tokens


def check_centroid_head(info: GgufInfo, shape: ModelShape) -> None:
    """Raise DamagedFileError when a drafter's centroid head, if it has one, is inconsistent."""
    keys = Keys(info)
    if not any(key.startswith(f"{info.architecture}.{_CENTROID_HEAD}") for key in info.metadata):
        return
    count = keys.count(_CENTROID_HEAD + "centroid_count", limit=shape.vocab)
    keys.count(_CENTROID_HEAD + "centroid_top_k", limit=count)
    centroids = _length(keys.array(_CENTROID_HEAD + "centroids", "f32"))
    ordering = keys.array(_CENTROID_HEAD + "token_ordering", "i32")
    if shape.vocab % count or centroids != count * shape.hidden:
        raise keys.damaged(
            f"has a centroid head of {count} rows and {centroids} elements, which does not fit "
            f"{shape.vocab} tokens of width {shape.hidden}"
        )
    if _length(ordering) != shape.vocab or set(_numbers(ordering)) != set(range(shape.vocab)):
        raise keys.damaged("does not assign every token to exactly one centroid")


def _check_spellings(keys: Keys, tokens: list[bytes], types: tuple[object, ...]) -> None:
    if b"" in tokens:
        # llama.cpp gives an empty token this spelling, which must be free.
        tokens = [token or b"[EMPTY_%d]" % index for index, token in enumerate(tokens)]
    if len(set(tokens)) != len(tokens):
        raise _duplicate(keys, tokens)
    # All at once first: that is done in C.
    if b"\0" in b"".join(tokens):
        # llama.cpp would cut the spelling there, and dies of the doubles that this can make.
        index = next(index for index, token in enumerate(tokens) if b"\0" in token)
        raise keys.damaged(f"has a NUL character inside token {index}")
    try:
        b"\n".join(tokens).decode("utf-8")
    except UnicodeDecodeError:
        raise keys.damaged("has a token that is not UTF-8") from None
    for token in compress(tokens, map(_BYTE_TYPE.__eq__, types)):
        if not _BYTE_TOKEN.fullmatch(token):
            spelled = quoted(token.decode("utf-8", "replace"))
            raise keys.damaged(f"marks the token {spelled} as a byte, which it does not spell")


def _duplicate(keys: Keys, tokens: list[bytes]) -> DamagedFileError:
    first: dict[bytes, int] = {}
    index = next(i for i, token in enumerate(tokens) if first.setdefault(token, i) != i)
    spelled = quoted(tokens[index].decode("utf-8", "replace"))
    return keys.damaged(f"spells the tokens {first[tokens[index]]} and {index} both {spelled}")


def _length(array: ArrayInfo | tuple[object, ...]) -> int:
    return array.length if isinstance(array, ArrayInfo) else len(array)


def _strings(array: ArrayInfo | tuple[object, ...]) -> list[bytes]:
    if isinstance(array, ArrayInfo):
        return array.strings()
    return [str(item).encode("utf-8") for item in array]


def _numbers(array: ArrayInfo | tuple[object, ...]) -> tuple[object, ...]:
    return array.numbers() if isinstance(array, ArrayInfo) else array
