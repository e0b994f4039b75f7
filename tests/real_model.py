"""A model of two narrow layers that knows all of Gemma 4's real tokens."""

from __future__ import annotations

from pathlib import Path

import tiny_checkpoint as tiny
from gemmachat.converters import convert
from real_vocab import SIZE, RealVocab


def write_real_model(folder: Path, real: RealVocab) -> Path:
    """Write its checkpoint into a folder and convert it; returns the GGUF file."""
    tiny.write_target(
        folder,
        dtype="BF16",
        vocab_size=SIZE,
        num_hidden_layers=2,
        layer_types=["sliding_attention", "full_attention"],
        hidden_size=32,
        intermediate_size=32,
        per_layer_config={"1": {"head_dim": 64}},
        num_kv_shared_layers=0,
        use_double_wide_mlp=False,
    )
    real.write_tokenizer(folder)
    convert(folder, folder / "out.gguf", quant="Q8_0")
    return folder / "out.gguf"
