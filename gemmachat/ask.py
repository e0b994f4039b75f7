"""One question and its answer: what is asked, shown while it comes, reported afterwards."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from gemmachat.attachment import MAX_INPUT_BYTES, attached, decode
from gemmachat.errors import ContextFullError, UsageError
from gemmachat.interrupt import INTERRUPTED, cancel_on_interrupt
from gemmachat.stats_text import FOUR_NUMBERS, FROM_SERVER, agreement, server_lines, stats_lines

if TYPE_CHECKING:
    from gemmachat.dialogue import Dialogue
    from gemmachat.generation import Answer
    from gemmachat.parse import Piece
    from gemmachat.render import Screen

Form = Literal["text", "json", "json-lines"]

_CHUNK_BYTES = 2**16


def read_question(prompt: str | None, files: Sequence[str] = ()) -> str | None:
    """Return the text of `files`, of standard input, and `prompt`, parted by blank lines.

    Standard input is read to its end unless it is a terminal. None means that there is nothing at
    all: the user wants to chat. Raises `UsageError` when all there is is blank, or something is no
    text, and what `attachment.read_text` raises.
    """
    if prompt is None and not files and _stdin_is_terminal():
        return None
    given = "" if _stdin_is_terminal() else _read_stdin()
    texts = [*map(attached, files), given, prompt or ""]
    parts = [part for part in texts if part.strip()]
    if not parts:
        raise UsageError("the prompt is empty: give a PROMPT or pipe some text in")
    return "\n\n".join(part.strip("\n") for part in parts)


def _stdin_is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _read_stdin() -> str:
    if sys.stdin is None:  # closed by the caller
        return ""
    data = bytearray()  # grows with the input, whose limit may be more than there is memory
    while len(data) <= MAX_INPUT_BYTES and (chunk := sys.stdin.buffer.read(_CHUNK_BYTES)):
        data += chunk
    return decode(data, "standard input")


def show_answer(
    chat: Dialogue, pieces: Iterator[Piece], screen: Screen, *, hold_keys: bool = False
) -> Answer:
    """Stream an answer of `chat` to the screen. Ctrl-C stops it within one pass."""
    with screen.answering(hold_keys=hold_keys):
        return _answer(chat, pieces, screen.piece)


def answer_once(
    chat: Dialogue, question: str, screen: Screen, *, model: str, form: Form, stats: bool
) -> int:
    """Answer one question, as text, one JSON object or JSON events; return the exit code."""
    if form == "json":
        answer = _answer(chat, chat.ask(question), partial(_tell_calls, screen))
        screen.json(_report(answer, model))
    elif form == "json-lines":
        screen.json({"event": "start", "model": model})

        def show(piece: Piece) -> None:
            screen.json(_event(piece))
            _tell_calls(screen, piece)

        answer = _answer(chat, chat.ask(question), show)
        screen.json({"event": "end", **_report(answer, model)})
    else:
        answer = show_answer(chat, chat.ask(question), screen)
    if stats:
        show_stats(answer, chat, screen)
    if answer.finish_reason == "cancelled":
        return INTERRUPTED
    if answer.finish_reason == "context":
        screen.error(context_full(answer, chat, "ask for less"))
        return ContextFullError.exit_code
    return 0


def _tell_calls(screen: Screen, piece: Piece) -> None:
    """Show calls of tools on standard error, where the user may be asked to allow them."""
    if piece.part == "tool":
        screen.piece(piece)


def _event(piece: Piece) -> dict[str, str]:
    return {"event": "text", "part": piece.part, "text": piece.text}


def _report(answer: Answer, model: str) -> dict[str, object]:
    calls = [
        {"name": call.name, "arguments": dict(call.arguments), "result": call.result}
        for call in answer.tool_calls
    ]
    return {
        "text": answer.text,
        "thinking": answer.thinking,
        **({"tool_calls": calls} if calls else {}),
        "tokens": answer.tokens,
        "finish_reason": answer.finish_reason,
        **({"logprobs": list(answer.logprobs)} if answer.logprobs else {}),
        "model": model,
        "seed": answer.seed,
        "stats": answer.stats.as_dict(),
    }


def context_full(answer: Answer, chat: Dialogue, advice: str) -> str:
    """Say with both numbers that the context is full, and what to do."""
    used = answer.stats.prompt_tokens + answer.stats.completion_tokens
    limit = f" and --ctx is {chat.n_ctx}" if chat.n_ctx else ""
    return (
        f"the context is full: prompt and answer have {used} tokens{limit}; {advice}, or make room "
        "with --ctx N"
    )


def show_stats(answer: Answer, chat: Dialogue, screen: Screen, *, full: bool = True) -> None:
    """Summarise an answer on standard error; without `full` by the four numbers alone."""
    if answer.stats.draft_policy == FROM_SERVER:
        screen.note(*server_lines(answer.stats))
        return
    greedy = chat.options.sampling.temperature == 0
    known = agreement(answer.stats, exact=chat.options.exact, greedy=greedy)
    lines = stats_lines(answer.stats, known)
    screen.note(*(lines if full else lines[:FOUR_NUMBERS]))


def _answer(chat: Dialogue, pieces: Iterator[Piece], show: Callable[[Piece], None]) -> Answer:
    chat.clear_cancel()  # a Ctrl-C that came after the last answer
    with cancel_on_interrupt(chat):
        for piece in pieces:
            show(piece)
    assert chat.last is not None, "ask() ended without an answer"
    return chat.last
