"""tokenizer.json and its companions to GGUF's tokenizer keys.

Gemma 4 encodes with byte pairs on raw UTF-8: spaces become U+2581, text is split at newline runs
only, and characters without a token fall back to `<0xXX>` byte tokens. llama.cpp knows that scheme
as the tokenizer model "gemma4".
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import CheckpointError, quoted
from .gguf_values import (
    Metadata,
    boolean,
    float32_array,
    int32_array,
    is_text,
    string,
    string_array,
    uint32,
)
from .jsonfile import JsonObject, read_json

MAX_TOKENIZER_BYTES = 256 << 20
MAX_TEMPLATE_BYTES = 1 << 20

_NORMAL, _CONTROL, _USER_DEFINED, _BYTE = 1, 3, 4, 6
_SCORE = -1000.0  # Merge order decides, not scores; llama.cpp only wants one per token.
_BYTE_TOKEN = re.compile(r"<0x[0-9A-F]{2}>")
# Control tokens that a reader of the output must see to tell thoughts and tool calls apart.
_VISIBLE = frozenset(
    (
        "<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>",
        "<|tool_response>", "<tool_response|>", '<|"|>',
    )
)  # fmt: skip
_SPECIAL = {"bos": True, "eos": True, "unk": False, "pad": False, "mask": False}


@dataclass(frozen=True, slots=True)
class Vocab:
    """`tokens[i]` is the spelling of token i and `types[i]` its GGUF token type."""

    tokens: tuple[str, ...]
    types: tuple[int, ...]
    merges: tuple[str, ...]
    special_ids: dict[str, int]
    chat_template: str | None

    def metadata(self) -> Metadata:
        """The `tokenizer.*` keys."""
        keys: Metadata = {
            "tokenizer.ggml.model": string("gemma4"),
            "tokenizer.ggml.tokens": string_array(self.tokens),
            "tokenizer.ggml.scores": float32_array([_SCORE] * len(self.tokens)),
            "tokenizer.ggml.token_type": int32_array(self.types),
            "tokenizer.ggml.merges": string_array(self.merges),
        }
        names = {"unk": "unknown", "pad": "padding"}
        for kind, token in self.special_ids.items():
            keys[f"tokenizer.ggml.{names.get(kind, kind)}_token_id"] = uint32(token)
        keys["tokenizer.ggml.add_space_prefix"] = boolean(False)
        keys["tokenizer.ggml.add_bos_token"] = boolean(True)
        if self.chat_template is not None:
            keys["tokenizer.chat_template"] = string(self.chat_template)
        return keys


def read_vocab(folder: Path, size: int) -> Vocab:
    """The tokenizer in `folder`, which must have exactly `size` tokens.

    Raises CheckpointError when it is not of Gemma 4's kind or does not fit the model.
    """
    tokenizer = read_json(folder / "tokenizer.json", max_bytes=MAX_TOKENIZER_BYTES)
    settings_path = folder / "tokenizer_config.json"
    settings: JsonObject = {}
    if settings_path.is_file():
        settings = read_json(settings_path, max_bytes=MAX_TOKENIZER_BYTES)
    model = tokenizer.get("model")
    if (
        not isinstance(model, dict)
        or model.get("type") != "BPE"
        or model.get("byte_fallback") is not True
    ):
        raise CheckpointError(
            "tokenizer.json is not a byte-pair tokenizer with byte fallback, as Gemma 4 has."
        )
    added = tokenizer.get("added_tokens", [])
    ids = _token_ids(model.get("vocab"), added)
    tokens = _in_order(ids, size)
    specials = {entry["content"] for entry in added if entry.get("special")}
    # As llama.cpp's own converter has it: an added token that the base vocabulary knows is text.
    plain_added = {entry["content"] for entry in added} - specials - set(model["vocab"])
    return Vocab(
        tokens=tokens,
        types=tuple(_token_type(token, specials, plain_added) for token in tokens),
        merges=_merges(model.get("merges"), ids),
        special_ids=_special_ids(settings, ids),
        chat_template=_chat_template(folder, settings),
    )


def _token_ids(vocab: Any, added: Any) -> dict[str, int]:
    if not isinstance(vocab, dict) or not isinstance(added, list):
        raise CheckpointError("tokenizer.json has no vocabulary.")
    ids: dict[str, int] = dict(vocab)
    for entry in added:
        content = entry.get("content") if isinstance(entry, dict) else None
        index = entry.get("id") if isinstance(entry, dict) else None
        if not isinstance(content, str) or not isinstance(index, int):
            raise CheckpointError("tokenizer.json lists an added token without content or id.")
        if ids.setdefault(content, index) != index:
            raise CheckpointError(f"tokenizer.json gives the token {quoted(content)} two ids.")
    return ids


def _in_order(ids: dict[str, int], size: int) -> tuple[str, ...]:
    tokens: list[str | None] = [None] * size
    for token, index in ids.items():
        if type(index) is not int or not 0 <= index < size:
            raise CheckpointError(
                f"tokenizer.json gives token {quoted(token)} the id {quoted(index)}, "
                f"but the model has {size} tokens."
            )
        if tokens[index] is not None:
            raise CheckpointError(
                f"tokenizer.json gives the tokens {quoted(tokens[index])} and {quoted(token)} "
                f"the same id {index}."
            )
        if not token or "\0" in token or not is_text(token):
            raise CheckpointError(
                f"Token {index} in tokenizer.json is empty, holds a NUL or cannot be encoded."
            )
        tokens[index] = token
    # Rows of the embedding without a token still need a spelling of their own.
    return tuple(
        f"<unnamed{index}>" if token is None else token for index, token in enumerate(tokens)
    )


def _token_type(token: str, specials: set[str], plain_added: set[str]) -> int:
    if _BYTE_TOKEN.fullmatch(token):
        return _BYTE
    if token in _VISIBLE or token in plain_added:
        return _USER_DEFINED
    return _CONTROL if token in specials else _NORMAL


def _merges(merges: Any, ids: dict[str, int]) -> tuple[str, ...]:
    if not isinstance(merges, list) or not merges:
        raise CheckpointError("tokenizer.json has no merges.")
    lines: list[str] = []
    for merge in merges:
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or not all(isinstance(part, str) and part and " " not in part for part in pair)
            or pair[0] + pair[1] not in ids
        ):
            raise CheckpointError(f"tokenizer.json holds the impossible merge {quoted(merge)}.")
        lines.append(f"{pair[0]} {pair[1]}")
    return tuple(lines)


def _special_ids(settings: JsonObject, ids: dict[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for kind, required in _SPECIAL.items():
        entry = settings.get(f"{kind}_token", f"<{kind}>")
        token = entry.get("content") if isinstance(entry, dict) else entry
        if isinstance(token, str) and token in ids:
            found[kind] = ids[token]
        elif required:
            raise CheckpointError(f"The tokenizer has no {kind} token {quoted(token)}.")
    return found


def _chat_template(folder: Path, settings: JsonObject) -> str | None:
    path = folder / "chat_template.jinja"
    if path.is_file():
        try:
            with path.open("rb") as file:
                data = file.read(MAX_TEMPLATE_BYTES + 1)
            template: Any = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise CheckpointError("chat_template.jinja is not UTF-8.") from error
        except OSError as error:
            reason = error.strerror or error
            raise CheckpointError(f"chat_template.jinja cannot be read: {reason}.") from error
    else:
        template = settings.get("chat_template")
    if template is None:
        return None
    if not isinstance(template, str) or len(template) > MAX_TEMPLATE_BYTES or not is_text(template):
        raise CheckpointError("The chat template is not a text of acceptable length.")
    return template
