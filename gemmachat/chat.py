"""A conversation with an engine: turns in, pieces of the answer out. No input or output."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import TYPE_CHECKING

from gemmachat.conversation import Conversation, Message
from gemmachat.dialogue import MAX_ROUNDS, SUMMARY_REQUEST, Compaction, Dialogue, Tools
from gemmachat.generation import Answer, Generation, GenerationOptions
from gemmachat.parse import Piece
from gemmachat.prompt import PromptFormat
from gemmachat.spelling import spells
from gemmachat.stats import combine

if TYPE_CHECKING:
    from gemmachat.engine import Engine
    from gemmachat.session import FinishReason, Session

__all__ = ["SUMMARY_REQUEST", "Answer", "Chat", "Compaction", "GenerationOptions", "Tools"]


class Chat(Dialogue):
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
        super().__init__(options, system=system, tools=tools)
        self.session = session
        self._vocab = engine.vocab
        self._format = PromptFormat(engine.vocab, engine.chat_template)

    @property
    def used_tokens(self) -> int:
        """Tokens of the context that the conversation takes now."""
        return len(self._prompt(self._conversation, self.options, self.tools))

    @property
    def n_ctx(self) -> int:
        """Tokens that the session holds."""
        return self.session.n_ctx

    def restore(self, conversation: Conversation) -> None:
        """Take up a conversation, of this model or another one.

        Tokens that do not spell their message in this vocabulary are dropped: such a message is
        tokenised from its text, in which nothing can become a control token.
        """
        marks = self._format.marks
        conversation = Conversation(
            tuple(
                message if spells(message, self._vocab, marks) else replace(message, tokens=None)
                for message in conversation.messages
            )
        )
        super().restore(conversation)

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

    def _prompt(
        self, conversation: Conversation, options: GenerationOptions, tools: Tools | None
    ) -> list[int]:
        declared = tools.declarations if tools is not None else ()
        return self._format.render(conversation.messages, think=options.think, tools=declared)

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
            said[-1] = yield from self._called(message, tools, runs=len(done) <= MAX_ROUNDS)
            if finish_reason == "stop" and self._cancelled.is_set():
                finish_reason = "cancelled"
            if finish_reason != "stop" or len(done) > MAX_ROUNDS + 1:
                break
        return said, _answer_of(done, said, finish_reason, options), bool(said)


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
