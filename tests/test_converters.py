"""A converted checkpoint computes what the checkpoint computes, in stock llama.cpp."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import llama_runner
import numpy as np
import pytest
import reference_gemma4 as reference
import tiny_checkpoint as tiny
from gemmachat.converters import convert

from gemmachat.gguf_info import check_pair, read_header

GELU = reference.gelu_from_half_table
PROMPT = [int(token) for token in np.random.default_rng(7).integers(8, tiny.VOCAB, 60)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Folders of the target and the drafter checkpoint, float32."""
    root = tmp_path_factory.mktemp("pair")
    tiny.write_target(root / "target")
    tiny.write_drafter(root / "drafter")
    return root / "target", root / "drafter"


def converted(folder: Path, quant: str) -> Path:
    output = folder.with_name(f"{folder.name}-{quant}.gguf")
    if not output.exists():
        convert(folder, output, quant=quant)
    return output


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def test_target_logits_match_the_reference_beyond_the_window(pair: tuple[Path, Path]) -> None:
    config = tiny.target_config()
    run = reference.run_target(tiny.target_tensors(config), config, PROMPT, GELU)
    with (
        llama_runner.loaded(converted(pair[0], "F32")) as model,
        llama_runner.context(model) as context,
    ):
        logits, hidden = llama_runner.prefill(context, PROMPT, tiny.VOCAB, tiny.HIDDEN)
    assert relative_error(logits, run.logits) < 2e-3
    assert relative_error(hidden, run.hidden) < 2e-3
    assert (logits.argmax(axis=1) == run.logits.argmax(axis=1)).all()


def test_drafter_matches_the_reference_over_four_chained_steps(pair: tuple[Path, Path]) -> None:
    config, draft_config = tiny.target_config(), tiny.drafter_config()
    weights, draft_weights = tiny.target_tensors(config), tiny.drafter_tensors(draft_config)
    *context_tokens, bonus = PROMPT[:41]
    position = len(context_tokens)
    run = reference.run_target(weights, config, context_tokens, GELU)
    with (
        llama_runner.loaded(converted(pair[0], "F32")) as target_model,
        llama_runner.loaded(converted(pair[1], "F32")) as drafter_model,
        llama_runner.context(target_model) as target,
        llama_runner.context(drafter_model, other=target) as drafter,
    ):
        _, hidden = llama_runner.prefill(target, context_tokens, tiny.VOCAB, tiny.HIDDEN)
        token, state, expected_state = bonus, hidden[-1], run.hidden[-1]
        for _ in range(4):
            embedded = weights["embed_tokens.weight"][token] * np.sqrt(tiny.HIDDEN)
            expected, expected_state = reference.draft_step(
                draft_weights, draft_config, embedded, expected_state, position, run, GELU
            )
            logits, state = llama_runner.draft(drafter, token, state, position, tiny.VOCAB)
            assert relative_error(logits, expected) < 2e-3
            assert relative_error(state, expected_state) < 2e-3
            token = int(logits.argmax())
            assert token == int(expected.argmax())


@pytest.mark.parametrize("quant", ["F32", "F16", "Q8_0"])
def test_every_quantization_passes_the_header_check_and_loads(
    pair: tuple[Path, Path], quant: str
) -> None:
    target, drafter = (converted(folder, quant) for folder in pair)
    check_pair(read_header(target), read_header(drafter))
    with llama_runner.loaded(target), llama_runner.loaded(drafter):
        pass


def stored(path: Path) -> dict[str, np.ndarray]:
    """Every tensor of a file as float32, matrices as [out, in], read by the gguf package."""
    return {
        tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        for tensor in gguf.GGUFReader(path).tensors
    }


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_half_precision_checkpoints_arrive_exactly(tmp_path: Path, dtype: str) -> None:
    weights = tiny.write_target(tmp_path / "target", dtype=dtype)
    convert(tmp_path / "target", tmp_path / "out.gguf", quant="F32")
    found = stored(tmp_path / "out.gguf")
    assert np.array_equal(found["token_embd.weight"], weights["embed_tokens.weight"])
    assert np.array_equal(found["blk.5.ffn_up.weight"], weights["layers.5.mlp.up_proj.weight"])
    assert np.array_equal(
        found["blk.0.layer_output_scale.weight"], weights["layers.0.layer_scalar"]
    )


