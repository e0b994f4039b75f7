"""A hostile or broken checkpoint is refused in one sentence, before anything is written."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiny_checkpoint as tiny
from gemmachat.converters import (
    CheckpointError,
    CheckpointNotFoundError,
    ConversionError,
    OutputError,
    ResourceError,
    convert,
    staging,
    write,
)
from gemmachat.converters.checkpoint import open_checkpoint
from gemmachat.converters.conversion import plan_file
from gemmachat.converters.gguf_source import read_gguf
from gemmachat.converters.quantize import QUANTIZATIONS

from gemmachat.gguf_info import read_header

TWO = {"a": np.arange(4, dtype=np.float32), "b": np.ones((2, 3), np.float32)}


def entry(dtype: Any = "F32", shape: Any = (4,), offsets: Any = (0, 16)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def file(header: object, data: bytes = bytes(16)) -> bytes:
    return tiny.framed(json.dumps(header).encode()) + data


HOSTILE = {
    "empty": (b"", "truncated"),
    "cut length": (b"\1\0\0", "truncated"),
    "huge header length": (struct.pack("<Q", 2**63) + b"{}", "claims a header"),
    "header longer than the file": (struct.pack("<Q", 100) + b"{}", "claims a header"),
    "pickle": (b"\x80\x04\x95" + bytes(40), "claims a header"),
    "not JSON": (tiny.framed(b"{'a': 1}"), "not valid JSON"),
    "not UTF-8": (tiny.framed(b'{"\xff": 1}'), "UTF-8"),
    "not an object": (tiny.framed(b"[]"), "JSON object"),
    "nested too deeply": (tiny.framed(b'{"a":' * 100_000), "nested too deeply"),
    "number of a million digits": (tiny.framed(b'{"a": ' + b"9" * 1_000_000 + b"}"), "JSON"),
    "duplicate tensor": (
        tiny.framed(b'{"a": {}, "a": {}}'),
        "appears twice",
    ),
    "not a number": (tiny.framed(b'{"a": NaN}'), "NaN"),
    "entry is a list": (file({"a": []}), "no description"),
    "unknown type": (file({"a": entry("F31")}), "'F31'"),
    "type is a list": (file({"a": entry(["F32"])}), "unknown type"),
    "negative dimension": (file({"a": entry(shape=[-4])}), "impossible shape"),
    "fractional dimension": (file({"a": entry(shape=[4.0])}), "impossible shape"),
    "truth as a dimension": (file({"a": entry(shape=[True, 4])}), "impossible shape"),
    "nine dimensions": (file({"a": entry(shape=[1] * 8 + [4])}), "impossible shape"),
    "empty dimension": (file({"a": entry(shape=[0])}), "impossible shape"),
    "overflowing shape": (file({"a": entry(shape=[2**62, 2**62])}), "spans 16 bytes"),
    "one offset": (file({"a": entry(offsets=[0])}), "impossible offsets"),
    "reversed offsets": (file({"a": entry(offsets=[16, 0])}), "spans -16 bytes"),
    "size against shape": (file({"a": entry(shape=[5])}), "spans 16 bytes"),
    "overlap": (
        file({"a": entry(), "b": entry(shape=[2], offsets=[8, 16])}),
        "overlaps the one before",
    ),
    "hole": (file({"a": entry(offsets=[16, 32])}, bytes(32)), "leaves a hole"),
    "cut data": (file({"a": entry()}, bytes(15)), "is truncated"),
    "bytes after the end": (file({"a": entry()}, bytes(17)), "belong to none"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_safetensors_are_refused(tmp_path: Path, name: str) -> None:
    content, expected = HOSTILE[name]
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(tmp_path)
    assert expected in str(caught.value)
    assert str(caught.value).isprintable()


def test_missing_parts_are_not_found(tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFoundError, match="does not exist"):
        open_checkpoint(tmp_path / "absent")
    with pytest.raises(CheckpointNotFoundError, match=r"config\.json"):
        open_checkpoint(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x02")
    with pytest.raises(CheckpointNotFoundError, match="only safetensors"):
        open_checkpoint(tmp_path)


def sharded(folder: Path, weight_map: object) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text("{}")
    for name, tensor in TWO.items():
        (folder / f"{name}.safetensors").write_bytes(tiny.safetensors({name: tensor}))
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_shards_are_read_like_one_file(tmp_path: Path) -> None:
    sharded(tmp_path, {"a": "a.safetensors", "b": "b.safetensors"})
    checkpoint = open_checkpoint(tmp_path)
    for name, tensor in TWO.items():
        assert np.array_equal(checkpoint.tensors[name].floats(), tensor)


@pytest.mark.parametrize(
    ("weight_map", "expected"),
    [
        ({}, "no weight_map"),
        ([], "no weight_map"),
        ({"a": "../secret/a.safetensors"}, "not a plain"),
        ({"a": "/etc/passwd"}, "not a plain"),
        ({"a": "sub/a.safetensors"}, "not a plain"),
        ({"a": "..\\a.safetensors"}, "not a plain"),
        ({"a": "a.safetensors\n"}, "not a plain"),
        ({"a": 7}, "not a plain"),
        ({"a": "b.safetensors"}, "does not hold it"),
        ({"a": "a.safetensors", "b": "a.safetensors"}, "does not hold it"),
        ({"c": "a.safetensors"}, "does not hold it"),
        ({"a": "absent.safetensors"}, "is missing"),
    ],
)
def test_lying_shard_index_is_refused(tmp_path: Path, weight_map: object, expected: str) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "a.safetensors").write_bytes(tiny.safetensors(TWO))
    sharded(tmp_path / "model", weight_map)
    with pytest.raises(ConversionError, match=expected):
        open_checkpoint(tmp_path / "model")


def edited(folder: Path, name: str, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / name
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def rope(**changes: Any) -> dict[str, Any]:
    """Rotary parameters with changes to those of sliding layers."""
    original = tiny.target_config()["rope_parameters"]
    return original | {"sliding_attention": original["sliding_attention"] | changes}


def stretched() -> dict[str, Any]:
    """Rotary parameters whose full layers divide every angle."""
    original = tiny.target_config()["rope_parameters"]
    return original | {"full_attention": original["full_attention"] | {"factor": 8.0}}


def experts(**changes: Any) -> dict[str, Any]:
    counts = {"num_experts": 10, "top_k_experts": 3, "moe_intermediate_size": 32}
    return {"enable_moe_block": True} | counts | changes


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model_type": "llama"}, "'llama', not a Gemma 4 model"),
        ({"model_type": None}, "not a Gemma 4 model"),
        ({"text_config": []}, "text_config"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"num_hidden_layers": 5}, "layer_types"),
        ({"layer_types": ["linear_attention"] * 6}, "layer_types"),
        ({"layer_types": ["sliding_attention"] * 6, "per_layer_config": {}}, "sliding and full"),
        ({"num_kv_shared_layers": 5}, "own keys and values"),
        ({"num_kv_shared_layers": 1}, "own keys and values"),
        ({"hidden_size": -1}, "hidden_size"),
        ({"hidden_size": "64"}, "hidden_size"),
        ({"hidden_size": True}, "hidden_size"),
        ({"head_dim": 31, "per_layer_config": {}}, "odd width"),
        ({"num_key_value_heads": 3}, "cannot be divided"),
        ({"sliding_window": 0}, "sliding_window"),
        ({"rms_norm_eps": 0}, "rms_norm_eps"),
        ({"rms_norm_eps": None}, "rms_norm_eps"),
        ({"hidden_activation": "silu"}, "'silu'"),
        ({"rope_parameters": {}}, "rope_parameters"),
        ({"rope_parameters": rope(rope_type="linear")}, "rope_parameters"),
        ({"rope_parameters": rope(partial_rotary_factor=0.5)}, "partial_rotary_factor"),
        ({"per_layer_config": {"1": {"head_dim": 96}}}, "per layer type"),
        ({"per_layer_config": {"0": {"head_dim": 64}}}, "per layer type"),
        ({"rope_parameters": stretched()}, "by a factor"),
        ({"per_layer_config": {"6": {"head_dim": 64}}}, "from 0 to 5"),
        ({"per_layer_config": {"-1": {"head_dim": 64}}}, "from 0 to 5"),
        ({"per_layer_config": {"1": 64}}, "from 0 to 5"),
        ({"per_layer_config": [1]}, "per_layer_config"),
        ({"per_layer_config": {"1": {"sliding_window": 8}}}, "changes 'sliding_window' of layer 1"),
        ({"per_layer_config": {}}, "shape"),
        ({"model_type": "gemma3"}, "'gemma3', not a Gemma 4 model"),
        ({"text_config": {"model_type": "gemma3_text"}}, "'gemma3_text', not a Gemma 4"),
        ({"attention_bias": True}, "attention_bias"),
        ({"use_bidirectional_attention": "all"}, "use_bidirectional_attention"),
        ({"enable_moe_block": True}, "num_experts"),
        ({"enable_moe_block": "yes"}, "true or false"),
        (experts(num_experts=1 << 20), "num_experts"),
        (experts(top_k_experts=11), "top_k_experts"),
        (experts(top_k_experts=0), "top_k_experts"),
        (experts(moe_intermediate_size=None), "moe_intermediate_size"),
        (experts(), "'model.layers.0.router.proj.weight' is missing in 'model.safetensors'"),
        ({"attention_k_eq_v": True}, "'model.layers.1.self_attn.v_proj.weight' in 'model.safe"),
        ({"tie_word_embeddings": False}, "'lm_head.weight' is missing"),
        ({"hidden_size_per_layer_input": None}, "shape"),
        ({"model_type": "gemma4_unified_text"}, "embed_tokens_per_layer.weight"),
        ({"hidden_size": 128}, "in 'model.safetensors' has shape [352, 64]"),
        ({"num_attention_heads": 8}, "shape"),
        ({"use_double_wide_mlp": False}, "shape"),
    ],
)
def test_config_that_cannot_be_converted_is_refused(
    tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    tiny.write_target(tmp_path / "target")
    edited(tmp_path / "target", "config.json", lambda config: config.update(changes))
    with pytest.raises(CheckpointError) as caught:
        convert(tmp_path / "target", tmp_path / "out.gguf", quant="F32")
    assert expected in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["target"]


def drafter_text(**changes: Any) -> dict[str, Any]:
    return {"text_config": tiny.drafter_config()["text_config"] | changes}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"backbone_hidden_size": tiny.DRAFTER_HIDDEN}, "as wide as its target"),
        ({"num_centroids": 5}, "cannot be divided"),
        ({"num_centroids": 32}, "masked_embedding.centroids"),
        ({"centroid_intermediate_top_k": 17}, "centroid_intermediate_top_k"),
        ({"backbone_hidden_size": None}, "backbone_hidden_size"),
        ({"tie_word_embeddings": False}, "head of its own"),
        (drafter_text(num_kv_shared_layers=2), "keys and values from its target"),
        (drafter_text(hidden_size_per_layer_input=32), "no per-layer embeddings"),
        (drafter_text(enable_moe_block=True), "enable_moe_block"),
        (drafter_text(use_double_wide_mlp=True), "use_double_wide_mlp"),
    ],
)
def test_drafter_config_that_cannot_be_converted_is_refused(
    tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    tiny.write_drafter(tmp_path / "drafter")
    edited(tmp_path / "drafter", "config.json", lambda config: config.update(changes))
    with pytest.raises(CheckpointError) as caught:
        convert(tmp_path / "drafter", tmp_path / "out.gguf", quant="F32")
    assert expected in str(caught.value)


ODD_VALUES = (
    None, True, -1, 0, 1, 2**31, 2**63, 10**30, 1.5, -0.0, 1e300, "", "x", "\ud800", [], {},
    [[]], [{}], {"type": []}, ["x"], {"x": None},
)  # fmt: skip


def nodes(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value of a JSON document; long lists and objects are sampled."""
    yield path
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in list(items)[:40]:
            yield from nodes(item, (*path, key))


