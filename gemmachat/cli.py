"""The command line: parses, calls, and maps errors to exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache, partial
from typing import Annotated

import typer

from gemmachat import cli_resume, cli_run, completion, loading, settings
from gemmachat.cli_shared import Drafter, JsonReport, KernelChoice, Model, Threads
from gemmachat.errors import UsageError
from gemmachat.native import installed_version
from gemmachat.outcome import exit_code_of
from gemmachat.render import Screen

app = typer.Typer(
    name="gemmachat",
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; every error ends as one sentence."""
    words = sys.argv[1:] if arguments is None else arguments
    return exit_code_of(partial(_invoke, words))


def _invoke(arguments: Sequence[str], screen: Screen) -> int:
    if list(arguments[:1]) != ["run"]:
        _add_other_commands()
    command = typer.main.get_command(app)
    if completion.is_asked():
        code, lines = completion.answer(command.main)
        screen.result(*lines)
        return code
    words = cli_resume.with_resume_value(arguments)
    try:
        with command.make_context("gemmachat", words, obj=screen) as context:
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


def doctor(
    context: typer.Context,
    model: Model = None,
    drafter: Drafter = None,
    as_json: JsonReport = False,
) -> None:
    """Show what gemmachat runs on, and what makes a model fast here."""
    from gemmachat.doctor import examine

    report = examine(loading.find_model(model, drafter)[0])
    screen: Screen = context.obj
    if as_json:
        screen.json(report.as_dict())
    else:
        screen.result(*report.lines())
    for problem in report.problems:
        screen.error(problem)
    raise typer.Exit(report.exit_code)


def selftest(
    context: typer.Context,
    model: Model = None,
    drafter: Drafter = None,
    threads: Threads = None,
    kernels: KernelChoice = None,
    as_json: JsonReport = False,
) -> None:
    """Check that drafting changes no answer here.

    Compares greedy texts with and without drafting token for token, and the joint distribution of
    the first three sampled tokens at several settings (G test); checks that the counters add up
    and that answers under a grammar parse. Takes one or two minutes with the embedded pair; a slow
    model is asked less, within about ten. Ends with 1 if a check fails, or if it has seen too
    little to tell, as on a busy machine.
    """
    from gemmachat.selftest import run_selftest

    resolved, _ = loading.find_model(model, drafter)
    if resolved.drafter is None:
        raise UsageError("a self-test compares drafting with not drafting: pass --drafter PATH")
    chosen = settings.kernels(kernels, "--kernels")
    screen: Screen = context.obj
    with loading.open_engine(resolved, threads, kernels=chosen) as engine:
        report = run_selftest(engine, resolved.name, screen.progress)
    screen.progress("")
    if as_json:
        screen.json(report.as_dict())
    else:
        screen.result(*report.lines())
    raise typer.Exit(0 if report.passed else 1)


app.command()(cli_run.run)


@cache
def _add_other_commands() -> None:
    """Import and add all that a chat can start without."""
    from gemmachat import cli_alias, cli_bench, cli_chats, cli_convert, cli_models, cli_pull

    app.command()(cli_pull.pull)
    app.command("list")(cli_models.list_models)
    app.command()(cli_models.show)
    app.command()(cli_models.rm)
    app.command()(cli_models.verify)
    app.command()(cli_models.prune)
    app.command("import")(cli_models.import_model)
    app.command()(cli_alias.alias)
    app.command()(cli_convert.convert)
    app.command()(cli_bench.bench)
    app.add_typer(cli_chats.chats)
    app.command()(doctor)
    app.command()(selftest)
