"""Is a tokenizer.json of Gemma 4's kind? llama.cpp's tokenizer "gemma4" has that scheme built in.

Text goes through four steps: spaces become U+2581; nothing is split, or only newline runs, which no
merge crosses; byte pairs merge on characters; what has no token falls back to byte tokens. A file
that differs in any of them would be encoded wrongly, so it is refused.
"""

from collections.abc import Iterator
from typing import Any

from .errors import CheckpointError, quoted
from .jsonfile import JsonObject

SPACE = "\u2581"

_BLANKS = ({"String": " "}, {"Regex": " "})
_NEWLINE_RUNS = tuple({"Regex": regex} for regex in (r"\n+", r"[\n]+", "\n+", "[\n]+"))
_DECODERS = ("Replace", "ByteFallback", "Fuse")


def check_scheme(tokenizer: JsonObject) -> None:
    """Raises CheckpointError, naming the first difference, when the scheme is not Gemma 4's."""
    difference = next(_differences(tokenizer), None)
    if difference is not None:
        raise CheckpointError(f"tokenizer.json is not of Gemma 4's kind: {difference}.")


def _differences(tokenizer: JsonObject) -> Iterator[str]:
    model = tokenizer.get("model")
    if not isinstance(model, dict):
        yield "it holds no model"
        return
    yield from _model_differences(model)
    steps = _steps(tokenizer, "normalizer", "normalizers")
    if [_replacement(step) for step in steps] != [(" ", SPACE)]:
        yield f"its normalizer ({_names(steps)}) is not the replacement of spaces by U+2581"
    steps = _steps(tokenizer, "pre_tokenizer", "pretokenizers")
    if not all(_keeps_lines_whole(step) for step in steps):
        yield f"its pre-tokenizer ({_names(steps)}) splits text elsewhere than at newline runs"
    steps = _steps(tokenizer, "decoder", "decoders")
    kinds = [step.get("type") for step in steps]
    replacements = [_replacement(step) for step in steps if step.get("type") == "Replace"]
    if (
        replacements != [(SPACE, " ")]
        or "ByteFallback" not in kinds
        or any(kind not in _DECODERS for kind in kinds)
    ):
        yield f"its decoder ({_names(steps)}) does more or less than undo U+2581 and byte tokens"


def _model_differences(model: JsonObject) -> Iterator[str]:
    if model.get("type") != "BPE":
        yield f"its model is {quoted(model.get('type'))}, not byte pairs ('BPE')"
    if model.get("byte_fallback") is not True:
        yield "it has no byte fallback"
    unknown, vocab = model.get("unk_token"), model.get("vocab")
    if unknown is not None and isinstance(vocab, dict) and str(unknown) not in vocab:
        yield f"its unknown token {quoted(unknown)} is not in its vocabulary"
    if model.get("dropout"):
        yield "it leaves out merges at random ('dropout')"
    if model.get("ignore_merges"):
        yield "it looks up whole lines before it merges ('ignore_merges')"
    for key in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(key):
            yield f"it marks parts of words ({quoted(key)})"


def _steps(tokenizer: JsonObject, key: str, parts: str) -> list[JsonObject]:
    """The steps of one stage: none, one, or those of a sequence."""
    stage = tokenizer.get(key)
    if stage is None:
        return []
    steps = (
        stage.get(parts) if isinstance(stage, dict) and stage.get("type") == "Sequence" else None
    )
    listed = steps if isinstance(steps, list) else [stage]
    return [step if isinstance(step, dict) else {"type": step} for step in listed]


def _replacement(step: JsonObject) -> tuple[Any, Any] | None:
    """What a step replaces by what, when it replaces a fixed text."""
    pattern = step.get("pattern")
    if step.get("type") != "Replace" or not isinstance(pattern, dict) or len(pattern) != 1:
        return None
    # As a regular expression, neither a space nor U+2581 means anything but itself.
    return next(iter(pattern.values())), step.get("content")


def _keeps_lines_whole(step: JsonObject) -> bool:
    if step.get("type") != "Split" or step.get("invert"):
        return False
    # The normalizer has left no blank to split at.
    if step.get("pattern") in _BLANKS:
        return True
    return step.get("pattern") in _NEWLINE_RUNS and step.get("behavior") == "Isolated"


def _names(steps: list[JsonObject]) -> str:
    return ", ".join(quoted(step.get("type")) for step in steps) or "none"
