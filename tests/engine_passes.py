"""Passes of llama.cpp over an engine's target as it was loaded: its logits, and all its nodes.

Contexts are those of gemmachat's sessions, but for rows of logits, which every token gets.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import llama_cpp.llama_cpp as lib
import numpy as np
import numpy.typing as npt
from llama_runner import Rows, fill, float_row

from gemmachat.bridge_engine import EngineHandle
from gemmachat.native import library
from gemmachat.native_structs import KV_TYPES

Costs = npt.NDArray[np.float64]

_GGML_TYPES = {"f16": 1, "q8_0": 8}
_F32 = 0
_WIDEST = 512  # as in a session's prefill


class Node(NamedTuple):
    """What a pass has in a node of its graph: an operation's result, float32 in ggml's order."""

    name: str
    operation: str
    weights: str  # "packed", or the type of the first operand
    values: Rows


class Passes:
    """A sequence that grows by one pass after another, and what each computes."""

    def __init__(self, context: Any, vocab: int, watch: _Watch | None) -> None:
        self._context, self._vocab, self._watch = context, vocab, watch
        self._length = 0

    def logits(self, tokens: Sequence[int], width: int = _WIDEST) -> Rows:
        """The logits [token, vocab] of tokens that go on the sequence, so many in a pass."""
        return np.concatenate(
            [self._decode(tokens[i : i + width]) for i in range(0, len(tokens), width)]
        )

    def surprises(self, tokens: Sequence[int], width: int = _WIDEST) -> Costs:
        """What each token but the first costs after those before it, in nats [token - 1]."""
        found = [
            _surprises(self._decode(tokens[i : i + width]), tokens[i + 1 : i + width + 1])
            for i in range(0, len(tokens) - 1, width)
        ]
        return np.concatenate(found)

    def nodes(self, tokens: Sequence[int]) -> list[Node]:
        """The nodes of one pass, in the order of the graph; the tokens go on the sequence."""
        assert self._watch is not None
        self._watch.nodes = found = []
        self._decode(tokens)
        self._watch.nodes = None
        return found

    def cut(self, length: int) -> None:
        """Takes back all but the first tokens."""
        lib.llama_memory_seq_rm(lib.llama_get_memory(self._context), 0, length, -1)
        self._length = length

    def _decode(self, tokens: Sequence[int]) -> Rows:
        batch = lib.llama_batch_init(len(tokens), 0, 1)
        try:
            fill(batch, list(tokens), self._length)
            assert lib.llama_decode(self._context, batch) == 0
        finally:
            lib.llama_batch_free(batch)
        self._length += len(tokens)
        rows = (lib.llama_get_logits_ith(self._context, i) for i in range(len(tokens)))
        return np.stack([float_row(one, self._vocab) for one in rows])


def _surprises(logits: Rows, following: Sequence[int]) -> Costs:
    """What the tokens that follow each but perhaps the last row of logits cost, in nats."""
    rows = logits[: len(following)]
    top = rows.max(axis=1, keepdims=True)
    totals = np.exp(rows - top).sum(axis=1, dtype=np.float64)
    chosen = rows[np.arange(len(rows)), following] - top[:, 0]
    return np.log(totals) - chosen.astype(np.float64)


@contextlib.contextmanager
def passes(
    engine: EngineHandle,
    n_ctx: int = 1024,
    *,
    threads: int = 1,
    flash_attention: bool = True,
    kv_type: str = "f16",
    widest: int = _WIDEST,
    watched: bool = False,
) -> Iterator[Passes]:
    """An empty sequence on the engine's target, for passes of up to `widest` tokens.

    `watched` lets their nodes be seen.
    """
    assert kv_type in KV_TYPES
    watch = _Watch() if watched else None
    params = lib.llama_context_default_params()
    params.n_ctx = n_ctx
    params.n_batch = params.n_ubatch = widest
    params.n_threads = params.n_threads_batch = threads
    params.type_k = params.type_v = _GGML_TYPES[kv_type]
    params.flash_attn_type = int(flash_attention)
    params.swa_full = False
    if watch is not None:
        params.cb_eval = ctypes.cast(watch.callback, type(params.cb_eval))
    context = lib.llama_init_from_model(engine.target_model(), params)
    assert context
    try:
        yield Passes(context, engine.vocab_size(), watch)
    finally:
        lib.llama_free(context)


class Difference(NamedTuple):
    """The first node of a graph in which a token's row is not what it is in another pass."""

    name: str
    operation: str
    weights: str


