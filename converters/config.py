"""Reads config.json of a Gemma 4 target or drafter: typed, bounded, and only what can be converted.

Both spellings of the widths that differ by layer type are understood: `global_head_dim` and
`num_global_key_value_heads`, and the newer `per_layer_config`.
"""

import math
from dataclasses import dataclass

from .errors import CheckpointError, quoted
from .hparams import DRAFTER_ARCH, TARGET_ARCH, CentroidHead, Hparams
from .jsonfile import JsonObject

_TARGET_TYPES = ("gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text")
_DRAFTER_TYPES = ("gemma4_assistant", "gemma4_unified_assistant")
_LIMIT = 1 << 24
_MAX_LAYERS = 512


def read_hparams(config: JsonObject) -> Hparams:
    """The hyper-parameters in a config.json. Raises CheckpointError for what is not supported."""
    model_type = config.get("model_type")
    drafter = model_type in _DRAFTER_TYPES
    if not drafter and model_type not in _TARGET_TYPES:
        raise CheckpointError(
            f"config.json describes a model of type {quoted(model_type)}, not a Gemma 4 model."
        )
    text = config.get("text_config", config)
    if not isinstance(text, dict):
        raise CheckpointError("text_config in config.json is not an object.")
    fields = _Fields(text)
    fields.refuse("enable_moe_block", "mixture-of-experts models")
    fields.refuse("attention_k_eq_v", "models whose full layers share one key-value projection")
    fields.refuse("attention_bias", "models with attention bias")
    activation = text.get("hidden_activation", "gelu_pytorch_tanh")
    if activation != "gelu_pytorch_tanh":
        raise CheckpointError(f"The activation {quoted(activation)} is not one of Gemma 4.")

    sliding = _layer_pattern(text, fields.count("num_hidden_layers", limit=_MAX_LAYERS))
    layers = len(sliding)
    shared = fields.count("num_kv_shared_layers", default=0, minimum=0, limit=layers)
    head_dim = fields.count("head_dim")
    kv_heads = fields.count("num_key_value_heads")
    head_dim_full = _full_layer_width(fields, sliding, "global_head_dim", "head_dim", head_dim)
    kv_heads_full = _full_layer_width(
        fields, sliding, "num_global_key_value_heads", "num_key_value_heads", kv_heads
    )
    feed_forward = fields.count("intermediate_size")
    wide = bool(text.get("use_double_wide_mlp", False)) and not drafter
    rope_base_full, rope_base_sliding, rotated = _rope(text, head_dim_full)
    hparams = Hparams(
        arch=DRAFTER_ARCH if drafter else TARGET_ARCH,
        vocab=fields.count("vocab_size"),
        hidden=fields.count("hidden_size"),
        sliding=sliding,
        feed_forward=tuple(
            feed_forward * (2 if wide and layer >= layers - shared else 1)
            for layer in range(layers)
        ),
        heads=fields.count("num_attention_heads"),
        kv_heads_sliding=kv_heads,
        kv_heads_full=kv_heads_full,
        head_dim_sliding=head_dim,
        head_dim_full=head_dim_full,
        window=fields.count("sliding_window"),
        context=fields.count("max_position_embeddings"),
        shared_kv_layers=shared,
        per_layer_input=fields.count("hidden_size_per_layer_input", default=0, minimum=0),
        rms_eps=fields.number("rms_norm_eps"),
        rope_base_sliding=rope_base_sliding,
        rope_base_full=rope_base_full,
        rotated_pairs_full=rotated,
        logit_softcap=fields.optional_number("final_logit_softcapping"),
        backbone=_Fields(config).count("backbone_hidden_size") if drafter else None,
        centroids=_centroid_head(config) if drafter else None,
    )
    _check_topology(hparams)
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

    def number(self, key: str) -> float:
        value = self.optional_number(key)
        if value is None:
            raise CheckpointError(f"{key} is missing in config.json.")
        return value

    def optional_number(self, key: str) -> float | None:
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e30:
            raise CheckpointError(
                f"{key} in config.json is {quoted(value)}, but it must be a positive number."
            )
        return float(value)

    def refuse(self, key: str, what: str) -> None:
        if self.values.get(key):
            raise CheckpointError(
                f"{key} is set in config.json, but {what} cannot be converted yet."
            )


