"""Which JSON schemas can be enforced: checked keyword by keyword, refused by name and place.

What is left out silently would not be enforced, so every keyword must be one that is known. Objects
are closed: they hold the properties that the schema names and no others, unless
additionalProperties says so.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from gemmachat.errors import UsageError

MAX_DEPTH = 64
MAX_REPEATS = 1000

NOTES = frozenset(
    (
        "$schema", "$id", "$comment", "title", "description", "default", "examples", "deprecated",
        "readOnly", "writeOnly", "discriminator", "$defs", "definitions",
    )
)  # fmt: skip
BY_TYPE = {
    "object": ("properties", "required", "additionalProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "string": ("format", "minLength", "maxLength"),
    "number": (),
    "integer": (),
    "boolean": (),
    "null": (),
}
_FORMATS = ("date", "time", "date-time", "uuid")
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_LOOK_INTO = 4  # how many properties deep two choices of oneOf are compared


class SchemaCheck:
    """A schema that was found enforceable. Raises `UsageError` where it is not."""

    def __init__(self, schema: Any) -> None:
        self._root = schema
        self.references: dict[str, Any] = {}
        """The schemas that are referred to, by their references."""
        self._check(schema, "the schema", 0)
        checked: set[str] = set()
        while left := self.references.keys() - checked:
            for reference in sorted(left):
                self._check(self.references[reference], f"{reference!r:.60}", 0)
                checked.add(reference)

    def _check(self, schema: Any, where: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise UsageError(f"the JSON schema is nested deeper than {MAX_DEPTH} levels")
        if not isinstance(schema, dict):
            raise UsageError(f"{where} is {json.dumps(schema):.40}, where an object is needed")
        for definitions in ("$defs", "definitions"):
            self._check_each(schema.get(definitions, {}), f"{definitions} in {where}", depth)
        keywords = schema.keys() - NOTES
        if "$ref" in keywords:
            _allow(keywords, ("$ref",), where)
            self._refer(schema["$ref"], where)
        elif keywords & {"anyOf", "oneOf"}:
            self._check_choices(schema, keywords, where, depth)
        elif keywords & {"const", "enum"}:
            _check_values(schema, keywords, where)
        elif isinstance(schema.get("type"), list):
            _allow(keywords, ("type",), where)
            _require_types(schema["type"], where)
        elif keywords:
            self._check_typed(schema, keywords, where, depth)

    def _refer(self, reference: Any, where: str) -> None:
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise UsageError(
                f"{where} refers to {reference!r:.60}; only a part of the schema, as in "
                "'#/$defs/NAME', can be referred to"
            )
        found = self._root
        for step in unquote(reference).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and name in found:
                found = found[name]
            elif isinstance(found, list) and name in map(str, range(len(found))):
                found = found[int(name)]
            else:
                raise UsageError(f"{where} refers to {reference!r:.60}, which is not there")
        self.references[reference] = found

    def _check_choices(
        self, schema: dict[str, Any], keywords: set[str], where: str, depth: int
    ) -> None:
        keyword = "anyOf" if "anyOf" in keywords else "oneOf"
        _allow(keywords, (keyword,), where)
        choices = schema[keyword]
        if not isinstance(choices, list) or not choices:
            raise UsageError(f"{keyword} in {where} must list some schemas")
        for number, choice in enumerate(choices):
            self._check(choice, f"{keyword} {number} in {where}", depth + 1)
        if keyword == "oneOf":
            for (i, one), (j, two) in itertools.combinations(enumerate(choices), 2):
                if not self._apart(one, two, _LOOK_INTO):
                    raise UsageError(
                        f"oneOf in {where} cannot be enforced, because a value may match both "
                        f"{i} and {j}: use anyOf"
                    )

    def _apart(self, one: Any, two: Any, depth: int) -> bool:
        """Whether types, constants or required properties tell that no value matches both."""
        one, two = self._resolved(one), self._resolved(two)
        if not (isinstance(one, dict) and isinstance(two, dict)) or depth == 0:
            return False
        values = [_values(schema) for schema in (one, two)]
        if values[0] is not None and values[1] is not None:
            return not any(value in values[1] for value in values[0])
        types = [_types(schema) for schema in (one, two)]
        if types[0] is not None and types[1] is not None and not types[0] & types[1]:
            return True
        if types != [{"object"}, {"object"}]:
            return False
        required = [set(_strings(schema.get("required"))) for schema in (one, two)]
        parts = [schema.get("properties", {}) for schema in (one, two)]
        return any(
            self._apart(parts[0].get(name), parts[1].get(name), depth - 1)
            for name in required[0] & required[1]
        )

    def _resolved(self, schema: Any) -> Any:
        for _ in range(_LOOK_INTO):
            if not (isinstance(schema, dict) and "$ref" in schema):
                break
            self._refer(schema["$ref"], "oneOf")
            schema = self.references[schema["$ref"]]
        return schema

    def _check_typed(
        self, schema: dict[str, Any], keywords: set[str], where: str, depth: int
    ) -> None:
        kind = kind_of(schema)
        _require_types([kind], where)
        _allow(keywords, ("type", *BY_TYPE[kind]), where)
        if kind == "object":
            self._check_object(schema, where, depth)
        elif kind == "array":
            self._check_array(schema, keywords, where, depth)
        elif kind == "string":
            _check_string(schema, keywords, where)

    def _check_object(self, schema: dict[str, Any], where: str, depth: int) -> None:
        properties = schema.get("properties", {})
        self._check_each(properties, f"properties in {where}", depth)
        required = schema.get("required", [])
        names = _strings(required)
        if names != required or any(name not in properties for name in names):
            raise UsageError(f"required in {where} must list names from its properties")
        additional = schema.get("additionalProperties", False)
        if additional is not False and properties:
            raise UsageError(
                f"{where} has additionalProperties beside properties, which cannot be enforced: "
                "one of them could take the name of another; remove it"
            )
        if not isinstance(additional, bool):
            self._check(additional, f"additionalProperties in {where}", depth + 1)

    def _check_array(
        self, schema: dict[str, Any], keywords: set[str], where: str, depth: int
    ) -> None:
        if "prefixItems" in keywords:
            _allow(keywords, ("type", "prefixItems"), where)
            items = schema["prefixItems"]
            if not isinstance(items, list) or not items:
                raise UsageError(f"prefixItems in {where} must list some schemas")
            for number, item in enumerate(items):
                self._check(item, f"item {number} in {where}", depth + 1)
            return
        if "items" in keywords:
            self._check(schema["items"], f"items in {where}", depth + 1)
        elif keywords & {"minItems", "maxItems"}:
            raise UsageError(f"{where} limits the number of items but does not say what items are")
        _check_range(schema, "minItems", "maxItems", where)

    def _check_each(self, schemas: Any, where: str, depth: int) -> None:
        if not isinstance(schemas, Mapping):
            raise UsageError(f"{where} must be an object")
        for name, schema in schemas.items():
            self._check(schema, f"{name!r:.40} of {where}", depth + 1)


def kind_of(schema: dict[str, Any]) -> Any:
    """The type of a schema with keywords, which those for objects and arrays may imply."""
    implied = "array" if schema.keys() & {"items", "prefixItems"} else "object"
    return schema.get("type", implied)


def _check_values(schema: dict[str, Any], keywords: set[str], where: str) -> None:
    keyword = "const" if "const" in keywords else "enum"
    _allow(keywords, ("type", keyword), where)
    values = _values(schema)
    if not isinstance(values, list) or not values:
        raise UsageError(f"enum in {where} must list some values")
    if "type" not in schema:
        return
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    _require_types(types, where)
    for value in values:
        if not any(_is(value, kind) for kind in types):
            raise UsageError(
                f"{keyword} in {where} has {json.dumps(value):.40}, which is no "
                f"{' or '.join(types)}"
            )


def _check_string(schema: dict[str, Any], keywords: set[str], where: str) -> None:
    if "format" in keywords:
        _allow(keywords, ("type", "format"), where)
        if schema["format"] not in _FORMATS:
            raise UsageError(
                f"{where} asks for the format {schema['format']!r:.40}; "
                f"{', '.join(_FORMATS)} can be enforced"
            )
    _check_range(schema, "minLength", "maxLength", where)


def _check_range(schema: dict[str, Any], low: str, high: str, where: str) -> None:
    least, most = schema.get(low, 0), schema.get(high, MAX_REPEATS)
    if type(least) is not int or type(most) is not int or not 0 <= least <= most <= MAX_REPEATS:
        raise UsageError(
            f"{low} and {high} in {where} must be whole numbers in order, up to {MAX_REPEATS}"
        )


def _values(schema: dict[str, Any]) -> Any:
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _types(schema: dict[str, Any]) -> set[str] | None:
    """The types that a schema admits, as far as it says so."""
    values, given = _values(schema), schema.get("type")
    if isinstance(values, list):
        return {kind for value in values for kind in BY_TYPE if _is(value, kind)}
    types = set(_strings(given if isinstance(given, list) else [given]))
    return types | ({"integer"} if "number" in types else set()) or None


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    whole = not isinstance(value, float) or value.is_integer()
    return isinstance(value, _PYTHON_TYPES[kind]) and (kind != "integer" or whole)


def _strings(values: Any) -> list[str]:
    return [v for v in values if isinstance(v, str)] if isinstance(values, list) else []


def _require_types(types: list[Any], where: str) -> None:
    for kind in types:
        if not isinstance(kind, str) or kind not in BY_TYPE:
            raise UsageError(f"{where} has the unknown type {kind!r:.40}")
    if not types:
        raise UsageError(f"type in {where} lists no type")


def _allow(keywords: set[str], allowed: tuple[str, ...], where: str) -> None:
    left = sorted(keywords - set(allowed))
    if left:
        beside = f" beside {allowed[-1]}" if len(allowed) < 3 else ""
        raise UsageError(
            f"{where} uses {', '.join(map(repr, left))[:120]}{beside}, which cannot be enforced: "
            "remove it"
        )
