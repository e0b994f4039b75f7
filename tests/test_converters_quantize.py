"""Quantized tensors are llama.cpp's own, of the types that the policy names."""

from __future__ import annotations

import ctypes
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import llama_cpp.llama_cpp as lib
import llama_runner
import nano_checkpoint as nano
import numpy as np
import pytest
import tiny_checkpoint as tiny
from gemmachat.converters import CheckpointError, OptionError, convert, encode, write
from gemmachat.converters.gguf_source import read_gguf
from gemmachat.converters.quantize import QUANTIZATIONS, tensor_types
from gemmachat.converters.tensors import StoredTensor
from gemmachat.converters.write import GgufFile, TensorData, write_files
from gguf.constants import GGMLQuantizationType as Kind

from gemmachat.gguf_info import check_pair, read_header

# Largest error of one weight, as a share of the largest weight in its block: half a step.
KNOWN_ERROR = {"F32": 0.0, "F16": 2**-11, "BF16": 2**-8, "Q8_0": 1 / 220, "Q6_K": 1 / 30,
               "Q5_K_M": 1 / 14, "Q4_K_M": 1 / 7, "Q4_0": 1 / 7.9, "IQ4_NL": 1 / 6}  # fmt: skip
EXACT = ("F32", "F16", "BF16")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target with rows of 256 weights, which K-quants need, in 8 layers."""
    folder = tmp_path_factory.mktemp("wide") / "target"
    tiny.write_target(
        folder, dtype="BF16", hidden_size=256, intermediate_size=512, num_hidden_layers=8,
        layer_types=["sliding_attention", "full_attention"] * 4, num_kv_shared_layers=2,
        num_attention_heads=8,
        per_layer_config={str(layer): {"head_dim": 64} for layer in range(1, 8, 2)},
    )  # fmt: skip
    convert(folder, folder.with_name("F32.gguf"), quant="F32")
    return folder


def quantized(folder: Path, quant: str, imatrix: Path | None = None) -> dict[str, StoredTensor]:
    output = folder.with_name(f"{quant}{'-weighed' if imatrix else ''}.gguf")
    if not output.exists():
        convert(folder, output, quant=quant, imatrix=imatrix)
    return read_gguf(output).tensors


def contents(tensor: StoredTensor) -> bytes:
    return tensor.encoded(0, tensor.rows).tobytes()


def llama_quantized(source: Path, quant: str, weights: dict[str, np.ndarray]) -> Path:
    """What llama.cpp's own program makes of the file, at its defaults."""
    output = source.with_name(f"llama-{quant}{'-weighed' if weights else ''}.gguf")
    lib.llama_log_set(llama_runner._discard, ctypes.c_void_p(0))
    params = lib.llama_model_quantize_default_params()
    params.nthread, params.ftype = 1, QUANTIZATIONS[quant].file_type
    entries = (lib.llama_model_imatrix_data * (len(weights) + 1))()
    for entry, (name, values) in zip(entries, weights.items(), strict=False):
        entry.name = name.encode()
        entry.data = values.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        entry.size = values.size
    if weights:
        params.imatrix = entries
    assert lib.llama_model_quantize(bytes(source), bytes(output), ctypes.byref(params)) == 0
    return output


def differing_types(ours: dict[str, StoredTensor], theirs: Path) -> dict[str, tuple[str, str]]:
    """Our type and llama.cpp's where they differ; where they agree, so must every byte."""
    expected = read_gguf(theirs).tensors
    assert expected.keys() == ours.keys()
    different = {}
    for name, tensor in ours.items():
        if tensor.dtype == expected[name].dtype:
            assert contents(tensor) == contents(expected[name]), name
        else:
            different[name] = (tensor.dtype, expected[name].dtype)
    return different


PROJECTION = {"per_layer_model_proj.weight": ("Q8_0", "F32")}
# Where our policy differs from llama.cpp's mix; quantize.py says why.
OURS = {
    "Q4_0": {"token_embd.weight": ("Q8_0", "Q6_K"), "per_layer_token_embd.weight": ("Q4_0", "Q6_K")}
    | PROJECTION,
    "IQ4_NL": {f"blk.{layer}.attn_v.weight": ("IQ4_NL", "Q5_K") for layer in range(6)} | PROJECTION,
}


@pytest.mark.parametrize("quant", ["Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0", "IQ4_NL"])
def test_tensors_are_those_of_llama_quantize(folder: Path, quant: str) -> None:
    theirs = llama_quantized(folder.with_name("F32.gguf"), quant, {})
    found = differing_types(quantized(folder, quant), theirs)
    assert found == OURS.get(quant, PROJECTION)


