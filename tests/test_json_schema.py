"""A JSON schema is enforced as it is written, or refused by the name of what cannot be."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator

import jsonschema
import pytest
from embedded import TARGET
from schemas import ENFORCED, Schema, object_of

from gemmachat.bridge_engine import EngineHandle
from gemmachat.errors import UsageError
from gemmachat.json_schema import MAX_BYTES, any_object, to_grammar

N_WALKS, N_TOKENS = 16, 400
FORMATS = {
    "date": r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$",
    "time": r"^([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{3})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$",
    "uuid": r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
}


@pytest.fixture(scope="module")
def handle() -> Iterator[EngineHandle]:
    handle = EngineHandle(TARGET, None)
    yield handle
    handle.free()


def texts(handle: EngineHandle, grammar: str, n_walks: int = N_WALKS) -> list[str]:
    """Some texts that a grammar allows."""
    walks = [handle.walk_grammar(grammar, seed, N_TOKENS) for seed in range(n_walks)]
    ended = [walk for walk in walks if handle.is_end(walk[-1])]
    assert len(ended) >= 3, "hardly any walk has come to its end"
    return [b"".join(map(handle.piece, walk)).decode() for walk in ended]


@pytest.mark.parametrize("name", ENFORCED)
def test_every_text_is_an_instance(handle: EngineHandle, name: str) -> None:
    schema = ENFORCED[name]
    jsonschema.Draft202012Validator.check_schema(schema)
    for text in texts(handle, to_grammar(json.dumps(schema))):
        jsonschema.validate(json.loads(text), schema)  # json.loads refuses raw control characters


@pytest.mark.parametrize("name", FORMATS)
def test_formats_are_kept(handle: EngineHandle, name: str) -> None:
    for text in texts(handle, to_grammar(json.dumps({"type": "string", "format": name}))):
        jsonschema.validate(json.loads(text), {"type": "string", "pattern": FORMATS[name]})


def test_every_choice_can_be_reached(handle: EngineHandle) -> None:
    for schema, count in (
        ({"enum": ["a", "b", 'c"', "d\\", 5]}, 5),
        ({"anyOf": [{"const": 1}, {"const": 2}, {"type": "null"}]}, 3),
        (object_of((), a={"const": 1}, b={"const": 2}), 4),
        (object_of(("c",), a={"const": 1}, b={"const": 2}, c={"const": 3}, d={"const": 4}), 8),
        ({"type": "integer", "minimum": -2, "maximum": 7}, 10),
        ({"type": "array", "items": {"const": 1}, "maxItems": 2}, 3),
        ({"type": ["boolean", "null"]}, 3),
    ):
        all_texts = texts(handle, to_grammar(json.dumps(schema)), 80)
        assert len({json.dumps(json.loads(text)) for text in all_texts}) == count


def test_characters_beyond_ascii_stand_for_themselves(handle: EngineHandle) -> None:
    grammar = to_grammar(json.dumps({"const": "Grüße 你好 😀"}))
    assert set(texts(handle, grammar)) == {'"Grüße 你好 😀"'}


def test_properties_keep_the_order_of_the_schema(handle: EngineHandle) -> None:
    schema = object_of(("b", "d"), c={"const": 0}, b={"const": 0}, a={"const": 0}, d={"const": 0})
    for text in texts(handle, to_grammar(json.dumps(schema)), 40):
        assert list(json.loads(text)) in ([*"bd"], [*"cbd"], [*"bad"], [*"cbad"])


def test_escaped_characters_are_counted_and_never_half(handle: EngineHandle) -> None:
    """Beyond U+FFFF two escapes, a high and a low surrogate, are one character."""
    grammar = to_grammar(json.dumps({"type": "string", "minLength": 40, "maxLength": 40}))
    escaped, count = re.subn(r'(?m)^char ::= .* \| "u"', r'char ::= "\\\\" ("u"', grammar)
    assert count == 1
    found = "".join(map(json.loads, texts(handle, escaped, 20)))
    assert len(found) % 40 == 0
    assert len(found.encode()) > len(found)
    assert any(character > "\uffff" for character in found)
    assert any("\ud000" <= character < "\ud800" for character in found)
    assert not any("\ud800" <= character < "\ue000" for character in found)


def test_numbers_are_finite_in_double_precision(handle: EngineHandle) -> None:
    numbers = [json.loads(text) for text in texts(handle, to_grammar('{"type": "number"}'), 200)]
    assert all(math.isfinite(number) for number in numbers)
    assert any(isinstance(number, float) and abs(number) > 1e30 for number in numbers)


def test_any_object_is_the_grammar_of_its_schema() -> None:
    assert any_object() == to_grammar('{"type": "object"}')


def nested(depth: int) -> Schema:
    schema: Schema = {"type": "null"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema, "maxItems": 1}
    return schema


def test_nesting_has_a_limit(handle: EngineHandle) -> None:
    for text in texts(handle, to_grammar(json.dumps(nested(64)))):
        json.loads(text)
    refuse(nested(65), "nested deeper than 64 levels")
    refuse_text('{"items":' * 5000 + "{}" + "}" * 5000, "nested")
    refuse_text("[" * 100_000, "nested|recursion")
    chain = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(3000)}
    chain["d3000"] = {"const": 1}
    assert "root ::= " in to_grammar(json.dumps({"$ref": "#/$defs/d0", "$defs": chain}))


def test_large_schemas_pass() -> None:
    names = [f"property number {i}" for i in range(300)]
    for schema in (
        {"enum": [f"value number {i}" for i in range(1500)]},
        object_of((), **{name: {"type": "string", "maxLength": 1000} for name in names}),
        object_of(tuple(names), **{name: nested(5) for name in names}),
        nested(60),
    ):
        grammar = to_grammar(json.dumps(schema))
        assert len(grammar) < 4 * len(json.dumps(schema)) + 2000, "it grows as the schema does"


def test_a_grammar_has_a_largest_size() -> None:
    schema = {"enum": ["x" * 1000 + str(i) for i in range(1020)]}
    assert len(to_grammar(json.dumps(schema))) < MAX_BYTES
    schema = {"enum": ["x" * 1000 + str(i) for i in range(1060)]}
    refuse(schema, "too complex: its grammar is larger than 1024 KiB")
    refuse({"properties": {str(i): {} for i in range(20_000)}}, "larger than 1024 KiB")


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"$ref": "#"}, "'#' refers to itself with nothing in between"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "'#/.defs/a' refers to"),
        ({"anyOf": [{"type": "null"}, {"$ref": "#"}]}, "'#' refers to itself"),
        (
            {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"oneOf": [{"$ref": "#"}]}}},
            "refers to itself",
        ),
        (object_of(("a",), a={"$ref": "#"}), "'#' has no finite value"),
        ({"prefixItems": [{"$ref": "#"}, {}]}, "'#' has no finite value"),
        ({"items": {"$ref": "#"}, "minItems": 1}, "'#' has no finite value"),
        (
            object_of((), a={"$ref": "#/properties/b"}, b={"prefixItems": [{"$ref": "#"}] * 2})
            | {"required": ["b"]},
            "has no finite value, because it always holds itself again",
        ),
    ],
)
def test_recursion_without_an_end_is_refused(schema: object, said: str) -> None:
    refuse(schema, said)


def refuse_text(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        to_grammar(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def refuse(schema: object, *said: str) -> None:
    for part in said:
        refuse_text(json.dumps(schema), part)


UNSUPPORTED = (
    *(
        "pattern",
        "multipleOf",
        "uniqueItems",
        "contains",
        "minContains",
        "maxContains",
        "additionalItems",
    ),
    *("patternProperties", "propertyNames", "minProperties", "maxProperties", "dependencies"),
    *("dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems"),
    *("not", "if", "then", "else", "contentEncoding", "contentMediaType", "$dynamicRef"),
    *("$anchor", "$recursiveRef", "nullable", "frobnicate"),
)


@pytest.mark.parametrize("keyword", UNSUPPORTED)
def test_what_cannot_be_enforced_is_refused_by_name_and_place(keyword: str) -> None:
    for kind in ("object", "array", "string", "number", "integer"):
        refuse({"type": kind, keyword: 1}, f"^the schema uses {re.escape(repr(keyword))}")
    place = r"items in 'a' of properties in the schema"
    inner = {"type": "string", keyword: 1}
    refuse(object_of((), a={"type": "array", "items": inner}), place, re.escape(keyword))
    refuse({"anyOf": [{"const": 1}, inner]}, "anyOf 1 in the schema", re.escape(keyword))
    refuse({"$defs": {"unused": inner}, "type": "null"}, r"'unused' of \$defs in the schema")


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (5, "the schema is 5, where an object is needed"),
        ([], "the schema is"),
        (True, "the schema is true"),
        (object_of((), a=True), "'a' of properties in the schema is true"),
        ({"properties": []}, "properties in the schema must be an object"),
        ({"$defs": 1, "type": "null"}, r"\$defs in the schema must be an object"),
        ({"type": "frob"}, "unknown type 'frob'"),
        ({"type": 5}, "unknown type 5"),
        ({"type": None}, "unknown type None"),
        ({"type": []}, "type in the schema lists no type"),
        ({"type": ["string", []]}, "unknown type"),
        ({"type": ["integer", "null"], "minLength": 1}, "'minLength'"),
        ({"type": ["string", "null"], "minLength": -1}, "minLength and maxLength in the schema"),
        ({"type": "number", "minimum": 0}, "'minimum' for a type other than integer"),
        ({"type": ["integer", "number"], "maximum": 0}, "'maximum' for a type other than integer"),
        ({"type": "string", "exclusiveMaximum": 0}, "'exclusiveMaximum'"),
        ({"type": "integer", "minimum": "0"}, "minimum in the schema must be a number"),
        ({"type": "integer", "minimum": 0, "exclusiveMinimum": True}, "exclusiveMinimum in the"),
        ({"type": "integer", "minimum": 3, "exclusiveMaximum": 3}, "leave no integer of up to 16"),
        ({"type": "integer", "exclusiveMinimum": 0.1, "maximum": 0.9}, "leave no integer"),
        ({"type": "integer", "minimum": 10**16}, "minimum in the schema leave no integer"),
        ({"type": "integer", "const": 1, "minimum": 0}, "'minimum'"),
        ({"type": "string", "items": {}}, "'items'"),
        ({"minLength": 1}, "'minLength'"),
        ({"format": "date"}, "'format'"),
        ({"type": "string", "format": "email"}, "format 'email'; date, time, date-time, uuid"),
        ({"type": "string", "format": []}, "the format"),
        ({"type": "string", "format": "date", "maxLength": 3}, "'maxLength' beside format"),
        ({"type": "string", "minLength": -1}, "minLength and maxLength in the schema"),
        ({"type": "string", "minLength": 3, "maxLength": 2}, "in order"),
        ({"type": "string", "maxLength": 10**6}, "up to 1000"),
        ({"type": "string", "maxLength": 1.5}, "whole numbers"),
        ({"type": "string", "maxLength": True}, "whole numbers"),
        ({"type": "array", "minItems": 1}, "does not say what items are"),
        ({"items": {}, "minItems": 2, "maxItems": 1}, "minItems and maxItems"),
        ({"items": [{}]}, "items in the schema is"),
        ({"prefixItems": []}, "prefixItems in the schema must list"),
        ({"prefixItems": {}}, "prefixItems in the schema must list"),
        ({"prefixItems": [{}], "items": {}}, "'items' beside prefixItems"),
        ({"prefixItems": [{}], "minItems": 2}, "exclude the 1 of prefixItems"),
        ({"prefixItems": [{}, {}], "maxItems": 1}, "exclude the 2 of prefixItems"),
        ({"prefixItems": [{}], "maxItems": -1}, "minItems and maxItems in the schema must"),
        ({"required": ["a"], "properties": {}}, "required in the schema must list names"),
        ({"required": "a", "properties": {"a": {}}}, "required in the schema must list names"),
        ({"required": [[]], "properties": {"a": {}}}, "required in the schema must list names"),
        ({"properties": {"a": {}}, "additionalProperties": True}, "take the name of another"),
        ({"properties": {"a": {}}, "additionalProperties": {}}, "take the name of another"),
        ({"additionalProperties": 5}, "additionalProperties in the schema is 5"),
        ({"enum": []}, "enum in the schema must list some values"),
        ({"enum": {}}, "enum in the schema must list some values"),
        ({"enum": [1], "const": 1}, "'enum'"),
        ({"enum": [1], "minimum": 0}, "'minimum'"),
        ({"type": "string", "enum": ["a", 1]}, "enum in the schema has 1, which is no string"),
        ({"type": "integer", "const": 1.5}, "const in the schema has 1.5, which is no integer"),
        ({"type": "number", "const": True}, "has true, which is no number"),
        ({"type": "x", "const": 1}, "unknown type 'x'"),
        ({"anyOf": []}, "anyOf in the schema must list some schemas"),
        ({"anyOf": [{}], "type": "object"}, "'type' beside anyOf"),
        ({"anyOf": [{}], "oneOf": [{}]}, "'oneOf' beside anyOf"),
        ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, "match both 0 and 1: use anyOf"),
        ({"oneOf": [{"const": 1}, {"enum": [2, 1.0]}]}, "match both"),
        ({"oneOf": [{}, {"const": 1}]}, "match both"),
        ({"oneOf": [{"properties": {}}, {"type": "string"}]}, "match both"),
        ({"oneOf": [object_of((), a={}), object_of((), b={})]}, "match both"),
        ({"allOf": []}, "allOf in the schema must list some schemas"),
        ({"allOf": [{"type": "null"}] * 2}, "allOf in the schema lists several schemas"),
        ({"allOf": [{}], "anyOf": [{}]}, "'allOf' beside anyOf"),
        ({"properties": {"a": {"$id": "b"}}}, "'a' of properties in the schema has an '.id'"),
        ({"$ref": "https://example.org/s.json"}, "only the schema itself, '#', or a part of it"),
        ({"$ref": 5}, "refers to 5"),
        ({"$ref": "#/$defs/no"}, "refers to '#/\\$defs/no', which is not there"),
        ({"$ref": "#/anyOf/7"}, "which is not there"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {}}, "type": "null"}, r"'type' beside \$ref"),
        ({"$ref": "#/title", "title": "T"}, "'#/title' is \"T\", where an object is needed"),
        ({"oneOf": [{"$ref": "#/default"}, {}], "default": {"enum": 5}}, "enum in '#/default'"),
        ({"oneOf": [{"$ref": "#/examples/0"}, {}], "examples": [5]}, "'#/examples/0' is 5"),
        (
            {"oneOf": [{"$ref": "#/default"}, {"const": 1}], "default": {"type": {"a": 1}}},
            "'#/default' has the unknown type",
        ),
        (
            {
                "oneOf": [{"$ref": "#/default"}, object_of(("a",), a={"const": 1})],
                "default": {"type": "object", "properties": [1], "required": ["a"]},
            },
            "properties in '#/default' must be an object",
        ),
        ({"$ref": "#/default", "default": {"type": "string", "pattern": "a"}}, "'pattern'"),
    ],
)
def test_what_makes_no_sense_is_refused(schema: object, said: str) -> None:
    refuse(schema, said)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "nonsense", "{'a': 1}", '{"const": NaN}', '{"const": 1e999}', '"\\ud800"'),
        *('{"type": "null", "type": "null"}', '{"$defs": {"a": {}, "\\u0061": {}}}'),
    ],
)
def test_text_that_is_no_json_is_refused(text: str) -> None:
    refuse_text(text, "the JSON schema is not JSON: ")
