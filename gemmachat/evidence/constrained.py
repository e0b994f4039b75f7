"""Answers under a grammar: every one that the model finished must parse."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING

from gemmachat.grammar import schema_grammar
from gemmachat.json_schema import any_object
from gemmachat.parse import without_thoughts
from gemmachat.sampling import SamplingParams

if TYPE_CHECKING:
    from gemmachat.evidence.answers import Examiner, Verdict

MAX_TOKENS = 96  # of one answer
MIN_FINISHED = 4  # fewer finished answers show little
SHOWN = 3  # invalid answers, in the readable report
DRAFTS = (3, 1, 7)
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 24}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
# The second is hot, so that the grammar has much to forbid.
SAMPLINGS = (SamplingParams(), SamplingParams(temperature=1.5, top_k=0, top_p=1.0))


@dataclass(frozen=True, slots=True)
class InvalidAnswer:
    """A finished answer that breaks its grammar."""

    grammar: str
    prompt: str
    text: str


@dataclass(frozen=True, slots=True)
class ConstrainedOutput:
    """All answers under a grammar."""

    answers: int
    finished: int
    drafted: int
    accepted: int
    invalid: tuple[InvalidAnswer, ...]

    @property
    def name(self) -> str:
        """Key in the report."""
        return "constrained_output"

    @property
    def verdict(self) -> Verdict:
        """One invalid answer is a failure."""
        if self.invalid:
            return "failed"
        return "passed" if self.finished >= MIN_FINISHED and self.drafted else "too few samples"

    def lines(self) -> list[str]:
        """The counts, and the first invalid answers."""
        return [
            f"constrained to JSON: {self.finished - len(self.invalid)} of {self.finished} finished "
            f"answers parse, {self.answers - self.finished} cut at {MAX_TOKENS} tokens: "
            f"{self.verdict}",
            *(f"  {each.grammar}: {each.text!r:.80}" for each in self.invalid[:SHOWN]),
        ]

    def as_dict(self) -> dict[str, object]:
        """The counts and all invalid answers."""
        return {"verdict": self.verdict, **asdict(self)}


def check_constrained(examiner: Examiner, prompts: tuple[str, ...]) -> ConstrainedOutput:
    """Answer the prompts under the grammar of any JSON object and of a small schema, drafted."""
    deadline = time.monotonic() + examiner.effort.constrained_s
    answers = finished = drafted = accepted = 0
    invalid = []
    kinds = _kinds()
    with examiner.session() as session:
        for number in range(examiner.effort.constrained):
            if answers and time.monotonic() > deadline:
                break
            examiner.progress(f"constrained: answer {number + 1}/{examiner.effort.constrained}")
            label, grammar, parses = kinds[number % len(kinds)]
            prompt = prompts[number // len(kinds) % len(prompts)]
            base = SAMPLINGS[number // (len(kinds) * len(prompts)) % len(SAMPLINGS)]
            answer = examiner.ask(
                session,
                prompt,
                SamplingParams(
                    temperature=base.temperature,
                    top_k=base.top_k,
                    top_p=base.top_p,
                    seed=number,
                    grammar=grammar,
                ),
                draft=DRAFTS[number % len(DRAFTS)],
                max_tokens=MAX_TOKENS,
            )
            answers += 1
            drafted += answer.drafted
            accepted += answer.accepted
            if answer.complete:
                finished += 1
                data = _said(examiner, answer.tokens)
                if not parses(data):
                    text = data.decode("utf-8", "backslashreplace")
                    invalid.append(InvalidAnswer(label, prompt, text))
    return ConstrainedOutput(answers, finished, drafted, accepted, tuple(invalid))


@cache
def _kinds() -> tuple[tuple[str, str, Callable[[bytes], bool]], ...]:
    return (
        ("any JSON object", any_object(), _is_object),
        ("a schema", schema_grammar(json.dumps(SCHEMA)), _follows_schema),
    )


def _said(examiner: Examiner, tokens: tuple[int, ...]) -> bytes:
    """The answer without its thought, which no grammar binds."""
    vocab = examiner.engine.vocab
    kept = without_thoughts(tokens, examiner.format.marks)
    return b"".join(vocab.piece(token) for token in kept if not vocab.is_end(token))


def _is_object(data: bytes) -> bool:
    return isinstance(_parsed(data), dict)


def _follows_schema(data: bytes) -> bool:
    found = _parsed(data)
    return (
        isinstance(found, dict)
        and found.keys() == {"name", "age"}
        and isinstance(found["name"], str)
        and type(found["age"]) is int
    )


def _parsed(data: bytes) -> object:
    try:
        return json.loads(data.decode())
    except ValueError:
        return None
