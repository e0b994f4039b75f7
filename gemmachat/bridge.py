"""ctypes only: loads libgemmachat, checks that it fits, and wraps its handles.

The functions and structures mirror `native/gemmachat.h`, where they are documented. Status codes
become exceptions here; nothing above this module sees a pointer.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gemmachat.errors import (
    ContextFullError,
    DamagedFileError,
    EngineError,
    GemmachatError,
    MemoryLimitError,
    UsageError,
)

ABI_VERSION = 1
MAX_DRAFT = 7
MAX_WIDTH = MAX_DRAFT + 1

_CANCELLED = 1
_ERRORS: dict[int, type[GemmachatError]] = {
    2: UsageError,
    3: DamagedFileError,
    4: MemoryLimitError,
    5: ContextFullError,
}
_SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"


class CancelledError(Exception):
    """The call was stopped by `SessionHandle.cancel`."""


class SessionParams(ctypes.Structure):
    """gc_session_params."""

    _fields_ = (
        ("n_ctx", ctypes.c_int32),
        ("n_threads", ctypes.c_int32),
        ("exact", ctypes.c_bool),
        ("trace_logits", ctypes.c_bool),
    )


class NativeSampling(ctypes.Structure):
    """gc_sampling."""

    _fields_ = (
        ("temperature", ctypes.c_float),
        ("top_k", ctypes.c_int32),
        ("top_p", ctypes.c_float),
        ("min_p", ctypes.c_float),
        ("seed", ctypes.c_uint64),
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
        ("rounds", ctypes.c_int64),
        ("drafted", ctypes.c_int64),
        ("accepted", ctypes.c_int64),
        ("drafted_by_position", ctypes.c_int64 * MAX_DRAFT),
        ("accepted_by_position", ctypes.c_int64 * MAX_DRAFT),
        ("prefill_s", ctypes.c_double),
        ("draft_s", ctypes.c_double),
        ("verify_s", ctypes.c_double),
        ("sample_s", ctypes.c_double),
    )

    cached_tokens: int
    rounds: int
    drafted: int
    accepted: int
    drafted_by_position: Sequence[int]
    accepted_by_position: Sequence[int]
    prefill_s: float
    draft_s: float
    verify_s: float
    sample_s: float


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


_handle = ctypes.c_void_p
_int32 = ctypes.c_int32
_status = ctypes.c_int
_floats = ctypes.POINTER(ctypes.c_float)
_int32s = ctypes.POINTER(ctypes.c_int32)

_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "gc_abi_version": (ctypes.c_uint32, []),
    "gc_built_for": (ctypes.c_char_p, []),
    "gc_last_error": (ctypes.c_char_p, []),
    "gc_engine_load": (_status, [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(_handle)]),
    "gc_engine_free": (None, [_handle]),
    "gc_vocab_size": (_int32, [_handle]),
    "gc_context_length": (_int32, [_handle]),
    "gc_chat_template": (ctypes.c_char_p, [_handle]),
    "gc_control_token": (_int32, [_handle, ctypes.c_char_p]),
    "gc_tokenize": (_status, [_handle, ctypes.c_char_p, _int32, _int32s, _int32, _int32s]),
    "gc_token_piece": (_status, [_handle, _int32, ctypes.c_char_p, _int32, _int32s]),
    "gc_token_is_end": (ctypes.c_bool, [_handle, _int32]),
    "gc_session_new": (
        _status,
        [_handle, ctypes.POINTER(SessionParams), ctypes.POINTER(_handle)],
    ),
    "gc_session_free": (None, [_handle]),
    "gc_session_sync": (_status, [_handle, _int32s, _int32]),
    "gc_session_set_sampling": (_status, [_handle, ctypes.POINTER(NativeSampling)]),
    "gc_session_step": (_status, [_handle, _int32, _int32, ctypes.POINTER(NativeToken), _int32s]),
    "gc_session_verify": (
        _status,
        [_handle, _int32s, _int32, _int32, ctypes.POINTER(NativeToken), _int32s],
    ),
    "gc_session_cancel": (None, [_handle]),
    "gc_session_clear_cancel": (None, [_handle]),
    "gc_session_stats": (None, [_handle, ctypes.POINTER(NativeStats)]),
    "gc_session_inspect": (None, [_handle, ctypes.POINTER(Inspection)]),
    "gc_session_probe": (_status, [_handle, _int32, _floats]),
    "gc_verify_rounds": (
        _status,
        [_floats, _floats, _int32, _int32, ctypes.POINTER(NativeSampling), _int32, _int32s, _int32s],
    ),
}

_library: ctypes.CDLL | None = None


def library() -> ctypes.CDLL:
    """The native library, loaded and checked at the first call. Raises `EngineError`."""
    global _library  # noqa: PLW0603 - one library per process
    if _library is None:
        _library = _load()
    return _library


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
    if not os.path.exists(path):
        path = os.path.join(folder, "libllama.dylib")
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise EngineError(f"cannot load llama.cpp: {error}") from error


def _library_path() -> Path:
    """The native library beside the package; an editable install keeps it in a second folder."""
    import gemmachat

    candidates = [Path(folder) / f"libgemmachat{_SUFFIX}" for folder in gemmachat.__path__]
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
    built_for = lib.gc_built_for().decode()
    installed = importlib.metadata.version("llama-cpp-python")
    if built_for != installed:
        raise EngineError(
            f"{path} was built for llama-cpp-python {built_for} and {installed} is installed: "
            "reinstall gemmachat"
        )
    return lib


def _check(status: int) -> None:
    if status == 0:
        return
    if status == _CANCELLED:
        raise CancelledError
    text = library().gc_last_error().decode("utf-8", "replace")
    raise _ERRORS.get(status, EngineError)(text)


def _int32_array(values: Sequence[int]) -> ctypes.Array[ctypes.c_int32]:
    return (ctypes.c_int32 * len(values))(*values)


class EngineHandle:
    """gc_engine: a loaded target and, if given, its drafter."""

    def __init__(self, target: Path, drafter: Path | None) -> None:
        """Raise `DamagedFileError` when llama.cpp refuses a file."""
        self._lib = library()
        self._pointer: ctypes.c_void_p | None = None
        pointer = _handle()
        drafter_path = None if drafter is None else os.fsencode(drafter)
        _check(self._lib.gc_engine_load(os.fsencode(target), drafter_path, ctypes.byref(pointer)))
        self._pointer = pointer

    @property
    def pointer(self) -> ctypes.c_void_p:
        """The native handle. Raises `EngineError` after `free`."""
        if self._pointer is None:
            raise EngineError("the engine is closed")
        return self._pointer

    def vocab_size(self) -> int:
        """Number of token ids."""
        return int(self._lib.gc_vocab_size(self.pointer))

    def context_length(self) -> int:
        """Tokens of context that the target was trained for."""
        return int(self._lib.gc_context_length(self.pointer))

    def chat_template(self) -> str | None:
        """The target's chat template, if its file has one."""
        template = self._lib.gc_chat_template(self.pointer)
        return None if template is None else template.decode("utf-8", "replace")

    def control_token(self, spelling: str) -> int | None:
        """Id of the control token that is spelled so."""
        token = int(self._lib.gc_control_token(self.pointer, spelling.encode()))
        return None if token < 0 else token

    def tokenize(self, text: str) -> list[int]:
        """Token ids of plain content; the spelling of a control token is text."""
        data = text.encode("utf-8", "replace")
        capacity = len(data) + 1
        tokens = (ctypes.c_int32 * capacity)()
        count = _int32()
        _check(
            self._lib.gc_tokenize(
                self.pointer, data, len(data), tokens, capacity, ctypes.byref(count)
            )
        )
        return list(tokens[: count.value])

    def piece(self, token: int) -> bytes:
        """The bytes of a token, none for a control token."""
        capacity = 64
        while True:
            buffer = ctypes.create_string_buffer(capacity)
            count = _int32()
            _check(
                self._lib.gc_token_piece(
                    self.pointer, token, buffer, capacity, ctypes.byref(count)
                )
            )
            if count.value <= capacity:
                return buffer.raw[: count.value]
            capacity = count.value

    def is_end(self, token: int) -> bool:
        """Whether the token ends the model's turn."""
        return bool(self._lib.gc_token_is_end(self.pointer, token))

    def free(self) -> None:
        """Unload the models. Sessions must be freed before."""
        if self._pointer is not None:
            self._lib.gc_engine_free(self._pointer)
            self._pointer = None


