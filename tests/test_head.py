"""The head over clusters computes what llama.cpp's head computes, for fewer tokens."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import gguf
import llama_runner
import numpy as np
import pytest
import tiny_checkpoint as tiny
from embedded import (
    DRAFTER,
    GREEDY,
    PROMPTS,
    TARGET,
    chat_tokens,
    fill_tensor,
    open_handle,
    without_centroids,
)
from gemmachat.converters import convert
from gemmachat.converters import gguf_values as values
from gemmachat.converters.conversion import plan_file
from gemmachat.converters.write import GgufFile, write_files
from library_head import Scored, score
from test_law import N_TOKENS, law, p_value

from gemmachat import Engine, SamplingParams, UsageError
from gemmachat.bridge_engine import EngineHandle
from gemmachat.errors import DamagedFileError
from gemmachat.native_structs import MAX_DRAFT, NativeSampling

WIDTH = 256  # of the drafter: blocks of K-quants are so wide
TYPES = {
    "F32": "F32", "F16": "F16", "BF16": "BF16", "Q8_0": "Q8_0", "Q6_K": "Q6_K",
    "Q5_K_M": "Q5_K", "Q4_K_M": "Q4_K", "Q4_0": "Q4_0", "IQ4_NL": "IQ4_NL",
}  # fmt: skip
HEAD = "gemma4-assistant.masked_embedding."


class Step(NamedTuple):
    """One draft step of stock llama.cpp and of the head."""

    hidden: np.ndarray
    logits: np.ndarray
    next_state: np.ndarray
    scored: Scored


class TrainedHead:
    """The centroids that a drafter's file carries, in NumPy."""

    def __init__(self, path: Path) -> None:
        fields = gguf.GGUFReader(path).fields
        self.top = int(fields[HEAD + "centroid_top_k"].contents())
        count = int(fields[HEAD + "centroid_count"].contents())
        self.centroids = np.array(fields[HEAD + "centroids"].contents()).reshape(count, -1)
        self.members = np.array(fields[HEAD + "token_ordering"].contents()).reshape(count, -1)

    def candidates(self, hidden: np.ndarray) -> list[int]:
        """The tokens of the best clusters; of equal ones the first."""
        best = np.argsort(-(self.centroids @ hidden.astype(np.float64)), kind="stable")
        return sorted(self.members[best[: self.top]].ravel().tolist())


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    tiny.write_target(folder / "target")
    convert(folder / "target", folder / "target.gguf", quant="F32")
    text = tiny.drafter_config()["text_config"] | {"hidden_size": WIDTH}
    tiny.write_drafter(folder / "drafter", text_config=text)
    return folder


def converted(root: Path, quant: str) -> Path:
    path = root / f"drafter-{quant}.gguf"
    if not path.exists():
        convert(root / "drafter", path, quant=quant)
    return path


def chained(target: Path, drafter: Path, tokens: list[int], width: int) -> list[Step]:
    """As many draft steps as a round may have; the head's state is the one that is passed on."""
    handle = EngineHandle(target, drafter)
    n_vocab, steps, watch = handle.vocab_size(), [], llama_runner.LastNorm(width)
    with (
        llama_runner.loaded(target) as target_model,
        llama_runner.loaded(drafter) as drafter_model,
        llama_runner.context(target_model) as context,
        llama_runner.context(drafter_model, context, watch) as mtp,
    ):
        hidden = llama_runner.lib.llama_model_n_embd(target_model)
        _, states = llama_runner.prefill(context, tokens[:-1], n_vocab, hidden)
        state, token = states[-1], tokens[-1]
        for _ in range(MAX_DRAFT):
            logits, next_state = llama_runner.draft(mtp, token, state, len(tokens) - 1, n_vocab)
            scored = score(handle, watch.row, hidden)
            steps.append(Step(watch.row.copy(), logits, next_state, scored))
            state, token = scored.next_state, int(scored.ids[scored.logits.argmax()])
    handle.free()
    return steps


