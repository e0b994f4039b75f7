"""The whole chain, from logits to what is drawn, is what NumPy makes of it, whatever is drafted."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from embedded import DRAFTER, PROMPTS, TARGET, chat_tokens, open_handle, probe
from test_shape import references

from gemmachat import Engine, SamplingParams, UsageError
from gemmachat.json_schema import to_grammar
from gemmachat.native_structs import MAX_WIDTH, NativeSampling
from gemmachat.sampling import MAX_LOGPROBS
from gemmachat.session import DraftPolicy, TokenEvent

DRAFTS: tuple[DraftPolicy, ...] = ("off", 1, 2, 3, 4, 7)
N_TOKENS = 24


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        yield engine


def answer(
    engine: Engine,
    prompt: list[int],
    sampling: SamplingParams,
    draft: DraftPolicy = "off",
    *,
    exact: bool = True,
    n: int = N_TOKENS,
) -> list[TokenEvent]:
    with engine.session(n_ctx=512, exact=exact) as session:
        return list(session.generate(prompt, sampling, draft=draft, max_tokens=n))


def tokens(events: list[TokenEvent]) -> list[int | None]:
    return [event.token for event in events]


# ---- the chain -----------------------------------------------------------------------------------


def edited(
    engine: Engine, row: np.ndarray, sampling: SamplingParams, prompt: list[int], said: list[int]
) -> np.ndarray:
    """The row after what concerns single tokens, in the order that `SamplingParams` documents."""
    row = row.copy()
    for token, value in (*sampling.logit_bias, *((token, -np.inf) for token in engine.suppressed)):
        row[token] += np.float32(value)
    seen = [*prompt, *said]
    last_n = sampling.repeat_last_n
    window = sorted(set(seen if last_n < 0 else seen[len(seen) - min(last_n, len(seen)) :]))
    penalty = np.float32(sampling.repeat_penalty)
    row[window] = np.where(row[window] > 0, row[window] / penalty, row[window] * penalty)
    for token, count in Counter(said).items():
        row[token] -= np.float32(sampling.presence_penalty)
        row[token] -= np.float32(count) * np.float32(sampling.frequency_penalty)
    if len(said) < sampling.min_tokens:
        row[[token for token in range(len(row)) if engine.vocab.is_end(token)]] = -np.inf
    return row


def rows_of(
    engine: Engine, prompt: list[int], said: Sequence[int], *, exact: bool
) -> Iterator[np.ndarray]:
    """The target's raw logits before each token, from a session that drafts nothing."""
    handle = open_handle(engine, n_ctx=512, exact=exact)
    handle.sync(prompt)
    for token in said:
        yield probe(handle, MAX_WIDTH if exact else 1)
        forced = SamplingParams(temperature=0.0, logit_bias=((token, 1000.0),))
        handle.set_sampling(NativeSampling.of(forced, 0))
        assert [emitted.id for emitted in handle.step(0, 1)] == [token]
    handle.free()


def differences(
    events: list[TokenEvent], rows: Iterator[np.ndarray], chain: Any
) -> Iterator[float]:
    """How far the reported final probabilities of every token are from the reference's, in logs."""
    for at, (event, row) in enumerate(zip(events, rows, strict=True)):
        assert event.logprobs is not None
        reported = {a.token: a.final_logprob for a in event.logprobs.final_top}
        reported[event.logprobs.chosen.token] = event.logprobs.chosen.final_logprob
        yield min(
            distance(reported, dict(zip(ids.tolist(), p.tolist(), strict=True)))
            for ids, p in chain(at, row)
        )


def distance(reported: dict[int, float], reference: dict[int, float]) -> float:
    possible = {token for token, p in reference.items() if p > 1e-37}
    if not reported.keys() <= possible or len(reported) < min(MAX_LOGPROBS, len(possible)):
        return float("inf")
    return max(abs(value - np.log(reference[token])) for token, value in reported.items())


def random_setting(rng: np.random.Generator, *, cuts: bool) -> dict[str, Any]:
    """Every parameter is set in most settings."""

    def maybe(value: Any, off: Any) -> Any:
        return value if rng.random() < 0.7 else off

    values = zip(rng.integers(0, 4096, 40), rng.normal(0, 4, 40), strict=True)
    bias = tuple((int(token), float(value)) for token, value in values)
    setting = {
        "temperature": float(rng.uniform(0.3, 2.0)),
        "logit_bias": maybe((*bias, (int(rng.integers(0, 4096)), -float("inf"))), ()),
        "repeat_penalty": maybe(float(rng.uniform(0.7, 2.5)), 1.0),
        "repeat_last_n": int(rng.choice([0, 1, 3, 8, 20, 64, -1])),
        "presence_penalty": maybe(float(rng.uniform(-2, 4)), 0.0),
        "frequency_penalty": maybe(float(rng.uniform(-1, 3)), 0.0),
        "min_tokens": maybe(int(rng.integers(1, 30)), 0),
        "top_k": 0,
        "top_p": 1.0,
        "seed": int(rng.integers(0, 2**32)),
    }
    if cuts:
        setting |= {
            "top_k": maybe(int(rng.integers(2, 100)), 0),
            "top_p": maybe(float(rng.uniform(0.5, 0.99)), 1.0),
            "min_p": maybe(float(rng.uniform(0.0, 0.2)), 0.0),
            "typical_p": maybe(float(rng.uniform(0.5, 0.99)), 1.0),
        }
    return setting


