"""Products of quantized matrices by gemmachat's kernels and by ggml, in turns, on this machine.

    python benchmarks/kernels.py [--type Q4_0 ...] [--shape 1536x6144 ...] [--width 1 ...]

A shape is columns x rows of a weight matrix; by default two that take most of Gemma 4 E2B's time.
As many matrices of random weights as take 60 MB follow each other, so that they come from memory as
a model's do. Times are the least of alternating turns, for one matrix: whatever else the machine
does only adds to them. GB/s counts the bytes of the weights, and G/s the multiply-adds. ggml's
weights are in its repacking buffer type where it would put them there. docs/kernels.md holds the
results against what `machine_limits.cpp` measures.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Kind

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from matrix_products import Ggml, Kernels
from random_blocks import random_rows

TYPES = ("Q4_0", "IQ4_NL", "Q8_0", "Q4_K", "Q5_K", "Q6_K")
SHAPES = ("1536x6144", "12288x1536")
WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 64, 512)
WEIGHTS = 60e6  # bytes


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--type", nargs="+", choices=TYPES, default=TYPES)
    parser.add_argument("--shape", nargs="+", default=SHAPES)
    parser.add_argument("--width", nargs="+", type=int, default=WIDTHS)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--turns", type=int, default=15)
    args = parser.parse_args()
    for name in args.type:
        for shape in args.shape:
            compare(Kind[name], shape, args.width, args.threads, args.turns)


def compare(kind: Kind, shape: str, widths: list[int], threads: int, turns: int) -> None:
    """Prints a line for every width."""
    k, n = map(int, shape.split("x"))
    block, size = GGML_QUANT_SIZES[kind]
    nbytes = k // block * size * n
    rng = np.random.default_rng(0)
    matrices = [random_rows(n, k, kind, rng)] * max(1, round(WEIGHTS / nbytes))
    ours, ggml = Kernels(matrices, kind), Ggml(matrices, kind, widths, threads)
    for m in widths:
        x = rng.standard_normal((m, k), np.float32)
        ggml.set(x)
        times: dict[str, list[float]] = {"ours": [], "ggml": []}
        for _ in range(turns):
            ours.multiply(x, threads)
            times["ours"].append(ours.seconds / len(matrices))
            began = time.perf_counter()
            ggml.compute(m)
            times["ggml"].append((time.perf_counter() - began) / len(matrices))
        mine, theirs = (min(values) for values in times.values())
        print(
            f"{kind.name} {shape} m={m}: {mine * 1e6:.0f} us, {nbytes / mine / 1e9:.1f} GB/s, "
            f"{k * n * m / mine / 1e9:.0f} G/s; ggml {theirs * 1e6:.0f} us; {theirs / mine:.2f}x",
            flush=True,
        )
    ours.close()
    ggml.close()


if __name__ == "__main__":
    main()