def test_shards_and_the_multimodal_prefix_make_the_same_file(tmp_path: Path) -> None:
    weights = tiny.write_target(tmp_path / "target")
    convert(tmp_path / "target", tmp_path / "one.gguf", quant="Q8_0")
    (tmp_path / "target" / "model.safetensors").unlink()
    named = {f"model.language_model.{name}": tensor for name, tensor in weights.items()}
    named["model.vision_tower.patch.weight"] = np.ones((2, 2), np.float32)
    weight_map: dict[str, str] = {}
    for index, names in enumerate((sorted(named)[::2], sorted(named)[1::2])):
        shard = f"model-{index}.safetensors"
        weight_map |= dict.fromkeys(names, shard)
        content = tiny.safetensors({name: named[name] for name in names})
        (tmp_path / "target" / shard).write_bytes(content)
    (tmp_path / "target" / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": weight_map})
    )
    convert(tmp_path / "target", tmp_path / "two.gguf", quant="Q8_0")
    assert (tmp_path / "one.gguf").read_bytes() == (tmp_path / "two.gguf").read_bytes()


def test_q8_0_keeps_vectors_exact_and_matrices_within_a_step(pair: tuple[Path, Path]) -> None:
    weights = tiny.target_tensors(tiny.target_config())
    path = converted(pair[0], "Q8_0")
    types = {name: tensor.type_name for name, tensor in read_header(path).tensors.items()}
    assert {kind for name, kind in types.items() if "norm" in name} == {"F32"}
    assert types["blk.0.attn_q.weight"] == types["per_layer_token_embd.weight"] == "Q8_0"
    found = stored(path)
    assert np.array_equal(found["output_norm.weight"], weights["norm.weight"])
    original = weights["layers.2.mlp.down_proj.weight"].reshape(-1, 32)
    step = np.abs(original).max(axis=1, keepdims=True) / 127
    error = np.abs(found["blk.2.ffn_down.weight"].reshape(-1, 32) - original)
    assert (error <= 0.6 * step).all()


def test_centroid_head_arrives_as_metadata(pair: tuple[Path, Path]) -> None:
    weights = tiny.drafter_tensors(tiny.drafter_config())
    metadata = read_header(converted(pair[1], "Q8_0")).metadata
    prefix = "gemma4-assistant.masked_embedding"
    assert metadata[f"{prefix}.centroid_count"] == tiny.CENTROIDS
    assert metadata[f"{prefix}.centroid_top_k"] == tiny.TOP_K
    centroids = np.array(metadata[f"{prefix}.centroids"], np.float32)
    expected = weights["masked_embedding.centroids.weight"]
    assert np.array_equal(centroids.reshape(expected.shape), expected)
    ordering = np.array(metadata[f"{prefix}.token_ordering"])
    assert np.array_equal(ordering, weights["masked_embedding.token_ordering"])


def test_drafter_with_a_dense_head_has_no_centroid_keys(tmp_path: Path) -> None:
    tiny.write_drafter(tmp_path / "drafter", use_ordered_embeddings=False)
    convert(tmp_path / "drafter", tmp_path / "out.gguf", quant="F32")
    assert not [key for key in read_header(tmp_path / "out.gguf").metadata if "masked" in key]


def test_both_spellings_of_full_layer_widths_make_the_same_file(tmp_path: Path) -> None:
    tiny.write_target(tmp_path / "target")
    convert(tmp_path / "target", tmp_path / "new.gguf", quant="F16")
    config = tiny.target_config(global_head_dim=64)
    del config["per_layer_config"]
    (tmp_path / "target" / "config.json").write_text(json.dumps(config))
    convert(tmp_path / "target", tmp_path / "old.gguf", quant="F16")
    assert (tmp_path / "new.gguf").read_bytes() == (tmp_path / "old.gguf").read_bytes()
