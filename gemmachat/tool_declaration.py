"""How a tool is declared to the model: a function's JSON schema in Gemma 4's notation.

Of a schema the notation knows types, descriptions, the values of a text, what an array holds and
the properties of an object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gemmachat.tool_calls import QUOTE, joined, sorted_items, write_value

# The templates take a parameter of such a name for a keyword, and leave it out.
RESERVED = frozenset({"description", "type", "properties", "required", "nullable"})


@dataclass(frozen=True, slots=True)
class DeclarationWriter:
    """Writes declarations as text and marks, with `nullable` where the model's template has it."""

    nullable_first: bool

    def declaration(self, tool: Mapping[str, Any]) -> list[str]:
        """One tool; it has a name, a description and may have parameters, a schema."""
        fields = [["description:", *_quoted(tool["description"])]]
        if tool.get("parameters"):
            fields.append(["parameters:{", *self._parameters(tool["parameters"]), "}"])
        return [f"declaration:{tool['name']}{{", *joined(fields), "}"]

    def _parameters(self, schema: Mapping[str, Any]) -> list[str]:
        fields: list[list[str]] = []
        if schema.get("properties"):
            fields.append(self._properties(schema["properties"]))
        if schema.get("required"):
            fields.append(_required(schema["required"]))
        return joined([*fields, _type(schema["type"])])

    def _properties(self, properties: Mapping[str, Any]) -> list[str]:
        named = [pair for pair in sorted_items(properties) if pair[0] not in RESERVED]
        each = ([f"{name}:{{", *self._schema(schema), "}"] for name, schema in named)
        return ["properties:{", *joined(each), "}"]

    def _schema(self, schema: Mapping[str, Any]) -> list[str]:
        """The inside of one parameter's schema; the type stands last."""
        kind = schema["type"].upper()
        nullable = [["nullable:true"]] if schema.get("nullable") else []
        fields: list[list[str]] = []
        if schema.get("description"):
            fields.append(["description:", *_quoted(schema["description"])])
        if self.nullable_first:
            fields += nullable
        if kind == "STRING" and schema.get("enum"):
            fields.append(["enum:", *write_value(schema["enum"])])
        if kind == "ARRAY" and schema.get("items"):
            fields.append(["items:{", *self._items(schema["items"]), "}"])
        if not self.nullable_first:
            fields += nullable
        if kind == "OBJECT":
            fields.append(self._properties(schema.get("properties", {})))
            if schema.get("required"):
                fields.append(_required(schema["required"]))
        return joined([*fields, _type(kind)])

    def _items(self, schema: Mapping[str, Any]) -> list[str]:
        """What an array holds, keyword by keyword in the order of their names."""
        fields: list[list[str]] = []
        for key, value in sorted_items(schema):
            if key == "properties":
                fields.append(self._properties(value))
            elif key == "required":
                fields.append(_required(value))
            elif key == "type":
                fields.append(_type(value))
            elif value is not None:
                fields.append([f"{key}:", *write_value(value, quotes_keys=True)])
        return joined(fields)


def _required(names: Sequence[str]) -> list[str]:
    return ["required:[", *joined(_quoted(name) for name in names), "]"]


def _type(name: str) -> list[str]:
    return ["type:", *_quoted(name.upper())]


def _quoted(text: str) -> list[str]:
    return [QUOTE, text, QUOTE]
