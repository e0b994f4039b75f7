"""A conversation with whoever answers: turns go in, pieces of the answer come out."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from gemmachat.conversation import Conversation, Message, ToolCall
from gemmachat.errors import UsageError
from gemmachat.generation import UNREADABLE, Answer, GenerationOptions
from gemmachat.parse import Piece
from gemmachat.tool_calls import describe_call, describe_result, with_error

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

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
    """What `Chat.compact` did. Tokens are those of the prompt before and after; 0 is unknown."""

    turns: int
    """Turns that the summary stands for."""
    tokens_before: int
    tokens_after: int
    summary: str


class Dialogue(ABC):
    """The turns of one conversation. Whoever answers is a subclass."""

    def __init__(
        self, options: GenerationOptions, *, system: str | None = None, tools: Tools | None = None
    ) -> None:
        self.options = options
        """May be replaced between answers."""
        self.tools = tools
        self.last: Answer | None = None
        """The answer that was finished last; None while there is none."""
        self.compaction: Compaction | None = None
        """What the last `compact` did; None where it changed nothing."""
        self._conversation = Conversation().with_system(system)
        self._cancelled = threading.Event()

    @property
    def conversation(self) -> Conversation:
        """All that was said, without what is being said."""
        return self._conversation

    @property
    @abstractmethod
    def used_tokens(self) -> int:
        """Tokens of the context that the conversation takes now; 0 where nobody knows."""

    @property
    def on_server(self) -> bool:
        """Whether a server has the model."""
        return self.n_ctx is None

    @property
    @abstractmethod
    def n_ctx(self) -> int | None:
        """Tokens that the context holds; None where nobody knows."""

    def clear(self) -> None:
        """Forget all turns but the system prompt."""
        self._conversation = self._conversation.without_turns()

    def set_system(self, text: str | None) -> None:
        """Replace the system prompt; None or a blank one removes it."""
        self._conversation = self._conversation.with_system(text)

    def restore(self, conversation: Conversation) -> None:
        """Take up a conversation, of this model or another one."""
        self._conversation = conversation
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
        self.compaction = None
        turns = self._conversation.turns()
        if len(turns) < 2:
            raise UsageError("there is nothing to compact: the conversation has no two turns yet")
        return self._compact(turns)

    @abstractmethod
    def cancel(self) -> None:
        """Stop what is generated or called, or what comes next. Any thread."""

    @abstractmethod
    def clear_cancel(self) -> None:
        """Take back a cancel that nothing has answered."""

    @abstractmethod
    def close(self) -> None:
        """Free what the conversation holds."""

    def _required(self, question: str | None) -> str:
        if question is None:
            raise UsageError("there is no question yet")
        return question

    def _answer(self, before: Conversation, question: str) -> Iterator[Piece]:
        self.last = None
        asked = before.extended(Message("user", question))
        said, answer, counts = yield from self._turn(asked, self.options, self.tools)
        if counts:
            self._conversation = asked.extended(*said)
        self.last = answer

    def _compact(self, turns: list[tuple[Message, ...]]) -> Iterator[Piece]:
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
        self.last = answer
        if answer.finish_reason == "stop" and answer.text.strip():
            start = self._conversation.without_turns()
            self._conversation = start.extended(asked.messages[-1], *said, *kept)
            self.compaction = Compaction(len(turns) - 1, before, self.used_tokens, answer.text)

    @abstractmethod
    def _turn(
        self, asked: Conversation, options: GenerationOptions, tools: Tools | None
    ) -> Generator[Piece, None, tuple[list[Message], Answer, bool]]:
        """Generate the model's turn: a message, and more of them as long as it calls tools.

        Returns its messages, the answer and whether anything but thoughts was said.
        """

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
