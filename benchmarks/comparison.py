"""gemmachat against llama.cpp on the same weights, side by side in one process.

    python benchmarks/synthetic.py FOLDER
    python benchmarks/comparison.py FOLDER [--model E2B] [--quant Q4_0] [--parts prefill draft ...]

Real shapes, synthetic weights, acceptance by decree: times are real, texts and acceptance are not.
Every figure is a median over runs in turn (A B A B); ratios are taken run by run.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import random
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from llama_drafting import LlamaDrafting
from sides import Answer, Ours, Peer, Side, answer, expected, typical_seconds

from gemmachat.bridge_engine import EngineHandle
from gemmachat.gguf_info import read_header
from gemmachat.native_structs import MAX_DRAFT, MAX_WIDTH
from gemmachat.processors import default_threads, processor_name

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from llama_runner import loaded

PARTS = ("prefill", "draft", "decode", "turn", "schedule", "memory")
N_CTX = 2048
PROMPT, ANSWER = 512, 128  # tokens
SHORT_PROMPT = 32
PEER_DRAFTS = 3
DECODE_CHANCES = (0.95, 0.9, 0.8, 0.6, 0.3)
SCHEDULE_TOKENS = 200
SCHEDULE_CHANCES: dict[str, tuple[float, float]] = {
    **{f"{chance}": (chance, chance) for chance in (0.2, 0.4, 0.6, 0.8, 0.95)},
    "0.2, then 0.8": (0.2, 0.8),
    "0.95, then 0.4": (0.95, 0.4),
}


class Models(NamedTuple):
    """Files, and the engines of both sides that have loaded them."""

    target: Path
    drafter: Path
    engine: EngineHandle
    peer: LlamaDrafting
    threads: int
    repeats: int

    def ours(self, n_draft: int) -> Ours:
        return Ours(self.engine, n_draft, n_ctx=N_CTX, threads=self.threads)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="E2B")
    parser.add_argument("--quant", default="Q4_0")
    parser.add_argument("--drafter-quant", default="Q8_0")
    parser.add_argument("--parts", nargs="*", default=PARTS, choices=PARTS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=default_threads())
    args = parser.parse_args()
    name = args.model.lower()
    target = args.folder / f"{name}-{args.quant}.gguf"
    drafter = args.folder / f"{name}-drafter-{args.drafter_quant}.gguf"
    print(f"{read_header(target).metadata['general.name']}: {target.name} + {drafter.name}")
    print(f"{processor_name()}, {args.threads} threads, medians of {args.repeats} runs in turn")
    print("acceptance by decree: texts are meaningless, times are real", flush=True)
    if "memory" in args.parts:
        memory(target, drafter, args.threads)
    with both(target, drafter, args.threads, args.repeats) as models:
        for part in args.parts:
            if part != "memory":
                print(f"\n## {part}\n", flush=True)
                MEASURED[part](models)


@contextlib.contextmanager
def both(target: Path, drafter: Path, threads: int, repeats: int) -> Iterator[Models]:
    engine = EngineHandle(target, drafter)
    with loaded(target) as one, loaded(drafter) as other:
        peer = LlamaDrafting(one, other, n_ctx=N_CTX, threads=threads)
        try:
            yield Models(target, drafter, engine, peer, threads, repeats)
        finally:
            peer.close()
            engine.free()


def prompt_of(n: int) -> list[int]:
    return random.Random(0).choices(range(1000, 200_000), k=n)


def in_turn(
    sides: dict[str, Side],
    models: Models,
    n_prompt: int,
    n_tokens: float,
    acceptance: Callable[[float], float],
) -> dict[str, list[Answer]]:
    """Answers of every side, taking turns; the first round of all does not count."""
    prompt = prompt_of(n_prompt)
    answers: dict[str, list[Answer]] = {name: [] for name in sides}
    for repeat in range(models.repeats + 1):
        for name, side in sides.items():
            found = answer(side, prompt, n_tokens, acceptance)
            if repeat > 0:
                answers[name].append(found)
    for side in sides.values():
        side.close()
    return answers


def ratio(values: list[float], others: list[float]) -> str:
    """Median of the first by the second, run by run, with the lowest and the highest."""
    ratios = [value / other for value, other in zip(values, others, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def prefill(models: Models) -> None:
    sides: dict[str, Side] = {"gemmachat": models.ours(0), "llama.cpp": Peer(models.peer, 0)}
    answers = in_turn(sides, models, PROMPT, 0, lambda _: 0.0)
    ours, peer = ([a.first_s for a in answers[name]] for name in sides)
    print(f"first token of a prompt of {PROMPT}: {statistics.median(ours):.2f} s,", end=" ")
    print(f"llama.cpp {statistics.median(peer):.2f} s; {ratio(peer, ours)} times faster")


def draft(models: Models) -> None:
    ours, peer = models.ours(PEER_DRAFTS), models.peer
    prompt, mine, theirs = prompt_of(SHORT_PROMPT), [], []
    for side in (ours, Peer(peer, PEER_DRAFTS)):
        side.start(prompt)
    for block in range(4 * models.repeats + 1):
        before, steps = ours.session.stats(), peer.n_steps
        peer_s = peer.draft_s
        for _ in range(4):
            ours.round(0.8)
        after = ours.session.stats()
        for _ in range(4):
            Peer(peer, PEER_DRAFTS).round(0.8)
        if block > 0:
            mine.append((after.draft_s - before.draft_s) / (after.drafted - before.drafted))
            theirs.append((peer.draft_s - peer_s) / (peer.n_steps - steps))
    ours.close()
    print(f"a draft, head and draw included: {statistics.median(mine) * 1e3:.2f} ms,", end=" ")
    print(f"llama.cpp {statistics.median(theirs) * 1e3:.2f} ms; {ratio(theirs, mine)} times less")


def decode(models: Models) -> None:
    print("tokens/s after the first token\n")
    print("| acceptance | llama.cpp, no drafts | llama.cpp, 3 drafts | gemmachat ", end="")
    print("| against no drafts | against 3 |\n| --- | --- | --- | --- | --- | --- |")
    for chance in DECODE_CHANCES:
        sides: dict[str, Side] = {
            "plain": Peer(models.peer, 0),
            "three": Peer(models.peer, PEER_DRAFTS),
            "ours": models.ours(-1),
        }
        answers = in_turn(sides, models, SHORT_PROMPT, ANSWER, lambda _, chance=chance: chance)
        plain, three, ours = ([a.rate for a in answers[name]] for name in sides)
        medians = " | ".join(f"{statistics.median(rates):.2f}" for rates in (plain, three, ours))
        print(f"| {chance} | {medians} | {ratio(ours, plain)} | {ratio(ours, three)} |", flush=True)


def turn(models: Models) -> None:
    sides: dict[str, Side] = {"ours": models.ours(-1), "peer": Peer(models.peer, PEER_DRAFTS)}
    answers = in_turn(sides, models, PROMPT, ANSWER, lambda _: 0.8)
    ours, peer = ([a.total_s(ANSWER) for a in answers[name]] for name in sides)
    print(f"{PROMPT} tokens of prompt, {ANSWER} of answer, acceptance 0.8:", end=" ")
    print(f"{statistics.median(ours):.2f} s, llama.cpp with its drafting", end=" ")
    print(f"{statistics.median(peer):.2f} s; {ratio(peer, ours)} times faster")


def schedule(models: Models) -> None:
    """The schedule against fixed lengths: all that could be best by the measured costs."""
    passes, step = costs(models)
    unit = passes[0]
    print("a pass of 1 to 8 rows costs, in passes of one:", end=" ")
    print(", ".join(f"{seconds / unit:.2f}" for seconds in passes), f"; a draft {step / unit:.3f}")
    print(
        f"\ntokens/s over {SCHEDULE_TOKENS} tokens: nothing known at first, then known. Every round"
    )
    print("counts as the median of those with as many drafts, the schedule's apart\n")
    print("| acceptance | fixed lengths | schedule, first | of the best | then | of the best |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, (one, two) in SCHEDULE_CHANCES.items():

        def acceptance(n: float, one: float = one, two: float = two) -> float:
            return one if n < SCHEDULE_TOKENS / 2 else two

        answers = scheduled_and_fixed(models, candidates(passes, step, (one, two)), acceptance)
        # The schedule's own rounds count apart: what it pays for probes and for drafts that it
        # scores and does not draw is part of them.
        scheduled = typical_seconds([*answers["first"], *answers["then"]])
        fixed = typical_seconds(
            [one for side, runs in answers.items() if side.isdecimal() for one in runs]
        )
        rates = {
            side: statistics.median(
                one.typical_rate(fixed if side.isdecimal() else scheduled) for one in runs
            )
            for side, runs in answers.items()
        }
        first, then = rates.pop("first"), rates.pop("then")
        best = max(rates.values())
        told = ", ".join(f"{length}: {rate:.2f}" for length, rate in rates.items())
        print(f"| {name} | {told} | {first:.2f} | {first / best:.3f}", end=" | ")
        print(f"{then:.2f} | {then / best:.3f} |", flush=True)


def scheduled_and_fixed(
    models: Models, lengths: list[int], acceptance: Callable[[float], float]
) -> dict[str, list[Answer]]:
    """Answers with each fixed length, and a new schedule's first and second ones, in turn."""
    fixed: dict[str, Side] = {f"{n}": models.ours(n) for n in lengths}
    answers: dict[str, list[Answer]] = {name: [] for name in (*fixed, "first", "then")}
    prompt = prompt_of(SHORT_PROMPT)
    for _ in range(models.repeats):
        scheduled = models.ours(-1)
        turns = {"first": scheduled, **fixed, "then": scheduled}
        for name, side in turns.items():
            answers[name].append(answer(side, prompt, SCHEDULE_TOKENS, acceptance))
        scheduled.close()
    for side in fixed.values():
        side.close()
    return answers


