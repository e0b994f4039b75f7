"""GGUF files as sources, importance matrices, pairs and provenance."""

from __future__ import annotations

import json
import random
from pathlib import Path

import gguf_builder as build
import numpy as np
import pytest
import random_weights
import tiny_checkpoint as tiny
from embedded import DRAFTER, TARGET
from gemmachat.converters import (
    CheckpointError,
    CheckpointNotFoundError,
    ConversionError,
    OptionError,
    OutputError,
    convert,
    names,
)
from gemmachat.converters.config import read_hparams
from gemmachat.converters.conversion import plan_file
from gemmachat.converters.gguf_source import read_gguf
from gemmachat.converters.gguf_values import boolean_array, float32, int32_array, string, uint32
from gemmachat.converters.imatrix import read_imatrix
from gemmachat.converters.quantize import QUANTIZATIONS, tensor_types
from gemmachat.converters.write import GgufFile, write_files
from real_vocab import RealVocab, _values

from gemmachat.gguf_info import check_pair, read_header

CONFIGS = Path(__file__).parent / "data" / "embedded"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("source")
    tiny.write_target(root / "target")
    tiny.write_drafter(root / "drafter")
    return root


# --- GGUF as the source -----------------------------------------------------------------------


@pytest.mark.parametrize("path", [TARGET, DRAFTER], ids=["target", "drafter"])
def test_embedded_files_come_out_of_themselves_byte_for_byte(path: Path, tmp_path: Path) -> None:
    convert(path, tmp_path / "again.gguf", quant="Q8_0")
    assert (tmp_path / "again.gguf").read_bytes() == path.read_bytes()


