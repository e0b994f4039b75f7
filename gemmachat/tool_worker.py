"""Runs tools in a process of their own, which `tool_runner` starts.

What a tool prints, how long it takes and how it dies are then no concern of the terminal. Requests
come as lines of JSON on standard input, `{"call": N, "name": ..., "arguments": {...}}`, and every
one gets a line back, `{"call": N, "result": ...}` or `{"call": N, "error": ...}`. The first line
out is `{"tools": [...]}`.
"""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any, TextIO

from gemmachat.builtin_tools import BUILTIN
from gemmachat.conversation import is_json
from gemmachat.errors import GemmachatError
from gemmachat.tools import Tool, describe, load_tools


def main(arguments: list[str]) -> None:
    """Serve calls until standard input ends; `arguments` may hold the path of a file of tools."""
    requests, replies = _take_streams()
    threading.Thread(target=_leave_with_parent, args=(os.getppid(),), daemon=True).start()
    try:
        tools = load_tools(Path(arguments[0])) if arguments else describe(BUILTIN)
    except GemmachatError as error:
        _reply(replies, {"error": str(error), "exit_code": error.exit_code})
        return
    by_name = {tool.name: tool for tool in tools}
    _reply(replies, {"tools": [tool.declaration for tool in tools]})
    for line in requests:
        request = json.loads(line)
        reply = _call(by_name[request["name"]], request["arguments"])
        _reply(replies, {"call": request["call"], **reply})


def _take_streams() -> tuple[TextIO, TextIO]:
    """The pipes to the chat; tools find nothing on the standard streams."""
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    return requests, replies


def _leave_with_parent(parent: int) -> None:
    """End with the chat, even inside a tool that never returns."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _call(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        result = tool.call(arguments)
    except (Exception, SystemExit) as error:  # a tool may raise anything
        return {"error": f"{type(error).__name__}: {error}"}
    if result is None:
        return {"result": "there is no result"}
    if isinstance(result, tuple | set):
        result = list(result)
    return {"result": result if is_json(result) else str(result)}


def _reply(replies: TextIO, value: dict[str, Any]) -> None:
    replies.write(json.dumps(value) + "\n")
    replies.flush()
