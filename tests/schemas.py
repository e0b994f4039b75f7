"""JSON schemas that can be enforced."""

from __future__ import annotations

from typing import Any

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
    "types with keywords": {
        "type": ["object", "string", "null"],
        "maxLength": 2,
        "properties": {"a": {"const": 1}},
        "required": ["a"],
    },
    "at least": {"type": "integer", "minimum": 98},
    "at most": {"type": "integer", "maximum": -7},
    "between": {"type": "integer", "minimum": -2.5, "exclusiveMaximum": 12},
    "above": {"type": ["integer", "null"], "exclusiveMinimum": 0, "maximum": 1e30},
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
    "optional star": object_of((), **{"a": {"const": 1}, "*": {"const": 2}}),
    "optional first": object_of(("c",), a={"const": 1}, b={"const": 2}, c={"const": 3}, d={}),
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
    "tuple of a length": {
        "prefixItems": [{"const": 1}, {"const": 2}],
        "items": False,
        "minItems": 2,
        "maxItems": 2,
    },
    "all of one": {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"const": 1}}, "default": 1},
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
    "whole": object_of((), next={"anyOf": [{"$ref": "#"}, {"type": "null"}]}),
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
            for number, key in enumerate(
                ["", 'q"k', "b\\s", "n\nl", "é", "ü", "😀", "$ref", "a-b", "*"]
            )
        },
        "required": ["", 'q"k', "b\\s", "n\nl", "é", "ü", "😀", "$ref", "a-b", "*"],
    },
}
