"""ctypes only: the handle of one timeline of tokens."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence

from gemmachat.bridge import check, free_with, int32_array
from gemmachat.bridge_engine import EngineHandle
from gemmachat.errors import EngineError
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
            check(lib.gc_session_new(engine.pointer, ctypes.byref(params), ctypes.byref(pointer)))
            self._pointer: ctypes.c_void_p | None = pointer
            self._free = free_with(self, lib.gc_session_free, pointer)
            if saved is not None:
                check(lib.gc_session_set_schedule(pointer, ctypes.byref(saved)))
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
        ids = int32_array(tokens)
        lib = library()
        with self._call:
            check(lib.gc_session_sync(self.pointer, ids, len(ids)))

    def set_sampling(self, sampling: NativeSampling) -> None:
        """Set how tokens are drawn and restart the random stream."""
        lib = library()
        with self._call:
            check(lib.gc_session_set_sampling(self.pointer, ctypes.byref(sampling)))

    def schedule(self) -> NativeSchedule | None:
        """What is known about drafting; None after `free`."""
        if is_forked():
            return None
        state = NativeSchedule()
        with self._call:
            if self._pointer is None:
                return None
            library().gc_session_schedule(self._pointer, ctypes.byref(state))
        return state

    def step(self, n_draft: int, max_tokens: int) -> Sequence[NativeToken]:
        """Run one round and return the tokens it yields."""
        tokens, count = (NativeToken * MAX_WIDTH)(), ctypes.c_int32()
        lib = library()
        with self._call:
            check(
                lib.gc_session_step(self.pointer, n_draft, max_tokens, tokens, ctypes.byref(count))
            )
        return tokens[: count.value]

    def verify(self, drafts: Sequence[int], max_tokens: int) -> Sequence[NativeToken]:
        """Run one round on drafts that the caller proposes and return the tokens it yields."""
        tokens, count = (NativeToken * MAX_WIDTH)(), ctypes.c_int32()
        ids = int32_array(drafts)
        lib = library()
        with self._call:
            check(
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
            check(
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
            check(lib.gc_session_inspect(self.pointer, ctypes.byref(inspection)))
        return inspection

    def kv_hash(self) -> int:
        """A fingerprint of the sequence's state in llama.cpp: keys, values, positions."""
        value = ctypes.c_uint64()
        with self._call:
            check(library().gc_session_kv_hash(self.pointer, ctypes.byref(value)))
        return value.value

    def probe(self, width: int) -> ctypes.Array[ctypes.c_float]:
        """Logits after the timeline, float32 of vocab_size, from a pass of the given width."""
        logits = (ctypes.c_float * self._vocab_size)()
        lib = library()
        with self._call:
            check(lib.gc_session_probe(self.pointer, width, logits))
        return logits

    def distribution(self, path: Sequence[int] = ()) -> dict[int, float]:
        """What a token after the timeline and `path` is drawn from: token id to probability."""
        n = self._vocab_size
        ids, probabilities = (ctypes.c_int32 * n)(), (ctypes.c_double * n)()
        count = ctypes.c_int32()
        tokens = int32_array(path)
        with self._call:
            check(
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
