"""Whatever a schema says, it ends in a grammar that keeps it, or in a `UsageError`."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

from embedded import TARGET
from jsonschema import Draft202012Validator
from schemas import ENFORCED

from gemmachat.bridge_engine import EngineHandle
from gemmachat.errors import UsageError
from gemmachat.json_schema import to_grammar
from gemmachat.schema_parts import BY_TYPE, CHOICES, NOTES
from gemmachat.schema_trial import convert_apart

KEYWORDS = sorted(
    {"type", "$ref", "const", "enum", "pattern", "nullable", "", "\ud800", "é\u2028", "*"}
    | {*NOTES, *CHOICES, *(keyword for keywords in BY_TYPE.values() for keyword in keywords)}
    - {"$id", "$schema"}  # the validator stumbles over odd ones
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 1001, 10**17, 10**300, -0.0, 1.5, 1e308, "", "a", "\x00"),
    *("é\u2028", "\ud800", "\x7f]\n", "string", "integer", "date", "#", "#/", "#/$defs"),
    *("#/properties/a", "#/default", "#/examples/0", "#/$defs/a", "%", "#/%ff", "#/~", "x" * 2000),
    *([], {}, [[]], [{}], [5], ["a"], ["a", "a"], ["null", "integer"], {"": {}}, {"a": 5}),
    *({"type": "null"}, {"type": ["object"]}, {"$ref": "#"}, {"$ref": "#/default"}, {"const": {}}),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, Any, tuple[Any, ...]]]:
    """Everything inside of a value: what holds it, under which key, and the way there."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        yield value, key, (*path, key)
        if isinstance(inner, dict | list):
            yield from places(inner, (*path, key))


def wrapped(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = {"type": "array", "items": value, "maxItems": 1}
    return value


def mutate(draw: random.Random, schema: dict[str, Any]) -> None:
    found = list(places(schema)) or [(schema, "type", ())]
    holder, key, _ = draw.choice(found)
    other, other_key, path = draw.choice(found)
    value = copy.deepcopy(holder.get(key) if isinstance(holder, dict) else holder[key])
    dicts = [schema, *(h[k] for h, k, _ in found if isinstance(h, dict) and type(h.get(k)) is dict)]
    somewhere, part = draw.choice(dicts), copy.deepcopy(draw.choice(dicts))
    odd = copy.deepcopy(draw.choice(VALUES))
    match draw.randrange(8):
        case 0:
            holder[key] = odd
        case 1:
            somewhere[draw.choice(KEYWORDS)] = odd
        case 2:
            holder[key], other[other_key] = (
                copy.deepcopy(
                    other.get(other_key) if isinstance(other, dict) else other[other_key]
                ),
                value,
            )
        case 3:
            somewhere["$ref"] = "#/" + "/".join(map(str, path))
        case 4:
            holder[key] = wrapped(value, draw.choice([1, 3, 66]))
        case 5:
            somewhere[draw.choice(CHOICES)] = [part, odd, {}][: draw.randint(1, 3)]
        case 6:
            somewhere.update(part)
        case 7:
            somewhere.pop(draw.choice(list(somewhere) or [""]), None)


def mutants(n: int) -> Iterator[dict[str, Any]]:
    draw = random.Random(20240601)
    schemas = list(ENFORCED.values())
    for _ in range(n):
        schema = copy.deepcopy(draw.choice(schemas))
        for _ in range(draw.randint(1, 4)):
            mutate(draw, schema)
        yield schema


def outcome(convert: Callable[[str], str], text: str) -> tuple[str, str]:
    """What becomes of a schema: "grammar" or "refused", and the text of it."""
    try:
        grammar = convert(text)
    except UsageError as error:
        return "refused", str(error)
    return "grammar", grammar


def check(text: str) -> tuple[str, str]:
    kind, said = outcome(to_grammar, text)
    if kind == "grammar":
        check_rules(said)
    else:
        assert "\n" not in said
        assert len(said) < 600
    return kind, said


def check_rules(grammar: str) -> None:
    """Every rule is defined once, and every rule that is named is defined."""
    rules = [line.split(" ::= ", 1) for line in grammar.split("\n") if line]
    names = [name for name, _ in rules]
    assert len(names) == len(set(names))
    for _, text in rules:
        bare = re.sub(r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|\{[0-9,]*\}', " ", text)
        assert set(re.findall(r"[^\s|()?*+]+", bare)) <= set(names)


def test_every_mutant_ends_in_a_grammar_or_a_refusal() -> None:
    outcomes = [check(json.dumps(schema)) for schema in mutants(3000)]
    assert sum(kind == "grammar" for kind, _ in outcomes) > 300
    sentences = {re.sub(r"'.*?'|\d", "", said)[:50] for kind, said in outcomes if kind == "refused"}
    assert len(sentences) > 50


def test_damaged_text_ends_in_a_grammar_or_a_refusal() -> None:
    draw = random.Random(1)
    odd = ("NaN", "-Infinity", "1e999", "9" * 5000, '"\\ud83d"', "\ud800", ",", "", "[" * 5000)
    for schema in mutants(500):
        text = json.dumps(schema, ensure_ascii=draw.random() < 0.5)
        start = draw.randint(0, len(text))
        check(text[:start] + draw.choice(odd) + text[start + draw.randint(0, 20) :])
        if names := re.findall(r'"\w*": ', text):  # the same definition twice
            check(text.replace(draw.choice(names), draw.choice(names), 1))


def test_texts_of_mutants_are_instances() -> None:
    handle = EngineHandle(TARGET, None)
    n_checked = 0
    for seed, schema in enumerate(mutants(1500)):
        kind, said = check(json.dumps(schema))
        if kind == "refused" or schema in ENFORCED.values():
            continue
        walk = handle.walk_grammar(said, seed, 150)
        if handle.is_end(walk[-1]):
            text = b"".join(map(handle.piece, walk)).decode()
            error = next(Draft202012Validator(schema).iter_errors(json.loads(text)), None)
            assert error is None, f"{schema} allows {text}: {error}"
            n_checked += 1
    handle.free()
    assert n_checked > 100


def test_the_process_says_the_same() -> None:
    for schema in [*mutants(8), *list(ENFORCED.values())[-2:]]:
        text = json.dumps(schema)
        assert outcome(convert_apart, text) == outcome(to_grammar, text)
