"""The shape of a Gemma 4 text model or drafter, and the GGUF metadata that states it.

Two keys are our own, because llama.cpp has none for the drafter's centroid head (see `names`):
`gemma4-assistant.masked_embedding.centroid_count` and `...masked_embedding.centroid_top_k`.
"""

from dataclasses import dataclass

from .gguf_values import (
    Metadata,
    Value,
    boolean_array,
    float32,
    int32_array,
    uint32,
    uint32_array,
)

TARGET_ARCH = "gemma4"
DRAFTER_ARCH = "gemma4-assistant"


@dataclass(frozen=True, slots=True)
class CentroidHead:
    """The drafter's clustered LM head: `count` clusters, of which the best `top_k` are scored."""

    count: int
    top_k: int


@dataclass(frozen=True, slots=True)
class Experts:
    """The mixture of experts in every layer: a token uses `used` of `count`."""

    count: int
    used: int
    feed_forward: int


@dataclass(frozen=True, slots=True)
class Hparams:
    """Widths are elements, layers count from 0; `sliding[l]` is true for sliding attention.

    With `values_are_keys` full layers have no value projection: they take the key projection's
    output. `backbone` is the hidden width of a drafter's target, None in a target.
    """

    arch: str
    vocab: int
    hidden: int
    sliding: tuple[bool, ...]
    feed_forward: tuple[int, ...]
    heads: int
    kv_heads_sliding: int
    kv_heads_full: int
    head_dim_sliding: int
    head_dim_full: int
    window: int
    context: int
    shared_kv_layers: int
    per_layer_input: int
    rms_eps: float
    rope_base_sliding: float
    rope_base_full: float
    rotated_pairs_full: int
    logit_softcap: float | None
    values_are_keys: bool
    experts: Experts | None
    tied_head: bool
    backbone: int | None
    centroids: CentroidHead | None

    @property
    def layers(self) -> int:
        """How many layers there are."""
        return len(self.sliding)

    @property
    def first_shared(self) -> int:
        """The first layer without keys and values of its own."""
        return self.layers - self.shared_kv_layers

    def head_dim(self, layer: int) -> int:
        """Width of one attention head of that layer."""
        return self.head_dim_sliding if self.sliding[layer] else self.head_dim_full

    def kv_heads(self, layer: int) -> int:
        """How many key-value heads that layer has."""
        return self.kv_heads_sliding if self.sliding[layer] else self.kv_heads_full

    def projects_keys(self, layer: int) -> bool:
        """Whether that layer computes keys of its own."""
        return layer < self.first_shared

    def projects_values(self, layer: int) -> bool:
        """Whether that layer has a value projection beside its key projection."""
        return self.projects_keys(layer) and (self.sliding[layer] or not self.values_are_keys)

    def metadata(self) -> Metadata:
        """The `<arch>.*` keys that llama.cpp's loader reads, plus our own two."""
        keys: Metadata = {
            "context_length": uint32(self.context),
            "embedding_length": uint32(self.hidden),
            "block_count": uint32(self.layers),
            "feed_forward_length": _per_layer(self.feed_forward),
            "attention.head_count": uint32(self.heads),
            "attention.head_count_kv": (
                uint32(self.kv_heads_full)
                if self.kv_heads_full == self.kv_heads_sliding
                else int32_array([self.kv_heads(layer) for layer in range(self.layers)])
            ),
            "attention.key_length": uint32(self.head_dim_full),
            "attention.value_length": uint32(self.head_dim_full),
            "attention.key_length_swa": uint32(self.head_dim_sliding),
            "attention.value_length_swa": uint32(self.head_dim_sliding),
            "attention.sliding_window": uint32(self.window),
            "attention.sliding_window_pattern": boolean_array(self.sliding),
            "attention.shared_kv_layers": uint32(self.shared_kv_layers),
            "attention.layer_norm_rms_epsilon": float32(self.rms_eps),
            "rope.freq_base": float32(self.rope_base_full),
            "rope.freq_base_swa": float32(self.rope_base_sliding),
            "rope.dimension_count": uint32(self.head_dim_full),
            "rope.dimension_count_swa": uint32(self.head_dim_sliding),
            "embedding_length_per_layer_input": uint32(self.per_layer_input),
        }
        if self.arch == TARGET_ARCH:
            # Without the key llama.cpp assumes 30; 0 switches capping off.
            keys["final_logit_softcapping"] = float32(self.logit_softcap or 0.0)
        if self.experts is not None:
            keys["expert_count"] = uint32(self.experts.count)
            keys["expert_used_count"] = uint32(self.experts.used)
            keys["expert_feed_forward_length"] = uint32(self.experts.feed_forward)
        if self.backbone is not None:
            keys["embedding_length_out"] = uint32(self.backbone)
            keys["nextn_predict_layers"] = uint32(self.layers)
        if self.centroids is not None:
            keys["masked_embedding.centroid_count"] = uint32(self.centroids.count)
            keys["masked_embedding.centroid_top_k"] = uint32(self.centroids.top_k)
        return {f"{self.arch}.{key}": value for key, value in keys.items()}


def _per_layer(widths: tuple[int, ...]) -> Value:
    return uint32(widths[0]) if len(set(widths)) == 1 else uint32_array(widths)
