"""Drafts sampled and verified by rejection against drafts that must match: tokens per target pass.

    python benchmarks/matching.py [TARGET.gguf DRAFTER.gguf] [--seeds N] [--drafts N]

Answers the prompts of `tests/prompts.txt` at temperature 1 with the model card's filters, once by
gemmachat and once in llama.cpp's way: the drafter's likeliest tokens, kept while the target's own
samples are the same. Intervals hold 95 %, from resampling prompts.
"""

from __future__ import annotations

import argparse
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt
from llama_drafting import LlamaDrafting
from prompts import chat_prompts
from sides import CARD

from gemmachat.bridge_engine import EngineHandle
from gemmachat.bridge_session import SessionHandle
from gemmachat.native_structs import MAX_WIDTH, SessionParams
from gemmachat.vocab import ModelVocab

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from llama_runner import loaded

ANSWER = 64  # most tokens of an answer
N_CTX = 512
N_RESAMPLES = 4000


def main() -> None:
    parser = argparse.ArgumentParser()
    data = Path(str(files("gemmachat") / "data"))
    parser.add_argument("target", nargs="?", default=data / "tiny.gguf", type=Path)
    parser.add_argument("drafter", nargs="?", default=data / "tiny-drafter.gguf", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--drafts", type=int, default=3)
    args = parser.parse_args()

    engine = EngineHandle(args.target, args.drafter)
    vocab = ModelVocab(engine)
    prompts = chat_prompts(engine)
    sessions = {
        name: SessionHandle(engine, SessionParams(n_ctx=N_CTX, n_threads=1, dense_head=dense))
        for name, dense in {"all tokens": True, "the best clusters": False}.items()
    }
    # By prompt: tokens and target passes.
    ours = {name: np.zeros((len(prompts), 2)) for name in sessions}
    theirs = np.zeros((len(prompts), 2))
    with loaded(args.target) as target, loaded(args.drafter) as drafter:
        for seed in range(1, args.seeds + 1):
            peer = LlamaDrafting(target, drafter, n_ctx=N_CTX, threads=1, seed=seed)
            CARD.seed = seed
            for i, prompt in enumerate(prompts):
                for name, session in sessions.items():
                    ours[name][i] += by_rejection(session, vocab, prompt, args.drafts)
                theirs[i] += by_matching(peer, vocab, prompt, args.drafts)
            peer.close()
    print(f"{args.target.name} + {args.drafter.name}, {len(prompts)} prompts, {args.seeds} seeds,")
    print(f"temperature 1, {args.drafts} drafts: tokens per target pass after the first\n")
    print("| drafts from | by rejection | by matching | difference |\n| --- | --- | --- | --- |")
    for name, measured in ours.items():
        print(f"| {name} | {report(measured, theirs)} |")


def by_rejection(
    session: SessionHandle, vocab: ModelVocab, prompt: list[int], n_draft: int
) -> tuple[int, int]:
    session.sync(prompt[:1])
    session.sync(prompt)
    session.set_sampling(CARD)
    last, tokens, passes = session.step(0, 1)[0].id, 0, 0
    while not vocab.is_end(last) and tokens < ANSWER:
        emitted = session.step(n_draft, MAX_WIDTH)
        last, tokens, passes = emitted[-1].id, tokens + len(emitted), passes + 1
    return tokens, passes


def by_matching(
    peer: LlamaDrafting, vocab: ModelVocab, prompt: list[int], n_draft: int
) -> tuple[int, int]:
    last, tokens, passes = peer.prefill(prompt), 0, 0
    while not vocab.is_end(last) and tokens < ANSWER:
        emitted = peer.round(n_draft)
        ends = [i for i, token in enumerate(emitted) if vocab.is_end(token)]
        emitted = emitted[: ends[0] + 1] if ends else emitted
        last, tokens, passes = emitted[-1], tokens + len(emitted), passes + 1
    return tokens, passes


def report(ours: npt.NDArray[np.float64], theirs: npt.NDArray[np.float64]) -> str:
    picks = np.random.default_rng(1).integers(0, len(ours), (N_RESAMPLES, len(ours)))

    def lengths(measured: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Of all prompts, then of every resample."""
        sums = np.concatenate([measured.sum(0)[None], measured[picks].sum(1)])
        return np.asarray(sums[:, 0] / sums[:, 1])

    one, two = lengths(ours), lengths(theirs)
    told = []
    for values in (one, two, one - two):
        low, high = np.quantile(values[1:], [0.025, 0.975])
        told.append(f"{values[0]:.3f} ({low:.3f} to {high:.3f})")
    return " | ".join(told)


if __name__ == "__main__":
    main()
