"""Whether the definitions of a schema that refer to each other come to an end."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

from gemmachat.errors import UsageError
from gemmachat.schema_parts import (
    NOTES,
    Pointer,
    Schema,
    by_type,
    choices_of,
    name_of,
    pointer_of,
    values_of,
)


def check_recursion(targets: Mapping[Pointer, Schema]) -> None:
    """Raise `UsageError` where a schema stands for itself or has no finite value.

    `targets` are the checked schemas that are referred to.
    """
    try:
        TopologicalSorter({each: _heads(schema) for each, schema in targets.items()}).prepare()
    except CycleError as error:
        raise UsageError(
            f"{name_of(error.args[1][0])} refers to itself with nothing in between"
        ) from None
    finite: set[Pointer] = set()
    grown = True
    while grown:
        grown = False
        # What is referred to last is often what the others need.
        for pointer in reversed(list(targets)):
            if pointer not in finite and _is_finite(targets[pointer], finite):
                finite.add(pointer)
                grown = True
    for pointer in targets.keys() - finite:
        raise UsageError(
            f"{name_of(pointer)} has no finite value, because it always holds itself again: "
            "make that part optional"
        )


def _heads(schema: Schema) -> set[Pointer]:
    """What a schema may stand for as a whole."""
    if "$ref" in schema:
        return {pointer_of(schema["$ref"], "the schema")}
    return {head for choice in choices_of(schema) or () for head in _heads(choice)}


def _is_finite(schema: Schema, finite: set[Pointer]) -> bool:
    """Whether some value of a schema is finite, going by the references known to have one."""
    if "$ref" in schema:
        return pointer_of(schema["$ref"], "the schema") in finite
    choices = choices_of(schema)
    if choices is not None:
        return any(_is_finite(choice, finite) for choice in choices)
    if values_of(schema) is not None or not schema.keys() - NOTES:
        return True
    return any(all(_is_finite(part, finite) for part in _needed(each)) for each in by_type(schema))


def _needed(schema: Schema) -> list[Schema]:
    """The parts that every value of a schema of one type has."""
    if "prefixItems" in schema:
        return list(schema["prefixItems"])
    if schema.get("minItems", 0) > 0:
        return [schema["items"]]
    return [schema["properties"][name] for name in schema.get("required", ())]
