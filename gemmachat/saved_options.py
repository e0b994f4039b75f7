"""The options of a chat as they are saved with it, by the names of `gemmachat run`'s options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from gemmachat.errors import UsageError
from gemmachat.sampling import MAX_INT32, SamplingParams

if TYPE_CHECKING:
    from gemmachat.generation import GenerationOptions

GRAMMAR = "grammar_text"
"""A grammar is saved by its text: its file may be another one by then."""
_SAMPLING = {
    field.name: field.default
    for field in fields(SamplingParams)
    if field.name not in ("logit_bias", "grammar", "logprobs")
}
_OTHERS = ("max_tokens", "exact", "think", "thought_budget")
_FROM_SOURCE = ("base_url", "model", "ctx", "drafter")


def as_settings(options: GenerationOptions, *, defaults: bool = True) -> dict[str, Any]:
    """Return the options as JSON values, without those that say nothing.

    Without `defaults` those of sampling only where they were given: a server has its own.
    """
    found = {
        name: getattr(options.sampling, name)
        for name, default in _SAMPLING.items()
        if defaults or name in options.given or getattr(options.sampling, name) != default
    }
    found |= {name: getattr(options, name) for name in _OTHERS}
    found["draft"] = str(options.draft)
    found["stop"] = list(options.stop)
    found["logit_bias"] = [f"{token}={bias}" for token, bias in options.sampling.logit_bias]
    found[GRAMMAR] = options.sampling.grammar
    # 0 is a value, though it equals False.
    return {
        name: value
        for name, value in found.items()
        if value is not None and value != [] and (value is not False or name in options.given)
    }


def from_settings(settings: Mapping[str, Any], options: GenerationOptions) -> GenerationOptions:
    """Return the options that were saved; those of the session stay as in `options`.

    Raises `UsageError` where a value makes no sense.
    """
    sampling = {name: settings[name] for name in _SAMPLING if name in settings}
    draft = settings.get("draft", "auto")
    try:
        biases = (text.partition("=") for text in settings.get("logit_bias", ()))
        return replace(
            options,
            sampling=SamplingParams(
                **sampling,
                grammar=settings.get(GRAMMAR),
                logit_bias=tuple((int(token), float(bias)) for token, _, bias in biases),
            ),
            draft=draft if draft in ("auto", "off") else int(draft),
            stop=_texts(settings.get("stop", [])),
            max_tokens=_count(settings.get("max_tokens")),
            think=_flag(settings.get("think", False)),
            thought_budget=_count(settings.get("thought_budget")),
            given=frozenset(settings) if "base_url" in settings else frozenset(),
        )
    except (TypeError, ValueError, AttributeError):
        raise UsageError("the chat was saved with settings that make no sense") from None


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise TypeError
    return tuple(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _count(value: Any) -> int | None:
    if value is not None and (type(value) is not int or not 1 <= value <= MAX_INT32):
        raise TypeError
    return value


def as_defaults(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the command line has for defaults when a chat with these settings goes on."""
    names = (*_SAMPLING, *_OTHERS, *_FROM_SOURCE, "draft", "stop", "logit_bias")
    return {name: settings[name] for name in names if name in settings}
