"""One token from one row of 262,144 logits: gemmachat's code against llama.cpp's, side by side.

    python benchmarks/sampling.py

Both get the same synthetic rows, in turn (A B A B), and each call filters and draws. llama.cpp is
the library that gemmachat runs on, with the chain of samplers and the array of candidates that its
own programs use (`llama_chain.cpp`, compiled here). Prints medians.

The rows are made up: `peaked` is normal noise with 40 large values, where a few tokens hold the
mass, as after most words of a text; `noise` is the noise alone, with thousands of likely tokens;
`flat` has all of them about equally likely, which no trained model answers.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.metadata
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import llama_cpp.llama_cpp as llama
import numpy as np

from gemmachat.native import library
from gemmachat.native_structs import MAX_WIDTH, NativeSampling

N_VOCAB = 262_144
N_ROWS = 8

SETTINGS = {
    "top-k 64, top-p 0.95": {"top_k": 64, "top_p": 0.95},
    "top-p 0.95": {"top_p": 0.95},
    "min-p 0.05": {"min_p": 0.05},
    "no filter": {},
    "greedy": {"temperature": 0.0},
}

Sampler = Callable[[ctypes.Array], int]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=12, help="turns of 8 rows")
    args = parser.parse_args()
    release = importlib.metadata.version("llama-cpp-python")
    print(f"{platform.machine()}, llama.cpp of llama-cpp-python {release}, temperature 1")
    print(f"median of {args.repeats * N_ROWS} calls of each, taken in turn, in microseconds;")
    print(f"an empty call takes {empty_call():.1f}\n")
    print("| rows | sampling | gemmachat | llama.cpp | ratio |")
    print("| --- | --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        chain_library = compile_chain(Path(folder))
        for kind, rows in make_rows().items():
            for name, setting in SETTINGS.items():
                samplers = [ours(setting), theirs(setting, chain_library)]
                a, b = measure(samplers, rows, args.repeats)
                print(f"| {kind} | {name} | {a:,.0f} | {b:,.0f} | {b / a:.1f} |")


def make_rows() -> dict[str, np.ndarray]:
    """Logits by kind, float32 [N_ROWS, N_VOCAB]."""
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 3, (N_ROWS, N_VOCAB)).astype(np.float32)
    peaked = noise.copy()
    for row in peaked:
        row[rng.choice(N_VOCAB, 40, replace=False)] = rng.uniform(10, 22, 40)
    flat = rng.normal(0, 0.5, (N_ROWS, N_VOCAB)).astype(np.float32)
    return {"peaked": peaked, "noise": noise, "flat": flat}


def ours(setting: dict[str, float]) -> Sampler:
    """Draw through the function that the tests draw with: a round without drafts."""
    defaults = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
    sampling = NativeSampling(**{**defaults, **setting}, seed=1)
    draw, where = library().gc_verify_rounds, ctypes.byref(sampling)
    tokens, count = (ctypes.c_int32 * MAX_WIDTH)(), (ctypes.c_int32 * 1)()

    def sample(row: ctypes.Array) -> int:
        assert draw(row, None, 0, N_VOCAB, where, False, 1, tokens, count) == 0
        return tokens[0]

    return sample


def theirs(setting: dict[str, float], chain_library: ctypes.CDLL) -> Sampler:
    """Draw through a chain in the order of llama.cpp's own programs.

    It applies the temperature last, which at temperature 1 is all the same.
    """
    chain = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
    if setting.get("temperature") == 0.0:
        samplers = [llama.llama_sampler_init_greedy()]
    else:
        samplers = [llama.llama_sampler_init_temp(1.0), llama.llama_sampler_init_dist(1)]
        if "min_p" in setting:
            samplers.insert(0, llama.llama_sampler_init_min_p(setting["min_p"], 1))
        if "top_p" in setting:
            samplers.insert(0, llama.llama_sampler_init_top_p(setting["top_p"], 1))
        if "top_k" in setting:
            samplers.insert(0, llama.llama_sampler_init_top_k(int(setting["top_k"])))
    for sampler in samplers:
        llama.llama_sampler_chain_add(chain, sampler)
    draw = chain_library.sample_row
    draw.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_float), ctypes.c_int32]
    return lambda row: draw(chain, row, N_VOCAB)


def compile_chain(folder: Path) -> ctypes.CDLL:
    """llama_chain.cpp as a library that uses the llama.cpp which is loaded already."""
    package = Path(str(importlib.metadata.distribution("llama-cpp-python").locate_file("")))
    built = folder / "llama_chain.so"
    source = Path(__file__).with_name("llama_chain.cpp")
    include, lib = f"-I{package / 'include'}", f"-L{package / 'llama_cpp' / 'lib'}"
    flags = ["-std=c++17", "-O3", "-shared", "-fPIC"]
    subprocess.run(
        ["c++", *flags, include, str(source), lib, "-lllama", "-o", str(built)], check=True
    )
    return ctypes.CDLL(str(built))


def measure(samplers: list[Sampler], rows: np.ndarray, repeats: int) -> list[float]:
    """Median microseconds of a call, by sampler; the first turn does not count.

    Every call finds its row just written, as by the model that has computed it.
    """
    row = np.empty_like(rows[0])
    pointer = row.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    times: list[list[float]] = [[] for _ in samplers]
    for turn in range(repeats + 1):
        for computed in rows:
            for sample, taken in zip(samplers, times, strict=True):
                row[:] = computed
                start = time.perf_counter()
                sample(pointer)
                if turn > 0:
                    taken.append(time.perf_counter() - start)
    return [statistics.median(taken) * 1e6 for taken in times]


def empty_call() -> float:
    """Microseconds of a call into the library that does nothing."""
    call = library().gc_abi_version
    taken = []
    for _ in range(1000):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1e6


if __name__ == "__main__":
    main()
