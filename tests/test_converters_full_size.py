"""The ten real models, planned at full size: right names, shapes, keys, and as large as published.

Only the plan is made: the checkpoints are sparse files without numbers.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import full_size
import numpy as np
import pytest
import sparse_checkpoint
from full_size import Model
from gemmachat.converters import conversion, source, vocab
from real_vocab import real_vocab

E2B, E4B, M12B = full_size.E2B, full_size.E4B, full_size.M12B
M26B, M31B = full_size.M26B, full_size.M31B
E2B_DRAFTER, E4B_DRAFTER = full_size.E2B_DRAFTER, full_size.E4B_DRAFTER
M12B_DRAFTER, M26B_DRAFTER = full_size.M12B_DRAFTER, full_size.M26B_DRAFTER
M31B_DRAFTER = full_size.M31B_DRAFTER
# Tensors in GGUF, and their weights in millions: arithmetic on the published shapes.
TOTALS = [
    (E2B, 541, 4628.57),
    (E4B, 666, 7463.01),
    (M12B, 667, 11907.35),
    (M26B, 658, 25233.14),
    (M31B, 833, 30697.35),
    (E2B_DRAFTER, 49, 77.21),
    (E4B_DRAFTER, 49, 77.99),
    (M12B_DRAFTER, 49, 422.86),
    (M26B_DRAFTER, 49, 419.71),
    (M31B_DRAFTER, 49, 469.52),
]
MODELS = [row[0] for row in TOTALS]
# Bytes of published files. They choose types as we do, but for one matrix of E2B and E4B (theirs
# is BF16); the Q8_0 file of E2B also holds keys and values that no layer uses.
PUBLISHED = [
    (E2B, "Q4_0", 2841481184),
    (E4B, "Q4_0", 4590807392),
    (M12B, "Q4_0", 7219673216),
    (M26B, "Q4_0", 14618145824),
    (M31B, "Q4_0", 17992313088),
    (E2B, "Q8_0", 4967497152),
    (M26B, "Q4_K_M", 16796015136),
    (E2B_DRAFTER, "Q8_0", 97817664),
    (E4B_DRAFTER, "Q8_0", 98653280),
    (M12B_DRAFTER, "Q8_0", 465109152),
    (M12B_DRAFTER, "Q4_0", 253708800),
    (M26B_DRAFTER, "Q8_0", 461785600),
]
GGUF_TYPES = {4: "<u4", 5: "<i4", 6: "<f4", 7: "?"}


class SharedVocab:
    """The tokenizer's keys, read once for all models."""

    def __init__(self, folder: Path) -> None:
        self._keys = vocab.read_vocab(folder, full_size.VOCAB).metadata()

    def metadata(self) -> dict[str, Any]:
        return self._keys


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    real_vocab().write_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def plan(tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Plans the conversion of a model; every folder links to the one tokenizer."""
    checkpoints = tmp_path_factory.mktemp("checkpoints")
    shared = SharedVocab(tokenizer)

    def read_shared(folder: Path, size: int) -> SharedVocab:
        assert (folder / "tokenizer.json").samefile(tokenizer / "tokenizer.json")
        assert size == full_size.VOCAB
        return shared

    def plan(model: Model, quant: str) -> Any:
        folder = checkpoints / model.name
        if not folder.exists():
            sparse_checkpoint.write_checkpoint(model, folder, tokenizer)
        return conversion.plan_file(folder, quant=quant)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "read_vocab", read_shared)
        yield plan


def name_of(parameter: object) -> str:
    return getattr(parameter, "name", str(parameter))


def plain(value: Any) -> Any:
    """A metadata value as Python has it."""
    if value.type == 8:
        return value.encoded[8:].decode()
    if value.type != 9:
        return np.frombuffer(value.encoded, GGUF_TYPES[value.type])[0].item()
    item, length = struct.unpack_from("<IQ", value.encoded)
    numbers = np.frombuffer(value.encoded, GGUF_TYPES[item], offset=12)
    assert len(numbers) == length
    return numbers.tolist()


@pytest.mark.parametrize(("model", "count", "millions"), TOTALS, ids=name_of)
def test_every_real_model_is_planned_whole(
    plan: Any, model: Model, count: int, millions: float
) -> None:
    planned = {tensor.name: tensor.shape for tensor in plan(model, "Q8_0").tensors}
    expected = {t.name: t.shape for t in full_size.tensors(model) if t.name is not None}
    expected["rope_freqs.weight"] = (full_size.HEAD_DIM_FULL // 2,)
    assert planned == expected
    assert len(planned) == count
    weights = sum(map(math.prod, planned.values())) - full_size.HEAD_DIM_FULL // 2
    assert weights / 1e6 == pytest.approx(millions, abs=0.006)


@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_every_real_model_is_described_in_full(plan: Any, model: Model) -> None:
    metadata = plan(model, "Q8_0").metadata
    arrays = ("masked_embedding.centroids", "masked_embedding.token_ordering")
    found = {
        key: plain(value)
        for key, value in metadata.items()
        if key.startswith("gemma4") and not key.endswith(arrays)
    }
    assert found == full_size.expected_keys(model)
    # Readers insist on the kind of number, too.
    kinds = {key: value.type for key, value in metadata.items() if key in found}
    for key, value in found.items():
        kind = {bool: 7, int: 4, float: 6, list: 9}[type(value)]
        assert kinds[key] == kind, key
    tokens = metadata["tokenizer.ggml.tokens"].encoded
    assert struct.unpack_from("<IQ", tokens) == (8, full_size.VOCAB)


@pytest.mark.parametrize("model", [E2B_DRAFTER, E4B_DRAFTER], ids=name_of)
def test_a_real_centroid_head_arrives_whole(plan: Any, model: Model) -> None:
    metadata = plan(model, "Q8_0").metadata
    prefix = "gemma4-assistant.masked_embedding"
    ordering = plain(metadata[f"{prefix}.token_ordering"])
    same = ordering == sparse_checkpoint.token_ordering().tolist()
    assert same
    centroids = metadata[f"{prefix}.centroids"].encoded
    assert struct.unpack_from("<IQ", centroids) == (6, full_size.CENTROIDS * model.hidden)


@pytest.mark.parametrize(("model", "quant", "published"), PUBLISHED, ids=name_of)
def test_files_are_as_large_as_the_published_ones(
    plan: Any, model: Model, quant: str, published: int
) -> None:
    planned = plan(model, quant)
    # llama.cpp's own converter drops the centroid head; ours takes it along as metadata: 3 MB.
    extra = sum(
        len(value.encoded) for key, value in planned.metadata.items() if ".masked_embedding." in key
    )
    assert planned.nbytes - extra == pytest.approx(published, rel=0.01)
