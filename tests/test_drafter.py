"""The native drafter drafts what stock llama.cpp's drafter context drafts, step after step."""

from __future__ import annotations

import llama_runner
import numpy as np
import pytest
from embedded import DRAFTER, PROMPTS, TARGET, chat_tokens, open_handle
from library_head import score

from gemmachat import Engine
from gemmachat.bridge_engine import EngineHandle

N_DRAFT = 4


def stock_drafts(
    target, drafter, tokens: list[int], n_vocab: int, hidden: int, head: EngineHandle | None
) -> list[int]:
    """Greedy drafts after `tokens`: each step takes the state that the one before it returned.

    With a head they are chosen among the tokens of its best clusters.
    """
    watch = llama_runner.LastNorm(llama_runner.lib.llama_model_n_embd(drafter))
    with (
        llama_runner.context(target) as context,
        llama_runner.context(drafter, context, watch) as mtp,
    ):
        _, states = llama_runner.prefill(context, tokens[:-1], n_vocab, hidden)
        state, token, drafts = states[-1], tokens[-1], []
        for _ in range(N_DRAFT):
            logits, state = llama_runner.draft(mtp, token, state, len(tokens) - 1, n_vocab)
            ids = np.arange(n_vocab) if head is None else score(head, watch.row, hidden).ids
            token = int(ids[np.argmax(logits[ids])])
            drafts.append(token)
    return drafts


@pytest.mark.parametrize("dense", [True, False])
def test_as_many_drafts_are_accepted_as_stock_drafts_match_the_targets_text(dense: bool):
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        n_vocab, ends = engine.vocab.size, engine.vocab.is_end
        cases = []
        for prompt in PROMPTS[:20]:
            tokens = chat_tokens(engine, prompt)
            handle = open_handle(engine, dense=dense)
            for lead in (1, 5, 9):  # the first round after a prompt drafts nothing
                handle.sync(tokens)
                start = [*tokens, *(t.id for _ in range(lead) for t in handle.step(0, 1))]
                greedy = [t.id for _ in range(N_DRAFT + 1) for t in handle.step(0, 1)]
                if any(ends(t) for t in (*start[len(tokens) :], *greedy)):
                    continue
                handle.sync(tokens)
                assert [t.id for _ in range(lead) for t in handle.step(0, 1)] == start[-lead:]
                handle.step(N_DRAFT, 100)
                stats = handle.stats()
                assert stats.clustered == (0 if dense else stats.drafted)
                cases.append((start, greedy, stats.accepted))
            handle.free()
    head = None if dense else EngineHandle(TARGET, DRAFTER)
    with llama_runner.loaded(TARGET) as target, llama_runner.loaded(DRAFTER) as drafter:
        hidden = llama_runner.lib.llama_model_n_embd(target)
        same = 0
        for start, greedy, accepted in cases:
            drafts = stock_drafts(target, drafter, start, n_vocab, hidden, head)
            matching = next((i for i in range(N_DRAFT) if drafts[i] != greedy[i]), N_DRAFT)
            same += matching == accepted
    assert len(cases) > 30
    assert len({accepted for _, _, accepted in cases}) > 2, "acceptance never varies"
    # Keys and values are 32 bits wide there and 16 here, so a near-tie may fall the other way.
    assert same >= 0.9 * len(cases), f"{same} of {len(cases)}"
