"""Drafts accepted per round: block verification against token-wise rejection.

    python benchmarks/acceptance.py [TARGET.gguf DRAFTER.gguf] [--rounds N]

Both answer the prompts of `tests/prompts.txt` with the same seeds, and the accepted drafts are
counted. The noise of that count is larger than most gains, so a second comparison takes chance out:
in every round of the block run, both are asked for the probability that each draft is accepted,
given the drafts up to it. Intervals hold 95 %, from resampling prompts.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt
from prompts import chat_prompts

from gemmachat.bridge_engine import EngineHandle
from gemmachat.bridge_session import SessionHandle
from gemmachat.native_structs import NativeSampling, SessionParams
from gemmachat.vocab import ModelVocab

TEMPERATURES = (0.6, 0.8, 1.0)
FILTERS = {"top-k 64, top-p 0.95": (64, 0.95), "no filters": (0, 1.0)}
DRAFTS = (3, 7)
ANSWER = 64  # most tokens of an answer
N_CTX = 512
N_RESAMPLES = 4000

Array = npt.NDArray[np.float64]
# Columns of what is measured, each a sum over the rounds of a prompt's answers.
ROUNDS, ACCEPTED, BLOCK, TOKEN_WISE = range(4)


def main() -> None:
    parser = argparse.ArgumentParser()
    data = Path(str(files("gemmachat") / "data"))
    parser.add_argument("target", nargs="?", default=data / "tiny.gguf", type=Path)
    parser.add_argument("drafter", nargs="?", default=data / "tiny-drafter.gguf", type=Path)
    parser.add_argument("--rounds", type=int, default=4000, help="at least so many per setting")
    args = parser.parse_args()

    engine = EngineHandle(args.target, args.drafter)
    vocab = ModelVocab(engine)
    prompts = chat_prompts(engine)

    block, token_wise = (
        SessionHandle(
            engine,
            SessionParams(n_ctx=N_CTX, n_threads=1, token_wise=mode, trace_acceptance=not mode),
        )
        for mode in (False, True)
    )
    print(f"{args.target.name} + {args.drafter.name}, {len(prompts)} prompts, drafts per round")
    print("counted in each run; expected in the rounds of the block run\n")
    print("| filters | T | drafts | rounds | counted: token-wise | block | gain", end=" ")
    print("| expected: token-wise | block | gain | |")
    print("|" + " --- |" * 11)
    for (name, (top_k, top_p)), temperature, n_draft in itertools.product(
        FILTERS.items(), TEMPERATURES, DRAFTS
    ):
        sampling = NativeSampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=0.0)
        one, two = np.zeros((len(prompts), 4)), np.zeros((len(prompts), 4))
        for seed in itertools.count(1):
            sampling.seed = seed
            one += list(answers(block, vocab, prompts, sampling, n_draft))
            two += list(answers(token_wise, vocab, prompts, sampling, n_draft))
            if min(one[:, ROUNDS].sum(), two[:, ROUNDS].sum()) >= args.rounds:
                break
        print(f"| {name} | {temperature} | {n_draft} | {report(one, two)} |", flush=True)


def answers(
    session: SessionHandle,
    vocab: ModelVocab,
    prompts: list[list[int]],
    sampling: NativeSampling,
    n_draft: int,
) -> Iterator[tuple[float, ...]]:
    """Answer every prompt; yield its rounds and drafts: accepted, expected by block, by token."""
    for prompt in prompts:
        session.sync(prompt[:1])
        session.sync(prompt)
        session.set_sampling(sampling)
        n_tokens, ended = 0, False
        while not ended and n_tokens < ANSWER:
            emitted = session.step(n_draft, N_CTX)
            n_tokens += len(emitted)
            ended = vocab.is_end(emitted[-1].id)
        stats = session.stats()
        yield stats.rounds, stats.accepted, stats.expected_block, stats.expected_token_wise


def report(block: Array, token_wise: Array) -> str:
    picks = np.random.default_rng(1).integers(0, len(block), (N_RESAMPLES, len(block)))

    def per_round(measured: Array, column: int) -> Array:
        """Of all prompts, then of every resample."""
        sums = np.concatenate([measured.sum(0)[None], measured[picks].sum(1)])
        return sums[:, column] / sums[:, ROUNDS]

    def interval(values: Array) -> str:
        low, high = np.quantile(values[1:], [0.025, 0.975])
        return f"{values[0]:.3f} ({low:.3f} to {high:.3f})"

    counted_one, counted_two = per_round(token_wise, ACCEPTED), per_round(block, ACCEPTED)
    one, two = per_round(block, TOKEN_WISE), per_round(block, BLOCK)
    cells = (
        f"{min(block[:, ROUNDS].sum(), token_wise[:, ROUNDS].sum()):.0f}",
        interval(counted_one),
        interval(counted_two),
        interval(counted_two - counted_one),
        interval(one),
        interval(two),
        interval(two - one),
        f"{100 * (two[0] / one[0] - 1):+.1f} %",
    )
    return " | ".join(cells)


if __name__ == "__main__":
    main()
