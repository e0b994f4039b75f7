"""Converting a checkpoint of the size of E2B against copying it: time, memory, bytes per second.

    python benchmarks/conversion.py FOLDER [--quant Q4_0]

FOLDER (about 30 GB of room) receives a checkpoint in E2B's exact shapes with synthetic BF16
weights, made once, its copies and its conversions. Copying and converting take turns (A B A B); the
page cache is as the one before left it.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from full_size import E2B
from real_vocab import real_vocab
from sparse_checkpoint import write_checkpoint

BLOCK = 64 << 20
TURNS = 3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quant", default="Q4_0")
    args = parser.parse_args()
    checkpoint = make_checkpoint(args.folder)
    weights = checkpoint / "model.safetensors"
    size = weights.stat().st_size
    output = args.folder / f"{args.quant}.gguf"
    copying, converting = [], []
    for _ in range(TURNS):
        copying.append(timed_copy(weights, args.folder / "copy"))
        converting.append(timed_conversion(checkpoint, output, args.quant))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(f"E2B's shapes, synthetic BF16 weights, {size / 1e9:.2f} GB, to {args.quant}")
    print(f"{platform.machine()}, {os.cpu_count()} processors; medians of {TURNS}, in turn")
    for what, seconds in (("cp and fsync", copying), ("convert", converting)):
        middle = statistics.median(seconds)
        print(f"{what:14}{middle:8.1f} s {size / middle / 1e6:8.0f} MB/s of source", seconds)
    print(f"output {output.stat().st_size / 1e9:.3f} GB, peak memory {peak / 1e9:.2f} GB")


def make_checkpoint(root: Path) -> Path:
    """Weights from a block of normal numbers, repeated: their values do not change the time."""
    folder = root / "gemma-4-E2B-it"
    if not folder.exists():
        tokenizer = root / "tokenizer"
        real_vocab().write_tokenizer(tokenizer)
        write_checkpoint(E2B, folder, tokenizer)
        rng = np.random.default_rng(0)
        numbers = (0.02 * rng.standard_normal(BLOCK // 2)).astype(np.float32)
        block = (numbers.view(np.uint32) >> 16).astype(np.uint16).tobytes()
        path = folder / "model.safetensors"
        with path.open("r+b") as file:
            file.seek(8 + int.from_bytes(file.read(8), "little"))
            left = path.stat().st_size - file.tell()
            while left:
                left -= file.write(block[:left])
    return folder


def timed_copy(source: Path, target: Path) -> float:
    began = time.monotonic()
    subprocess.run(["cp", source, target], check=True)
    with target.open("rb") as file:
        os.fsync(file.fileno())
    seconds = time.monotonic() - began
    target.unlink()
    return seconds


def timed_conversion(checkpoint: Path, output: Path, quant: str) -> float:
    command = shutil.which("gemmachat")
    assert command, "install gemmachat first"
    began = time.monotonic()
    subprocess.run(
        [command, "convert", checkpoint, "-o", output, "--quant", quant, "--force"],
        check=True,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    return time.monotonic() - began


if __name__ == "__main__":
    main()
