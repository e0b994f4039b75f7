"""How a tool is declared to the model: a function's JSON schema in Gemma 4's notation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gemmachat.tool_calls import QUOTE, sorted_items, write_value

# A parameter of such a name would be taken for a keyword of the schema, as the templates do.
RESERVED = frozenset({"description", "type", "properties", "required", "nullable"})


def write_declaration(tool: Mapping[str, Any]) -> list[str]:
    """A declaration as text and marks; `tool` has a name, a description and parameters."""
    parts = [f"declaration:{tool['name']}{{description:", *_quoted(tool["description"])]
    schema = tool.get("parameters")
    if schema:
        parts.append(",parameters:{")
        if schema.get("properties"):
            parts += ["properties:{", *_properties(schema["properties"]), "},"]
        if schema.get("required"):
            parts += ["required:[", *_names(schema["required"]), "],"]
        parts += ["type:", *_quoted(schema["type"].upper()), "}"]
    return [*parts, "}"]


def _properties(properties: Mapping[str, Any]) -> list[str]:
    parts: list[str] = []
    for name, schema in sorted_items(properties):
        if name not in RESERVED:
            parts += ["," if parts else "", f"{name}:{{", *_schema(schema), "}"]
    return parts


def _schema(schema: Mapping[str, Any]) -> list[str]:
    """The inside of one parameter's schema; the type stands last."""
    kind = schema["type"].upper()
    fields: list[list[str]] = []
    if schema.get("description"):
        fields.append(["description:", *_quoted(schema["description"])])
    if kind == "STRING" and schema.get("enum"):
        fields.append(["enum:", *write_value(schema["enum"])])
    if kind == "ARRAY" and schema.get("items"):
        fields.append(["items:{", *_items(schema["items"]), "}"])
    if schema.get("nullable"):
        fields.append(["nullable:true"])
    if kind == "OBJECT":
        fields.append(["properties:{", *_properties(schema.get("properties", {})), "}"])
        if schema.get("required"):
            fields.append(["required:[", *_names(schema["required"]), "]"])
    fields.append(["type:", *_quoted(kind)])
    return [part for i, field in enumerate(fields) for part in ("," if i else "", *field)]


def _items(schema: Mapping[str, Any]) -> list[str]:
    """What an array holds, keyword by keyword in the order of their names."""
    fields: list[list[str]] = []
    for key, value in sorted_items(schema):
        if key == "properties":
            fields.append(["properties:{", *_properties(value), "}"])
        elif key == "required":
            fields.append(["required:[", *_names(value), "]"])
        elif key == "type":
            fields.append(["type:", *_quoted(value.upper())])
        elif value is not None:
            fields.append([f"{key}:", *_literal(value)])
    return [part for i, field in enumerate(fields) for part in ("," if i else "", *field)]


def _literal(value: Any) -> list[str]:
    """A value inside an array's schema, where the keys of objects are quoted too."""
    if isinstance(value, Mapping):
        pairs = [[*_quoted(key), ":", *_literal(item)] for key, item in sorted_items(value)]
        return ["{", *(p for i, pair in enumerate(pairs) for p in ("," if i else "", *pair)), "}"]
    if isinstance(value, Sequence) and not isinstance(value, str):
        items = [_literal(item) for item in value]
        return ["[", *(p for i, item in enumerate(items) for p in ("," if i else "", *item)), "]"]
    return write_value(value)


def _names(names: Sequence[str]) -> list[str]:
    return [part for i, name in enumerate(names) for part in ("," if i else "", *_quoted(name))]


def _quoted(text: str) -> list[str]:
    return [QUOTE, text, QUOTE]