def first_difference(alone: list[Node], beside: list[Node], place: int) -> Difference | None:
    """Compares a pass of one token with one that has the same token at a place among others."""
    assert [node.name for node in alone] == [node.name for node in beside]
    for one, other in zip(alone, beside, strict=True):
        shapes = zip(one.values.shape, other.values.shape, strict=True)
        (axis,) = (at for at, (few, many) in enumerate(shapes) if few != many)
        rows = one.values.shape[axis]  # of a token: several where its heads are rows
        found = other.values.take(range(place * rows, (place + 1) * rows), axis)
        if not np.array_equal(one.values.view(np.uint32), found.view(np.uint32)):
            return Difference(one.name, one.operation, one.weights)
    return None


class _Tensor(ctypes.Structure):
    """The beginning of ggml_tensor in ggml.h."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("buffer", ctypes.c_void_p),
        ("ne", ctypes.c_int64 * 4),
        ("nb", ctypes.c_size_t * 4),
        ("op", ctypes.c_int),
        ("op_params", ctypes.c_int32 * 16),
        ("flags", ctypes.c_int32),
        ("src", ctypes.c_void_p * 10),
        ("view_src", ctypes.c_void_p),
    )


class _Watch:
    """Keeps what a pass computes, while `nodes` is a list."""

    def __init__(self) -> None:
        self.nodes: list[Node] | None = None
        self._ggml = _ggml()
        self.callback = ctypes.CFUNCTYPE(
            ctypes.c_bool, ctypes.c_void_p, ctypes.c_bool, ctypes.c_void_p
        )(self._seen)

    def _seen(self, address: int, ask: bool, _data: int | None) -> bool:
        if self.nodes is None:
            return not ask
        tensor = _Tensor.from_address(address)
        # A view computes nothing, and into the cache the others write too.
        if tensor.view_src is None and tensor.type == _F32:
            if not ask:
                self.nodes.append(self._node(address, tensor))
            return True
        return not ask

    def _node(self, address: int, tensor: _Tensor) -> Node:
        values = np.empty(tuple(tensor.ne)[::-1], np.float32)
        assert self._ggml.ggml_nbytes(address) == values.nbytes
        self._ggml.ggml_backend_tensor_get(address, values.ctypes.data, 0, values.nbytes)
        return Node(
            self._ggml.ggml_get_name(address).decode(),
            self._ggml.ggml_op_desc(address).decode(),
            self._weights(tensor),
            values,
        )

    def _weights(self, tensor: _Tensor) -> str:
        operand = _Tensor.from_address(tensor.src[0])
        if operand.buffer and self._ggml.ggml_backend_buffer_name(operand.buffer) == b"GEMMACHAT":
            return "packed"
        return str(self._ggml.ggml_type_name(operand.type).decode())


def _ggml() -> ctypes.CDLL:
    found = ctypes.CDLL(library()._name)
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    for name, result, arguments in (
        ("ggml_get_name", ctypes.c_char_p, [pointer]),
        ("ggml_op_desc", ctypes.c_char_p, [pointer]),
        ("ggml_type_name", ctypes.c_char_p, [ctypes.c_int]),
        ("ggml_nbytes", size, [pointer]),
        ("ggml_backend_buffer_name", ctypes.c_char_p, [pointer]),
        ("ggml_backend_tensor_get", None, [pointer, pointer, size, size]),
    ):
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    return found
