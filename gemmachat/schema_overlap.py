"""Whether the choices of oneOf exclude each other, by types, constants, required properties."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from gemmachat.errors import UsageError
from gemmachat.schema_parts import (
    BY_TYPE,
    Pointer,
    Schema,
    is_of_type,
    pointer_of,
    types_of,
    values_of,
)

_LOOK_INTO = 4  # how many properties deep, and how many references far


def check_exclusive(choices: list[Schema], where: str, targets: Mapping[Pointer, Schema]) -> None:
    """Raise `UsageError` where some value may match two of the checked schemas.

    `targets` are the checked schemas that are referred to.
    """
    for (i, one), (j, two) in itertools.combinations(enumerate(choices), 2):
        if not _apart(one, two, targets, _LOOK_INTO):
            raise UsageError(
                f"oneOf in {where} cannot be enforced, because a value may match both "
                f"{i} and {j}: use anyOf"
            )


def _apart(one: Schema, two: Schema, targets: Mapping[Pointer, Schema], depth: int) -> bool:
    if depth == 0:
        return False
    one, two = _resolved(one, targets), _resolved(two, targets)
    values = values_of(one), values_of(two)
    if values[0] is not None and values[1] is not None:
        return not any(value in values[1] for value in values[0])
    types = _types(one), _types(two)
    if types[0] is not None and types[1] is not None and not types[0] & types[1]:
        return True
    if types != ({"object"}, {"object"}):
        return False
    return any(
        _apart(one["properties"][name], two["properties"][name], targets, depth - 1)
        for name in set(one.get("required", ())) & set(two.get("required", ()))
    )


def _resolved(schema: Schema, targets: Mapping[Pointer, Schema]) -> Schema:
    for _ in range(_LOOK_INTO):
        if "$ref" not in schema:
            break
        schema = targets[pointer_of(schema["$ref"], "oneOf")]
    return schema


def _types(schema: Schema) -> set[str] | None:
    """The types that a schema admits, as far as it says so."""
    values = values_of(schema)
    if values is not None:
        return {kind for value in values for kind in BY_TYPE if is_of_type(value, kind)}
    if "type" not in schema:
        return None
    types = set(types_of(schema))
    return types | ({"integer"} if "number" in types else set())
