"""Drafting on against off on one pair of models, side by side, and where the time of a round goes.

    python benchmarks/drafting.py [TARGET.gguf DRAFTER.gguf]

Runs every prompt with drafting off, then with 3 drafts, then off again, and so on (A B A B), and
prints medians. Without arguments it measures the embedded pair, whose passes take about a
millisecond: its figures show overheads, not what a real model gains.
"""

from __future__ import annotations

import argparse
import platform
import statistics
from importlib.resources import files
from pathlib import Path

from gemmachat import Engine, SamplingParams, Session, Stats
from gemmachat.conversation import Message
from gemmachat.processors import default_threads
from gemmachat.prompt import PromptFormat
from gemmachat.session import DraftPolicy

PROMPTS = (
    "What is speculative decoding?",
    "Write a Python function that adds two numbers.",
    "Give me JSON with name Ann and age 30.",
    "How do I pull a model?",
    "Translate to Chinese: good morning",
    "What sizes does Gemma 4 come in?",
)
REPEATS = 5
DRAFTS: tuple[DraftPolicy, ...] = ("off", 3)


def main() -> None:
    parser = argparse.ArgumentParser()
    data = Path(str(files("gemmachat") / "data"))
    parser.add_argument("target", nargs="?", default=data / "tiny.gguf", type=Path)
    parser.add_argument("drafter", nargs="?", default=data / "tiny-drafter.gguf", type=Path)
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--temperature", type=float, default=0.0)
    args = parser.parse_args()

    with Engine.load(args.target, args.drafter, threads=args.threads) as engine:
        print(f"{args.target.name} + {args.drafter.name}, temperature {args.temperature:g}")
        print(f"{platform.machine()}, {args.threads} threads, {len(PROMPTS)} prompts,")
        print(f"median of {REPEATS} runs of each, taken in turn")
        measured = measure(engine, SamplingParams(temperature=args.temperature, seed=1))
    report(measured)


def measure(engine: Engine, sampling: SamplingParams) -> dict[DraftPolicy, list[Stats]]:
    """Stats of every run by draft policy, the policies taking turns."""
    style = PromptFormat(engine.vocab, engine.chat_template)
    prompts = [style.render([Message("user", prompt)]) for prompt in PROMPTS]
    measured: dict[DraftPolicy, list[Stats]] = {draft: [] for draft in DRAFTS}
    # A session each, emptied before every answer: neither finds the other's prompt in its cache.
    sessions = {draft: engine.session() for draft in DRAFTS}
    for repeat in range(REPEATS + 1):
        for prompt in prompts:
            for draft, session in sessions.items():
                answer(session, prompt[:1], sampling, draft, 1)
                stats = answer(session, prompt, sampling, draft, 200)
                if repeat > 0:
                    measured[draft].append(stats)
    return measured


def answer(
    session: Session, prompt: list[int], sampling: SamplingParams, draft: DraftPolicy, limit: int
) -> Stats:
    for _ in session.generate(prompt, sampling, draft=draft, max_tokens=limit):
        pass
    return session.stats()


def report(measured: dict[DraftPolicy, list[Stats]]) -> None:
    for draft, runs in measured.items():
        tokens = sum(run.completion_tokens for run in runs)
        print(f"\ndraft {draft}")
        print(f"  mean accepted length {tokens / sum(run.rounds for run in runs):.2f}")
        print(f"  time to first token  {statistics.median(r.ttft_s for r in runs) * 1e3:.2f} ms")
        print(
            f"  decode               {statistics.median(r.decode_tps for r in runs):.0f} tokens/s"
        )
        print(f"  draft                {sum(r.draft_s for r in runs) / tokens * 1e6:.0f} us/token")
        print(f"  verify               {sum(r.verify_s for r in runs) / tokens * 1e6:.0f} us/token")
        print(f"  sample               {sum(r.sample_s for r in runs) / tokens * 1e6:.0f} us/token")
        outside = statistics.median(map(outside_llama_cpp, runs))
        print(f"  outside llama.cpp    {outside * 1e6:.0f} us/token")
    pairs = zip(measured["off"], measured[3], strict=True)
    ratio = statistics.median(on.decode_tps / off.decode_tps for off, on in pairs)
    print(f"\ndrafting 3 against off: {ratio:.2f} times the tokens/s")


def outside_llama_cpp(run: Stats) -> float:
    """Seconds per token spent neither in prefill nor in a drafter's or the target's pass."""
    computed = run.prompt_tokens - 1 - run.cached_tokens
    prefill_s = computed / run.prefill_tps if run.prefill_tps else 0.0
    return (run.total_s - prefill_s - run.draft_s - run.verify_s) / run.completion_tokens


if __name__ == "__main__":
    main()
