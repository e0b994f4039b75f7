"""`gemmachat bench`: how fast answers come here, with drafting on and off."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gemmachat import loading, settings
from gemmachat.bench_sweep import Sweep, parse_sweep
from gemmachat.catalog import ResolvedModel
from gemmachat.cli_shared import Draft, Drafter, JsonReport, KernelChoice, Model, Threads
from gemmachat.engine import DEFAULT_CONTEXT
from gemmachat.errors import UsageError
from gemmachat.interrupt import INTERRUPTED, on_interrupt
from gemmachat.native_structs import MAX_DRAFT
from gemmachat.processors import default_threads
from gemmachat.render import Screen
from gemmachat.sampling import MAX_SEED, SamplingParams
from gemmachat.session import DraftPolicy
from gemmachat.typed_values import draft_policy, plain_number

if TYPE_CHECKING:
    from gemmachat.bench import Plan, Side
    from gemmachat.bench_prompts import BenchPrompt
    from gemmachat.engine import Engine


def bench(
    context: typer.Context,
    model: Model = None,
    drafter: Drafter = None,
    draft: Draft = "auto",
    exact: Annotated[
        bool, typer.Option("--exact", help="Run every pass at one width, as run --exact does.")
    ] = False,
    temperature: Annotated[
        str, typer.Option(metavar="T,...", help="Temperatures, in a list with commas.")
    ] = "0,1",
    kinds: Annotated[
        str | None,
        typer.Option(
            metavar="KIND,...",
            help="Kinds of prompts, in a list with commas: code, json, prose, chinese, "
            "long-context, multi-turn, tool-call, and those of --prompts. Default: all.",
        ),
    ] = None,
    prompts: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help='More prompts: one a line, or, in a file that ends in .jsonl, {"prompt": ...} or '
            '{"messages": [...]} with a "kind" if you like. Without one their kind is "file".',
        ),
    ] = None,
    tokens: Annotated[
        int, typer.Option(metavar="N", min=1, max=100_000, help="Longest answer.")
    ] = 64,
    repeats: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="How often each is measured.")
    ] = 3,
    sweep: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT=LIST",
            help=f"Compare draft=0..{MAX_DRAFT} (0: off) or threads=1,2,4 in place of drafting on "
            "and off; lists of numbers and ranges.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Seed of the first repeat, each adds 1: the same texts again. Drafting then looks "
            "at no clock, as in run --seed.",
        ),
    ] = None,
    ctx: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Tokens that the context holds.")
    ] = None,
    threads: Threads = None,
    kernels: KernelChoice = None,
    plot: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Draw acceptance, speed-up and the cost of passes into a .png or .svg file; needs "
            "matplotlib.",
        ),
    ] = None,
    as_json: JsonReport = False,
) -> None:
    """Measure speed and acceptance here, drafting on against off in turn.

    For every kind of prompt and temperature: time to first token, tokens per second of prefill, of
    decoding and end to end, tokens per target pass, acceptance by place, gaps between tokens, and
    whether greedy texts agree with the target alone. Ctrl-C prints what is done by then.
    """
    screen: Screen = context.obj
    resolved, _ = loading.find_model(model, drafter)
    policy = _compared(draft, resolved)
    chosen_kernels = settings.kernels(kernels, "--kernels")
    temperatures = _temperatures(temperature)
    swept = None if sweep is None else parse_sweep(sweep)
    if swept is not None:
        swept.check(
            draft_given=policy != "auto",
            threads_given=threads is not None,
            has_drafter=resolved.drafter is not None,
        )
    if seed is not None and seed + repeats > MAX_SEED:
        raise UsageError(f"--seed and --repeats must not add up to more than {MAX_SEED}")
    picture = _picture(plot)
    chosen = _prompts(prompts, kinds)

    n_ctx = ctx or resolved.context
    with ExitStack() as stack:
        sides = _open_sides(
            resolved,
            policy,
            threads,
            swept,
            stack,
            n_ctx=n_ctx,
            exact=exact,
            kernels=chosen_kernels,
        )
        plan = _plan(
            sides,
            chosen,
            temperatures,
            n_ctx=n_ctx,
            repeats=repeats,
            max_tokens=tokens,
            exact=exact,
            seed=seed,
        )
        code = _measure(
            plan, screen, _setup(plan, resolved, draft, threads, sweep, swept), picture, as_json
        )
    raise typer.Exit(code)


def _measure(
    plan: Plan, screen: Screen, setup: dict[str, Any], picture: Path | None, as_json: bool
) -> int:
    from gemmachat.bench import Bench
    from gemmachat.bench_report import make_report
    from gemmachat.bench_setup import peak_memory_bytes

    running = Bench(plan, screen.progress)
    with on_interrupt(running.stop):
        running.run()
    screen.progress("")
    report = make_report(running.measured, setup, peak_memory_bytes())
    if picture is not None:
        from gemmachat.bench_plot import write_plot

        write_plot(report, picture)
    if as_json:
        screen.json(report.as_dict())
    else:
        screen.result(*report.lines())
    return 0 if report.complete else INTERRUPTED


def _compared(draft: str, model: ResolvedModel) -> DraftPolicy:
    policy = draft_policy(draft)
    if policy == "off":
        raise UsageError("--draft off leaves nothing to compare with: give auto or a number")
    if model.drafter is None and isinstance(policy, int):
        raise UsageError(f"--draft {draft} needs a drafter: pass its file with --drafter PATH")
    return policy


def _temperatures(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(plain_number(part)) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f"--temperature must be a list of numbers, as in 0,1, not {text[:40]!r}"
        ) from None
    for temperature in found:
        SamplingParams(temperature=temperature)  # refuses what makes no sense
    return tuple(dict.fromkeys(found))


def _prompts(file: str | None, kinds: str | None) -> tuple[BenchPrompt, ...]:
    from gemmachat.bench_prompts import built_in, choose, read_prompts

    path = _path("--prompts", file)
    own = () if path is None else read_prompts(path)
    return choose((*built_in(), *own), kinds)


def _picture(file: str | None) -> Path | None:
    """Return where the plot goes, if it can be written there."""
    path = _path("--plot", file)
    if path is not None:
        from gemmachat.bench_plot import check_plot

        check_plot(path)
    return path


def _path(option: str, file: str | None) -> Path | None:
    if file == "":
        raise UsageError(f"{option} is empty: give the path of a file")
    return None if file is None else Path(os.path.expanduser(file))


def _open_sides(
    model: ResolvedModel,
    policy: DraftPolicy,
    threads: int | None,
    swept: Sweep | None,
    stack: ExitStack,
    *,
    n_ctx: int | None,
    exact: bool,
    kernels: str,
) -> tuple[Side, ...]:
    from gemmachat.bench import Side

    def open_engine(threads: int | None) -> Engine:
        return stack.enter_context(
            loading.open_engine(model, threads, n_ctx=n_ctx, exact=exact, kernels=kernels)
        )

    if swept is not None and swept.what == "threads":
        return tuple(Side(str(value), open_engine(value), policy) for value in swept.values)
    engine = open_engine(threads)
    drafts: tuple[DraftPolicy, ...] = ("off", policy)
    if swept is not None:
        drafts = tuple(value or "off" for value in swept.values)
    return tuple(Side(str(draft), engine, draft) for draft in drafts)


def _plan(
    sides: tuple[Side, ...],
    prompts: tuple[BenchPrompt, ...],
    temperatures: tuple[float, ...],
    *,
    n_ctx: int | None,
    repeats: int,
    max_tokens: int,
    exact: bool,
    seed: int | None,
) -> Plan:
    """Render the prompts; those that do not fit are refused before anything is measured."""
    from gemmachat.bench import Plan
    from gemmachat.bench_prompts import render
    from gemmachat.prompt import PromptFormat

    engine = sides[0].engine
    size = n_ctx or min(DEFAULT_CONTEXT, engine.context_length)
    style = PromptFormat(engine.vocab, engine.chat_template)
    return Plan(
        sides=sides,
        prompts=tuple(
            render(prompt, engine.vocab, style, n_ctx=size, answer=max_tokens) for prompt in prompts
        ),
        temperatures=temperatures,
        repeats=repeats,
        max_tokens=max_tokens,
        n_ctx=size,
        exact=exact,
        seed=seed,
    )


def _setup(
    plan: Plan,
    model: ResolvedModel,
    draft: str,
    threads: int | None,
    sweep: str | None,
    swept: Sweep | None,
) -> dict[str, Any]:
    from gemmachat.bench_setup import describe

    compared = "draft" if swept is None else swept.what
    several = swept.values if swept is not None and swept.what == "threads" else None
    return {
        **describe(model),
        "threads": several or (threads or default_threads(),),
        "kernels": plan.sides[0].engine.kernels,
        "context": plan.n_ctx,
        "draft": None if swept is not None and compared == "draft" else draft,
        "sweep": sweep,
        "compared": compared,
        "exact": plan.exact,
        "tokens": plan.max_tokens,
        "repeats": plan.repeats,
        "temperatures": plan.temperatures,
        "seed": plan.seed,
    }
