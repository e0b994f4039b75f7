"""llama.cpp's own way with a target and its MTP drafter, through its own interface: the peer.

What `llama-server --spec-type draft-mtp` does: prefill computes every layer; a round drafts three
tokens, each the likeliest of the drafter's dense head (picked by a top-k sampler), verifies them in
one pass of the target and keeps them as long as the target's own samples are the same. One thing is
cheaper here: hidden rows are kept for the rows with logits, not for the whole prompt.
"""

from __future__ import annotations

import ctypes
import random
import time
from typing import Any

import llama_cpp.llama_cpp as lib
import llama_cpp.llama_cpp_ext as ext
import numpy as np

from gemmachat.native_structs import MAX_WIDTH

PREFILL_BATCH = 512
DRAFT_TOP_K = 10  # of llama.cpp's sampler for drafts


class LlamaDrafting:
    """One timeline on contexts of llama.cpp.

    With `acceptance`, drafts are accepted with that chance instead of by comparison, for models
    with synthetic weights.
    """

    def __init__(
        self, target: Any, drafter: Any, *, n_ctx: int, threads: int, seed: int = 1
    ) -> None:
        self.acceptance: float | None = None
        self.draft_s, self.n_steps = 0.0, 0
        self._random = random.Random(seed)
        self._vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(target))
        self._width = lib.llama_model_n_embd(target)
        self._target = _context(target, n_ctx, threads)
        self._drafter = _context(drafter, n_ctx, threads, other=self._target)
        ext.llama_set_embeddings_nextn(self._target, True, True)
        ext.llama_set_embeddings_nextn(self._drafter, True, True)
        self._memory = lib.llama_get_memory(self._target)
        self._batch = lib.llama_batch_init(PREFILL_BATCH, 0, 1)
        self._draft_batch = lib.llama_batch_init(1, self._width, 1)
        self._draft_token = (ctypes.c_int32 * 1)()
        self._draft_batch.token = ctypes.cast(self._draft_token, type(self._batch.token))
        self._draft_chain = _chain(lib.llama_sampler_init_top_k(DRAFT_TOP_K))
        # The sampler set of Gemma 4's model card.
        self._chain = _chain(
            lib.llama_sampler_init_top_k(64),
            lib.llama_sampler_init_top_p(0.95, 1),
            lib.llama_sampler_init_temp(1.0),
            lib.llama_sampler_init_dist(seed),
        )
        self._n_past, self._last = 0, 0
        self._hidden: Any = None

    def prefill(self, tokens: list[int]) -> int:
        """Start over with these tokens; return the first one that follows."""
        lib.llama_memory_clear(self._memory, True)
        for start in range(0, len(tokens), PREFILL_BATCH):
            part = tokens[start : start + PREFILL_BATCH]
            self._decode(part, start, logits_from=len(tokens) - 1 - start)
        self._n_past = len(tokens)
        return self._take(self._batch.n_tokens - 1)

    def round(self, n_draft: int) -> list[int]:
        """One round with so many drafts, at most `MAX_WIDTH` - 1; the tokens that it yields."""
        drafts = self._draft(n_draft) if n_draft else []
        self._decode([self._last, *drafts], self._n_past, logits_from=0)
        emitted: list[int] = []
        for row in range(n_draft + 1):
            token = lib.llama_sampler_sample(self._chain, self._target, row)
            accepted = row < n_draft and self._accepts(drafts[row], token)
            emitted.append(drafts[row] if accepted else token)
            if not accepted:
                break
        self._n_past += len(emitted)
        lib.llama_memory_seq_rm(self._memory, 0, self._n_past, -1)
        self._keep(emitted[-1], len(emitted) - 1)
        return emitted

    def close(self) -> None:
        """Free what llama.cpp holds."""
        for chain in (self._chain, self._draft_chain):
            lib.llama_sampler_free(chain)
        self._draft_batch.token = None
        for batch in (self._batch, self._draft_batch):
            lib.llama_batch_free(batch)
        for context in (self._drafter, self._target):
            lib.llama_free(context)

    def _accepts(self, draft: int, token: int) -> bool:
        if self.acceptance is None:
            return draft == token
        return self._random.random() < self.acceptance

    def _draft(self, n: int) -> list[int]:
        started = time.perf_counter()
        drafts: list[int] = []
        token, state = self._last, self._hidden
        for _ in range(n):
            _fill(self._draft_batch, [token], self._n_past, logits_from=0)
            ctypes.memmove(self._draft_batch.embd, state.ctypes.data, state.nbytes)
            _decode(self._drafter, self._draft_batch)
            token = lib.llama_sampler_sample(self._draft_chain, self._drafter, 0)
            row = ext.llama_get_embeddings_nextn_ith(self._drafter, 0)
            state = np.ctypeslib.as_array(row, shape=(self._width,)).copy()
            drafts.append(token)
        self.draft_s += time.perf_counter() - started
        self.n_steps += n
        return drafts

    def _decode(self, tokens: list[int], start: int, logits_from: int) -> None:
        _fill(self._batch, tokens, start, logits_from)
        _decode(self._target, self._batch)

    def _take(self, row: int) -> int:
        self._keep(lib.llama_sampler_sample(self._chain, self._target, row), row)
        return self._last

    def _keep(self, token: int, row: int) -> None:
        hidden = ext.llama_get_embeddings_nextn_ith(self._target, row)
        self._last = token
        self._hidden = np.ctypeslib.as_array(hidden, shape=(self._width,)).copy()


def _context(model: Any, n_ctx: int, threads: int, other: Any = None) -> Any:
    params = lib.llama_context_default_params()
    params.n_ctx = n_ctx + MAX_WIDTH
    params.n_batch = params.n_ubatch = PREFILL_BATCH
    params.n_threads = params.n_threads_batch = threads
    params.swa_full = False
    if other is not None:
        params.ctx_type, params.ctx_other = 1, other
    created = lib.llama_init_from_model(model, params)
    if not created:
        raise OSError("llama.cpp creates no context")
    return created


def _chain(*samplers: Any) -> Any:
    chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
    for sampler in samplers:
        lib.llama_sampler_chain_add(chain, sampler)
    if len(samplers) == 1:  # the likeliest of what is left
        lib.llama_sampler_chain_add(chain, lib.llama_sampler_init_greedy())
    return chain


def _decode(context: Any, batch: Any) -> None:
    if lib.llama_decode(context, batch) != 0:
        raise OSError("llama.cpp cannot run a pass")


def _fill(batch: Any, tokens: list[int], start: int, logits_from: int) -> None:
    batch.n_tokens = len(tokens)
    for i, token in enumerate(tokens):
        batch.token[i], batch.pos[i] = token, start + i
        batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
        batch.logits[i] = i >= logits_from
