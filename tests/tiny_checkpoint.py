"""Writes small random Gemma 4 checkpoints: config.json, safetensors and tokenizer.json.

The pair has every trait of the E-series: per-layer embeddings, shared keys and values, sliding and
full layers of different head widths, wide feed-forward on shared layers, a centroid head.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Tensors = dict[str, npt.NDArray[Any]]

SPECIAL = ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|channel>", "<|turn>", "<turn|>")
MERGES = ("h e", "l l", "he ll", "hell o", "▁ hello", "世 界", "\n \n", "\n\n \n")
WORDS = ("he", "ll", "hell", "hello", "▁hello", "世界", "\n\n", "\n\n\n")
LETTERS = tuple("abcdefghijklmnopqrstuvwxyz0123456789(){}=+;:.▁世界\n")
FIXED = (*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), *LETTERS, *WORDS)
VOCAB = 352
TOKENS = (*FIXED, *(f"<filler{index}>" for index in range(VOCAB - len(FIXED))))
HIDDEN, PER_LAYER, DRAFTER_HIDDEN = 64, 32, 32
CENTROIDS, TOP_K = 16, 4


def text_config(layer_types: list[str], **changes: Any) -> dict[str, Any]:
    full = [str(i) for i, kind in enumerate(layer_types) if kind == "full_attention"]
    return {
        "model_type": "gemma4_text",
        "vocab_size": VOCAB,
        "num_hidden_layers": len(layer_types),
        "layer_types": layer_types,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "per_layer_config": {layer: {"head_dim": 64} for layer in full},
        "sliding_window": 16,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-6,
        "hidden_activation": "gelu_pytorch_tanh",
        "rope_parameters": {
            "full_attention": {
                "rope_type": "proportional",
                "rope_theta": 1e6,
                "partial_rotary_factor": 0.25,
            },
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    } | changes


def target_config(**changes: Any) -> dict[str, Any]:
    return (
        text_config(
            ["sliding_attention", "full_attention"] * 3,
            hidden_size=HIDDEN,
            intermediate_size=96,
            hidden_size_per_layer_input=PER_LAYER,
            num_kv_shared_layers=2,
            use_double_wide_mlp=True,
            final_logit_softcapping=30.0,
        )
        | changes
    )


def drafter_config(**changes: Any) -> dict[str, Any]:
    return {
        "model_type": "gemma4_assistant",
        "backbone_hidden_size": HIDDEN,
        "use_ordered_embeddings": True,
        "num_centroids": CENTROIDS,
        "centroid_intermediate_top_k": TOP_K,
        "text_config": text_config(
            ["sliding_attention"] * 3 + ["full_attention"],
            hidden_size=DRAFTER_HIDDEN,
            intermediate_size=64,
            hidden_size_per_layer_input=0,
            num_kv_shared_layers=4,
            final_logit_softcapping=None,
        ),
    } | changes


def target_tensors(config: dict[str, Any], seed: int = 0) -> Tensors:
    """Random weights under checkpoint names without the `model.` prefix."""
    rng = np.random.default_rng(seed)
    layers, hidden, vocab = (
        config[key] for key in ("num_hidden_layers", "hidden_size", "vocab_size")
    )
    width = config["hidden_size_per_layer_input"]
    first_shared = layers - config["num_kv_shared_layers"]
    tensors = {
        "embed_tokens.weight": _random(rng, vocab, hidden, scale=0.3),
        "embed_tokens_per_layer.weight": _random(rng, vocab, width * layers, scale=0.3),
        "per_layer_model_projection.weight": _random(rng, width * layers, hidden),
        "per_layer_projection_norm.weight": _norm(rng, width),
        "norm.weight": _norm(rng, hidden),
    }
    for index in range(layers):
        wide = 2 if index >= first_shared and config["use_double_wide_mlp"] else 1
        layer = _layer_tensors(rng, config, index, config["intermediate_size"] * wide)
        if index < first_shared:
            layer |= _key_value_tensors(rng, config, index)
        layer |= {
            "per_layer_input_gate.weight": _random(rng, width, hidden),
            "per_layer_projection.weight": _random(rng, hidden, width),
            "post_per_layer_input_norm.weight": _norm(rng, hidden),
        }
        tensors |= {f"layers.{index}.{name}": tensor for name, tensor in layer.items()}
    return tensors


def drafter_tensors(config: dict[str, Any], seed: int = 1) -> Tensors:
    rng = np.random.default_rng(seed)
    text, backbone = config["text_config"], config["backbone_hidden_size"]
    hidden = text["hidden_size"]
    tensors = {
        "embed_tokens.weight": _random(rng, VOCAB, hidden, scale=0.3),
        "norm.weight": _norm(rng, hidden),
        "pre_projection.weight": _random(rng, hidden, 2 * backbone),
        "post_projection.weight": _random(rng, backbone, hidden),
        "masked_embedding.centroids.weight": _random(rng, CENTROIDS, hidden),
        "masked_embedding.token_ordering": rng.permutation(VOCAB).astype(np.int64),
    }
    for index in range(text["num_hidden_layers"]):
        layer = _layer_tensors(rng, text, index, text["intermediate_size"])
        tensors |= {f"layers.{index}.{name}": tensor for name, tensor in layer.items()}
    return tensors


def write_target(folder: Path, *, dtype: str = "F32", **changes: Any) -> Tensors:
    """A complete target checkpoint; returns its weights as float32."""
    config = target_config(**changes)
    return _write(folder, config, target_tensors(config), dtype)


def write_drafter(folder: Path, *, dtype: str = "F32", **changes: Any) -> Tensors:
    """A complete drafter checkpoint; returns its weights as float32."""
    config = drafter_config(**changes)
    return _write(folder, config, drafter_tensors(config), dtype)


def tokenizer_json() -> dict[str, Any]:
    added = [
        {"id": index, "content": token, "special": True} for index, token in enumerate(SPECIAL)
    ]
    model = {
        "type": "BPE",
        "byte_fallback": True,
        "vocab": {token: index for index, token in enumerate(TOKENS)},
        "merges": [merge.split(" ") for merge in MERGES],
    }
    return {
        "added_tokens": added,
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"String": " "},
            "behavior": "MergedWithPrevious",
            "invert": False,
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        },
        "model": model,
    }


def stored_names(tensors: Tensors) -> Tensors:
    """The same tensors under the names that a checkpoint file gives them."""
    outside = ("pre_projection", "post_projection", "masked_embedding")
    return {
        name if name.startswith(outside) else f"model.{name}": tensor
        for name, tensor in tensors.items()
    }


def safetensors(tensors: Tensors, dtype: str = "F32") -> bytes:
    """The bytes of a safetensors file. Float tensors are stored as `dtype`: F32, F16 or BF16."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, tensor in tensors.items():
        stored, kind = _encoded(tensor, dtype)
        span = [len(data), len(data) + len(stored)]
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": span}
        data += stored
    return framed(json.dumps(header).encode()) + data


