"""Gemma 4's tokenizer in plain Python: what llama.cpp must make of a converted vocabulary."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

SPACE = "\u2581"


class ReferenceTokenizer:
    """Byte pairs on whole lines. `added` tokens are found in the raw text, longest first."""

    def __init__(
        self, tokens: Sequence[str], merges: Sequence[Sequence[str]], added: Sequence[str] = ()
    ) -> None:
        self._ids = {token: index for index, token in enumerate(tokens)}
        self._ranks = {(left, right): rank for rank, (left, right) in enumerate(merges)}
        choices = sorted(added, key=len, reverse=True)
        self._added = re.compile("(" + ("|".join(map(re.escape, choices)) or "(?!)") + ")")

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for index, part in enumerate(self._added.split(text)):
            if index % 2:
                ids.append(self._ids[part])
                continue
            for line in re.findall(r"[^\n]+|\n+", part.replace(" ", SPACE)):
                ids.extend(self._encode_line(line))
        return ids

    def _encode_line(self, line: str) -> list[int]:
        if not line.strip("\n") and line in self._ids:
            return [self._ids[line]]
        symbols = list(line)
        while True:
            pairs = [
                (self._ranks[pair], at)
                for at, pair in enumerate(itertools.pairwise(symbols))
                if pair in self._ranks
            ]
            if not pairs:
                break
            _, at = min(pairs)
            symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
        return [index for symbol in symbols for index in self._symbol(symbol)]

    def _symbol(self, symbol: str) -> list[int]:
        if symbol in self._ids:
            return [self._ids[symbol]]
        return [self._ids[f"<0x{byte:02X}>"] for byte in symbol.encode()]
