"""A conversation with a model on an OpenAI-compatible server (vLLM, llama-server, and others)."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gemmachat.conversation import Conversation, Message, ToolCall, is_json
from gemmachat.dialogue import MAX_ROUNDS, Dialogue, Tools
from gemmachat.endpoint import Endpoint
from gemmachat.errors import NotFoundError, ServerError
from gemmachat.event_stream import events
from gemmachat.generation import UNREADABLE, Answer, GenerationOptions
from gemmachat.http_exchange import CancelledExchangeError, Exchange
from gemmachat.remote_prompt import request
from gemmachat.remote_reply import RemoteCall, RemoteReply
from gemmachat.remote_stats import Clock, server_stats
from gemmachat.stats import Stats, combine
from gemmachat.tool_calls import with_error

if TYPE_CHECKING:
    from gemmachat.parse import Piece
    from gemmachat.session import FinishReason

_FINISH: Mapping[str, FinishReason] = {"length": "length"}


def find_model(endpoint: Endpoint) -> str:
    """Return the name of the only model that a server has.

    Raises `NotFoundError` where it has none or several, and `ServerError` where it cannot be asked.
    """
    found = Exchange(endpoint).get_json("/models")
    entries = found.get("data") if isinstance(found, dict) else None
    names = [
        entry["id"]
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict) and isinstance(entry.get("id"), str) and entry["id"]
    ]
    if len(names) != 1:
        has = f"has {', '.join(names[:20])}" if names else "names no model"
        raise NotFoundError(f"{endpoint.name} {has}: say which one with --model NAME")
    return str(names[0])


class RemoteChat(Dialogue):
    """The turns of one conversation with a server.

    Options are sent where they are no defaults or were given; `extra` joins every request as it is.
    The server's history is what is sent with each question: thoughts are not.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        model: str,
        options: GenerationOptions,
        *,
        system: str | None = None,
        tools: Tools | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(options, system=system, tools=tools)
        self.model = model
        self._exchange = Exchange(endpoint)
        self._extra = extra or {}
        self._used = 0
        self._counted: Message | None = None  # the one that `_used` tokens end with

    @property
    def used_tokens(self) -> int:
        """Tokens of the context after the last answer, as the server counts; 0 where it did not.

        They are 0 too where the conversation ends with something else by now.
        """
        last = self._conversation.messages[-1:]
        return self._used if last and last[0] is self._counted else 0

    @property
    def n_ctx(self) -> None:
        """What the context holds is the server's secret."""
        return None

    def cancel(self) -> None:
        """Stop what is generated or called, or what comes next. Any thread."""
        self._cancelled.set()
        self._exchange.cancel()

    def clear_cancel(self) -> None:
        """Take back a cancel that nothing has answered."""
        self._cancelled.clear()
        self._exchange.clear_cancel()

    def close(self) -> None:
        """End what is running."""
        self._exchange.cancel()

    def _turn(
        self, asked: Conversation, options: GenerationOptions, tools: Tools | None
    ) -> Generator[Piece, None, tuple[list[Message], Answer, bool]]:
        said: list[Message] = []
        done: list[_Round] = []
        while True:
            spent = sum(each.stats.completion_tokens for each in done)
            if options.max_tokens is not None and done:
                options = replace(options, max_tokens=max(options.max_tokens - spent, 1))
            done.append(_Round(RemoteReply(self._exchange.without_key)))
            yield from self._round(done[-1], asked.extended(*said), options, tools)
            finish_reason, message = done[-1].finish_reason, done[-1].message
            if finish_reason == "stop" or message.text or message.tool_calls:
                said.append(message)
            if not message.tool_calls:
                break
            said[-1] = yield from self._called(message, tools, runs=len(done) <= MAX_ROUNDS)
            if finish_reason == "stop" and self._cancelled.is_set():
                finish_reason = "cancelled"
            if finish_reason != "stop" or len(done) > MAX_ROUNDS + 1:
                break
        stats = combine([each.stats for each in done])
        if said:
            self._used, self._counted = stats.prompt_tokens + stats.completion_tokens, said[-1]
        answer = Answer(
            text="".join(each.text for each in done),
            thinking="\n\n".join(filter(None, (each.message.thinking for each in done))),
            tokens=(),
            finish_reason=finish_reason,
            seed=options.sampling.seed,
            stats=stats,
            logprobs=(),
            tool_calls=tuple(call for message in said for call in message.tool_calls),
        )
        return said, answer, bool(said)

    def _round(
        self,
        into: _Round,
        conversation: Conversation,
        options: GenerationOptions,
        tools: Tools | None,
    ) -> Iterator[Piece]:
        """Stream one reply of the server."""
        body = {**request(self.model, conversation, options, tools), **self._extra}
        stream = self._exchange.post("/chat/completions", body)
        try:
            for data in events(stream):
                yield from into.seen(into.reply.feed(data))
                if into.reply.done:
                    break
            yield from into.seen(into.reply.flush())
        except CancelledExchangeError:
            into.cancelled = True
        finally:
            stream.close()
            into.ended = time.perf_counter()
        if not (into.cancelled or into.reply.done or into.reply.finish_reason):
            raise ServerError("the server broke off before its answer had ended: ask again")


@dataclass(slots=True)
class _Round:
    """One reply as it comes."""

    reply: RemoteReply
    cancelled: bool = False
    started: float = field(default_factory=time.perf_counter)
    first: float | None = None
    ended: float = 0.0
    _answer: list[str] = field(default_factory=list)
    _thinking: list[str] = field(default_factory=list)

    def seen(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """Keep the pieces as they pass."""
        for piece in pieces:
            if self.first is None:
                self.first = time.perf_counter()
            (self._thinking if piece.part == "thought" else self._answer).append(piece.text)
            yield piece

    @property
    def text(self) -> str:
        return "".join(self._answer)

    @property
    def finish_reason(self) -> FinishReason:
        if self.cancelled:
            return "cancelled"
        return _FINISH.get(self.reply.finish_reason or "", "stop")

    @property
    def message(self) -> Message:
        """The message, its calls without results yet; of a reply that broke off, without calls."""
        calls = self.reply.calls if self.finish_reason == "stop" else []
        return Message(
            "model",
            self.text.strip(),
            "".join(self._thinking).strip(),
            tuple(_read(call) for call in calls),
        )

    @property
    def stats(self) -> Stats:
        clock = Clock(self.started, self.first, self.ended)
        return server_stats(self.reply.usage, self.reply.timings, clock)


def _read(call: RemoteCall) -> ToolCall:
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = None
    if not call.name or not isinstance(arguments, dict) or not is_json(arguments):
        return with_error(ToolCall(UNREADABLE), "the call has no name, or no JSON as arguments")
    return ToolCall(call.name, arguments)
