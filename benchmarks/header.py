"""How long the check of a model file takes before native code sees it.

    python benchmarks/header.py MODEL.gguf [DRAFTER.gguf] [--repeats 9]

Best with a file that holds the real vocabulary, as `benchmarks/synthetic.py` writes them. Medians
and minima: the header alone, then all that is checked of a target or a pair.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from gemmachat.gguf_info import check_pair, read_header
from gemmachat.processors import processor_name


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("target", type=Path)
    parser.add_argument("drafter", type=Path, nargs="?")
    parser.add_argument("--repeats", type=int, default=9)
    args = parser.parse_args()
    target = read_header(args.target)
    drafter = None if args.drafter is None else read_header(args.drafter)
    strings = sum(target.array_length(f"tokenizer.ggml.{name}") for name in ("tokens", "merges"))
    print(f"{processor_name()}, {args.target.name}: {strings} tokens and merges")
    print(f"{len(target.tensors)} tensors, {args.target.stat().st_size / 1e9:.2f} GB")
    checks: dict[str, Callable[[], object]] = {
        "header of the target": lambda: read_header(args.target),
        "check of the target": lambda: check_pair(target, None),
    }
    if drafter is not None:
        checks["header of the drafter"] = lambda: read_header(args.drafter)
        checks["check of the pair"] = lambda: check_pair(target, drafter)
    taken: dict[str, list[float]] = {name: [] for name in checks}
    for _ in range(args.repeats):
        for name, check in checks.items():
            began = time.perf_counter()
            check()
            taken[name].append(1e3 * (time.perf_counter() - began))
    for name, each in taken.items():
        print(f"{name:22}{statistics.median(each):8.1f} ms, least {min(each):.1f} ms")


if __name__ == "__main__":
    main()
