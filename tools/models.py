"""Shapes of the embedded pair, and how both models are built, loaded and saved."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import (
    Gemma4AssistantConfig,
    Gemma4AssistantForCausalLM,
    Gemma4ForCausalLM,
    Gemma4TextConfig,
)

from .tokenizer import VOCAB_SIZE

HIDDEN = 256
CENTROIDS = 64
PATTERN = ("sliding_attention", "sliding_attention", "sliding_attention", "full_attention")
SHARED: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "global_head_dim": 128,
    "sliding_window": 128,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": 2,
    "tie_word_embeddings": True,
}


def target_config() -> Gemma4TextConfig:
    """Gemma 4 E-series in miniature: SSSF twice, the second half without KV of its own."""
    return Gemma4TextConfig(
        **SHARED,
        hidden_size=HIDDEN,
        intermediate_size=768,
        num_hidden_layers=8,
        num_attention_heads=4,
        layer_types=list(PATTERN) * 2,
        num_kv_shared_layers=4,
        use_double_wide_mlp=False,
        hidden_size_per_layer_input=32,
        vocab_size_per_layer_input=VOCAB_SIZE,
        final_logit_softcapping=30.0,
    )


def drafter_config() -> Gemma4AssistantConfig:
    """Four layers that read the target's KV cache, with a centroid head."""
    text = Gemma4TextConfig(
        **SHARED,
        hidden_size=128,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        layer_types=list(PATTERN),
        num_kv_shared_layers=4,
        hidden_size_per_layer_input=0,
        vocab_size_per_layer_input=0,
    )
    return Gemma4AssistantConfig(
        text_config=text,
        backbone_hidden_size=HIDDEN,
        use_ordered_embeddings=True,
        num_centroids=CENTROIDS,
        centroid_intermediate_top_k=8,
    )


def new_target(seed: int) -> Gemma4ForCausalLM:
    """A freshly initialised target."""
    torch.manual_seed(seed)
    model = Gemma4ForCausalLM(target_config())
    _initialise(model)
    return model


def new_drafter(seed: int) -> Gemma4AssistantForCausalLM:
    """A freshly initialised drafter; its token ordering is the identity until it is clustered."""
    torch.manual_seed(seed)
    model = Gemma4AssistantForCausalLM(drafter_config())
    _initialise(model)
    with torch.no_grad():
        model.masked_embedding.token_ordering.copy_(torch.arange(VOCAB_SIZE))
    return model


def _initialise(model: torch.nn.Module) -> None:
    # The library's 0.02 suits wide models; at this width 1/sqrt(fan_in) learns faster.
    for name, weight in model.named_parameters():
        if weight.dim() != 2:
            continue
        scale = 1 / 16 if "embed_tokens" in name else weight.shape[1] ** -0.5
        torch.nn.init.normal_(weight, std=scale)


def save(model: torch.nn.Module, folder: Path, tokenizer: Path) -> None:
    """Writes a checkpoint folder: weights, configuration, generation settings, tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    generation = {
        "bos_token_id": 2,
        "pad_token_id": 0,
        "eos_token_id": [1, 16, 9],
        "do_sample": True,
        "temperature": 1.0,
        "top_k": 64,
        "top_p": 0.95,
    }
    if isinstance(model, Gemma4AssistantForCausalLM):
        generation["num_assistant_tokens"] = 3
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2), "utf-8")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(tokenizer / name, folder / name)