HEADER = [build.key("general.architecture", build.STR, build.text("gemma4"))]
LAYERS = build.u32("gemma4.block_count", 2)
HOSTILE = {
    "empty": (b"", "too short"),
    "other magic": (build.gguf(magic=b"GGML"), "not a GGUF file"),
    "version 1": (build.gguf(version=1), "not a GGUF file"),
    "2^40 keys": (build.gguf(key_count=2**40), "truncated"),
    "2^40 tensors": (build.gguf(tensor_count=2**40), "truncated"),
    "2^60 items": (build.gguf([build.array("a", build.U32, 2**60, b"")]), "truncated"),
    "2^60 texts": (build.gguf([build.array("a", build.STR, 2**60, b"")]), "truncated"),
    "text past the end": (
        build.gguf([build.array("a", build.STR, 1, b"\xff" * 7 + b"\x7f")]),
        "truncated",
    ),
    "key twice": (build.gguf([LAYERS, LAYERS]), "twice"),
    "key not UTF-8": (build.gguf([build.key(b"\xff", build.U8, b"\0")]), "UTF-8"),
    "array of arrays": (build.gguf([build.array("a", build.ARR, 1, b"")]), "unknown type 9"),
    "unknown value": (build.gguf([build.key("a", 77, b"")]), "unknown type 77"),
    "alignment 3": (build.gguf([build.u32("general.alignment", 3)]), "alignment 3"),
    "alignment 2^31": (build.gguf([build.u32("general.alignment", 2**31)]), "alignment"),
    "alignment text": (
        build.gguf([build.key("general.alignment", build.STR, build.text("x"))]),
        "alignment",
    ),
    "long name": (build.gguf(tensors=[build.tensor("x" * 65, [4])]), "65 bytes"),
    "no dimension": (build.gguf(tensors=[build.tensor("x", [])]), "0 dimensions"),
    "five dimensions": (build.gguf(tensors=[build.tensor("x", [1] * 5)]), "5 dimensions"),
    "empty dimension": (build.gguf(tensors=[build.tensor("x", [0])]), "impossible shape"),
    "half a block": (
        build.gguf(tensors=[build.tensor("x", [16], build.TYPE_Q8_0)], data=bytes(64)),
        "impossible shape",
    ),
    "huge": (build.gguf(tensors=[build.tensor("x", [2**40, 2**40])]), "truncated"),
    "offset past the end": (
        build.gguf(tensors=[build.tensor("x", [4], offset=2**63)], data=bytes(64)),
        "truncated",
    ),
    "unknown tensor type": (build.gguf(tensors=[build.tensor("x", [4], 99)]), "unknown type 99"),
    "tensor twice": (
        build.gguf(tensors=[build.tensor("x", [4])] * 2, data=bytes(64)),
        "twice",
    ),
    "no model": (build.gguf(), "no Gemma 4 model"),
    "another model": (
        build.gguf([build.key("general.architecture", build.STR, build.text("llama"))]),
        "no Gemma 4 model",
    ),
    "layers as text": (
        build.gguf([*HEADER, build.key("gemma4.block_count", build.STR, build.text("2"))]),
        "no Gemma 4 model",
    ),
    "part of a split": (
        build.gguf([*HEADER, LAYERS, build.key("split.count", 2, b"\2\0")]),
        "split model",
    ),
    "weights that are integers": (
        build.gguf([*HEADER, LAYERS], [build.tensor("x", [4, 4], 26)], bytes(64)),
        "has type I32",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_gguf_source_is_refused(tmp_path: Path, name: str) -> None:
    content, expected = HOSTILE[name]
    source = tmp_path / "source.gguf"
    source.write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        convert(source, tmp_path / "out.gguf", quant="F32")
    assert expected in str(caught.value)
    assert str(caught.value).isprintable()
    assert list(tmp_path.iterdir()) == [source]


def test_cut_or_damaged_source_never_fails_otherwise(root: Path, tmp_path: Path) -> None:
    source, output = tmp_path / "source.gguf", tmp_path / "out.gguf"
    convert(root / "target", source, quant="Q8_0")
    whole = source.read_bytes()
    rng = random.Random(5)
    for _ in range(150):
        broken = bytearray(whole[: rng.choice([len(whole), rng.randrange(len(whole))])])
        for _ in range(rng.randrange(4)):
            broken[rng.randrange(min(len(broken), 20_000))] = rng.randrange(256)
        source.write_bytes(broken)
        try:
            convert(source, output, quant="Q4_0", force=True)
        except ConversionError as error:
            assert str(error).isprintable()  # noqa: PT017 - not every damage is an error


@pytest.mark.parametrize("alignment", [8, 16, 64, 256])
def test_source_of_another_alignment_arrives_whole(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alignment: int
) -> None:
    plain, aligned, output = (tmp_path / f"{name}.gguf" for name in ("plain", "aligned", "out"))
    convert(root / "target", plain, quant="F32")
    plan = plan_file(root / "target", quant="F32")
    metadata = {**plan.metadata, "general.alignment": uint32(alignment)}
    with monkeypatch.context() as context:
        context.setattr("gemmachat.converters.write.ALIGNMENT", alignment)
        write_files({aligned: GgufFile(metadata, plan.tensors)}, force=False)
    convert(aligned, output, quant="F32")
    assert output.read_bytes() == plain.read_bytes()


@pytest.mark.parametrize("name", ["x.attn_v.weight", "blk.a.attn_v.weight", "x.ffn_down.weight"])
def test_tensor_of_an_unknown_name_is_an_ordinary_matrix(name: str) -> None:
    types = tensor_types({name: (32, 256)}, QUANTIZATIONS["Q4_K_M"], layers=2, drafter=False)
    assert types[name].name == "Q4_K"


ARCH, DRAFTER_ARCH = "gemma4.", "gemma4-assistant."
ODD_PAIRS = {
    "heads of too few layers": {ARCH + "attention.head_count_kv": int32_array([2, 2])},
    "all layers shared": {ARCH + "attention.shared_kv_layers": uint32(6)},
    "more layers shared": {ARCH + "attention.shared_kv_layers": uint32(60)},
    "shared NaN": {ARCH + "attention.shared_kv_layers": float32(float("nan"))},
    "all sliding": {ARCH + "attention.sliding_window_pattern": boolean_array([True] * 6)},
    "no pattern": {ARCH + "attention.sliding_window_pattern": None},
    "no pattern in the drafter": {DRAFTER_ARCH + "attention.sliding_window_pattern": None},
    "no window": {
        ARCH + "attention.sliding_window": None,
        DRAFTER_ARCH + "attention.sliding_window": None,
    },
    "width as text": {ARCH + "embedding_length": string("64")},
    "no tokens": {"tokenizer.ggml.tokens": None},
}


@pytest.mark.parametrize("name", ODD_PAIRS)
def test_pair_of_odd_files_is_refused(root: Path, tmp_path: Path, name: str) -> None:
    for role in ("target", "drafter"):
        plan = plan_file(root / role, quant="F32")
        metadata = {**plan.metadata}
        for key, value in ODD_PAIRS[name].items():
            if value is None:
                metadata.pop(key, None)
            elif key in metadata:
                metadata[key] = value
        write_files({tmp_path / f"{role}.gguf": GgufFile(metadata, plan.tensors)}, force=False)
    with pytest.raises(CheckpointError):
        convert(
            tmp_path / "target.gguf",
            tmp_path / "o.gguf",
            quant="Q8_0",
            drafter=tmp_path / "drafter.gguf",
        )
    assert len(list(tmp_path.iterdir())) == 2


def test_another_matrix_is_not_claimed_for_a_second_quantization(
    root: Path, tmp_path: Path
) -> None:
    matrix = imatrix(tmp_path / "i.gguf", {f"{UP}.in_sum2": SUMS, f"{UP}.counts": COUNT})
    weighed = tmp_path / "weighed.gguf"
    convert(root / "target", weighed, quant="Q4_0", imatrix=matrix)
    assert read_header(weighed).metadata["quantize.imatrix.file"] == "i.gguf"
    convert(weighed, tmp_path / "again.gguf", quant="Q8_0")
    assert not any(
        key.startswith("quantize.") for key in read_header(tmp_path / "again.gguf").metadata
    )
    with pytest.raises(OptionError, match="Q8_0 weighs no importance: leave out"):
        convert(root / "target", tmp_path / "q8.gguf", quant="Q8_0", imatrix=matrix)


# --- importance matrices ----------------------------------------------------------------------


def imatrix(path: Path, tensors: dict[str, np.ndarray]) -> Path:
    offset, directory, data = 0, [], b""
    for name, values in tensors.items():
        directory.append(build.tensor(name, values.shape[::-1], offset=offset))
        data += values.astype("<f4").tobytes()
        data += bytes(-len(data) % 32)
        offset = len(data)
    path.write_bytes(build.gguf([], directory, data))
    return path


SUMS, COUNT = np.arange(64, dtype=np.float32).reshape(1, 64), np.full((1, 1), 4, np.float32)
UP = "blk.0.ffn_up.weight"


def test_importance_is_the_mean_square_and_even_where_nothing_was_counted(tmp_path: Path) -> None:
    path = imatrix(
        tmp_path / "i.gguf",
        {"e.in_sum2": np.repeat(SUMS, 2, 0), "e.counts": np.array([[4], [0]], np.float32)},
    )
    means = read_imatrix(path).means["e"]
    assert np.array_equal(means, np.stack([SUMS[0] / 4, np.ones(64)]))


@pytest.mark.parametrize(
    ("tensors", "expected"),
    [
        ({"a": SUMS}, "no importance matrix"),
        ({f"{UP}.in_sum2": SUMS}, "lacks float counts"),
        ({f"{UP}.in_sum2": SUMS, f"{UP}.counts": np.ones((2, 1))}, "wrong counts"),
        ({f"{UP}.in_sum2": -SUMS, f"{UP}.counts": COUNT}, "impossible importance"),
        ({f"{UP}.in_sum2": SUMS * np.nan, f"{UP}.counts": COUNT}, "impossible importance"),
        ({f"{UP}.in_sum2": SUMS[:, :32], f"{UP}.counts": COUNT}, "belongs to another"),
        ({"other.in_sum2": SUMS, "other.counts": COUNT}, "weighs none"),
    ],
)
def test_unfit_importance_matrix_is_refused(
    root: Path, tmp_path: Path, tensors: dict[str, np.ndarray], expected: str
) -> None:
    path = imatrix(tmp_path / "i.gguf", tensors)
    with pytest.raises(CheckpointError, match=expected):
        convert(root / "target", tmp_path / "out.gguf", quant="Q4_0", imatrix=path)
    assert list(tmp_path.iterdir()) == [path]


def test_missing_importance_matrix_is_not_found(root: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFoundError, match=r"absent\.gguf"):
        convert(
            root / "target", tmp_path / "o.gguf", quant="Q4_0", imatrix=tmp_path / "absent.gguf"
        )


# --- pairs ------------------------------------------------------------------------------------


def test_pair_appears_together_and_belongs_together(root: Path, tmp_path: Path) -> None:
    output = tmp_path / "m.gguf"
    report = convert(root / "target", output, quant="Q4_0", drafter=root / "drafter")
    drafter = tmp_path / "m-drafter.gguf"
    assert list(report.files) == [output, drafter]
    assert {path: path.stat().st_size for path in report.files} == {
        path: file.nbytes for path, file in report.files.items()
    }
    check_pair(read_header(output), read_header(drafter))
    assert read_header(drafter).metadata["general.file_type"] == 7


ROPE = tiny.drafter_config()["text_config"]["rope_parameters"]
HALF_ROTATED = ROPE | {"full_attention": ROPE["full_attention"] | {"partial_rotary_factor": 0.5}}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"backbone_hidden_size": 96}, "hidden width is 96 and its target's is 64"),
        ({"text": {"sliding_window": 8}}, "sliding window is 8"),
        ({"text": {"rope_parameters": HALF_ROTATED}}, "turns other elements"),
        ({"text": {"head_dim": 16}}, "heads of sliding attention is 16"),
        ({"text": {"num_key_value_heads": 1}}, "key-value heads in sliding attention is 1"),
        ({"text": {"per_layer_config": {"3": {"head_dim": 32}}}}, "heads of full attention is 32"),
    ],
)
def test_drafter_of_another_model_is_refused_by_its_difference(
    root: Path, tmp_path: Path, changes: dict[str, object], expected: str
) -> None:
    config = tiny.drafter_config()
    config["text_config"] |= changes.pop("text", {})
    config |= changes
    tiny.write_drafter(tmp_path / "drafter", **config)
    with pytest.raises(CheckpointError, match=expected):
        convert(root / "target", tmp_path / "m.gguf", quant="Q8_0", drafter=tmp_path / "drafter")
    assert [path.name for path in tmp_path.iterdir()] == ["drafter"]