def costs(models: Models) -> tuple[list[float], float]:
    """Seconds of a pass of 1 to 8 rows and of a draft, medians of rounds in turn."""
    sides = [models.ours(n) for n in range(MAX_WIDTH)]
    prompt = prompt_of(SHORT_PROMPT)
    for side in sides:
        side.start(prompt)
    passes: list[list[float]] = [[] for _ in sides]
    steps = []
    for _ in range(8 * models.repeats):
        for n, side in enumerate(sides):
            before = side.session.stats()
            side.round(0.5)
            after = side.session.stats()
            passes[n].append(after.verify_s + after.sample_s - before.verify_s - before.sample_s)
            if n:
                steps.append((after.draft_s - before.draft_s) / n)
    for side in sides:
        side.close()
    return [statistics.median(seconds) for seconds in passes], statistics.median(steps)


def candidates(passes: list[float], step: float, chances: tuple[float, float]) -> list[int]:
    """None, three, and the fixed lengths that come within 6 % of the best by these costs."""

    def seconds(n: int) -> float:
        cost = passes[n] + n * step
        return sum(cost / expected(chance, n) for chance in chances)

    best = min(map(seconds, range(MAX_DRAFT + 1)))
    return [n for n in range(MAX_DRAFT + 1) if n in (0, 3) or seconds(n) < 1.06 * best]


