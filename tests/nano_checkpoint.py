"""Writes a very small random checkpoint of every member of the Gemma 4 family, with its drafter.

Each has its member's traits: which layers share keys and values, values taken from keys, key-value
heads per layer type, wide feed-forward, experts, per-layer embeddings, a centroid head, the
spelling of its config, the prefix of its tensors. `tools/make_nano_vectors.py` has transformers
compute what they must compute.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import random_weights
import tiny_checkpoint as tiny
from random_weights import Tensors

NAMES = ("e2b", "e4b", "12b", "26b-a4b", "31b")
HIDDEN, VOCAB, WINDOW = tiny.HIDDEN, tiny.VOCAB, 16
PROMPT_LENGTH, CONTEXT_LENGTH, DRAFT_STEPS = 48, 12, 4

_KINDS = {"S": "sliding_attention", "F": "full_attention"}
_MULTIMODAL = "model.language_model."
# Layers and key-value heads of sliding and full layers.
_SHAPES = {
    "e2b": ("SFSFSF", 1, 1),
    "e4b": ("SSFSSF", 2, 2),
    "12b": ("SSFSSF", 4, 1),
    "26b-a4b": ("SFSF", 2, 1),
    "31b": ("SSSFSF", 4, 2),
}
_E_SERIES = {"hidden_size_per_layer_input": 32, "vocab_size_per_layer_input": VOCAB}
_NO_PER_LAYER_INPUT = {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0}
_TRAITS: dict[str, dict[str, Any]] = {
    "e2b": _E_SERIES | {"num_kv_shared_layers": 2, "use_double_wide_mlp": True},
    "e4b": _E_SERIES | {"num_kv_shared_layers": 3},
    "12b": {"attention_k_eq_v": True, "use_bidirectional_attention": "vision"},
    "26b-a4b": _NO_PER_LAYER_INPUT
    | {
        "attention_k_eq_v": True,
        "enable_moe_block": True,
        "num_experts": 10,
        "top_k_experts": 3,
        "moe_intermediate_size": 32,
    },
    "31b": _NO_PER_LAYER_INPUT | {"attention_k_eq_v": True, "num_attention_heads": 8},
}
# Chosen so that rounding cannot exchange the best two logits anywhere.
_SEEDS = {"e2b": 230, "e4b": 101, "12b": 162, "26b-a4b": 13, "31b": 254}
_OLDER_SPELLING = ("e2b", "26b-a4b")
# Parts that a text model leaves behind.
_TOWERS = {
    "e2b": (
        "model.vision_tower.patch_embedder.input_proj.weight",
        "model.audio_tower.output_proj.weight",
        "model.embed_vision.embedding_projection.weight",
        "model.embed_audio.embedding_projection.weight",
    ),
    "12b": (
        "model.vision_embedder.patch_dense.weight",
        "model.embed_vision.embedding_projection.weight",
        "model.embed_audio.embedding_projection.weight",
    ),
}


def target_config(name: str) -> dict[str, Any]:
    layers, _, _ = _SHAPES[name]
    text = _text_config(
        name,
        layers,
        {
            "hidden_size": HIDDEN,
            "intermediate_size": 96,
            "final_logit_softcapping": 30.0,
            **_TRAITS[name],
        },
    )
    if name not in _TOWERS:
        return text | {"architectures": ["Gemma4ForCausalLM"]}
    unified = "Unified" if name == "12b" else ""
    return {
        "model_type": text["model_type"].removesuffix("_text"),
        "architectures": [f"Gemma4{unified}ForConditionalGeneration"],
        "text_config": text,
        "vision_config": None,
        "audio_config": None,
    }


def drafter_config(name: str) -> dict[str, Any]:
    changes: dict[str, Any] = {"hidden_size": tiny.DRAFTER_HIDDEN, "intermediate_size": 64}
    # Both ways of saying that a drafter computes no keys and values.
    changes["num_kv_shared_layers"] = 0 if name in ("e4b", "26b-a4b") else 4
    changes["attention_k_eq_v"] = name not in ("e2b", "e4b")
    changes["num_attention_heads"] = _TRAITS[name].get("num_attention_heads", 4)
    if name != "12b":
        changes |= _NO_PER_LAYER_INPUT
    unified = name == "12b"
    return {
        "model_type": "gemma4_unified_assistant" if unified else "gemma4_assistant",
        "architectures": [f"Gemma4{'Unified' if unified else ''}AssistantForCausalLM"],
        "backbone_hidden_size": HIDDEN,
        "use_ordered_embeddings": name in ("e2b", "e4b"),
        "num_centroids": tiny.CENTROIDS,
        "centroid_intermediate_top_k": tiny.TOP_K,
        "text_config": _text_config(name, "SSSF", changes),
    }


def text_of(config: dict[str, Any]) -> dict[str, Any]:
    """The part of a config that describes the text model."""
    text: dict[str, Any] = config.get("text_config", config)
    return text


def target_tensors(name: str) -> Tensors:
    """Weights under the names that the checkpoint stores them by."""
    weights = random_weights.target_weights(text_of(target_config(name)), _SEEDS[name])
    towers = _TOWERS.get(name, ())
    return tiny.stored_names(weights, _MULTIMODAL if towers else "model.") | {
        tower: np.full((2, 3), index, np.float32) for index, tower in enumerate(towers)
    }


def drafter_tensors(name: str) -> Tensors:
    weights = random_weights.drafter_weights(drafter_config(name), 100 + _SEEDS[name])
    return tiny.stored_names(weights)


def towers(name: str) -> list[str]:
    """Names of the tensors that no text model has."""
    return sorted(_TOWERS.get(name, ()))


def write_pair(root: Path, name: str) -> tuple[Path, Path]:
    """Folders of the target and the drafter."""
    target, drafter = root / name, root / f"{name}-assistant"
    tiny.write_folder(target, target_config(name), target_tensors(name))
    tiny.write_folder(drafter, drafter_config(name), drafter_tensors(name))
    return target, drafter


def prompt(name: str) -> list[int]:
    """Tokens of a prompt that is longer than the sliding window."""
    rng = np.random.RandomState(200 + _SEEDS[name])
    return [int(token) for token in rng.randint(len(tiny.SPECIAL), VOCAB, PROMPT_LENGTH)]


def digest(name: str) -> str:
    """SHA-256 of all weights of the pair."""
    sha = hashlib.sha256()
    for tensors in (target_tensors(name), drafter_tensors(name)):
        for key in sorted(tensors):
            sha.update(f"{key} {tensors[key].dtype.str} {tensors[key].shape}\n".encode())
            sha.update(np.ascontiguousarray(tensors[key]).tobytes())
    return sha.hexdigest()


def _text_config(name: str, layers: str, changes: dict[str, Any]) -> dict[str, Any]:
    _, kv_heads, kv_heads_full = _SHAPES[name]
    text = tiny.text_config(
        [_KINDS[kind] for kind in layers],
        model_type="gemma4_unified_text" if name == "12b" else "gemma4_text",
        num_key_value_heads=kv_heads,
        sliding_window=WINDOW,
    )
    if name in _OLDER_SPELLING:
        del text["per_layer_config"]
        # Two heads hold only where values are taken from keys: in e2b they must be ignored.
        text["num_global_key_value_heads"] = 2 if name == "e2b" else kv_heads_full
        text["global_head_dim"] = 64
    elif kv_heads != kv_heads_full:
        for own in text["per_layer_config"].values():
            own["num_key_value_heads"] = kv_heads_full
    return text | changes
