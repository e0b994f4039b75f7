"""Whether a drafter belongs to its target: it reads the target's keys, values and embeddings."""

from .errors import CheckpointError
from .gguf_values import Metadata
from .hparams import DRAFTER_ARCH, TARGET_ARCH

_TOKENS = "tokenizer.ggml.tokens"
_SAME = {
    "attention.key_length": "width of the heads of full attention",
    "attention.key_length_swa": "width of the heads of sliding attention",
    "attention.sliding_window": "sliding window",
    "rope.freq_base": "rotary base of full attention",
    "rope.freq_base_swa": "rotary base of sliding attention",
}


def check_pair(target: Metadata, drafter: Metadata) -> None:
    """Raises CheckpointError, naming the difference, when the two do not fit together."""
    if f"{TARGET_ARCH}.block_count" not in target:
        raise CheckpointError(
            "SRC must be a Gemma 4 model that a drafter can serve, not a drafter."
        )
    if f"{DRAFTER_ARCH}.block_count" not in drafter:
        raise CheckpointError("--drafter must be a Gemma 4 assistant, not a model of its own.")
    backbone = _number(drafter, "embedding_length_out")
    hidden = _number(target, "embedding_length")
    if backbone != hidden:
        raise _mismatch("hidden width", backbone, hidden)
    if drafter.get(_TOKENS) != target.get(_TOKENS):
        raise CheckpointError(
            "The drafter has other tokens than its target: give the assistant of the same model."
        )
    for key, what in _SAME.items():
        expected, found = _number(target, key), _number(drafter, key)
        if expected != found:
            raise _mismatch(what, found, expected)
    for sliding, key_values in _key_value_heads(drafter):
        source = dict(_sources(target))[sliding]
        if key_values != source:
            kind = "sliding" if sliding else "full"
            raise _mismatch(f"number of key-value heads in {kind} attention", key_values, source)


def _sources(target: Metadata) -> list[tuple[bool, int]]:
    """(is sliding, key-value heads) of the last two layers that own keys and values."""
    shared = _number(target, "attention.shared_kv_layers")
    heads = _key_value_heads(target)
    return heads[: len(heads) - int(shared)][-2:]


def _key_value_heads(metadata: Metadata) -> list[tuple[bool, int]]:
    """(is sliding, key-value heads) of every layer."""
    sliding = _numbers(metadata, "attention.sliding_window_pattern")
    heads = _numbers(metadata, "attention.head_count_kv")
    if len(heads) == 1:
        heads *= len(sliding)
    return [(bool(kind), int(count)) for kind, count in zip(sliding, heads, strict=True)]


def _number(metadata: Metadata, key: str) -> float:
    values = _numbers(metadata, key)
    return values[0] if values else 0


def _numbers(metadata: Metadata, key: str) -> list[float]:
    for arch in (TARGET_ARCH, DRAFTER_ARCH):
        value = metadata.get(f"{arch}.{key}")
        if value is not None:
            return value.numbers()
    return []


def _mismatch(what: str, found: float, expected: float) -> CheckpointError:
    return CheckpointError(
        f"The drafter's {what} is {found:g} and its target's is {expected:g}: "
        "give the assistant of the same model."
    )
