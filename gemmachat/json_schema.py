"""JSON Schema (draft 2020-12) to a grammar in GBNF, llama.cpp's notation.

Texts are JSON (RFC 8259) on one line. What schemas say is checked first; here every part becomes a
rule, and equal parts become one.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from gemmachat.errors import UsageError
from gemmachat.integer_range import integers_between
from gemmachat.schema_check import SchemaCheck
from gemmachat.schema_parts import (
    BOUNDS,
    NOTES,
    Pointer,
    Schema,
    bounds_of,
    by_type,
    choices_of,
    pointer_of,
    values_of,
)

MAX_BYTES = 1 << 20
# An escaped surrogate comes with its other half: the two are one character. Numbers are short
# enough to be finite in double precision.
_JSON = r"""
value ::= object | array | string | number | boolean | null
object ::= "{" space (string ":" space value ("," space string ":" space value)* space)? "}"
array ::= "[" space (value ("," space value)* space)? "]"
string ::= "\"" char* "\""
char ::= [^"\\\x00-\x1F\x7F] | "\\" (["\\/bfnrt] | "u" (basic | high "\\u" low))
basic ::= ([0-9a-cA-CefEF] hex | [dD] [0-7]) hex hex
high ::= [dD] [89abAB] hex hex
low ::= [dD] [c-fC-F] hex hex
hex ::= [0-9a-fA-F]
number ::= integer ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?
integer ::= "-"? ("0" | [1-9] [0-9]{0,15})
boolean ::= "true" | "false"
null ::= "null"
space ::= " "?
date ::= [0-9]{4} "-" ("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | [12] [0-9] | "3" [01])
clock ::= ([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9]
time ::= clock ":" [0-5] [0-9] ("." [0-9]{3})? ("Z" | [-+] clock)
uuid ::= hex{8} "-" hex{4} "-" hex{4} "-" hex{4} "-" hex{12}
"""
_FORMATS = {"date": "date", "time": "time", "date-time": 'date "T" time', "uuid": "uuid"}


def to_grammar(text: str) -> str:
    """The grammar of the JSON values that a schema allows, at most `MAX_BYTES` of it.

    Raises `UsageError` when the text is no schema, or one that cannot be enforced.
    """
    try:
        schema = json.loads(text, object_pairs_hook=_distinct)
        json.dumps(schema, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        nested = isinstance(error, RecursionError)
        reason = "it is nested too deeply" if nested else str(error).replace("\n", " ")
        raise UsageError(f"the JSON schema is not JSON: {reason:.200}") from None
    return _Rules(SchemaCheck(schema).targets).grammar(schema)


def any_object() -> str:
    """The grammar of any JSON object."""
    return to_grammar('{"type": "object"}')


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"an object has the name {name!r:.40} twice")
    return found


class _Rules:
    """The rules of a schema, by their texts."""

    def __init__(self, targets: dict[Pointer, Schema]) -> None:
        self._targets = targets
        self._references = {pointer: f"ref{number}" for number, pointer in enumerate(targets)}
        self._names: dict[str, str] = {}
        self._size = len(_JSON)

    def grammar(self, schema: Schema) -> str:
        rules = {"root": self._of(schema)}
        for pointer, name in self._references.items():
            rules[name] = self._of(self._targets[pointer])
        rules.update((name, text) for text, name in self._names.items())
        return "\n".join(f"{name} ::= {text}" for name, text in rules.items()) + _JSON

    def _rule(self, text: str) -> str:
        """The name of the rule with a text."""
        if text.isalnum():
            return text
        if text not in self._names:
            self._names[text] = f"r{len(self._names)}"
            self._size += len(text.encode()) + 16
            if self._size > MAX_BYTES:
                raise UsageError(
                    "the JSON schema is too complex: its grammar is larger than "
                    f"{MAX_BYTES // 1024} KiB"
                )
        return self._names[text]

    def _of(self, schema: Schema) -> str:
        """The name of the rule of a schema."""
        if "$ref" in schema:
            return self._references[pointer_of(schema["$ref"], "the schema")]
        choices, values = choices_of(schema), values_of(schema)
        if choices is not None:
            return self._any_of(map(self._of, choices))
        if values is not None:
            return self._any_of(map(_literal, values))
        if not schema.keys() - NOTES:
            return "value"
        return self._any_of(map(self._of_type, by_type(schema)))

    def _any_of(self, texts: Iterable[str]) -> str:
        return self._rule(" | ".join(dict.fromkeys(texts)))

    def _of_type(self, schema: Schema) -> str:
        if schema["type"] == "object":
            return self._rule(self._object(schema))
        if schema["type"] == "array":
            return self._rule(self._array(schema))
        if schema["type"] == "string":
            return self._rule(_string(schema))
        if schema.keys() & set(BOUNDS):
            return self._rule(integers_between(*bounds_of(schema)))
        return str(schema["type"])

    def _object(self, schema: Schema) -> str:
        additional = schema.get("additionalProperties", "properties" not in schema)
        if schema.get("properties"):
            members = self._members(schema["properties"], set(schema.get("required", ())))
        elif additional is True:
            return "object"
        elif additional is False:
            members = ""
        else:
            member = f'string ":" space {self._of(additional)}'
            members = f'({member} ("," space {member})* space)?'
        return f'"{{" space {members} "}}"'

    def _members(self, properties: dict[str, Schema], required: set[str]) -> str:
        """Members in the order of the schema, with or without those that are not required."""
        members = [
            self._rule(f'{_literal(name)} ":" space {self._of(schema)}')
            for name, schema in properties.items()
        ]
        later = [
            f'"," space {member}' if name in required else f'("," space {member})?'
            for name, member in zip(properties, members, strict=True)
        ]
        # Whichever of the leading optional members is written first has no comma before it.
        n_leading = next((i for i, name in enumerate(properties) if name in required), len(members))
        after = " ".join(later[n_leading + 1 :])
        firsts = [f"{member} {after}" for member in members[n_leading : n_leading + 1]]
        for i in reversed(range(n_leading)):
            if i + 1 < len(members):
                after = self._rule(f"{later[i + 1]} {after}")
            firsts.append(f"{members[i]} {after}")
        return f"({' | '.join(firsts)}) space" if required else f"(({' | '.join(firsts)}) space)?"

    def _array(self, schema: Schema) -> str:
        if "prefixItems" in schema:
            items = ' "," space '.join(map(self._of, schema["prefixItems"]))
            return f'"[" space {items} space "]"'
        if "items" not in schema:
            return "array"
        item = self._of(schema["items"])
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        if most == 0:
            return '"[" space "]"'
        more = _times(f'("," space {item})', max(0, least - 1), None if most is None else most - 1)
        items = f"{item} {more} space"
        return f'"[" space {items} "]"' if least else f'"[" space ({items})? "]"'


def _string(schema: Schema) -> str:
    if "format" in schema:
        return rf'"\"" {_FORMATS[schema["format"]]} "\""'
    if not schema.keys() & {"minLength", "maxLength"}:
        return "string"
    return rf'"\"" {_times("char", schema.get("minLength", 0), schema.get("maxLength"))} "\""'


def _times(text: str, least: int, most: int | None) -> str:
    if most == 0:
        return ""
    return f"{text}{{{least},{'' if most is None else most}}}"


def _literal(value: Any) -> str:
    """The GBNF literal of a value's JSON text; characters beyond ASCII stand for themselves."""
    return '"' + re.sub(r'["\\]', r"\\\g<0>", json.dumps(value, ensure_ascii=False)) + '"'
