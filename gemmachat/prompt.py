"""Messages to token ids: control tokens by id, all content as plain text.

`<|turn>` typed by a user, read from a file or written by a model as text is tokenised like any
other text, so nobody can forge the structure of a conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gemmachat.parse import ChannelMarks, without_thoughts

if TYPE_CHECKING:
    from gemmachat.vocab import Vocab

Role = Literal["system", "user", "model"]

# As a chat template spells it: with an escaped newline in a string, or with a real one.
_EMPTY_THOUGHTS = ("<|channel>thought\\n<channel|>", "<|channel>thought\n<channel|>")


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. Content of the model is either text or the very tokens that it generated."""

    role: Role
    content: str | tuple[int, ...]


def opens_with_empty_thought(chat_template: str) -> bool:
    """Whether a template puts an empty thought channel before an answer without thinking."""
    return any(spelling in chat_template for spelling in _EMPTY_THOUGHTS)


class PromptFormat:
    """The chat format of one model file.

    `chat_template` is only searched for what tells the variants apart, it is never executed. Where
    it opens an answer with an empty thought channel (the larger models), the prompt does too.
    Raises `DamagedFileError` when the vocabulary lacks a control token of the format.
    """

    def __init__(self, vocab: Vocab, chat_template: str | None) -> None:
        self._vocab = vocab
        self._bos = vocab.control("<bos>")
        self._turn_open = vocab.control("<|turn>")
        self._turn_close = vocab.control("<turn|>")
        self._newline = vocab.tokenize("\n")
        self._answer_open = [self._turn_open, *vocab.tokenize("model\n")]
        self.marks = ChannelMarks.of(vocab)
        if opens_with_empty_thought(chat_template or ""):
            self._no_thought = [
                vocab.control("<|channel>"),
                *vocab.tokenize("thought\n"),
                vocab.control("<channel|>"),
            ]
        else:
            self._no_thought = []

    def render(self, messages: Sequence[Message]) -> list[int]:
        """Return the prompt for the model's next turn, from `<bos>` to the opened turn."""
        tokens = [self._bos]
        for message in messages:
            tokens += self._turn(message)
        return tokens + self._answer_open + self._no_thought

    def _turn(self, message: Message) -> list[int]:
        if isinstance(message.content, str):
            # One run of text between two control tokens is tokenised in one piece, as the
            # reference does: role, newline and content may merge across their borders.
            text = f"{message.role}\n{message.content.strip()}"
            opened = [self._turn_open, *self._vocab.tokenize(text)]
        else:
            said = without_thoughts(message.content, self.marks)
            while said and self._vocab.is_end(said[-1]):
                said.pop()
            opened = self._answer_open + said
        return [*opened, self._turn_close, *self._newline]
