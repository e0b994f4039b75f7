"""Which JSON schemas can be enforced: checked keyword by keyword, refused by name and place.

What is left out silently would not be enforced, so every keyword must be one that is known. Objects
are closed: they hold the properties that the schema names and no others, unless
additionalProperties says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gemmachat.errors import UsageError
from gemmachat.integer_range import MAX_DIGITS
from gemmachat.schema_overlap import check_exclusive
from gemmachat.schema_parts import (
    BOUNDS,
    BY_TYPE,
    CHOICES,
    NOTES,
    VALUES,
    Pointer,
    Schema,
    bounds_of,
    by_type,
    is_of_type,
    name_of,
    pointer_of,
    types_of,
    values_of,
)
from gemmachat.schema_recursion import check_recursion

MAX_DEPTH = 64
MAX_REPEATS = 1000

_FORMATS = ("date", "time", "date-time", "uuid")


class SchemaCheck:
    """A schema that was found enforceable. Raises `UsageError` where it is not."""

    def __init__(self, schema: Any) -> None:
        self._root = schema
        self._exclusive: list[tuple[list[Schema], str]] = []
        self.targets: dict[Pointer, Schema] = {}
        """The schemas that are referred to."""
        self._check(schema, "the schema", 0)
        checked: set[Pointer] = set()
        while left := [pointer for pointer in self.targets if pointer not in checked]:
            for pointer in left:
                self._check(self.targets[pointer], name_of(pointer), 0)
                checked.add(pointer)
        # From here on every schema that a reference leads to is known to be one.
        check_recursion(self.targets)
        for choices, where in self._exclusive:
            check_exclusive(choices, where, self.targets)

    def _check(self, schema: Any, where: str, depth: int) -> None:
        where = where[:200]  # the innermost place comes first
        if depth > MAX_DEPTH:
            raise UsageError(f"the JSON schema is nested deeper than {MAX_DEPTH} levels")
        if not isinstance(schema, dict):
            raise UsageError(f"{where} is {json.dumps(schema):.40}, where an object is needed")
        for definitions in ("$defs", "definitions"):
            self._check_each(schema.get(definitions, {}), f"{definitions} in {where}", depth)
        if "$id" in schema and schema is not self._root:
            raise UsageError(f"{where} has an '$id', which only the whole schema may: remove it")
        keywords = schema.keys() - NOTES
        if "$ref" in keywords:
            _allow(keywords, ("$ref",), where)
            self._refer(schema["$ref"], where)
        elif keywords & set(CHOICES):
            self._check_choices(schema, keywords, where, depth)
        elif keywords & set(VALUES):
            _check_values(schema, keywords, where)
        elif keywords:
            self._check_typed(schema, keywords, where, depth)

    def _refer(self, reference: Any, where: str) -> None:
        pointer = pointer_of(reference, where)
        found = self._root
        for name in pointer:
            if isinstance(found, dict) and name in found:
                found = found[name]
            elif isinstance(found, list) and name in map(str, range(len(found))):
                found = found[int(name)]
            else:
                raise UsageError(f"{where} refers to {reference!r:.60}, which is not there")
        self.targets[pointer] = found

    def _check_choices(self, schema: Schema, keywords: set[str], where: str, depth: int) -> None:
        keyword = next(keyword for keyword in CHOICES if keyword in keywords)
        _allow(keywords, (keyword,), where)
        choices = schema[keyword]
        if not isinstance(choices, list) or not choices:
            raise UsageError(f"{keyword} in {where} must list some schemas")
        for number, choice in enumerate(choices):
            self._check(choice, f"{keyword} {number} in {where}", depth + 1)
        if keyword == "allOf" and len(choices) > 1:
            raise UsageError(
                f"allOf in {where} lists several schemas, which cannot be enforced together: "
                "make one schema of them"
            )
        if keyword == "oneOf":
            self._exclusive.append((choices, where))

    def _check_typed(self, schema: Schema, keywords: set[str], where: str, depth: int) -> None:
        types = types_of(schema)
        _require_types(types, where)
        # Bounds would be about any number.
        kinds = [kind for kind in types if kind != "integer" or "number" not in types]
        _allow(keywords, ("type", *(key for kind in kinds for key in BY_TYPE[kind])), where)
        for each in by_type(schema):
            if each["type"] == "object":
                self._check_object(each, where, depth)
            elif each["type"] == "array":
                self._check_array(each, where, depth)
            elif each["type"] == "string":
                _check_string(each, where)
            elif each["type"] == "integer":
                _check_bounds(each, where)

    def _check_object(self, schema: Schema, where: str, depth: int) -> None:
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

    def _check_array(self, schema: Schema, where: str, depth: int) -> None:
        _check_range(schema, "minItems", "maxItems", where)
        if "prefixItems" in schema:
            items = schema["prefixItems"]
            if not isinstance(items, list) or not items:
                raise UsageError(f"prefixItems in {where} must list some schemas")
            for number, item in enumerate(items):
                self._check(item, f"item {number} in {where}", depth + 1)
            if schema.get("items", False) is not False:
                raise UsageError(
                    f"{where} uses 'items' beside prefixItems, which cannot be enforced: remove it"
                )
            least = schema.get("minItems", 0)
            if not least <= len(items) <= schema.get("maxItems", len(items)):
                raise UsageError(
                    f"minItems and maxItems in {where} exclude the {len(items)} of prefixItems"
                )
        elif "items" in schema:
            self._check(schema["items"], f"items in {where}", depth + 1)
        elif schema.keys() & {"minItems", "maxItems"}:
            raise UsageError(f"{where} limits the number of items but does not say what items are")

    def _check_each(self, schemas: Any, where: str, depth: int) -> None:
        if not isinstance(schemas, Mapping):
            raise UsageError(f"{where} must be an object")
        for name, schema in schemas.items():
            self._check(schema, f"{name!r:.40} of {where}", depth + 1)


def _check_values(schema: Schema, keywords: set[str], where: str) -> None:
    keyword = "const" if "const" in keywords else "enum"
    _allow(keywords, ("type", keyword), where)
    values = values_of(schema)
    if not isinstance(values, list) or not values:
        raise UsageError(f"enum in {where} must list some values")
    if "type" not in schema:
        return
    types = types_of(schema)
    _require_types(types, where)
    for value in values:
        if not any(is_of_type(value, kind) for kind in types):
            raise UsageError(
                f"{keyword} in {where} has {json.dumps(value):.40}, which is no "
                f"{' or '.join(types)}"
            )


def _check_string(schema: Schema, where: str) -> None:
    if "format" in schema:
        _allow(set(schema), ("type", "format"), where)
        if schema["format"] not in _FORMATS:
            raise UsageError(
                f"{where} asks for the format {schema['format']!r:.40}; "
                f"{', '.join(_FORMATS)} can be enforced"
            )
    _check_range(schema, "minLength", "maxLength", where)


def _check_bounds(schema: Schema, where: str) -> None:
    given = [keyword for keyword in BOUNDS if keyword in schema]
    for keyword in given:
        if not is_of_type(schema[keyword], "number"):
            raise UsageError(f"{keyword} in {where} must be a number")
    least, most = bounds_of(schema)
    if least > most:
        raise UsageError(
            f"{' and '.join(given)} in {where} leave no integer of up to {MAX_DIGITS} digits"
        )


def _check_range(schema: Schema, low: str, high: str, where: str) -> None:
    least, most = schema.get(low, 0), schema.get(high, MAX_REPEATS)
    if type(least) is not int or type(most) is not int or not 0 <= least <= most <= MAX_REPEATS:
        raise UsageError(
            f"{low} and {high} in {where} must be whole numbers in order, up to {MAX_REPEATS}"
        )


def _strings(values: Any) -> list[str]:
    return [v for v in values if isinstance(v, str)] if isinstance(values, list) else []


def _require_types(types: list[Any], where: str) -> None:
    for kind in types:
        if not isinstance(kind, str) or kind not in BY_TYPE:
            raise UsageError(f"{where} has the unknown type {kind!r:.40}")
    if not types:
        raise UsageError(f"type in {where} lists no type")


_BOUNDS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}


def _allow(keywords: set[str], allowed: tuple[str, ...], where: str) -> None:
    left = sorted(keywords - set(allowed))
    if left:
        beside = f" beside {allowed[-1]}" if len(allowed) < 3 else ""
        if _BOUNDS.issuperset(left):
            beside = " for a type other than integer"
        raise UsageError(
            f"{where} uses {', '.join(map(repr, left))[:120]}{beside}, which cannot be enforced: "
            "remove it"
        )