def _layer_pattern(text: JsonObject, layers: int) -> tuple[bool, ...]:
    types = text.get("layer_types")
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


def _full_layer_width(
    fields: _Fields, sliding: tuple[bool, ...], key: str, per_layer_key: str, default: int
) -> int:
    """The width that full layers have: its own key, else the one value in per_layer_config."""
    if fields.values.get(key) is not None:
        return fields.count(key)
    per_layer = fields.values.get("per_layer_config") or {}
    if not isinstance(per_layer, dict):
        raise CheckpointError("per_layer_config in config.json is not an object.")
    widths: dict[bool, set[int]] = {True: set(), False: set()}
    for layer, is_sliding in enumerate(sliding):
        entry = per_layer.get(str(layer), {})
        if not isinstance(entry, dict):
            raise CheckpointError(f"per_layer_config of layer {layer} is not an object.")
        widths[is_sliding].add(_Fields(entry).count(per_layer_key, default=default))
    if len(widths[False]) > 1 or not widths[True] <= {default}:
        raise CheckpointError(
            f"per_layer_config in config.json gives {per_layer_key} values "
            "that are not one per layer type."
        )
    return widths[False].pop() if widths[False] else default


def _rope(text: JsonObject, head_dim_full: int) -> tuple[float, float, int]:
    """Bases of full and sliding layers, and how many pairs of a full head rotate."""
    parameters = text.get("rope_parameters")
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
    factor = _Fields(full).number("partial_rotary_factor")
    if factor > 1 or sliding.get("partial_rotary_factor", 1.0) != 1.0:
        raise CheckpointError(
            "partial_rotary_factor in config.json must be at most 1, and 1 in sliding layers."
        )
    return (
        _Fields(full).number("rope_theta"),
        _Fields(sliding).number("rope_theta"),
        math.floor(factor * head_dim_full) // 2,
    )


def _centroid_head(config: JsonObject) -> CentroidHead | None:
    if not config.get("use_ordered_embeddings"):
        return None
    fields = _Fields(config)
    count = fields.count("num_centroids")
    return CentroidHead(count, fields.count("centroid_intermediate_top_k", limit=count))


def _check_topology(hparams: Hparams) -> None:
    """llama.cpp fixes which layers share keys and values; other layouts would run wrongly."""
    if hparams.heads % hparams.kv_heads_sliding or hparams.heads % hparams.kv_heads_full:
        raise CheckpointError(
            f"{hparams.heads} attention heads cannot be divided among "
            f"{hparams.kv_heads_sliding} and {hparams.kv_heads_full} key-value heads."
        )
    if hparams.head_dim_sliding % 2 or hparams.head_dim_full % 2:
        raise CheckpointError("An attention head has an odd width, which cannot be rotated.")
    if hparams.sliding[-2:] != (True, False):
        raise CheckpointError("The last two layers must be sliding and full attention.")
    if hparams.arch == DRAFTER_ARCH:
        _check_drafter(hparams)
    elif hparams.sliding[max(0, hparams.first_shared - 2) : hparams.first_shared] != (True, False):
        raise CheckpointError(
            "The last two layers that own keys and values must be sliding and full attention."
        )


def _check_drafter(hparams: Hparams) -> None:
    if hparams.shared_kv_layers != hparams.layers or hparams.per_layer_input:
        raise CheckpointError(
            "A drafter must take all keys and values from its target "
            "and have no per-layer embeddings."
        )
    if hparams.backbone == hparams.hidden:
        raise CheckpointError(
            f"The drafter is as wide as its target ({hparams.hidden}), "
            "which llama.cpp's loader refuses."
        )
    if hparams.centroids is not None and hparams.vocab % hparams.centroids.count:
        raise CheckpointError(
            f"{hparams.vocab} tokens cannot be divided among {hparams.centroids.count} centroids."
        )
