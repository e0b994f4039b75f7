"""The functions of libgemmachat as ctypes sees them: what they return and take.

Everything mirrors `native/gemmachat.h`, `gemmachat_head.h` and `gemmachat_pure.h`, where it is
documented.
"""

from __future__ import annotations

import ctypes
from typing import Any

from gemmachat.native_structs import (
    Inspection,
    NativeClusters,
    NativeLogprob,
    NativeSampling,
    NativeSchedule,
    NativeStats,
    NativeToken,
    SessionParams,
)

_handle = ctypes.c_void_p
_int32 = ctypes.c_int32
_int64 = ctypes.c_int64
_status = ctypes.c_int
_floats = ctypes.POINTER(ctypes.c_float)
_doubles = ctypes.POINTER(ctypes.c_double)
_int32s = ctypes.POINTER(ctypes.c_int32)

SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "gc_abi_version": (ctypes.c_uint32, []),
    "gc_built_for": (ctypes.c_char_p, []),
    "gc_last_error": (ctypes.c_char_p, []),
    "gc_kernels_install": (ctypes.c_bool, [ctypes.c_char_p]),
    "gc_kernels_installed": (ctypes.c_bool, []),
    "gc_kernels_status": (ctypes.c_char_p, []),
    "gc_engine_load": (
        _status,
        [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(_handle)],
    ),
    "gc_packed_bytes": (ctypes.c_int64, [_handle]),
    "gc_engine_free": (None, [_handle]),
    "gc_vocab_size": (_int32, [_handle]),
    "gc_context_length": (_int32, [_handle]),
    "gc_layer_count": (_int32, [_handle]),
    "gc_first_skipped_layer": (_int32, [_handle]),
    "gc_chat_template": (ctypes.c_char_p, [_handle]),
    "gc_control_token": (_int32, [_handle, ctypes.c_char_p]),
    "gc_tokenize": (_status, [_handle, ctypes.c_char_p, _int32, _int32s, _int32, _int32s]),
    "gc_token_piece": (_status, [_handle, _int32, ctypes.c_char_p, _int32, _int32s]),
    "gc_token_is_end": (ctypes.c_bool, [_handle, _int32]),
    "gc_grammar_check": (_status, [ctypes.c_char_p]),
    "gc_grammar_allowed": (
        _status,
        [_handle, ctypes.c_char_p, _int32s, _int32, _int32s, _int32, _int32s],
    ),
    "gc_grammar_walk": (
        _status,
        [_handle, ctypes.c_char_p, ctypes.c_uint64, _int32, _int32s, _int32s],
    ),
    "gc_engine_set_clusters": (_status, [_handle, ctypes.POINTER(NativeClusters)]),
    "gc_engine_has_clusters": (ctypes.c_bool, [_handle]),
    "gc_cluster_tokens": (
        _status,
        [
            ctypes.c_char_p,
            _int32,
            _int32,
            ctypes.POINTER(ctypes.c_bool),
            _floats,
            _int32,
            _int32s,
            _int32,
        ],
    ),
    "gc_head_score": (_status, [_handle, _floats, _int32s, _floats, _int32, _int32s, _floats]),
    "gc_head_recall": (_status, [_handle, _floats, _int32, _int32s]),
    "gc_session_new": (
        _status,
        [_handle, ctypes.POINTER(SessionParams), ctypes.POINTER(_handle)],
    ),
    "gc_session_free": (None, [_handle]),
    "gc_session_sync": (_status, [_handle, _int32s, _int32]),
    "gc_session_set_sampling": (_status, [_handle, ctypes.POINTER(NativeSampling)]),
    "gc_session_set_schedule": (_status, [_handle, ctypes.POINTER(NativeSchedule)]),
    "gc_session_schedule": (None, [_handle, ctypes.POINTER(NativeSchedule)]),
    "gc_session_step": (_status, [_handle, _int32, _int32, ctypes.POINTER(NativeToken), _int32s]),
    "gc_session_verify": (
        _status,
        [_handle, _int32s, _int32, _int32, ctypes.POINTER(NativeToken), _int32s],
    ),
    "gc_session_cancel": (None, [_handle]),
    "gc_session_cancel_at_poll": (None, [_handle, ctypes.c_int64]),
    "gc_session_set_synthetic_acceptance": (_status, [_handle, ctypes.c_double]),
    "gc_session_clear_cancel": (None, [_handle]),
    "gc_session_logprobs": (
        _status,
        [_handle, _int32, ctypes.POINTER(NativeLogprob), _int32s, _int32s],
    ),
    "gc_session_stats": (None, [_handle, ctypes.POINTER(NativeStats)]),
    "gc_session_inspect": (_status, [_handle, ctypes.POINTER(Inspection)]),
    "gc_session_kv_hash": (_status, [_handle, ctypes.POINTER(ctypes.c_uint64)]),
    "gc_node_rows": (
        _status,
        [
            _handle,
            _int32s,
            _int32,
            ctypes.c_char_p,
            _floats,
            ctypes.c_int64,
            ctypes.POINTER(ctypes.c_bool),
        ],
    ),
    "gc_target_model": (ctypes.c_void_p, [_handle]),
    "gc_session_distribution": (
        _status,
        [_handle, _int32s, _int32, _int32s, _doubles, _int32, _int32s],
    ),
    "gc_session_probe": (_status, [_handle, _int32, _floats]),
    "gc_verify_rounds": (
        _status,
        [
            _floats,
            _floats,
            _int32,
            _int32,
            ctypes.POINTER(NativeSampling),
            ctypes.c_bool,
            _int32,
            _int32s,
            _int32s,
        ],
    ),
    "gc_verify_law": (
        _status,
        [_doubles, _doubles, _int32s, _int32, _int32, ctypes.c_bool, _doubles, _doubles],
    ),
    "gc_shape_row": (
        _status,
        [
            _floats,
            _int32,
            ctypes.POINTER(NativeSampling),
            ctypes.c_char_p,
            _int32s,
            _doubles,
            _int32,
            _int32s,
            _doubles,
        ],
    ),
    "gc_schedule_new": (
        _status,
        [
            ctypes.POINTER(NativeSchedule),
            ctypes.c_bool,
            ctypes.c_bool,
            ctypes.POINTER(_handle),
        ],
    ),
    "gc_schedule_free": (None, [_handle]),
    "gc_schedule_begin": (_status, [_handle, _int32, _int32, _int32, _int32s, _int32s]),
    "gc_schedule_wants_step": (ctypes.c_bool, [_handle]),
    "gc_schedule_wants_draw": (ctypes.c_bool, [_handle, ctypes.c_double]),
    "gc_schedule_width": (_int32, [_handle, _int32]),
    "gc_schedule_end": (_status, [_handle, _int32, _int32, _int32, _int32]),
    "gc_schedule_measured_pass": (_status, [_handle, _int32, ctypes.c_double]),
    "gc_schedule_measured_step": (None, [_handle, ctypes.c_double]),
    "gc_schedule_save": (None, [_handle, ctypes.POINTER(NativeSchedule)]),
    "gc_best_choice": (
        _status,
        [_doubles, ctypes.c_double, _doubles, _int32, _int32s, _doubles],
    ),
    "gc_drop_mapped_pages": (None, [ctypes.c_void_p, ctypes.c_uint64]),
    "gc_ngram_new": (_status, [ctypes.POINTER(_handle)]),
    "gc_ngram_free": (None, [_handle]),
    "gc_ngram_append": (_status, [_handle, _int32s, _int32]),
    "gc_ngram_cut": (None, [_handle, _int32]),
    "gc_ngram_find": (_status, [_handle, _int32, _int32s, _int32s, _int32s]),
    "gc_best_tokens": (_status, [_floats, _int32, _int32, _int32s, _floats, _int32s]),
    "gc_sample_row": (
        _status,
        [
            _handle,
            ctypes.POINTER(NativeSampling),
            _int32s,
            _int32,
            _int32,
            _int32s,
            _floats,
            _int32,
            _int32s,
            _doubles,
            _int32,
            _int32s,
        ],
    ),
    "gc_matrix_new": (
        _status,
        [ctypes.c_char_p, _int32, ctypes.c_void_p, _int64, _int64, ctypes.POINTER(_handle)],
    ),
    "gc_matrix_free": (None, [_handle]),
    "gc_matrix_multiply": (
        _status,
        [ctypes.POINTER(_handle), _int32, _floats, _int64, _int32, _floats, _doubles],
    ),
}
