"""A converted checkpoint computes what the checkpoint computes, in stock llama.cpp."""

from __future__ import annotations

from pathlib import Path

import llama_runner
import numpy as np
import pytest
import reference_gemma4 as reference
import tiny_checkpoint as tiny
from gemmachat.converters import convert

from gemmachat.gguf_info import check_pair, read_header

GELU = reference.gelu_from_half_table
PROMPT = [int(token) for token in np.random.default_rng(7).integers(8, tiny.VOCAB, 60)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Folders of the target and the drafter checkpoint, float32."""
    root = tmp_path_factory.mktemp("pair")
    tiny.write_target(root / "target")
    tiny.write_drafter(root / "drafter")
    return root / "target", root / "drafter"


def converted(folder: Path, quant: str) -> Path:
    output = folder.with_name(f"{folder.name}-{quant}.gguf")
    if not output.exists():
        convert(folder, output, quant=quant)
    return output


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def test_target_logits_match_the_reference_beyond_the_window(pair: tuple[Path, Path]) -> None:
    config = tiny.target_config()
    run = reference.run_target(tiny.target_tensors(config), config, PROMPT, GELU)
    with (
        llama_runner.loaded(converted(pair[0], "F32")) as model,
        llama_runner.context(model) as context,
    ):
        logits, hidden = llama_runner.prefill(context, PROMPT, tiny.VOCAB, tiny.HIDDEN)
    assert relative_error(logits, run.logits) < 5e-4
    assert relative_error(hidden, run.hidden) < 5e-4
    assert (logits.argmax(axis=1) == run.logits.argmax(axis=1)).all()


def test_drafter_matches_the_reference_over_four_chained_steps(pair: tuple[Path, Path]) -> None:
    config, draft_config = tiny.target_config(), tiny.drafter_config()
    weights, draft_weights = tiny.target_tensors(config), tiny.drafter_tensors(draft_config)
    *context_tokens, bonus = PROMPT[:41]
    position = len(context_tokens)
    run = reference.run_target(weights, config, context_tokens, GELU)
    with (
        llama_runner.loaded(converted(pair[0], "F32")) as target_model,
        llama_runner.loaded(converted(pair[1], "F32")) as drafter_model,
        llama_runner.context(target_model) as target,
        llama_runner.context(drafter_model, other=target) as drafter,
    ):
        _, hidden = llama_runner.prefill(target, context_tokens, tiny.VOCAB, tiny.HIDDEN)
        token, state, expected_state = bonus, hidden[-1], run.hidden[-1]
        for _ in range(4):
            embedded = weights["embed_tokens.weight"][token] * np.sqrt(tiny.HIDDEN)
            expected, expected_state = reference.draft_step(
                draft_weights, draft_config, embedded, expected_state, position, run, GELU
            )
            logits, state = llama_runner.draft(drafter, token, state, position, tiny.VOCAB)
            assert relative_error(logits, expected) < 5e-4
            assert relative_error(state, expected_state) < 5e-4
            token = int(logits.argmax())
            assert token == int(expected.argmax())


@pytest.mark.parametrize("quant", ["F32", "F16", "Q8_0"])
def test_every_quantization_passes_the_header_check_and_loads(
    pair: tuple[Path, Path], quant: str
) -> None:
    target, drafter = (converted(folder, quant) for folder in pair)
    check_pair(read_header(target), read_header(drafter))
    with llama_runner.loaded(target), llama_runner.loaded(drafter):
        pass
