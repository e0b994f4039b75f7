"""What every check needs: prompts, answers, how much effort to spend, how to state an outcome."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from gemmachat.conversation import Message
from gemmachat.evidence.counters import Ledger
from gemmachat.prompt import PromptFormat

if TYPE_CHECKING:
    from gemmachat.engine import Engine
    from gemmachat.sampling import SamplingParams
    from gemmachat.session import DraftPolicy, Session, TokenEvent

CONTEXT = 1024  # tokens; holds every prompt and its answer

Progress = Callable[[str], None]
Verdict = Literal["passed", "failed", "too few samples", "reported"]
"""Too few samples: the check cannot tell. Reported: a figure, of which nothing is promised."""


class Check(Protocol):
    """The outcome of one check."""

    @property
    def name(self) -> str:
        """Key in the report."""

    @property
    def verdict(self) -> Verdict:
        """What the evidence says."""

    def lines(self) -> list[str]:
        """The outcome for a reader, at most 100 columns wide."""

    def as_dict(self) -> dict[str, object]:
        """The outcome for a program."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to ask for: counts, and times in seconds that bound what slow models are asked."""

    texts: int | None = None
    """Greedy texts for each draft length; None is all prompts."""
    greedy_s: float = 60.0
    """For the undrafted texts in exact mode; what fits is then drafted with every length."""
    samples: tuple[int, ...] = (100, 200, 400, 800, 1600)
    """Sampled answers per setting, prompt and side: the largest number that fits. A smaller one
    makes no test."""
    samples_s: float = 60.0
    first_samples_s: float = 240.0
    """For the smallest number of samples, in all settings together."""
    constrained: int = 24
    """Constrained answers."""
    constrained_s: float = 90.0


@dataclass(frozen=True, slots=True)
class TestPrompt:
    """One built-in prompt and what kind of text it asks for."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Prompts:
    """The built-in prompts, by the check that uses them."""

    greedy: tuple[TestPrompt, ...]
    """The kinds take turns, so that the first few are of many kinds."""
    sampled: tuple[str, ...]
    """Those whose answers vary from the first token on."""
    constrained: tuple[str, ...]


def load_prompts() -> Prompts:
    """Return the built-in prompts."""
    path = Path(__file__).parent.parent / "prompts" / "selftest.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    by_kind = [
        [TestPrompt(kind, text) for text in texts] for kind, texts in stored["greedy"].items()
    ]
    in_turn = chain.from_iterable(zip_longest(*by_kind))
    return Prompts(
        greedy=tuple(prompt for prompt in in_turn if prompt is not None),
        sampled=tuple(stored["sampled"]),
        constrained=tuple(stored["constrained"]),
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer: its tokens, how it ended, and how drafting went."""

    tokens: tuple[int, ...]
    complete: bool
    """Whether the model ended it, not a limit."""
    drafted: int
    accepted: int


class Examiner:
    """Asks a loaded pair; every drafted answer that it reads to the end goes into its ledger."""

    def __init__(self, engine: Engine, progress: Progress, effort: Effort) -> None:
        self.engine = engine
        self.progress = progress
        self.effort = effort
        self.ledger = Ledger()
        self.format = PromptFormat(engine.vocab, engine.chat_template)

    def session(self, *, exact: bool = False) -> Session:
        """A timeline that holds every prompt and its answer."""
        return self.engine.session(n_ctx=min(CONTEXT, self.engine.context_length), exact=exact)

    def prompt(self, text: str) -> list[int]:
        """The tokens of a conversation in which the user has said `text`."""
        return self.format.render([Message("user", text)])

    def ask(
        self,
        session: Session,
        text: str,
        sampling: SamplingParams,
        *,
        draft: int,
        max_tokens: int,
    ) -> Answer:
        """Read one answer to its end; a `draft` of 0 is none."""
        policy: DraftPolicy = draft or "off"
        stream = session.generate(self.prompt(text), sampling, draft=policy, max_tokens=max_tokens)
        events: Sequence[TokenEvent] = list(stream)
        stats = session.stats()
        if draft:
            self.ledger.enter(events, stats, draft)
        return Answer(
            tokens=tuple(event.token for event in events if event.token is not None),
            complete=events[-1].finish_reason == "stop",
            drafted=stats.drafted,
            accepted=stats.accepted,
        )
