"""One message of the model: generated on a session, split into its parts, kept exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gemmachat.conversation import Message, ToolCall
from gemmachat.parse import Parser, Part, Piece, without_thoughts
from gemmachat.stop import StopStrings
from gemmachat.tool_calls import CallError, read_call, with_error

if TYPE_CHECKING:
    from gemmachat.prompt import PromptFormat
    from gemmachat.sampling import SamplingParams
    from gemmachat.session import DraftPolicy, FinishReason, Session
    from gemmachat.stats import Stats
    from gemmachat.vocab import Vocab

UNREADABLE = "unreadable call"
"""The name of what cannot be read as a call; its result says why."""


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """What stays the same from answer to answer. Without a seed each answer draws its own."""

    sampling: SamplingParams
    draft: DraftPolicy
    max_tokens: int | None
    """Of one answer, all its messages together."""
    exact: bool
    """Whether the session runs every pass at one width."""
    stop: tuple[str, ...] = ()
    """Texts at which an answer, but not a thought, ends without them."""
    think: bool = False
    """Whether the model is asked to think before it answers."""
    thought_budget: int | None = None
    """Tokens after which a thought is closed, so that the answer begins."""
    given: frozenset[str] = frozenset()
    """Names of what the user asked for, which a server is sent also where it is the default."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One finished answer. `tokens` are all ids that were generated, thoughts and end included."""

    text: str
    thinking: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    seed: int | None
    """None where none was asked for: what is drafted then depends on the clock, and shows."""
    stats: Stats
    logprobs: tuple[dict[str, Any], ...]
    """Of every token, where they were asked for, as they go into JSON."""
    tool_calls: tuple[ToolCall, ...] = ()
    """In order, with their results."""


class Generation:
    """Generates one message. Iterate over `run`, then read what came of it."""

    def __init__(
        self, session: Session, vocab: Vocab, style: PromptFormat, options: GenerationOptions
    ) -> None:
        self.tokens: list[int] = []
        self.logprobs: list[dict[str, Any]] = []
        self.finish_reason: FinishReason = "stop"
        self.stretches: list[Stats] = []
        """What it cost, by stretches of the timeline that were generated without a stop."""
        self._session = session
        self._vocab = vocab
        self._format = style
        self._options = options
        self._parser = Parser(style.marks)
        self._stops = StopStrings(options.stop)
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._thought_tokens = 0

    def run(self, prompt: list[int], max_tokens: int | None) -> Iterator[Piece]:
        """Stream the pieces of the message that follows on `prompt`."""
        while True:
            left = None if max_tokens is None else max_tokens - len(self.tokens)
            if left is not None and left < 1:
                self.finish_reason = "length"
                return
            if self.tokens and len(prompt) + len(self.tokens) >= self._session.n_ctx:
                self.finish_reason = "context"
                return
            yield from self._stretch(prompt + self.tokens, left)
            self.stretches.append(self._session.stats())
            if not self._is_overdue():
                return
            # The thought is closed for the model, which goes on from there.
            for token in self._format.end_of_thought:
                self.tokens.append(token)
                yield from self._shown(self._parser.feed(token, ""))

    @property
    def message(self) -> Message:
        """The message, its calls without results yet."""
        return Message(
            "model",
            "".join(self._text).strip(),
            "".join(self._thinking).strip(),
            tuple(_read(body) for body in self._parser.calls),
            tuple(self.tokens),
        )

    @property
    def text(self) -> str:
        """The answer as it was streamed."""
        return "".join(self._text)

    @property
    def says_something(self) -> bool:
        """Whether anything but thoughts was generated."""
        return bool(without_thoughts(self.tokens, self._format.marks))

    def _stretch(self, prompt: list[int], max_tokens: int | None) -> Iterator[Piece]:
        """Generate up to the end, a stop string or the end of the thought's budget."""
        events = self._session.generate(
            prompt, self._options.sampling, draft=self._options.draft, max_tokens=max_tokens
        )
        for event in events:
            if event.token is not None:
                self.tokens.append(event.token)
            if event.logprobs is not None:
                self.logprobs.append(event.logprobs.as_dict(self._vocab))
            pieces = self._parser.feed(event.token, event.text)
            self._thought_tokens += self._parser.thinks
            if event.finish_reason:
                self.finish_reason = event.finish_reason
                pieces += self._parser.flush()
            yield from self._shown(pieces)
            if self._stops.found or (self._is_overdue() and not event.finish_reason):
                self.finish_reason = "stop"
                events.close()
            elif event.finish_reason:
                yield from self._kept("answer", self._stops.flush())

    def _is_overdue(self) -> bool:
        """Whether a thought goes on that has used up the budget."""
        budget = self._options.thought_budget
        return self._parser.thinks and budget is not None and self._thought_tokens >= budget

    def _shown(self, pieces: list[Piece]) -> Iterator[Piece]:
        for part, text in pieces:
            yield from self._kept(part, self._stops.feed(text) if part == "answer" else text)

    def _kept(self, part: Part, text: str) -> Iterator[Piece]:
        if text:
            (self._text if part == "answer" else self._thinking).append(text)
            yield Piece(part, text)


def _read(body: list[str]) -> ToolCall:
    try:
        return read_call(body)
    except CallError as error:
        return with_error(ToolCall(UNREADABLE), str(error))
