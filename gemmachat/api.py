"""A chat in a few lines of Python: a model by its name, questions in, pieces of the answer out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING

from gemmachat.conversation import Conversation
from gemmachat.errors import UsageError
from gemmachat.sampling import SamplingParams

if TYPE_CHECKING:
    from gemmachat.dialogue import Compaction, Dialogue, Tools
    from gemmachat.generation import Answer, GenerationOptions
    from gemmachat.parse import Piece
    from gemmachat.session import DraftPolicy


class Chat:
    """One conversation with a model. Close it, or use `with`.

    `model` is what `gemmachat run` takes: a name, or the path of a GGUF file; None is the default
    model. With `base_url` it is the name of a model on an OpenAI-compatible server, and may be None
    where there is one only. Raises `NotFoundError`, `DamagedFileError`, `MemoryLimitError`,
    `UsageError` or `ServerError`.

        with gemmachat.Chat("tiny") as chat:
            for piece in chat.send("What is a token?"):
                print(piece.text, end="", flush=True)
            print(chat.last.stats.mean_accepted_length)
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        drafter: str | None = None,
        base_url: str | None = None,
        system: str | None = None,
        sampling: SamplingParams | None = None,
        draft: DraftPolicy = "auto",
        exact: bool = False,
        max_tokens: int | None = None,
        stop: str | tuple[str, ...] = (),
        think: bool = False,
        thought_budget: int | None = None,
        tools: Tools | None = None,
        n_ctx: int | None = None,
        threads: int | None = None,
    ) -> None:
        from gemmachat.generation import GenerationOptions
        from gemmachat.loading import find_model

        for name, limit in (("max_tokens", max_tokens), ("thought_budget", thought_budget)):
            if limit is not None and limit < 1:
                raise UsageError(f"{name} must be at least 1, not {limit}")
        with ExitStack() as opened:
            if base_url is None:
                found, _ = find_model(model, drafter)
                usual = 1.0 if found.temperature is None else found.temperature
            elif drafter is not None or n_ctx is not None or threads is not None or exact:
                raise UsageError("drafter, n_ctx, threads and exact are the server's to choose")
            else:
                usual = 1.0
            options = GenerationOptions(
                SamplingParams(temperature=usual) if sampling is None else sampling,
                draft,
                max_tokens,
                exact=exact,
                stop=(stop,) if isinstance(stop, str) else stop,
                think=think,
                thought_budget=thought_budget,
            )
            if base_url is None:
                from gemmachat.chat import Chat as LocalChat
                from gemmachat.engine import Engine

                room = found.context if n_ctx is None else n_ctx
                engine = opened.enter_context(
                    Engine.load(
                        found.target, found.drafter, threads=threads, n_ctx=room, exact=exact
                    )
                )
                session = opened.enter_context(engine.session(n_ctx=room, exact=exact))
                self._chat: Dialogue = LocalChat(
                    engine, session, options, system=system, tools=tools
                )
            else:
                self._chat = _remote(base_url, model, options, system, tools, sampling)
            opened.callback(self._chat.close)
            self._close = opened.pop_all().close

    def send(self, question: str) -> Iterator[Piece]:
        """Stream the answer: pieces with a `part` ("thought", "answer" or "tool") and a `text`.

        The turn joins the conversation when all pieces were read. Raises `ContextFullError` when
        the conversation no longer fits, and `ServerError` where a server fails.
        """
        self._chat.clear_cancel()  # one that came after the last answer
        return self._chat.ask(question)

    def ask(self, question: str) -> Answer:
        """Return the whole answer. Raises what `send` raises."""
        return self._read(self.send(question))

    def regenerate(self) -> Iterator[Piece]:
        """Stream another answer to the last question. Raises `UsageError` where there is none."""
        self._chat.clear_cancel()
        return self._chat.regenerate()

    def edit(self, question: str) -> Iterator[Piece]:
        """Stream the answer to a question that replaces the last one, as `regenerate` does."""
        self._chat.clear_cancel()
        return self._chat.edit(question)

    def undo(self) -> str | None:
        """Take back the last question and its answer; returns the question, None without one."""
        return self._chat.undo()

    def compact(self) -> Compaction | None:
        """Have the model summarise all turns but the last; None where nothing was changed.

        Raises `UsageError` where there are no two turns.
        """
        self._chat.clear_cancel()
        for _ in self._chat.compact():
            pass
        return self._chat.compaction

    def cancel(self) -> None:
        """Stop the answer that comes, from any thread; what was said is kept."""
        self._chat.cancel()

    @property
    def last(self) -> Answer | None:
        """The answer that ended last, with its text, tokens, figures and reason to finish."""
        return self._chat.last

    @property
    def conversation(self) -> Conversation:
        """All that was said; `as_dict` and `Conversation.from_dict` make it JSON and back."""
        return self._chat.conversation

    @conversation.setter
    def conversation(self, conversation: Conversation) -> None:
        self._chat.restore(conversation)

    def close(self) -> None:
        """Free the model."""
        self._close()

    def __enter__(self) -> Chat:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _read(self, pieces: Iterator[Piece]) -> Answer:
        for _ in pieces:
            pass
        assert self._chat.last is not None, "an answer ended without one"
        return self._chat.last


def _remote(
    base_url: str,
    model: str | None,
    options: GenerationOptions,
    system: str | None,
    tools: Tools | None,
    sampling: SamplingParams | None,
) -> Dialogue:
    from gemmachat.endpoint import Endpoint
    from gemmachat.remote import RemoteChat, find_model

    endpoint = Endpoint.of(base_url)
    if sampling is not None:
        options = replace(options, given=frozenset(("temperature", "top_p")))
    name = model or find_model(endpoint)
    return RemoteChat(endpoint, name, options, system=system, tools=tools)
