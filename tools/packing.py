"""Packs conversations into rows of two fixed lengths, so that compiled training sees two shapes."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from .corpus.base import Sample
from .models import SHARED
from .tokenizer import Codec

SHORT, LONG = 256, 1024
BATCH_TOKENS = 5120
OPEN_ROWS = 64
Encoded = tuple[list[int], list[bool]]


@dataclass(frozen=True, slots=True)
class Batch:
    """Packed rows, all [B, L]: ids, which tokens the model produces, segment (0 is padding), and
    each token's position within its conversation."""

    ids: Tensor
    own: Tensor
    segments: Tensor
    positions: Tensor

    def masks(self, strict: bool = False) -> dict[str, Tensor]:
        """Who may look at whom, bool [B, 1, L, L]: earlier tokens of the same conversation.

        With `strict` a token does not see itself; the first of a row then sees only itself, since
        a row without any key has no softmax.
        """
        length = self.ids.shape[1]
        same = self.segments[:, :, None] == self.segments[:, None, :]
        distance = torch.arange(length)[:, None] - torch.arange(length)[None, :]
        full = same & (distance >= (1 if strict else 0))
        sliding = full & (distance < SHARED["sliding_window"])
        if strict:
            alone = torch.eye(length, dtype=torch.bool) & (self.positions == 0)[:, :, None]
            full, sliding = full | alone, sliding | alone
        return {"full_attention": full[:, None], "sliding_attention": sliding[:, None]}


def encode(codec: Codec, samples: list[Sample]) -> list[Encoded]:
    """Ids and ownership of every conversation that fits the longer row."""
    encoded = [codec.conversation(sample.turns) for sample in samples]
    return [item for item in encoded if len(item[0]) <= LONG]


def _rows(data: list[Encoded], length: int) -> list[list[Encoded]]:
    """Best-fit packing with a bounded number of open rows."""
    closed: list[list[Encoded]] = []
    rows: list[tuple[int, list[Encoded]]] = []
    for item in data:
        size = len(item[0])
        fitting = [i for i, (room, _) in enumerate(rows) if room >= size]
        if fitting:
            i = min(fitting, key=lambda i: rows[i][0])
            room, row = rows[i]
            row.append(item)
            rows[i] = (room - size, row)
        else:
            if len(rows) == OPEN_ROWS:
                fullest = min(range(len(rows)), key=lambda i: rows[i][0])
                closed.append(rows.pop(fullest)[1])
            rows.append((length - size, [item]))
    return closed + [row for _, row in rows]


def _batch(rows: list[list[Encoded]], length: int) -> Batch:
    shape = (len(rows), length)
    ids, segments = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
    own, positions = torch.zeros(shape, dtype=torch.bool), torch.zeros(shape, dtype=torch.long)
    for r, row in enumerate(rows):
        start = 0
        for number, (tokens, produced) in enumerate(row, 1):
            end = start + len(tokens)
            ids[r, start:end] = torch.tensor(tokens)
            own[r, start:end] = torch.tensor(produced)
            segments[r, start:end] = number
            positions[r, start:end] = torch.arange(len(tokens))
            start = end
    return Batch(ids, own, segments, positions)


def batches(data: list[Encoded], seed: int, tokens: int = BATCH_TOKENS) -> Iterator[Batch]:
    """All conversations once, `tokens` ids per batch, in an order fixed by the seed.

    The incomplete last batch of each shape is dropped unless it is the only one.
    """
    rng = random.Random(seed)
    shuffled = rng.sample(data, len(data))
    plan: list[tuple[int, list[list[Encoded]]]] = []
    for length in (SHORT, LONG):
        fitting = [d for d in shuffled if (len(d[0]) <= SHORT) == (length == SHORT)]
        rows = _rows(fitting, length)
        rng.shuffle(rows)
        size = tokens // length
        groups = [rows[i : i + size] for i in range(0, len(rows), size)]
        plan += [(length, group) for group in groups if len(group) == size or len(groups) == 1]
    rng.shuffle(plan)
    for length, group in plan:
        yield _batch(group, length)
