"""tokenizer.json and its companions to GGUF's tokenizer keys.

tokenizer.json holds tokens and merges, tokenizer_config.json names the special tokens, the chat
template is in chat_template.jinja or in tokenizer_config.json, and generation_config.json may list
tokens that must never be generated.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import CheckpointError, quoted
from .files import is_there, opened
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
from .scheme import check_scheme

MAX_TOKENIZER_BYTES = 256 << 20
MAX_TEMPLATE_BYTES = 1 << 20

_NORMAL, _CONTROL, _USER_DEFINED, _BYTE = 1, 3, 4, 6
_SCORE = -1000.0  # Merge order decides, not scores; llama.cpp only wants one per token.
_BYTE_TOKEN = re.compile(r"<0x[0-9A-F]{2}>")
_BYTE_TOKENS = tuple(f"<0x{byte:02X}>" for byte in range(256))
# The turns of a conversation stand between these.
_TURN_MARKERS = ("<|turn>", "<turn|>")
# Control tokens that a reader of the output must see to tell thoughts and tool calls apart.
_VISIBLE = frozenset(
    (
        "<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>",
        "<|tool_response>", "<tool_response|>", '<|"|>',
    )
)  # fmt: skip
_SPECIAL_KINDS = {"bos": True, "eos": True, "unk": False, "pad": False, "mask": False}


@dataclass(frozen=True, slots=True)
class Vocab:
    """`tokens[i]` is the spelling of token i and `types[i]` its GGUF token type.

    `suppressed` are the ids of tokens that must never be generated.
    """

    tokens: tuple[str, ...]
    types: tuple[int, ...]
    merges: tuple[str, ...]
    special_ids: dict[str, int]
    chat_template: str | None
    suppressed: tuple[int, ...]

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
        if self.suppressed:
            keys["tokenizer.ggml.suppress_tokens"] = int32_array(self.suppressed)
        if self.chat_template is not None:
            keys["tokenizer.chat_template"] = string(self.chat_template)
        return keys


def read_vocab(folder: Path, size: int) -> Vocab:
    """The tokenizer in `folder`, for a model of `size` tokens.

    Raises CheckpointError when it is not of Gemma 4's kind or does not fit the model.
    """
    tokenizer = read_json(folder / "tokenizer.json", max_bytes=MAX_TOKENIZER_BYTES)
    settings = _read_optional(folder / "tokenizer_config.json")
    generation = _read_optional(folder / "generation_config.json")
    check_scheme(tokenizer)
    model, added = tokenizer["model"], tokenizer.get("added_tokens", [])
    ids = _token_ids(model.get("vocab"), added)
    tokens = _in_order(ids, size)
    specials = _special_tokens(added, settings)
    _check_structure(ids, specials)
    # As llama.cpp's own converter has it: an added token that the base vocabulary knows is text.
    plain_added = {entry["content"] for entry in added} - specials - set(model["vocab"])
    return Vocab(
        tokens=tokens,
        types=tuple(_token_type(token, specials, plain_added) for token in tokens),
        merges=_merges(model.get("merges"), ids),
        special_ids=_special_ids(settings, ids),
        chat_template=_chat_template(folder, settings),
        suppressed=_suppressed(generation, size),
    )


def _read_optional(path: Path) -> JsonObject:
    return read_json(path, max_bytes=MAX_TOKENIZER_BYTES) if is_there(path) else {}


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


def _special_tokens(added: list[JsonObject], settings: JsonObject) -> set[str]:
    """Spellings of the tokens that are structure, not text: marked so, or named in the settings."""
    named = [value for key, value in settings.items() if key.endswith("_token")]
    for key in ("extra_special_tokens", "additional_special_tokens"):
        more = settings.get(key)
        named += more.values() if isinstance(more, dict) else more if isinstance(more, list) else ()
    marked = {entry["content"] for entry in added if entry.get("special")}
    return marked | {spelling for spelling in map(_spelling, named) if spelling}


def _spelling(entry: Any) -> str | None:
    """The settings spell a token directly or within an object."""
    spelling = entry.get("content") if isinstance(entry, dict) else entry
    return spelling if isinstance(spelling, str) else None


def _check_structure(ids: dict[str, int], specials: set[str]) -> None:
    for token in (*_BYTE_TOKENS, *_TURN_MARKERS):
        if token not in ids:
            raise CheckpointError(
                f"tokenizer.json is not of Gemma 4's kind: it has no token {quoted(token)}."
            )
    for token in _TURN_MARKERS:
        if token not in specials:
            raise CheckpointError(
                f"tokenizer.json is not of Gemma 4's kind: "
                f"it does not mark the token {quoted(token)} as special."
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
        if not _is_pair(pair):
            raise CheckpointError(f"tokenizer.json holds the impossible merge {quoted(merge)}.")
        left, right = pair
        line, whole = f"{left} {right}", left + right
        if left not in ids or right not in ids or whole not in ids:
            unknown = next(part for part in (left, right, whole) if part not in ids)
            raise CheckpointError(
                f"tokenizer.json holds the merge {quoted(line)}, "
                f"but {quoted(unknown)} is not in its vocabulary."
            )
        # llama.cpp splits text at newlines before it merges.
        if "\n" in whole and whole.strip("\n"):
            raise CheckpointError(
                f"tokenizer.json is not of Gemma 4's kind: its merge {quoted(line)} "
                "joins a newline with other text."
            )
        lines.append(line)
    return tuple(lines)


def _is_pair(pair: Any) -> bool:
    if not isinstance(pair, list) or len(pair) != 2:
        return False
    left, right = pair
    if not isinstance(left, str) or not isinstance(right, str) or not left or not right:
        return False
    return " " not in left and " " not in right


def _special_ids(settings: JsonObject, ids: dict[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for kind, required in _SPECIAL_KINDS.items():
        token = _spelling(settings.get(f"{kind}_token", f"<{kind}>"))
        if token in ids:
            found[kind] = ids[token]
        elif required:
            raise CheckpointError(f"The tokenizer has no {kind} token {quoted(token)}.")
    return found


def _suppressed(generation: JsonObject, size: int) -> tuple[int, ...]:
    listed = generation.get("suppress_tokens")
    if listed is None:
        return ()
    if not isinstance(listed, list):
        raise CheckpointError("suppress_tokens in generation_config.json is not a list.")
    for index in listed:
        if type(index) is not int or not 0 <= index < size:
            raise CheckpointError(
                f"suppress_tokens in generation_config.json names the token {quoted(index)}, "
                f"but the model has the tokens 0 to {size - 1}."
            )
    return tuple(listed)


def _chat_template(folder: Path, settings: JsonObject) -> str | None:
    path = folder / "chat_template.jinja"
    if is_there(path):
        with opened(path) as file:
            data = file.read(MAX_TEMPLATE_BYTES + 1)
        try:
            template: Any = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise CheckpointError("chat_template.jinja is not UTF-8.") from error
    else:
        template = _default_template(settings.get("chat_template"))
    if template is None:
        return None
    if not isinstance(template, str) or len(template) > MAX_TEMPLATE_BYTES or not is_text(template):
        raise CheckpointError("The chat template is not a text of acceptable length.")
    return template


def _default_template(template: Any) -> Any:
    """Settings may hold one template or a list of named ones."""
    if not isinstance(template, list):
        return template
    named = {
        str(entry.get("name")): entry.get("template")
        for entry in template
        if isinstance(entry, dict)
    }
    return named.get("default")