@pytest.mark.parametrize("role", ["target", "drafter"])
@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"]
)
def test_no_value_in_a_description_fails_otherwise_than_with_a_sentence(
    tmp_path: Path, role: str, name: str
) -> None:
    (tiny.write_target if role == "target" else tiny.write_drafter)(tmp_path / role)
    path = tmp_path / role / name
    whole = {"suppress_tokens": [1, 2]} if name.startswith("gen") else json.loads(path.read_text())
    rng = random.Random(name)
    for way in nodes(whole):
        for odd in rng.sample(ODD_VALUES, 4):
            changed = json.loads(json.dumps(whole))
            holder = changed
            for key in way[:-1]:
                holder = holder[key]
            if way:
                holder[way[-1]] = odd
            path.write_text(json.dumps(changed if way else odd))
            try:
                plan_file(tmp_path / role, quant="Q8_0")
            except ConversionError as error:
                assert str(error).isprintable()  # noqa: PT017 - some values are as good


def replaced(
    folder: Path, change: Callable[[tiny.Tensors], tiny.Tensors], dtype: str = "F32"
) -> None:
    """Write the target's tensors anew after `change`."""
    tensors = tiny.stored_names(tiny.target_tensors(tiny.target_config()))
    (folder / "model.safetensors").write_bytes(tiny.safetensors(change(tensors), dtype))


