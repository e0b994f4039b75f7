"""Gemma 4 and its drafter in plain NumPy, float64: what converted files must compute.

Written from the model's definition, for clarity, not speed. Weights come under their checkpoint
names without the `model.` prefix; matrices are [out, in]. Every position attends to itself and
earlier ones, sliding layers to the last `sliding_window` of them only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Activation = Callable[[Array], Array]
Weights = dict[str, npt.NDArray[Any]]
Config = dict[str, Any]
SLIDING = "sliding_attention"


@dataclass
class TargetRun:
    """Logits [n, vocab], normed hidden rows [n, hidden], and (keys, values) per layer type."""

    logits: Array
    hidden: Array
    shared: dict[str, tuple[Array, Array]]


def rms(x: Array, weight: npt.NDArray[Any] | None, eps: float) -> Array:
    scaled = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    return scaled if weight is None else scaled * weight


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def gelu_from_half_table(x: Array) -> Array:
    """GELU as ggml's CPU backend has it: looked up by, and rounded to, half precision."""
    half = np.float16
    looked_up = gelu(x.astype(half).astype(np.float64)).astype(half).astype(np.float64)
    return np.where(x <= -10, 0.0, np.where(x >= 10, x, looked_up))


def rotate(x: Array, positions: npt.NDArray[np.int64], rope: Config) -> Array:
    """Rotary embedding of [n, heads, d]: element i turns with element i + d/2."""
    width = x.shape[-1]
    frequencies = rope["rope_theta"] ** (-2 * np.arange(width // 2) / width)
    rotated = int(rope.get("partial_rotary_factor", 1.0) * width // 2)
    frequencies[rotated:] = 0.0
    angles = positions[:, None, None] * frequencies
    first, second = x[..., : width // 2], x[..., width // 2 :]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate((first * cos - second * sin, second * cos + first * sin), axis=-1)


def attend(queries: Array, keys: Array, values: Array, visible: npt.NDArray[np.bool_]) -> Array:
    """Attention with scale 1: queries [n, heads, d] on keys [m, kv, d]; visible is [n, m]."""
    group = queries.shape[1] // keys.shape[1]
    keys, values = np.repeat(keys, group, axis=1), np.repeat(values, group, axis=1)
    scores = np.einsum("nhd,mhd->hnm", queries, keys)
    scores = np.where(visible, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.einsum("hnm,mhd->nhd", weights, values).reshape(len(queries), -1)


def head_dim(config: Config, layer: int) -> int:
    own = config.get("per_layer_config", {}).get(str(layer), {})
    return int(own.get("head_dim", config["head_dim"]))


class Layer:
    """One decoder layer: its weights by short name, and what the config says about it."""

    def __init__(
        self, weights: Weights, config: Config, index: int, activation: Activation
    ) -> None:
        self.activation = activation
        self._weights = weights
        self._prefix = f"layers.{index}."
        self.kind = config["layer_types"][index]
        self.rope = config["rope_parameters"][self.kind]
        self.head_dim = head_dim(config, index)
        self.window = config["sliding_window"] if self.kind == SLIDING else None
        self.eps = config["rms_norm_eps"]

    def __call__(self, name: str) -> Array:
        return self._weights[self._prefix + name].astype(np.float64)

    def queries(self, x: Array, positions: npt.NDArray[np.int64]) -> Array:
        raw = (x @ self("self_attn.q_proj.weight").T).reshape(len(x), -1, self.head_dim)
        return rotate(rms(raw, self("self_attn.q_norm.weight"), self.eps), positions, self.rope)

    def keys_values(self, x: Array, positions: npt.NDArray[np.int64]) -> tuple[Array, Array]:
        raw = (x @ self("self_attn.k_proj.weight").T).reshape(len(x), -1, self.head_dim)
        values = (x @ self("self_attn.v_proj.weight").T).reshape(raw.shape)
        keys = rotate(rms(raw, self("self_attn.k_norm.weight"), self.eps), positions, self.rope)
        return keys, rms(values, None, self.eps)

    def sees(
        self, queries: npt.NDArray[np.int64], keys: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        distance = queries[:, None] - keys[None, :]
        return (distance >= 0) & (distance < (self.window or np.inf))

    def finish(self, hidden: Array, attention: Array) -> Array:
        """Everything after attention but the per-layer embedding and the scale."""
        out = attention @ self("self_attn.o_proj.weight").T
        hidden = hidden + rms(out, self("post_attention_layernorm.weight"), self.eps)
        y = rms(hidden, self("pre_feedforward_layernorm.weight"), self.eps)
        gate = self.activation(y @ self("mlp.gate_proj.weight").T)
        mixed = (gate * (y @ self("mlp.up_proj.weight").T)) @ self("mlp.down_proj.weight").T
        return hidden + rms(mixed, self("post_feedforward_layernorm.weight"), self.eps)


def run_target(
    weights: Weights, config: Config, tokens: list[int], activation: Activation = gelu
) -> TargetRun:
    """One pass over `tokens` from position 0."""
    eps, hidden_size = config["rms_norm_eps"], config["hidden_size"]
    layers = config["num_hidden_layers"]
    first_shared = layers - config["num_kv_shared_layers"]
    positions = np.arange(len(tokens))
    embedding = weights["embed_tokens.weight"].astype(np.float64)
    hidden = embedding[tokens] * np.sqrt(hidden_size)
    per_layer = _per_layer_inputs(weights, config, tokens, hidden)
    shared: dict[str, tuple[Array, Array]] = {}
    for index in range(layers):
        layer = Layer(weights, config, index, activation)
        x = rms(hidden, layer("input_layernorm.weight"), eps)
        if index < first_shared:
            shared[layer.kind] = layer.keys_values(x, positions)
        keys, values = shared[layer.kind]
        seen = layer.sees(positions, positions)
        hidden = layer.finish(hidden, attend(layer.queries(x, positions), keys, values, seen))
        gate = activation(hidden @ layer("per_layer_input_gate.weight").T) * per_layer[:, index]
        extra = gate @ layer("per_layer_projection.weight").T
        hidden = hidden + rms(extra, layer("post_per_layer_input_norm.weight"), eps)
        hidden = hidden * layer("layer_scalar")
    out = rms(hidden, weights["norm.weight"], eps)
    logits = out @ embedding.T
    cap = config["final_logit_softcapping"]
    return TargetRun(cap * np.tanh(logits / cap), out, shared)


def _per_layer_inputs(weights: Weights, config: Config, tokens: list[int], hidden: Array) -> Array:
    """[n, layers, width]: a token's own per-layer embedding mixed with a projection of `hidden`."""
    width, layers = config["hidden_size_per_layer_input"], config["num_hidden_layers"]
    own = weights["embed_tokens_per_layer.weight"].astype(np.float64)[tokens] * np.sqrt(width)
    projected = hidden @ weights["per_layer_model_projection.weight"].astype(np.float64).T
    projected = (projected / np.sqrt(config["hidden_size"])).reshape(len(tokens), layers, width)
    context = rms(projected, weights["per_layer_projection_norm.weight"], config["rms_norm_eps"])
    return (context + own.reshape(context.shape)) / np.sqrt(2)


def draft_step(
    weights: Weights,
    config: Config,
    embedded: Array,
    state: Array,
    position: int,
    run: TargetRun,
    activation: Activation = gelu,
) -> tuple[Array, Array]:
    """Dense logits [vocab] and next state of one draft step.

    `embedded` is the target's scaled embedding row of the last token, `state` the hidden row before
    it; keys and values at positions below `position` are the target's.
    """
    text = config["text_config"]
    eps = text["rms_norm_eps"]
    both = np.concatenate((embedded, state))
    hidden = (weights["pre_projection.weight"].astype(np.float64) @ both)[None]
    here = np.array([position])
    for index in range(text["num_hidden_layers"]):
        layer = Layer(weights, text, index, activation)
        keys, values = (part[:position] for part in run.shared[layer.kind])
        seen = layer.sees(here, np.arange(position))
        queries = layer.queries(rms(hidden, layer("input_layernorm.weight"), eps), here)
        hidden = layer.finish(hidden, attend(queries, keys, values, seen)) * layer("layer_scalar")
    out = rms(hidden, weights["norm.weight"], eps)[0]
    logits = weights["embed_tokens.weight"].astype(np.float64) @ out
    return logits, weights["post_projection.weight"].astype(np.float64) @ out