CUTS = ("temperature", "top_k", "top_p", "min_p", "typical_p")


@pytest.mark.parametrize(("exact", "tolerance"), [(True, 5e-5), (False, 5e-3)])
@pytest.mark.parametrize("draft", DRAFTS)
def test_every_token_is_drawn_from_what_numpy_makes_of_the_logits(
    engine: Engine, draft: DraftPolicy, exact: bool, tolerance: float
) -> None:
    """Tokens after rejected drafts too, so that what drafts leave behind would show.

    In the default mode rows are rounded in another way when more tokens are computed at once, so
    that cuts may fall elsewhere: there are none.
    """
    rng = np.random.default_rng([MAX_WIDTH if draft == "off" else draft, exact])
    accepted = rejected = 0
    for text in PROMPTS[14:20]:
        prompt = chat_tokens(engine, text)
        sampling = SamplingParams(**random_setting(rng, cuts=exact), logprobs=MAX_LOGPROBS)
        filters = {name: getattr(sampling, name) for name in CUTS}
        with engine.session(n_ctx=512, exact=exact) as session:
            events = list(session.generate(prompt, sampling, draft=draft, max_tokens=N_TOKENS))
            accepted += session.stats().accepted
            rejected += session.stats().drafted - session.stats().accepted
        said = [event.token for event in events if event.token is not None]

        def chain(at: int, row: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
            row = edited(engine, row, sampling, prompt, said[:at])  # noqa: B023
            yield from references(row, **filters)  # noqa: B023

        rows = rows_of(engine, prompt, said, exact=exact)
        assert max(differences(events, rows, chain)) < tolerance, sampling
    assert (draft == "off") or (accepted > 5 and rejected > 5)


def test_greedy_takes_the_best_token_after_penalties(engine: Engine) -> None:
    prompt = chat_tokens(engine, PROMPTS[3])
    sampling = SamplingParams(temperature=0.0, repeat_penalty=1.5, frequency_penalty=1.0)
    said = [event.token for event in answer(engine, prompt, sampling, 4) if event.token is not None]
    for at, row in enumerate(rows_of(engine, prompt, said, exact=True)):
        assert said[at] == edited(engine, row, sampling, prompt, said[:at]).argmax()


# ---- what drafting must not change ---------------------------------------------------------------

SCHEMA = to_grammar('{"type": "object", "properties": {"name": {"type": "string"}, "age": '
                    '{"type": "integer"}}, "required": ["name", "age"]}')  # fmt: skip
GREEDY_SETTINGS: dict[str, dict[str, Any]] = {
    "penalties": {"repeat_penalty": 1.3, "presence_penalty": 0.5, "frequency_penalty": 0.5},
    "short window": {"repeat_penalty": 2.0, "repeat_last_n": 4},
    "bias": {"logit_bias": tuple((token, 3.0 * (-1) ** token) for token in range(400, 900))},
    "min tokens": {"min_tokens": 14},
    "grammar": {"grammar": 'root ::= ([a-z]+ " "){3,8} [a-z]+ "."'},
    "schema": {"grammar": SCHEMA},
    "all": {
        "grammar": SCHEMA,
        "repeat_penalty": 1.2,
        "min_tokens": 12,
        "logit_bias": ((500, 2.0),),
    },
}


@pytest.mark.parametrize("name", GREEDY_SETTINGS)
def test_greedy_answers_in_exact_mode_do_not_depend_on_drafting(engine: Engine, name: str) -> None:
    sampling = SamplingParams(temperature=0.0, **GREEDY_SETTINGS[name])
    plain_sampling = SamplingParams(temperature=0.0)
    changed = 0
    with engine.session(n_ctx=512, exact=True) as session:

        def said(prompt: list[int], how: SamplingParams, draft: DraftPolicy) -> list[int | None]:
            return tokens(list(session.generate(prompt, how, draft=draft, max_tokens=14)))

        for text in PROMPTS[:20]:
            prompt = chat_tokens(engine, text)
            wanted = said(prompt, sampling, "off")
            changed += wanted != said(prompt, plain_sampling, "off")
            for draft in DRAFTS[1:]:
                assert said(prompt, sampling, draft) == wanted, f"{draft}: {text}"
    assert changed > 3, "the setting changes nothing"


def test_the_same_seed_gives_the_same_tokens_also_after_other_work(engine: Engine) -> None:
    sampling = SamplingParams(temperature=1.5, seed=7, repeat_penalty=1.1, grammar=SCHEMA)
    prompt, unrelated = (chat_tokens(engine, PROMPTS[i]) for i in (18, 0))
    for draft, exact in itertools.product(("off", "auto", 3, 7), (True, False)):
        first = answer(engine, prompt, sampling, draft, exact=exact)
        with engine.session(n_ctx=512, exact=exact) as session:
            list(session.generate(unrelated, SamplingParams(seed=1), draft=2, max_tokens=20))
            again = list(session.generate(prompt, sampling, draft=draft, max_tokens=N_TOKENS))
        assert tokens(again) == tokens(first)
    others = [SamplingParams(temperature=1.5, seed=seed) for seed in range(5)]
    assert len({tuple(tokens(answer(engine, prompt, other))) for other in others}) > 1


def test_the_same_seed_gives_the_same_tokens_on_two_threads(engine: Engine) -> None:
    sampling = SamplingParams(temperature=1.2, seed=3, repeat_penalty=1.1, logprobs=3)
    with Engine.load(TARGET, DRAFTER, threads=2) as two:
        prompt = chat_tokens(engine, PROMPTS[18])
        for draft in ("off", 3):
            one = answer(engine, prompt, sampling, draft, n=8)
            assert answer(two, prompt, sampling, draft, n=8) == one


# ---- the shortest answer, bans and dead ends -----------------------------------------------------


@pytest.mark.parametrize("draft", ["off", 3])
def test_an_answer_is_as_long_as_min_tokens_asks(engine: Engine, draft: DraftPolicy) -> None:
    prompt = chat_tokens(engine, PROMPTS[0])
    plain = tokens(answer(engine, prompt, SamplingParams(temperature=0.0), draft, n=200))
    assert engine.vocab.is_end(plain[-1] or 0)
    for n in (len(plain), len(plain) + 9):
        longer = answer(engine, prompt, SamplingParams(temperature=0.0, min_tokens=n), draft, n=200)
        assert len(longer) >= n
        assert not any(engine.vocab.is_end(token or 0) for token in tokens(longer[:n]))


@pytest.mark.parametrize("draft", ["off", 3])
def test_banned_tokens_are_never_drawn(engine: Engine, draft: DraftPolicy) -> None:
    prompt = chat_tokens(engine, PROMPTS[0])
    usual = {t for t in tokens(answer(engine, prompt, SamplingParams(temperature=0.0))) if t}
    bans = tuple((token, -float("inf")) for token in usual)
    for seed in range(5):
        said = answer(engine, prompt, SamplingParams(seed=seed, logit_bias=bans), draft)
        assert usual.isdisjoint(tokens(said))


def test_a_ban_of_everything_is_an_error_that_leaves_the_session_usable(engine: Engine) -> None:
    prompt = chat_tokens(engine, PROMPTS[0])
    everything = tuple((token, -float("inf")) for token in range(engine.vocab.size))
    with engine.session(n_ctx=512, exact=True) as session:
        for draft in ("off", 3):
            with pytest.raises(UsageError, match="every token that could come next is banned"):
                list(session.generate(prompt, SamplingParams(logit_bias=everything), draft=draft))
        greedy = SamplingParams(temperature=0.0)
        said = tokens(list(session.generate(prompt, greedy, draft=3, max_tokens=N_TOKENS)))
    assert said == tokens(answer(engine, prompt, greedy, 3))


@pytest.mark.parametrize("n", [1, 8])
def test_a_draft_that_comes_to_a_dead_end_does_not_end_the_answer(engine: Engine, n: int) -> None:
    """After x nothing can come; the answer without it must come as often as without drafting."""
    vocab = engine.vocab
    letters = {c: vocab.tokenize(c) for c in "xyz"}
    assert all(len(ids) == 1 for ids in letters.values())
    bans = [(t, -float("inf")) for t in range(vocab.size) if vocab.piece(t)[:1] == b"z"]
    prompt = chat_tokens(engine, PROMPTS[0])
    row = next(rows_of(engine, prompt, [letters["x"][0]], exact=True))
    even = float(row[letters["x"][0]] - row[letters["y"][0]])
    grammar = f'root ::= ("x" "z" | "y" "y"){{{n}}}'
    bias = (*bans, (letters["y"][0], even))
    counts = {}
    for draft in ("off", 3):
        ended = 0
        for seed in range(100):
            sampling = SamplingParams(seed=seed, grammar=grammar, logit_bias=bias, top_k=0)
            try:
                answer(engine, prompt, sampling, draft, n=4)
                ended += 1
            except UsageError as error:
                assert "allows no token" in str(error)  # noqa: PT017
        counts[draft] = ended
    assert min(counts.values()) > 5
    assert abs(counts["off"] - counts[3]) < 35, counts  # more than four deviations


@pytest.mark.parametrize("token", [2**20, 2**31 - 1])
def test_a_bias_for_a_token_that_does_not_exist_is_refused(engine: Engine, token: int) -> None:
    with pytest.raises(UsageError, match=f"there is no token {token} to bias"):
        answer(engine, [2, 3], SamplingParams(logit_bias=((token, 1.0),)))
