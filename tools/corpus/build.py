"""Mixes the kinds into one corpus, keeps held-out questions apart, and reads and writes it."""

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from .base import Sample, Turn, add_noise, is_reserved
from .code import code
from .data import data
from .dialogue import dialogue, system
from .facts import app, ml
from .language import language
from .talk import out_of_scope, talk

NOISY = frozenset({"gemmachat", "ml", "scope", "talk", "code"})
MIX: tuple[tuple[float, Callable[[random.Random], Sample]], ...] = (
    (22, app), (17, ml), (12, code), (13, data), (24, language), (10, dialogue), (6, system),
    (7, out_of_scope), (9, talk),
)  # fmt: skip
# Chosen so that a model trained once over the corpus sees each turn position up to 1,000 tokens.
CHAIN_SHARE = 0.10
LONG_SHARE = 0.02
MAX_COPIES = 40


def one(rng: random.Random) -> Sample:
    """One sample of a random kind, with question noise."""
    maker = rng.choices([m for _, m in MIX], [w for w, _ in MIX])[0]
    return add_noise(rng, maker(rng), NOISY)


def chain(rng: random.Random, length: int) -> Sample:
    """Several unrelated exchanges in one conversation, as people use a chat."""
    turns: list[Turn] = []
    while len(turns) < 2 * length:
        part = one(rng)
        if part.turns[0].role != "system":
            turns.extend(part.turns)
    return Sample("chain", tuple(turns))


def stream(seed: int) -> Iterator[Sample]:
    """An endless, reproducible stream of samples."""
    rng = random.Random(seed)
    while True:
        roll = rng.random()
        if roll < LONG_SHARE:
            yield chain(rng, rng.randint(8, 16))
        elif roll < LONG_SHARE + CHAIN_SHARE:
            yield chain(rng, rng.randint(2, 5))
        else:
            yield one(rng)


def _reserved(sample: Sample) -> bool:
    return any(turn.key and is_reserved(turn.key) for turn in sample.turns)


def split(seed: int, train: int, held_out: int) -> tuple[list[Sample], list[Sample]]:
    """`train` samples free of held-out questions, and `held_out` samples made only of new ones.

    A sample of several turns is held out when its first question is; one that holds some held-out
    question elsewhere is dropped, so no such question is ever trained on.
    """
    seen: Counter[str] = Counter()
    kept: list[Sample] = []
    new: list[Sample] = []
    new_texts: set[str] = set()
    for sample in stream(seed):
        text = "\n".join(turn.text for turn in sample.turns)
        if _reserved(sample):
            if len(new) < held_out and text not in new_texts and _fresh(sample):
                new_texts.add(text)
                new.append(sample)
        elif len(kept) < train:
            seen[text] += 1
            if seen[text] <= MAX_COPIES:
                kept.append(sample)
        if len(kept) >= train and len(new) >= held_out:
            return kept, new
    raise AssertionError("the stream is endless")


def _fresh(sample: Sample) -> bool:
    first = next(turn for turn in sample.turns if turn.role == "user")
    return is_reserved(first.key) or sample.kind in ("dialogue", "system", "chain")


def normalise(text: str) -> str:
    """A question's words alone, for comparing questions."""
    return re.sub(r"[^\w]+", " ", text.lower()).strip()


def write(samples: list[Sample], path: Path) -> None:
    """One JSON object per line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for sample in samples:
            file.write(json.dumps(asdict(sample), ensure_ascii=False) + "\n")


def read(path: Path) -> list[Sample]:
    """Reads what `write` wrote."""
    samples = []
    for line in path.read_text("utf-8").splitlines():
        raw = json.loads(line)
        samples.append(Sample(raw["kind"], tuple(Turn(**turn) for turn in raw["turns"])))
    return samples
