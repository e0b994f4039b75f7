"""The embedded pair's target predicts a text as well with the kernels as without them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from embedded import PROMPTS, TARGET, chat_tokens
from engine_passes import Costs, passes
from gemmachat.converters import convert

from gemmachat import Engine, SamplingParams
from gemmachat.gguf_info import read_header
from gemmachat.native import library

pytestmark = pytest.mark.skipif(
    not library().gc_kernels_installed(), reason=library().gc_kernels_status().decode()
)

QUANTS = ("Q4_0", "Q8_0", "Q4_K_M", "Q5_K_M", "Q6_K", "IQ4_NL")
SAME_BITS = {"F32", "Q4_0", "Q8_0", "IQ4_NL"}
PACKED = {"Q4_0", "Q8_0", "IQ4_NL", "Q4_K", "Q5_K", "Q6_K"}
PER_LAYER_TABLE = "per_layer_token_embd.weight"  # rows of it are looked up, not multiplied


class Turn(NamedTuple):
    """A held-out question and an answer to it, as tokens."""

    question: list[int]
    answer: list[int]


@pytest.fixture(scope="module")
def turns() -> list[Turn]:
    """Answers as the embedded target draws them: the text that it knows best."""
    found = []
    with (
        Engine.load(TARGET, threads=1, kernels="ggml") as engine,
        engine.session(n_ctx=256) as session,
    ):
        for seed, prompt in enumerate(PROMPTS[:40]):
            question = chat_tokens(engine, prompt)
            drawn = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, seed=seed)
            events = session.generate(question, drawn, draft="off", max_tokens=32)
            found.append(Turn(question, [e.token for e in events if e.token is not None]))
    assert sum(len(turn.answer) for turn in found) > 600
    return found


def read(engine: Engine, turns: Sequence[Turn], width: int) -> Costs:
    """What the answers' tokens cost in nats, in passes of so many tokens."""
    costs = []
    with passes(engine._handle, 256) as sequence:
        for question, answer in turns:
            sequence.cut(0)
            costs.append(sequence.surprises(question + answer, width)[-len(answer) :])
    return np.concatenate(costs)


@pytest.mark.parametrize("quant", QUANTS)
def test_perplexity_is_that_of_ggmls_kernels(
    turns: list[Turn], quant: str, tmp_path: Path, record_property
) -> None:
    path = tmp_path / "quantized.gguf"
    convert(TARGET, path, quant=quant)
    tensors = read_header(path).tensors
    with (
        Engine.load(path, threads=1, kernels="auto") as ours,
        Engine.load(path, threads=1, kernels="ggml") as ggmls,
    ):
        assert ggmls.packed_bytes == 0
        assert ours.packed_bytes == sum(
            tensor.nbytes
            for name, tensor in tensors.items()
            if tensor.type_name in PACKED and name != PER_LAYER_TABLE
        )
        found, expected = read(ours, turns, 1), read(ggmls, turns, 1)
        wide = read(ours, turns, 8)
    assert np.array_equal(wide, found)
    same_bits = {tensor.type_name for tensor in tensors.values()} <= SAME_BITS
    assert same_bits == (quant in ("Q4_0", "Q8_0"))
    if same_bits:
        assert np.array_equal(found, expected)
        return
    # A sum that differs in its last bit rounds an activation of a later layer to another of its
    # 255 values now and then, which moves single tokens either way. More tokens would even it out.
    difference = found - expected
    noise = float(difference.std() / np.sqrt(len(difference)))
    relative = float(np.expm1(difference.mean()))
    print(f"{quant}: {np.exp(expected.mean()):.5f}, {relative:+.1e}, noise {noise:.1e}")
    record_property(f"perplexity_{quant}", (float(np.exp(expected.mean())), relative, noise))
    assert noise < 3e-4
    assert abs(relative) <= max(1e-4, 3 * noise)
