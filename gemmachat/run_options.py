"""What `gemmachat run` makes of its options' texts."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmachat.errors import NotFoundError, UsageError
from gemmachat.saved_options import GRAMMAR
from gemmachat.typed_values import plain_number

if TYPE_CHECKING:
    from gemmachat.ask import Form
    from gemmachat.catalog import ResolvedModel
    from gemmachat.generation import GenerationOptions
    from gemmachat.render import Screen
    from gemmachat.sampling import SamplingParams
    from gemmachat.store import SavedChat
    from gemmachat.tool_runner import ToolRunner

BUILTIN = "builtin"
"""The value of --tools that stands for no file."""
_LOCAL_ONLY = (
    "drafter",
    "draft",
    "exact",
    "ctx",
    "force",
    "threads",
    "kernels",
    "logprobs",
    "grammar",
    "thought_budget",
)


def stays_here(
    base_url: str | None, model: str | None, name: str | None, here: Collection[str]
) -> bool:
    """Whether a model on this machine is asked for; `here` are the options of the command line.

    Raises `UsageError` where options of a server and of this machine are mixed.
    """
    if "base_url" not in here:
        if model is not None and "model" in here:
            raise UsageError("--model goes with --base-url: a model on this machine is the MODEL")
        return base_url is None or name is not None  # a saved chat may go on with another model
    if name is not None:
        raise UsageError("with --base-url the model is named by --model NAME")
    for option in _LOCAL_ONLY:
        if option in here:
            spelled = option.replace("_", "-")
            raise UsageError(
                f"--{spelled} is for models on this machine: it does not go with --base-url"
            )
    return False


def form(as_json: bool, json_lines: bool) -> Form:
    """Return how an answer is printed."""
    if as_json and json_lines:
        raise UsageError("give only one of --json and --json-lines")
    return "json" if as_json else "json-lines" if json_lines else "text"


def check(options: GenerationOptions, form: Form) -> None:
    """Refuse options that make no sense together, before a model is loaded."""
    from gemmachat.stop import StopStrings

    StopStrings(options.stop)  # refuses those that make no sense
    if options.sampling.logprobs and form == "text":
        raise UsageError("--logprobs needs --json, which prints them")
    shortest = options.sampling.min_tokens
    if options.max_tokens is not None and shortest > options.max_tokens:
        raise UsageError(f"--min-tokens {shortest} is more than --max-tokens {options.max_tokens}")


def check_model(options: GenerationOptions, model: ResolvedModel) -> None:
    """Refuse options that the model cannot follow, before it is loaded."""
    check_bias_exists(options.sampling, model)
    if model.drafter is None and isinstance(options.draft, int):
        raise UsageError(
            f"--draft {options.draft} needs a drafter: pass its file with --drafter PATH"
        )


def tools(files: Sequence[str], screen: Screen, *, yes: bool) -> Callable[[], ToolRunner] | None:
    """Return what starts the tools of --tools, which ask the user unless `yes`; None without any.

    Raises `UsageError` where nobody can be asked, and `NotFoundError`.
    """
    if not files:
        if yes:
            raise UsageError("--yes goes with --tools")
        return None
    if not yes and not screen.can_ask:
        raise UsageError(
            "--tools asks before every call, and there is no terminal to ask on: --yes allows all"
        )
    paths = [Path(os.path.expanduser(file)) for file in files if file != BUILTIN]
    for path in paths:
        if not path.is_file():
            raise NotFoundError(f"there is no file {path} with tools")

    def start() -> ToolRunner:
        from gemmachat.tool_runner import ToolRunner

        ask = None if yes else lambda _call: screen.confirm("run this call?")
        return ToolRunner(paths, confirm=ask)

    return start


def utf8(what: str, text: str | None) -> str | None:
    """Return the text of an argument, also where the locale could not decode its bytes."""
    try:
        (text or "").encode("utf-8")
    except UnicodeEncodeError:
        try:
            return os.fsencode(text or "").decode("utf-8")
        except UnicodeError:
            raise UsageError(f"{what} is not valid UTF-8 text") from None
    return text


def system_prompt(text: str | None, file: str | None) -> str | None:
    """Return the system prompt that --system or --system-file gives."""
    if file is None:
        return utf8("--system", text)
    if text is not None:
        raise UsageError("give only one of --system and --system-file")
    from gemmachat.attachment import read_text

    return read_text(file)


def bias(text: str) -> tuple[int, float]:
    """Read a --logit-bias."""
    token, _, value = text.partition("=")
    try:
        return int(plain_number(token)), float(plain_number(value))
    except ValueError:
        raise UsageError(
            f"--logit-bias must be a token id and a number, as in 106=-inf, not {text[:40]!r}"
        ) from None


def check_bias_exists(sampling: SamplingParams, model: ResolvedModel) -> None:
    """Refuse a --logit-bias of a token that the model does not have, before it is loaded."""
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


def check_one_form(schema: Path | None, json_object: bool, grammar: Path | None) -> None:
    """Refuse more than one constraint on the answer."""
    if sum([schema is not None, json_object, grammar is not None]) > 1:
        raise UsageError("give only one of --json-schema, --json-object and --grammar")


def grammar_text(schema: Path | None, json_object: bool, grammar: Path | None) -> str | None:
    """Return the grammar that the constraint on the answer stands for."""
    if not (json_object or schema is not None or grammar is not None):
        return None
    from gemmachat.grammar import read_grammar, read_schema
    from gemmachat.json_schema import any_object

    if schema is not None:
        return read_schema(Path(os.path.expanduser(schema)))
    return any_object() if grammar is None else read_grammar(Path(os.path.expanduser(grammar)))


def response_format(schema: Path | None, json_object: bool) -> dict[str, Any]:
    """Return what asks a server for JSON; a schema is for the server to check."""
    if json_object:
        return {"response_format": {"type": "json_object"}}
    if schema is None:
        return {}
    import json

    from gemmachat.attachment import read_text

    try:
        found = json.loads(read_text(str(schema)))
    except (ValueError, RecursionError):
        raise UsageError(f"{schema} is not valid JSON") from None
    named = {"name": "answer", "schema": found, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def saved_grammar(saved: SavedChat | None) -> str | None:
    """Return the grammar that a chat goes on with."""
    text = None if saved is None else saved.content.settings.get(GRAMMAR)
    return text if isinstance(text, str) else None


def model_of(saved: SavedChat) -> str:
    """Return the MODEL of a saved chat."""
    reference = saved.content.settings.get("MODEL")
    return reference if isinstance(reference, str) else saved.content.model


def explained(error: NotFoundError, saved: SavedChat) -> NotFoundError:
    """The error of a saved chat whose model is gone, with what helps."""
    return NotFoundError(
        f"the model of chat {saved.id} cannot be used: {error}; another one goes on with it: "
        f"gemmachat run MODEL --resume {saved.id}"
    )
