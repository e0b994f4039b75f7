"""Question and answer samples from the fact files: gemmachat, language models, Gemma 4."""

import random
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from .base import Sample, Turn, expand, is_reserved

FACTS = Path(__file__).parent / "facts"

FRAMES = (
    "What is {s}?",
    "What's {s}?",
    "Explain {s}",
    "Can you explain {s}?",
    "What does {s} mean?",
    "Tell me about {s}",
    "Tell me [more|something] about {s}",
    "How does {s} work?",
    "Please explain what {s} is",
    "I don't understand {s}",
    "What do you know about {s}?",
    "Describe {s}",
    "What exactly is {s}?",
    "Give me an explanation of {s}",
    "I want to understand {s}",
    "What is meant by {s}?",
    "Help me understand {s}",
    "Do you know what {s} is?",
    "Define {s}",
    "{s}?",
)
HOW = (
    "How do I {v}?",
    "How can I {v}?",
    "I want to {v}",
    "Is there a way to {v}?",
    "What is the command to {v}?",
    "Show me how to {v}",
    "Can I {v}?",
    "What do I have to do to {v}?",
    "Tell me how to {v}",
    "How to {v}?",
    "How does one {v}?",
    "I would like to {v}",
    "I need to {v}",
    "What should I type to {v}?",
    "Please explain how to {v}",
)
SHORT = (
    "{q} Answer in one sentence.",
    "In one sentence: {q}",
    "{q} Be brief.",
    "Briefly: {q}",
    "{q} Keep it short.",
    "{q} One sentence please.",
    "In short, {q}",
    "{q} Short answer please.",
)
CHILD = (
    "{q} Explain it to a child.",
    "{q} Explain it like I am five.",
    "Explain {s} to a child",
    "{q} Use simple words.",
    "How would you explain {s} to a child?",
    "Explain {s} in simple words",
)


@dataclass
class Fact:
    """One piece of knowledge: subjects, goals and questions that ask for it, answers of three
    lengths."""

    subjects: list[str] = field(default_factory=list)
    goals: list[str] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    short: list[str] = field(default_factory=list)
    child: list[str] = field(default_factory=list)


@cache
def load(name: str) -> tuple[Fact, ...]:
    """Reads one fact file; blank lines separate facts."""
    facts = []
    for block in (FACTS / name).read_text("utf-8").split("\n\n"):
        fact = Fact()
        targets = {"Q": fact.questions, "A": fact.answers, "1": fact.short, "K": fact.child}
        for line in block.splitlines():
            if not line or line.startswith("#"):
                continue
            mark, text = line.split(": ", 1)
            text = text.replace("\\n", "\n")
            if mark in "SV":
                (fact.subjects if mark == "S" else fact.goals).extend(text.split("|"))
            else:
                targets[mark].append(text)
        if not (fact.questions or fact.subjects):
            continue  # a comment block
        if not fact.answers:
            raise ValueError(f"{name}: a fact has no answer: {block[:80]!r}")
        facts.append(fact)
    return tuple(facts)


def question(rng: random.Random, fact: Fact) -> str:
    """A question for a fact, in one of the phrasings kept for training or for the held-out set."""
    ways = [
        w for w, given in (("S", fact.subjects), ("V", fact.goals), ("Q", fact.questions)) if given
    ]
    way = rng.choice(ways)
    if way == "V":
        return rng.choice(HOW).replace("{v}", rng.choice(fact.goals))
    if way == "S":
        pattern = rng.choice(FRAMES)
        subject = fact.subjects[0] if rng.random() < 0.6 else rng.choice(fact.subjects)
        text = expand(rng, pattern).replace("{s}", subject)
        return text[0].upper() + text[1:]
    return expand(rng, rng.choice(fact.questions))


def ask(rng: random.Random, fact: Fact) -> tuple[str, str, str]:
    """A question, its held-out key and an answer of the length that the question asks for."""
    base = question(rng, fact)
    kind = rng.random()
    if fact.child and kind < 0.1:
        frame = rng.choice(CHILD)
        subject = rng.choice(fact.subjects) if fact.subjects else ""
        if "{s}" not in frame or subject:
            text = frame.replace("{q}", base).replace("{s}", subject)
            return text, text, expand(rng, rng.choice(fact.child))
    if fact.short and kind < 0.25:
        text = rng.choice(SHORT).replace("{q}", base)
        return text, text, expand(rng, rng.choice(fact.short))
    return base, base, expand(rng, rng.choice(fact.answers))


def sample(rng: random.Random, kind: str, files: tuple[str, ...]) -> Sample:
    """One question about a random fact of the files."""
    facts = [fact for name in files for fact in load(name)]
    weights = [
        1.0 + 0.8 * min(len(f.questions) + 4 * bool(f.subjects) + 4 * bool(f.goals), 12)
        for f in facts
    ]
    text, key, answer = ask(rng, rng.choices(facts, weights)[0])
    return Sample(kind, (Turn("user", text, key), Turn("model", answer)))


def app(rng: random.Random) -> Sample:
    """A question about gemmachat itself."""
    return sample(rng, "gemmachat", ("app.txt", "app_more.txt"))


SIZES = {
    "E2B": (35, 1536, 131072, 512),
    "E4B": (42, 2560, 131072, 512),
    "12B": (48, 3840, 262144, 1024),
    "26B-A4B": (30, 2816, 262144, 1024),
    "31B": (60, 5376, 262144, 1024),
}
SIZE_ASKS = (
    (
        0,
        "How many layers does {m} have?|What is the number of layers of {m}?|How deep is {m}?"
        "|Number of layers in {m}?",
        "{m} has {v} layers.",
    ),
    (
        1,
        "What is the hidden width of {m}?|How wide is {m}?|What is the hidden size of {m}?"
        "|Hidden size of {m}?",
        "The hidden width of {m} is {v}.",
    ),
    (
        2,
        "How long is the context of {m}?|What is the context length of {m}?"
        "|How many tokens fit in {m}?|Context window of {m}?",
        "{m} has a context of {v} tokens.",
    ),
    (
        3,
        "What is the sliding window of {m}?|How big is the sliding window of {m}?"
        "|Sliding window size of {m}?",
        "{m} uses a sliding window of {v} tokens.",
    ),
)


def sizes(rng: random.Random) -> Sample:
    """A question about one number of one Gemma 4 size, or about the whole size."""
    size, values = rng.choice(list(SIZES.items()))
    model = f"Gemma 4 {size}"
    if rng.random() < 0.2:
        ask_text = rng.choice(("Tell me about {m}", "What is {m}?", "Describe {m}"))
        layers, width, context, window = values
        answer = (
            f"{model} is a model by Google with {layers} layers of width {width}. "
            f"Its context holds {context} tokens, and its sliding window is {window}."
        )
    else:
        field_index, asks, reply = rng.choice(SIZE_ASKS)
        ask_text = rng.choice(asks.split("|"))
        answer = reply.replace("{m}", model).replace("{v}", str(values[field_index]))
    text = ask_text.replace("{m}", rng.choice((model, model, size)))
    return Sample("ml", (Turn("user", text, text), Turn("model", answer)))


def ml(rng: random.Random) -> Sample:
    """A question about language models, decoding, files or Gemma 4's sizes."""
    if rng.random() < 0.15:
        return sizes(rng)
    return sample(rng, "ml", ("ml.txt",))


__all__ = ["FRAMES", "Fact", "app", "ask", "is_reserved", "load", "ml"]
