"""Runs GGUF files in stock llama.cpp with F32 keys and values and without flash attention.

Only for comparison with a reference; the product goes through the native library.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llama_cpp.llama_cpp as lib
import llama_cpp.llama_cpp_ext as ext
import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float32]
_GGML_TYPE_F32 = 0
_CONTEXT = 512


@lib.llama_log_callback
def _discard(_level: int, _text: bytes, _data: ctypes.c_void_p) -> None:
    pass


@contextlib.contextmanager
def loaded(path: Path) -> Iterator[Any]:
    """A llama.cpp model; raises OSError when llama.cpp refuses the file."""
    lib.llama_log_set(_discard, ctypes.c_void_p(0))
    lib.llama_backend_init()
    params = lib.llama_model_default_params()
    params.n_gpu_layers = 0
    model = lib.llama_model_load_from_file(str(path).encode(), params)
    if not model:
        raise OSError(f"llama.cpp refuses {path}")
    try:
        yield model
    finally:
        lib.llama_model_free(model)


class LastNorm:
    """The drafter's last norm in the last pass of a context, float32 [width]: what its head reads.

    Passes complete all the same.
    """

    def __init__(self, width: int) -> None:
        self.row = np.zeros(width, np.float32)
        folder = os.path.join(os.path.dirname(lib.__file__), "lib")
        ggml = ctypes.CDLL(os.path.join(folder, "libggml-base.so.0"))
        ggml.ggml_get_name.restype = ctypes.c_char_p
        ggml.ggml_get_name.argtypes = [ctypes.c_void_p]
        ggml.ggml_backend_tensor_get.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_size_t] * 2
        ggml.ggml_backend_tensor_get.restype = None

        def seen(node: int, ask: bool, _data: int | None) -> bool:
            ours = ggml.ggml_get_name(node) == b"result_norm"
            if ours and not ask:
                ggml.ggml_backend_tensor_get(node, self.row.ctypes.data, 0, self.row.nbytes)
            return ours or not ask

        self.callback = ctypes.CFUNCTYPE(
            ctypes.c_bool, ctypes.c_void_p, ctypes.c_bool, ctypes.c_void_p
        )(seen)


@contextlib.contextmanager
def context(model: Any, other: Any = None, watch: LastNorm | None = None) -> Iterator[Any]:
    """A context; with `other`, the drafter's context on the target context `other`."""
    params = lib.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = _CONTEXT
    params.n_threads = params.n_threads_batch = 1
    params.type_k = params.type_v = _GGML_TYPE_F32
    params.flash_attn_type = 0
    params.swa_full = True
    if other is not None:
        params.ctx_type, params.ctx_other = 1, other
    if watch is not None:
        params.cb_eval = ctypes.cast(watch.callback, type(params.cb_eval))
    created = lib.llama_init_from_model(model, params)
    if not created:
        raise OSError("llama.cpp creates no context")
    try:
        yield created
    finally:
        lib.llama_free(created)


def tokenize(model: Any, text: str) -> list[int]:
    """Content only: no start token, control tokens are text."""
    data = text.encode()
    buffer = (ctypes.c_int32 * (len(data) + 8))()
    vocab = lib.llama_model_get_vocab(model)
    count = lib.llama_tokenize(vocab, data, len(data), buffer, len(buffer), False, False)
    assert count >= 0
    return list(buffer[:count])


def prefill(target: Any, tokens: list[int], vocab: int, hidden: int) -> tuple[Rows, Rows]:
    """Logits and hidden rows of every token, decoded at positions 0 and up."""
    ext.llama_set_embeddings_nextn(target, True, False)
    batch = lib.llama_batch_init(len(tokens), 0, 1)
    try:
        fill(batch, tokens, 0)
        assert lib.llama_decode(target, batch) == 0
        count = range(len(tokens))
        logits = [float_row(lib.llama_get_logits_ith(target, i), vocab) for i in count]
        states = [float_row(ext.llama_get_embeddings_nextn_ith(target, i), hidden) for i in count]
        return np.stack(logits), np.stack(states)
    finally:
        lib.llama_batch_free(batch)


def draft(drafter: Any, token: int, state: Rows, position: int, vocab: int) -> tuple[Rows, Rows]:
    """Dense logits and next state of one draft step."""
    ext.llama_set_embeddings_nextn(drafter, True, True)
    batch = lib.llama_batch_init(1, len(state), 1)
    tokens = (ctypes.c_int32 * 1)()
    try:
        batch.token = ctypes.cast(tokens, type(batch.token))
        fill(batch, [token], position)
        row = np.ascontiguousarray(state, np.float32)
        ctypes.memmove(batch.embd, row.ctypes.data, row.nbytes)
        assert lib.llama_decode(drafter, batch) == 0
        logits = float_row(lib.llama_get_logits_ith(drafter, 0), vocab)
        return logits, float_row(ext.llama_get_embeddings_nextn_ith(drafter, 0), len(state))
    finally:
        batch.token = None
        lib.llama_batch_free(batch)


def fill(batch: Any, tokens: list[int], position: int) -> None:
    batch.n_tokens = len(tokens)
    for i, token in enumerate(tokens):
        batch.token[i], batch.pos[i] = token, position + i
        batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = 1, 0, 1


def float_row(pointer: Any, width: int) -> Rows:
    return np.ctypeslib.as_array(pointer, shape=(width,)).copy()
