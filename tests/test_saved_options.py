"""The options of a chat, saved with it and taken up again."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gemmachat.errors import UsageError
from gemmachat.generation import GenerationOptions
from gemmachat.sampling import SamplingParams
from gemmachat.saved_options import as_settings, from_settings

PLAIN = GenerationOptions(SamplingParams(), "auto", None, exact=False)
CHANGED = GenerationOptions(
    SamplingParams(
        temperature=0.0,
        top_k=0,
        seed=0,
        repeat_penalty=1.5,
        logit_bias=((7, float("-inf")), (8, 1.5)),
        grammar='root ::= "a"',
    ),
    3,
    9,
    exact=False,
    stop=("X", "Y"),
    think=True,
    thought_budget=5,
)


@pytest.mark.parametrize("options", [PLAIN, CHANGED])
@pytest.mark.parametrize("before", [PLAIN, CHANGED])
def test_options_come_back_as_they_were(
    options: GenerationOptions, before: GenerationOptions
) -> None:
    settings = json.loads(json.dumps(as_settings(options), allow_nan=False))
    assert from_settings(settings, before) == options


def test_defaults_of_a_server_are_not_saved_unless_they_were_given() -> None:
    sampling = SamplingParams(top_k=5, min_p=0.0, seed=3)
    options = GenerationOptions(sampling, "auto", None, exact=False, given=frozenset({"min_p"}))
    settings = as_settings(options, defaults=False)
    assert settings == {"top_k": 5, "min_p": 0.0, "seed": 3, "draft": "auto"}
    read = from_settings({"base_url": "http://h/v1", **settings}, PLAIN)
    assert read.given >= {"top_k", "min_p", "seed"}
    assert "top_p" not in read.given


def test_that_a_server_is_not_to_think_is_saved_where_it_was_said() -> None:
    options = GenerationOptions(SamplingParams(), "auto", None, exact=False)
    assert "think" not in as_settings(options, defaults=False)
    given = replace(options, given=frozenset({"think"}))
    settings = {"base_url": "http://h/v1", **as_settings(given, defaults=False)}
    assert settings["think"] is False
    assert "think" in from_settings(settings, PLAIN).given


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": "hot"},
        {"temperature": -1},
        {"top_k": [1]},
        {"logit_bias": [5]},
        {"logit_bias": ["a=b"]},
        {"logit_bias": 5},
        {"stop": 5},
        {"stop": "ab"},
        {"stop": [5]},
        {"max_tokens": "9"},
        {"max_tokens": 0},
        {"thought_budget": 1.5},
        {"think": "yes"},
        {"draft": {}},
        {"draft": "x"},
        {"grammar_text": 7},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict) -> None:
    with pytest.raises(UsageError):
        from_settings(settings, PLAIN)
