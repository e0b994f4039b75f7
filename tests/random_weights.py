"""Random weights for any Gemma 4 target or drafter, in the shapes that its config describes.

Every tensor is random, norms and scales too, so that none can be dropped or exchanged unnoticed.
The numbers come from NumPy's frozen legacy stream: one seed gives the same weights everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Tensors = dict[str, npt.NDArray[Any]]
_OLDER_KEYS = {
    "head_dim": "global_head_dim",
    "num_key_value_heads": "num_global_key_value_heads",
}


def target_weights(text: dict[str, Any], seed: int) -> Tensors:
    """Weights of the text model under checkpoint names, without a prefix."""
    rng = np.random.RandomState(seed)
    layers, hidden, vocab = text["num_hidden_layers"], text["hidden_size"], text["vocab_size"]
    width = text.get("hidden_size_per_layer_input", 0)
    tensors = {
        "embed_tokens.weight": matrix(rng, vocab, hidden, scale=0.3),
        "norm.weight": vector(rng, hidden),
    }
    if width:
        tensors |= {
            "embed_tokens_per_layer.weight": matrix(rng, vocab, width * layers, scale=0.3),
            "per_layer_model_projection.weight": matrix(rng, width * layers, hidden),
            "per_layer_projection_norm.weight": vector(rng, width),
        }
    first_shared = layers - text.get("num_kv_shared_layers", 0)
    for index in range(layers):
        wide = 2 if index >= first_shared and text.get("use_double_wide_mlp") else 1
        layer = _layer(rng, text, index, text["intermediate_size"] * wide)
        if index < first_shared:
            layer |= _keys_and_values(rng, text, index)
        if text.get("enable_moe_block"):
            layer |= _experts(rng, text)
        if width:
            layer |= {
                "per_layer_input_gate.weight": matrix(rng, width, hidden),
                "per_layer_projection.weight": matrix(rng, hidden, width),
                "post_per_layer_input_norm.weight": vector(rng, hidden),
            }
        tensors |= {f"layers.{index}.{name}": tensor for name, tensor in layer.items()}
    return tensors


def drafter_weights(config: dict[str, Any], seed: int) -> Tensors:
    """Weights of the drafter under checkpoint names, those of its text model without a prefix."""
    rng = np.random.RandomState(seed)
    text, backbone = config["text_config"], config["backbone_hidden_size"]
    hidden, vocab = text["hidden_size"], text["vocab_size"]
    tensors = {
        "embed_tokens.weight": matrix(rng, vocab, hidden, scale=0.3),
        "norm.weight": vector(rng, hidden),
        "pre_projection.weight": matrix(rng, hidden, 2 * backbone),
        "post_projection.weight": matrix(rng, backbone, hidden),
    }
    if config["use_ordered_embeddings"]:
        tensors |= {
            "masked_embedding.centroids.weight": matrix(rng, config["num_centroids"], hidden),
            "masked_embedding.token_ordering": rng.permutation(vocab).astype(np.int64),
        }
    for index in range(text["num_hidden_layers"]):
        layer = _layer(rng, text, index, text["intermediate_size"])
        tensors |= {f"layers.{index}.{name}": tensor for name, tensor in layer.items()}
    return tensors


def layer_width(text: dict[str, Any], index: int, key: str) -> int:
    """`head_dim` or `num_key_value_heads` of one layer, in either spelling of the config."""
    width = text[key]
    if "per_layer_config" in text:
        width = text["per_layer_config"].get(str(index), {}).get(key, width)
    elif text["layer_types"][index] == "full_attention" and (
        key == "head_dim" or text.get("attention_k_eq_v")
    ):
        width = text.get(_OLDER_KEYS[key]) or width
    return int(width)


def matrix(
    rng: np.random.RandomState, *shape: int, scale: float | None = None
) -> npt.NDArray[np.float32]:
    scale = 1.3 / np.sqrt(shape[-1]) if scale is None else scale
    return (scale * rng.standard_normal(shape)).astype(np.float32)


def vector(rng: np.random.RandomState, width: int, *, mean: float = 1.0) -> npt.NDArray[np.float32]:
    return (mean + 0.3 * rng.standard_normal(width)).astype(np.float32)


def _layer(
    rng: np.random.RandomState, text: dict[str, Any], index: int, feed_forward: int
) -> Tensors:
    hidden, head_dim = text["hidden_size"], layer_width(text, index, "head_dim")
    queries = head_dim * text["num_attention_heads"]
    norms = (
        "input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
        "post_feedforward_layernorm",
    )  # fmt: skip
    return {f"{name}.weight": vector(rng, hidden) for name in norms} | {
        "self_attn.q_proj.weight": matrix(rng, queries, hidden),
        # Small, because sharp attention would magnify every rounding error.
        "self_attn.q_norm.weight": vector(rng, head_dim, mean=0.4),
        "self_attn.o_proj.weight": matrix(rng, hidden, queries),
        "mlp.gate_proj.weight": matrix(rng, feed_forward, hidden),
        "mlp.up_proj.weight": matrix(rng, feed_forward, hidden),
        "mlp.down_proj.weight": matrix(rng, hidden, feed_forward),
        "layer_scalar": vector(rng, 1),
    }


def _keys_and_values(rng: np.random.RandomState, text: dict[str, Any], index: int) -> Tensors:
    head_dim, hidden = layer_width(text, index, "head_dim"), text["hidden_size"]
    keys = head_dim * layer_width(text, index, "num_key_value_heads")
    tensors: Tensors = {
        "self_attn.k_proj.weight": matrix(rng, keys, hidden),
        "self_attn.k_norm.weight": vector(rng, head_dim),
    }
    is_full = text["layer_types"][index] == "full_attention"
    if not (is_full and text.get("attention_k_eq_v")):
        tensors["self_attn.v_proj.weight"] = matrix(rng, keys, hidden)
    return tensors


def _experts(rng: np.random.RandomState, text: dict[str, Any]) -> Tensors:
    count, width = text["num_experts"], text["moe_intermediate_size"]
    hidden = text["hidden_size"]
    norms = (
        "post_feedforward_layernorm_1", "pre_feedforward_layernorm_2",
        "post_feedforward_layernorm_2",
    )  # fmt: skip
    return {f"{name}.weight": vector(rng, hidden) for name in norms} | {
        # Wide apart, so that rounding does not exchange the experts that are chosen.
        "router.proj.weight": matrix(rng, count, hidden, scale=2.0),
        "router.scale": vector(rng, hidden),
        "router.per_expert_scale": vector(rng, count),
        "experts.gate_up_proj": matrix(rng, count, 2 * width, hidden),
        "experts.down_proj": matrix(rng, count, hidden, width),
    }
