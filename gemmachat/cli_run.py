"""`gemmachat run`: a chat, or the answer to one question."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gemmachat import cli_shared, run_options
from gemmachat.catalog import ResolvedModel, looks_like_model
from gemmachat.cli_shared import Draft, Drafter, KnownModel, Threads, draft_policy
from gemmachat.errors import NotFoundError, UsageError
from gemmachat.render import Screen
from gemmachat.sampling import MAX_INT32, SamplingParams

if TYPE_CHECKING:
    from gemmachat.chat_source import Source
    from gemmachat.store import SavedChat


def run(
    context: typer.Context,
    first: KnownModel = None,
    second: Annotated[str | None, typer.Argument(metavar="PROMPT", show_default=False)] = None,
    drafter: Drafter = None,
    draft: Draft = "auto",
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="Greedy answers are the same bit for bit, whatever is drafted."
        ),
    ] = False,
    temperature: Annotated[
        float | None,
        typer.Option(
            metavar="T",
            help="0 is greedy: always the likeliest token. Default: the model's own, else 1.0.",
        ),
    ] = None,
    top_k: Annotated[
        int, typer.Option(metavar="K", help="Keep the K likeliest tokens; 0 keeps all.")
    ] = 64,
    top_p: Annotated[
        float,
        typer.Option(metavar="P", help="Keep the likeliest tokens up to this sum; 1 keeps all."),
    ] = 0.95,
    min_p: Annotated[
        float,
        typer.Option(metavar="P", help="Drop tokens below this fraction of the likeliest."),
    ] = 0.0,
    typical_p: Annotated[
        float,
        typer.Option(metavar="P", help="Keep the most typical tokens up to this sum; 1 keeps all."),
    ] = 1.0,
    repeat_penalty: Annotated[
        float, typer.Option(metavar="X", help="Above 1: less of what was said before; 1 is off.")
    ] = 1.0,
    repeat_last_n: Annotated[
        int, typer.Option(metavar="N", help="Tokens that --repeat-penalty looks back; -1: all.")
    ] = 64,
    presence_penalty: Annotated[
        float, typer.Option(metavar="X", help="Taken from the logits of tokens in the answer.")
    ] = 0.0,
    frequency_penalty: Annotated[
        float, typer.Option(metavar="X", help="The same for every time that they occur.")
    ] = 0.0,
    logit_bias: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOKEN=X",
            help="Add X to the logit of a token id; -inf bans it. Can be repeated.",
        ),
    ] = None,
    min_tokens: Annotated[
        int, typer.Option(metavar="N", min=0, max=MAX_INT32, help="Shortest answer.")
    ] = 0,
    stop: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="End the answer before this text. Can be repeated."),
    ] = None,
    json_schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Answer with JSON that this JSON schema allows."),
    ] = None,
    json_object: Annotated[
        bool, typer.Option("--json-object", help="Answer with a JSON object.")
    ] = False,
    grammar: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Answer with text that this GBNF grammar allows."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="The same seed gives the same text; default: random."),
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=MAX_INT32, help="Longest answer.")
    ] = None,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="System prompt.")] = None,
    system_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="System prompt from a file.")
    ] = None,
    think: Annotated[
        bool, typer.Option("--think/--no-think", help="Have the model think before it answers.")
    ] = False,
    thought_budget: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=MAX_INT32, help="Longest thought, in tokens."),
    ] = None,
    tools: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Let the model call the functions of a Python file, a calculator and the clock; "
            f'"{run_options.BUILTIN}" for these two alone. Can be repeated.',
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Run what the model calls without asking.")
    ] = False,
    file: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Put a text file before the PROMPT. Can be repeated."),
    ] = None,
    _resume: Annotated[
        str | None,
        typer.Option(
            "--resume",
            metavar="[ID]",
            is_eager=True,
            callback=run_options.take_up,
            help="Go on with a saved chat, as of `gemmachat chats`; without ID the latest.",
        ),
    ] = None,
    no_save: Annotated[bool, typer.Option("--no-save", help="Save nothing of this chat.")] = False,
    base_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Chat with an OpenAI-compatible server, such as http://127.0.0.1:8000/v1.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --base-url: the model, if there are several."),
    ] = None,
    ctx: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Tokens that the conversation can hold."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Go on where memory seems too small for the model.")
    ] = False,
    threads: Threads = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Show answers as they are, without Markdown.")
    ] = False,
    stats: Annotated[
        bool, typer.Option("--stats", help="After each answer, show speed and drafting figures.")
    ] = False,
    logprobs: Annotated[
        int,
        typer.Option(metavar="N", help="With --json: N alternatives for every token, up to 20."),
    ] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the answer as one JSON object.")
    ] = False,
    json_lines: Annotated[
        bool, typer.Option("--json-lines", help="Print JSON events while the answer comes.")
    ] = False,
) -> None:
    """Chat, or answer one PROMPT.

    MODEL is a name, as of `gemmachat list`, or the path of a GGUF file; by default it is the
    configured model, else the only pulled one, else "tiny", a demo. A lone argument is a MODEL when
    it is a known name, begins with hf:, ends in .gguf or is a path with a "/" to an existing file;
    otherwise it is the PROMPT.

    Files and text piped into standard input are put before the PROMPT, with blank lines between
    them. Without any of these, a chat starts. Chats are saved (`gemmachat chats`); of single
    answers only those that go on with a saved chat.

    The key for --base-url is read from GEMMACHAT_API_KEY or, over https and on this machine only,
    OPENAI_API_KEY.
    """
    from gemmachat.ask import read_question
    from gemmachat.chat_source import LocalSource, RemoteSource
    from gemmachat.generation import GenerationOptions
    from gemmachat.one_answer import answer_one
    from gemmachat.saving import Saving
    from gemmachat.settings import chats_file
    from gemmachat.store import Store

    screen: Screen = context.obj
    here = run_options.given(context, here=True)
    name, prompt = _model_and_prompt(first, second, remote="base_url" in here)
    if run_options.stays_here(base_url, model, name, here):
        base_url = None
    prompt = run_options.utf8("the PROMPT", prompt)
    resumed = run_options.resumed_chat(context)
    found, hint = None, None
    if base_url is None:
        found, hint = _find(name, drafter, resumed)
    if temperature is None:
        temperature = 1.0 if found is None or found.temperature is None else found.temperature
    run_options.check_one_form(json_schema, json_object, grammar)
    options = GenerationOptions(
        sampling=SamplingParams(
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            typical_p=typical_p,
            seed=seed,
            logit_bias=tuple(map(run_options.bias, logit_bias or ())),
            repeat_penalty=repeat_penalty,
            repeat_last_n=repeat_last_n,
            presence_penalty=presence_penalty,
            frequency_penalty=frequency_penalty,
            min_tokens=min_tokens,
            logprobs=logprobs,
            grammar=None
            if base_url
            else run_options.grammar_text(json_schema, json_object, grammar)
            or run_options.saved_grammar(resumed),
        ),
        draft=draft_policy(draft),
        max_tokens=max_tokens,
        exact=exact,
        stop=tuple(run_options.utf8("--stop", text) or "" for text in stop or ()),
        think=think,
        thought_budget=thought_budget,
    )
    form = run_options.form(as_json, json_lines)
    run_options.check(options, form)
    system = run_options.system_prompt(system, system_file)
    started = run_options.tools(tools or (), screen, yes=yes)
    screen.display.markdown = not plain
    source: Source
    if found is not None:
        run_options.check_model(options, found)
        source = LocalSource(found, options, system, threads, ctx, force, drafter, started)
    else:
        source = RemoteSource.of(
            base_url or "",
            model,
            options,
            system,
            run_options.given(context),
            run_options.response_format(json_schema, json_object),
            started,
        )
    question = read_question(prompt, file or ())
    if question is None and form != "text":
        raise UsageError(f"--{form} answers one PROMPT: give one, or pipe some text in")
    if hint is not None:
        screen.note(hint)
    saving = Saving(None if no_save else Store(chats_file(), screen.note), resumed)
    if question is not None:
        raise typer.Exit(answer_one(source, screen, saving, question, form, stats=stats))
    from gemmachat.terminal_chat import run_chat

    run_chat(source, screen, saving, stats=stats)


def _model_and_prompt(
    first: str | None, second: str | None, *, remote: bool
) -> tuple[str | None, str | None]:
    if first is None or second is not None:
        return first, second
    return (first, None) if looks_like_model(first) and not remote else (None, first)


def _find(
    name: str | None, drafter: str | None, resumed: SavedChat | None
) -> tuple[ResolvedModel, str | None]:
    if name is not None or resumed is None:
        return cli_shared.find_model(name, drafter)
    try:
        return cli_shared.find_model(run_options.model_of(resumed), drafter)
    except NotFoundError as error:
        raise run_options.explained(error, resumed) from error
