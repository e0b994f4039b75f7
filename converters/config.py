"""Reads config.json of a Gemma 4 target or drafter: typed, bounded, and only what can be converted.

Both spellings of what differs by layer type are understood: `per_layer_config`, and the older
`global_head_dim` and `num_global_key_value_heads`. Where a key may be absent, its default is the
one that transformers gives it.
"""

import math
from dataclasses import dataclass

from .errors import CheckpointError, quoted
from .hparams import DRAFTER_ARCH, TARGET_ARCH, CentroidHead, Experts, Hparams
from .jsonfile import JsonObject
from .topology import check_topology

_TARGET_TYPES = ("gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text")
_DRAFTER_TYPES = ("gemma4_assistant", "gemma4_unified_assistant")
_TEXT_TYPES = ("gemma4_text", "gemma4_unified_text")
_LIMIT = 1 << 24
# What llama.cpp allows at most.
_MAX_LAYERS = 512
_MAX_EXPERTS = 1024
_LAYERS_PER_FULL_LAYER = 6
_DEFAULT_ROPE: JsonObject = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    "full_attention": {
        "rope_type": "proportional",
        "partial_rotary_factor": 0.25,
        "rope_theta": 1e6,
    },
}


def read_hparams(config: JsonObject) -> Hparams:
    """The hyper-parameters in a config.json. Raises CheckpointError for what is not supported."""
    drafter = config.get("model_type") in _DRAFTER_TYPES
    text, unified = _text_config(config, drafter)
    fields, outer = _Fields(text), _Fields(config)
    _refuse_unsupported(fields, outer, drafter)
    sliding = _layer_pattern(text, fields.count("num_hidden_layers", limit=_MAX_LAYERS))
    shared = fields.count("num_kv_shared_layers", default=0, minimum=0, limit=len(sliding))
    if drafter and not shared:
        # A drafter may leave unsaid that it computes no keys and values.
        shared = len(sliding)
    values_are_keys = fields.flag("attention_k_eq_v")
    head_dims, kv_heads = _widths_by_layer_type(fields, sliding, values_are_keys)
    rope_base_full, rope_base_sliding, rotated = _rope(text, head_dims[1])
    hparams = Hparams(
        arch=DRAFTER_ARCH if drafter else TARGET_ARCH,
        vocab=fields.count("vocab_size"),
        hidden=fields.count("hidden_size"),
        sliding=sliding,
        feed_forward=_feed_forward(fields, len(sliding), shared),
        heads=fields.count("num_attention_heads"),
        kv_heads_sliding=kv_heads[0],
        kv_heads_full=kv_heads[1],
        head_dim_sliding=head_dims[0],
        head_dim_full=head_dims[1],
        window=fields.count("sliding_window"),
        context=fields.count("max_position_embeddings"),
        shared_kv_layers=shared,
        per_layer_input=(
            0 if unified else fields.count("hidden_size_per_layer_input", default=256, minimum=0)
        ),
        rms_eps=fields.number("rms_norm_eps"),
        rope_base_sliding=rope_base_sliding,
        rope_base_full=rope_base_full,
        rotated_pairs_full=rotated,
        logit_softcap=fields.optional_number("final_logit_softcapping"),
        values_are_keys=values_are_keys,
        experts=_experts(fields) if not unified and fields.flag("enable_moe_block") else None,
        tied_head=outer.flag("tie_word_embeddings", default=True),
        backbone=outer.count("backbone_hidden_size") if drafter else None,
        centroids=_centroid_head(outer) if drafter else None,
    )
    check_topology(hparams)
    return hparams


