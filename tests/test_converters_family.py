"""Every member of the Gemma 4 family, converted and run by stock llama.cpp, computes what
transformers computes.

The expected numbers in tests/data/nano are transformers' own (tools/make_nano_vectors.py); the
weights behind them are drawn anew from a frozen stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import llama_runner
import nano_checkpoint as nano
import numpy as np
import numpy.typing as npt
import pytest
import tiny_checkpoint as tiny
from gemmachat.converters import CheckpointError, convert, names
from gemmachat.converters.checkpoint import open_checkpoint
from gemmachat.converters.config import read_hparams

from gemmachat.gguf_info import check_pair, read_header

Array = npt.NDArray[Any]
FIXTURES = Path(__file__).parent / "data" / "nano"
TOLERANCE = 2e-3
HEAD = "lm_head.weight"

every_member = pytest.mark.parametrize("name", nano.NAMES)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, tuple[Path, Path]]:
    """Converted target and drafter of every member."""
    root = tmp_path_factory.mktemp("family")
    converted = {}
    for name in nano.NAMES:
        outputs = []
        for folder in nano.write_pair(root, name):
            outputs.append(root / f"{folder.name}.gguf")
            convert(folder, outputs[-1], quant="F32")
        converted[name] = (outputs[0], outputs[1])
    return converted


def fixture(name: str) -> dict[str, Array]:
    with np.load(FIXTURES / f"{name}.npz") as arrays:
        return dict(arrays)


def relative_error(found: Array, expected: Array) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def assert_same_logits(found: Array, expected: Array) -> None:
    assert relative_error(found, expected) <= TOLERANCE
    assert (found.argmax(axis=-1) == expected.argmax(axis=-1)).all()


def run_target(path: Path, tokens: list[int]) -> tuple[Array, Array]:
    with llama_runner.loaded(path) as model, llama_runner.context(model) as context:
        return llama_runner.prefill(context, tokens, nano.VOCAB, nano.HIDDEN)


@every_member
def test_weights_are_those_that_the_expected_numbers_belong_to(name: str) -> None:
    assert nano.digest(name) == str(fixture(name)["weights_sha256"])
    assert nano.prompt(name) == fixture(name)["tokens"].tolist()


@every_member
def test_target_computes_what_transformers_computes_beyond_the_window(
    pairs: Mapping[str, tuple[Path, Path]], name: str
) -> None:
    expected = fixture(name)
    assert len(expected["tokens"]) > 2 * nano.WINDOW
    logits, hidden = run_target(pairs[name][0], expected["tokens"].tolist())
    assert_same_logits(logits, expected["logits"])
    assert relative_error(hidden, expected["hidden"]) <= TOLERANCE


@every_member
def test_drafter_computes_what_transformers_computes_over_four_chained_steps(
    pairs: Mapping[str, tuple[Path, Path]], name: str
) -> None:
    expected = fixture(name)
    target_path, drafter_path = pairs[name]
    seen = expected["tokens"].tolist()[: nano.CONTEXT_LENGTH]
    head = CentroidHead(drafter_path) if has_centroids(drafter_path) else None
    assert (head is not None) == nano.drafter_config(name)["use_ordered_embeddings"]
    with (
        llama_runner.loaded(target_path) as target_model,
        llama_runner.loaded(drafter_path) as drafter_model,
        llama_runner.context(target_model) as target,
        llama_runner.context(drafter_model, other=target) as drafter,
    ):
        _, hidden = llama_runner.prefill(target, seen, nano.VOCAB, nano.HIDDEN)
        state, token = hidden[-1], int(expected["draft_tokens"][0])
        for step in range(nano.DRAFT_STEPS):
            assert token == expected["draft_tokens"][step]
            logits, state = llama_runner.draft(drafter, token, state, len(seen), nano.VOCAB)
            if head is not None:
                logits = head.mask(logits, state)
            assert_same_logits(logits, expected["draft_logits"][step])
            assert relative_error(state, expected["draft_states"][step]) <= TOLERANCE
            token = int(logits.argmax())


def has_centroids(path: Path) -> bool:
    return any("masked_embedding" in key for key in read_header(path).metadata)


class CentroidHead:
    """The centroid head that a converted drafter carries, applied the way transformers does."""

    def __init__(self, path: Path) -> None:
        fields = gguf.GGUFReader(path).fields
        prefix = "gemma4-assistant.masked_embedding"

        def value(key: str) -> Any:
            return fields[f"{prefix}.{key}"].contents()

        self.top_k = int(value("centroid_top_k"))
        self.centroids = np.array(value("centroids")).reshape(int(value("centroid_count")), -1)
        ordering = np.array(value("token_ordering"))
        self.clusters = ordering.reshape(len(self.centroids), -1)
        self.post_projection = stored(path)["nextn.post_projection.weight"]

    def mask(self, dense: Array, next_state: Array) -> Array:
        """Dense logits with all but the tokens of the best clusters below the least of those."""
        # llama.cpp does not hand out the row before the projection, but the state determines it.
        row = np.linalg.lstsq(self.post_projection, next_state, rcond=None)[0]
        best = np.argsort(self.centroids @ row)[-self.top_k :]
        tokens = self.clusters[best].reshape(-1)
        masked = np.full_like(dense, dense[tokens].min() - 1.0)
        masked[tokens] = dense[tokens]
        return masked


@every_member
def test_converted_pair_passes_the_header_check(
    pairs: Mapping[str, tuple[Path, Path]], name: str
) -> None:
    check_pair(*(read_header(path) for path in pairs[name]))


def test_drafter_of_another_member_does_not_pass(pairs: Mapping[str, tuple[Path, Path]]) -> None:
    with pytest.raises(Exception, match="drafter for another model"):
        check_pair(read_header(pairs["31b"][0]), read_header(pairs["12b"][1]))


def stored(path: Path) -> dict[str, Array]:
    """Every tensor of a file in checkpoint order of dimensions."""
    return {tensor.name: tensor.data for tensor in gguf.GGUFReader(path).tensors}


@every_member
@pytest.mark.parametrize("part", ["target", "drafter"])
def test_every_weight_arrives_bit_exact_and_none_is_invented(
    pairs: Mapping[str, tuple[Path, Path]], name: str, part: str
) -> None:
    tensors = nano.target_tensors(name) if part == "target" else nano.drafter_tensors(name)
    left_out = {*nano.towers(name), names.CENTROIDS, names.TOKEN_ORDERING}
    expected = sorted(
        (tensor.shape, tensor.tobytes()) for key, tensor in tensors.items() if key not in left_out
    )
    found = stored(pairs[name][part == "drafter"])
    del found[names.ROPE_FREQS]
    assert sorted((tensor.shape, tensor.tobytes()) for tensor in found.values()) == expected


@every_member
def test_tensors_for_images_and_sound_are_named_as_skipped(tmp_path: Path, name: str) -> None:
    target, drafter = (open_checkpoint(folder) for folder in nano.write_pair(tmp_path, name))
    assert names.skipped(read_hparams(target.config), target.tensors) == nano.towers(name)
    assert names.skipped(read_hparams(drafter.config), drafter.tensors) == []


def test_experts_are_counted_in_the_metadata(pairs: Mapping[str, tuple[Path, Path]]) -> None:
    metadata = read_header(pairs["26b-a4b"][0]).metadata
    assert metadata["gemma4.expert_count"] == 10
    assert metadata["gemma4.expert_used_count"] == 3
    assert metadata["gemma4.expert_feed_forward_length"] == 32
    assert metadata["gemma4.feed_forward_length"] == 96


@every_member
def test_numbers_that_logits_hardly_show_are_in_the_metadata(
    pairs: Mapping[str, tuple[Path, Path]], name: str
) -> None:
    for path in pairs[name]:
        info = read_header(path)
        found = {key.partition(".")[2]: value for key, value in info.metadata.items()}
        assert found["attention.layer_norm_rms_epsilon"] == np.float32(1e-6)
        assert found["attention.sliding_window"] == nano.WINDOW
        assert found["rope.freq_base"] == 1e6
        assert found["rope.freq_base_swa"] == 1e4
        assert found["context_length"] == 512


def without(config: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in keys}


def test_widths_that_a_config_leaves_out_are_those_of_transformers() -> None:
    config = nano.target_config("31b")
    hparams = read_hparams(without(config, "per_layer_config", "layer_types"))
    assert (hparams.head_dim_full, hparams.kv_heads_full) == (512, hparams.kv_heads_sliding)
    assert hparams.sliding == (True,) * 5 + (False,)
    hparams = read_hparams(without(config, "hidden_size_per_layer_input"))
    assert hparams.per_layer_input == 256
    drafter = nano.drafter_config("e4b")
    drafter["text_config"]["vocab_size"] = 4096
    head = read_hparams(without(drafter, "num_centroids", "centroid_intermediate_top_k")).centroids
    assert head is not None
    assert (head.count, head.top_k) == (2048, 32)


@pytest.mark.parametrize("name", ["31b", "12b"])
def test_head_of_its_own_replaces_the_embedding(tmp_path: Path, name: str) -> None:
    config = nano.target_config(name) | {"tie_word_embeddings": False}
    head = np.random.RandomState(9).standard_normal((nano.VOCAB, nano.HIDDEN)).astype(np.float32)
    tiny.write_folder(tmp_path / "target", config, nano.target_tensors(name) | {HEAD: head})
    convert(tmp_path / "target", tmp_path / "out.gguf", quant="F32")
    check_pair(read_header(tmp_path / "out.gguf"), None)
    expected = fixture(name)
    logits, _ = run_target(tmp_path / "out.gguf", expected["tokens"].tolist())
    cap = nano.text_of(config)["final_logit_softcapping"]
    assert_same_logits(logits, cap * np.tanh(expected["hidden"] @ head.T / cap))


def converted_with(folder: Path, config: dict[str, Any], tensors: dict[str, Array]) -> bytes:
    tiny.write_folder(folder / "checkpoint", config, tensors)
    convert(folder / "checkpoint", folder / "out.gguf", quant="F32", force=True)
    return (folder / "out.gguf").read_bytes()


def test_tied_head_that_is_stored_again_changes_nothing(tmp_path: Path) -> None:
    config, tensors = nano.target_config("31b"), nano.target_tensors("31b")
    plain = converted_with(tmp_path, config, tensors)
    again = tensors | {HEAD: tensors["model.embed_tokens.weight"]}
    assert converted_with(tmp_path, config, again) == plain


def test_keys_and_values_left_over_on_shared_layers_change_nothing(tmp_path: Path) -> None:
    config, tensors = nano.target_config("e4b"), nano.target_tensors("e4b")
    plain = converted_with(tmp_path, config, tensors)
    parts = ("k_proj", "v_proj", "k_norm")
    leftovers = {f"model.layers.5.self_attn.{part}.weight": np.ones(3, "f4") for part in parts}
    assert converted_with(tmp_path, config, tensors | leftovers) == plain


def test_both_spellings_of_the_config_make_the_same_file(tmp_path: Path) -> None:
    older, tensors = nano.target_config("26b-a4b"), nano.target_tensors("26b-a4b")
    newer = without(older, "global_head_dim", "num_global_key_value_heads")
    newer["per_layer_config"] = {
        str(layer): {"head_dim": 64, "num_key_value_heads": 1} for layer in (1, 3)
    }
    older_file = converted_with(tmp_path, older, tensors)
    assert converted_with(tmp_path, newer, tensors) == older_file
    # Where both are given, the newer one holds.
    both = newer | {"global_head_dim": 128, "num_global_key_value_heads": 2}
    assert converted_with(tmp_path, both, tensors) == older_file


@pytest.mark.parametrize(
    "key", ["rope_parameters", "num_kv_shared_layers", "hidden_activation", "tie_word_embeddings"]
)
def test_what_transformers_assumes_may_be_left_out_of_the_config(tmp_path: Path, key: str) -> None:
    stated = {"num_kv_shared_layers": 0, "tie_word_embeddings": True}
    config, tensors = nano.target_config("31b") | stated, nano.target_tensors("31b")
    plain = converted_with(tmp_path, config, tensors)
    del config[key]
    assert converted_with(tmp_path, config, tensors) == plain


def test_value_projection_beside_values_from_keys_is_refused(tmp_path: Path) -> None:
    extra = "model.layers.3.self_attn.v_proj.weight"
    tensors = nano.target_tensors("31b") | {extra: np.ones((128, nano.HIDDEN), np.float32)}
    with pytest.raises(CheckpointError, match=rf"'{extra}' in 'model.safetensors' is not part"):
        converted_with(tmp_path, nano.target_config("31b"), tensors)


def test_expert_tensor_of_another_shape_is_refused(tmp_path: Path) -> None:
    name = "model.layers.0.experts.down_proj"
    tensors = nano.target_tensors("26b-a4b")
    tensors[name] = np.ascontiguousarray(tensors[name].swapaxes(1, 2))
    with pytest.raises(CheckpointError, match=rf"'{name}' in 'model.safetensors' has shape"):
        converted_with(tmp_path, nano.target_config("26b-a4b"), tensors)