def framed(header: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header


def rounded(tensor: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """`tensor` with the precision that `dtype` leaves it."""
    if tensor.dtype != np.float32 or dtype == "F32":
        return tensor
    if dtype == "F16":
        return tensor.astype(np.float16).astype(np.float32)
    return (tensor.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def _write(folder: Path, config: dict[str, Any], tensors: Tensors, dtype: str) -> Tensors:
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: rounded(tensor, dtype) for name, tensor in tensors.items()}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json()), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ bos_token }}"}))
    (folder / "model.safetensors").write_bytes(safetensors(stored_names(tensors), dtype))
    return tensors


def _encoded(tensor: npt.NDArray[Any], dtype: str) -> tuple[bytes, str]:
    if tensor.dtype == np.int64:
        return tensor.tobytes(), "I64"
    if dtype == "F32":
        return tensor.tobytes(), "F32"
    if dtype == "F16":
        return tensor.astype(np.float16).tobytes(), "F16"
    return (tensor.view(np.uint32) >> 16).astype(np.uint16).tobytes(), "BF16"


def _layer_tensors(
    rng: np.random.Generator, config: dict[str, Any], index: int, feed_forward: int
) -> Tensors:
    hidden, head_dim = config["hidden_size"], _head_dim(config, index)
    queries = head_dim * config["num_attention_heads"]
    norms = (
        "input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
        "post_feedforward_layernorm",
    )  # fmt: skip
    return {f"{name}.weight": _norm(rng, hidden) for name in norms} | {
        "self_attn.q_proj.weight": _random(rng, queries, hidden),
        "self_attn.q_norm.weight": _norm(rng, head_dim),
        "self_attn.o_proj.weight": _random(rng, hidden, queries),
        "mlp.gate_proj.weight": _random(rng, feed_forward, hidden),
        "mlp.up_proj.weight": _random(rng, feed_forward, hidden),
        "mlp.down_proj.weight": _random(rng, hidden, feed_forward),
        "layer_scalar": _norm(rng, 1),
    }


def _key_value_tensors(rng: np.random.Generator, config: dict[str, Any], index: int) -> Tensors:
    head_dim = _head_dim(config, index)
    keys = head_dim * config["num_key_value_heads"]
    return {
        "self_attn.k_proj.weight": _random(rng, keys, config["hidden_size"]),
        "self_attn.v_proj.weight": _random(rng, keys, config["hidden_size"]),
        "self_attn.k_norm.weight": _norm(rng, head_dim),
    }


def _head_dim(config: dict[str, Any], index: int) -> int:
    own = config["per_layer_config"].get(str(index), {})
    return int(own.get("head_dim", config["head_dim"]))


def _random(
    rng: np.random.Generator, *shape: int, scale: float | None = None
) -> npt.NDArray[np.float32]:
    scale = 1.3 / np.sqrt(shape[-1]) if scale is None else scale
    return (scale * rng.standard_normal(shape)).astype(np.float32)


def _norm(rng: np.random.Generator, width: int) -> npt.NDArray[np.float32]:
    return (1 + 0.3 * rng.standard_normal(width)).astype(np.float32)
