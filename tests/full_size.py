"""The ten real models by their published shapes, and what a conversion must make of them.

Every tensor and every metadata key is written down here a second time, without help from the
converter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

VOCAB = 262144
CENTROIDS, TOP_K = 2048, 32
HEAD_DIM, HEAD_DIM_FULL = 256, 512
_DTYPE_BYTES = {"BF16": 2, "I64": 8}


@dataclass(frozen=True)
class Model:
    """A full layer ends every group of `period` layers; `backbone` is a drafter's target width."""

    name: str
    kind: str
    hidden: int
    layers: int
    period: int
    feed_forward: int
    heads: int
    kv_heads: tuple[int, int]
    window: int
    context: int
    values_are_keys: bool = False
    shared: int = 0
    wide_shared: bool = False
    per_layer_input: int = 0
    experts: tuple[int, int, int] | None = None
    backbone: int | None = None
    ordered: bool = False
    vocab: int = VOCAB

    @property
    def sliding(self) -> list[bool]:
        return [(layer + 1) % self.period != 0 for layer in range(self.layers)]

    @property
    def widths(self) -> list[int]:
        """Of the feed-forward part, by layer."""
        wide = 2 if self.wide_shared else 1
        own = self.layers - self.shared
        return [self.feed_forward] * own + [self.feed_forward * wide] * self.shared


class Tensor(NamedTuple):
    """`source` is its name in the checkpoint, `name` in GGUF, or None where it is left out."""

    source: str
    name: str | None
    shape: tuple[int, ...]
    dtype: str = "BF16"

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * _DTYPE_BYTES[self.dtype]


def _drafter(name: str, target: Model, **widths: Any) -> Model:
    return Model(
        name,
        f"{target.kind}_assistant",
        layers=4,
        period=4,
        shared=4,
        kv_heads=target.kv_heads,
        values_are_keys=target.values_are_keys,
        window=target.window,
        context=target.context,
        backbone=target.hidden,
        **widths,
    )


E2B = Model(
    "gemma-4-E2B-it", "gemma4", hidden=1536, layers=35, period=5, feed_forward=6144, heads=8,
    kv_heads=(1, 1), window=512, context=131072, shared=20, wide_shared=True, per_layer_input=256,
)  # fmt: skip
E4B = Model(
    "gemma-4-E4B-it", "gemma4", hidden=2560, layers=42, period=6, feed_forward=10240, heads=8,
    kv_heads=(2, 2), window=512, context=131072, shared=18, per_layer_input=256,
)  # fmt: skip
M12B = Model(
    "gemma-4-12B-it", "gemma4_unified", hidden=3840, layers=48, period=6, feed_forward=15360,
    heads=16, kv_heads=(8, 1), window=1024, context=262144, values_are_keys=True,
)  # fmt: skip
M26B = Model(
    "gemma-4-26B-A4B-it", "gemma4", hidden=2816, layers=30, period=6, feed_forward=2112, heads=16,
    kv_heads=(8, 2), window=1024, context=262144, values_are_keys=True, experts=(128, 8, 704),
)  # fmt: skip
M31B = Model(
    "gemma-4-31B-it", "gemma4", hidden=5376, layers=60, period=6, feed_forward=21504, heads=32,
    kv_heads=(16, 4), window=1024, context=262144, values_are_keys=True,
)  # fmt: skip
_SMALL = {"hidden": 256, "feed_forward": 2048, "heads": 4, "ordered": True}
_LARGE = {"hidden": 1024, "feed_forward": 8192, "heads": 16}
E2B_DRAFTER = _drafter("gemma-4-E2B-it-assistant", E2B, **_SMALL)
E4B_DRAFTER = _drafter("gemma-4-E4B-it-assistant", E4B, **_SMALL)
M12B_DRAFTER = _drafter("gemma-4-12B-it-assistant", M12B, **_LARGE)
M26B_DRAFTER = _drafter("gemma-4-26B-A4B-it-assistant", M26B, **_LARGE)
M31B_DRAFTER = _drafter("gemma-4-31B-it-assistant", M31B, **(_LARGE | {"heads": 32}))


def tensors(model: Model) -> list[Tensor]:
    """Everything in the checkpoint."""
    prefix = "model." if model.backbone else "model.language_model."
    named = [
        ("embed_tokens.weight", "token_embd.weight", (model.vocab, model.hidden)),
        ("norm.weight", "output_norm.weight", (model.hidden,)),
    ]
    if model.per_layer_input:
        width = model.per_layer_input * model.layers
        named += [
            ("embed_tokens_per_layer.weight", "per_layer_token_embd.weight", (model.vocab, width)),
            (
                "per_layer_model_projection.weight",
                "per_layer_model_proj.weight",
                (width, model.hidden),
            ),
            (
                "per_layer_projection_norm.weight",
                "per_layer_proj_norm.weight",
                (model.per_layer_input,),
            ),
        ]
    found = [Tensor(prefix + source, name, shape) for source, name, shape in named]
    for layer in range(model.layers):
        for source, name, shape in _layer(model, layer):
            renamed = None if name is None else f"blk.{layer}.{name}"
            found.append(Tensor(f"{prefix}layers.{layer}.{source}", renamed, shape))
    return [*found, *_outside(model)]


