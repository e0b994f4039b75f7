"""`gemmachat run`: a chat, or the answer to one question."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gemmachat import cli_resume
from gemmachat.cli_shared import Draft, Drafter, KernelChoice, KnownModel, Threads
from gemmachat.engine import DEFAULT_CONTEXT
from gemmachat.run_options import BUILTIN
from gemmachat.run_request import RunRequest, execute
from gemmachat.sampling import MAX_INT32


def run(
    context: typer.Context,
    first: KnownModel = None,
    second: Annotated[str | None, typer.Argument(metavar="PROMPT", show_default=False)] = None,
    drafter: Drafter = None,
    draft: Draft = RunRequest.draft,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="Greedy answers are the same bit for bit, whatever is drafted."
        ),
    ] = RunRequest.exact,
    temperature: Annotated[
        float | None,
        typer.Option(
            metavar="T",
            help="0 is greedy: always the likeliest token. Default: the model's own, else 1.0.",
        ),
    ] = None,
    top_k: Annotated[
        int, typer.Option(metavar="K", help="Keep the K likeliest tokens; 0 keeps all.")
    ] = RunRequest.top_k,
    top_p: Annotated[
        float,
        typer.Option(metavar="P", help="Keep the likeliest tokens up to this sum; 1 keeps all."),
    ] = RunRequest.top_p,
    min_p: Annotated[
        float,
        typer.Option(metavar="P", help="Drop tokens below this fraction of the likeliest."),
    ] = RunRequest.min_p,
    typical_p: Annotated[
        float,
        typer.Option(metavar="P", help="Keep the most typical tokens up to this sum; 1 keeps all."),
    ] = RunRequest.typical_p,
    repeat_penalty: Annotated[
        float, typer.Option(metavar="X", help="Above 1: less of what was said before; 1 is off.")
    ] = RunRequest.repeat_penalty,
    repeat_last_n: Annotated[
        int, typer.Option(metavar="N", help="Tokens that --repeat-penalty looks back; -1: all.")
    ] = RunRequest.repeat_last_n,
    presence_penalty: Annotated[
        float, typer.Option(metavar="X", help="Taken from the logits of tokens in the answer.")
    ] = RunRequest.presence_penalty,
    frequency_penalty: Annotated[
        float, typer.Option(metavar="X", help="The same for every time that they occur.")
    ] = RunRequest.frequency_penalty,
    logit_bias: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOKEN=X",
            help="Add X to the logit of a token id; -inf bans it. Can be repeated.",
        ),
    ] = None,
    min_tokens: Annotated[
        int, typer.Option(metavar="N", min=0, max=MAX_INT32, help="Shortest answer.")
    ] = RunRequest.min_tokens,
    stop: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="End the answer before this text. Can be repeated."),
    ] = None,
    json_schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Answer with JSON that this JSON schema allows."),
    ] = None,
    json_object: Annotated[
        bool,
        typer.Option(
            "--json-object",
            help="Answer with a JSON object. --max-tokens, or a full context, cuts a long one.",
        ),
    ] = RunRequest.json_object,
    grammar: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Answer with text that this GBNF grammar allows."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="The same seed gives the same text; default: random."),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=MAX_INT32,
            help="Longest answer. Default: until the context is full, which ends with code 6.",
        ),
    ] = None,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="System prompt.")] = None,
    system_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="System prompt from a file.")
    ] = None,
    think: Annotated[
        bool, typer.Option("--think/--no-think", help="Have the model think before it answers.")
    ] = RunRequest.think,
    thought_budget: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=MAX_INT32, help="Longest thought, in tokens."),
    ] = None,
    tools: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Let the model call the functions of a Python file, a calculator and the clock; "
            f'"{BUILTIN}" for these two alone. Can be repeated.',
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Run what the model calls without asking.")
    ] = RunRequest.yes,
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
            callback=cli_resume.take_up,
            help="Go on with a saved chat, as of `gemmachat chats`; without ID the latest.",
        ),
    ] = None,
    no_save: Annotated[
        bool, typer.Option("--no-save", help="Save nothing of this chat.")
    ] = RunRequest.no_save,
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
        typer.Option(
            metavar="N",
            min=1,
            help="Tokens of context, which hold the conversation. Default: "
            f"{DEFAULT_CONTEXT}, or the model's most.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Go on where memory seems too small for the model.")
    ] = RunRequest.force,
    threads: Threads = None,
    kernels: KernelChoice = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Show answers as they are, without Markdown.")
    ] = RunRequest.plain,
    stats: Annotated[
        bool, typer.Option("--stats", help="After each answer, show speed and drafting figures.")
    ] = RunRequest.stats,
    logprobs: Annotated[
        int,
        typer.Option(metavar="N", help="With --json: N alternatives for every token, up to 20."),
    ] = RunRequest.logprobs,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the answer as one JSON object.")
    ] = RunRequest.as_json,
    json_lines: Annotated[
        bool, typer.Option("--json-lines", help="Print JSON events while the answer comes.")
    ] = RunRequest.json_lines,
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
    request = RunRequest(
        **{name: value for name, value in context.params.items() if name != "_resume"}
    )
    code = execute(
        request,
        context.obj,
        here=cli_resume.given(context, here=True),
        given=cli_resume.given(context),
        resumed=cli_resume.resumed_chat(context),
    )
    raise typer.Exit(code)