@dataclass(frozen=True, slots=True)
class _Fields:
    """Typed, bounded access to one object of config.json."""

    values: JsonObject

    def count(
        self, key: str, *, default: int | None = None, minimum: int = 1, limit: int = _LIMIT
    ) -> int:
        value = self.values.get(key)
        if value is None:
            value = default
        if type(value) is not int or not minimum <= value <= limit:
            raise CheckpointError(
                f"{key} in config.json is {quoted(value)}, "
                f"but it must be a whole number from {minimum} to {limit}."
            )
        return value

    def number(self, key: str, *, default: float | None = None) -> float:
        value = self.optional_number(key)
        value = default if value is None else value
        if value is None:
            raise CheckpointError(f"{key} is missing in config.json.")
        return value

    def optional_number(self, key: str) -> float | None:
        value = self.values.get(key)
        if value is None:
            return None
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 1e-30 <= value < 1e30
        ):
            raise CheckpointError(
                f"{key} in config.json is {quoted(value)}, but it must be a positive number."
            )
        return float(value)

    def flag(self, key: str, *, default: bool = False) -> bool:
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise CheckpointError(
                f"{key} in config.json is {quoted(value)}, but it must be true or false."
            )
        return value


def _text_config(config: JsonObject, drafter: bool) -> tuple[JsonObject, bool]:
    """The object that describes the text model, and whether it is of the unified kind."""
    model_type = config.get("model_type")
    if not drafter and model_type not in _TARGET_TYPES:
        raise CheckpointError(
            f"config.json describes a model of type {quoted(model_type)}, not a Gemma 4 model."
        )
    text = config.get("text_config", config)
    if not isinstance(text, dict):
        raise CheckpointError("text_config in config.json is not an object.")
    text_type = text.get("model_type", model_type)
    if text_type != model_type and text_type not in _TEXT_TYPES:
        raise CheckpointError(
            f"text_config in config.json describes a model of type {quoted(text_type)}, "
            "not a Gemma 4 text model."
        )
    return text, str(text_type).startswith("gemma4_unified")


def _refuse_unsupported(fields: _Fields, outer: _Fields, drafter: bool) -> None:
    if fields.flag("attention_bias"):
        raise CheckpointError(
            "attention_bias is set in config.json, but Gemma 4 in llama.cpp has no biases."
        )
    activation = fields.values.get("hidden_activation", "gelu_pytorch_tanh")
    if activation != "gelu_pytorch_tanh":
        raise CheckpointError(f"The activation {quoted(activation)} is not one of Gemma 4.")
    if fields.values.get("use_bidirectional_attention") == "all":
        raise CheckpointError(
            "use_bidirectional_attention in config.json is 'all': "
            "such a model embeds text and does not continue it."
        )
    if not drafter:
        return
    for key in ("enable_moe_block", "use_double_wide_mlp"):
        if fields.flag(key):
            raise CheckpointError(f"{key} is set in config.json, which no drafter may have.")
    if not outer.flag("tie_word_embeddings", default=True):
        raise CheckpointError(
            "tie_word_embeddings is false in config.json, "
            "but llama.cpp runs no drafter with a head of its own."
        )


def _layer_pattern(text: JsonObject, layers: int) -> tuple[bool, ...]:
    types = text.get("layer_types")
    if types is None:
        return tuple((layer + 1) % _LAYERS_PER_FULL_LAYER != 0 for layer in range(layers))
    if (
        not isinstance(types, list)
        or len(types) != layers
        or any(kind not in ("sliding_attention", "full_attention") for kind in types)
    ):
        raise CheckpointError(
            "layer_types in config.json must name sliding_attention or full_attention "
            f"for each of the {layers} layers."
        )
    return tuple(kind == "sliding_attention" for kind in types)


def _feed_forward(fields: _Fields, layers: int, shared: int) -> tuple[int, ...]:
    width = fields.count("intermediate_size")
    wide = 2 if fields.flag("use_double_wide_mlp") else 1
    return (width,) * (layers - shared) + (width * wide,) * shared