def memory(target: Path, drafter: Path, threads: int) -> None:
    """Of a process of its own for each side, after a prompt and some rounds."""
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(1, maxtasksperchild=1) as pool:
        ours, peer = (
            pool.apply(side, (target, drafter, threads)) for side in (our_memory, peer_memory)
        )
    print("\n## memory\n\nMiB held after a turn, in a process of its own (proportional set size)")
    print(f"gemmachat {ours / 1024:.0f}, llama.cpp {peer / 1024:.0f}: {ours / peer:.3f} of it")


def our_memory(target: Path, drafter: Path, threads: int) -> int:
    side = Ours(EngineHandle(target, drafter), PEER_DRAFTS, n_ctx=N_CTX, threads=threads)
    answer(side, prompt_of(PROMPT), 16, lambda _: 0.8)
    return held_kib()


def peer_memory(target: Path, drafter: Path, threads: int) -> int:
    with loaded(target) as one, loaded(drafter) as other:
        peer = LlamaDrafting(one, other, n_ctx=N_CTX, threads=threads)
        answer(Peer(peer, PEER_DRAFTS), prompt_of(PROMPT), 16, lambda _: 0.8)
        return held_kib()


def held_kib() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


MEASURED: dict[str, Callable[[Models], None]] = {
    "prefill": prefill,
    "draft": draft,
    "decode": decode,
    "turn": turn,
    "schedule": schedule,
}

if __name__ == "__main__":
    main()