class SessionHandle:
    """gc_session: one timeline of tokens."""

    def __init__(self, engine: EngineHandle, params: SessionParams) -> None:
        """Raise `MemoryLimitError` when llama.cpp cannot allocate the context."""
        self._lib = library()
        self._pointer: ctypes.c_void_p | None = None
        pointer = _handle()
        _check(
            self._lib.gc_session_new(engine.pointer, ctypes.byref(params), ctypes.byref(pointer))
        )
        self._pointer = pointer
        self._tokens = (NativeToken * MAX_WIDTH)()
        self._count = _int32()
        self._vocab_size = engine.vocab_size()

    @property
    def pointer(self) -> ctypes.c_void_p:
        """The native handle. Raises `EngineError` after `free`."""
        if self._pointer is None:
            raise EngineError("the session is closed")
        return self._pointer

    def sync(self, tokens: Sequence[int]) -> None:
        """Make the timeline equal to these tokens."""
        _check(self._lib.gc_session_sync(self.pointer, _int32_array(tokens), len(tokens)))

    def set_sampling(self, sampling: NativeSampling) -> None:
        """Set how tokens are drawn and restart the random stream."""
        _check(self._lib.gc_session_set_sampling(self.pointer, ctypes.byref(sampling)))

    def step(self, n_draft: int, max_tokens: int) -> Sequence[NativeToken]:
        """Run one round. The tokens are valid until the next call."""
        _check(
            self._lib.gc_session_step(
                self.pointer, n_draft, max_tokens, self._tokens, ctypes.byref(self._count)
            )
        )
        return self._tokens[: self._count.value]

    def verify(self, drafts: Sequence[int], max_tokens: int) -> Sequence[NativeToken]:
        """Run one round on drafts that the caller proposes. Tokens as from `step`."""
        _check(
            self._lib.gc_session_verify(
                self.pointer,
                _int32_array(drafts),
                len(drafts),
                max_tokens,
                self._tokens,
                ctypes.byref(self._count),
            )
        )
        return self._tokens[: self._count.value]

    def cancel(self) -> None:
        """Stop the running call, or else the next one, within one pass. Any thread."""
        self._lib.gc_session_cancel(self.pointer)

    def clear_cancel(self) -> None:
        """Take back a cancel that nothing has answered."""
        self._lib.gc_session_clear_cancel(self.pointer)

    def stats(self) -> NativeStats:
        """Totals since the last `sync`."""
        stats = NativeStats()
        self._lib.gc_session_stats(self.pointer, ctypes.byref(stats))
        return stats

    def inspect(self) -> Inspection:
        """The session's bookkeeping."""
        inspection = Inspection()
        self._lib.gc_session_inspect(self.pointer, ctypes.byref(inspection))
        return inspection

    def probe(self, width: int) -> ctypes.Array[ctypes.c_float]:
        """Logits after the timeline, float32 of vocab_size, from a pass of the given width."""
        logits = (ctypes.c_float * self._vocab_size)()
        _check(self._lib.gc_session_probe(self.pointer, width, logits))
        return logits

    def free(self) -> None:
        """Free the timeline and its contexts."""
        if self._pointer is not None:
            self._lib.gc_session_free(self._pointer)
            self._pointer = None


def verify_rounds(
    target_logits: Sequence[Sequence[float]],
    drafter_logits: Sequence[Sequence[float]],
    sampling: NativeSampling,
    n_rounds: int,
) -> list[list[int]]:
    """Draft from and verify on given logits, n_rounds times; no model is involved.

    `target_logits` has one row more than `drafter_logits`; all rows have the vocabulary's length.
    Returns the tokens that each round emitted.
    """
    n_vocab = len(target_logits[0])
    target = (ctypes.c_float * (len(target_logits) * n_vocab))(
        *(value for row in target_logits for value in row)
    )
    drafter = (ctypes.c_float * (len(drafter_logits) * n_vocab))(
        *(value for row in drafter_logits for value in row)
    )
    out = (ctypes.c_int32 * (n_rounds * MAX_WIDTH))()
    counts = (ctypes.c_int32 * n_rounds)()
    _check(
        library().gc_verify_rounds(
            target,
            drafter,
            len(drafter_logits),
            n_vocab,
            ctypes.byref(sampling),
            n_rounds,
            out,
            counts,
        )
    )
    return [list(out[i * MAX_WIDTH : i * MAX_WIDTH + counts[i]]) for i in range(n_rounds)]
