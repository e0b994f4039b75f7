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

from gemmachat.clusters import has_trained_clusters
from gemmachat.engine import Engine
from gemmachat.gguf_info import GgufInfo, read_header
from gemmachat.memory import BATCH
from gemmachat.native import library
from gemmachat.sampling import SamplingParams

PAGE = mmap.PAGESIZE
ANSWER = 24  # tokens
GROUP = 16  # rows of a weight matrix that gemmachat's kernels take together
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
    turns: int = 0,
    kernels: str = "auto",
) -> dict[str, int]:
    """Bytes by kind, from a fresh process: anonymous, mapped, streamed, packed.

    The prompt is as long as the context, but has no more than `prompt` tokens. Another one then
    comes in so many turns. Packed: of the
    files' weights, those that are held in the layout of gemmachat's kernels, anonymous memory.
    """
    command = [sys.executable, __file__, str(target), str(drafter or ""), str(n_ctx)]
    command += [
        "--prompt",
        str(prompt),
        "--turns",
        str(turns),
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
    parser.add_argument("--turns", type=int, default=0)
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
        another = prompt[::-1]
        turns = (another[: size * turn // args.turns] for turn in range(1, args.turns + 1))
        for tokens, n_answer in [(prompt, ANSWER), *((turn, 1) for turn in turns)]:
            for _ in session.generate(
                tokens, SamplingParams(temperature=1.0), draft=3, max_tokens=n_answer
            ):
                pass
        anonymous = _anonymous() - before
        read = [_read_in_place(header, engine.kernels) for header in headers]
        packed = sum(map(_packed_bytes, headers, read))
        assert packed == engine.packed_bytes
        found = {
            "anonymous": anonymous,
            "mapped": sum(map(_present, headers, read)),
            "streamed": _present(headers[0], {_STREAMED}),
            "packed": packed,
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


def _read_in_place(header: GgufInfo, kernels: str) -> set[str]:
    """The tensors that passes read from end to end where the file is mapped.

    Others are packed for gemmachat's kernels. Of an embedding whose packed copy is the output
    matrix a token reads one row, as of per-layer tables; a drafter with centroids packs no copy.
    """
    types = {kernel.split()[0] for kernel in kernels.split(", ")}
    packed = {
        name
        for name, tensor in header.tensors.items()
        if tensor.type_name.lower() in types and tensor.shape[1] % GROUP == 0
    }
    if has_trained_clusters(header):
        packed.discard(_EMBEDDING)
    return header.tensors.keys() - packed - {_STREAMED}


def _packed_bytes(header: GgufInfo, read: set[str]) -> int:
    return sum(
        tensor.nbytes
        for name, tensor in header.tensors.items()
        if name not in read and name != _STREAMED
    )


def _present(header: GgufInfo, names: set[str]) -> int:
    """Bytes of a file's pages with these tensors that are in this process's memory.

    The system maps the pages around those that are read too: they do not count. Of pages that are
    mapped twice one counts.
    """
    wanted: set[int] = set()
    for name in names & header.tensors.keys():
        begin, end = header.tensors[name].offset, header.tensors[name].offset
        end += header.tensors[name].nbytes
        wanted.update(range(begin // PAGE, -(-end // PAGE)))
    pages: set[int] = set()
    with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
        for mapping in _mappings(header.path):
            first = mapping.offset // PAGE
            size = (mapping.end - mapping.begin) // PAGE
            flags = memoryview(os.pread(pagemap.fileno(), 8 * size, 8 * (mapping.begin // PAGE)))
            pages.update(first + i for i, flag in enumerate(flags.cast("Q")) if flag & _PRESENT)
    return len(pages & wanted) * PAGE


if __name__ == "__main__":
    main()
