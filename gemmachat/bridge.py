"""ctypes only: wraps the native handles and turns status codes into exceptions.

Nothing above this module sees a pointer.
"""

from __future__ import annotations

import ctypes
import os
import threading
from array import array
from collections.abc import Sequence
from pathlib import Path

from gemmachat.errors import (
    ContextFullError,
    DamagedFileError,
    EngineError,
    GemmachatError,
    MemoryLimitError,
    UsageError,
)
from gemmachat.native import (
    MAX_WIDTH,
    Inspection,
    NativeSampling,
    NativeStats,
    NativeToken,
    SessionParams,
    library,
)

_CANCELLED = 1
_ERRORS: dict[int, type[GemmachatError]] = {
    2: UsageError,
    3: DamagedFileError,
    4: MemoryLimitError,
    5: ContextFullError,
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


class EngineHandle:
    """gc_engine: a loaded target and, if given, its drafter. Safe to use from any thread."""

    def __init__(self, target: Path, drafter: Path | None) -> None:
        """Raise `DamagedFileError` when llama.cpp refuses a file."""
        self._lib = library()
        self._pointer: ctypes.c_void_p | None = None
        self._life = threading.Lock()  # held while a call or free uses the pointer
        pointer = ctypes.c_void_p()
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
        with self._life:
            return int(self._lib.gc_vocab_size(self.pointer))

    def context_length(self) -> int:
        """Tokens of context that the target was trained for."""
        with self._life:
            return int(self._lib.gc_context_length(self.pointer))

    def chat_template(self) -> str | None:
        """The target's chat template, if its file has one."""
        with self._life:
            template = self._lib.gc_chat_template(self.pointer)
        return None if template is None else template.decode("utf-8", "replace")

    def control_token(self, spelling: str) -> int | None:
        """Id of the control token that is spelled so."""
        with self._life:
            token = int(self._lib.gc_control_token(self.pointer, spelling.encode()))
        return None if token < 0 else token

    def tokenize(self, text: str) -> list[int]:
        """Token ids of plain content; the spelling of a control token is text."""
        data = text.encode("utf-8", "replace")
        capacity = len(data) + 1
        tokens = (ctypes.c_int32 * capacity)()
        count = ctypes.c_int32()
        with self._life:
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
            count = ctypes.c_int32()
            with self._life:
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
        with self._life:
            return bool(self._lib.gc_token_is_end(self.pointer, token))

    def free(self) -> None:
        """Unload the models. Sessions must be freed before."""
        with self._life:
            if self._pointer is not None:
                pointer, self._pointer = self._pointer, None
                self._lib.gc_engine_free(pointer)


class SessionHandle:
    """gc_session: one timeline of tokens. One call runs at a time, `cancel` beside it."""

    def __init__(self, engine: EngineHandle, params: SessionParams) -> None:
        """Raise `MemoryLimitError` when llama.cpp cannot allocate the context."""
        self._lib = library()
        self._pointer: ctypes.c_void_p | None = None
        self._call = threading.Lock()  # held during every call but cancel
        self._life = threading.Lock()  # held while cancel or free uses the pointer
        pointer = ctypes.c_void_p()
        _check(
            self._lib.gc_session_new(engine.pointer, ctypes.byref(params), ctypes.byref(pointer))
        )
        self._pointer = pointer
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
        with self._call:
            _check(self._lib.gc_session_sync(self.pointer, ids, len(ids)))

    def set_sampling(self, sampling: NativeSampling) -> None:
        """Set how tokens are drawn and restart the random stream."""
        with self._call:
            _check(self._lib.gc_session_set_sampling(self.pointer, ctypes.byref(sampling)))

    def step(self, n_draft: int, max_tokens: int) -> Sequence[NativeToken]:
        """Run one round and return the tokens it yields."""
        tokens, count = (NativeToken * MAX_WIDTH)(), ctypes.c_int32()
        with self._call:
            _check(
                self._lib.gc_session_step(
                    self.pointer, n_draft, max_tokens, tokens, ctypes.byref(count)
                )
            )
        return tokens[: count.value]

    def verify(self, drafts: Sequence[int], max_tokens: int) -> Sequence[NativeToken]:
        """Run one round on drafts that the caller proposes and return the tokens it yields."""
        tokens, count = (NativeToken * MAX_WIDTH)(), ctypes.c_int32()
        ids = _int32_array(drafts)
        with self._call:
            _check(
                self._lib.gc_session_verify(
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
        with self._life:
            if self._pointer is not None:
                self._lib.gc_session_cancel(self._pointer)

    def cancel_at_poll(self, n: int) -> None:
        """Cancel when a pass asks for the n-th time from now whether to stop."""
        with self._call:
            self._lib.gc_session_cancel_at_poll(self.pointer, n)

    def clear_cancel(self) -> None:
        """Take back a cancel that nothing has answered."""
        with self._life:
            if self._pointer is not None:
                self._lib.gc_session_clear_cancel(self._pointer)

    def stats(self) -> NativeStats:
        """Totals since the last `sync`; zeros after `free`."""
        stats = NativeStats()
        with self._call:
            if self._pointer is not None:
                self._lib.gc_session_stats(self._pointer, ctypes.byref(stats))
        return stats

    def inspect(self) -> Inspection:
        """The session's bookkeeping."""
        inspection = Inspection()
        with self._call:
            _check(self._lib.gc_session_inspect(self.pointer, ctypes.byref(inspection)))
        return inspection

    def probe(self, width: int) -> ctypes.Array[ctypes.c_float]:
        """Logits after the timeline, float32 of vocab_size, from a pass of the given width."""
        logits = (ctypes.c_float * self._vocab_size)()
        with self._call:
            _check(self._lib.gc_session_probe(self.pointer, width, logits))
        return logits

    def free(self) -> None:
        """Stop what is running, then free the timeline and its contexts."""
        self.cancel()
        with self._call, self._life:
            if self._pointer is not None:
                pointer, self._pointer = self._pointer, None
                self._lib.gc_session_free(pointer)


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
