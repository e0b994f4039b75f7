"""Models with synthetic weights for benchmarks: as the converter writes them, and fit to run."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import full_size
import numpy as np
import pytest
import tiny_checkpoint as tiny
from full_size import Model
from gemmachat.converters import convert
from gguf.constants import GGMLQuantizationType as Kind
from gguf.quants import dequantize
from sparse_checkpoint import write_checkpoint

from gemmachat import Engine, SamplingParams
from gemmachat.gguf_info import ArrayInfo, check_pair, read_header

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import synthetic

SIZES = {"hidden": 512, "layers": 10, "shared": 5, "feed_forward": 512, "heads": 2, "vocab": 4096}
SMALL = synthetic.Pair(
    "small",
    replace(full_size.E2B, **SIZES),
    replace(full_size.E2B_DRAFTER, backbone=512, feed_forward=512, vocab=4096),
)
CENTROIDS = "gemma4-assistant.masked_embedding.centroids"
# Bytes and weights of a block.
BLOCKS = {"F32": (4, 1), "Q4_0": (18, 32), "Q8_0": (34, 32), "Q4_K": (144, 256), "Q6_K": (210, 256)}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    text = json.dumps(tiny.tokenizer_json())
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module", params=synthetic.QUANTS)
def written(
    request: pytest.FixtureRequest, tokenizer: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[Path, tuple[Model, str]]:
    """The target, the drafter and the drafter without centroids, all of one quantization."""
    folder = tmp_path_factory.mktemp("written")
    files = {
        folder / name: made for name, made in SMALL.models(request.param, request.param).items()
    }
    for path, (model, quant) in files.items():
        synthetic.write_model(path, model, quant, tokenizer)
    return files


def test_files_say_what_the_converter_writes_for_a_checkpoint_of_their_shapes(
    written: dict[Path, tuple[Model, str]], tokenizer: Path, tmp_path: Path
) -> None:
    for path, (model, quant) in written.items():
        write_checkpoint(model, tmp_path / model.name, tokenizer)
        output = tmp_path / path.name
        convert(tmp_path / model.name, output, quant=quant)
        found, expected = read_header(path), read_header(output)
        assert found.tensors == expected.tensors
        assert found.value_types == expected.value_types
        assert values(found.metadata) == values(expected.metadata)
        assert found.state.size == expected.state.size


def values(metadata: dict[str, object]) -> dict[str, object]:
    """Everything but the centroids, which are weights."""
    return {
        key: value.raw() if isinstance(value, ArrayInfo) else value
        for key, value in metadata.items()
        if key != CENTROIDS
    }


def test_every_file_says_that_its_weights_are_synthetic(
    written: dict[Path, tuple[Model, str]],
) -> None:
    names = [read_header(path).metadata["general.name"] for path in written]
    assert names == [
        "synthetic weights, small shapes",
        "synthetic weights, small shapes, drafter",
        "synthetic weights, small shapes, drafter without centroids",
    ]


def test_centroids_are_there_and_differ_or_are_not_there_at_all(
    written: dict[Path, tuple[Model, str]],
) -> None:
    _, drafter, dense = (read_header(path) for path in written)
    centroids = drafter.metadata[CENTROIDS]
    assert isinstance(centroids, ArrayInfo)
    rows = np.frombuffer(centroids.raw(), "<f4").reshape(full_size.CENTROIDS, 256)
    assert len(np.unique(rows, axis=0)) == len(rows)
    assert not [key for key in dense.metadata if "masked_embedding" in key]


def test_weights_neither_swell_nor_fade_nor_repeat(
    written: dict[Path, tuple[Model, str]],
) -> None:
    for path in written:
        data = np.memmap(path, np.uint8, "r")
        for name, tensor in read_header(path).tensors.items():
            stored = data[tensor.offset : tensor.offset + tensor.nbytes]
            weights = dequantize(stored, Kind[tensor.type_name]).reshape(tensor.shape[::-1])
            assert np.isfinite(weights).all(), name
            if weights.ndim == 2:
                width = weights.shape[1]
                assert weights.std() * width**0.5 == pytest.approx(1, abs=0.03), name
                assert abs(weights.mean()) * width**0.5 < 0.02, name
                rows = stored.reshape(len(weights), -1)
                assert len({row.tobytes() for row in rows}) == len(rows), name


@pytest.mark.parametrize("drafter", [1, 2], ids=["centroids", "dense"])
def test_a_pair_answers_the_same_with_drafts_and_without(
    written: dict[Path, tuple[Model, str]], drafter: int
) -> None:
    paths = list(written)
    check_pair(read_header(paths[0]), read_header(paths[drafter]))
    with (
        Engine.load(paths[0], paths[drafter], threads=1) as engine,
        engine.session(n_ctx=64, exact=True) as session,
    ):
        answers = {}
        for draft in (3, "off"):
            greedy = SamplingParams(temperature=0.0)
            events = list(session.generate([2, 300, 301, 302], greedy, draft=draft, max_tokens=16))
            assert all(math.isfinite(event.logprob) for event in events)
            answers[draft] = [event.token for event in events]
            assert (session.stats().drafted > 0) == (draft == 3)
    assert answers[3] == answers["off"]
    assert len(set(answers[3])) > 8, "the answer turns in circles"


def test_the_same_file_comes_out_again(tokenizer: Path, tmp_path: Path) -> None:
    paths = [tmp_path / "one.gguf", tmp_path / "two.gguf"]
    for path in paths:
        synthetic.write_model(path, SMALL.drafter, "Q8_0", tokenizer)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ValueError, match="no random blocks of IQ4_NL"):
        synthetic.random_blocks(Kind.IQ4_NL, 1, 1.0, np.random.default_rng(0))


# Bytes of published files, and the types of the token embedding, the table and most matrices.
@pytest.mark.parametrize(
    ("quant", "published", "types"),
    [
        ("Q4_0", 2841481184, ("Q8_0", "Q4_0", "Q4_0")),
        ("Q8_0", 4967497152, ("Q8_0", "Q8_0", "Q8_0")),
        ("Q4_K_M", None, ("Q6_K", "Q6_K", "Q4_K")),
    ],
)
def test_e2b_is_planned_at_full_size(
    tokenizer: Path, quant: str, published: int | None, types: tuple[str, str, str]
) -> None:
    plan = synthetic.plan_model(full_size.E2B, quant, tokenizer)
    expected = {t.name: t.shape for t in full_size.tensors(full_size.E2B) if t.name is not None}
    expected["rope_freqs.weight"] = (full_size.HEAD_DIM_FULL // 2,)
    assert {tensor.name: tensor.shape for tensor in plan.tensors} == expected
    kinds = {tensor.name: Kind(tensor.type_id).name for tensor in plan.tensors}
    named = ("token_embd", "per_layer_token_embd", "blk.20.ffn_gate")
    assert tuple(kinds[f"{name}.weight"] for name in named) == types
    for tensor in plan.tensors:
        size, block = BLOCKS[kinds[tensor.name]]
        assert tensor.nbytes == math.prod(tensor.shape) * size // block
    if published is not None:
        assert plan.nbytes == pytest.approx(published, rel=0.01)