@pytest.mark.parametrize("quant", TYPES)
def test_logits_and_states_are_those_of_llama_cpp_over_seven_chained_steps(
    root: Path, quant: str
) -> None:
    drafter = converted(root, quant)
    stored = {tensor.name: tensor.tensor_type for tensor in gguf.GGUFReader(drafter).tensors}
    assert stored["token_embd.weight"].name == TYPES[quant]
    head = TrainedHead(drafter)
    steps = chained(root / "target.gguf", drafter, list(range(8, 20)), WIDTH)
    for hidden, logits, next_state, scored in steps:
        assert scored.ids.tolist() == head.candidates(hidden)
        assert len(scored.ids) == tiny.TOP_K * tiny.VOCAB // tiny.CENTROIDS
        scale = np.abs(logits).max()
        np.testing.assert_allclose(scored.logits, logits[scored.ids], atol=1e-4 * scale, rtol=0)
        scale = np.abs(next_state).max()
        np.testing.assert_allclose(scored.next_state, next_state, atol=1e-4 * scale, rtol=0)
    assert len({tuple(step.scored.ids) for step in steps}) > 1, "the clusters never change"


def test_equally_good_clusters_rank_by_number(root: Path) -> None:
    handle = EngineHandle(root / "target.gguf", converted(root, "F32"))
    ordering = array("i", reversed(range(tiny.VOCAB)))
    size = tiny.VOCAB // tiny.CENTROIDS
    rows = np.zeros((tiny.CENTROIDS, WIDTH), np.float32)
    rows[9, 0], rows[5, 0] = 1.0, -1.0
    handle.set_clusters(tiny.CENTROIDS, 3, array("f", rows.ravel().tolist()), ordering)
    hidden = np.zeros(WIDTH, np.float32)
    hidden[0] = 1.0
    expected = [ordering[c * size + i] for c in (0, 1, 9) for i in range(size)]
    assert score(handle, hidden, tiny.HIDDEN).ids.tolist() == sorted(expected)
    handle.free()


# ---- damaged files -------------------------------------------------------------------------------


def variant(root: Path, key: str, value: values.Value) -> Path:
    """The drafter with one key of its head replaced."""
    plan = plan_file(root / "drafter", quant="F32")
    path = root / "damaged.gguf"
    metadata = {**plan.metadata, HEAD + key: value}
    write_files({path: GgufFile(metadata, plan.tensors)}, force=True)
    return path


