"""Whether a GGUF file with an intact header is a Gemma 4 model that llama.cpp can run.

llama.cpp ends the whole process when some of its assumptions about a file do not hold. Each of
those that a target or a drafter can break is checked here, before native code sees the file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gemmachat.errors import DamagedFileError
from gemmachat.gguf_types import ArrayInfo, quoted

if TYPE_CHECKING:
    from .gguf_types import GgufInfo

TARGET = "gemma4"
DRAFTER = "gemma4-assistant"
# Names that forks of llama.cpp give their own, different drafter files.
LOOKALIKES = ("gemma4_assistant", "gemma4_mtp", "gemma4mtp", "gemma4-mtp")

_TENSOR_ALIGNMENT = 32
_MAX_LAYERS = 512
_MAX_EXPERTS = 1024
_MAX_WIDTH = 1 << 24
_MAX_CONTEXT = 1 << 28
_ROPE_SCALINGS = ("none", "linear", "yarn", "longrope")


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What a file says about its model. Widths are elements; tuples have one item per layer."""

    hidden: int
    backbone: int
    vocab: int
    context: int
    sliding: tuple[bool, ...]
    heads: tuple[int, ...]
    kv_heads: tuple[int, ...]
    feed_forward: tuple[int, ...]
    head_dim_full: int
    head_dim_sliding: int
    window: int
    shared_kv_layers: int
    per_layer_input: int
    experts: int
    experts_used: int  # by a token
    expert_feed_forward: tuple[int, ...]

    @property
    def layers(self) -> int:
        """How many layers there are."""
        return len(self.sliding)

    @property
    def first_shared(self) -> int:
        """The first layer that owns no keys and values."""
        return self.layers - self.shared_kv_layers

    def head_dim(self, layer: int) -> int:
        """Width of one attention head of that layer."""
        return self.head_dim_sliding if self.sliding[layer] else self.head_dim_full


class Keys:
    """Typed access to the metadata of one file: wrong types and values raise DamagedFileError."""

    def __init__(self, info: GgufInfo) -> None:
        self._info = info

    def damaged(self, problem: str) -> DamagedFileError:
        """The error that says what is wrong with this file."""
        return DamagedFileError(f"{quoted(self._info.path)} {problem}.")

    def has(self, key: str) -> bool:
        """Whether the file holds the key."""
        return self._name(key) in self._info.metadata

    def count(
        self, key: str, *, default: int | None = None, minimum: int = 1, limit: int = _MAX_WIDTH
    ) -> int:
        """An unsigned number in [minimum, limit]."""
        value = self._typed(key, ("u32",), default)
        return self._in_range(key, value, minimum, limit)

    def counts(
        self, key: str, layers: int, *, default: int | None = None, minimum: int = 1
    ) -> tuple[int, ...]:
        """One number per layer, stored as such or once for all."""
        value = self._typed(key, ("u32", "arr[u32]", "arr[i32]"), default)
        values = value if isinstance(value, tuple) else (value,) * layers
        if len(values) != layers:
            raise self.damaged(
                f"gives {len(values)} values of {self._name(key)} for {layers} layers"
            )
        return tuple(self._in_range(key, item, minimum, _MAX_WIDTH) for item in values)

    def real(self, key: str, *, default: float | None = None, minimum: float = 0.0) -> float:
        """A finite number of at least `minimum`."""
        value = self._typed(key, ("f32",), default)
        if not isinstance(value, float) or not math.isfinite(value) or value < minimum:
            raise self.damaged(f"gives {self._name(key)} the impossible value {quoted(value)}")
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        """A truth value."""
        return bool(self._typed(key, ("bool",), default))

    def text(self, key: str, default: str | None = None) -> str:
        """A string."""
        return str(self._typed(key, ("str",), default))

    def flags(self, key: str) -> tuple[bool, ...]:
        """An array of truth values, at most 1024 long; numbers count as such."""
        value = self._typed(key, ("arr[bool]", "arr[u32]", "arr[i32]"), None)
        if not isinstance(value, tuple):
            raise self.damaged(f"gives more values of {self._name(key)} than a model has layers")
        return tuple(map(bool, value))

    def array(self, key: str, *item_types: str) -> ArrayInfo | tuple[object, ...]:
        """An array of any length whose items have one of the types."""
        value = self._typed(key, tuple(f"arr[{item}]" for item in item_types), None)
        return value if isinstance(value, ArrayInfo) else tuple(value)  # type: ignore[arg-type]

    def _name(self, key: str) -> str:
        known = key.startswith(("general.", "tokenizer.", "split."))
        return key if known else f"{self._info.architecture}.{key}"

    def _typed(self, key: str, types: tuple[str, ...], default: object) -> object:
        name = self._name(key)
        if name not in self._info.metadata:
            if default is None:
                raise self.damaged(
                    f"lacks the key {name}: it is no complete Gemma 4 model; convert it again"
                )
            return default
        found = self._info.value_types[name]
        if found not in types:
            raise self.damaged(f"stores {name} as {found}, where {' or '.join(types)} is needed")
        return self._info.metadata[name]

    def _in_range(self, key: str, value: object, minimum: int, limit: int) -> int:
        if not isinstance(value, int) or not minimum <= value <= limit:
            raise self.damaged(
                f"gives {self._name(key)} the value {quoted(value)}, "
                f"where {minimum} to {limit} is possible"
            )
        return value