UP = "model.layers.0.mlp.up_proj.weight"
NORM, SCALE, HEAD = "model.norm.weight", "model.layers.0.layer_scalar", "lm_head.weight"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda all_: {k: v for k, v in all_.items() if k != NORM}, "'model.norm.weight' is miss"),
        (lambda all_: all_ | {"model.extra": np.ones(2, np.float32)}, "'model.extra' in"),
        (lambda all_: all_ | {HEAD: np.ones((2, 2), np.float32)}, "set tie_word_embeddings"),
        (lambda all_: all_ | {HEAD: -all_["model.embed_tokens.weight"]}, "is not the embedding"),
        (lambda all_: all_ | {NORM: np.ones(tiny.HIDDEN, np.int64)}, "has type I64"),
        (lambda all_: all_ | {SCALE: np.ones((1, 1), np.float32)}, "shape"),
    ],
)
def test_wrong_tensors_are_refused_and_nothing_is_left(
    tmp_path: Path, change: Callable[[tiny.Tensors], tiny.Tensors], expected: str
) -> None:
    tiny.write_target(tmp_path / "target")
    replaced(tmp_path / "target", change)
    with pytest.raises(CheckpointError) as caught:
        convert(tmp_path / "target", tmp_path / "out.gguf", quant="F32")
    assert expected in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["target"]


