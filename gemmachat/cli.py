"""The command line: parses, calls, and maps errors to exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from gemmachat import (
    cli_alias,
    cli_bench,
    cli_convert,
    cli_models,
    cli_pull,
    cli_run,
    cli_shared,
    completion,
)
from gemmachat.cli_shared import (
    Drafter,
    JsonReport,
    KernelChoice,
    Model,
    Threads,
    kernel_choice,
)
from gemmachat.errors import GemmachatError, MemoryLimitError, UsageError
from gemmachat.interrupt import INTERRUPTED
from gemmachat.native import installed_version
from gemmachat.render import Screen

app = typer.Typer(
    name="gemmachat",
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


app.command()(cli_run.run)
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
    if completion.is_asked():
        code, lines = completion.answer(command.main)
        screen.result(*lines)
        return code
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
def doctor(
    context: typer.Context,
    model: Model = None,
    drafter: Drafter = None,
    as_json: JsonReport = False,
) -> None:
    """Show what gemmachat runs on, and what makes a model fast here."""
    from gemmachat.doctor import examine

    report = examine(cli_shared.find_model(model, drafter)[0])
    screen: Screen = context.obj
    if as_json:
        screen.json(report.as_dict())
    else:
        screen.result(*report.lines())
    for problem in report.problems:
        screen.error(problem)
    raise typer.Exit(report.exit_code)


@app.command()
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

    resolved, _ = cli_shared.find_model(model, drafter)
    if resolved.drafter is None:
        raise UsageError("a self-test compares drafting with not drafting: pass --drafter PATH")
    chosen = kernel_choice(kernels)
    screen: Screen = context.obj
    with cli_shared.open_engine(resolved, threads, kernels=chosen) as engine:
        report = run_selftest(engine, resolved.name, screen.progress)
    screen.progress("")
    if as_json:
        screen.json(report.as_dict())
    else:
        screen.result(*report.lines())
    raise typer.Exit(0 if report.passed else 1)
