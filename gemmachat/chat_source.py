"""Where the answers of a chat come from: a model on this machine, or one on a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from gemmachat import loading
from gemmachat.catalog import ResolvedModel, resolve
from gemmachat.errors import NotFoundError
from gemmachat.opening import OpenedChat

if TYPE_CHECKING:
    from gemmachat.endpoint import Endpoint
    from gemmachat.generation import GenerationOptions
    from gemmachat.tool_runner import ToolRunner


class Source(Protocol):
    """A model that can be opened for a chat."""

    @property
    def name(self) -> str:
        """What the user sees as the model's name."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What finds the model again: JSON values by the names of `gemmachat run`'s options."""

    @property
    def options(self) -> GenerationOptions:
        """What a new chat begins with."""

    @property
    def system(self) -> str | None:
        """The system prompt that the user gave."""

    def open(self) -> OpenedChat:
        """Return a new chat with the model. Raises what loading it raises."""

    def other(self, name: str) -> Source:
        """The same with another model. Raises `NotFoundError` where there is none of that name."""


@dataclass(frozen=True, slots=True)
class LocalSource:
    """A model on this machine."""

    model: ResolvedModel
    options: GenerationOptions
    system: str | None = None
    threads: int | None = None
    ctx: int | None = None
    """Tokens of the context, where the user gave a number."""
    force: bool = False
    drafter: str | None = None
    """The path of a drafter, where the user gave one."""
    tools: Callable[[], ToolRunner] | None = None
    """Starts what the model may call."""
    kernels: str | None = None
    """Which matrix kernels to use; None leaves it to the environment."""

    @property
    def name(self) -> str:
        """The name in the catalog, on the shelf, or of the file."""
        return self.model.name

    @property
    def settings(self) -> dict[str, Any]:
        """A name that leads to the model's file, and what was given with it."""
        settings: dict[str, Any] = {"MODEL": _reference(self.model)}
        if self.ctx is not None:
            settings["ctx"] = self.ctx
        if self.drafter is not None and self.model.drafter is not None:
            settings["drafter"] = str(self.model.drafter.absolute())
        return settings

    def open(self) -> OpenedChat:
        """Load the model."""
        from gemmachat.chat import Chat

        n_ctx, exact = self.ctx or self.model.context, self.options.exact
        with ExitStack() as opened:
            engine = opened.enter_context(
                loading.open_engine(
                    self.model,
                    self.threads,
                    n_ctx=n_ctx,
                    exact=exact,
                    force=self.force,
                    kernels=self.kernels,
                )
            )
            session = opened.enter_context(engine.session(n_ctx=n_ctx, exact=exact))
            if self.model.unit is not None:
                self.model.unit.touch()
            tools = opened.enter_context(self.tools()) if self.tools is not None else None
            chat = Chat(engine, session, self.options, system=self.system, tools=tools)
            return OpenedChat(chat, engine.vocab, opened.pop_all().close)

    def other(self, name: str) -> LocalSource:
        """The same with another model, and the drafter that belongs to it."""
        return replace(self, model=loading.find_model(name, None)[0], drafter=None)


@dataclass(frozen=True, slots=True)
class RemoteSource:
    """A model on an OpenAI-compatible server; see `RemoteChat`."""

    endpoint: Endpoint
    base_url: str
    name: str
    options: GenerationOptions
    system: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    tools: Callable[[], ToolRunner] | None = None
    """Starts what the model may call."""

    @classmethod
    def of(
        cls,
        base_url: str,
        name: str | None,
        options: GenerationOptions,
        system: str | None,
        extra: Mapping[str, Any],
        tools: Callable[[], ToolRunner] | None = None,
    ) -> RemoteSource:
        """The model of this name, without a name the only one; the server is asked which that is.

        Raises `UsageError` on an impossible address, and what `remote.find_model` raises.
        """
        from gemmachat.endpoint import Endpoint
        from gemmachat.remote import find_model

        endpoint = Endpoint.of(base_url)
        name = name or find_model(endpoint)
        return cls(endpoint, base_url, name, options, system, extra, tools)

    @property
    def settings(self) -> dict[str, Any]:
        """Where the server is, and the model's name there; the key is never saved."""
        return {"base_url": self.base_url, "model": self.name}

    def open(self) -> OpenedChat:
        """Return a chat; the server is asked for nothing yet."""
        from gemmachat.remote import RemoteChat

        with ExitStack() as opened:
            tools = opened.enter_context(self.tools()) if self.tools is not None else None
            chat = RemoteChat(
                self.endpoint,
                self.name,
                self.options,
                system=self.system,
                tools=tools,
                extra=self.extra,
            )
            opened.callback(chat.close)
            return OpenedChat(chat, None, opened.pop_all().close)

    def other(self, name: str) -> RemoteSource:
        """Another model of the server, which alone knows whether it has it."""
        return replace(self, name=name)


def _reference(model: ResolvedModel) -> str:
    try:
        if resolve(model.name).target == model.target:
            return model.name
    except NotFoundError:
        pass
    return str(model.target.absolute())
