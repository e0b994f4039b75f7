"""The prompts of a benchmark: built in by kind, or from a file; and their tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmachat.conversation import Message, Role
from gemmachat.errors import ContextFullError, NotFoundError, UsageError
from gemmachat.files import IrregularFileError, open_regular
from gemmachat.prompt import PromptFormat
from gemmachat.vocab import find_control

if TYPE_CHECKING:
    from gemmachat.vocab import Vocab

LONG_TOKENS = 2048
"""How long the prompt of the long context is, where the context holds it."""
FILE_KIND = "file"
"""Kind of the prompts of a file that names none."""
MAX_BYTES = 1 << 20
MAX_PROMPTS = 1000

_KIND = re.compile(r"[a-z0-9][a-z0-9-]{0,15}")
_MARK = re.compile(r'(<\|"\|>)')
_ROLES: dict[str, Role] = {
    "system": "system",
    "user": "user",
    "model": "model",
    "assistant": "model",
}


@dataclass(frozen=True, slots=True)
class BenchPrompt:
    """A conversation that waits for an answer, and what kind of text it asks for."""

    kind: str
    messages: tuple[Message, ...]
    tools: tuple[str, ...] = ()
    """Declarations of functions that the model may call, as the chat format spells them."""
    long: bool = False
    """Whether a long text stands before the last message."""


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """A prompt as the model reads it."""

    kind: str
    tokens: tuple[int, ...]
    cut: bool = False
    """Whether its long text was cut to fit into the context."""


def built_in() -> tuple[BenchPrompt, ...]:
    """One prompt of every kind."""
    path = Path(__file__).parent / "prompts" / "bench.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    return tuple(
        BenchPrompt(
            kind=kind,
            messages=tuple(Message(each["role"], each["content"]) for each in found["messages"]),
            tools=tuple(found.get("tools", ())),
            long=found.get("long", False),
        )
        for kind, found in stored.items()
    )


def read_prompts(path: Path) -> tuple[BenchPrompt, ...]:
    """Return the prompts of a file: JSON objects in lines if it ends in .jsonl, else a text a line.

    An object holds either "prompt" or "messages" (of "role" and "content"), and may name its
    "kind". Blank lines are skipped. Raises `NotFoundError` or `UsageError`, which names file and
    line.
    """
    lines = _read(path).split("\n")
    parse = _json_line if path.suffix.lower() == ".jsonl" else _text_line
    prompts = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            prompts.append(parse(line))
        except ValueError as problem:
            raise UsageError(f"{path}:{number}: {problem}") from None
    if not prompts:
        raise UsageError(f"{path} holds no prompt: write one on each line")
    if len(prompts) > MAX_PROMPTS:
        raise UsageError(f"{path} holds {len(prompts)} prompts; at most {MAX_PROMPTS}")
    return tuple(prompts)


def choose(prompts: Sequence[BenchPrompt], kinds: str | None) -> tuple[BenchPrompt, ...]:
    """Return the prompts of the kinds in a list with commas; all where there is none."""
    if kinds is None:
        return tuple(prompts)
    known = list(dict.fromkeys(prompt.kind for prompt in prompts))
    wanted = [kind.strip() for kind in kinds.split(",")]
    for kind in wanted:
        if kind not in known:
            raise UsageError(
                f"there is no kind of prompt {kind[:40]!r}: --kinds takes a list of "
                f"{', '.join(known)}"
            )
    return tuple(prompt for prompt in prompts if prompt.kind in wanted)


def render(
    prompt: BenchPrompt, vocab: Vocab, style: PromptFormat, *, n_ctx: int, answer: int
) -> PromptTokens:
    """Return the tokens of a prompt, its long text cut so that an answer fits behind it.

    Raises `ContextFullError` where prompt and `answer` tokens are more than the context holds.
    """
    tools = _tools_turn(prompt.tools, vocab)

    def tokens(messages: Sequence[Message]) -> list[int]:
        rendered = style.render(messages)
        return [rendered[0], *tools, *rendered[1:]]

    plain = tokens(prompt.messages)
    room = n_ctx - answer
    if len(plain) > room:
        raise ContextFullError(
            f"the {prompt.kind} prompt has {len(plain)} tokens, which with an answer of {answer} "
            f"is more than the context of {n_ctx}: use a larger --ctx or a smaller --tokens"
        )
    if not prompt.long:
        return PromptTokens(prompt.kind, tuple(plain))
    *before, last = prompt.messages
    days = list(_log_lines(vocab, min(room, LONG_TOKENS) - len(plain)))
    while True:
        text = "\n".join([*days, "", last.text])
        found = tokens([*before, Message(last.role, text)])
        # Tokens merge differently across the borders of lines, a little more or less.
        if len(found) <= room or not days:
            return PromptTokens(prompt.kind, tuple(found), cut=room < LONG_TOKENS)
        days.pop()


def _log_lines(vocab: Vocab, budget: int) -> Iterator[str]:
    """Days of a made-up lighthouse log, as many as fit into so many tokens; no two are alike."""
    winds = ("north", "north-east", "east", "south-east", "south", "south-west", "west")
    skies = ("clear", "low cloud", "fog until ten", "rain", "a thunderstorm at night")
    ships = ("Aurora", "Bettina", "Calypso", "Dorothea", "Esperance", "Fortuna", "Galatea", "Hera")
    ports = ("Riga", "Bergen", "Lisbon", "Hull", "Cork", "Bilbao", "Gdansk", "Malmo", "Oporto")
    loads = ("timber", "salt", "coal", "wool", "oranges", "iron", "grain", "letters", "glass")
    works = (
        "cleaned the lens and trimmed the wick",
        "painted the railing on the seaward side",
        "repaired a pane that a gull had broken",
        "counted the stores: oil for six weeks, flour for four",
        "taught the boy to read the barometer",
        "mended the boat and tarred its bottom",
    )
    for day in range(1, 100_000):
        first, second = ships[day % 8], ships[(day * 3 + day // 8) % 8]
        line = (
            f"Day {day}. Wind {winds[day * 5 % 7]}, force {day * 7 % 9 + 1}, "
            f"{skies[day * 3 % 5]}. The {first} passed, bound for {ports[day * 4 % 9]} with "
            f"{loads[day * 2 % 9]}, and at dusk the {second} from {ports[(day + day // 9) % 9]}. "
            f"We {works[day * 5 % 6]}. Pressure {990 + day * 13 % 41}, oil burnt "
            f"{day * 11 % 7 + 3} litres."
        )
        budget -= len(vocab.tokenize(line + "\n"))
        if budget < 0:
            return
        yield line


def _tools_turn(tools: Sequence[str], vocab: Vocab) -> list[int]:
    """Return the system turn that declares functions; its marks are tokens where there are any."""
    if not tools:
        return []

    def marked(spelling: str) -> list[int]:
        token = find_control(vocab, spelling)
        return vocab.tokenize(spelling) if token is None else [token]

    turn = [vocab.control("<|turn>"), *vocab.tokenize("system\n")]
    for tool in tools:
        turn += marked("<|tool>")
        for part in filter(None, _MARK.split(tool)):
            turn += marked(part) if _MARK.fullmatch(part) else vocab.tokenize(part)
        turn += marked("<tool|>")
    return [*turn, vocab.control("<turn|>"), *vocab.tokenize("\n")]


def _read(path: Path) -> str:
    try:
        with open_regular(path) as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise NotFoundError(f"the file of prompts {path} does not exist") from None
    except IrregularFileError:
        raise UsageError(
            f"--prompts {path} is not a regular file: write the prompts into one and give its path"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"the file of prompts {path} cannot be read: {reason}") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"the file of prompts {path} is larger than {MAX_BYTES // 1024} KiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: not UTF-8 text") from None


def _text_line(line: str) -> BenchPrompt:
    return BenchPrompt(FILE_KIND, (Message("user", line.strip()),))


def _json_line(line: str) -> BenchPrompt:
    """Raise `ValueError`, which says what is wrong with the line."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("not a JSON object") from None
    if not isinstance(found, dict):
        raise ValueError("not a JSON object")
    if unknown := sorted(found.keys() - {"kind", "prompt", "messages"}):
        raise ValueError(f"unknown key {unknown[0][:40]!r}")
    kind = found.get("kind", FILE_KIND)
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        raise ValueError('"kind" must be 1 to 16 of a-z, 0-9 and "-"')
    if ("prompt" in found) == ("messages" in found):
        raise ValueError('give either "prompt" or "messages"')
    if "prompt" in found:
        return BenchPrompt(kind, (Message("user", _text(found["prompt"])),))
    return BenchPrompt(kind, _messages(found["messages"]))


def _messages(found: Any) -> tuple[Message, ...]:
    if not isinstance(found, list) or not found:
        raise ValueError('"messages" must be a list of messages')
    messages: list[Message] = []
    for each in found:
        if not isinstance(each, dict) or each.keys() != {"role", "content"}:
            raise ValueError('a message must have "role" and "content", and nothing else')
        role = _ROLES.get(each["role"]) if isinstance(each["role"], str) else None
        if role is None or (role == "system" and messages):
            raise ValueError('a "role" must be user or assistant, or system in the first message')
        messages.append(Message(role, _text(each["content"])))
    if messages[-1].role != "user":
        raise ValueError("the last message must be the user's")
    return tuple(messages)


def _text(found: Any) -> str:
    if not isinstance(found, str) or not found.strip():
        raise ValueError("a prompt must be some text")
    return found