def _widths_by_layer_type(
    fields: _Fields, sliding: tuple[bool, ...], values_are_keys: bool
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Head widths and key-value head counts, each of sliding and of full layers."""
    head_dim = fields.count("head_dim")
    kv_heads = fields.count("num_key_value_heads")
    if fields.values.get("per_layer_config") is not None:
        overrides = _layer_overrides(fields, len(sliding))
        return (
            _one_per_type(overrides, sliding, "head_dim", head_dim),
            _one_per_type(overrides, sliding, "num_key_value_heads", kv_heads),
        )
    # The count of the older spelling holds only where values are taken from the keys.
    full_kv_heads = (
        fields.count("num_global_key_value_heads", default=kv_heads)
        if values_are_keys
        else kv_heads
    )
    return (
        (head_dim, fields.count("global_head_dim", default=512)),
        (kv_heads, full_kv_heads),
    )


def _layer_overrides(fields: _Fields, layers: int) -> list[_Fields]:
    """What per_layer_config says about each layer."""
    per_layer = fields.values.get("per_layer_config") or {}
    if not isinstance(per_layer, dict):
        raise CheckpointError("per_layer_config in config.json is not an object.")
    overrides = [_Fields({}) for _ in range(layers)]
    for key, entry in per_layer.items():
        layer = int(key) if key.isascii() and key.isdigit() and len(key) < 4 else layers
        if layer >= layers or not isinstance(entry, dict):
            raise CheckpointError(
                f"per_layer_config in config.json has the entry {quoted(key)}, "
                f"but it must describe layers from 0 to {layers - 1}."
            )
        for name, value in entry.items():
            if name not in ("head_dim", "num_key_value_heads") and value != fields.values.get(name):
                raise CheckpointError(
                    f"per_layer_config in config.json changes {quoted(name)} of layer {layer}, "
                    "which cannot be converted."
                )
        overrides[layer] = _Fields(entry)
    return overrides


def _one_per_type(
    overrides: list[_Fields], sliding: tuple[bool, ...], key: str, default: int
) -> tuple[int, int]:
    widths: dict[bool, set[int]] = {True: set(), False: set()}
    for own, is_sliding in zip(overrides, sliding, strict=True):
        widths[is_sliding].add(own.count(key, default=default))
    if max(len(widths[True]), len(widths[False])) > 1:
        raise CheckpointError(
            f"per_layer_config in config.json gives {key} values that are not one per layer type."
        )
    of_sliding, of_full = (
        widths[kind].pop() if widths[kind] else default for kind in (True, False)
    )
    return of_sliding, of_full


def _experts(fields: _Fields) -> Experts:
    count = fields.count("num_experts", limit=_MAX_EXPERTS)
    return Experts(
        count=count,
        used=fields.count("top_k_experts", limit=count),
        feed_forward=fields.count("moe_intermediate_size"),
    )


def _rope(text: JsonObject, head_dim_full: int) -> tuple[float, float, int]:
    """Bases of full and sliding layers, and how many pairs of a full head rotate."""
    parameters = text.get("rope_parameters")
    parameters = _DEFAULT_ROPE if parameters is None else parameters
    full = parameters.get("full_attention") if isinstance(parameters, dict) else None
    sliding = parameters.get("sliding_attention") if isinstance(parameters, dict) else None
    if not isinstance(full, dict) or not isinstance(sliding, dict):
        raise CheckpointError(
            "rope_parameters in config.json must describe full_attention and sliding_attention."
        )
    if full.get("rope_type") != "proportional" or sliding.get("rope_type") != "default":
        raise CheckpointError(
            "rope_parameters in config.json must be proportional for full_attention "
            "and default for sliding_attention."
        )
    factor = _Fields(full).number("partial_rotary_factor", default=1.0)
    if factor > 1 or _Fields(sliding).number("partial_rotary_factor", default=1.0) != 1:
        raise CheckpointError(
            "partial_rotary_factor in config.json must be at most 1, and 1 in sliding layers."
        )
    if _Fields(full).number("factor", default=1.0) != 1:
        raise CheckpointError(
            "rope_parameters in config.json stretch positions by a factor, "
            "which cannot be converted."
        )
    return (
        _Fields(full).number("rope_theta"),
        _Fields(sliding).number("rope_theta"),
        math.floor(factor * head_dim_full) // 2,
    )


def _centroid_head(outer: _Fields) -> CentroidHead | None:
    if not outer.flag("use_ordered_embeddings"):
        return None
    count = outer.count("num_centroids", default=2048)
    return CentroidHead(count, outer.count("centroid_intermediate_top_k", default=32, limit=count))
