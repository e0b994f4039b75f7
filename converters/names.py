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

from .checkpoint import StoredTensor
from .errors import CheckpointError, quoted
from .hparams import DRAFTER_ARCH, TARGET_ARCH, Hparams

CENTROIDS = "masked_embedding.centroids.weight"
TOKEN_ORDERING = "masked_embedding.token_ordering"
ROPE_FREQS = "rope_freqs.weight"

# Towers and adapters for images and sound, which a text model leaves behind.
_OTHER_MODALITIES = (
    "model.vision_tower.",
    "model.audio_tower.",
    "model.embed_vision.",
    "model.embed_audio.",
)
_UNUSED_ON_SHARED_LAYERS = (
    "self_attn.k_proj.weight",
    "self_attn.v_proj.weight",
    "self_attn.k_norm.weight",
)


@dataclass(frozen=True, slots=True)
class Rename:
    """One tensor: its name in the checkpoint, its name in GGUF, its shape [out, in] or [n]."""

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
        source = suffix if suffix in stored else prefix + suffix
        if source not in stored:
            raise CheckpointError(
                f"Tensor {quoted(prefix + suffix)} is missing: the checkpoint is incomplete "
                "or its config.json belongs to another model."
            )
        found = stored[source].shape
        if found != shape:
            raise CheckpointError(
                f"Tensor {quoted(source)} has shape {list(found)} "
                f"where config.json calls for {list(shape)}."
            )
        plan.append(Rename(source, name, shape))
    _refuse_leftovers(hparams, stored, {rename.source for rename in plan}, prefix)
    return plan


def _text_prefix(stored: Mapping[str, StoredTensor]) -> str:
    multimodal = "model.language_model."
    return multimodal if any(name.startswith(multimodal) for name in stored) else "model."


def _expected(hparams: Hparams) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """(suffix in the checkpoint, GGUF name, shape) of every tensor."""
    hidden, vocab = hparams.hidden, hparams.vocab
    yield "embed_tokens.weight", "token_embd.weight", (vocab, hidden)
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
    if hparams.backbone is not None:
        pair = 2 * hparams.backbone
        yield "pre_projection.weight", "nextn.pre_projection.weight", (hidden, pair)
        yield "post_projection.weight", "nextn.post_projection.weight", (hparams.backbone, hidden)
    for layer in range(hparams.layers):
        for suffix, name, shape in _expected_in_layer(hparams, layer):
            yield f"layers.{layer}.{suffix}", f"blk.{layer}.{name}", shape


def _expected_in_layer(hparams: Hparams, layer: int) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    hidden = hparams.hidden
    head_dim = hparams.head_dim(layer)
    queries = head_dim * hparams.heads
    keys = head_dim * hparams.kv_heads(layer)
    feed_forward = hparams.feed_forward[layer]
    yield "input_layernorm.weight", "attn_norm.weight", (hidden,)
    yield "self_attn.q_proj.weight", "attn_q.weight", (queries, hidden)
    yield "self_attn.q_norm.weight", "attn_q_norm.weight", (head_dim,)
    if layer < hparams.first_shared:
        yield "self_attn.k_proj.weight", "attn_k.weight", (keys, hidden)
        yield "self_attn.k_norm.weight", "attn_k_norm.weight", (head_dim,)
        yield "self_attn.v_proj.weight", "attn_v.weight", (keys, hidden)
    yield "self_attn.o_proj.weight", "attn_output.weight", (hidden, queries)
    yield "post_attention_layernorm.weight", "post_attention_norm.weight", (hidden,)
    yield "pre_feedforward_layernorm.weight", "ffn_norm.weight", (hidden,)
    yield "mlp.gate_proj.weight", "ffn_gate.weight", (feed_forward, hidden)
    yield "mlp.up_proj.weight", "ffn_up.weight", (feed_forward, hidden)
    yield "mlp.down_proj.weight", "ffn_down.weight", (hidden, feed_forward)
    yield "post_feedforward_layernorm.weight", "post_ffw_norm.weight", (hidden,)
    if hparams.per_layer_input:
        width = hparams.per_layer_input
        yield "per_layer_input_gate.weight", "inp_gate.weight", (width, hidden)
        yield "per_layer_projection.weight", "proj.weight", (hidden, width)
        yield "post_per_layer_input_norm.weight", "post_norm.weight", (hidden,)
    yield "layer_scalar", "layer_output_scale.weight", (1,)


def _refuse_leftovers(
    hparams: Hparams, stored: Mapping[str, StoredTensor], used: set[str], prefix: str
) -> None:
    unused = {
        f"{prefix}layers.{layer}.{suffix}"
        for layer in range(hparams.first_shared, hparams.layers)
        for suffix in _UNUSED_ON_SHARED_LAYERS
    }
    if hparams.arch == DRAFTER_ARCH:
        # With a dense head, a centroid head left in the checkpoint is not used either.
        unused |= {CENTROIDS, TOKEN_ORDERING}
    for name in sorted(stored.keys() - used - unused):
        if hparams.arch == TARGET_ARCH and name.startswith(_OTHER_MODALITIES):
            continue
        if name == "lm_head.weight":
            raise CheckpointError(
                "The checkpoint has an LM head of its own ('lm_head.weight'); "
                "only heads tied to the embedding can be converted yet."
            )
        raise CheckpointError(
            f"Tensor {quoted(name)} is not part of the model that config.json describes."
        )
