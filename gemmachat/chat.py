"""A conversation with an engine: turns in, pieces of the answer out. No input or output."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from gemmachat.conversation import Conversation, Message, ToolCall
from gemmachat.errors import UsageError
from gemmachat.generation import UNREADABLE, Answer, Generation, GenerationOptions
from gemmachat.parse import Piece
from gemmachat.prompt import PromptFormat
from gemmachat.spelling import spells
from gemmachat.stats import combine
from gemmachat.tool_calls import describe_call, describe_result, with_error

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from gemmachat.engine import Engine
    from gemmachat.session import FinishReason, Session

__all__ = ["Answer", "Chat", "Compaction", "GenerationOptions", "Tools"]

MAX_ROUNDS = 8
SUMMARY_REQUEST = (
    "Summarise our conversation up to here, so that we can go on from your summary alone. Keep "
    "every fact, name, number, decision and open question, and what I asked you to do or avoid."
)


class Tools(Protocol):
    """What the model may call; `tool_runner.ToolRunner` is one."""

    @property
    def declarations(self) -> Sequence[dict[str, Any]]:
        """Every tool's name, description and JSON schema of its parameters."""

    def run(self, call: ToolCall, cancelled: threading.Event) -> ToolCall:
        """Return the call with its result; what goes wrong is a result too. Never raises."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """What `Chat.compact` did. Tokens are those of the prompt before and after."""

    turns: int
    """Turns that the summary stands for."""
    tokens_before: int
    tokens_after: int
    summary: str


class Chat:
    """The turns of one conversation with an engine, on one session.

    History is exact: what the model generated is kept as the tokens it was, so that the next
    prompt extends the session's cache. Thoughts are dropped from it once the next question comes.
    """

    def __init__(
        self,
        engine: Engine,
        session: Session,
        options: GenerationOptions,
        *,
        system: str | None = None,
        tools: Tools | None = None,
    ) -> None:
        self.session = session
        self.options = options
        """May be replaced between answers."""
        self.tools = tools
        self.last: Answer | None = None
        """The answer that was finished last; None while there is none."""
        self.compaction: Compaction | None = None
        """What the last `compact` did; None where it changed nothing."""
        self._vocab = engine.vocab
        self._format = PromptFormat(engine.vocab, engine.chat_template)
        self._conversation = Conversation().with_system(system)
        self._cancelled = threading.Event()

    @property
    def conversation(self) -> Conversation:
        """All that was said, without what is being said."""
        return self._conversation

    @property
    def used_tokens(self) -> int:
        """Tokens of the context that the conversation takes now."""
        return len(self._prompt(self._conversation, self.options, self.tools))

    def clear(self) -> None:
        """Forget all turns but the system prompt."""
        self._conversation = self._conversation.without_turns()

    def set_system(self, text: str | None) -> None:
        """Replace the system prompt; None or a blank one removes it."""
        self._conversation = self._conversation.with_system(text)

    def restore(self, conversation: Conversation) -> None:
        """Take up a conversation, of this model or another one.

        Tokens that do not spell their message in this vocabulary are dropped: such a message is
        tokenised from its text, in which nothing can become a control token.
        """
        marks = self._format.marks
        self._conversation = Conversation(
            tuple(
                message if spells(message, self._vocab, marks) else replace(message, tokens=None)
                for message in conversation.messages
            )
        )
        self.last = None

    def ask(self, question: str) -> Iterator[Piece]:
        """Stream the answer to `question`; `last` holds all of it afterwards.

        The turn joins the conversation when the answer has ended. A question that got no answer,
        because of an error or because it was cancelled before anything was said, leaves no trace.
        Raises `ContextFullError` when the conversation no longer fits.
        """
        return self._answer(self._conversation, question)

    def regenerate(self) -> Iterator[Piece]:
        """Stream another answer to the last question. The old one stays until this one has ended.

        Raises `UsageError` where there is no question yet.
        """
        before, question = self._conversation.without_last_turn()
        return self._answer(before, self._required(question))

    def undo(self) -> str | None:
        """Take back the last question and its answer; returns the question, None without one."""
        self._conversation, question = self._conversation.without_last_turn()
        return question

    def edit(self, question: str) -> Iterator[Piece]:
        """Stream the answer to `question`, which replaces the last one and its answer.

        They stay until the new answer has ended. Raises `UsageError` where there is no question.
        """
        before, old = self._conversation.without_last_turn()
        self._required(old)
        return self._answer(before, question)

    def compact(self) -> Iterator[Piece]:
        """Have the model summarise all turns but the last, and put its summary in their place.

        The summary is streamed; `compaction` tells afterwards what was done. Nothing changes where
        the summary was not finished. Raises `UsageError` where there are no two turns, and
        `ContextFullError` when no room is left for a summary.
        """
        turns = self._conversation.turns()
        if len(turns) < 2:
            raise UsageError("there is nothing to compact: the conversation has no two turns yet")
        return self._compact(turns)

    def cancel(self) -> None:
        """Stop what is generated or called, or what comes next. Any thread."""
        self._cancelled.set()
        self.session.cancel()

    def clear_cancel(self) -> None:
        """Take back a cancel that nothing has answered."""
        self._cancelled.clear()
        self.session.clear_cancel()

    def close(self) -> None:
        """Free the session."""
        self.session.close()

    def _required(self, question: str | None) -> str:
        if question is None:
            raise UsageError("there is no question yet")
        return question

    def _prompt(
        self, conversation: Conversation, options: GenerationOptions, tools: Tools | None
    ) -> list[int]:
        declared = tools.declarations if tools is not None else ()
        return self._format.render(conversation.messages, think=options.think, tools=declared)

    def _answer(self, before: Conversation, question: str) -> Iterator[Piece]:
        self.last = None
        asked = before.extended(Message("user", question))
        said, answer, counts = yield from self._turn(asked, self.options, self.tools)
        if counts:
            self._conversation = asked.extended(*said)
        self.last = answer

    def _compact(self, turns: list[tuple[Message, ...]]) -> Iterator[Piece]:
        self.compaction = None
        before = self.used_tokens
        old, kept = Conversation(self._conversation.messages[: -len(turns[-1])]), turns[-1]
        options = replace(
            self.options,
            sampling=replace(self.options.sampling, grammar=None),
            max_tokens=None,
            stop=(),
            think=False,
        )
        asked = old.extended(Message("user", SUMMARY_REQUEST))
        said, answer, _ = yield from self._turn(asked, options, None)
        if answer.finish_reason == "stop" and answer.text.strip():
            start = self._conversation.without_turns()
            self._conversation = start.extended(asked.messages[-1], *said, *kept)
            self.compaction = Compaction(len(turns) - 1, before, self.used_tokens, answer.text)

    def _turn(
        self, asked: Conversation, options: GenerationOptions, tools: Tools | None
    ) -> Generator[Piece, None, tuple[list[Message], Answer, bool]]:
        """Generate the model's turn: a message, and more of them as long as it calls tools.

        Returns its messages, the answer and whether anything but thoughts was said.
        """
        said: list[Message] = []
        done: list[Generation] = []
        while True:
            prompt = self._prompt(asked.extended(*said), options, tools)
            if said and len(prompt) >= self.session.n_ctx:
                finish_reason: FinishReason = "context"
                break
            spent = sum(len(generation.tokens) for generation in done)
            left = None if options.max_tokens is None else options.max_tokens - spent
            generation = Generation(self.session, self._vocab, self._format, options)
            done.append(generation)
            yield from generation.run(prompt, left)
            finish_reason = generation.finish_reason
            message = generation.message
            if finish_reason == "stop" or generation.says_something:
                said.append(message)
            if not message.tool_calls:
                break
            goes_on = finish_reason == "stop" and len(done) <= MAX_ROUNDS
            said[-1] = yield from self._called(message, tools, runs=len(done) < MAX_ROUNDS)
            if finish_reason == "stop" and self._cancelled.is_set():
                finish_reason = "cancelled"
            if not goes_on or finish_reason == "cancelled":
                break
        return said, _answer_of(done, said, finish_reason, options), bool(said)

    def _called(
        self, message: Message, tools: Tools | None, *, runs: bool
    ) -> Generator[Piece, None, Message]:
        """Run the calls of a message one by one; returns it with their results."""
        results: list[ToolCall] = []
        for call in message.tool_calls:
            yield Piece("tool", f"{describe_call(call)}\n")
            if call.name == UNREADABLE:
                result = call
            elif self._cancelled.is_set():
                result = with_error(call, "the user stopped this call")
            elif not runs:
                result = with_error(call, f"no more calls: {MAX_ROUNDS} rounds are the limit")
            elif tools is None:
                result = with_error(call, "there are no tools")
            else:
                result = tools.run(call, self._cancelled)
            results.append(result)
            yield Piece("tool", f"{describe_result(result)}\n")
        return replace(message, tool_calls=tuple(results))


def _answer_of(
    done: list[Generation],
    said: list[Message],
    finish_reason: FinishReason,
    options: GenerationOptions,
) -> Answer:
    thoughts = (generation.message.thinking for generation in done)
    return Answer(
        text="".join(generation.text for generation in done),
        thinking="\n\n".join(filter(None, thoughts)),
        tokens=tuple(token for generation in done for token in generation.tokens),
        finish_reason=finish_reason,
        seed=options.sampling.seed,
        stats=combine([stats for generation in done for stats in generation.stretches]),
        logprobs=tuple(entry for generation in done for entry in generation.logprobs),
        tool_calls=tuple(call for message in said for call in message.tool_calls),
    )