def _outside(model: Model) -> list[Tensor]:
    if model.backbone is None:
        tower = "vision_embedder.patch_dense" if "unified" in model.kind else "vision_tower.stem"
        return [
            Tensor(f"model.{tower}.weight", None, (16, 768)),
            Tensor("model.embed_vision.embedding_projection.weight", None, (model.hidden, 768)),
        ]
    hidden = model.hidden
    found = [
        Tensor(
            "pre_projection.weight", "nextn.pre_projection.weight", (hidden, 2 * model.backbone)
        ),
        Tensor("post_projection.weight", "nextn.post_projection.weight", (model.backbone, hidden)),
    ]
    if model.ordered:
        found += [
            Tensor("masked_embedding.centroids.weight", None, (CENTROIDS, hidden)),
            Tensor("masked_embedding.token_ordering", None, (model.vocab,), "I64"),
        ]
    return found


def _layer(model: Model, layer: int) -> Iterator[tuple[str, str | None, tuple[int, ...]]]:
    hidden, width, sliding = model.hidden, model.widths[layer], model.sliding[layer]
    head_dim = HEAD_DIM if sliding else HEAD_DIM_FULL
    queries, keys = model.heads * head_dim, model.kv_heads[0 if sliding else 1] * head_dim
    yield "input_layernorm.weight", "attn_norm.weight", (hidden,)
    yield "post_attention_layernorm.weight", "post_attention_norm.weight", (hidden,)
    yield "pre_feedforward_layernorm.weight", "ffn_norm.weight", (hidden,)
    yield "post_feedforward_layernorm.weight", "post_ffw_norm.weight", (hidden,)
    yield "layer_scalar", "layer_output_scale.weight", (1,)
    yield "self_attn.q_proj.weight", "attn_q.weight", (queries, hidden)
    yield "self_attn.q_norm.weight", "attn_q_norm.weight", (head_dim,)
    yield "self_attn.o_proj.weight", "attn_output.weight", (hidden, queries)
    if model.backbone is None:
        # Released targets hold the unused weights of layers that share keys and values too.
        own = layer < model.layers - model.shared
        yield "self_attn.k_proj.weight", "attn_k.weight" if own else None, (keys, hidden)
        yield "self_attn.k_norm.weight", "attn_k_norm.weight" if own else None, (head_dim,)
        if sliding or not model.values_are_keys:
            yield "self_attn.v_proj.weight", "attn_v.weight" if own else None, (keys, hidden)
    yield "mlp.gate_proj.weight", "ffn_gate.weight", (width, hidden)
    yield "mlp.up_proj.weight", "ffn_up.weight", (width, hidden)
    yield "mlp.down_proj.weight", "ffn_down.weight", (hidden, width)
    if model.per_layer_input:
        yield "per_layer_input_gate.weight", "inp_gate.weight", (model.per_layer_input, hidden)
        yield "per_layer_projection.weight", "proj.weight", (hidden, model.per_layer_input)
        yield "post_per_layer_input_norm.weight", "post_norm.weight", (hidden,)
    if model.experts:
        count, _, inner = model.experts
        yield "router.proj.weight", "ffn_gate_inp.weight", (count, hidden)
        yield "router.scale", "ffn_gate_inp.scale", (hidden,)
        yield "router.per_expert_scale", "ffn_down_exps.scale", (count,)
        yield "experts.gate_up_proj", "ffn_gate_up_exps.weight", (count, 2 * inner, hidden)
        yield "experts.down_proj", "ffn_down_exps.weight", (count, hidden, inner)
        yield "post_feedforward_layernorm_1.weight", "post_ffw_norm_1.weight", (hidden,)
        yield "pre_feedforward_layernorm_2.weight", "pre_ffw_norm_2.weight", (hidden,)
        yield "post_feedforward_layernorm_2.weight", "post_ffw_norm_2.weight", (hidden,)


def expected_keys(model: Model) -> dict[str, Any]:
    """The `gemma4.*` or `gemma4-assistant.*` keys but for the centroid head's arrays."""
    sliding, full = model.kv_heads
    widths = model.widths
    keys: dict[str, Any] = {
        "context_length": model.context,
        "embedding_length": model.hidden,
        "block_count": model.layers,
        "feed_forward_length": widths if model.wide_shared else widths[0],
        "attention.head_count": model.heads,
        "attention.head_count_kv": (
            sliding if sliding == full else [sliding if s else full for s in model.sliding]
        ),
        "attention.key_length": HEAD_DIM_FULL,
        "attention.value_length": HEAD_DIM_FULL,
        "attention.key_length_swa": HEAD_DIM,
        "attention.value_length_swa": HEAD_DIM,
        "attention.sliding_window": model.window,
        "attention.sliding_window_pattern": model.sliding,
        "attention.shared_kv_layers": model.shared,
        "attention.layer_norm_rms_epsilon": float(np.float32(1e-6)),
        "rope.freq_base": 1e6,
        "rope.freq_base_swa": 1e4,
        "rope.dimension_count": HEAD_DIM_FULL,
        "rope.dimension_count_swa": HEAD_DIM,
        "embedding_length_per_layer_input": model.per_layer_input,
    }
    if model.experts:
        names = ("expert_count", "expert_used_count", "expert_feed_forward_length")
        keys |= zip(names, model.experts, strict=True)
    if model.backbone is None:
        keys["final_logit_softcapping"] = 30.0
    else:
        keys |= {"embedding_length_out": model.backbone, "nextn_predict_layers": model.layers}
    if model.ordered:
        keys |= {
            "masked_embedding.centroid_count": CENTROIDS,
            "masked_embedding.centroid_top_k": TOP_K,
        }
    arch = "gemma4" if model.backbone is None else "gemma4-assistant"
    return {f"{arch}.{key}": value for key, value in keys.items()}
