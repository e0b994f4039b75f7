"""gemmachat against llama.cpp on the same weights, side by side in one process.

    python benchmarks/synthetic.py FOLDER
    python benchmarks/comparison.py FOLDER [--model E2B] [--quant Q4_0] [--parts prefill draft ...]
        [--kernels ggml]

Real shapes, synthetic weights, acceptance by decree: times are real, texts and acceptance are not.
Every figure is a median over runs in turn (A B A B); ratios are taken run by run. llama.cpp runs on
ggml's matrix kernels, gemmachat on its own unless --kernels says otherwise; the part "kernels" has
both of gemmachat's.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
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
from gemmachat.settings import Kernels

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from llama_runner import loaded

PARTS = ("kernels", "prefill", "draft", "decode", "turn", "schedule", "memory")
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

    def complete(self, on_ggml: EngineHandle) -> dict[str, Side]:
        """llama.cpp, and gemmachat on both kinds of kernels, with complete prefill."""
        ours = {
            name: Ours(engine, 0, n_ctx=N_CTX, threads=self.threads, complete=True)
            for name, engine in (("on ggml's kernels", on_ggml), ("on its own", self.engine))
        }
        return {"llama.cpp": Peer(self.peer, 0), **ours}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="E2B")
    parser.add_argument("--quant", default="Q4_0")
    parser.add_argument("--drafter-quant", default="Q8_0")
    parser.add_argument("--parts", nargs="*", default=PARTS, choices=PARTS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--kernels", choices=("auto", "ggml"), default="auto")
    args = parser.parse_args()
    name = args.model.lower()
    target = args.folder / f"{name}-{args.quant}.gguf"
    drafter = args.folder / f"{name}-drafter-{args.drafter_quant}.gguf"
    print(f"{read_header(target).metadata['general.name']}: {target.name} + {drafter.name}")
    print(f"{processor_name()}, {args.threads} threads, medians of {args.repeats} runs in turn")
    print("acceptance by decree: texts are meaningless, times are real", flush=True)
    if "memory" in args.parts:
        memory(target, drafter, args.threads)
    with both(target, drafter, args.threads, args.repeats, args.kernels) as models:
        print(f"gemmachat's kernels: {models.engine.kernels()}", flush=True)
        for part in args.parts:
            if part != "memory":
                print(f"\n## {part}\n", flush=True)
                MEASURED[part](models)


@contextlib.contextmanager
def both(
    target: Path, drafter: Path, threads: int, repeats: int, kernels: Kernels
) -> Iterator[Models]:
    # Before llama.cpp loads a model of its own.
    engine = EngineHandle(target, drafter, kernels)
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


def kernels(models: Models) -> None:
    """Passes of 1 to 8 rows, and prefill of all layers."""
    on_ggml = EngineHandle(models.target, models.drafter, "ggml")
    try:
        passes = pass_seconds(models, models.complete(on_ggml))
        answers = in_turn(models.complete(on_ggml), models, PROMPT, 0, lambda _: 0.0)
    finally:
        on_ggml.free()
    peer, *ours = answers
    print(f"ms of a pass of so many rows, and s of a prompt of {PROMPT} without early exit\n")
    print(f"| rows | {peer} | " + " | ".join(f"{name} | times faster" for name in ours) + " |")
    print("| --- " * (2 + 2 * len(ours)) + "|")
    for n in range(MAX_WIDTH):
        kernel_row(str(n + 1), [by_rows[n] for by_rows in passes.values()], 1e3)
    kernel_row("prompt", [[one.first_s for one in runs] for runs in answers.values()], 1.0)


def pass_seconds(models: Models, sides: dict[str, Side]) -> dict[str, list[list[float]]]:
    """Seconds of passes of 1, 2, ... rows by side, all in turn."""
    seconds: dict[str, list[list[float]]] = {name: [[] for _ in range(MAX_WIDTH)] for name in sides}
    for side in sides.values():
        side.start(prompt_of(SHORT_PROMPT))
    for repeat in range(4 * models.repeats + 1):
        for n, (name, side) in itertools.product(range(MAX_WIDTH), sides.items()):
            side.n_draft, before = n, side.pass_s
            side.round(0.5)
            if repeat > 0:
                seconds[name][n].append(side.pass_s - before)
    for side in sides.values():
        side.close()
    return seconds


def kernel_row(label: str, seconds: list[list[float]], unit: float) -> None:
    peer, *ours = seconds
    cells = [f"{statistics.median(peer) * unit:.2f}"]
    for runs in ours:
        cells += [f"{statistics.median(runs) * unit:.2f}", ratio(peer, runs)]
    print(f"| {label} | {' | '.join(cells)} |", flush=True)


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
        files = target, drafter, threads
        peer = pool.apply(peer_memory, files)
        ours = {name: pool.apply(our_memory, (*files, name)) for name in ("auto", "ggml")}
    print("\n## memory\n\nMiB held after a turn, in a process of its own (proportional set size)")
    print(f"llama.cpp {peer / 1024:.0f}", end="")
    for name, held in ours.items():
        print(f"; gemmachat, kernels {name}: {held / 1024:.0f}, {held / peer:.3f} of it", end="")
    print()


def our_memory(target: Path, drafter: Path, threads: int, kernels: Kernels) -> int:
    engine = EngineHandle(target, drafter, kernels)
    side = Ours(engine, PEER_DRAFTS, n_ctx=N_CTX, threads=threads)
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
    "kernels": kernels,
    "prefill": prefill,
    "draft": draft,
    "decode": decode,
    "turn": turn,
    "schedule": schedule,
}

if __name__ == "__main__":
    main()
