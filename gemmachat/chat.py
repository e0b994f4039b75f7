"""A conversation: turns in, pieces of the answer out. No input or output of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gemmachat.parse import Parser, Piece, without_thoughts
from gemmachat.prompt import Message, PromptFormat
from gemmachat.sampling import SamplingParams
from gemmachat.stop import StopStrings

if TYPE_CHECKING:
    from gemmachat.engine import Engine
    from gemmachat.session import DraftPolicy, FinishReason, Session
    from gemmachat.stats import Stats


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """What stays the same from answer to answer. Without a seed each answer draws its own."""

    sampling: SamplingParams
    draft: DraftPolicy
    max_tokens: int | None
    exact: bool
    """Whether the session runs every pass at one width."""
    stop: tuple[str, ...] = ()
    """Texts at which an answer, but not a thought, ends without them."""


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


class Chat:
    """The turns of one conversation with an engine, on one session.

    History is exact: what the model generated is kept as the tokens it was, so that the next
    prompt extends the session's cache. Thoughts are dropped from it.
    """

    def __init__(
        self,
        engine: Engine,
        session: Session,
        options: GenerationOptions,
        *,
        system: str | None = None,
    ) -> None:
        self.session = session
        self.options = options
        self.last: Answer | None = None
        """The answer that the last `ask` finished; None while there is none."""
        self._vocab = engine.vocab
        self._format = PromptFormat(engine.vocab, engine.chat_template)
        self._system = system if system and system.strip() else None
        self._history: list[Message] = []
        self.clear()

    def clear(self) -> None:
        """Forget all turns but the system prompt."""
        self._history = [Message("system", self._system)] if self._system else []

    def ask(self, question: str) -> Iterator[Piece]:
        """Stream the answer to `question`; `last` holds all of it afterwards.

        The two turns join the history when the answer has ended. A question that got no answer,
        because of an error or because it was cancelled before anything was said, leaves no trace.
        Raises `ContextFullError` when the conversation no longer fits.
        """
        self.last = None
        sampling = self.options.sampling
        asked = [*self._history, Message("user", question)]
        parser = Parser(self._format.marks)
        stops = StopStrings(self.options.stop)
        tokens: list[int] = []
        logprobs: list[dict[str, Any]] = []
        parts: dict[str, list[str]] = {"thought": [], "answer": []}
        finish_reason: FinishReason = "stop"

        events = self.session.generate(
            self._format.render(asked),
            sampling,
            draft=self.options.draft,
            max_tokens=self.options.max_tokens,
        )
        for event in events:
            if event.token is not None:
                tokens.append(event.token)
            if event.logprobs is not None:
                logprobs.append(event.logprobs.as_dict(self._vocab))
            pieces = parser.feed(event.token, event.text)
            if event.finish_reason:
                finish_reason = event.finish_reason
                pieces += parser.flush()
            for part, text in _until_stopped(pieces, stops, last=event.finish_reason is not None):
                parts[part].append(text)
                yield Piece(part, text)
            if stops.found:
                finish_reason = "stop"
                events.close()

        if finish_reason == "stop" or without_thoughts(tokens, self._format.marks):
            self._history = [*asked, Message("model", tuple(tokens))]
        self.last = Answer(
            text="".join(parts["answer"]),
            thinking="".join(parts["thought"]).strip(),
            tokens=tuple(tokens),
            finish_reason=finish_reason,
            seed=sampling.seed,
            stats=self.session.stats(),
            logprobs=tuple(logprobs),
        )


def _until_stopped(pieces: list[Piece], stops: StopStrings, *, last: bool) -> Iterator[Piece]:
    for part, text in pieces:
        shown = stops.feed(text) if part == "answer" else text
        if shown:
            yield Piece(part, shown)
    if last and (held := stops.flush()):
        yield Piece("answer", held)
