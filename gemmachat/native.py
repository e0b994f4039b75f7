"""The C interface of libgemmachat as ctypes sees it: signatures, and loading.

Everything mirrors `native/gemmachat.h`, where it is documented.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

from gemmachat.errors import EngineError
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

ABI_VERSION = 7

_SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"


_handle = ctypes.c_void_p
_int32 = ctypes.c_int32
_status = ctypes.c_int
_floats = ctypes.POINTER(ctypes.c_float)
_doubles = ctypes.POINTER(ctypes.c_double)
_int32s = ctypes.POINTER(ctypes.c_int32)

_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "gc_abi_version": (ctypes.c_uint32, []),
    "gc_built_for": (ctypes.c_char_p, []),
    "gc_last_error": (ctypes.c_char_p, []),
    "gc_engine_load": (_status, [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(_handle)]),
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
}

_library: ctypes.CDLL | None = None
_loaded_by = 0  # process id


def library() -> ctypes.CDLL:
    """The native library, loaded and checked at the first call. Raises `EngineError`.

    That includes a process forked from one that has loaded it: the threads that llama.cpp counts on
    are not in the copy, and it would wait for them forever.
    """
    global _library, _loaded_by
    if _library is None:
        _library, _loaded_by = _load(), os.getpid()
    if is_forked():
        raise EngineError(
            "this process was forked from one that had loaded llama.cpp, which does not survive "
            "that: load it after the fork only, or use multiprocessing's start method 'spawn'"
        )
    return _library


def is_forked() -> bool:
    """Whether this process is the fork of one that had loaded the library."""
    return _library is not None and os.getpid() != _loaded_by


def library_info() -> dict[str, object]:
    """What is loaded: path, ABI version and the llama-cpp-python release compiled against."""
    lib = library()
    llama = _load_llama()
    llama.llama_print_system_info.restype = ctypes.c_char_p
    llama.llama_version.restype = ctypes.c_char_p
    return {
        "path": str(_library_path()),
        "abi_version": lib.gc_abi_version(),
        "built_for": lib.gc_built_for().decode(),
        "llama_version": llama.llama_version().decode(),
        "system_info": llama.llama_print_system_info().decode().strip(),
    }


def installed_version(package: str) -> str:
    """The release of an installed package. Raises `EngineError` when it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        raise EngineError(f"{package} is not installed properly: reinstall gemmachat") from None


def _load_llama() -> ctypes.CDLL:
    """Opens the very file that `import llama_cpp` opens, so that the process has one copy.

    Executing the `llama_cpp` package would cost half a second of start-up and yield nothing else.
    """
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or not spec.submodule_search_locations:
        raise EngineError("llama-cpp-python is not installed: reinstall gemmachat")
    folder = os.environ.get("LLAMA_CPP_LIB_PATH") or os.path.join(
        spec.submodule_search_locations[0], "lib"
    )
    path = os.path.join(folder, "libllama.so")
    if sys.platform == "darwin" and not os.path.exists(path):
        path = os.path.join(folder, "libllama.dylib")
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")  # read once, when the library is loaded
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise EngineError(f"cannot load llama.cpp: {error}") from error


def _library_path() -> Path:
    """The native library beside the package; an editable install keeps it in a second folder."""
    spec = importlib.util.find_spec("gemmachat")
    folders = spec.submodule_search_locations if spec else None
    candidates = [Path(folder) / f"libgemmachat{_SUFFIX}" for folder in folders or []]
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise EngineError(f"the native library {candidates[0]} is missing: reinstall gemmachat")


def _load() -> ctypes.CDLL:
    _load_llama()
    path = _library_path()
    try:
        lib = ctypes.CDLL(str(path))
    except OSError as error:
        raise EngineError(f"cannot load {path}: {error}") from error
    try:
        lib.gc_abi_version.restype = ctypes.c_uint32
        if lib.gc_abi_version() != ABI_VERSION:
            raise EngineError(
                f"{path} speaks ABI version {lib.gc_abi_version()} and this package needs "
                f"{ABI_VERSION}: reinstall gemmachat"
            )
        for name, (restype, argtypes) in _SIGNATURES.items():
            function = getattr(lib, name)
            function.restype = restype
            function.argtypes = argtypes
    except AttributeError as error:
        raise EngineError(f"{path} is not gemmachat's: reinstall gemmachat ({error})") from None
    built_for = lib.gc_built_for().decode()
    installed = installed_version("llama-cpp-python")
    if built_for != installed:
        raise EngineError(
            f"{path} was built for llama-cpp-python {built_for} and {installed} is installed: "
            "reinstall gemmachat"
        )
    return lib
