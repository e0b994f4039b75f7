"""Calls tools for the model: asks the user first, takes no longer than it may, never raises.

The tools run in processes of their own (`tool_worker`), one for the built-in ones and one for each
file, which live as long as the chat and are ended when a call takes too long.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from gemmachat.conversation import ToolCall, is_json
from gemmachat.errors import GemmachatError, NotFoundError, UsageError
from gemmachat.tool_calls import with_error

Confirm = Callable[[ToolCall], bool]

DEFAULT_TIMEOUT_S = 30.0
MAX_RESULT = 20_000
"""Characters of a result that the model gets to read."""
# Files in the folder that happens to be current must not be taken for modules.
_PROGRAM = (
    "import sys; sys.path[:] = [*filter(None, sys.path), sys.argv[1]]; "
    "from gemmachat.tool_worker import main; main(sys.argv[2:])"
)
_STOPPED = "the user stopped this call"
_MAX_REPLY = 1 << 24  # bytes
_STARTUP_S = 30.0
_POLL_S = 0.05


class _TooLongError(Exception):
    """Nothing came in time, or too much of it."""


class _CancelledError(Exception):
    """The user stopped the call."""


class _Worker:
    """The process that runs the tools of one file, or the built-in ones."""

    def __init__(self, file: Path | None) -> None:
        home = str(Path(__file__).resolve().parents[1])
        given = [] if file is None else [str(file)]
        self._command = [sys.executable, "-c", _PROGRAM, home, *given]
        self._process: subprocess.Popen[bytes] | None = None
        self._calls = 0

    def start(self, cancelled: threading.Event) -> list[dict[str, Any]]:
        """Start the process, unless it runs; returns the declarations of its tools.

        Raises the error of a file that cannot be used.
        """
        # A session of its own: Ctrl-C is for the chat, and what the tools start ends with them.
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        told = self._read(_STARTUP_S, cancelled)
        if "tools" not in told:
            self.stop()
            missing = told.get("exit_code") == NotFoundError.exit_code
            raise (NotFoundError if missing else UsageError)(str(told.get("error")))
        declarations: list[dict[str, Any]] = told["tools"]
        return declarations

    def call(
        self, name: str, arguments: dict[str, Any], timeout_s: float, cancelled: threading.Event
    ) -> dict[str, Any]:
        """Return the reply to one call. The process is gone where there was none."""
        try:
            if self._process is None or self._process.poll() is not None:
                self.start(cancelled)
            assert self._process is not None
            assert self._process.stdin is not None
            self._calls += 1
            request = {"call": self._calls, "name": name, "arguments": arguments}
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            reply = self._read(timeout_s, cancelled)
            if not _answers(reply, self._calls):
                raise ValueError("this is no reply to the call")
            return reply
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the process and all that it started."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            with suppress(OSError):
                stream.close()

    def _read(self, timeout_s: float, cancelled: threading.Event) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        deadline = time.monotonic() + timeout_s
        data = bytearray()
        while not data.endswith(b"\n"):
            if cancelled.is_set():
                raise _CancelledError
            if time.monotonic() > deadline or len(data) > _MAX_REPLY:
                raise _TooLongError
            if select.select([descriptor], [], [], _POLL_S)[0]:
                chunk = os.read(descriptor, 1 << 16)
                if not chunk:
                    raise EOFError
                data += chunk
        try:
            reply = json.loads(data)
        except RecursionError:
            raise ValueError("this is no reply") from None
        if not isinstance(reply, dict):
            raise ValueError("this is no reply")
        return reply


class ToolRunner:
    """The tools of one chat. Close it, or use `with`.

    `files` are Python files with typed functions; `builtin` adds a calculator and the current time.
    `confirm` is asked before every call, and may raise KeyboardInterrupt to stop the answer; None
    allows all. Raises `NotFoundError` or `UsageError` on files that cannot be used.
    """

    def __init__(
        self,
        files: Sequence[Path] = (),
        *,
        builtin: bool = True,
        confirm: Confirm | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self.confirm = confirm
        self._timeout_s = timeout_s
        self._workers: list[_Worker] = []
        self._by_name: dict[str, _Worker] = {}
        self.declarations: list[dict[str, Any]] = []
        """Every tool's name, description and JSON schema of its parameters."""
        try:
            for file in (*([None] if builtin else []), *files):
                self._add(_Worker(file), file)
        except BaseException:
            self.close()
            raise

    def run(self, call: ToolCall, cancelled: threading.Event) -> ToolCall:
        """Return the call with its result; a refusal, a time-out and an error are results too."""
        name = self._known(call.name)
        if name is None:
            known = ", ".join(self._by_name)
            return with_error(call, f"there is no tool {call.name:.80}, only {known}")
        try:
            allowed = self.confirm is None or self.confirm(call)
        except KeyboardInterrupt:  # whoever else is told of it may not know yet
            cancelled.set()
            allowed = False
        if not allowed:
            stopped = cancelled.is_set()
            return with_error(call, _STOPPED if stopped else "the user did not allow this call")
        reply = self._reply(name, dict(call.arguments), cancelled)
        if "error" in reply:
            return with_error(call, _cut(reply["error"]))
        return ToolCall(call.name, call.arguments, _bounded(reply["result"]))

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.stop()

    def __enter__(self) -> ToolRunner:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _add(self, worker: _Worker, file: Path | None) -> None:
        self._workers.append(worker)
        try:
            declarations = worker.start(threading.Event())
        except (_TooLongError, EOFError, OSError, ValueError):
            raise UsageError(f"the tools in {file or 'gemmachat'} cannot be started") from None
        for declaration in declarations:
            if declaration["name"] in self._by_name:
                raise UsageError(f"there are two tools with the name {declaration['name']}")
            self._by_name[declaration["name"]] = worker
            self.declarations.append(declaration)

    def _reply(
        self, name: str, arguments: dict[str, Any], cancelled: threading.Event
    ) -> dict[str, Any]:
        try:
            return self._by_name[name].call(name, arguments, self._timeout_s, cancelled)
        except _CancelledError:
            return {"error": _STOPPED}
        except _TooLongError:
            return {"error": f"{name} gave no result within {self._timeout_s:g} seconds"}
        except (OSError, ValueError, EOFError, GemmachatError):
            return {"error": f"{name} ended without a result"}

    def _known(self, name: str) -> str | None:
        """The tool that is meant; models put names of modules before those of tools."""
        if name in self._by_name:
            return name
        last = name.replace(":", ".").rsplit(".", 1)[-1]
        return last if last in self._by_name else None


def _answers(reply: dict[str, Any], call: int) -> bool:
    """Whether a reply is one to this call: tools may write to the pipe, or fork and go on twice."""
    if reply.get("call") != call:
        return False
    if "error" in reply:
        return isinstance(reply["error"], str)
    return "result" in reply and (isinstance(reply["result"], str) or is_json(reply["result"]))


def _bounded(result: Any) -> Any:
    if isinstance(result, str):
        return _cut(result)
    text = json.dumps(result, ensure_ascii=False)
    return result if len(text) <= MAX_RESULT else _cut(text)


def _cut(text: str) -> str:
    text = text.encode("utf-8", "replace").decode()  # lone surrogates
    rest = len(text) - MAX_RESULT
    return text if rest <= 0 else f"{text[:MAX_RESULT]} ... ({rest} more characters are left out)"
