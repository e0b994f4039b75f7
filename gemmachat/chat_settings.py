"""What `/set` and `/show` know: every setting of a running chat by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from gemmachat.errors import GemmachatError, UsageError
from gemmachat.native_structs import MAX_DRAFT
from gemmachat.sampling import MAX_INT32, SamplingParams
from gemmachat.theme import THEMES

if TYPE_CHECKING:
    from gemmachat.dialogue import Dialogue
    from gemmachat.render import Display

_ON_OFF = {"on": True, "off": False}


def _number(kind: Callable[[str], Any], what: str) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            if "_" in text:  # Python's own spelling
                raise ValueError
            return kind(text)
        except ValueError:
            raise UsageError(f"takes {what}, not {text[:40]!r}") from None

    return read


def _choice(values: Mapping[str, Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        if text.lower() not in values:
            raise UsageError(f"takes {', '.join(values)}, not {text[:40]!r}")
        return values[text.lower()]

    return read


def _or_none(read: Callable[[str], Any], none: str) -> Callable[[str], Any]:
    return lambda text: None if text.lower() == none else read(text)


_real = _number(float, "a number")
_whole = _number(int, "a whole number")


def _draft(text: str) -> str | int:
    if text in ("auto", "off"):
        return text
    if text in map(str, range(1, MAX_DRAFT + 1)):
        return int(text)
    raise UsageError(f"takes auto, off or 1 to {MAX_DRAFT}, not {text[:40]!r}")


_SAMPLING: dict[str, Callable[[str], Any]] = {
    "temperature": _real,
    "top_k": _whole,
    "top_p": _real,
    "min_p": _real,
    "typical_p": _real,
    "repeat_penalty": _real,
    "repeat_last_n": _whole,
    "presence_penalty": _real,
    "frequency_penalty": _real,
    "min_tokens": _whole,
    "seed": _or_none(_whole, "random"),
}
_OPTIONS: dict[str, Callable[[str], Any]] = {
    "max_tokens": _or_none(_whole, "none"),
    "draft": _draft,
    "think": _choice(_ON_OFF),
    "thought_budget": _or_none(_whole, "none"),
}
_DISPLAY: dict[str, Callable[[str], Any]] = {
    "markdown": _choice(_ON_OFF),
    "fold_thoughts": _choice(_ON_OFF),
    "theme": _choice({name: name for name in THEMES}),
}
_HERE_ONLY = ("draft", "thought_budget")
SETTINGS = (*_SAMPLING, *_OPTIONS, *_DISPLAY)


def change(name: str, text: str, chat: Dialogue, display: Display) -> None:
    """Set a setting from how it is typed. Raises `UsageError` on one that makes no sense."""
    known = _known(name)
    if known in _HERE_ONLY and chat.on_server:
        raise UsageError(f"{known} is for models on this machine, and this one is on a server")
    try:
        value = {**_SAMPLING, **_OPTIONS, **_DISPLAY}[known](text)
    except UsageError as error:
        raise UsageError(f"{known} {error}") from None
    if known in _DISPLAY:
        setattr(display, known, value)
        return
    before = chat.options
    options = replace(before, given=before.given | {known})
    if known in _SAMPLING:
        value, known = replace(options.sampling, **{known: value}), "sampling"
    limited = known in ("max_tokens", "thought_budget") and value is not None
    if limited and not 1 <= value <= MAX_INT32:
        raise UsageError(f"{known} takes none, or 1 to {MAX_INT32}, not {text[:40]}")
    chat.options = replace(options, **{known: value})
    try:
        chat.used_tokens  # noqa: B018 - the model may have no mark that a thought needs
    except GemmachatError:
        chat.options = before
        raise


def listed(chat: Dialogue, display: Display) -> dict[str, str]:
    """Return every setting as it would be typed."""
    values: dict[str, Any] = {}
    for owner in (chat.options.sampling, chat.options, display):
        values |= {field.name: getattr(owner, field.name) for field in fields(owner)}
    spelled = {name: _spelled(name, values[name]) for name in SETTINGS}
    if chat.on_server:
        plain = SamplingParams()
        usual = {name: getattr(plain, name) for name in _SAMPLING} | {"think": False}
        unsaid = {name for name, value in usual.items() if values[name] == value}
        unsaid = (unsaid - chat.options.given) | {*_HERE_ONLY}
        spelled |= dict.fromkeys(unsaid, "the server's")
    return spelled


def one(name: str, chat: Dialogue, display: Display) -> str:
    """Return the value of a setting. Raises `UsageError` where there is none of that name."""
    return listed(chat, display)[_known(name)]


def _known(name: str) -> str:
    known = name.lower().replace("-", "_")
    if known not in SETTINGS:
        raise UsageError(f"there is no setting {name[:40]!r}: {', '.join(SETTINGS)} are known")
    return known


def _spelled(name: str, value: Any) -> str:
    if value is None:
        return "random" if name == "seed" else "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
