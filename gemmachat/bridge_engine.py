"""ctypes only: the handle of a loaded pair of models."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gemmachat.bridge import check, free_with, int32_array
from gemmachat.errors import EngineError
from gemmachat.native import is_forked, library
from gemmachat.native_structs import KERNELS, NativeClusters

if TYPE_CHECKING:
    from gemmachat.bridge_session import SessionHandle
    from gemmachat.settings import Kernels


class EngineHandle:
    """gc_engine: a loaded target and, if given, its drafter. Safe to use from any thread."""

    def __init__(self, target: Path, drafter: Path | None, kernels: Kernels = "auto") -> None:
        """Raise `DamagedFileError` when llama.cpp refuses a file."""
        lib = library()
        pointer = ctypes.c_void_p()
        drafter_path = None if drafter is None else os.fsencode(drafter)
        check(
            lib.gc_engine_load(
                os.fsencode(target), drafter_path, KERNELS[kernels], ctypes.byref(pointer)
            )
        )
        self._pointer: ctypes.c_void_p | None = pointer
        self._free = free_with(self, lib.gc_engine_free, pointer)
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

    def packed_bytes(self) -> int:
        """Bytes of both files' weights that gemmachat's own kernels multiply."""
        lib = library()
        with self._life:
            return int(lib.gc_packed_bytes(self.pointer))

    def kernels(self) -> str:
        """The names of the installed matrix kernels, where the models use any, else "ggml"."""
        return library().gc_kernels_status().decode() if self.packed_bytes() else "ggml"

    def skipped_layers(self) -> range:
        """The layers that prefill leaves out; none where every layer owns keys and values."""
        lib = library()
        with self._life:
            return range(lib.gc_first_skipped_layer(self.pointer), lib.gc_layer_count(self.pointer))

    def node_rows(self, tokens: Sequence[int], node: str, n_floats: int) -> list[float] | None:
        """What a pass over `tokens` has in a node of llama.cpp's graph; None if there is none."""
        rows, found = (ctypes.c_float * n_floats)(), ctypes.c_bool()
        ids = int32_array(tokens)
        with self._life:
            check(
                library().gc_node_rows(
                    self.pointer,
                    ids,
                    len(ids),
                    node.encode(),
                    rows,
                    n_floats,
                    ctypes.byref(found),
                )
            )
        return list(rows) if found.value else None

    def target_model(self) -> int:
        """The address of llama.cpp's model of the target, which lives as long as the engine."""
        lib = library()
        with self._life:
            return int(lib.gc_target_model(self.pointer))

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
            check(
                lib.gc_tokenize(
                    self.pointer, data, len(data), tokens, capacity, ctypes.byref(count)
                )
            )
        return list(tokens[: count.value])

    def grammar_allows(self, grammar: str, tokens: Sequence[int]) -> list[int]:
        """The tokens that may follow these under a GBNF grammar.

        Raises `UsageError` where the tokens do not follow it.
        """
        found = (ctypes.c_int32 * self.vocab_size())()
        count = ctypes.c_int32()
        with self._life:
            check(
                library().gc_grammar_allowed(
                    self.pointer,
                    grammar.encode(),
                    int32_array(tokens),
                    len(tokens),
                    found,
                    len(found),
                    ctypes.byref(count),
                )
            )
        return list(found[: count.value])

    def set_clusters(
        self, count: int, top: int, centroids: array[float], ordering: array[int]
    ) -> None:
        """Give the drafter a head over clusters, for the sessions that are opened from now on.

        `centroids` are `count` rows in single precision, `ordering` every token once, by cluster.
        Raises `DamagedFileError` where they do not fit the drafter.
        """
        clusters = NativeClusters(
            count,
            top,
            (ctypes.c_float * len(centroids)).from_buffer(centroids),
            (ctypes.c_int32 * len(ordering)).from_buffer(ordering),
            len(centroids),
            len(ordering),
        )
        with self.opening, self._life:
            check(library().gc_engine_set_clusters(self.pointer, ctypes.byref(clusters)))

    def has_clusters(self) -> bool:
        """Whether sessions that are opened now draft from the best clusters."""
        lib = library()
        with self._life:
            return bool(lib.gc_engine_has_clusters(self.pointer))

    def walk_grammar(self, grammar: str, seed: int, max_tokens: int) -> list[int]:
        """Some tokens that a GBNF grammar allows, at random; `UsageError` where there are none."""
        tokens = (ctypes.c_int32 * max_tokens)()
        count = ctypes.c_int32()
        with self._life:
            check(
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
                check(
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
