"""Messages to token ids: control tokens by id, all content as plain text.

`<|turn>` typed by a user, read from a file or written by a model as text is tokenised like any
other text, so nobody can forge the structure of a conversation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from gemmachat.conversation import Message
from gemmachat.parse import Marks, spoken
from gemmachat.template_variant import TemplateVariant
from gemmachat.tool_calls import Mark, write_call, write_response
from gemmachat.tool_declaration import DeclarationWriter

if TYPE_CHECKING:
    from gemmachat.vocab import Vocab

_TURN, _END_OF_TURN = Mark("<|turn>"), Mark("<turn|>")
_CHANNEL, _END_OF_CHANNEL = Mark("<|channel>"), Mark("<channel|>")
_NO_THOUGHT = (_CHANNEL, "thought\n", _END_OF_CHANNEL)


class PromptFormat:
    """The chat format of one model file.

    `chat_template` is only searched for what tells the variants apart, it is never executed. Where
    it opens an answer with an empty thought channel (the larger models), the prompt does too.
    Raises `DamagedFileError` when the vocabulary lacks a control token of the format.
    """

    def __init__(self, vocab: Vocab, chat_template: str | None) -> None:
        self._vocab = vocab
        self._variant = TemplateVariant.of(chat_template)
        self._declarations = DeclarationWriter(self._variant.nullable_first)
        self._controls: dict[str, int] = {}
        self.marks = Marks.of(vocab)
        # A file that lacks these is refused at once.
        self.encode((Mark("<bos>"), _TURN, _END_OF_TURN))
        self._no_thought = self.encode(_NO_THOUGHT) if self._variant.empty_thought else []
        self.end_of_thought = self.encode(("\n", _END_OF_CHANNEL)) if self.marks.close else []
        """What closes a thought that the model does not close."""

    def render(
        self,
        messages: Sequence[Message],
        *,
        think: bool = False,
        tools: Sequence[dict[str, Any]] = (),
    ) -> list[int]:
        """Return the prompt for the model's next message, from `<bos>` to where it goes on.

        With `think` the model is asked to think first. `tools` are function declarations as
        OpenAI's interface has them: name, description and a JSON schema of the parameters. Thoughts
        are left out, but for those that led to calls since the last question. After a message that
        ends in tool calls the model's turn stays open.
        """
        return self.encode(self._parts(messages, think, tools))

    def encode(self, parts: Iterable[str | int]) -> list[int]:
        """Token ids of text, marks and ids.

        Text between two control tokens is tokenised in one run, as the reference does: its parts
        may merge across their borders.
        """
        tokens: list[int] = []
        text: list[str] = []
        for part in [*parts, None]:
            if isinstance(part, str) and not isinstance(part, Mark):
                text.append(part)
                continue
            if any(text):
                tokens += self._vocab.tokenize("".join(text))
            text.clear()
            if part is not None:
                tokens.append(part if isinstance(part, int) else self._control(part))
        return tokens

    def _parts(
        self, messages: Sequence[Message], think: bool, tools: Sequence[dict[str, Any]]
    ) -> Iterator[str | int]:
        yield Mark("<bos>")
        system = messages[0] if messages and messages[0].role == "system" else None
        if system is not None or think or tools:
            yield from self._system(system, think, tools)
        turns = messages if system is None else messages[1:]

        asked = max((i for i, message in enumerate(turns) if message.role == "user"), default=-1)
        speaker = None
        for i, (message, following) in enumerate(pairwise([*turns, None])):
            assert message is not None
            if not message.role == speaker == "model":
                yield from (_TURN, f"{message.role}\n")
            if message.role == "model":
                yield from self._said(message, with_thoughts=i > asked and bool(message.tool_calls))
            else:
                yield message.text.strip()
            goes_on = bool(message.tool_calls) and (following is None or following.role == "model")
            speaker = message.role if goes_on else None
            if not goes_on:
                yield from (_END_OF_TURN, "\n")

        if speaker is None:
            yield from (_TURN, "model\n")
        if not think and (speaker is None or self._variant.empty_thought_always):
            yield from self._no_thought

    def _system(
        self, message: Message | None, think: bool, tools: Sequence[dict[str, Any]]
    ) -> Iterator[str]:
        yield from (_TURN, "system\n")
        if think:
            yield from (Mark("<|think|>"), "\n" if self._variant.newline_after_think else "")
        if message is not None:
            yield message.text.strip()
        for tool in tools:
            yield from (Mark("<|tool>"), *self._declarations.declaration(tool), Mark("<tool|>"))
        yield from (_END_OF_TURN, "\n")

    def _said(self, message: Message, *, with_thoughts: bool) -> Iterator[str | int]:
        """What the model said: the very tokens, where they are known, and its tools' responses."""
        if message.tokens is not None:
            yield from spoken(
                message.tokens, self.marks, self._vocab.is_end, with_thoughts=with_thoughts
            )
        else:
            if with_thoughts and message.thinking:
                yield from (_CHANNEL, f"thought\n{message.thinking}\n", _END_OF_CHANNEL)
            yield message.text.strip()
            for call in message.tool_calls:
                yield from write_call(call)
        for call in message.tool_calls:
            yield from write_response(call)

    def _control(self, mark: str) -> int:
        if mark not in self._controls:
            self._controls[mark] = self._vocab.control(mark)
        return self._controls[mark]
