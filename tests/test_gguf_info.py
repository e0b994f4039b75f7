"""A well-formed file that llama.cpp would refuse, misread or die of does not get past the check."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import gguf_builder as build
import llama_runner
import numpy as np
import pytest
import tiny_checkpoint as tiny
from gemmachat.converters import gguf_values as values
from gemmachat.converters.conversion import plan_file
from gemmachat.converters.write import GgufFile, TensorData, write_files

from gemmachat.errors import DamagedFileError, PairMismatchError
from gemmachat.gguf_info import check_pair, read_header

TYPE_F16, TYPE_Q8_1, TYPE_I32 = 1, 9, 26
DUPLICATE = [*tiny.TOKENS[:-1], tiny.TOKENS[-2]]
EMPTY = [*tiny.TOKENS[:-2], "[EMPTY_351]", ""]
Change = dict[str, values.Value | None]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    tiny.write_target(folder / "target")
    tiny.write_drafter(folder / "drafter")
    return folder


def variant(
    root: Path,
    kind: str,
    keys: Change | None = None,
    tensors: Callable[[list[TensorData]], list[TensorData]] = lambda plan: plan,
) -> Path:
    """The tiny target or drafter with some keys replaced, or dropped where the value is None."""
    plan = plan_file(root / kind, quant="F32")
    metadata = {**plan.metadata, **(keys or {})}
    kept = {key: value for key, value in metadata.items() if value is not None}
    path = root / f"{kind}.gguf"
    write_files({path: GgufFile(kept, tensors(list(plan.tensors)))}, force=True)
    return path


def retyped(name: str, kind: int, nbytes: Callable[[int], int]) -> Callable[..., list[TensorData]]:
    def change(plan: list[TensorData]) -> list[TensorData]:
        return [
            blank(tensor.name, tensor.shape, kind, nbytes(math.prod(tensor.shape)))
            if tensor.name == name
            else tensor
            for tensor in plan
        ]

    return change


def blank(name: str, shape: tuple[int, ...], kind: int, nbytes: int) -> TensorData:
    return TensorData(name, shape, kind, nbytes, lambda: iter([lambda: np.zeros(nbytes, np.uint8)]))


def without(name: str) -> Callable[[list[TensorData]], list[TensorData]]:
    return lambda plan: [tensor for tensor in plan if tensor.name != name]


def with_extra(name: str, shape: tuple[int, ...]) -> Callable[[list[TensorData]], list[TensorData]]:
    return lambda plan: [*plan, blank(name, shape, 0, 4 * math.prod(shape))]


def u32(key: str, value: int, arch: str = "gemma4") -> Change:
    return {f"{arch}.{key}": values.uint32(value)}


# Each of these makes llama.cpp 0.3.36 end the process, refuse to load, or compute nonsense.
IMPOSSIBLE_KEYS: dict[str, tuple[Change, str]] = {
    "no layers": (u32("block_count", 0), "block_count"),
    "too many layers": (u32("block_count", 600), "block_count"),
    "fewer layers than described": (u32("block_count", 4), "6 values of gemma4.feed_forward"),
    "layer count as text": ({"gemma4.block_count": values.string("6")}, "stores gemma4.block"),
    "prediction layers": (u32("nextn_predict_layers", 9), "prediction layers"),
    "experts used but none there": (u32("expert_used_count", 2), "experts"),
    "experts without width": (u32("expert_count", 4), "expert_feed_forward_length"),
    "too many experts": (u32("expert_count", 2000), "expert_count"),
    "expert groups": (u32("expert_group_count", 1), "groups"),
    "rope scaling": ({"gemma4.rope.scaling.type": values.string("banana")}, "rope scaling"),
    "all layers share": (u32("attention.shared_kv_layers", 6), "own keys and values"),
    "five layers share": (u32("attention.shared_kv_layers", 5), "own keys and values"),
    "more layers share than exist": (u32("attention.shared_kv_layers", 9), "shared_kv_layers"),
    "owners end with a full layer too early": (u32("attention.shared_kv_layers", 1), "own keys"),
    "no sliding layer": (
        {"gemma4.attention.sliding_window_pattern": values.boolean_array([False] * 6)},
        "sliding and a full",
    ),
    "no full layer": (
        {"gemma4.attention.sliding_window_pattern": values.boolean_array([True] * 6)},
        "sliding and a full",
    ),
    "pattern too short": (
        {"gemma4.attention.sliding_window_pattern": values.boolean_array([True])},
        "1 layers, but has 6",
    ),
    "pattern as a number": (u32("attention.sliding_window_pattern", 6), "arr[bool]"),
    "window 0": (u32("attention.sliding_window", 0), "sliding_window"),
    "no window": ({"gemma4.attention.sliding_window": None}, "lacks the key"),
    "heads not divisible": (u32("attention.head_count_kv", 3), "cannot divide"),
    "no heads": (u32("attention.head_count", 0), "head_count"),
    "too few head counts": (
        {"gemma4.attention.head_count_kv": values.int32_array([2, 2])},
        "2 values",
    ),
    "negative head count": (
        {"gemma4.attention.head_count_kv": values.int32_array([2, 2, 2, 2, 2, -2])},
        "'-2'",
    ),
    "shared layer with other heads": (
        {"gemma4.attention.head_count_kv": values.int32_array([2, 2, 2, 2, 4, 4])},
        "layer 4",
    ),
    "keys and values differ": (u32("attention.value_length", 32), "different widths"),
    "width of values not given": ({"gemma4.attention.value_length": None}, "different widths"),
    "odd rotation": (u32("rope.dimension_count", 63), "odd number"),
    "rotation wider than a head": (u32("rope.dimension_count", 128), "more elements"),
    "sliding rotation wider than a head": (u32("rope.dimension_count_swa", 64), "more elements"),
    "negative epsilon": (
        {"gemma4.attention.layer_norm_rms_epsilon": values.float32(-1.0)},
        "impossible value",
    ),
    "epsilon not a number": (
        {"gemma4.attention.layer_norm_rms_epsilon": values.float32(math.nan)},
        "'nan'",
    ),
    "rope base 0": ({"gemma4.rope.freq_base": values.float32(0.0)}, "freq_base"),
    "infinite cap": (
        {"gemma4.final_logit_softcapping": values.float32(math.inf)},
        "softcapping",
    ),
    "not causal": ({"gemma4.attention.causal": values.boolean(False)}, "embedding model"),
    "pooling": (u32("pooling_type", 2), "embedding model"),
    "context 0": (u32("context_length", 0), "context_length"),
    "output rows": (u32("embedding_length_out", 32), "output rows"),
    "embedding width": (u32("embedding_length", 32), "token_embd.weight"),
    "feed-forward width": (u32("feed_forward_length", 96), "ffn_gate"),
    "split file": ({"split.count": values.uint32(3)}, "one of 3 parts"),
    "other tokenizer": ({"tokenizer.ggml.model": values.string("llama")}, "tokenizer"),
    "no tokens": ({"tokenizer.ggml.tokens": None}, "tokenizer.ggml.tokens"),
    "tokens as numbers": ({"tokenizer.ggml.tokens": values.int32_array([1, 2])}, "arr[i32]"),
    "too few tokens": ({"tokenizer.ggml.tokens": values.string_array(["a"])}, "1 tokens"),
    "a token twice": ({"tokenizer.ggml.tokens": values.string_array(DUPLICATE)}, "both"),
    "spelling that llama.cpp gives an empty token": (
        {"tokenizer.ggml.tokens": values.string_array(EMPTY)},
        "both '[EMPTY_351]'",
    ),
    "a token with a NUL": (
        {"tokenizer.ggml.tokens": values.string_array([*tiny.TOKENS[:-1], "a\0b"])},
        f"NUL character inside token {tiny.VOCAB - 1}",
    ),
    "too few scores": ({"tokenizer.ggml.scores": values.float32_array([0.0])}, "1 scores"),
    "too few types": ({"tokenizer.ggml.token_type": values.int32_array([1])}, "1 token types"),
    "byte type on a word": (
        {"tokenizer.ggml.token_type": values.int32_array([6] * tiny.VOCAB)},
        "'<pad>' as a byte",
    ),
    "no merges": ({"tokenizer.ggml.merges": values.string_array([])}, "no merges"),
    "more tokens suppressed than there are": (
        {"tokenizer.ggml.suppress_tokens": values.int32_array([0] * (tiny.VOCAB + 1))},
        f"suppresses {tiny.VOCAB + 1} tokens",
    ),
    "a token suppressed that is none": (
        {"tokenizer.ggml.suppress_tokens": values.int32_array([tiny.VOCAB])},
        "suppresses a token",
    ),
    "no start token": ({"tokenizer.ggml.bos_token_id": None}, "bos_token_id"),
    "end token out of range": (
        {"tokenizer.ggml.eos_token_id": values.uint32(tiny.VOCAB)},
        "eos_token_id",
    ),
}


@pytest.mark.parametrize("name", IMPOSSIBLE_KEYS)
def test_impossible_metadata_is_refused(root: Path, name: str) -> None:
    keys, expected = IMPOSSIBLE_KEYS[name]
    with pytest.raises(DamagedFileError) as caught:
        check_pair(read_header(variant(root, "target", keys)), None)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (without("blk.3.attn_k.weight"), "lacks the tensor 'blk.3.attn_k.weight'"),
        (without("token_embd.weight"), "token_embd.weight"),
        (without("rope_freqs.weight"), "rope_freqs.weight"),
        (with_extra("blk.9.attn_k.weight", (32, 32)), "does not know"),
        (retyped("blk.0.attn_norm.weight", TYPE_F16, lambda n: 2 * n), "as F16"),
        (retyped("blk.0.attn_q.weight", TYPE_I32, lambda n: 4 * n), "as I32"),
        (retyped("blk.0.attn_q.weight", TYPE_Q8_1, lambda n: n // 32 * 36), "as Q8_1"),
    ],
)
def test_wrong_set_of_tensors_is_refused(
    root: Path, change: Callable[[list[TensorData]], list[TensorData]], expected: str
) -> None:
    with pytest.raises(DamagedFileError) as caught:
        check_pair(read_header(variant(root, "target", tensors=change)), None)
    assert expected in str(caught.value)


def test_alignment_too_small_for_mapped_tensors_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gemmachat.converters.write.ALIGNMENT", 8)
    path = variant(root, "target", {"general.alignment": values.uint32(8)})
    with pytest.raises(DamagedFileError, match="8 bytes"):
        check_pair(read_header(path), None)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (u32("nextn_predict_layers", 3, "gemma4-assistant"), "all of its 4 layers"),
        (u32("embedding_length_out", 32, "gemma4-assistant"), "as wide as its target"),
        ({"gemma4-assistant.masked_embedding.centroids": None}, "masked_embedding.centroids"),
        (u32("masked_embedding.centroid_count", 8, "gemma4-assistant"), "centroid head"),
        (u32("masked_embedding.centroid_top_k", 17, "gemma4-assistant"), "centroid_top_k"),
        (
            {"gemma4-assistant.masked_embedding.token_ordering": values.int32_array([1] * 352)},
            "exactly one centroid",
        ),
    ],
)
def test_impossible_drafter_is_refused(root: Path, keys: Change, expected: str) -> None:
    target = read_header(variant(root, "target"))
    with pytest.raises(DamagedFileError) as caught:
        check_pair(target, read_header(variant(root, "drafter", keys)))
    assert expected in str(caught.value)


def test_drafter_with_centroids_as_tensors_is_refused_with_advice(root: Path) -> None:
    extra = with_extra("masked_embd_centroids.weight", (tiny.CENTROIDS, tiny.DRAFTER_HIDDEN))
    path = variant(root, "drafter", tensors=extra)
    with pytest.raises(DamagedFileError, match="convert the drafter again"):
        check_pair(read_header(variant(root, "target")), read_header(path))
    with pytest.raises(OSError, match="refuses"), llama_runner.loaded(path):
        pass


def test_matching_pair_passes(root: Path) -> None:
    target, drafter = variant(root, "target"), variant(root, "drafter")
    check_pair(read_header(target), read_header(drafter))
    check_pair(read_header(target), None)


def test_harmless_variations_of_other_converters_pass(root: Path) -> None:
    keys: Change = {
        "gemma4.attention.sliding_window_pattern": values.int32_array([1, 0] * 3),
        "gemma4.attention.head_count": values.uint32_array([4] * 6),
        "tokenizer.ggml.add_bos_token": values.boolean(False),
        "tokenizer.ggml.tokens": values.string_array([*tiny.TOKENS[:-1], ""]),
        "tokenizer.ggml.unknown_token_id": None,
        "gemma4.rope.dimension_count": None,
        "some.other.key": values.string("x"),
    }
    path = variant(root, "target", keys)
    check_pair(read_header(path), None)
    with llama_runner.loaded(path):
        pass


def test_swapped_files_are_recognised(root: Path) -> None:
    target = read_header(variant(root, "target"))
    drafter = read_header(variant(root, "drafter"))
    with pytest.raises(PairMismatchError, match="look swapped"):
        check_pair(drafter, target)
    with pytest.raises(PairMismatchError, match="is a drafter"):
        check_pair(drafter, None)
    with pytest.raises(PairMismatchError, match="is a target"):
        check_pair(target, target)


@pytest.mark.parametrize(
    ("arch", "expected"),
    [
        ("llama", "not a Gemma 4 model"),
        ("clip", "not a Gemma 4 model"),
        ("gemma4_mtp", "made for another program"),
        ("gemma4_assistant", "made for another program"),
    ],
)
def test_other_architectures_are_named(root: Path, arch: str, expected: str) -> None:
    keys: Change = {"general.architecture": values.string(arch)}
    other = read_header(variant(root, "drafter", keys))
    target = read_header(variant(root, "target"))
    for pair in ((other, None), (target, other)):
        with pytest.raises(DamagedFileError) as caught:
            check_pair(*pair)
        assert expected in str(caught.value)
        assert arch in str(caught.value)


def test_parts_of_a_split_model_are_called_so(root: Path, tmp_path: Path) -> None:
    first = read_header(variant(root, "target", {"split.count": values.uint32(3)}))
    keys = [build.key("split.no", build.U16, b"\1\0"), build.key("split.count", build.U16, b"\3\0")]
    later = tmp_path / "model-00002-of-00003.gguf"
    later.write_bytes(build.gguf(keys, [build.tensor("blk.9.attn_k.weight", [8])], bytes(32)))
    unmarked = tmp_path / "model-00003-of-00003.gguf"
    unmarked.write_bytes(build.gguf([], [build.tensor("blk.9.attn_k.weight", [8])], bytes(32)))
    for info in (first, read_header(later), read_header(unmarked)):
        with pytest.raises(DamagedFileError, match=r"one of 3 parts of a model .*--merge"):
            check_pair(info, None)


def test_a_whole_model_may_be_named_like_a_part(root: Path) -> None:
    path = variant(root, "target").rename(root / "model-00001-of-00002.gguf")
    check_pair(read_header(path), None)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (u32("attention.sliding_window", 32, "gemma4-assistant"), "sliding window 16 against 32"),
        (u32("attention.head_count_kv", 1, "gemma4-assistant"), "key-value heads"),
        (
            {
                "tokenizer.ggml.tokens": values.string_array(
                    [*tiny.TOKENS[:-2], *reversed(tiny.TOKENS[-2:])]
                )
            },
            "different tokens",
        ),
    ],
)
def test_drafter_of_another_model_is_refused(root: Path, keys: Change, expected: str) -> None:
    target = read_header(variant(root, "target"))
    with pytest.raises(PairMismatchError) as caught:
        check_pair(target, read_header(variant(root, "drafter", keys)))
    assert expected in str(caught.value)
    assert "another model" in str(caught.value)
