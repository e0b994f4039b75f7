"""Instructions of products with quantized matrices, gemmachat's kernels against ggml's.

    python benchmarks/kernel_instructions.py [--type Q4_0 ...]

Needs valgrind (Debian: apt-get install valgrind), whose callgrind counts what one thread executes,
the quantization of the activations included. Counts do not depend on what else the machine does,
but an instruction is no unit of time. valgrind knows no AVX-512: what runs is AVX2. Figures are
instructions for 32 weights and one row of activations; docs/kernels.md holds them.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from gguf.constants import GGMLQuantizationType as Kind

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from matrix_products import Ggml, Kernels
from random_blocks import random_rows

from gemmachat.native import library

TYPES = ("Q4_0", "IQ4_NL", "Q8_0", "Q4_K", "Q5_K", "Q6_K")
WIDTHS = (1, 2, 3, 4, 6, 8, 64)
COLUMNS, ROWS = 1536, 4096
SIDES = ("ours", "ggml")
MARK = "gc_abi_version"  # valgrind writes down what it has counted where this is called


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--type", nargs="+", choices=TYPES, default=TYPES)
    parser.add_argument("--multiply", choices=SIDES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.multiply is not None:
        multiply(args.multiply, args.type)
        return
    counts = {side: count(side, args.type) for side in SIDES}
    print("| Rows |", " | ".join(map(str, WIDTHS)), "|")
    print("| --- |", " | ".join("---" for _ in WIDTHS), "|")
    for name in args.type:
        cells = (f"{counts['ours'][name, m]:.1f} / {counts['ggml'][name, m]:.1f}" for m in WIDTHS)
        print(f"| {name} |", " | ".join(cells), "|")


def count(side: str, types: list[str]) -> dict[tuple[str, int], float]:
    """Instructions for 32 weights and a row of activations, by type and number of rows."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={folder}/counts",
            f"--dump-before={MARK}", sys.executable, __file__, "--multiply", side,
            "--type", *types,
        ]  # fmt: skip
        subprocess.run(command, check=True)
        dumps = sorted(Path(folder).glob("counts.*"), key=lambda path: int(path.suffix[1:]))
        totals = [total(path) for path in dumps]
    products = list(itertools.product(types, WIDTHS))
    totals = totals[-3 * len(products) :]  # before, for nothing, for the product
    return {
        (name, m): (totals[3 * i + 2] - totals[3 * i + 1]) * 32 / (ROWS * COLUMNS * m)
        for i, (name, m) in enumerate(products)
    }


def total(dump: Path) -> int:
    found = re.search(r"^(?:totals|summary): (\d+)", dump.read_text(encoding="utf-8"), re.MULTILINE)
    return int(found[1]) if found else 0


def mark() -> None:
    """Has the function called from C: valgrind does not see what Python calls."""
    called = ctypes.cast(getattr(library(), MARK), ctypes.c_void_p)
    ctypes.CDLL(None).qsort(ctypes.create_string_buffer(2), 2, 1, called)


def multiply(side: str, types: list[str]) -> None:
    """What valgrind watches: one product for every type and width."""
    rng = np.random.default_rng(0)
    for name in types:
        rows = random_rows(ROWS, COLUMNS, Kind[name], rng)
        kind = Kind[name]
        products = Kernels([rows], kind) if side == "ours" else Ggml([rows], kind, WIDTHS)
        for m in WIDTHS:
            x = rng.standard_normal((m, COLUMNS), np.float32)
            mark()
            mark()
            products.multiply(x)
            mark()


if __name__ == "__main__":
    main()
