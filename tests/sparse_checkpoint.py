"""Checkpoints of the real models, complete but for their numbers: the files are sparse."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from full_size import CENTROIDS, HEAD_DIM, HEAD_DIM_FULL, TOP_K, VOCAB, Model, Tensor, tensors

SHARD_BYTES = 10_000_000_000


def token_ordering(vocab: int = VOCAB) -> np.ndarray:
    return np.random.default_rng(0).permutation(vocab).astype("<i8")


def write_checkpoint(model: Model, folder: Path, tokenizer: Path) -> None:
    """A folder that shares the files of the folder `tokenizer`; all weights are zeros."""
    folder.mkdir()
    for file in tokenizer.iterdir():
        (folder / file.name).symlink_to(file)
    (folder / "config.json").write_text(json.dumps(_config(model)))
    shards: list[list[Tensor]] = [[]]
    for tensor in tensors(model):
        if shards[-1] and sum(t.nbytes for t in shards[-1]) + tensor.nbytes > SHARD_BYTES:
            shards.append([])
        shards[-1].append(tensor)
    if len(shards) == 1:
        _write_sparse(folder / "model.safetensors", shards[0])
        return
    places: dict[str, str] = {}
    for index, shard in enumerate(shards, 1):
        name = f"model-{index:05}-of-{len(shards):05}.safetensors"
        _write_sparse(folder / name, shard)
        places |= {tensor.source: name for tensor in shard}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


def _write_sparse(path: Path, shard: list[Tensor]) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    begins: dict[str, int] = {}
    end = 0
    for tensor in shard:
        begin, end = end, end + tensor.nbytes
        begins[tensor.source] = begin
        header[tensor.source] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
    encoded = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(encoded)) + encoded)
        data = file.tell()
        file.truncate(data + end)
        for tensor in shard:
            if tensor.dtype == "I64":
                file.seek(data + begins[tensor.source])
                file.write(token_ordering(*tensor.shape).tobytes())


def _config(model: Model) -> dict[str, Any]:
    kinds = ["sliding_attention" if sliding else "full_attention" for sliding in model.sliding]
    text = {
        "model_type": f"{model.kind.removesuffix('_assistant')}_text",
        "vocab_size": model.vocab,
        "hidden_size": model.hidden,
        "num_hidden_layers": model.layers,
        "layer_types": kinds,
        "intermediate_size": model.feed_forward,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads[0],
        "head_dim": HEAD_DIM,
        "attention_k_eq_v": model.values_are_keys,
        "attention_bias": False,
        "num_kv_shared_layers": model.shared,
        "use_double_wide_mlp": model.wide_shared,
        "hidden_size_per_layer_input": model.per_layer_input,
        "sliding_window": model.window,
        "max_position_embeddings": model.context,
        "rms_norm_eps": 1e-6,
        "hidden_activation": "gelu_pytorch_tanh",
        "final_logit_softcapping": 30.0 if model.backbone is None else None,
        "tie_word_embeddings": True,
        "rope_parameters": {
            "full_attention": {
                "rope_type": "proportional",
                "rope_theta": 1000000.0,
                "partial_rotary_factor": 0.25,
            },
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    }
    text |= _full_layers(model, kinds)
    if model.experts:
        names = ("num_experts", "top_k_experts", "moe_intermediate_size")
        text |= zip(names, model.experts, strict=True)
        text["enable_moe_block"] = True
    outer: dict[str, Any] = {
        "model_type": model.kind,
        "text_config": text,
        "tie_word_embeddings": True,
    }
    if model.backbone is not None:
        outer["backbone_hidden_size"] = model.backbone
        outer["use_ordered_embeddings"] = model.ordered
        outer["num_centroids"] = CENTROIDS
        outer["centroid_intermediate_top_k"] = TOP_K
    return outer


def _full_layers(model: Model, kinds: list[str]) -> dict[str, Any]:
    """What differs in full layers: targets spell it the older way here, drafters the newer."""
    full_heads = model.kv_heads[1]
    if model.backbone is None:
        return {
            "global_head_dim": HEAD_DIM_FULL,
            "num_global_key_value_heads": full_heads if model.values_are_keys else None,
        }
    own = {"head_dim": HEAD_DIM_FULL, "num_key_value_heads": full_heads}
    return {
        "per_layer_config": {
            str(layer): own for layer, kind in enumerate(kinds) if kind == "full_attention"
        }
    }