CENTROIDS = [0.5] * (tiny.CENTROIDS * WIDTH)
DAMAGED: dict[str, tuple[str, values.Value, str]] = {
    "count that does not divide": ("centroid_count", values.uint32(15), "does not fit its voc"),
    "no clusters": ("centroid_count", values.uint32(0), "does not fit its vocabulary"),
    "huge count": ("centroid_count", values.uint32(2**32 - 1), "does not fit its vocabulary"),
    "count as text": ("centroid_count", values.string("16"), "lacks the number"),
    "more on top than there are": ("centroid_top_k", values.uint32(17), "does not fit its voc"),
    "none on top": ("centroid_top_k", values.uint32(0), "does not fit its vocabulary"),
    "too few centroids": ("centroids", values.float32_array(CENTROIDS[1:]), "another size"),
    "not a number": ("centroids", values.float32_array([math.nan, *CENTROIDS[1:]]), "no finite"),
    "infinite": ("centroids", values.float32_array([*CENTROIDS[1:], math.inf]), "no finite"),
    "centroids as integers": ("centroids", values.int32_array([1]), "lacks the array"),
    "a token twice": ("token_ordering", values.int32_array([1] * tiny.VOCAB), "exactly one"),
    "a token too many": ("token_ordering", values.int32_array([*range(353)]), "another size"),
    "a token of no vocabulary": (
        "token_ordering",
        values.int32_array([*range(351), 352]),
        "exactly one centroid",
    ),
    "a negative token": ("token_ordering", values.int32_array([*range(351), -1]), "exactly one"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_centroids_are_refused_by_the_library_itself(root: Path, name: str) -> None:
    key, value, expected = DAMAGED[name]
    with pytest.raises(DamagedFileError, match=f"damaged.gguf.*{expected}.*get it again"):
        EngineHandle(root / "target.gguf", variant(root, key, value))


def test_clusters_of_another_drafter_are_refused_and_leave_the_head_as_it_was(root: Path) -> None:
    handle = EngineHandle(root / "target.gguf", converted(root, "F32"))
    before = score(handle, np.ones(WIDTH, np.float32), tiny.HIDDEN)
    narrow = array("f", [0.0]) * (tiny.CENTROIDS * 128)
    with pytest.raises(DamagedFileError, match="another size"):
        handle.set_clusters(tiny.CENTROIDS, 4, narrow, array("i", range(tiny.VOCAB)))
    after = score(handle, np.ones(WIDTH, np.float32), tiny.HIDDEN)
    assert np.array_equal(before.ids, after.ids)
    handle.free()


def test_a_drafter_that_computes_no_numbers_is_named(tmp_path: Path) -> None:
    damaged = fill_tensor(DRAFTER, tmp_path / "nan.gguf", "output_norm.weight", math.nan)
    with Engine.load(TARGET, damaged, threads=1) as engine:
        handle = open_handle(engine)
        handle.sync(chat_tokens(engine, PROMPTS[0]))
        handle.step(0, 1)  # nothing is drafted right after a prompt
        with pytest.raises(DamagedFileError, match=r"nan\.gguf is damaged"):
            handle.step(3, 8)


# ---- sessions ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        yield engine


@pytest.mark.parametrize(("dense", "head"), [(True, "dense"), (False, "clusters")])
def test_stats_say_which_head_drafted(engine: Engine, dense: bool, head: str) -> None:
    with engine.session(n_ctx=256, dense_head=dense) as session:
        tokens = chat_tokens(engine, PROMPTS[0])
        assert session.stats().draft_head == "none"
        list(session.generate(tokens, GREEDY, draft=3, max_tokens=12))
        assert session.stats().drafted > 0
        assert session.stats().draft_head == head


def test_a_drafter_without_clusters_drafts_from_the_whole_vocabulary(tmp_path: Path) -> None:
    path = without_centroids(tmp_path / "dense.gguf")
    with Engine.load(TARGET, path, threads=1) as engine:
        handle = open_handle(engine)
        handle.sync(chat_tokens(engine, PROMPTS[0]))
        handle.step(0, 1)  # nothing is drafted right after a prompt
        handle.step(3, 8)
        assert (handle.stats().drafted, handle.stats().clustered) == (3, 0)
        with pytest.raises(UsageError, match="no clusters"):
            score(engine._handle, np.zeros(128, np.float32), 256)


def test_tokens_drafted_from_clusters_have_the_joint_law_of_the_target_alone(
    engine: Engine,
) -> None:
    params = SamplingParams(1.0)
    prompt, n_samples = chat_tokens(engine, PROMPTS[18]), 1200
    expected = law(engine, prompt, params, 1.0 / n_samples)
    handle = open_handle(engine, n_ctx=256)
    handle.set_sampling(NativeSampling.of(params, 7))
    seen: Counter[tuple[int, ...]] = Counter()
    for _ in range(n_samples):
        handle.sync(prompt)
        said: list[int] = []
        while len(said) < N_TOKENS and not (said and engine.vocab.is_end(said[-1])):
            said += [token.id for token in handle.step(3, 16)]
        said = said[:N_TOKENS]
        seen[tuple(said + [-1] * (N_TOKENS - len(said)))] += 1
        stats = handle.stats()
        assert stats.clustered == stats.drafted > 0
    handle.free()
    assert sum(mass * n_samples >= 5 for mass in expected.values()) > 10
    assert p_value(seen, expected) > 1e-3


def test_the_share_of_likeliest_tokens_in_the_clusters_is_told_where_it_is_traced(
    engine: Engine,
) -> None:
    shares = []
    for trace in (False, True):
        with engine.session(n_ctx=256, trace_recall=trace) as session:
            list(session.generate(chat_tokens(engine, PROMPTS[0]), GREEDY, draft=7, max_tokens=40))
            shares.append(session.stats().head_recall)
    assert shares[0] is None
    assert 0.8 < shares[1] <= 1.0
