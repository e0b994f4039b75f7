"""How much memory a model needs, and how much there is.

Weights are mapped from their file: what every pass reads has to stay in memory, in the file's
layout or in a copy that llama.cpp makes for this processor. Tables of which a token reads one row
are streamed: the system may drop them at any time. Keys, values and buffers are llama.cpp's; how
it sizes them is read in its source (0.3.36 of llama-cpp-python), and `benchmarks/memory.py` holds
the sum against what a process really takes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gemmachat import cgroup
from gemmachat.errors import MemoryLimitError
from gemmachat.gguf_model import read_shape
from gemmachat.gguf_types import quoted
from gemmachat.native_structs import MAX_WIDTH

if TYPE_CHECKING:
    from gemmachat.gguf_model import ModelShape
    from gemmachat.gguf_types import GgufInfo

BATCH = 512  # tokens of a prefill pass, as in native/session.cpp
# What a timeline keeps of sliding layers at earlier turns, as in native/sliding_states.cpp.
_MAX_SAVED_BYTES, _MAX_SAVED = 128 << 20, 64
_SHORT_TURN = 32  # tokens of a question and its answer
_CELLS = 256  # llama.cpp rounds the places of its KV cache up to this
_KV_BYTES = {"f16": 2.0, "q8_0": 34 / 32}  # of one number
# What llama.cpp keeps of a token and of a merge: strings, their places in hash tables.
_TOKEN_BYTES, _MERGE_BYTES = 160, 120
# Of a node of a graph that llama.cpp keeps room for, three times per context.
_NODE_BYTES = 3 * 420
_OWN_BYTES = 2 << 20  # what gemmachat itself takes
_PER_LAYER_TABLE, _EMBEDDING, _OUTPUT = (
    "per_layer_token_embd.weight", "token_embd.weight", "output.weight",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes by what they are for; `total` has to fit in memory at once."""

    weights: int
    """The target's weights that every pass reads."""
    drafter: int
    """The drafter's weights; 0 without one."""
    vocabulary: int
    """Tokens and merges as llama.cpp keeps them, once per model."""
    kv: int
    """Keys and values of one timeline."""
    saved: int
    """What sliding layers held at earlier turns of the timeline, at most."""
    compute: int
    """What the passes of one timeline work in, logits included."""
    streamed: int
    """Tables in the target's file of which a pass reads a row per token: not in `total`."""

    @property
    def total(self) -> int:
        """Bytes that have to stay in memory."""
        return self.weights + self.drafter + self.vocabulary + self.kv + self.saved + self.compute


def estimate(
    target: GgufInfo,
    drafter: GgufInfo | None,
    n_ctx: int,
    *,
    exact: bool = False,
    kv_type: str = "f16",
    flash_attention: bool | None = None,
) -> MemoryEstimate:
    """What a loaded pair and one timeline of `n_ctx` tokens take.

    The options are those of `Engine.session`. The headers must have passed `check_pair`.
    """
    shape = read_shape(target)
    scores = flash_attention is False  # then whole matrices of attention scores are kept
    full, sliding = _cells(shape, n_ctx, exact)
    streamed = _streamed(target)
    compute = _compute(target, shape, full, sliding, min(BATCH, n_ctx + MAX_WIDTH), scores)
    if drafter is not None:
        compute += _compute(drafter, read_shape(drafter), full, sliding, 1, scores)
    # Rows of logits are kept beside the buffer in which they are computed.
    compute += MAX_WIDTH * shape.vocab * 4 + _OWN_BYTES
    return MemoryEstimate(
        weights=_weights(target) - streamed,
        drafter=0 if drafter is None else _weights(drafter),
        vocabulary=_vocabulary(target) + (0 if drafter is None else _vocabulary(drafter)),
        kv=_keys_and_values(shape, full, sliding, kv_type, padded=scores),
        saved=0 if exact else _saved(shape, n_ctx, sliding, kv_type),
        compute=compute,
        streamed=streamed,
    )


def largest_context(
    target: GgufInfo,
    drafter: GgufInfo | None,
    available: int,
    *,
    exact: bool = False,
    kv_type: str = "f16",
    flash_attention: bool | None = None,
) -> int:
    """The most tokens of a timeline that fit in `available` bytes; 0 where not even one does.

    It always fits. Where earlier turns stop being kept as they grow too large, more could fit too.
    """
    fits, too_many = 0, read_shape(target).context + 1
    while too_many - fits > 1:
        n_ctx = (fits + too_many) // 2
        needed = estimate(
            target, drafter, n_ctx, exact=exact, kv_type=kv_type, flash_attention=flash_attention
        )
        if needed.total <= available:
            fits = n_ctx
        else:
            too_many = n_ctx
    return fits


def available_memory() -> int:
    """Bytes that this process can still take: what the machine has and what its cgroups allow.

    Pages of files that the system can drop count as free. Where the system does not say what is
    free, as on macOS, all its memory counts.
    """
    limits = [left for left in (_machine_memory(), cgroup.memory_left()) if left is not None]
    return max(min(limits), 0)


