"""A chat as Markdown or JSON, for other programs and for people."""

from __future__ import annotations

import json
import re
from typing import Literal

from gemmachat.conversation import Conversation, Message
from gemmachat.errors import UsageError
from gemmachat.sanitize import safe_text
from gemmachat.tool_calls import describe_call, describe_result

Format = Literal["md", "json"]
FORMATS: tuple[Format, ...] = ("md", "json")
_ROLES = {"system": "System", "user": "You", "model": "Model"}
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)


def export(conversation: Conversation, form: str, *, name: str, model: str) -> str:
    """Return a chat as a text that ends with a newline. Raises `UsageError` on another format.

    "json" holds everything, in the form that `Conversation.from_dict` reads; "md" what was said,
    with control characters made visible.
    """
    if form == "json":
        document = {"name": name, "model": model, **conversation.as_dict()}
        return json.dumps(document, ensure_ascii=True, allow_nan=False, indent=2) + "\n"
    if form == "md":
        title = " ".join(name.split())
        parts = [f"# {title}", f"Model: {model}"]
        for message in conversation.messages:
            parts += [f"## {_ROLES[message.role]}", *_said(message)]
        return safe_text("\n\n".join(parts)) + "\n"
    raise UsageError(f"a chat is exported as {' or '.join(FORMATS)}, not {form[:40]!r}")


def _said(message: Message) -> list[str]:
    calls = (f"{describe_call(call)}\n{describe_result(call)}" for call in message.tool_calls)
    return [*filter(None, [_closed(message.text.strip())]), *map(_fenced, calls)]


def _closed(text: str) -> str:
    """The text with its last code block closed, so that it ends within its own section."""
    opened = ""
    for fence in _FENCE.findall(text):
        if not opened:
            opened = fence
        elif fence[0] == opened[0] and len(fence) >= len(opened):
            opened = ""
    return f"{text}\n{opened}" if opened else text


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
