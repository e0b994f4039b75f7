"""Prefill that ends its passes early against complete passes, side by side.

    python benchmarks/prefill.py [TARGET.gguf] [--tokens 400 512] [--repeats N]

Random tokens, a session for each side, emptied before every run; the sessions take turns (A B A B)
after one run that does not count. Prints the medians of prefill and of the time to the first token.
"""

from __future__ import annotations

import argparse
import platform
import random
import statistics
import time
from importlib.resources import files
from pathlib import Path

from gemmachat.bridge_engine import EngineHandle
from gemmachat.bridge_session import SessionHandle
from gemmachat.native_structs import NativeSampling, SessionParams
from gemmachat.processors import default_threads

GREEDY = NativeSampling(temperature=0.0, top_p=1.0)


def main() -> None:
    parser = argparse.ArgumentParser()
    data = Path(str(files("gemmachat") / "data"))
    parser.add_argument("target", nargs="?", default=data / "tiny.gguf", type=Path)
    parser.add_argument("--tokens", nargs="*", type=int, default=[400, 512])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=default_threads())
    args = parser.parse_args()

    engine = EngineHandle(args.target, None)
    skipped, n_vocab = engine.skipped_layers(), engine.vocab_size()
    print(f"{args.target.name}, {len(skipped)} layers skipped, {platform.machine()}, ", end="")
    print(f"{args.threads} threads, medians of {args.repeats} runs in turn")
    print("| tokens | | prefill | first token after |")
    print("| --- | --- | --- | --- |")
    for n in args.tokens:
        prompt = random.Random(0).choices(range(n_vocab), k=n)
        params = SessionParams(n_ctx=n + 1, n_threads=args.threads)
        complete = SessionParams(n_ctx=n + 1, n_threads=args.threads, no_early_exit=True)
        sides = {
            "early exit": SessionHandle(engine, params),
            "complete": SessionHandle(engine, complete),
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
        for repeat in range(args.repeats + 1):
            for name, session in sides.items():
                measured = run(session, prompt)
                if repeat > 0:
                    times[name].append(measured)
        for session in sides.values():
            session.free()
        report(n, times)


def run(session: SessionHandle, prompt: list[int]) -> tuple[float, float]:
    """Seconds of prefill, and until the first token was there."""
    session.sync(prompt[:1])
    session.set_sampling(GREEDY)
    started = time.perf_counter()
    session.sync(prompt)
    session.step(0, 1)
    return session.stats().prefill_s, time.perf_counter() - started


def report(n: int, times: dict[str, list[tuple[float, float]]]) -> None:
    for name, runs in times.items():
        prefill, first = (statistics.median(values) for values in zip(*runs, strict=True))
        print(f"| {n} | {name} | {prefill * 1e3:.1f} ms | {first * 1e3:.1f} ms |")
    pairs = list(zip(times["complete"], times["early exit"], strict=True))
    prefill, first = (
        statistics.median(whole[i] / early[i] for whole, early in pairs) for i in (0, 1)
    )
    print(f"| {n} | times faster, run by run | {prefill:.2f} | {first:.2f} |")


if __name__ == "__main__":
    main()
