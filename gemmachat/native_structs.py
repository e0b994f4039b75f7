"""The structures of libgemmachat's C interface as ctypes sees them.

Everything mirrors `native/gemmachat.h` and `gemmachat_head.h`, where it is documented.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

from gemmachat.sampling import SamplingParams

MAX_DRAFT = 7
MAX_WIDTH = MAX_DRAFT + 1
KV_TYPES = {"f16": 0, "q8_0": 1}
KERNELS = {"auto": 0, "ggml": 1}
FLASH_ATTENTION = {None: 0, False: 1, True: 2}
SMALLEST_FLOAT32 = 1.2e-38  # of full precision


class SessionParams(ctypes.Structure):
    """gc_session_params."""

    _fields_ = (
        ("n_ctx", ctypes.c_int32),
        ("n_threads", ctypes.c_int32),
        ("kv_type", ctypes.c_int32),
        ("flash_attention", ctypes.c_int32),
        ("exact", ctypes.c_bool),
        ("token_wise", ctypes.c_bool),
        ("trace_logits", ctypes.c_bool),
        ("trace_acceptance", ctypes.c_bool),
        ("trace_recall", ctypes.c_bool),
        ("no_early_exit", ctypes.c_bool),
        ("dense_head", ctypes.c_bool),
        ("exit_node", ctypes.c_char_p),
    )


class NativeBias(ctypes.Structure):
    """gc_logit_bias."""

    _fields_ = (("token", ctypes.c_int32), ("value", ctypes.c_float))


class NativeSampling(ctypes.Structure):
    """gc_sampling."""

    _fields_ = (
        ("temperature", ctypes.c_float),
        ("top_k", ctypes.c_int32),
        ("top_p", ctypes.c_float),
        ("min_p", ctypes.c_float),
        ("typical_p", ctypes.c_float),
        ("repeat_penalty", ctypes.c_float),
        ("repeat_window", ctypes.c_int32),
        ("presence_penalty", ctypes.c_float),
        ("frequency_penalty", ctypes.c_float),
        ("min_tokens", ctypes.c_int32),
        ("bias", ctypes.POINTER(NativeBias)),
        ("n_bias", ctypes.c_int32),
        ("grammar", ctypes.c_char_p),
        ("thought_open", ctypes.c_int32),
        ("thought_close", ctypes.c_int32),
        ("n_logprobs", ctypes.c_int32),
        ("seed", ctypes.c_uint64),
        ("repeatable", ctypes.c_bool),
    )

    def __init__(self, **fields: Any) -> None:
        off = {"typical_p": 1.0, "repeat_penalty": 1.0, "thought_open": -1, "thought_close": -1}
        super().__init__(**off | fields)

    @classmethod
    def of(
        cls,
        params: SamplingParams,
        seed: int,
        *,
        banned: Sequence[int] = (),
        thought: tuple[int, int] | None = None,
    ) -> NativeSampling:
        """What `params` asks for. Tokens in `banned` are never drawn.

        A grammar waits while a thought is open between the two tokens of `thought`.
        """
        biases = [
            NativeBias(token, value)
            for token, value in (*params.logit_bias, *((token, -math.inf) for token in banned))
        ]
        opening, closing = thought or (-1, -1)
        return cls(
            temperature=params.temperature,
            top_k=int(params.top_k),
            # What rounds to 0 in single precision keeps the likeliest token, as it should.
            top_p=max(params.top_p, SMALLEST_FLOAT32),
            min_p=params.min_p,
            typical_p=max(params.typical_p, SMALLEST_FLOAT32),
            repeat_penalty=params.repeat_penalty,
            repeat_window=int(params.repeat_last_n),
            presence_penalty=params.presence_penalty,
            frequency_penalty=params.frequency_penalty,
            min_tokens=int(params.min_tokens),
            bias=(NativeBias * len(biases))(*biases),
            n_bias=len(biases),
            grammar=None if params.grammar is None else params.grammar.encode(),
            thought_open=opening,
            thought_close=closing,
            n_logprobs=int(params.logprobs),
            seed=int(seed),
            repeatable=params.seed is not None,
        )


class NativeToken(ctypes.Structure):
    """gc_token."""

    _fields_ = (
        ("id", ctypes.c_int32),
        ("from_draft", ctypes.c_bool),
        ("logprob", ctypes.c_float),
        ("logits_hash", ctypes.c_uint64),
    )

    id: int
    from_draft: bool
    logprob: float
    logits_hash: int


class NativeStats(ctypes.Structure):
    """gc_stats."""

    _fields_ = (
        ("cached_tokens", ctypes.c_int64),
        ("prefilled_tokens", ctypes.c_int64),
        ("exited_tokens", ctypes.c_int64),
        ("rounds", ctypes.c_int64),
        ("parked_rounds", ctypes.c_int64),
        ("drafter_rounds", ctypes.c_int64),
        ("copied_rounds", ctypes.c_int64),
        ("drafted", ctypes.c_int64),
        ("clustered", ctypes.c_int64),
        ("recalled", ctypes.c_int64),
        ("accepted", ctypes.c_int64),
        ("drafted_by_position", ctypes.c_int64 * MAX_DRAFT),
        ("accepted_by_position", ctypes.c_int64 * MAX_DRAFT),
        ("copied_drafted", ctypes.c_int64),
        ("copied_accepted", ctypes.c_int64),
        ("rounds_by_width", ctypes.c_int64 * MAX_WIDTH),
        ("pass_cost", ctypes.c_double * MAX_WIDTH),
        ("step_cost", ctypes.c_double),
        ("expected_block", ctypes.c_double),
        ("expected_token_wise", ctypes.c_double),
        ("prefill_s", ctypes.c_double),
        ("draft_s", ctypes.c_double),
        ("verify_s", ctypes.c_double),
        ("sample_s", ctypes.c_double),
    )

    cached_tokens: int
    prefilled_tokens: int
    exited_tokens: int
    rounds: int
    parked_rounds: int
    drafter_rounds: int
    copied_rounds: int
    drafted: int
    clustered: int
    recalled: int
    accepted: int
    drafted_by_position: Sequence[int]
    accepted_by_position: Sequence[int]
    copied_drafted: int
    copied_accepted: int
    rounds_by_width: Sequence[int]
    pass_cost: Sequence[float]
    step_cost: float
    expected_block: float
    expected_token_wise: float
    prefill_s: float
    draft_s: float
    verify_s: float
    sample_s: float


class NativeClusters(ctypes.Structure):
    """gc_clusters."""

    _fields_ = (
        ("count", ctypes.c_int32),
        ("top", ctypes.c_int32),
        ("centroids", ctypes.POINTER(ctypes.c_float)),
        ("ordering", ctypes.POINTER(ctypes.c_int32)),
        ("n_centroid_items", ctypes.c_int32),
        ("n_tokens", ctypes.c_int32),
    )


class NativeSchedule(ctypes.Structure):
    """gc_schedule_state."""

    PASSES = ctypes.c_double * MAX_WIDTH
    ACCEPTANCE = ctypes.c_double * MAX_DRAFT
    _fields_ = (("pass_s", PASSES), ("step_s", ctypes.c_double), ("acceptance", ACCEPTANCE))

    pass_s: Sequence[float]
    step_s: float
    acceptance: Sequence[float]


class Inspection(ctypes.Structure):
    """gc_inspection."""

    _fields_ = (
        ("n_committed", ctypes.c_int64),
        ("n_cached", ctypes.c_int64),
        ("position_max", ctypes.c_int64),
        ("state_bytes", ctypes.c_uint64),
        ("has_hidden", ctypes.c_bool),
        ("hidden_hash", ctypes.c_uint64),
    )

    n_committed: int
    n_cached: int
    position_max: int
    state_bytes: int
    has_hidden: bool
    hidden_hash: int


class NativeLogprob(ctypes.Structure):
    """gc_logprob."""

    _fields_ = (
        ("token", ctypes.c_int32),
        ("raw", ctypes.c_float),
        ("final", ctypes.c_float),
    )

    token: int
    raw: float
    final: float
