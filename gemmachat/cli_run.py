"""`gemmachat run`: a chat, or the answer to one question."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from gemmachat import cli_shared
from gemmachat.catalog import ResolvedModel, looks_like_model
from gemmachat.cli_shared import (
    Draft,
    Drafter,
    KernelChoice,
    KnownModel,
    Threads,
    draft_policy,
    kernel_choice,
    plain_number,
)
from gemmachat.errors import UsageError
from gemmachat.render import Screen
from gemmachat.sampling import MAX_INT32, SamplingParams


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
    ctx: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Tokens that the conversation can hold."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Go on where memory seems too small for the model.")
    ] = False,
    threads: Threads = None,
    kernels: KernelChoice = None,
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
) -> None:
    """Chat, or answer one PROMPT.

    MODEL is a name, as of `gemmachat list`, or the path of a GGUF file; by default it is the
    configured model, else the only pulled one, else "tiny", a demo. A lone argument is a MODEL when
    it is a known name, begins with hf:, ends in .gguf or is a path with a "/" to an existing file;
    otherwise it is the PROMPT.

    Text piped into standard input is put before the PROMPT, with a blank line between them. Without
    both, a chat starts.
    """
    from gemmachat.ask import answer_once, read_question
    from gemmachat.chat import Chat, GenerationOptions
    from gemmachat.repl import Repl
    from gemmachat.stop import StopStrings

    screen: Screen = context.obj
    name, prompt = _model_and_prompt(first, second)
    prompt, system = _utf8("the PROMPT", prompt), _utf8("--system", system)
    model, hint = cli_shared.find_model(name, drafter)
    if temperature is None:
        temperature = 1.0 if model.temperature is None else model.temperature
    options = GenerationOptions(
        sampling=SamplingParams(
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            typical_p=typical_p,
            seed=seed,
            logit_bias=tuple(map(_bias, logit_bias or ())),
            repeat_penalty=repeat_penalty,
            repeat_last_n=repeat_last_n,
            presence_penalty=presence_penalty,
            frequency_penalty=frequency_penalty,
            min_tokens=min_tokens,
            logprobs=logprobs,
            grammar=_grammar(json_schema, json_object, grammar),
        ),
        draft=draft_policy(draft),
        max_tokens=max_tokens,
        exact=exact,
        stop=tuple(_utf8("--stop", text) or "" for text in stop or ()),
    )
    _check_bias_exists(options.sampling, model)
    StopStrings(options.stop)  # refuses those that make no sense before a model is loaded
    if logprobs and not as_json:
        raise UsageError("--logprobs needs --json, which prints them")
    if max_tokens is not None and min_tokens > max_tokens:
        raise UsageError(f"--min-tokens {min_tokens} is more than --max-tokens {max_tokens}")
    if model.drafter is None and isinstance(options.draft, int):
        raise UsageError(f"--draft {draft} needs a drafter: pass its file with --drafter PATH")
    question = read_question(prompt)
    if question is None and as_json:
        raise UsageError("--json answers one PROMPT: give one, or pipe some text in")
    chosen = kernel_choice(kernels)
    if hint is not None:
        screen.note(hint)

    n_ctx = ctx or model.context
    with (
        cli_shared.open_engine(
            model, threads, n_ctx=n_ctx, exact=exact, force=force, kernels=chosen
        ) as engine,
        engine.session(n_ctx=n_ctx, exact=exact) as session,
    ):
        if model.unit is not None:
            model.unit.touch()
        chat = Chat(engine, session, options, system=system)
        if question is None:
            screen.note(f"{model.name}: /help lists the commands, Ctrl-D leaves")
            Repl(chat, screen, stats=stats).run()
        else:
            code = answer_once(
                chat, question, screen, model=model.name, as_json=as_json, stats=stats
            )
            raise typer.Exit(code)


def _model_and_prompt(first: str | None, second: str | None) -> tuple[str | None, str | None]:
    if first is None or second is not None:
        return first, second
    return (first, None) if looks_like_model(first) else (None, first)


def _utf8(what: str, text: str | None) -> str | None:
    """Return the text of an argument, also where the locale could not decode its bytes."""
    try:
        (text or "").encode("utf-8")
    except UnicodeEncodeError:
        try:
            return os.fsencode(text or "").decode("utf-8")
        except UnicodeError:
            raise UsageError(f"{what} is not valid UTF-8 text") from None
    return text


def _bias(text: str) -> tuple[int, float]:
    token, _, value = text.partition("=")
    try:
        return int(plain_number(token)), float(plain_number(value))
    except ValueError:
        raise UsageError(
            f"--logit-bias must be a token id and a number, as in 106=-inf, not {text[:40]!r}"
        ) from None


def _check_bias_exists(sampling: SamplingParams, model: ResolvedModel) -> None:
    if not sampling.logit_bias:
        return
    from gemmachat.gguf_info import read_header, validate_target

    size = validate_target(read_header(model.target)).vocab
    for token, _ in sampling.logit_bias:
        if token >= size:
            raise UsageError(
                f"there is no token {token} to bias: the vocabulary of {model.name} has {size} "
                "tokens"
            )


def _grammar(schema: Path | None, json_object: bool, grammar: Path | None) -> str | None:
    given = [schema is not None, json_object, grammar is not None]
    if sum(given) > 1:
        raise UsageError("give only one of --json-schema, --json-object and --grammar")
    if not any(given):
        return None
    from gemmachat.grammar import read_grammar, read_schema
    from gemmachat.json_schema import any_object

    if schema is not None:
        return read_schema(Path(os.path.expanduser(schema)))
    return any_object() if grammar is None else read_grammar(Path(os.path.expanduser(grammar)))
