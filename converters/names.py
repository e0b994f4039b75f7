"""Tensor names of Gemma 4: Hugging Face spelling to GGUF spelling, with the shape each must have.

The drafter's centroid head has GGUF names in llama.cpp (`masked_embd_centroids.weight` and
`masked_embd_ordering`), but its loader refuses files that hold them, and any other tensor that it
does not know. So the centroid head travels as metadata, which llama.cpp leaves alone:

- `gemma4-assistant.masked_embedding.centroids`: float32 array, rows of [count, embedding_length];
- `gemma4-assistant.masked_embedding.token_ordering`: int32 array [vocab], in which the tokens of
  cluster c are entries c·n to (c+1)·n − 1, where n = vocab / count.

The other two keys of the head are in `hparams`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from .errors import CheckpointError, quoted
from .hparams import DRAFTER_ARCH, TARGET_ARCH, Experts, Hparams
from .tensors import StoredTensor

CENTROIDS = "masked_embedding.centroids.weight"
TOKEN_ORDERING = "masked_embedding.token_ordering"
ROPE_FREQS = "rope_freqs.weight"

_HEAD = "lm_head.weight"
_EMBEDDING = "embed_tokens.weight"
# Tensors of the whole model, which its text part's prefix does not precede.
_OUTSIDE = (_HEAD, "pre_projection.weight", "post_projection.weight")
# Towers and adapters for images and sound, which a text model leaves behind.
_OTHER_MODALITIES = (
    "model.vision_tower.",
    "model.audio_tower.",
    "model.vision_embedder.",
    "model.embed_vision.",
    "model.embed_audio.",
)
_COMPARED_AT_ONCE = 4 << 20
_UNUSED_ON_SHARED_LAYERS = (
    "self_attn.k_proj.weight",
    "self_attn.v_proj.weight",
    "self_attn.k_norm.weight",
    "self_attn.v_norm.weight",
)

# Suffix in the checkpoint, name in GGUF, shape.
_Expected = Iterator[tuple[str, str, tuple[int, ...]]]


@dataclass(frozen=True, slots=True)
class Rename:
    """One tensor: its name in the checkpoint, its name in GGUF, its shape.

    The last dimension is contiguous: [n], [out, in], or [experts, out, in].
    """

    source: str
    name: str
    shape: tuple[int, ...]


def renames(hparams: Hparams, stored: Mapping[str, StoredTensor]) -> list[Rename]:
    """Every tensor of the model, in file order.

    Raises CheckpointError when one is missing, has another shape, or does not belong.
    """
    prefix = _text_prefix(stored)
    plan: list[Rename] = []
    for suffix, name, shape in _expected(hparams):
        source = suffix if suffix in _OUTSIDE else prefix + suffix
        if source not in stored:
            raise CheckpointError(
                f"Tensor {quoted(source)} is missing in {_files(stored)}: the checkpoint is "
                "incomplete or its config.json belongs to another model."
            )
        found = stored[source]
        if found.shape != shape:
            raise CheckpointError(
                f"Tensor {quoted(source)} in {quoted(found.file.name)} has shape "
                f"{list(found.shape)} where config.json calls for {list(shape)}."
            )
        plan.append(Rename(source, name, shape))
    _refuse_leftovers(hparams, stored, {rename.source for rename in plan}, prefix)
    return plan


def skipped(hparams: Hparams, stored: Mapping[str, StoredTensor]) -> list[str]:
    """Names of the tensors for images and sound, which the text model leaves behind."""
    if hparams.arch != TARGET_ARCH:
        return []
    return sorted(name for name in stored if name.startswith(_OTHER_MODALITIES))


def unused(hparams: Hparams, stored: Mapping[str, StoredTensor]) -> list[str]:
    """Names of stored tensors that the model, as config.json describes it, does not use."""
    prefix = _text_prefix(stored)
    names = {
        f"{prefix}layers.{layer}.{suffix}"
        for layer in range(hparams.first_shared, hparams.layers)
        for suffix in _UNUSED_ON_SHARED_LAYERS
    }
    if hparams.arch == DRAFTER_ARCH and hparams.centroids is None:
        # With a dense head, a centroid head left in the checkpoint is not used either.
        names |= {CENTROIDS, TOKEN_ORDERING}
    return sorted(names & stored.keys())


def _text_prefix(stored: Mapping[str, StoredTensor]) -> str:
    multimodal = "model.language_model."
    return multimodal if any(name.startswith(multimodal) for name in stored) else "model."


def _files(stored: Mapping[str, StoredTensor]) -> str:
    names = {tensor.file.name for tensor in stored.values()}
    return quoted(names.pop()) if len(names) == 1 else f"the {len(names)} files of the checkpoint"


def _expected(hparams: Hparams) -> _Expected:
    hidden, vocab = hparams.hidden, hparams.vocab
    yield _EMBEDDING, "token_embd.weight", (vocab, hidden)
    if hparams.per_layer_input:
        width = hparams.per_layer_input * hparams.layers
        yield "embed_tokens_per_layer.weight", "per_layer_token_embd.weight", (vocab, width)
        yield "per_layer_model_projection.weight", "per_layer_model_proj.weight", (width, hidden)
        yield (
            "per_layer_projection_norm.weight",
            "per_layer_proj_norm.weight",
            (hparams.per_layer_input,),
        )
    yield "norm.weight", "output_norm.weight", (hidden,)
    if not hparams.tied_head:
        yield _HEAD, "output.weight", (vocab, hidden)
    if hparams.backbone is not None:
        pair = 2 * hparams.backbone
        yield "pre_projection.weight", "nextn.pre_projection.weight", (hidden, pair)
        yield "post_projection.weight", "nextn.post_projection.weight", (hparams.backbone, hidden)
    for layer in range(hparams.layers):
        for suffix, name, shape in _expected_in_layer(hparams, layer):
            yield f"layers.{layer}.{suffix}", f"blk.{layer}.{name}", shape


def _expected_in_layer(hparams: Hparams, layer: int) -> _Expected:
    hidden = hparams.hidden
    head_dim = hparams.head_dim(layer)
    queries = head_dim * hparams.heads
    keys = head_dim * hparams.kv_heads(layer)
    feed_forward = hparams.feed_forward[layer]
    yield "input_layernorm.weight", "attn_norm.weight", (hidden,)
    yield "self_attn.q_proj.weight", "attn_q.weight", (queries, hidden)
    yield "self_attn.q_norm.weight", "attn_q_norm.weight", (head_dim,)
    if hparams.projects_keys(layer):
        yield "self_attn.k_proj.weight", "attn_k.weight", (keys, hidden)
        yield "self_attn.k_norm.weight", "attn_k_norm.weight", (head_dim,)
    if hparams.projects_values(layer):
        yield "self_attn.v_proj.weight", "attn_v.weight", (keys, hidden)
    yield "self_attn.o_proj.weight", "attn_output.weight", (hidden, queries)
    yield "post_attention_layernorm.weight", "post_attention_norm.weight", (hidden,)
    yield "pre_feedforward_layernorm.weight", "ffn_norm.weight", (hidden,)
    yield "mlp.gate_proj.weight", "ffn_gate.weight", (feed_forward, hidden)
    yield "mlp.up_proj.weight", "ffn_up.weight", (feed_forward, hidden)
    yield "mlp.down_proj.weight", "ffn_down.weight", (hidden, feed_forward)
    yield "post_feedforward_layernorm.weight", "post_ffw_norm.weight", (hidden,)
    if hparams.experts is not None:
        yield from _expected_experts(hparams.experts, hidden)
    if hparams.per_layer_input:
        width = hparams.per_layer_input
        yield "per_layer_input_gate.weight", "inp_gate.weight", (width, hidden)
        yield "per_layer_projection.weight", "proj.weight", (hidden, width)
        yield "post_per_layer_input_norm.weight", "post_norm.weight", (hidden,)
    yield "layer_scalar", "layer_output_scale.weight", (1,)


def _expected_experts(experts: Experts, hidden: int) -> _Expected:
    count, width = experts.count, experts.feed_forward
    yield "router.proj.weight", "ffn_gate_inp.weight", (count, hidden)
    yield "router.scale", "ffn_gate_inp.scale", (hidden,)
    yield "experts.gate_up_proj", "ffn_gate_up_exps.weight", (count, 2 * width, hidden)
    yield "experts.down_proj", "ffn_down_exps.weight", (count, hidden, width)
    # llama.cpp scales what an expert puts out; the router scales the expert's weight: the same.
    yield "router.per_expert_scale", "ffn_down_exps.scale", (count,)
    yield "post_feedforward_layernorm_1.weight", "post_ffw_norm_1.weight", (hidden,)
    yield "pre_feedforward_layernorm_2.weight", "pre_ffw_norm_2.weight", (hidden,)
    yield "post_feedforward_layernorm_2.weight", "post_ffw_norm_2.weight", (hidden,)


def _refuse_leftovers(
    hparams: Hparams, stored: Mapping[str, StoredTensor], used: set[str], prefix: str
) -> None:
    left_out = {*skipped(hparams, stored), *unused(hparams, stored)}
    if hparams.centroids is not None:
        left_out |= {CENTROIDS, TOKEN_ORDERING}  # they become metadata
    for name in sorted(stored.keys() - used - left_out):
        if name == _HEAD and hparams.tied_head:
            _refuse_another_head(hparams, stored[name], stored[prefix + _EMBEDDING])
            continue
        raise CheckpointError(
            f"Tensor {quoted(name)} in {quoted(stored[name].file.name)} is not part of the model "
            "that config.json describes."
        )


def _refuse_another_head(hparams: Hparams, head: StoredTensor, embedding: StoredTensor) -> None:
    """A head tied to the embedding may be stored a second time, but only as what it is."""
    if _same_bytes(head, embedding):
        return
    advice = (
        "llama.cpp runs no drafter with a head of its own"
        if hparams.arch == DRAFTER_ARCH
        else "set tie_word_embeddings to false if the model has a head of its own"
    )
    raise CheckpointError(
        f"Tensor {quoted(_HEAD)} in {quoted(head.file.name)} is not the embedding, "
        f"to which config.json ties it: {advice}."
    )


def _same_bytes(first: StoredTensor, second: StoredTensor) -> bool:
    if (first.dtype, first.shape) != (second.dtype, second.shape):
        return False
    step = max(1, _COMPARED_AT_ONCE // first.width)
    for start in range(0, first.rows, step):
        count = min(step, first.rows - start)
        if not np.array_equal(first.encoded(start, count), second.encoded(start, count)):
            return False
    return True