def test_drafter_with_a_head_of_its_own_is_refused(tmp_path: Path) -> None:
    tensors = tiny.stored_names(tiny.write_drafter(tmp_path / "drafter"))
    tensors[HEAD] = 2 * tensors["model.embed_tokens.weight"]
    (tmp_path / "drafter" / "model.safetensors").write_bytes(tiny.safetensors(tensors))
    with pytest.raises(CheckpointError, match="no drafter with a head of its own"):
        convert(tmp_path / "drafter", tmp_path / "out.gguf", quant="F32")


def test_token_ordering_that_is_no_permutation_is_refused(tmp_path: Path) -> None:
    tensors = tiny.stored_names(tiny.write_drafter(tmp_path / "drafter"))
    tensors["masked_embedding.token_ordering"] = np.zeros(tiny.VOCAB, np.int64)
    (tmp_path / "drafter" / "model.safetensors").write_bytes(tiny.safetensors(tensors))
    with pytest.raises(CheckpointError, match="every token exactly once"):
        convert(tmp_path / "drafter", tmp_path / "out.gguf", quant="F32")


def test_weight_that_f16_cannot_hold_is_refused(tmp_path: Path) -> None:
    tiny.write_target(tmp_path / "target")
    replaced(
        tmp_path / "target",
        lambda all_: all_ | {"model.layers.0.mlp.up_proj.weight": np.full((96, 64), 1e6, "f4")},
    )
    with pytest.raises(ConversionError, match="F32"):
        convert(tmp_path / "target", tmp_path / "out.gguf", quant="F16")


def test_existing_output_is_kept_unless_forced(tmp_path: Path) -> None:
    tiny.write_target(tmp_path / "target")
    output = tmp_path / "out.gguf"
    output.write_bytes(b"precious")
    with pytest.raises(OutputError, match="exists already"):
        convert(tmp_path / "target", output, quant="Q8_0")
    assert output.read_bytes() == b"precious"
    convert(tmp_path / "target", output, quant="Q8_0", force=True)
    assert read_header(output).architecture == "gemma4"


