"""The memory that is estimated for a pair and a timeline, and what a process really holds.

    python benchmarks/memory.py TARGET.gguf DRAFTER.gguf [--contexts 1024,8192] [--exact]
        [--kv-type q8_0] [--flash off] [--prompt 540] [--kernels ggml]

Every row is a process of its own: it loads the pair, drops the pages of the files that loading has
read, fills the context, or as much of it as --prompt says, answers with drafts and looks at what is
in its memory; what earlier turns would take is left out. Anonymous: copies of weights in this
processor's layout, keys and values, buffers, the vocabulary. Mapped: pages of the files that passes
have read, per-layer tables left out.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gemmachat.gguf_info import read_header
from gemmachat.memory import estimate

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from resident_memory import measure

MIB = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("target", type=Path)
    parser.add_argument("drafter", type=Path)
    parser.add_argument("--contexts", default="1024")
    parser.add_argument("--prompt", type=int, default=1 << 20)
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--kv-type", choices=("f16", "q8_0"), default="f16")
    parser.add_argument("--kernels", choices=("auto", "ggml"), default="auto")
    parser.add_argument("--flash", choices=("auto", "on", "off"), default="auto")
    args = parser.parse_args()
    target, drafter = read_header(args.target), read_header(args.drafter)
    print(f"{args.target.name} + {args.drafter.name}, MiB")
    print(f"keys and values {args.kv_type}, flash attention {args.flash}, exact {args.exact}")
    print(f"matrix kernels {args.kernels}")
    print(f"{'context':>9}{'estimate':>10}{'held':>10}{'off by':>8}", end="")
    print("   weights  vocabulary  keys/values  buffers | anonymous  mapped  streamed")
    for n_ctx in map(int, args.contexts.split(",")):
        needed = estimate(
            target,
            drafter,
            n_ctx,
            exact=args.exact,
            kv_type=args.kv_type,
            flash_attention={"auto": None, "on": True, "off": False}[args.flash],
        )
        held = measure(
            args.target,
            args.drafter,
            n_ctx,
            exact=args.exact,
            kv_type=args.kv_type,
            flash=args.flash,
            prompt=args.prompt,
            kernels=args.kernels,
        )
        total = held["anonymous"] + held["mapped"]
        estimated = needed.total - needed.saved
        print(
            f"{n_ctx:9}{estimated / MIB:10.1f}{total / MIB:10.1f}"
            f"{estimated / total - 1:+8.1%}"
            f"{(needed.weights + needed.drafter) / MIB:10.1f}{needed.vocabulary / MIB:12.1f}"
            f"{needed.kv / MIB:13.1f}{needed.compute / MIB:9.1f} |{held['anonymous'] / MIB:10.1f}"
            f"{held['mapped'] / MIB:8.1f}{held['streamed'] / MIB:10.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
