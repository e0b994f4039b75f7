"""Shared parts of the corpus: turns, samples, pattern expansion, question noise, held-out keys."""

import random
import re
import zlib
from dataclasses import dataclass, replace

CONTROL = "\0"
HELD_OUT = 25

_ALTERNATION = re.compile(r"\[([^\[\]]*\|[^\[\]]*)\]")
_PREFIXES = (
    "please ", "hi, ", "hey, ", "hello, ", "can you tell me: ", "quick question: ", "ok, ", "so, ",
    "I wonder: ", "please tell me: ", "one more thing: ", "hi! ", "could you please help: ",
)  # fmt: skip
_SUFFIXES = (" please", " Thanks!", " thanks", " Thank you.")


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn. `text` may hold control tokens between CONTROL marks; `key` identifies a question
    without its noise, so that a held-out question never appears in training."""

    role: str
    text: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Sample:
    """One conversation of a kind."""

    kind: str
    turns: tuple[Turn, ...]


def control(name: str) -> str:
    """Marks a control token inside a turn's text."""
    return CONTROL + name + CONTROL


def expand(rng: random.Random, pattern: str) -> str:
    """Chooses one alternative in every `[a|b]` of a pattern, innermost first."""
    while match := _ALTERNATION.search(pattern):
        choice = rng.choice(match[1].split("|"))
        pattern = pattern[: match.start()] + choice + pattern[match.end() :]
    return pattern


def is_reserved(key: str) -> bool:
    """Whether a question belongs to the held-out set: decided by its normalised text alone."""
    plain = re.sub(r"[^\w]+", " ", key.lower()).strip()
    return zlib.crc32(plain.encode()) % HELD_OUT == 0


def noisy(rng: random.Random, text: str) -> str:
    """A question as people type it: lower case, without its mark, with a polite word."""
    roll = rng.random()
    if roll < 0.45 or "\n" in text or not text.isascii():
        return text
    if roll < 0.60:
        return text[0].lower() + text[1:]
    if roll < 0.70:
        return text.lower().rstrip("?.")
    if roll < 0.80:
        return text.rstrip("?.")
    if roll < 0.92:
        keep = text[:2] == "I " or text.split(" ")[0].isupper()
        prefix = rng.choice(_PREFIXES)
        prefix = prefix[0].upper() + prefix[1:] if rng.random() < 0.6 else prefix
        return prefix + (text if keep else text[0].lower() + text[1:])
    return text + rng.choice(_SUFFIXES)


def add_noise(rng: random.Random, sample: Sample, kinds: frozenset[str]) -> Sample:
    """Applies question noise to the user turns of the kinds where it cannot change the answer."""
    if sample.kind not in kinds:
        return sample
    turns = tuple(
        replace(turn, text=noisy(rng, turn.text)) if turn.role == "user" else turn
        for turn in sample.turns
    )
    return replace(sample, turns=turns)


def single(kind: str, question: str, answer: str, key: str = "", system: str = "") -> Sample:
    """A one-question sample, with an optional system turn."""
    head = (Turn("system", system),) if system else ()
    return Sample(kind, (*head, Turn("user", question, key or question), Turn("model", answer)))