def nan_in_up_projection(all_: tiny.Tensors) -> tiny.Tensors:
    weights = all_[UP].copy()
    weights[0, 3], weights[1, 5] = np.nan, -np.inf
    return all_ | {UP: weights}


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_strict_refuses_weights_that_are_not_finite(tmp_path: Path, dtype: str) -> None:
    tiny.write_target(tmp_path / "target")
    replaced(tmp_path / "target", nan_in_up_projection, dtype)
    output = tmp_path / "out.gguf"
    output.write_bytes(b"precious")
    with pytest.raises(CheckpointError, match=rf"'{UP}' in 'model.safetensors' .* not finite"):
        convert(tmp_path / "target", output, quant="Q8_0", strict=True, force=True)
    assert output.read_bytes() == b"precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.gguf", "target"]


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("quant", QUANTIZATIONS)
def test_weights_that_are_not_finite_are_named_and_spoil_no_block(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], quant: str, dtype: str
) -> None:
    tiny.write_target(tmp_path / "target")
    replaced(tmp_path / "target", nan_in_up_projection, dtype)
    report = convert(tmp_path / "target", tmp_path / "out.gguf", quant=quant)
    assert f"'{UP}' in 'model.safetensors' holds 2 weights" in report.notes[-1]
    stored = read_gguf(tmp_path / "out.gguf").tensors["blk.0.ffn_up.weight"].floats()
    kept = 2 if quant in ("F32", "F16", "BF16") else 0
    assert np.count_nonzero(~np.isfinite(stored)) == kept
    assert capfd.readouterr() == ("", "")


def test_damaged_scale_in_a_quantized_source_spoils_no_more_than_it_did(tmp_path: Path) -> None:
    tiny.write_target(tmp_path / "target")
    source = tmp_path / "source.gguf"
    convert(tmp_path / "target", source, quant="Q8_0")
    tensor = read_gguf(source).tensors["blk.0.ffn_up.weight"]
    with source.open("r+b") as file:
        file.seek(tensor.begin)
        file.write(b"\x00\x7e")  # the first block's scale: NaN
    report = convert(source, tmp_path / "out.gguf", quant="Q8_0")
    assert "'blk.0.ffn_up.weight' in 'source.gguf' holds 32 weights" in report.notes[-1]
    stored = read_gguf(tmp_path / "out.gguf").tensors["blk.0.ffn_up.weight"].floats()
    assert np.array_equal(stored.reshape(-1)[:32], np.zeros(32))
    assert np.isfinite(stored).all()


def test_killed_conversion_leaves_nothing(tmp_path: Path) -> None:
    tiny.write_target(tmp_path / "target")
    script = (
        "import os, sys; from pathlib import Path; from gemmachat.converters import convert; "
        "convert(Path('target'), Path('out.gguf'), quant='F32', "
        "progress=lambda done, total: os.kill(os.getpid(), 9) if done > total // 2 else None)"
    )
    ended = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert sorted(path.name for path in tmp_path.iterdir()) == ["target"]