def importance(source: Path, path: Path) -> dict[str, np.ndarray]:
    """Writes an importance matrix for all tensors but embeddings; returns its means."""
    rng = np.random.default_rng(3)
    means: dict[str, np.ndarray] = {}
    entries: dict[str, np.ndarray] = {}
    for name, tensor in read_gguf(source).tensors.items():
        if name.startswith("blk.") and len(tensor.shape) > 1:
            matrices = math.prod(tensor.shape[:-2])
            mean = rng.gamma(0.5, size=(matrices, tensor.width)).astype(np.float32)
            entries[f"{name}.in_sum2"] = mean * 32
            entries[f"{name}.counts"] = np.full((matrices, 1), 32, np.float32)
            means[name] = entries[f"{name}.in_sum2"] / 32
    tensors = [
        TensorData(name, values.shape, Kind.F32, values.nbytes, lambda v=values: iter([lambda: v]))
        for name, values in entries.items()
    ]
    write_files({path: GgufFile({}, tensors)}, force=True)
    return means


@pytest.mark.parametrize("quant", ["Q4_K_M", "Q4_0", "IQ4_NL"])
def test_importance_matrix_weighs_as_in_llama_quantize(folder: Path, quant: str) -> None:
    path = folder.with_name("imatrix.gguf")
    means = importance(folder.with_name("F32.gguf"), path)
    theirs = llama_quantized(folder.with_name("F32.gguf"), quant, means)
    ours = quantized(folder, quant, path)
    found = differing_types(ours, theirs)
    # With a matrix llama.cpp chooses other types for the first down projection.
    found.pop("blk.0.ffn_down.weight", None)
    assert found == OURS.get(quant, PROJECTION)
    plain = quantized(folder, quant)
    changed = {name for name in ours if contents(ours[name]) != contents(plain[name])}
    assert "blk.3.ffn_up.weight" in changed
    assert not changed & {"token_embd.weight", "output_norm.weight"}


@pytest.mark.parametrize("quant", ["Q4_0", "IQ4_NL", "Q4_K_M"])
def test_every_expert_is_weighed_by_its_own_importance(tmp_path: Path, quant: str) -> None:
    folder, _ = nano.write_pair(tmp_path, "26b-a4b")
    source = tmp_path / "F32.gguf"
    convert(folder, source, quant="F32")
    means = importance(source, tmp_path / "imatrix.gguf")
    assert len(means["blk.0.ffn_gate_up_exps.weight"]) > 1
    theirs = llama_quantized(source, quant, means)
    output = tmp_path / f"{quant}.gguf"
    convert(folder, output, quant=quant, imatrix=tmp_path / "imatrix.gguf")
    different = differing_types(read_gguf(output).tensors, theirs)
    assert not any(
        "exps" in name for name in different if not name.endswith("ffn_down_exps.weight")
    )


@pytest.mark.parametrize("quant", QUANTIZATIONS)
def test_every_weight_is_within_the_error_of_its_type(folder: Path, quant: str) -> None:
    output = quantized(folder, quant)
    exact = quantized(folder, "F32")
    assert output.keys() == exact.keys()
    for name, tensor in output.items():
        expected, found = exact[name].floats(), tensor.floats()
        if tensor.dtype in EXACT and quant in ("F32", "BF16"):
            assert np.array_equal(found, expected), name
            continue
        size = min(256, expected.shape[-1]) if "K" in tensor.dtype else 32
        blocks = np.abs(expected).reshape(-1, size) if len(expected.shape) > 1 else expected
        error = np.abs(found - expected).reshape(blocks.shape)
        assert (error <= KNOWN_ERROR[quant] * np.abs(blocks).max(-1, keepdims=True)).all(), name


@pytest.mark.parametrize("quant", QUANTIZATIONS)
def test_every_quantization_passes_the_header_check_and_loads(folder: Path, quant: str) -> None:
    quantized(folder, quant)
    path = folder.with_name(f"{quant}.gguf")
    check_pair(read_header(path), None)
    assert read_header(path).metadata["general.file_type"] == QUANTIZATIONS[quant].file_type
    with llama_runner.loaded(path):
        pass


def test_gguf_source_gives_the_bytes_of_its_checkpoint(folder: Path) -> None:
    bf16 = folder.with_name("BF16.gguf")
    quantized(folder, "BF16"), quantized(folder, "Q4_K_M")
    convert(bf16, folder.with_name("again.gguf"), quant="Q4_K_M")
    again, direct = folder.with_name("again.gguf"), folder.with_name("Q4_K_M.gguf")
    assert again.read_bytes() == direct.read_bytes()


