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
import random_weights
from random_weights import Tensors

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
    return random_weights.target_weights(config, seed)


def drafter_tensors(config: dict[str, Any], seed: int = 1) -> Tensors:
    return random_weights.drafter_weights(config, seed)


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
    return {"added_tokens": added, **tokenizer_scheme(), "model": model}


def tokenizer_scheme() -> dict[str, Any]:
    """The steps of Gemma 4's tokenizer around its byte pairs, as tokenizer.json has them."""
    return {
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
    }


def stored_names(tensors: Tensors, prefix: str = "model.") -> Tensors:
    """The same tensors under the names that a checkpoint file gives them."""
    outside = ("pre_projection", "post_projection", "masked_embedding")
    return {
        name if name.startswith(outside) else f"{prefix}{name}": tensor
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


def write_folder(folder: Path, config: dict[str, Any], stored: Tensors, dtype: str = "F32") -> None:
    """A checkpoint of these tensors under their stored names, with the tokenizer above."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json()), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ bos_token }}"}))
    (folder / "model.safetensors").write_bytes(safetensors(stored, dtype))


def _write(folder: Path, config: dict[str, Any], tensors: Tensors, dtype: str) -> Tensors:
    tensors = {name: rounded(tensor, dtype) for name, tensor in tensors.items()}
    write_folder(folder, config, stored_names(tensors), dtype)
    return tensors


def _encoded(tensor: npt.NDArray[Any], dtype: str) -> tuple[bytes, str]:
    if tensor.dtype == np.int64:
        return tensor.tobytes(), "I64"
    if dtype == "F32":
        return tensor.tobytes(), "F32"
    if dtype == "F16":
        return tensor.astype(np.float16).tobytes(), "F16"
    return (tensor.view(np.uint32) >> 16).astype(np.uint16).tobytes(), "BF16"
