"""The check that every model file passes before native code sees it.

`read_header` proves that a file is an intact GGUF file; `check_pair` that a target and a drafter
are Gemma 4 models that llama.cpp can run, and that they belong together.
"""

from __future__ import annotations

import re

from gemmachat.errors import DamagedFileError, PairMismatchError
from gemmachat.gguf_header import read_header
from gemmachat.gguf_model import DRAFTER, LOOKALIKES, TARGET, Keys, ModelShape, read_shape
from gemmachat.gguf_tensors import check_tensors
from gemmachat.gguf_types import ArrayInfo, GgufInfo, TensorInfo, quoted
from gemmachat.gguf_vocab import TOKENS, check_centroid_head, check_vocab, suppressed_tokens

_PART = re.compile(r"-\d{5}-of-(\d{5})\.gguf$", re.IGNORECASE)  # as llama-gguf-split names them

__all__ = [
    "ArrayInfo",
    "GgufInfo",
    "ModelShape",
    "TensorInfo",
    "check_pair",
    "read_header",
    "suppressed_tokens",
    "validate_drafter",
    "validate_target",
]


def validate_target(info: GgufInfo) -> ModelShape:
    """The shape of a target that can be run; raises DamagedFileError for any other file."""
    if info.architecture == DRAFTER:
        raise PairMismatchError(
            f"{quoted(info.path)} is a drafter and cannot run alone: give its target as the model."
        )
    _check_family(info, TARGET)
    shape = read_shape(info)
    check_tensors(info, shape)
    check_vocab(info, shape)
    return shape


def validate_drafter(info: GgufInfo) -> ModelShape:
    """The shape of a drafter that can be run; raises DamagedFileError for any other file."""
    if info.architecture == TARGET:
        raise PairMismatchError(
            f"{quoted(info.path)} is a target, not a drafter: "
            "give the drafter that was made for the model."
        )
    _check_family(info, DRAFTER)
    shape = read_shape(info)
    check_tensors(info, shape)
    check_vocab(info, shape)
    check_centroid_head(info, shape)
    return shape


def check_pair(target: GgufInfo, drafter: GgufInfo | None) -> None:
    """Check a target, and a drafter with it where there is one.

    Raises DamagedFileError when a file cannot be run, PairMismatchError when the two do not belong
    together.
    """
    if drafter is not None and (target.architecture, drafter.architecture) == (DRAFTER, TARGET):
        raise PairMismatchError(
            f"{quoted(target.path)} is the drafter and {quoted(drafter.path)} the target: "
            "the two look swapped."
        )
    target_shape = validate_target(target)
    if drafter is not None:
        _check_agreement(target, target_shape, drafter, validate_drafter(drafter))


def _check_family(info: GgufInfo, expected: str) -> None:
    _check_whole(info)
    name = info.architecture
    if name in LOOKALIKES:
        raise DamagedFileError(
            f"{quoted(info.path)} is a drafter of the kind {quoted(name)}, made for another "
            f"program: get or convert one of the kind {quoted(DRAFTER)}."
        )
    if name != expected:
        kind = f"a {quoted(name)} model" if name else "a file without general.architecture"
        raise DamagedFileError(f"{quoted(info.path)} is {kind}, not a Gemma 4 model.")
    Keys(info).text("general.architecture")


def _check_whole(info: GgufInfo) -> None:
    """Refuse a part of a split model. Parts after the first do not say what model they are of."""
    named = None if info.architecture else _PART.search(info.path.name)
    parts = info.metadata.get("split.count", int(named[1]) if named else 1)
    if not isinstance(parts, int) or parts > 1:
        count = parts if isinstance(parts, int) else "several"
        raise DamagedFileError(
            f"{quoted(info.path)} is one of {count} parts of a model (split.count): join them with "
            "llama-gguf-split --merge first, or get a file that is whole."
        )


def _check_agreement(
    target: GgufInfo, target_shape: ModelShape, drafter: GgufInfo, drafter_shape: ModelShape
) -> None:
    layers = target_shape.layers
    comparisons = [
        ("hidden width", target_shape.hidden, drafter_shape.backbone),
        ("number of tokens", target_shape.vocab, drafter_shape.vocab),
        ("sliding window", target_shape.window, drafter_shape.window),
        ("full head width", target_shape.head_dim_full, drafter_shape.head_dim_full),
        ("sliding head width", target_shape.head_dim_sliding, drafter_shape.head_dim_sliding),
    ]
    for layer, is_sliding in enumerate(drafter_shape.sliding):
        # The drafter attends to the keys and values of the target's last two layers.
        source = layers - 2 if is_sliding else layers - 1
        comparisons.append(
            (
                f"number of key-value heads in drafter layer {layer}",
                target_shape.kv_heads[source],
                drafter_shape.kv_heads[layer],
            )
        )
    for what, of_target, of_drafter in comparisons:
        if of_target != of_drafter:
            raise _mismatch(target, drafter, f"{what} {of_target} against {of_drafter}")
    if _token_bytes(target) != _token_bytes(drafter):
        raise _mismatch(target, drafter, "different tokens")


def _mismatch(target: GgufInfo, drafter: GgufInfo, difference: str) -> PairMismatchError:
    return PairMismatchError(
        f"{quoted(drafter.path)} is a drafter for another model than {quoted(target.path)} "
        f"({difference}): use the drafter that was made for this one."
    )


def _token_bytes(info: GgufInfo) -> object:
    tokens = info.metadata[TOKENS]
    return tokens.raw() if isinstance(tokens, ArrayInfo) else tokens
