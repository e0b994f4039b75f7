"""Whether a file holds exactly the tensors of its Gemma 4 model, in shapes and types that run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gemmachat.errors import DamagedFileError
from gemmachat.gguf_model import DRAFTER
from gemmachat.gguf_types import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .gguf_model import ModelShape
    from .gguf_types import GgufInfo, TensorInfo

# Types with a dot product and a row reader in llama.cpp's CPU backend; others end the process.
MATRIX_TYPES = frozenset(
    (
        "F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K",
        "Q5_K", "Q6_K", "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S",
        "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4", "Q1_0", "Q2_0",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Expected:
    """One tensor that the model has. Vectors must be F32, matrices may be quantized."""

    name: str
    shape: tuple[int, ...]
    required: bool = True

    @property
    def types(self) -> frozenset[str]:
        """Names of the types it may be stored in."""
        return MATRIX_TYPES if len(self.shape) > 1 else frozenset(("F32",))


def check_tensors(info: GgufInfo, shape: ModelShape) -> None:
    """Raise DamagedFileError when a tensor is missing, does not belong, or could not be used."""
    drafter = info.architecture == DRAFTER
    left = dict(info.tensors)
    for expected in _drafter(shape) if drafter else _target(info, shape):
        tensor = left.pop(expected.name, None)
        if tensor is not None:
            _check_tensor(info, expected, tensor)
        elif expected.required:
            raise DamagedFileError(
                f"{quoted(info.path)} lacks the tensor {quoted(expected.name)}: "
                "it is incomplete; download or convert it again."
            )
    if left:
        name = next(iter(left))
        advice = (
            "convert the drafter again with gemmachat convert"
            if name.startswith("masked_embd_")
            else "it was made for another program"
        )
        raise DamagedFileError(
            f"{quoted(info.path)} holds the tensor {quoted(name)}, which llama.cpp does not know "
            f"in a {info.architecture} model: {advice}."
        )


def _check_tensor(info: GgufInfo, expected: Expected, tensor: TensorInfo) -> None:
    # Trailing dimensions of one element carry no meaning.
    found = tensor.shape
    while len(found) > len(expected.shape) and found[-1] == 1:
        found = found[:-1]
    if found != expected.shape:
        raise DamagedFileError(
            f"{quoted(info.path)} stores tensor {quoted(tensor.name)} in shape {list(found)}, "
            f"but its metadata calls for {list(expected.shape)}."
        )
    if tensor.type_name not in expected.types:
        raise DamagedFileError(
            f"{quoted(info.path)} stores tensor {quoted(tensor.name)} as {tensor.type_name}, "
            "which cannot be computed with."
        )


def _target(info: GgufInfo, shape: ModelShape) -> Iterator[Expected]:
    hidden, vocab = shape.hidden, shape.vocab
    yield Expected("token_embd.weight", (hidden, vocab))
    yield Expected("output.weight", (hidden, vocab), required=False)
    yield Expected("output_norm.weight", (hidden,))
    yield Expected("rope_freqs.weight", (shape.head_dim_full // 2,))
    if shape.per_layer_input:
        width = shape.per_layer_input * shape.layers
        yield Expected("per_layer_token_embd.weight", (width, vocab))
        yield Expected("per_layer_model_proj.weight", (hidden, width))
        yield Expected("per_layer_proj_norm.weight", (shape.per_layer_input,))
    for layer in range(shape.layers):
        block = f"blk.{layer}"
        yield from _layer(shape, layer)
        yield from _keys_and_values(info, shape, layer)
        yield Expected(f"{block}.layer_output_scale.weight", (1,), required=False)
        if shape.experts and f"{block}.ffn_gate_inp.weight" in info.tensors:
            yield from _experts(info, shape, layer)
        if shape.per_layer_input:
            width = shape.per_layer_input
            yield Expected(f"{block}.inp_gate.weight", (hidden, width))
            yield Expected(f"{block}.proj.weight", (width, hidden))
            yield Expected(f"{block}.post_norm.weight", (hidden,))


def _drafter(shape: ModelShape) -> Iterator[Expected]:
    hidden, backbone = shape.hidden, shape.backbone
    yield Expected("token_embd.weight", (hidden, shape.vocab))
    yield Expected("output_norm.weight", (hidden,))
    yield Expected("rope_freqs.weight", (shape.head_dim_full // 2,))
    yield Expected("nextn.pre_projection.weight", (2 * backbone, hidden))
    yield Expected("nextn.post_projection.weight", (hidden, backbone))
    for layer in range(shape.layers):
        yield from _layer(shape, layer)
        queries = shape.head_dim(layer) * shape.heads[layer]
        yield Expected(f"blk.{layer}.attn_q.weight", (hidden, queries))
        yield Expected(f"blk.{layer}.layer_output_scale.weight", (1,))


def _layer(shape: ModelShape, layer: int) -> Iterator[Expected]:
    """What a layer of either model has, but for the projections into attention."""
    block, hidden = f"blk.{layer}", shape.hidden
    feed_forward = shape.feed_forward[layer]
    head_dim = shape.head_dim(layer)
    yield Expected(f"{block}.attn_norm.weight", (hidden,))
    yield Expected(f"{block}.attn_q_norm.weight", (head_dim,))
    yield Expected(f"{block}.attn_output.weight", (head_dim * shape.heads[layer], hidden))
    yield Expected(f"{block}.post_attention_norm.weight", (hidden,))
    yield Expected(f"{block}.ffn_norm.weight", (hidden,))
    yield Expected(f"{block}.ffn_gate.weight", (hidden, feed_forward))
    yield Expected(f"{block}.ffn_up.weight", (hidden, feed_forward))
    yield Expected(f"{block}.ffn_down.weight", (feed_forward, hidden))
    yield Expected(f"{block}.post_ffw_norm.weight", (hidden,))


def _keys_and_values(info: GgufInfo, shape: ModelShape, layer: int) -> Iterator[Expected]:
    block, hidden = f"blk.{layer}", shape.hidden
    head_dim = shape.head_dim(layer)
    queries, keys = head_dim * shape.heads[layer], head_dim * shape.kv_heads[layer]
    owner = layer < shape.first_shared
    yield Expected(f"{block}.attn_k_norm.weight", (head_dim,), required=owner)
    if f"{block}.attn_qkv.weight" in info.tensors:
        yield Expected(f"{block}.attn_qkv.weight", (hidden, queries + 2 * keys))
        return
    yield Expected(f"{block}.attn_q.weight", (hidden, queries))
    yield Expected(f"{block}.attn_k.weight", (hidden, keys), required=owner)
    # Absent where values are taken from the key projection.
    yield Expected(f"{block}.attn_v.weight", (hidden, keys), required=False)


def _experts(info: GgufInfo, shape: ModelShape, layer: int) -> Iterator[Expected]:
    block, hidden, experts = f"blk.{layer}", shape.hidden, shape.experts
    width = shape.expert_feed_forward[layer]
    yield Expected(f"{block}.ffn_gate_inp.weight", (hidden, experts))
    yield Expected(f"{block}.ffn_gate_inp.scale", (hidden,))
    yield Expected(f"{block}.pre_ffw_norm_2.weight", (hidden,))
    yield Expected(f"{block}.post_ffw_norm_1.weight", (hidden,))
    yield Expected(f"{block}.post_ffw_norm_2.weight", (hidden,))
    if f"{block}.ffn_gate_up_exps.weight" in info.tensors:
        yield Expected(f"{block}.ffn_gate_up_exps.weight", (hidden, 2 * width, experts))
    else:
        yield Expected(f"{block}.ffn_gate_exps.weight", (hidden, width, experts))
        yield Expected(f"{block}.ffn_up_exps.weight", (hidden, width, experts))
    yield Expected(f"{block}.ffn_down_exps.weight", (width, hidden, experts))
    yield Expected(f"{block}.ffn_down_exps.scale", (experts,), required=False)
