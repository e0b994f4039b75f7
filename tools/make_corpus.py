"""Writes the corpus (train.jsonl, held_out.jsonl) and trains the tokenizer on it."""

import argparse
from pathlib import Path

from . import tokenizer
from .corpus import build

TRAIN, HELD_OUT = 30_000, 1_200


def make(out: Path, seed: int, train: int, held_out: int) -> None:
    """Fills OUT/corpus and OUT/tokenizer."""
    kept, new = build.split(seed, train, held_out)
    build.write(kept, out / "corpus" / "train.jsonl")
    build.write(new, out / "corpus" / "held_out.jsonl")
    # Roles open every turn, so they deserve a token of their own.
    texts = [turn.text for sample in kept for turn in sample.turns]
    roles = [turn.role for sample in kept for turn in sample.turns] + ["system"] * len(kept)
    tokenizer.save(tokenizer.train(texts + roles), out / "tokenizer")


def main() -> None:
    """Command line of `make`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--train", type=int, default=TRAIN)
    parser.add_argument("--held-out", type=int, default=HELD_OUT)
    args = parser.parse_args()
    make(args.out, args.seed, args.train, args.held_out)


if __name__ == "__main__":
    main()
