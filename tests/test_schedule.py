"""How many tokens are drafted with --draft auto: enough while it pays, none while it does not."""

from __future__ import annotations

import pytest
from embedded import DRAFTER, GREEDY, PROMPTS, TARGET, chat_tokens, scramble

from gemmachat import Engine


def drafted_and_rounds(engine: Engine, prompt: str, n_tokens: int) -> tuple[int, int]:
    with engine.session(n_ctx=1024) as session:
        tokens = chat_tokens(engine, prompt)
        list(session.generate(tokens, GREEDY, max_tokens=n_tokens))
        return session.stats().drafted, session.stats().rounds


def test_a_good_drafter_drafts_three_in_every_round_but_the_first():
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        for prompt in PROMPTS[:5]:
            drafted, rounds = drafted_and_rounds(engine, prompt, 60)
            assert drafted > 2 * (rounds - 1)


@pytest.fixture(scope="module")
def misled(tmp_path_factory):
    wrong = scramble(DRAFTER, tmp_path_factory.mktemp("wrong") / "wrong.gguf")
    with Engine.load(TARGET, wrong, threads=1) as engine:
        yield engine


def test_a_bad_drafter_is_parked_and_probed_again(misled):
    """It is asked a few times at first and then once in a while, never in every round."""
    with misled.session(n_ctx=2048) as session:
        tokens = chat_tokens(misled, PROMPTS[0])
        drafting = []
        handle = session._handle
        handle.sync(tokens)
        for _ in range(150):
            before = handle.stats().drafted
            handle.step(-1, 100)
            drafting.append(handle.stats().drafted > before)
    assert any(drafting[:3])
    assert 1 < sum(drafting) < 40
    assert any(drafting[50:]), "parked for good"
