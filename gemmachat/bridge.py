"""ctypes only: wraps the native handles and turns status codes into exceptions.

Nothing above this module sees a pointer.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from array import array
from collections.abc import Callable, Sequence
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
from gemmachat.native import is_forked, library
from gemmachat.native_structs import (
    MAX_WIDTH,
    Inspection,
    NativeLogprob,
    NativeSampling,
    NativeSchedule,
    NativeStats,
    NativeToken,
    SessionParams,
)

_CANCELLED = 1
_ERRORS: dict[int, type[GemmachatError]] = {
    2: UsageError,
    3: DamagedFileError,
    4: MemoryLimitError,
    5: ContextFullError,
    7: DamagedFileError,
    9: UsageError,
}


class CancelledError(Exception):
    """The call was stopped by `SessionHandle.cancel`."""


def _check(status: int) -> None:
    if status == 0:
        return
    if status == _CANCELLED:
        raise CancelledError
    text = library().gc_last_error().decode("utf-8", "replace")
    raise _ERRORS.get(status, EngineError)(text)


def _int32_array(values: Sequence[int]) -> ctypes.Array[ctypes.c_int32]:
    try:
        items = array("i", values)
    except (OverflowError, TypeError):
        raise UsageError("a token id must be a whole number below 2^31") from None
    return (ctypes.c_int32 * len(items)).from_buffer(items)


def _free_with(
    owner: object, free: Callable[[ctypes.c_void_p], None], pointer: ctypes.c_void_p
) -> weakref.finalize[Any, Any]:
    """Return what frees the pointer, once: when it is called, or when its owner is collected."""

    def free_here() -> None:
        if not is_forked():
            free(pointer)

    finalizer = weakref.finalize(owner, free_here)
    # Not at exit: threads that are still inside a call die with the process.
    finalizer.atexit = False  # type: ignore[misc]
    return finalizer


class EngineHandle:
    """gc_engine: a loaded target and, if given, its drafter. Safe to use from any thread."""

    def __init__(self, target: Path, drafter: Path | None) -> None:
        """Raise `DamagedFileError` when llama.cpp refuses a file."""
        lib = library()
        pointer = ctypes.c_void_p()
        drafter_path = None if drafter is None else os.fsencode(drafter)
        _check(lib.gc_engine_load(os.fsencode(target), drafter_path, ctypes.byref(pointer)))
        self._pointer: ctypes.c_void_p | None = pointer
        self._free = _free_with(self, lib.gc_engine_free, pointer)
        self._life = threading.Lock()  # held while a call or free uses the pointer
        self.opening = threading.Lock()  # held while a session is opened: free waits for it
        self.sessions: weakref.WeakSet[SessionHandle] = weakref.WeakSet()

    @property
    def pointer(self) -> ctypes.c_void_p:
        """The native handle. Raises `EngineError` after `free`."""
        if self._pointer is None:
            raise EngineError("the engine is closed")
        return self._pointer

    def vocab_size(self) -> int:
        """Number of token ids."""
        lib = library()
        with self._life:
            return int(lib.gc_vocab_size(self.pointer))

    def context_length(self) -> int:
        """Tokens of context that the target was trained for."""
        lib = library()
        with self._life:
            return int(lib.gc_context_length(self.pointer))

    def chat_template(self) -> str | None:
        """The target's chat template, if its file has one."""
        lib = library()
        with self._life:
            template = lib.gc_chat_template(self.pointer)
        return None if template is None else template.decode("utf-8", "replace")

    def control_token(self, spelling: str) -> int | None:
        """Id of the control token that is spelled so."""
        lib = library()
        name = spelling.encode("utf-8", "surrogatepass")
        if b"\0" in name:  # would end the spelling in C
            return None
        with self._life:
            token = int(lib.gc_control_token(self.pointer, name))
        return None if token < 0 else token

    def tokenize(self, text: str) -> list[int]:
        """Token ids of plain content; the spelling of a control token is text."""
        lib = library()
        data = text.encode("utf-8", "replace")
        capacity = len(data) + 1
        tokens = (ctypes.c_int32 * capacity)()
        count = ctypes.c_int32()
        with self._life:
            _check(
                lib.gc_tokenize(
                    self.pointer, data, len(data), tokens, capacity, ctypes.byref(count)
                )
            )
        return list(tokens[: count.value])

    def walk_grammar(self, grammar: str, seed: int, max_tokens: int) -> list[int]:
        """Some tokens that a GBNF grammar allows, at random; `UsageError` where there are none."""
        tokens = (ctypes.c_int32 * max_tokens)()
        count = ctypes.c_int32()
        with self._life:
            _check(
                library().gc_grammar_walk(
                    self.pointer, grammar.encode(), seed, max_tokens, tokens, ctypes.byref(count)
                )
            )
        return list(tokens[: count.value])

    def piece(self, token: int) -> bytes:
        """The bytes of a token, none for a control token."""
        lib = library()
        capacity = 64
        while True:
            buffer = ctypes.create_string_buffer(capacity)
            count = ctypes.c_int32()
            with self._life:
                _check(
                    lib.gc_token_piece(self.pointer, token, buffer, capacity, ctypes.byref(count))
                )
            if count.value <= capacity:
                return buffer.raw[: count.value]
            capacity = count.value

    def is_end(self, token: int) -> bool:
        """Whether the token ends the model's turn."""
        lib = library()
        with self._life:
            return bool(lib.gc_token_is_end(self.pointer, token))

    def free(self) -> None:
        """Stop and free every session, and the models with the last of them."""
        if is_forked():
            return
        with self.opening, self._life:
            self._pointer = None
            self._free()
            sessions = list(self.sessions)
        for session in sessions:
            session.free()


