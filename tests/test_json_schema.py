"""A JSON schema is enforced as it is written, or refused by the name of what cannot be."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from embedded import TARGET

from gemmachat.bridge import EngineHandle
from gemmachat.errors import UsageError
from gemmachat.json_schema import to_grammar

N_WALKS, N_TOKENS = 16, 400
Schema = dict[str, Any]


def object_of(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


TREE = object_of(
    ("name", "children"),
    name={"enum": ["leaf", "stem"]},
    children={"type": "array", "items": {"$ref": "#/$defs/tree_node"}, "maxItems": 2},
)
ENFORCED: dict[str, Schema] = {
    "anything": {},
    "notes": {"title": "T", "description": "d", "default": 1, "examples": [2], "type": "null"},
    "null": {"type": "null"},
    "boolean": {"type": "boolean"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "string": {"type": "string"},
    "lengths": {"type": "string", "minLength": 2, "maxLength": 5},
    "shortest": {"type": "string", "minLength": 3},
    "no length": {"type": "string", "maxLength": 0},
    "types": {"type": ["integer", "null", "boolean"]},
    "const": {"const": "a"},
    "const of parts": {"const": {"a": [1, None, -2.5e-3, True], "": 'q"\\'}},
    "enum": {"enum": ["a", 1, None, False, [], {}]},
    "enum with types": {"type": ["string", "null"], "enum": ["a", None]},
    "enum with type": {"type": "integer", "enum": [1, 2.0]},
    "quotes": {"enum": ['a"b', "a\\b", '\\"', '" | root ::= "x', "[a]", "a-b"]},
    "control characters": {"enum": ["a\nb", "\t", "\x00", "\x1f", "\x7f", "\r"]},
    "unicode": {"enum": ["é", "你好", "😀", "\u2028", "\ufeff", "<|turn>"]},
    "object": {"type": "object"},
    "closed": object_of(),
    "properties": object_of(("a", "c"), a={"type": "null"}, b={"const": 1}, c={"const": 2}),
    "optional": object_of((), a={"const": 1}, b={"const": 2}, c={"const": 3}),
    "additional": {"type": "object", "additionalProperties": {"type": "integer"}},
    "any additional": {"type": "object", "additionalProperties": True},
    "none additional": {**object_of(("a",), a={"const": 1}), "additionalProperties": False},
    "no type": {"properties": {"a": {"const": 1}}, "required": ["a"]},
    "array": {"type": "array"},
    "items": {"type": "array", "items": {"type": "null"}},
    "any items": {"items": {}, "minItems": 1},
    "item numbers": {"type": "array", "items": {"type": "null"}, "minItems": 2, "maxItems": 4},
    "no items": {"type": "array", "items": {"type": "null"}, "maxItems": 0},
    "many items": {"type": "array", "items": {"const": 1}, "minItems": 30},
    "tuple": {"type": "array", "prefixItems": [{"const": 1}, {"type": "boolean"}]},
    "any of": {"anyOf": [{"type": "null"}, {"type": "integer"}, {"type": "number"}]},
    "one of": {"oneOf": [{"type": "null"}, {"type": "integer"}, {"const": "a"}]},
    "one of tagged": {
        "oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}],
        "discriminator": {"propertyName": "kind"},
        "$defs": {
            "cat": object_of(("kind",), kind={"const": "cat"}, lives={"type": "integer"}),
            "dog": object_of(("kind",), kind={"enum": ["dog", "hound"]}, lives={"type": "null"}),
        },
    },
    "recursive": {"$ref": "#/$defs/tree_node", "$defs": {"tree_node": TREE}},
    "reference": object_of(("a",), a={"const": 1}, b={"$ref": "#/properties/a"}),
    "chained": {"$ref": "#/$defs/b", "$defs": {"b": {"$ref": "#/$defs/c"}, "c": {"const": 3}}},
    "escaped": {"$ref": "#/$defs/a~1b~0c%20d", "$defs": {"a/b~c d": {"const": 3}}},
    "by number": {"anyOf": [{"const": 1}, {"items": {"$ref": "#/anyOf/0"}, "type": "array"}]},
    # Names that the converter's own rules have too, or would be given.
    "name of a type": {
        "$defs": {"string": {"type": "integer"}, "root": {"const": 1}, "value": {"const": 2}},
        **object_of(
            ("a", "b", "c", "d"),
            a={"type": "string", "maxLength": 2},
            b={"$ref": "#/$defs/string"},
            c={"$ref": "#/$defs/root"},
            d={"$ref": "#/$defs/value"},
        ),
    },
    "name of a property": {
        "$defs": {"foo": object_of(("x",), x={"const": 1})},
        **object_of(
            ("foo", "bar"),
            foo=object_of(("y",), y={"const": 2}),
            bar={"$ref": "#/$defs/foo"},
        ),
    },
    "same name twice": {
        "$defs": {"a": {"const": 1}},
        "definitions": {"a": {"const": 2}},
        "prefixItems": [{"$ref": "#/$defs/a"}, {"$ref": "#/definitions/a"}],
    },
    "odd keys": {
        "type": "object",
        "properties": {
            key: {"const": number}
            for number, key in enumerate(["", 'q"k', "b\\s", "n\nl", "é", "ü", "😀", "$ref", "a-b"])
        },
        "required": ["", 'q"k', "b\\s", "n\nl", "é", "ü", "😀", "$ref", "a-b"],
    },
}
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
        ({"type": "array", "items": {"const": 1}, "maxItems": 2}, 3),
        ({"type": ["boolean", "null"]}, 3),
    ):
        all_texts = texts(handle, to_grammar(json.dumps(schema)), 80)
        assert len({json.dumps(json.loads(text)) for text in all_texts}) == count


def test_characters_beyond_ascii_stand_for_themselves(handle: EngineHandle) -> None:
    grammar = to_grammar(json.dumps({"const": "Grüße 你好 😀"}))
    assert set(texts(handle, grammar)) == {'"Grüße 你好 😀"'}


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
    refuse({"$ref": "#/$defs/d0", "$defs": chain}, "nested too deeply")


def refuse_text(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        to_grammar(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def refuse(schema: object, *said: str) -> None:
    for part in said:
        refuse_text(json.dumps(schema), part)


UNSUPPORTED = (
    *("pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("uniqueItems", "contains", "minContains", "maxContains", "additionalItems"),
    *("patternProperties", "propertyNames", "minProperties", "maxProperties", "dependencies"),
    *("dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems"),
    *("allOf", "not", "if", "then", "else", "contentEncoding", "contentMediaType", "$dynamicRef"),
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
        ({"type": ["string", "null"], "minLength": 1}, "'minLength' beside type"),
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
        ({"$ref": "#"}, "refers to '#'; only a part of the schema"),
        ({"$ref": "https://example.org/s.json"}, "only a part of the schema"),
        ({"$ref": 5}, "refers to 5"),
        ({"$ref": "#/$defs/no"}, "refers to '#/\\$defs/no', which is not there"),
        ({"$ref": "#/anyOf/7"}, "which is not there"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {}}, "type": "null"}, r"'type' beside \$ref"),
        ({"$ref": "#/title", "title": "T"}, "'#/title' is \"T\", where an object is needed"),
        ({"$ref": "#/default", "default": {"type": "string", "pattern": "a"}}, "'pattern'"),
    ],
)
def test_what_makes_no_sense_is_refused(schema: object, said: str) -> None:
    refuse(schema, said)


@pytest.mark.parametrize(
    "text", ["", "{", "nonsense", "{'a': 1}", '{"const": NaN}', '{"const": 1e999}', '"\\ud800"']
)
def test_text_that_is_no_json_is_refused(text: str) -> None:
    refuse_text(text, "the JSON schema is not JSON: ")
