"""The drafter's head over clusters against llama.cpp's over the vocabulary, side by side.

    python benchmarks/draft_head.py [TARGET.gguf DRAFTER.gguf] [--threads N] [--prompts N]

First what a draft takes, trunk, head and draw, with either head, in turn (A B A B). Then what is
lost, over the prompts of `tests/prompts.txt`: how often the likeliest token of all is in the best
clusters, for those of the file and for some computed from its embedding, and how many drafts of
three are accepted.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt
from prompts import chat_prompts

from gemmachat.bridge import Stop, cluster_tokens
from gemmachat.bridge_engine import EngineHandle
from gemmachat.bridge_session import SessionHandle
from gemmachat.clusters import TOKENS_PER_CLUSTER, Clusters, has_trained_clusters, provide
from gemmachat.gguf_info import read_header
from gemmachat.native_structs import MAX_DRAFT, NativeSampling, SessionParams
from gemmachat.vocab import ModelVocab

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import library_head
import llama_runner

SAMPLINGS = {
    "greedy": NativeSampling(temperature=0.0, top_p=1.0),
    "top-k 64, top-p 0.95": NativeSampling(temperature=1.0, top_k=64, top_p=0.95, seed=1),
    "no filter": NativeSampling(temperature=1.0, top_p=1.0, seed=1),
}
HEADS = {"dense": True, "clusters": False}
ANSWER = 32  # tokens
N_CTX = 512


def main() -> None:
    parser = argparse.ArgumentParser()
    data = Path(str(files("gemmachat") / "data"))
    parser.add_argument("target", nargs="?", default=data / "tiny.gguf", type=Path)
    parser.add_argument("drafter", nargs="?", default=data / "tiny-drafter.gguf", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=100, help="of seven drafts, per head")
    parser.add_argument("--prompts", type=int, default=100, help="0: costs alone")
    args = parser.parse_args()

    engine = EngineHandle(args.target, args.drafter)
    info = read_header(args.drafter)
    if not has_trained_clusters(info):
        use(engine, provide(info, Stop()))
    prompts = chat_prompts(engine)[: max(args.prompts, 1)]
    print(f"{args.target.name} + {args.drafter.name}, {platform.machine()}, {args.threads} threads")
    costs(engine, prompts[0], args.threads, args.rounds)
    if args.prompts:
        losses(engine, args.target, args.drafter, prompts)


def use(engine: EngineHandle, found: Clusters, top: int | None = None) -> None:
    engine.set_clusters(found.count, top or found.top, found.centroids, found.ordering)


def costs(engine: EngineHandle, prompt: list[int], threads: int, rounds: int) -> None:
    sessions = {
        head: SessionHandle(engine, SessionParams(n_ctx=N_CTX, n_threads=threads, dense_head=dense))
        for head, dense in HEADS.items()
    }
    print(f"\nmedian microseconds of a draft over {rounds} rounds of {MAX_DRAFT}, in turn\n")
    print("| sampling | dense | clusters | ratio |\n| --- | ---: | ---: | ---: |")
    for name, sampling in SAMPLINGS.items():
        times: dict[str, list[float]] = {head: [] for head in HEADS}
        for _ in range(rounds + 1):
            for head, session in sessions.items():
                session.set_sampling(sampling)
                session.sync(prompt)
                session.step(0, 1)  # nothing is drafted right after a prompt
                session.step(MAX_DRAFT, MAX_DRAFT + 1)
                stats = session.stats()
                times[head].append(stats.draft_s / max(stats.drafted, 1) * 1e6)
        dense, clustered = (statistics.median(found[1:]) for found in times.values())
        print(f"| {name} | {dense:.0f} | {clustered:.0f} | {dense / clustered:.2f} |", flush=True)


def losses(engine: EngineHandle, target: Path, drafter: Path, prompts: list[list[int]]) -> None:
    answers, accepted = [], dict.fromkeys(HEADS, (0, 0))
    vocab = ModelVocab(engine)
    for prompt in prompts:
        for head, dense in HEADS.items():
            session = SessionHandle(
                engine, SessionParams(n_ctx=N_CTX, n_threads=1, dense_head=dense)
            )
            session.set_sampling(SAMPLINGS["greedy"])
            session.sync(prompt)
            said: list[int] = []
            while len(said) < ANSWER and not (said and vocab.is_end(said[-1])):
                said += [token.id for token in session.step(3, ANSWER)]
            stats = session.stats()
            taken, drafted = accepted[head]
            accepted[head] = taken + stats.accepted, drafted + stats.drafted
            session.free()
        answers.append((prompt, said))
    rows = hidden_rows(target, drafter, answers)
    print(f"\nthe likeliest token is in the best clusters, of {len(rows)} hidden rows\n")
    print("| clusters | share of the tokens | recall |\n| --- | ---: | ---: |")
    print(f"| the file's or kept | | {library_head.recall(engine, rows):.4f} |")
    width, n_tokens = read_header(drafter).tensors["token_embd.weight"].shape
    for count in (n_tokens // TOKENS_PER_CLUSTER, 2 * n_tokens // TOKENS_PER_CLUSTER):
        with drafter.open("rb") as file:
            found = Clusters(count, *cluster_tokens(file, count, width, n_tokens, Stop()))
        for top in (count // 16, count // 8, count // 4):
            use(engine, found, top)
            share = f"{top / count:.4f}"
            print(f"| {count} computed | {share} | {library_head.recall(engine, rows):.4f} |")
    print("\n| head | accepted of greedy drafts of 3 |\n| --- | ---: |")
    for head, (taken, drafted) in accepted.items():
        print(f"| {head} | {taken / drafted:.4f} |")


def hidden_rows(
    target: Path, drafter: Path, answers: list[tuple[list[int], list[int]]]
) -> npt.NDArray[np.float32]:
    """What the head reads in the first two draft steps after every token of the answers."""
    width, n_tokens = read_header(drafter).tensors["token_embd.weight"].shape
    rows, watch = [], llama_runner.LastNorm(width)
    with llama_runner.loaded(target) as model, llama_runner.loaded(drafter) as assistant:
        hidden = llama_runner.lib.llama_model_n_embd(model)
        for prompt, said in answers:
            text = [*prompt, *said]
            with (
                llama_runner.context(model) as context,
                llama_runner.context(assistant, context, watch) as mtp,
            ):
                _, states = llama_runner.prefill(context, text, n_tokens, hidden)
                memory = llama_runner.lib.llama_get_memory(context)
                for at in reversed(range(len(prompt), len(text))):
                    llama_runner.lib.llama_memory_seq_rm(memory, 0, at, -1)
                    state, token = states[at - 1], text[at]
                    for _ in range(2):
                        logits, state = llama_runner.draft(mtp, token, state, at, n_tokens)
                        token = int(logits.argmax())
                        rows.append(watch.row.copy())
    return np.stack(rows)


if __name__ == "__main__":
    main()
