"""Whether a drafter belongs to its target: it reads the target's keys, values and embeddings."""

import numpy as np

from .errors import CheckpointError
from .hparams import DRAFTER_ARCH, TARGET_ARCH
from .names import ROPE_FREQS
from .source import Source

_TOKENS = "tokenizer.ggml.tokens"
_SAME = {
    "attention.key_length": "width of the heads of full attention",
    "attention.key_length_swa": "width of the heads of sliding attention",
    "attention.sliding_window": "sliding window",
    "rope.freq_base": "rotary base of full attention",
    "rope.freq_base_swa": "rotary base of sliding attention",
}


def check_pair(target: Source, drafter: Source) -> None:
    """Raises CheckpointError, naming the difference, when the two do not fit together."""
    if target.drafter:
        raise CheckpointError(
            "SRC must be a Gemma 4 model that a drafter can serve, not a drafter."
        )
    if not drafter.drafter:
        raise CheckpointError("--drafter must be a Gemma 4 assistant, not a model of its own.")
    backbone, hidden = _number(drafter, "embedding_length_out"), _number(target, "embedding_length")
    if backbone != hidden:
        raise _mismatch("hidden width", backbone, hidden)
    for key, what in _SAME.items():
        found, expected = _number(drafter, key), _number(target, key)
        if found != expected:
            raise _mismatch(what, found, expected)
    _check_heads(target, drafter)
    if _rope_freqs(drafter) != _rope_freqs(target):
        raise _unlike("turns other elements of a head in full attention")
    if drafter.metadata.get(_TOKENS) is None or (
        drafter.metadata[_TOKENS] != target.metadata.get(_TOKENS)
    ):
        raise _unlike("has other tokens")


def _check_heads(target: Source, drafter: Source) -> None:
    shared = int(_number(target, "attention.shared_kv_layers"))
    heads = _key_value_heads(target)
    # The drafter attends to the target's last layers of each kind that own keys and values.
    sources = dict(heads[: len(heads) - shared][-2:])
    for sliding, found in _key_value_heads(drafter):
        kind = "sliding" if sliding else "full"
        if sliding not in sources:
            raise CheckpointError(f"The target has no {kind} attention that a drafter could read.")
        if found != sources[sliding]:
            what = f"number of key-value heads in {kind} attention"
            raise _mismatch(what, found, sources[sliding])


def _key_value_heads(source: Source) -> list[tuple[bool, int]]:
    """(is sliding, key-value heads) of every layer."""
    sliding = _numbers(source, "attention.sliding_window_pattern")
    heads = _numbers(source, "attention.head_count_kv")
    if len(heads) == 1:
        heads *= len(sliding)
    if len(heads) != len(sliding):
        raise CheckpointError(
            f"The {_role(source)} counts key-value heads of {len(heads)} layers and has "
            f"{len(sliding)}."
        )
    return [(bool(kind), int(count)) for kind, count in zip(sliding, heads, strict=True)]


def _number(source: Source, key: str) -> float:
    return _numbers(source, key)[0]


def _numbers(source: Source, key: str) -> list[float]:
    arch = DRAFTER_ARCH if source.drafter else TARGET_ARCH
    value = source.metadata.get(f"{arch}.{key}")
    numbers = value.numbers() if value else []
    if not numbers or not np.isfinite(numbers).all():
        raise CheckpointError(f"The {_role(source)} lacks the number {arch}.{key}.")
    return numbers


def _rope_freqs(source: Source) -> bytes:
    if ROPE_FREQS in source.computed:
        return source.computed[ROPE_FREQS].tobytes()
    return source.tensors[ROPE_FREQS].floats().tobytes() if ROPE_FREQS in source.tensors else b""


def _role(source: Source) -> str:
    return "drafter" if source.drafter else "target"


def _mismatch(what: str, found: float, expected: float) -> CheckpointError:
    return CheckpointError(
        f"The drafter's {what} is {found:g} and its target's is {expected:g}: "
        "give the assistant of the same model."
    )


def _unlike(what: str) -> CheckpointError:
    return CheckpointError(
        f"The drafter {what} than its target: give the assistant of the same model."
    )
