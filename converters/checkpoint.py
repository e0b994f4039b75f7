"""A checkpoint on disk: config.json and safetensors, checked before any number is read.

Only safetensors is accepted, never pickle. A file is a u64 header length, a JSON header and the
data; every size that the header claims is compared with the bytes that exist.
"""

import math
import os
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import CheckpointError, CheckpointNotFoundError, quoted
from .files import is_there, opened
from .jsonfile import JsonObject, parse_json, read_json
from .tensors import StoredTensor

MAX_CONFIG_BYTES = 4 << 20
MAX_HEADER_BYTES = 100 << 20
MAX_INDEX_BYTES = 100 << 20
MAX_DIMS = 8

_DTYPE_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1,
    "U16": 2, "I16": 2, "F16": 2, "BF16": 2,
    "U32": 4, "I32": 4, "F32": 4,
    "U64": 8, "I64": 8, "F64": 8,
}  # fmt: skip
_SHARD_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.safetensors")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder whose config and tensor directory have been read and checked."""

    folder: Path
    config: JsonObject
    tensors: Mapping[str, StoredTensor]


def open_checkpoint(folder: Path) -> Checkpoint:
    """Reads the config and the tensor directory of `folder`, which may be sharded.

    Raises CheckpointNotFoundError where a file is missing, CheckpointError where one is damaged.
    """
    if not folder.is_dir():
        what = "is not a folder" if is_there(folder) else "does not exist"
        raise CheckpointNotFoundError(
            f"{quoted(folder, 200)} {what}: give the folder of a downloaded checkpoint, which "
            "holds config.json and model.safetensors, or a GGUF file."
        )
    config = read_json(folder / "config.json", max_bytes=MAX_CONFIG_BYTES)
    single = folder / "model.safetensors"
    index = folder / "model.safetensors.index.json"
    if is_there(single):
        return Checkpoint(folder, config, _read_header(single))
    if is_there(index):
        return Checkpoint(folder, config, _read_shards(folder, index))
    if any(folder.glob("*.safetensors")):
        raise CheckpointNotFoundError(
            f"{quoted(folder, 200)} holds parts of a checkpoint but not their list, "
            "model.safetensors.index.json: download it too."
        )
    raise CheckpointNotFoundError(
        f"{quoted(folder, 200)} holds neither model.safetensors nor model.safetensors.index.json; "
        "only safetensors checkpoints can be converted."
    )


def _read_shards(folder: Path, index: Path) -> dict[str, StoredTensor]:
    weight_map = read_json(index, max_bytes=MAX_INDEX_BYTES).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(f"{quoted(index, 200)} has no weight_map.")
    shards: dict[str, dict[str, StoredTensor]] = {}
    for shard in weight_map.values():
        # A name from the index may not lead out of the folder.
        if not isinstance(shard, str) or not _SHARD_NAME.fullmatch(shard):
            raise CheckpointError(
                f"{quoted(index, 200)} names the shard {quoted(shard)}, "
                "which is not a plain .safetensors file name."
            )
        if shard not in shards:
            shards[shard] = _read_header(folder / shard)
    tensors: dict[str, StoredTensor] = {}
    for name, shard in weight_map.items():
        if name not in shards[shard]:
            raise CheckpointError(
                f"{quoted(index, 200)} places tensor {quoted(name)} in {quoted(shard)}, "
                "which does not hold it."
            )
        tensors[name] = shards[shard][name]
    stored = sum(len(shard_tensors) for shard_tensors in shards.values())
    if stored != len(tensors):
        raise CheckpointError(
            f"The shards beside {quoted(index, 200)} hold {stored} tensors "
            f"but the index lists {len(tensors)}."
        )
    return tensors


def _read_header(path: Path) -> dict[str, StoredTensor]:
    where = quoted(path, 200)
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        prefix = file.read(8)
        if len(prefix) < 8:
            raise CheckpointError(f"{where} is only {size} bytes long: it is truncated.")
        (length,) = struct.unpack("<Q", prefix)
        if prefix == b"version ":
            raise CheckpointError(
                f"{where} is a Git LFS pointer and not the weights: fetch them with git lfs pull."
            )
        if not 0 < length <= min(MAX_HEADER_BYTES, size - 8):
            raise CheckpointError(
                f"{where} claims a header of {length} bytes, but it is {size} bytes long "
                f"and a header may have at most {MAX_HEADER_BYTES}."
            )
        header = file.read(length)
    entries = parse_json(header, where=f"The header of {where}")
    data_begin = 8 + length
    spans: list[tuple[int, int, str]] = []
    tensors: dict[str, StoredTensor] = {}
    for name, entry in entries.items():
        if name == "__metadata__":
            continue
        dtype, shape, begin, end = _check_entry(name, entry, where)
        spans.append((begin, end, name))
        tensors[name] = StoredTensor(name, dtype, shape, path, data_begin + begin)
    _check_spans(spans, size - data_begin, where)
    return tensors


def _check_entry(name: str, entry: Any, where: str) -> tuple[str, tuple[int, ...], int, int]:
    what = f"Tensor {quoted(name)} in {where}"
    if not isinstance(entry, dict):
        raise CheckpointError(f"{what} has no description.")
    dtype = entry.get("dtype")
    if not isinstance(dtype, str) or dtype not in _DTYPE_BYTES:
        raise CheckpointError(f"{what} has the unknown type {quoted(dtype)}.")
    shape = _counts(entry.get("shape"))
    if shape is None or len(shape) > MAX_DIMS or 0 in shape:
        raise CheckpointError(f"{what} has the impossible shape {quoted(entry.get('shape'))}.")
    offsets = _counts(entry.get("data_offsets"))
    if offsets is None or len(offsets) != 2:
        raise CheckpointError(
            f"{what} has the impossible offsets {quoted(entry.get('data_offsets'))}."
        )
    begin, end = offsets
    expected = math.prod(shape) * _DTYPE_BYTES[dtype]
    if end - begin != expected:
        raise CheckpointError(
            f"{what} spans {end - begin} bytes where its shape and type need {expected}."
        )
    return dtype, shape, begin, end


def _counts(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, list) or any(type(item) is not int or item < 0 for item in value):
        return None
    return tuple(value)


def _check_spans(spans: list[tuple[int, int, str]], data_bytes: int, where: str) -> None:
    position = 0
    for begin, end, name in sorted(spans):
        if begin != position:
            problem = "overlaps the one" if begin < position else "leaves a hole"
            raise CheckpointError(f"Tensor {quoted(name)} in {where} {problem} before it.")
        position = end
    if position > data_bytes:
        raise CheckpointError(
            f"{where} is truncated: its tensors need {position} bytes and {data_bytes} are there."
        )
    if position < data_bytes:
        raise CheckpointError(
            f"{where} has {data_bytes - position} bytes after its last tensor that belong to none."
        )