def read_shape(info: GgufInfo) -> ModelShape:
    """The shape of a target or a drafter, checked; raises DamagedFileError."""
    keys = Keys(info)
    drafter = info.architecture == DRAFTER
    if info.alignment % _TENSOR_ALIGNMENT:
        raise keys.damaged(
            f"aligns its tensors to {info.alignment} bytes, where {_TENSOR_ALIGNMENT} are needed"
        )
    layers = keys.count("block_count", limit=_MAX_LAYERS)
    hidden = keys.count("embedding_length")
    heads = keys.counts("attention.head_count", layers)
    experts = keys.count("expert_count", default=0, minimum=0, limit=_MAX_EXPERTS)
    token_embedding = info.tensors.get("token_embd.weight")
    if token_embedding is None:
        raise keys.damaged("lacks the tensor 'token_embd.weight': it holds no language model")
    shape = ModelShape(
        hidden=hidden,
        backbone=keys.count("embedding_length_out", default=None if drafter else hidden),
        vocab=token_embedding.shape[-1],
        context=keys.count("context_length", limit=_MAX_CONTEXT),
        sliding=keys.flags("attention.sliding_window_pattern"),
        heads=heads,
        kv_heads=_kv_heads(keys, heads),
        feed_forward=keys.counts("feed_forward_length", layers),
        head_dim_full=keys.count("attention.key_length", default=hidden // heads[0]),
        head_dim_sliding=keys.count("attention.key_length_swa"),
        window=keys.count("attention.sliding_window"),
        shared_kv_layers=keys.count(
            "attention.shared_kv_layers", default=0, minimum=0, limit=layers
        ),
        per_layer_input=keys.count(
            "embedding_length_per_layer_input", default=0 if drafter else None, minimum=0
        ),
        experts=experts,
        experts_used=_experts_used(keys, layers, experts),
        expert_feed_forward=(
            keys.counts("expert_feed_forward_length", layers) if experts else (0,) * layers
        ),
    )
    if shape.layers != layers:
        raise keys.damaged(f"describes the attention of {shape.layers} layers, but has {layers}")
    _check_attention(keys, shape)
    _check_numbers(keys)
    if drafter:
        _check_drafter(keys, shape)
    else:
        _check_target(keys, shape)
    return shape


def _kv_heads(keys: Keys, heads: tuple[int, ...]) -> tuple[int, ...]:
    if not keys.has("attention.head_count_kv"):
        return heads
    return keys.counts("attention.head_count_kv", len(heads))


def _check_attention(keys: Keys, shape: ModelShape) -> None:
    for layer, (heads, kv_heads) in enumerate(zip(shape.heads, shape.kv_heads, strict=True)):
        if heads % kv_heads:
            raise keys.damaged(
                f"cannot divide the {heads} heads of layer {layer} among {kv_heads} key-value heads"
            )
    values = keys.count("attention.value_length", default=shape.hidden // shape.heads[0])
    values_sliding = keys.count("attention.value_length_swa")
    if (values, values_sliding) != (shape.head_dim_full, shape.head_dim_sliding):
        raise keys.damaged("has keys and values of different widths")
    rotated = keys.count("rope.dimension_count", default=shape.head_dim_full)
    rotated_sliding = keys.count("rope.dimension_count_swa", default=rotated)
    if rotated > shape.head_dim_full or rotated_sliding > shape.head_dim_sliding:
        raise keys.damaged("rotates more elements than an attention head has")
    if rotated % 2 or rotated_sliding % 2 or shape.head_dim_full % 2:
        raise keys.damaged("rotates an odd number of elements in an attention head")
    if shape.sliding[-2:] != (True, False):
        raise keys.damaged("does not end with a sliding and a full attention layer")


def _experts_used(keys: Keys, layers: int, experts: int) -> int:
    minimum = 1 if experts else 0
    default = None if experts else 0
    used = max(keys.counts("expert_used_count", layers, default=default, minimum=minimum))
    groups = keys.count("expert_group_count", default=0, minimum=0)
    if used > experts or groups:
        raise keys.damaged(
            f"uses {used} experts in {groups} groups, which {experts} experts do not allow"
        )
    return used


def _check_numbers(keys: Keys) -> None:
    keys.real("attention.layer_norm_rms_epsilon")
    keys.real("rope.freq_base", default=1e4, minimum=1.0)
    keys.real("rope.freq_base_swa", default=1e4, minimum=1.0)
    keys.real("final_logit_softcapping", default=0.0)
    keys.real("rope.scaling.factor", default=1.0)
    scaling = keys.text("rope.scaling.type", "linear")
    if scaling not in _ROPE_SCALINGS:
        raise keys.damaged(f"asks for the unknown rope scaling {quoted(scaling)}")
    pooling = keys.count("pooling_type", default=0, minimum=0)
    if pooling or not keys.flag("attention.causal", default=True):
        raise keys.damaged("is an embedding model, not a language model")


def _check_target(keys: Keys, shape: ModelShape) -> None:
    if keys.count("nextn_predict_layers", default=0, minimum=0):
        raise keys.damaged("holds prediction layers inside the target, which is not supported")
    if shape.backbone != shape.hidden:
        raise keys.damaged(
            f"has output rows of {shape.backbone} elements where {shape.hidden} are needed"
        )
    owners = shape.first_shared
    if owners < 2 or shape.sliding[owners - 2 : owners] != (True, False):
        raise keys.damaged(
            "does not have a sliding and a full attention layer last among the layers that own "
            "keys and values"
        )
    for layer in range(owners, shape.layers):
        owner = owners - 2 if shape.sliding[layer] else owners - 1
        if shape.kv_heads[layer] != shape.kv_heads[owner]:
            raise keys.damaged(
                f"gives layer {layer} {shape.kv_heads[layer]} key-value heads, but the layer that "
                f"it takes them from has {shape.kv_heads[owner]}"
            )


def _check_drafter(keys: Keys, shape: ModelShape) -> None:
    if keys.count("nextn_predict_layers") != shape.layers:
        raise keys.damaged(
            f"does not use all of its {shape.layers} layers for drafting (nextn_predict_layers)"
        )
    if shape.backbone == shape.hidden:
        raise keys.damaged(f"is as wide as its target ({shape.hidden}), which llama.cpp refuses")
    if shape.experts:
        raise keys.damaged("is a drafter with experts, which Gemma 4 does not have")
