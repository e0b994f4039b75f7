"""Whether token ids that were written down spell, in this vocabulary, the message they are of."""

from __future__ import annotations

from itertools import dropwhile
from typing import TYPE_CHECKING

from gemmachat.parse import Marks, Parser, Piece
from gemmachat.sanitize import Utf8Stream
from gemmachat.tool_calls import CallError, read_call

if TYPE_CHECKING:
    from gemmachat.conversation import Message, ToolCall
    from gemmachat.vocab import Vocab


def spells(message: Message, vocab: Vocab, marks: Marks) -> bool:
    """Whether a message's tokens, if it has any, are its text, thoughts and calls, and no more.

    Control tokens may only be the marks of these and, at the end, what ends a turn.
    """
    if message.tokens is None:
        return True
    if not all(0 <= token < vocab.size for token in message.tokens):
        return False
    body = list(dropwhile(vocab.is_end, reversed(message.tokens)))[::-1]
    if any(not vocab.piece(token) and token not in marks for token in body):
        return False

    parser, text = Parser(marks), Utf8Stream()
    pieces: list[Piece] = []
    for token in body:
        pieces += parser.feed(token, text.feed(vocab.piece(token)))
    pieces += [*parser.feed(None, text.flush()), *parser.flush()]
    answer = "".join(piece.text for piece in pieces if piece.part == "answer")
    thought = "".join(piece.text for piece in pieces if piece.part == "thought")
    try:
        calls = [read_call(call) for call in parser.calls]
    except CallError:
        return False
    return (
        answer.strip() == message.text.strip()
        and thought.strip() == message.thinking.strip()
        and [_called(call) for call in calls] == [_called(call) for call in message.tool_calls]
    )


def _called(call: ToolCall) -> tuple[str, dict[str, object]]:
    return call.name, dict(call.arguments)
