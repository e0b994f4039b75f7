"""What `gemmachat run` is asked for, and how that is done: a chat, or the answer to a question."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gemmachat import loading, run_options, settings
from gemmachat.background import Background
from gemmachat.catalog import ResolvedModel, looks_like_model
from gemmachat.errors import NotFoundError, UsageError
from gemmachat.sampling import SamplingParams
from gemmachat.typed_values import draft_policy

if TYPE_CHECKING:
    from gemmachat.ask import Form
    from gemmachat.chat_source import Source
    from gemmachat.generation import GenerationOptions
    from gemmachat.render import Screen
    from gemmachat.store import SavedChat, Store
    from gemmachat.talk import Talk


@dataclass(frozen=True)
class RunRequest:
    """The arguments and options of `gemmachat run` by their names, with their defaults."""

    first: str | None = None
    """MODEL, or PROMPT where it is the only argument and no known model."""
    second: str | None = None
    drafter: str | None = None
    draft: str = "auto"
    exact: bool = False
    temperature: float | None = None
    top_k: int = 64
    top_p: float = 0.95
    min_p: float = 0.0
    typical_p: float = 1.0
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Sequence[str] | None = None
    min_tokens: int = 0
    stop: Sequence[str] | None = None
    json_schema: Path | None = None
    json_object: bool = False
    grammar: Path | None = None
    seed: int | None = None
    max_tokens: int | None = None
    system: str | None = None
    system_file: str | None = None
    think: bool = False
    thought_budget: int | None = None
    tools: Sequence[str] | None = None
    yes: bool = False
    file: Sequence[str] | None = None
    no_save: bool = False
    base_url: str | None = None
    model: str | None = None
    ctx: int | None = None
    force: bool = False
    threads: int | None = None
    kernels: str | None = None
    plain: bool = False
    stats: bool = False
    logprobs: int = 0
    as_json: bool = False
    json_lines: bool = False


def execute(
    request: RunRequest,
    screen: Screen,
    *,
    here: Collection[str] = (),
    given: Collection[str] = (),
    resumed: SavedChat | None = None,
) -> int:
    """Do what is asked for and return the exit code. Raises what any part of it raises.

    `given` names the options that were given, `here` those of the command line alone, without those
    that come from `resumed`, a chat that goes on.
    """
    from gemmachat.ask import read_question
    from gemmachat.saving import Saving

    name, prompt = _model_and_prompt(request, remote="base_url" in here)
    here_only = run_options.stays_here(request.base_url, request.model, name, here)
    prompt = run_options.utf8("the PROMPT", prompt)
    form = run_options.form(request.as_json, request.json_lines)
    base_url = None if here_only else request.base_url
    source, hint = _source(request, name, base_url, screen, form, here, given, resumed)
    question = read_question(prompt, request.file or ())
    if question is None and form != "text":
        raise UsageError(f"--{form} answers one PROMPT: give one, or pipe some text in")
    if hint is not None:
        screen.note(hint)
    screen.display.markdown = not request.plain
    store = None if request.no_save else _store(screen, tells=question is None)
    saving = Saving(store, resumed)
    if question is not None:
        from gemmachat.one_answer import answer_one

        return answer_one(source, screen, saving, question, form, stats=request.stats)
    from gemmachat.talk import Talk
    from gemmachat.terminal_chat import run_chat

    chat = Background(lambda: Talk.of(source, screen, saving, stats=request.stats))
    chat.wait()
    run_chat(chat, screen, private=store is None)
    return 0


def begin(name: str | None, screen: Screen) -> Talk:
    """A chat with a model on this machine, without options. Raises what `execute` raises."""
    from gemmachat.saving import Saving
    from gemmachat.talk import Talk

    source, hint = _source(RunRequest(), name, None, screen, "text")
    if hint is not None:
        screen.note(hint)
    return Talk.of(source, screen, Saving(_store(screen, tells=True), None), stats=False)


def _source(
    request: RunRequest,
    name: str | None,
    base_url: str | None,
    screen: Screen,
    form: Form,
    here: Collection[str] = (),
    given: Collection[str] = (),
    resumed: SavedChat | None = None,
) -> tuple[Source, str | None]:
    """Return what answers, and what to tell about it. It is not loaded yet."""
    found, hint = None, None
    if base_url is None:
        # A drafter that was saved belongs to the model of that chat, and not to another one.
        if name is not None and "drafter" not in here:
            request = replace(request, drafter=None)
        found, hint = _find(name, request, resumed)
    options = _generation_options(request, found, resumed)
    run_options.check(options, form)
    return _source_of(request, found, base_url, options, screen, given), hint


def _store(screen: Screen, *, tells: bool) -> Store | None:
    """Return where chats are saved; None for a user without a home, which is told if it matters."""
    from gemmachat.settings import chats_file
    from gemmachat.store import Store

    try:
        return Store(chats_file(), screen.note)
    except NotFoundError as error:
        if tells:
            screen.note(f"this chat is not saved: {error}")
        return None


def _model_and_prompt(request: RunRequest, *, remote: bool) -> tuple[str | None, str | None]:
    first, second = request.first, request.second
    if first is None or second is not None:
        return first, second
    return (first, None) if looks_like_model(first) and not remote else (None, first)


def _find(
    name: str | None, request: RunRequest, resumed: SavedChat | None
) -> tuple[ResolvedModel, str | None]:
    if name is not None or resumed is None:
        try:
            return loading.find_model(name, request.drafter)
        except NotFoundError as error:
            if name is None or request.second is None or looks_like_model(name):
                raise
            raise NotFoundError(f"{error} (a prompt of several words needs quotes)") from None
    try:
        return loading.find_model(run_options.model_of(resumed), request.drafter)
    except NotFoundError as error:
        raise run_options.explained(error, resumed) from error


def _generation_options(
    request: RunRequest, model: ResolvedModel | None, resumed: SavedChat | None
) -> GenerationOptions:
    """Return what answers begin with; `model` is None where a server has it."""
    from gemmachat.generation import GenerationOptions

    temperature = request.temperature
    if temperature is None:
        temperature = 1.0 if model is None or model.temperature is None else model.temperature
    run_options.check_one_form(request.json_schema, request.json_object, request.grammar)
    grammar = None
    if model is not None:
        grammar = run_options.grammar_text(
            request.json_schema, request.json_object, request.grammar
        ) or run_options.saved_grammar(resumed)
    return GenerationOptions(
        sampling=SamplingParams(
            temperature=temperature,
            top_k=request.top_k,
            top_p=request.top_p,
            min_p=request.min_p,
            typical_p=request.typical_p,
            seed=request.seed,
            logit_bias=tuple(map(run_options.bias, request.logit_bias or ())),
            repeat_penalty=request.repeat_penalty,
            repeat_last_n=request.repeat_last_n,
            presence_penalty=request.presence_penalty,
            frequency_penalty=request.frequency_penalty,
            min_tokens=request.min_tokens,
            logprobs=request.logprobs,
            grammar=grammar,
        ),
        draft=draft_policy(request.draft),
        max_tokens=request.max_tokens,
        exact=request.exact,
        stop=tuple(run_options.utf8("--stop", text) or "" for text in request.stop or ()),
        think=request.think,
        thought_budget=request.thought_budget,
    )


def _source_of(
    request: RunRequest,
    model: ResolvedModel | None,
    base_url: str | None,
    options: GenerationOptions,
    screen: Screen,
    given: Collection[str],
) -> Source:
    from gemmachat.chat_source import LocalSource, RemoteSource

    system = run_options.system_prompt(request.system, request.system_file)
    tools = run_options.tools(request.tools or (), screen, yes=request.yes)
    if model is None:
        extra = run_options.response_format(request.json_schema, request.json_object)
        options = replace(options, given=frozenset(given))
        return RemoteSource.of(base_url or "", request.model, options, system, extra, tools)
    run_options.check_model(options, model)
    return LocalSource(
        model,
        options,
        system,
        request.threads,
        request.ctx,
        request.force,
        request.drafter,
        tools,
        settings.kernels(request.kernels, "--kernels"),
    )
