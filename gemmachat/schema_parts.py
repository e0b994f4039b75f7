"""What a JSON schema consists of: its keywords, choices, values, types and references."""

from __future__ import annotations

from math import ceil, floor
from typing import Any
from urllib.parse import unquote

from gemmachat.errors import UsageError
from gemmachat.integer_range import LARGEST

Schema = dict[str, Any]
Pointer = tuple[str, ...]
"""The steps from the root of a schema to a part of it (RFC 6901)."""

NOTES = frozenset(
    (
        "$schema", "$id", "$comment", "title", "description", "default", "examples", "deprecated",
        "readOnly", "writeOnly", "discriminator", "$defs", "definitions",
    )
)  # fmt: skip
CHOICES = ("anyOf", "oneOf", "allOf")
VALUES = ("const", "enum")
BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
BY_TYPE = {
    "object": ("properties", "required", "additionalProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "string": ("format", "minLength", "maxLength"),
    "number": (),
    "integer": BOUNDS,
    "boolean": (),
    "null": (),
}
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def choices_of(schema: Schema) -> Any:
    """The schemas that a schema chooses from (allOf has but one), or None."""
    return next((schema[keyword] for keyword in CHOICES if keyword in schema), None)


def values_of(schema: Schema) -> Any:
    """The values that a schema lists, or None."""
    return [schema["const"]] if "const" in schema else schema.get("enum")


def types_of(schema: Schema) -> Any:
    """The types of a schema with keywords, which those for objects and arrays may imply."""
    implied = "array" if schema.keys() & {"items", "prefixItems"} else "object"
    types = schema.get("type", implied)
    return types if isinstance(types, list) else [types]


def by_type(schema: Schema) -> list[Schema]:
    """A schema as one for each of its types, with the keywords that are about that type."""
    return [
        {"type": kind, **{key: schema[key] for key in BY_TYPE[kind] if key in schema}}
        for kind in types_of(schema)
    ]


def is_of_type(value: Any, kind: str) -> bool:
    """Whether a value from JSON is of a type of JSON Schema."""
    if isinstance(value, bool):
        return kind == "boolean"
    whole = not isinstance(value, float) or value.is_integer()
    return isinstance(value, _PYTHON_TYPES[kind]) and (kind != "integer" or whole)


def bounds_of(schema: Schema) -> tuple[int, int]:
    """The least and the largest integer that a schema allows, of those that can be written."""
    least, above = schema.get("minimum", -LARGEST), schema.get("exclusiveMinimum", -LARGEST - 1)
    most, below = schema.get("maximum", LARGEST), schema.get("exclusiveMaximum", LARGEST + 1)
    return (
        max(-LARGEST, ceil(least), floor(above) + 1),
        min(LARGEST, floor(most), ceil(below) - 1),
    )


def pointer_of(reference: Any, where: str) -> Pointer:
    """What a reference points to. Raises `UsageError` when that is no place in the schema."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        raise UsageError(
            f"{where} refers to {reference!r:.60}; only the schema itself, '#', or a part of it, "
            "as in '#/$defs/NAME', can be referred to"
        )
    steps = unquote(reference).split("/")[1:]
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in steps)


def name_of(pointer: Pointer) -> str:
    """A pointer as messages show it."""
    return repr("/".join(("#", *pointer)))[:60]