class SessionHandle:
    """gc_session: one timeline of tokens. One call runs at a time, `cancel` beside it."""

    def __init__(
        self, engine: EngineHandle, params: SessionParams, saved: NativeSchedule | None = None
    ) -> None:
        """Start from what an earlier session has learned about drafting.

        Raises `MemoryLimitError` when llama.cpp cannot allocate the context.
        """
        lib = library()
        self._call = threading.Lock()  # held during every call but cancel
        # Held while cancel or free uses the pointer; a signal handler may cancel inside either.
        self._life = threading.RLock()
        pointer = ctypes.c_void_p()
        with engine.opening:
            _check(lib.gc_session_new(engine.pointer, ctypes.byref(params), ctypes.byref(pointer)))
            self._pointer: ctypes.c_void_p | None = pointer
            self._free = _free_with(self, lib.gc_session_free, pointer)
            if saved is not None:
                _check(lib.gc_session_set_schedule(pointer, ctypes.byref(saved)))
            engine.sessions.add(self)
        self._vocab_size = engine.vocab_size()

    @property
    def pointer(self) -> ctypes.c_void_p:
        """The native handle. Raises `EngineError` after `free`."""
        if self._pointer is None:
            raise EngineError("the session is closed")
        return self._pointer

    def sync(self, tokens: Sequence[int]) -> None:
        """Make the timeline equal to these tokens."""
        ids = _int32_array(tokens)
        lib = library()
        with self._call:
            _check(lib.gc_session_sync(self.pointer, ids, len(ids)))

    def set_sampling(self, sampling: NativeSampling) -> None:
        """Set how tokens are drawn and restart the random stream."""
        lib = library()
        with self._call:
            _check(lib.gc_session_set_sampling(self.pointer, ctypes.byref(sampling)))

    def schedule(self) -> NativeSchedule:
        """What is known about drafting; nothing after `free`."""
        state = NativeSchedule()
        if is_forked():
            return state
        with self._call:
            if self._pointer is not None:
                library().gc_session_schedule(self._pointer, ctypes.byref(state))
        return state

    def step(self, n_draft: int, max_tokens: int) -> Sequence[NativeToken]:
        """Run one round and return the tokens it yields."""
        tokens, count = (NativeToken * MAX_WIDTH)(), ctypes.c_int32()
        lib = library()
        with self._call:
            _check(
                lib.gc_session_step(self.pointer, n_draft, max_tokens, tokens, ctypes.byref(count))
            )
        return tokens[: count.value]

    def verify(self, drafts: Sequence[int], max_tokens: int) -> Sequence[NativeToken]:
        """Run one round on drafts that the caller proposes and return the tokens it yields."""
        tokens, count = (NativeToken * MAX_WIDTH)(), ctypes.c_int32()
        ids = _int32_array(drafts)
        lib = library()
        with self._call:
            _check(
                lib.gc_session_verify(
                    self.pointer,
                    ids,
                    len(ids),
                    max_tokens,
                    tokens,
                    ctypes.byref(count),
                )
            )
        return tokens[: count.value]

    def cancel(self) -> None:
        """Stop the running call, or else the next one, within one pass. Any thread, any time."""
        if is_forked():
            return
        with self._life:
            if self._pointer is not None:
                library().gc_session_cancel(self._pointer)

    def cancel_at_poll(self, n: int) -> None:
        """Cancel when a pass asks for the n-th time from now whether to stop."""
        lib = library()
        with self._call:
            lib.gc_session_cancel_at_poll(self.pointer, n)

    def clear_cancel(self) -> None:
        """Take back a cancel that nothing has answered."""
        if is_forked():
            return
        with self._life:
            if self._pointer is not None:
                library().gc_session_clear_cancel(self._pointer)

    def logprobs(self, index: int, n: int) -> list[list[NativeLogprob]]:
        """Of the last round's token: itself, the n best unfiltered, the n best that were drawn."""
        out = (NativeLogprob * (1 + 2 * n))()
        n_raw, n_final = ctypes.c_int32(), ctypes.c_int32()
        with self._call:
            _check(
                library().gc_session_logprobs(
                    self.pointer, index, out, ctypes.byref(n_raw), ctypes.byref(n_final)
                )
            )
        split = 1 + n_raw.value
        return [out[:1], out[1:split], out[split : split + n_final.value]]

    def stats(self) -> NativeStats:
        """Totals since the last `sync`; zeros after `free`."""
        stats = NativeStats()
        if is_forked():
            return stats
        with self._call:
            if self._pointer is not None:
                library().gc_session_stats(self._pointer, ctypes.byref(stats))
        return stats

    def inspect(self) -> Inspection:
        """The session's bookkeeping."""
        inspection = Inspection()
        lib = library()
        with self._call:
            _check(lib.gc_session_inspect(self.pointer, ctypes.byref(inspection)))
        return inspection

    def probe(self, width: int) -> ctypes.Array[ctypes.c_float]:
        """Logits after the timeline, float32 of vocab_size, from a pass of the given width."""
        logits = (ctypes.c_float * self._vocab_size)()
        lib = library()
        with self._call:
            _check(lib.gc_session_probe(self.pointer, width, logits))
        return logits

    def distribution(self, path: Sequence[int] = ()) -> dict[int, float]:
        """What a token after the timeline and `path` is drawn from: token id to probability."""
        n = self._vocab_size
        ids, probabilities = (ctypes.c_int32 * n)(), (ctypes.c_double * n)()
        count = ctypes.c_int32()
        tokens = _int32_array(path)
        with self._call:
            _check(
                library().gc_session_distribution(
                    self.pointer, tokens, len(path), ids, probabilities, n, ctypes.byref(count)
                )
            )
        return dict(zip(ids[: count.value], probabilities[: count.value], strict=True))

    def free(self) -> None:
        """Stop what is running, then free the timeline and its contexts."""
        if is_forked():
            return
        self.cancel()
        with self._call, self._life:
            self._pointer = None
            self._free()
