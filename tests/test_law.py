"""With drafting, tokens have the joint law that they have without, for every kind of sampling.

What is sampled with drafting is held against probabilities computed without. LAW_SAMPLES sets the
number of samples, LAW_RECORD names a JSON file for the p-values.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from embedded import DRAFTER, PROMPTS, TARGET, chat_tokens, open_handle
from scipy import stats

from gemmachat import Engine, SamplingParams
from gemmachat.native_structs import NativeSampling

N_SAMPLES = int(os.environ.get("LAW_SAMPLES", "3000"))
N_TOKENS = 4
RECORD = os.environ.get("LAW_RECORD")  # a JSON file that p-values are written to
N_TESTS = 7

# A prompt each, of those whose first tokens vary: the pair is small and sure of most that it says.
# Words and figures of two kinds, so that drafts are right and wrong.
GRAMMAR = 'root ::= (word " "){2,20}\nword ::= [a-eA-E]+ | [0-9] [0-9]?'
OPENING, CLOSING = 13, 14  # the marks of a thought
SETTINGS = {
    "model card": (18, SamplingParams(1.0)),
    "temperature 0.6": (27, SamplingParams(0.6)),
    "all tokens": (37, SamplingParams(0.8, top_k=0, top_p=1.0, min_p=0.02)),
    "typical": (18, SamplingParams(1.2, top_k=0, top_p=1.0, typical_p=0.9)),
    "penalties": (
        27,
        SamplingParams(
            1.0,
            repeat_penalty=1.4,
            repeat_last_n=-1,
            presence_penalty=1.0,
            frequency_penalty=0.7,
            logit_bias=((5, 3.0), (336, -2.0)),
            min_tokens=3,
        ),
    ),
    "grammar": (37, SamplingParams(1.5, grammar=GRAMMAR)),
    # Thoughts are made likely, and short: the grammar begins at any of the four tokens.
    "grammar after a thought": (
        37,
        SamplingParams(
            1.0, grammar=GRAMMAR, logit_bias=((OPENING, 13.0), (CLOSING, 18.0)), presence_penalty=25
        ),
    ),
}


Law = dict[tuple[int, ...], float]


def samples(
    engine: Engine, prompt: list[int], params: SamplingParams, seed: int
) -> tuple[Counter[tuple[int, ...]], Counter[str]]:
    """How often each run of first tokens came up with drafts of 3, filled with -1 after its end.

    And how many tokens were drafted and accepted.
    """
    handle = open_handle(engine, n_ctx=256)
    handle.set_sampling(NativeSampling.of(params, seed, thought=(OPENING, CLOSING)))
    seen: Counter[tuple[int, ...]] = Counter()
    drafts = Counter[str]()
    for _ in range(N_SAMPLES):
        handle.sync(prompt)
        emitted: list[int] = []
        while len(emitted) < N_TOKENS and not (emitted and engine.vocab.is_end(emitted[-1])):
            emitted += [token.id for token in handle.step(3, 16)]
        emitted = emitted[:N_TOKENS]
        seen[tuple(emitted + [-1] * (N_TOKENS - len(emitted)))] += 1
        stats = handle.stats()
        drafts.update(drafted=stats.drafted, accepted=stats.accepted)
    handle.free()
    return seen, drafts


def law(engine: Engine, prompt: list[int], params: SamplingParams, least: float) -> Law:
    """The probabilities of all runs of first tokens that reach `least`, without drafting.

    One pass of the target for every prefix; nothing is sampled.
    """
    handle = open_handle(engine, n_ctx=256)
    handle.set_sampling(NativeSampling.of(params, 0, thought=(OPENING, CLOSING)))
    handle.sync(prompt)
    known: Law = {}
    open_runs: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
    while open_runs:
        run, mass = open_runs.pop()
        if len(run) == N_TOKENS or (run and engine.vocab.is_end(run[-1])):
            known[(*run, *([-1] * (N_TOKENS - len(run))))] = mass
            continue
        for token, p in handle.distribution(run).items():
            if mass * p >= least:
                open_runs.append(((*run, token), mass * p))
    handle.free()
    return known


def p_value(seen: Counter[tuple[int, ...]], expected: Law) -> float:
    """G test of counts against a law; cells expected below 5 are pooled with what it leaves out."""
    total = sum(seen.values())
    cells = {run: mass for run, mass in expected.items() if mass * total >= 5}
    observed = [seen[run] for run in cells]
    masses = list(cells.values())
    rest = 1.0 - sum(masses)
    if rest * total >= 5:
        observed.append(total - sum(observed))
        masses.append(rest)
    else:  # too little to count; its samples go to the largest cell
        largest = masses.index(max(masses))
        observed[largest] += total - sum(observed)
        masses[largest] += rest
    wanted = np.array(masses) / sum(masses) * total
    return float(stats.power_divergence(observed, wanted, lambda_="log-likelihood").pvalue)


@pytest.mark.parametrize("name", SETTINGS)
def test_drafted_tokens_have_the_joint_law_of_the_target_alone(name: str, record_property) -> None:
    line, params = SETTINGS[name]
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        prompt = chat_tokens(engine, PROMPTS[line])
        expected = law(engine, prompt, params, 1.0 / N_SAMPLES)
        seen, drafting = samples(engine, prompt, params, 1000)
    cells = sum(mass * N_SAMPLES >= 5 for mass in expected.values())
    assert cells > 10, "the first tokens hardly vary: this test has tested nothing"
    assert 0 < drafting["accepted"] < drafting["drafted"]
    p = p_value(seen, expected)
    record_property("p_value", p)
    found = {"samples": N_SAMPLES, "cells": cells, "p": round(p, 4)}
    print(f"{name}: {found}")
    if RECORD:
        path = Path(RECORD)
        known = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**known, name: found}, indent=1) + "\n")
    assert p > 1e-3 / N_TESTS


def test_the_test_of_laws_notices_a_biased_acceptance() -> None:
    """Taking the argmax but judging it as if it were sampled shifts even this much."""
    rng = np.random.default_rng(0)
    masses = rng.dirichlet(np.ones(40))
    biased = 0.97 * masses + 0.03 * np.eye(40)[masses.argmax()]
    expected = {(run,): float(mass) for run, mass in enumerate(masses)}
    for drawn, fits in ((masses, True), (biased, False)):
        seen = Counter((int(run),) for run in rng.choice(40, 20_000, p=drawn))
        assert (p_value(seen, expected) > 1e-3) == fits
