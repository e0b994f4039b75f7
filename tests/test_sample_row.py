"""A row of some tokens' logits is sampled as the whole row is when all others are impossible."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from embedded import DRAFTER, TARGET
from library_head import sampled

from gemmachat import Engine, SamplingParams, UsageError

N_CANDIDATES = 512
WORDS = 'root ::= [a-z]+ " "? | [0-9]+'


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        yield engine


FILTERS: dict[str, dict[str, Any]] = {
    "card": {"temperature": 1.0},
    "all tokens": {"temperature": 0.7, "top_k": 0, "top_p": 1.0},
    "top-p": {"temperature": 1.3, "top_k": 0, "top_p": 0.8},
    "min-p": {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.02},
    "typical": {"temperature": 1.0, "top_k": 100, "top_p": 1.0, "typical_p": 0.9},
    "more than there are": {"temperature": 1.0, "top_k": 2000, "top_p": 0.99},
    "greedy": {"temperature": 0.0},
}


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("grammar", [None, WORDS])
def test_rules_and_filters_act_on_the_tokens_that_are_there(
    engine: Engine, filters: str, grammar: str | None
) -> None:
    rng = np.random.default_rng(len(filters))
    size = engine.vocab.size
    ends = [token for token in range(size) if engine.vocab.is_end(token)]
    for _ in range(8):
        ids = np.sort(rng.choice(size, N_CANDIDATES, replace=False)).astype(np.int32)
        ids = np.unique(np.concatenate([ids, ends[:1]])).astype(np.int32)
        logits = (3 * rng.standard_normal(len(ids))).astype(np.float32)
        dense = np.full(size, -np.inf, np.float32)
        dense[ids] = logits
        # Tokens of the row and others, so that each rule has both to deal with.
        said = [*rng.choice(ids, 12), *rng.choice(size, 12)]
        text = [engine.vocab.tokenize("abc")[0]] if grammar else [int(t) for t in said[12:]]
        params = SamplingParams(
            **FILTERS[filters],
            repeat_penalty=1.3,
            repeat_last_n=20,
            presence_penalty=0.5,
            frequency_penalty=0.3,
            min_tokens=40,
            logit_bias=tuple((int(t), float(rng.normal())) for t in set(said[:4] + said[20:])),
            grammar=grammar,
        )
        context = {"prompt": [int(t) for t in said[:12]], "answer": text}
        few = sampled(engine._handle, params, logits, ids, **context)
        whole = sampled(engine._handle, params, dense, **context)
        assert few == pytest.approx(whole, rel=1e-6)
        assert set(few) <= set(ids.tolist()) - set(ends)


def test_a_row_of_banned_tokens_leaves_nothing_to_draw(engine: Engine) -> None:
    ids = np.array([300, 301, 305], np.int32)
    banned = SamplingParams(1.0, logit_bias=tuple((int(token), -np.inf) for token in ids))
    with pytest.raises(UsageError, match="banned"):
        sampled(engine._handle, banned, np.zeros(3, np.float32), ids)


def test_a_grammar_that_allows_none_of_the_tokens_leaves_nothing_to_draw(engine: Engine) -> None:
    digits = [token for token in range(300, 4000) if engine.vocab.piece(token).isdigit()]
    ids = np.array(digits[:10], np.int32)
    with pytest.raises(UsageError, match="grammar allows no token"):
        sampled(
            engine._handle,
            SamplingParams(1.0, grammar="root ::= [a-z]+"),
            np.zeros(len(ids), np.float32),
            ids,
        )