@dataclass(frozen=True, slots=True)
class Room:
    """Memory that there was before a pair was loaded: what holds the models and a timeline."""

    target: GgufInfo
    drafter: GgufInfo | None
    available: int

    def require(
        self,
        n_ctx: int,
        *,
        exact: bool = False,
        kv_type: str = "f16",
        flash_attention: bool | None = None,
    ) -> None:
        """Raise `MemoryLimitError` where the pair and a timeline of `n_ctx` tokens do not fit.

        It states the numbers and the largest context that fits.
        """
        needed = estimate(
            self.target, self.drafter, n_ctx,
            exact=exact, kv_type=kv_type, flash_attention=flash_attention,
        )  # fmt: skip
        if needed.total <= self.available:
            return
        most = largest_context(
            self.target, self.drafter, self.available,
            exact=exact, kv_type=kv_type, flash_attention=flash_attention,
        )  # fmt: skip
        advice = (
            f"a context of up to {most} tokens fits, or force it"
            if most
            else "take a smaller model or quantization, or force it"
        )
        raise MemoryLimitError(
            f"{quoted(self.target.path.name)} with a context of {n_ctx} tokens needs "
            f"{size_text(needed.total)} of memory ({_parts(needed)}), but "
            f"{size_text(self.available)} can be had: {advice}"
        )


def size_text(size: int) -> str:
    """Bytes as text in GiB, or in MiB where that says more."""
    return f"{size / 2**30:.1f} GiB" if size >= 1 << 30 else f"{size / 2**20:.0f} MiB"


def _parts(needed: MemoryEstimate) -> str:
    parts = {
        "weights": needed.weights,
        "drafter": needed.drafter,
        "vocabulary": needed.vocabulary,
        "keys and values": needed.kv,
        "earlier turns": needed.saved,
        "buffers": needed.compute,
    }
    return ", ".join(f"{name} {size_text(size)}" for name, size in parts.items() if size)


def _weights(info: GgufInfo) -> int:
    return sum(tensor.nbytes for tensor in info.tensors.values())


def _streamed(target: GgufInfo) -> int:
    # The embedding is the output matrix too, unless there is one of its own.
    names = (_PER_LAYER_TABLE, _EMBEDDING) if _OUTPUT in target.tensors else (_PER_LAYER_TABLE,)
    return sum(target.tensors[name].nbytes for name in names if name in target.tensors)


def _vocabulary(info: GgufInfo) -> int:
    tokens = info.array_length("tokenizer.ggml.tokens")
    return tokens * _TOKEN_BYTES + info.array_length("tokenizer.ggml.merges") * _MERGE_BYTES


def _cells(shape: ModelShape, n_ctx: int, exact: bool) -> tuple[int, int]:
    """Places in the KV cache of full layers and of sliding ones."""
    full = _padded(n_ctx + MAX_WIDTH)
    if exact:
        return full, full
    return full, _padded(min(full, shape.window + min(BATCH, n_ctx + MAX_WIDTH)))


def _padded(cells: int) -> int:
    return -(-cells // _CELLS) * _CELLS


def _keys_and_values(
    shape: ModelShape, full: int, sliding: int, kv_type: str, *, padded: bool
) -> int:
    """Bytes of the layers that own keys and values; `padded`: all values as wide as the widest."""
    widths = [shape.kv_heads[layer] * shape.head_dim(layer) for layer in range(shape.layers)]
    numbers = sum(
        (sliding if shape.sliding[layer] else full)
        * (widths[layer] + (max(widths) if padded else widths[layer]))
        for layer in range(shape.first_shared)
    )
    return int(numbers * _KV_BYTES[kv_type])


def _saved(shape: ModelShape, n_ctx: int, sliding: int, kv_type: str) -> int:
    """Bytes of the states of sliding layers that are kept; none is where one is too large.

    One that has not forgotten anything makes all before it useless.
    """
    size = _keys_and_values(shape, 0, sliding, kv_type, padded=False)
    if size > _MAX_SAVED_BYTES:
        return 0
    turns = 1 + max(n_ctx - sliding, 0) // _SHORT_TURN
    return min(min(turns, _MAX_SAVED) * size, _MAX_SAVED_BYTES)


def _compute(
    info: GgufInfo, shape: ModelShape, full: int, sliding: int, tokens: int, scores: bool
) -> int:
    """Bytes that a pass of so many tokens takes, its graph included.

    llama.cpp's buffer is as large as the larger of two moments: when scores are turned into
    attention, and in the feed-forward part. How many rows it then holds is what its allocator comes
    to for the shapes of Gemma 4.
    """
    # Prefill ends after the last layer that owns keys and values, unless there are experts.
    layers = range(shape.layers if shape.experts or not shape.first_shared else shape.first_shared)
    queries = max(shape.heads[layer] * shape.head_dim(layer) for layer in layers)
    widest = max(shape.feed_forward[layer] for layer in layers)
    row = shape.per_layer_input * shape.layers + 3 * shape.hidden
    masks = tokens * (full + sliding) * (4 if scores else 2)
    attending = 4 * tokens * (row + 4 * queries)
    computing = (
        4 * tokens * (row + max(3 * widest + queries, 2 * shape.experts_used * shape.hidden))
    )
    work = tokens * widest * 34 // 32  # what is multiplied with quantized weights is quantized
    if scores:
        places = tokens * full * max(shape.heads)
        attending += 4 * places
        work = max(work, 2 * places)  # and scores are multiplied as f16
    logits = 4 * min(tokens, MAX_WIDTH) * shape.vocab
    graph = max(1024, 8 * len(info.tensors)) * _NODE_BYTES
    return graph + work + masks + max(attending, computing, logits)


def _machine_memory() -> int | None:
    """Bytes that are free or can be freed at once, else all there are."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvail"))
    except (OSError, ValueError, StopIteration):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
