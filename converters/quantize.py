"""Which GGML type each tensor gets: the policy, in one table.

- Vectors (norms, scales, layer scalars, rotary factors) and the expert router stay F32: they are
  small, and llama.cpp wants vectors so.
- `matrix` is the type of every other matrix, experts and the drafter's projections included.
- `head` is that of the token embedding, which is also the LM head, in targets. Every token is read
  through it twice, so it gets more bits. A drafter's head only guesses, so speed counts: `matrix`.
- `table` is that of the per-layer embedding table of E2B and E4B, half of their weights, of which
  a pass reads one row per token.
- `sensitive` is that of attention values and down projections in the layers where errors cost
  most: those of llama.cpp's K-quant mixes, and the first eighth with IQ4_NL.
- The projection that feeds all per-layer inputs (per_layer_model_proj) keeps at least Q8_0.
- The drafter's centroids stay F32: they are metadata (see `names`).

Where a row's width is not a multiple of a K-quant's 256 weights, the type with blocks of 32 that
llama.cpp takes instead is used.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from gguf.constants import GGMLQuantizationType as Kind

from .errors import CheckpointError, OptionError, quoted
from .ggml import block_size

Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Quantization:
    """A choice on the command line; `file_type` is llama.cpp's number for it."""

    name: str
    file_type: int
    matrix: Kind
    head: Kind
    table: Kind
    sensitive: Kind | None = None


def _uniform(name: str, file_type: int) -> Quantization:
    kind = Kind[name]
    return Quantization(name, file_type, kind, kind, kind)


QUANTIZATIONS = {
    choice.name: choice
    for choice in (
        _uniform("F32", 0),
        _uniform("F16", 1),
        _uniform("BF16", 32),
        _uniform("Q8_0", 7),
        _uniform("Q6_K", 18),
        Quantization("Q5_K_M", 17, Kind.Q5_K, Kind.Q6_K, Kind.Q6_K, Kind.Q6_K),
        Quantization("Q4_K_M", 15, Kind.Q4_K, Kind.Q6_K, Kind.Q6_K, Kind.Q6_K),
        Quantization("Q4_0", 2, Kind.Q4_0, Kind.Q8_0, Kind.Q4_0),
        Quantization("IQ4_NL", 25, Kind.IQ4_NL, Kind.Q6_K, Kind.Q6_K, Kind.Q5_K),
    )
}

_FLOATS = (Kind.F32, Kind.F16, Kind.BF16)
_NARROW = {Kind.Q4_K: Kind.Q5_0, Kind.Q5_K: Kind.Q5_1, Kind.Q6_K: Kind.Q8_0}
_ROUTER = ".ffn_gate_inp.weight"
_HEADS = ("token_embd.weight", "output.weight")
_TABLE = "per_layer_token_embd.weight"
_TABLE_PROJECTION = "per_layer_model_proj.weight"
_DOWN = ("ffn_down", "ffn_down_exps")
_IN_LAYER = re.compile(r"blk\.(\d{1,6})\.(\w+)\.weight")


def find_quantization(name: str) -> Quantization:
    """The choice called `name`. Raises OptionError, naming the choices there are."""
    try:
        return QUANTIZATIONS[name.upper()]
    except KeyError:
        raise OptionError(
            f"Quantization {quoted(name)} is not known: choose one of {', '.join(QUANTIZATIONS)}."
        ) from None


def tensor_types(
    shapes: Mapping[str, Shape], choice: Quantization, *, layers: int, drafter: bool
) -> dict[str, Kind]:
    """The type of every tensor; shapes end with the row width.

    Raises CheckpointError for a row that the type's blocks cannot divide.
    """
    wanted = _wanted(shapes, choice, layers, drafter)
    return {name: _fitting(name, shapes[name], kind) for name, kind in wanted.items()}


def narrowed(
    shapes: Mapping[str, Shape], choice: Quantization, *, layers: int, drafter: bool
) -> dict[str, Kind]:
    """The tensors whose rows a K-quant cannot divide, and the types that they get instead."""
    wanted = _wanted(shapes, choice, layers, drafter)
    return {
        name: _NARROW[kind]
        for name, kind in wanted.items()
        if kind in _NARROW and shapes[name][-1] % block_size(kind)
    }


def _wanted(
    shapes: Mapping[str, Shape], choice: Quantization, layers: int, drafter: bool
) -> dict[str, Kind]:
    values = sorted((name for name in shapes if _part(name) == "attn_v"), key=_layer)
    types: dict[str, Kind] = {}
    for name, shape in shapes.items():
        if len(shape) < 2 or name.endswith(_ROUTER):
            types[name] = Kind.F32
            continue
        kind = choice.matrix
        if name in _HEADS and not drafter:
            kind = choice.head
        elif name == _TABLE:
            kind = choice.table
        elif name == _TABLE_PROJECTION and kind not in _FLOATS:
            kind = Kind.Q8_0
        elif choice.sensitive is not None and (
            (name in values and _needs_more_bits(choice, values.index(name), len(values)))
            or (_part(name) in _DOWN and _needs_more_bits(choice, _layer(name), layers))
        ):
            kind = choice.sensitive
        types[name] = kind
    return types


def _part(name: str) -> str | None:
    """What part of its layer a tensor is; None outside of layers."""
    found = _IN_LAYER.fullmatch(name)
    return found.group(2) if found else None


def _layer(name: str) -> int:
    found = _IN_LAYER.fullmatch(name)
    return int(found.group(1)) if found else 0


def _needs_more_bits(choice: Quantization, index: int, count: int) -> bool:
    """Whether the `index`-th of `count` such tensors is one where errors cost most."""
    first = index < count // 8
    if choice.matrix == Kind.IQ4_NL:
        return first
    return first or index >= 7 * count // 8 or (index - count // 8) % 3 == 2


def _fitting(name: str, shape: Shape, kind: Kind) -> Kind:
    if shape[-1] % block_size(kind):
        kind = _NARROW.get(kind, kind)
    if shape[-1] % block_size(kind):
        raise CheckpointError(
            f"Tensor {quoted(name)} has rows of {shape[-1]} weights, which blocks of "
            f"{block_size(kind)} ({kind.name}) cannot divide: choose --quant F16, BF16 or F32."
        )
    return kind
