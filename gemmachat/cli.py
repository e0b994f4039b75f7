"""The command line: parses, calls, and maps errors to exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from gemmachat import cli_convert
from gemmachat.catalog import DEFAULT_MODEL, ResolvedModel, looks_like_model, resolve
from gemmachat.engine import MAX_THREADS, DraftPolicy, Engine
from gemmachat.errors import GemmachatError, MemoryLimitError, UsageError
from gemmachat.interrupt import INTERRUPTED, exit_on_interrupt
from gemmachat.native import MAX_DRAFT, installed_version
from gemmachat.render import Screen
from gemmachat.sampling import SamplingParams

MAX_INT32 = 2**31 - 1

Drafter = Annotated[
    str | None, typer.Option(metavar="PATH", help="Drafter GGUF that belongs to the model.")
]
Threads = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, max=MAX_THREADS, help="Default: all processors."),
]
JsonReport = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

app = typer.Typer(
    name="gemmachat",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


app.command()(cli_convert.convert)


def open_engine(model: ResolvedModel, threads: int | None = None) -> Engine:
    """Load a pair. Tests put an engine without weights in its place."""
    with exit_on_interrupt():
        return Engine.load(model.target, model.drafter, threads=threads)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; every error ends as one sentence."""
    screen = Screen()
    code, problem = _outcome(sys.argv[1:] if arguments is None else arguments, screen)
    if problem:
        screen.error(problem)
    return code


def _outcome(arguments: Sequence[str], screen: Screen) -> tuple[int, str | None]:
    """Return the exit code and what went wrong. What a failed command held is free by then."""
    try:
        return _invoke(arguments, screen), None
    except KeyboardInterrupt:
        return INTERRUPTED, None
    except BrokenPipeError:  # the reader has what it wanted, as in `gemmachat run ... | head`
        screen.abandon_output()
        return 0, None
    except GemmachatError as error:
        return error.exit_code, str(error)
    except MemoryError:
        return MemoryLimitError.exit_code, "there is not enough memory"
    except (OSError, ImportError) as error:
        screen.abandon_output()
        return GemmachatError.exit_code, _failure(error)


def _failure(error: OSError | ImportError) -> str:
    if isinstance(error, ImportError):
        return f"gemmachat cannot be loaded: reinstall it ({error})"
    what = "reading or writing" if error.filename is None else f"access to {error.filename}"
    return f"{what} failed: {error.strerror or error}"


def _invoke(arguments: Sequence[str], screen: Screen) -> int:
    command = typer.main.get_command(app)
    try:
        with command.make_context("gemmachat", list(arguments), obj=screen) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    except typer.TyperException as error:
        problem = error.format_message().rstrip(".")
        raise UsageError(f"{problem} (see --help)") from None
    return 0


def _show_version(context: typer.Context, value: bool) -> None:
    if value:
        context.obj.result(f"gemmachat {installed_version('gemmachat')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def gemmachat(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Chat with Gemma 4 on your own machine."""
    if context.invoked_subcommand is None:
        context.obj.result(*context.get_help().splitlines())


@app.command()
def run(
    context: typer.Context,
    first: Annotated[str | None, typer.Argument(metavar="MODEL", show_default=False)] = None,
    second: Annotated[str | None, typer.Argument(metavar="PROMPT", show_default=False)] = None,
    drafter: Drafter = None,
    draft: Annotated[
        str,
        typer.Option(
            metavar="auto|off|N",
            help=f"Tokens to draft per round, 1 to {MAX_DRAFT}; "
            "auto: 3, or none while that does not pay.",
        ),
    ] = "auto",
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
    threads: Threads = None,
    stats: Annotated[
        bool, typer.Option("--stats", help="After each answer, show speed and drafting figures.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the answer as one JSON object.")
    ] = False,
) -> None:
    """Chat, or answer one PROMPT.

    MODEL is "tiny" (the default) or the path of a GGUF file. A lone argument is a MODEL when it is
    a known name, ends in .gguf or is a path with a "/" to an existing file; otherwise it is the
    PROMPT.

    Text piped into standard input is put before the PROMPT, with a blank line between them. Without
    both, a chat starts.
    """
    from gemmachat.ask import answer_once, read_question
    from gemmachat.chat import Chat, GenerationOptions
    from gemmachat.repl import Repl

    screen: Screen = context.obj
    name, prompt = _model_and_prompt(first, second)
    prompt, system = _utf8("the PROMPT", prompt), _utf8("--system", system)
    model = resolve(DEFAULT_MODEL if name is None else name, drafter)
    if temperature is None:
        temperature = 1.0 if model.temperature is None else model.temperature
    options = GenerationOptions(
        sampling=SamplingParams(temperature, top_k, top_p, min_p, seed),
        draft=_draft_policy(draft),
        max_tokens=max_tokens,
        exact=exact,
    )
    if model.drafter is None and isinstance(options.draft, int):
        raise UsageError(f"--draft {draft} needs a drafter: pass its file with --drafter PATH")
    question = read_question(prompt)
    if question is None and as_json:
        raise UsageError("--json answers one PROMPT: give one, or pipe some text in")
    if name is None:
        screen.note(
            f"{DEFAULT_MODEL} is a small demo model; for a real one: "
            "gemmachat run MODEL.gguf --drafter DRAFTER.gguf"
        )

    with (
        open_engine(model, threads) as engine,
        engine.session(n_ctx=ctx or model.context, exact=exact) as session,
    ):
        chat = Chat(engine, session, options, system=system)
        if question is None:
            screen.note(f"{model.name}: /help lists the commands, Ctrl-D leaves")
            Repl(chat, screen, stats=stats).run()
        else:
            code = answer_once(
                chat, question, screen, model=model.name, as_json=as_json, stats=stats
            )
            raise typer.Exit(code)


@app.command()
def doctor(
    context: typer.Context,
    as_json: JsonReport = False,
) -> None:
    """Show what gemmachat runs on."""
    from gemmachat.doctor import examine

    report = examine()
    screen: Screen = context.obj
    if as_json:
        screen.json(report.as_dict())
    else:
        screen.result(*report.lines())
    for problem in report.problems:
        screen.error(problem)
    raise typer.Exit(1 if report.problems else 0)


@app.command()
def selftest(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL")] = DEFAULT_MODEL,
    drafter: Drafter = None,
    threads: Threads = None,
    as_json: JsonReport = False,
) -> None:
    """Check that drafting changes no answer here.

    Answers a set of built-in prompts greedily in exact mode, without drafting and with every draft
    length, and counts the texts that are identical token for token.
    """
    from gemmachat.selftest import run_selftest

    resolved = resolve(model, drafter)
    if resolved.drafter is None:
        raise UsageError("a self-test compares drafting with not drafting: pass --drafter PATH")
    screen: Screen = context.obj
    with open_engine(resolved, threads) as engine:
        report = run_selftest(engine, resolved.name, screen.progress)
    screen.progress("")
    if as_json:
        screen.json(report.as_dict())
    else:
        screen.result(*report.lines())
    raise typer.Exit(0 if report.passed else 1)


def _model_and_prompt(first: str | None, second: str | None) -> tuple[str | None, str | None]:
    if first is None or second is not None:
        return first, second
    return (first, None) if looks_like_model(first) else (None, first)


def _draft_policy(text: str) -> DraftPolicy:
    if text == "auto":
        return "auto"
    if text == "off":
        return "off"
    if text in map(str, range(1, MAX_DRAFT + 1)):
        return int(text)
    raise UsageError(
        f"--draft must be auto, off or a number from 1 to {MAX_DRAFT}, not {text[:40]!r}"
    )


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