def test_other_tokens_and_exchanged_sources_are_refused(root: Path, tmp_path: Path) -> None:
    output = tmp_path / "m.gguf"
    with pytest.raises(CheckpointError, match="not a drafter"):
        convert(root / "drafter", output, quant="Q8_0", drafter=root / "target")
    with pytest.raises(CheckpointError, match="must be a Gemma 4 assistant"):
        convert(root / "target", output, quant="Q8_0", drafter=root / "target")
    edited = tmp_path / "edited"
    tiny.write_drafter(edited)
    tokenizer = json.loads((edited / "tokenizer.json").read_text("utf-8"))
    ids = tokenizer["model"]["vocab"]
    ids["<filler0>"], ids["<filler1>"] = ids["<filler1>"], ids["<filler0>"]
    (edited / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    with pytest.raises(CheckpointError, match="other tokens"):
        convert(root / "target", output, quant="Q8_0", drafter=edited)


def test_existing_drafter_is_kept_and_no_target_written(root: Path, tmp_path: Path) -> None:
    (tmp_path / "m-drafter.gguf").write_bytes(b"precious")
    with pytest.raises(OutputError, match=r"m-drafter\.gguf' exists"):
        convert(root / "target", tmp_path / "m.gguf", quant="Q8_0", drafter=root / "drafter")
    assert (tmp_path / "m-drafter.gguf").read_bytes() == b"precious"
    assert len(list(tmp_path.iterdir())) == 1


# --- provenance -------------------------------------------------------------------------------

REVISION = "0123456789abcdef0123456789abcdef01234567"


def described(folder: Path, tmp_path: Path) -> dict[str, object]:
    output = tmp_path / "out.gguf"
    convert(folder, output, quant="F16", force=True)
    return {
        key.removeprefix("general."): value
        for key, value in read_header(output).metadata.items()
        if key.startswith("general.")
    }


def test_download_cache_tells_repository_and_revision(tmp_path: Path) -> None:
    folder = tmp_path / "models--google--gemma-4-E2B-it" / "snapshots" / REVISION
    tiny.write_target(folder)
    (folder / "README.md").write_text("---\nlicense: apache-2.0\nlanguage: en\n---\n# Gemma\n")
    found = described(folder, tmp_path)
    assert found.pop("quantized_by").startswith("gemmachat ")
    assert found == {
        "architecture": "gemma4",
        "type": "model",
        "name": "gemma-4-E2B-it",
        "size_label": "E2B",
        "license": "apache-2.0",
        "source.repo_url": "https://huggingface.co/google/gemma-4-E2B-it",
        "source.url": f"https://huggingface.co/google/gemma-4-E2B-it/tree/{REVISION}",
        "file_type": 1,
        "quantization_version": 2,
    }


def test_downloaded_folder_tells_its_revision(tmp_path: Path) -> None:
    folder = tmp_path / "my-26B-A4B_copy"
    tiny.write_target(folder)
    notes = folder / ".cache" / "huggingface" / "download"
    notes.mkdir(parents=True)
    (notes / "config.json.metadata").write_text(f"{REVISION}\n0a1b\n1700000000.0\n")
    found = described(folder, tmp_path)
    assert found["version"] == REVISION
    assert (found["name"], found["size_label"]) == ("my-26B-A4B_copy", "26B-A4B")


def test_unknown_origin_claims_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "target"
    tiny.write_target(folder)
    (folder / "README.md").write_text("license: mit\n---\nlicense: mit\n---\n")
    weights = random_weights.target_weights(tiny.target_config(), 0).values()
    found = described(folder, tmp_path)
    assert found["size_label"] == f"{sum(tensor.size for tensor in weights) / 1e3:.1f}K"
    assert not {"license", "source.repo_url", "source.url", "version"} & found.keys()


def test_same_input_gives_the_same_bytes(root: Path, tmp_path: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        convert(root / "target", tmp_path / name, quant="Q4_0")
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()


def write_checkpoint_of(path: Path, folder: Path) -> None:
    """The folder that an embedded file was made from, with the weights that the file kept."""
    metadata = {key: _values(value) for key, value in read_header(path).metadata.items()}
    RealVocab(metadata, [], {}).write_tokenizer(folder)
    config = json.loads((CONFIGS / f"{path.stem}.json").read_text())
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n")
    stored = read_gguf(path).tensors
    tensors = {
        suffix: stored[name].floats() for suffix, name, _ in names._expected(read_hparams(config))
    }
    head = "gemma4-assistant.masked_embedding."
    if f"{head}centroids" in metadata:
        centroids = np.array(metadata[f"{head}centroids"], np.float32)
        tensors[names.CENTROIDS] = centroids.reshape(metadata[f"{head}centroid_count"], -1)
        tensors[names.TOKEN_ORDERING] = np.array(metadata[f"{head}token_ordering"], np.int64)
    content = tiny.safetensors(tiny.stored_names(tensors))
    (folder / "model.safetensors").write_bytes(content)


def test_embedded_pair_is_what_a_checkpoint_with_its_weights_converts_to(tmp_path: Path) -> None:
    for path in (TARGET, DRAFTER):
        write_checkpoint_of(path, tmp_path / path.stem)
    convert(
        tmp_path / TARGET.stem,
        tmp_path / TARGET.name,
        quant="Q8_0",
        drafter=tmp_path / DRAFTER.stem,
    )
    for path in (TARGET, DRAFTER):
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()
    assert (
        json.loads((tmp_path / "tiny" / "config.json").read_text())["model_type"] == "gemma4_text"
    )


# --- what the user is told --------------------------------------------------------------------


def test_quantized_source_and_incomplete_matrix_are_told(root: Path, tmp_path: Path) -> None:
    matrix = imatrix(tmp_path / "i.gguf", {f"{UP}.in_sum2": SUMS, f"{UP}.counts": COUNT})
    report = convert(root / "target", tmp_path / "q4.gguf", quant="Q4_0", imatrix=matrix)
    assert [note.split(" of ")[0] for note in report.notes] == ["The importance matrix knows 1"]
    again = convert(tmp_path / "q4.gguf", tmp_path / "q8.gguf", quant="Q8_0")
    assert again.notes[0].startswith("'q4.gguf' is quantized already (Q4_0, Q8_0)")


def test_rows_that_k_quants_cannot_divide_are_told(root: Path, tmp_path: Path) -> None:
    report = convert(root / "target", tmp_path / "k.gguf")
    assert report.notes[0].endswith("they are stored as Q5_0 or Q8_0, as llama.cpp does.")
    assert read_header(tmp_path / "k.gguf").metadata["general.file_type"] == 15


def test_drafter_alone_is_a_drafter_by_default(root: Path, tmp_path: Path) -> None:
    convert(root / "drafter", tmp_path / "d.gguf")
    assert read_header(tmp_path / "d.gguf").metadata["general.file_type"] == 7
