"""What a pass computes for a token does not depend on how many it computes, where that is promised.

docs/kernels.md says where it is, and what depends on the width elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nano_checkpoint as nano
import numpy as np
import pytest
import random_weights
import tiny_checkpoint as tiny
from embedded import DRAFTER, NATIVE_GREEDY, PROMPTS, TARGET, chat_tokens
from engine_passes import Difference, Node, first_difference, passes
from gemmachat.converters import convert

from gemmachat import Engine
from gemmachat.bridge_session import SessionHandle
from gemmachat.native import library
from gemmachat.native_structs import FLASH_ATTENTION, KV_TYPES, MAX_WIDTH, SessionParams

pytestmark = pytest.mark.skipif(
    not library().gc_kernels_installed(), reason=library().gc_kernels_status().decode()
)

QUANTS = ("Q4_0", "Q8_0", "Q4_K_M", "Q5_K_M", "Q6_K", "IQ4_NL")
every_quant = pytest.mark.parametrize("quant", QUANTS)
# A lone token's attention to more than these, in F16, is divided among threads.
WHOLE = 256


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The embedded target in another quantization."""
    folder = tmp_path_factory.mktemp("quantized")

    def quantized(quant: str) -> Path:
        path = folder / f"{quant}.gguf"
        if not path.exists():
            convert(TARGET, path, quant=quant)
        return path

    return quantized


@every_quant
@pytest.mark.parametrize(
    ("kv_type", "threads", "length"),
    [("f16", 1, 20), ("f16", 1, 700), ("f16", 2, WHOLE - MAX_WIDTH), ("q8_0", 3, 700)],
)
def test_logits_are_those_of_single_tokens(
    target: Callable[[str], Path], quant: str, kv_type: str, threads: int, length: int
) -> None:
    with Engine.load(target(quant)) as engine:
        assert engine.packed_bytes > 0
        tokens = chat_tokens(engine, " ".join(PROMPTS))[: length + MAX_WIDTH]
        with passes(engine._handle, threads=threads, kv_type=kv_type) as sequence:
            sequence.logits(tokens[:length])
            alone = sequence.logits(tokens[length:], 1)
            for width in range(2, MAX_WIDTH + 1):
                sequence.cut(length)
                found = sequence.logits(tokens[length : length + width])
                assert np.array_equal(found, alone[:width]), f"width {width}"


@every_quant
@pytest.mark.parametrize(("kv_type", "threads"), [("f16", 1), ("q8_0", 2)])
def test_answers_have_the_same_bits_whatever_is_drafted(
    target: Callable[[str], Path], quant: str, kv_type: str, threads: int
) -> None:
    """In the default mode: not every pass has the same width, as in exact mode."""
    said = []
    with Engine.load(target(quant), DRAFTER) as engine:
        for n_draft in (0, 3, 7):
            params = SessionParams(
                n_ctx=512, n_threads=threads, kv_type=KV_TYPES[kv_type],
                flash_attention=FLASH_ATTENTION[True], trace_logits=True,
            )  # fmt: skip
            handle = SessionHandle(engine._handle, params)
            handle.set_sampling(NATIVE_GREEDY)
            said.append([])
            for prompt in PROMPTS[20:26]:
                tokens = chat_tokens(engine, prompt)
                handle.sync(tokens)
                left = 20
                while left > 0:
                    emitted = handle.step(n_draft, left)
                    said[-1] += [(token.id, token.logits_hash) for token in emitted]
                    left -= len(emitted)
            assert (handle.stats().accepted > 0) == (n_draft > 0)
            handle.free()
    assert said[0] == said[1] == said[2]


def differences(
    path: Path, tokens: list[int], *, flash_attention: bool, threads: int
) -> set[Difference]:
    """The first node that differs, for every width, between single tokens and together."""
    length = len(tokens) - MAX_WIDTH
    found = set()
    with (
        Engine.load(path) as engine,
        passes(
            engine._handle, threads=threads, flash_attention=flash_attention, watched=True
        ) as sequence,
    ):
        sequence.logits(tokens[:length])
        alone = sequence.nodes(tokens[length : length + 1])
        assert {node.operation for node in alone} >= {"MUL_MAT", "RMS_NORM", "GET_ROWS"}
        assert packed(alone)
        for width in range(2, MAX_WIDTH + 1):
            sequence.cut(length)
            beside = sequence.nodes(tokens[length : length + width])
            found.add(first_difference(alone, beside, 0))
    return found - {None}


def packed(nodes: list[Node]) -> list[Node]:
    return [node for node in nodes if node.weights == "packed"]


@every_quant
def test_where_the_width_shows_attention_depends_on_it_first(
    target: Callable[[str], Path], quant: str
) -> None:
    with Engine.load(target(quant)) as engine:
        tokens = chat_tokens(engine, " ".join(PROMPTS))[: WHOLE + 44]
    without = differences(target(quant), tokens, flash_attention=False, threads=1)
    assert {(node.name, node.operation) for node in without} <= {("kq-0", "MUL_MAT")}
    split = differences(target(quant), tokens, flash_attention=True, threads=2)
    assert {node.operation for node in split} <= {"FLASH_ATTN_EXT"}


def test_with_experts_the_router_depends_on_it_first(tmp_path: Path) -> None:
    """Its weights are F32, which ggml multiplies; experts are not exchanged by the kernels."""
    config = nano.target_config("26b-a4b") | {
        "hidden_size": 256,
        "intermediate_size": 256,
        "moe_intermediate_size": 256,
        "num_experts": 16,
    }
    weights = random_weights.target_weights(config, 3)
    tiny.write_folder(tmp_path / "checkpoint", config, tiny.stored_names(weights, "model."))
    convert(tmp_path / "checkpoint", tmp_path / "experts.gguf", quant="Q4_0")
    tokens = [token % 350 for token in range(8, 8 + 7 * 40, 7)]
    found = differences(tmp_path / "experts.gguf", tokens, flash_attention=True, threads=1)
    assert {(node.name, node.weights) for node in found} <= {("ffn_moe_logits-0", "f32")}
