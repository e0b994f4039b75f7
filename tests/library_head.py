"""The drafter's head in the library: what it makes of hidden rows, and of rows of logits."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gemmachat import SamplingParams, bridge
from gemmachat.bridge_engine import EngineHandle
from gemmachat.native import library
from gemmachat.native_structs import NativeSampling

Floats = npt.NDArray[np.float32]


class Scored(NamedTuple):
    """Tokens of the best clusters, ascending, their logits, and the state of the next step."""

    ids: npt.NDArray[np.int32]
    logits: Floats
    next_state: Floats


def pointer(array: npt.NDArray[Any], kind: Any) -> Any:
    return array.ctypes.data_as(ctypes.POINTER(kind))


def score(engine: EngineHandle, hidden: Floats, state_width: int) -> Scored:
    capacity = engine.vocab_size()
    ids, logits = np.zeros(capacity, np.int32), np.zeros(capacity, np.float32)
    state, count = np.zeros(state_width, np.float32), ctypes.c_int32()
    row = np.ascontiguousarray(hidden, np.float32)
    bridge.check(
        library().gc_head_score(
            engine.pointer,
            pointer(row, ctypes.c_float),
            pointer(ids, ctypes.c_int32),
            pointer(logits, ctypes.c_float),
            capacity,
            ctypes.byref(count),
            pointer(state, ctypes.c_float),
        )
    )
    return Scored(ids[: count.value], logits[: count.value], state)


def recall(engine: EngineHandle, hidden: Floats) -> float:
    """In how many of the hidden rows the likeliest token is among the candidates, as a share."""
    rows, found = np.ascontiguousarray(hidden, np.float32), ctypes.c_int32()
    bridge.check(
        library().gc_head_recall(
            engine.pointer, pointer(rows, ctypes.c_float), len(rows), ctypes.byref(found)
        )
    )
    return found.value / len(rows)


def sampled(
    engine: EngineHandle,
    params: SamplingParams,
    logits: Floats,
    ids: npt.NDArray[np.int32] | None = None,
    *,
    prompt: Sequence[int] = (),
    answer: Sequence[int] = (),
) -> dict[int, float]:
    """The distribution that sampling makes of logits, those of `ids` or of all tokens."""
    tokens = np.array([*prompt, *answer], np.int32)
    out, p = np.zeros(len(logits), np.int32), np.zeros(len(logits), np.float64)
    count = ctypes.c_int32()
    native = NativeSampling.of(params, 0)
    bridge.check(
        library().gc_sample_row(
            engine.pointer,
            ctypes.byref(native),
            pointer(tokens, ctypes.c_int32),
            len(prompt),
            len(answer),
            None if ids is None else pointer(ids, ctypes.c_int32),
            pointer(logits, ctypes.c_float),
            len(logits),
            pointer(out, ctypes.c_int32),
            pointer(p, ctypes.c_double),
            len(out),
            ctypes.byref(count),
        )
    )
    return dict(zip(out[: count.value].tolist(), p[: count.value].tolist(), strict=True))