def test_quantized_source_can_be_quantized_again(folder: Path) -> None:
    first = quantized(folder, "Q6_K")
    output = folder.with_name("q6-to-q4.gguf")
    convert(folder.with_name("Q6_K.gguf"), output, quant="Q4_0")
    again = read_gguf(output).tensors["blk.0.ffn_up.weight"]
    assert again.dtype == "Q4_0"
    expected = first["blk.0.ffn_up.weight"].floats()
    blocks = np.abs(expected).reshape(-1, 32)
    error = np.abs(again.floats() - expected).reshape(blocks.shape)
    assert (error <= KNOWN_ERROR["Q4_0"] * blocks.max(-1, keepdims=True)).all()


def test_number_of_threads_changes_no_byte(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quantized(folder, "Q4_K_M")
    monkeypatch.setattr("gemmachat.converters.write._processors", lambda: 1)
    monkeypatch.setattr("gemmachat.converters.encode.BLOCK_WEIGHTS", 1000)
    convert(folder, folder.with_name("slow.gguf"), quant="Q4_K_M")
    slow, fast = folder.with_name("slow.gguf"), folder.with_name("Q4_K_M.gguf")
    assert slow.read_bytes() == fast.read_bytes()


def test_blocks_in_flight_bound_the_memory() -> None:
    weights = encode.BLOCK_WEIGHTS
    # Stored and decoded rows, one temporary of the check, and the result: on 64 processors too.
    assert 66 * weights * (4 + 4 + 4 + 4) < 2e9
    begun: set[int] = set()
    most = 0
    jobs = [lambda n=n: begun.add(n) or np.zeros(n, np.uint8) for n in range(100)]
    with ThreadPoolExecutor(2) as pool:
        for taken, _ in enumerate(write._in_order(pool, jobs, 4)):
            most = max(most, len(begun) - taken)
    assert most <= 4


EXPERTS = {
    "token_embd.weight": (1024, 2816),
    "blk.0.attn_v.weight": (2048, 2816),
    "blk.0.ffn_gate_inp.weight": (128, 2816),
    "blk.0.ffn_gate_inp.scale": (2816,),
    "blk.0.ffn_down.weight": (2816, 2112),
    "blk.0.ffn_gate_up_exps.weight": (128, 1408, 2816),
    "blk.0.ffn_down_exps.weight": (128, 2816, 704),
    "blk.1.ffn_down_exps.weight": (128, 2816, 704),
}


def test_rows_that_256_does_not_divide_take_the_type_that_fits() -> None:
    types = tensor_types(EXPERTS, QUANTIZATIONS["Q4_K_M"], layers=30, drafter=False)
    assert {name: kind.name for name, kind in types.items()} == {
        "token_embd.weight": "Q6_K",
        "blk.0.attn_v.weight": "Q6_K",
        "blk.0.ffn_gate_inp.weight": "F32",
        "blk.0.ffn_gate_inp.scale": "F32",
        "blk.0.ffn_down.weight": "Q8_0",
        "blk.0.ffn_gate_up_exps.weight": "Q4_K",
        "blk.0.ffn_down_exps.weight": "Q8_0",
        "blk.1.ffn_down_exps.weight": "Q8_0",
    }


def test_head_of_a_drafter_is_as_fast_as_the_rest() -> None:
    shapes = {"token_embd.weight": (1024, 1024), "blk.0.ffn_up.weight": (2048, 1024)}
    types = tensor_types(shapes, QUANTIZATIONS["Q4_0"], layers=4, drafter=True)
    assert set(types.values()) == {Kind.Q4_0}


@pytest.mark.parametrize("quant", ["Q8_0", "Q4_K_M", "Q4_0"])
def test_row_that_no_block_divides_is_refused_by_name(quant: str) -> None:
    with pytest.raises(CheckpointError, match=r"'blk\.0\.attn_q\.weight' has rows of 48 weights"):
        tensor_types(
            {"blk.0.attn_q.weight": (64, 48)}, QUANTIZATIONS[quant], layers=1, drafter=False
        )


def test_unknown_quantization_lists_the_known_ones(folder: Path) -> None:
    with pytest.raises(OptionError, match="'Q3' is not known: choose one of F32, F16"):
        convert(folder, folder.with_name("out.gguf"), quant="Q3")
