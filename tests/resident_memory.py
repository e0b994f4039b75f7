"""What a process really holds in memory of a loaded pair and a full timeline. Linux only.

Run as a program, it measures one setting in a process of its own and prints bytes as JSON.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gemmachat.engine import Engine
from gemmachat.gguf_info import GgufInfo, read_header
from gemmachat.memory import BATCH
from gemmachat.native import library
from gemmachat.sampling import SamplingParams

PAGE = mmap.PAGESIZE
ANSWER = 24  # tokens
_STREAMED, _EMBEDDING = "per_layer_token_embd.weight", "token_embd.weight"
_PRESENT = 1 << 63  # of an entry in /proc/self/pagemap


class Mapping(NamedTuple):
    """A part of a file in memory: addresses, and where in the file the first is."""

    begin: int
    end: int
    offset: int


def measure(
    target: Path,
    drafter: Path | None,
    n_ctx: int,
    *,
    exact: bool = False,
    kv_type: str = "f16",
    flash: str = "auto",
    prompt: int = 1 << 20,
    kernels: str = "auto",
) -> dict[str, int]:
    """Bytes by kind, from a fresh process: anonymous, mapped, streamed, packed.

    The prompt is as long as the context, but has no more than `prompt` tokens. Packed: of the
    files' weights, those that are held in the layout of gemmachat's kernels, anonymous memory.
    """
    command = [sys.executable, __file__, str(target), str(drafter or ""), str(n_ctx)]
    command += [
        "--prompt",
        str(prompt),
        "--kv-type",
        kv_type,
        "--flash",
        flash,
        "--kernels",
        kernels,
        *(["--exact"] if exact else []),
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("target", type=Path)
    parser.add_argument("drafter")
    parser.add_argument("n_ctx", type=int)
    parser.add_argument("--prompt", type=int, default=1 << 20)
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--kv-type", default="f16")
    parser.add_argument("--flash", choices=("auto", "on", "off"), default="auto")
    parser.add_argument("--kernels", choices=("auto", "ggml"), default="auto")
    args = parser.parse_args()
    drafter = Path(args.drafter) if args.drafter else None
    headers = [read_header(path) for path in (args.target, drafter) if path is not None]
    library()
    before = _anonymous()
    with (
        Engine.load(args.target, drafter, kernels=args.kernels) as engine,
        engine.session(
            n_ctx=args.n_ctx,
            exact=args.exact,
            kv_type=args.kv_type,
            flash_attention={"auto": None, "on": True, "off": False}[args.flash],
        ) as session,
    ):
        # Loading has read the files from end to end: what passes read is what comes back.
        for header in headers:
            _drop(header.path)
        rng = random.Random(0)
        # Whole batches: the last is the one that takes most.
        size = (min(args.n_ctx, args.prompt) - ANSWER - 1) // BATCH * BATCH + 1
        prompt = [rng.randrange(300, 4000) for _ in range(size)]
        for _ in session.generate(
            prompt, SamplingParams(temperature=1.0), draft=3, max_tokens=ANSWER
        ):
            pass
        mapped = sum(_present(header) for header in headers)
        streamed = _present(headers[0], _STREAMED)
        found = {
            "anonymous": _anonymous() - before,
            "mapped": mapped - streamed,
            "streamed": streamed,
            "packed": engine.packed_bytes,
            "embedding": _present(headers[0], _EMBEDDING),
        }
    print(json.dumps(found))


def _anonymous() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def _mappings(path: Path) -> Iterator[Mapping]:
    name = str(path.resolve())
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5] == name:
            begin, end = (int(address, 16) for address in fields[0].split("-"))
            yield Mapping(begin, end, int(fields[2], 16))


def _drop(path: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for mapping in _mappings(path):
        size = mapping.end - mapping.begin
        assert libc.madvise(mapping.begin, size, mmap.MADV_DONTNEED) == 0


def _present(header: GgufInfo, name: str | None = None) -> int:
    """Bytes of a file, or of one tensor in it, that are in this process's memory.

    Of pages that are mapped twice one counts.
    """
    begin, end = 0, header.path.stat().st_size
    if name is not None:
        if name not in header.tensors:
            return 0
        begin = header.tensors[name].offset
        end = begin + header.tensors[name].nbytes
    pages: set[int] = set()
    with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
        for mapping in _mappings(header.path):
            first = max(begin, mapping.offset) // PAGE
            last = -(-min(end, mapping.offset + mapping.end - mapping.begin) // PAGE)
            at = mapping.begin // PAGE + first - mapping.offset // PAGE
            entries = os.pread(pagemap.fileno(), 8 * max(last - first, 0), 8 * at)
            flags = memoryview(entries).cast("Q")
            pages.update(first + i for i, flag in enumerate(flags) if flag & _PRESENT)
    return len(pages) * PAGE


if __name__ == "__main__":
    main()