@pytest.mark.parametrize("nameless", [True, False])
def test_interrupt_in_the_middle_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nameless: bool
) -> None:
    def interrupted(_descriptor: int) -> None:
        parts = [path for path in tmp_path.iterdir() if path.name.endswith(".part")]
        assert bool(parts) != nameless
        raise KeyboardInterrupt

    tiny.write_target(tmp_path / "target")
    if not nameless:  # as on a file system without files that have no name
        monkeypatch.delattr("gemmachat.converters.staging.os.O_TMPFILE")
    monkeypatch.setattr("gemmachat.converters.staging.os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        convert(tmp_path / "target", tmp_path / "out.gguf", quant="F32")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["target"]


def test_both_kinds_of_temporary_file_are_published_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny.write_target(tmp_path / "target")
    convert(tmp_path / "target", tmp_path / "nameless.gguf", quant="Q8_0")
    monkeypatch.delattr("gemmachat.converters.staging.os.O_TMPFILE")
    convert(tmp_path / "target", tmp_path / "named.gguf", quant="Q8_0")
    assert (tmp_path / "named.gguf").read_bytes() == (tmp_path / "nameless.gguf").read_bytes()
    assert len(list(tmp_path.iterdir())) == 3


LIMITED = """
import resource, sys
from pathlib import Path
from gemmachat.converters import OutputError, convert
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    convert(Path("target"), Path("out.gguf"), quant="F32", drafter=Path("drafter"), force=True)
except OutputError as error:
    sys.exit(str(error))
"""


def test_full_disk_in_the_middle_keeps_the_old_file(tmp_path: Path) -> None:
    tiny.write_target(tmp_path / "target")
    tiny.write_drafter(tmp_path / "drafter")
    (tmp_path / "out.gguf").write_bytes(b"precious")
    ended = subprocess.run(
        [sys.executable, "-c", LIMITED], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr == "'out.gguf' cannot be written: File too large.\n"
    assert (tmp_path / "out.gguf").read_bytes() == b"precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["drafter", "out.gguf", "target"]


def test_drafter_that_cannot_be_published_takes_its_target_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny.write_target(tmp_path / "target")
    tiny.write_drafter(tmp_path / "drafter")
    publish = staging.Staged.publish

    def failing(output: staging.Staged, *, replace: bool) -> None:
        if "drafter" in output.path.name:
            raise PermissionError(errno.EPERM, "not permitted")
        publish(output, replace=replace)

    monkeypatch.setattr(staging.Staged, "publish", failing)
    with pytest.raises(OutputError, match=r"out-drafter\.gguf' cannot be written: not permitted"):
        convert(
            tmp_path / "target", tmp_path / "out.gguf", quant="F32", drafter=tmp_path / "drafter"
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["drafter", "target"]


def test_output_that_appears_meanwhile_is_kept(tmp_path: Path) -> None:
    tiny.write_target(tmp_path / "target")
    output = tmp_path / "out.gguf"

    def appear(done: int, total: int) -> None:
        if done == total:
            output.write_bytes(b"precious")

    with pytest.raises(OutputError, match="exists already"):
        convert(tmp_path / "target", output, quant="F32", progress=appear)
    assert output.read_bytes() == b"precious"


def test_checkpoint_is_never_overwritten(tmp_path: Path) -> None:
    tiny.write_target(tmp_path / "target")
    tiny.write_drafter(tmp_path / "drafter")
    for folder in ("target", "drafter"):
        weights = tmp_path / folder / "model.safetensors"
        before = weights.read_bytes()
        with pytest.raises(OutputError, match="part of the source"):
            convert(
                tmp_path / "target",
                weights,
                quant="F32",
                drafter=tmp_path / "drafter",
                force=True,
            )
        assert weights.read_bytes() == before


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer.json", "model.safetensors", "chat_template.jinja"]
)
def test_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path, name: str) -> None:
    tiny.write_target(tmp_path / "target")
    (tmp_path / "target" / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / "target" / name)
    with pytest.raises(CheckpointError, match=rf"{name}' is not a regular file"):
        convert(tmp_path / "target", tmp_path / "out.gguf", quant="F32")


@pytest.mark.parametrize(
    "name", ["tokenizer_config.json", "generation_config.json", "chat_template.jinja"]
)
def test_link_to_nowhere_is_a_missing_file(tmp_path: Path, name: str) -> None:
    tiny.write_target(tmp_path / "target")
    (tmp_path / "target" / name).unlink(missing_ok=True)
    (tmp_path / "target" / name).symlink_to("blobs/gone")
    with pytest.raises(CheckpointNotFoundError, match=rf"{name}' is missing"):
        convert(tmp_path / "target", tmp_path / "out.gguf", quant="F32")


def test_bomb_of_empty_lists_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    bomb = tiny.framed(b'{"a": [' + b"[]," * 4_000_000 + b"[]]}")
    (tmp_path / "model.safetensors").write_bytes(bomb)
    with pytest.raises(CheckpointError, match="more than 3000000 lists"):
        open_checkpoint(tmp_path)


def test_too_few_threads_are_told_from_a_failure(tmp_path: Path) -> None:
    tiny.write_target(tmp_path / "target")
    with pytest.raises(ResourceError, match="no more threads"), write._enough_threads():
        raise RuntimeError("can't start new thread")


def test_too_little_room_is_noticed_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny.write_target(tmp_path / "target")
    monkeypatch.setattr(
        "gemmachat.converters.write.shutil.disk_usage", lambda _: SimpleNamespace(free=1)
    )
    with pytest.raises(OutputError, match=r"0\.0 MB free"):
        convert(tmp_path / "target", tmp_path / "out.gguf", quant="F32")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["target"]


@pytest.mark.parametrize("place", ["absent/out.gguf", "target", "pipe"])
def test_place_that_cannot_be_written_is_named(tmp_path: Path, place: str) -> None:
    tiny.write_target(tmp_path / "target")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OutputError, match=place.split("/")[0]):
        convert(tmp_path / "target", tmp_path / place, quant="F32", force=True)
