"""JSON Schema to a GBNF grammar, by the converter that llama-cpp-python carries.

The converter is given what it gets right only: a schema that was checked, with every definition
under a name that no rule of its own can have, and without what it would take for something else.
"""

from __future__ import annotations

import importlib.util
import json
import re
from typing import Any

from gemmachat.errors import EngineError, UsageError
from gemmachat.schema_check import BY_TYPE, NOTES, SchemaCheck, kind_of

# Raw control characters may not stand in a JSON string; the converter's own rule lets them.
_CHARACTER = (
    r'[^"\\\x7F\x00-\x1F] | '
    r'"\\" (["\\bfnrt/] | "u" [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F])'
)


def to_grammar(text: str) -> str:
    """The grammar of all JSON values that a schema allows. Raises `UsageError`."""
    try:
        schema = json.loads(text)
        json.dumps(schema, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        nested = isinstance(error, RecursionError)
        reason = "it is nested too deeply" if nested else str(error).replace("\n", " ")
        raise UsageError(f"the JSON schema is not JSON: {reason:.200}") from None
    try:
        plain = _Plain(SchemaCheck(schema))
        return _convert(plain.of_root(schema), plain.of_references())
    except RecursionError:
        raise UsageError("the JSON schema is nested too deeply") from None


class _Plain:
    """Schemas as the converter is to see them."""

    def __init__(self, checked: SchemaCheck) -> None:
        self._checked = checked
        self._names = {
            reference: f"ref-{number}" for number, reference in enumerate(checked.references)
        }

    def of_root(self, schema: dict[str, Any]) -> dict[str, Any]:
        # Without the choice of one, a property named "" would be called root.
        return {"anyOf": [self._of(schema)]}

    def of_references(self) -> dict[str, dict[str, Any]]:
        """What the converter finds under the references that are left."""
        return {
            f"#/$defs/{name}": self._of(self._checked.references[reference])
            for reference, name in self._names.items()
        }

    def _of(self, schema: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in schema:
            return {"$ref": f"#/$defs/{self._names[schema['$ref']]}"}
        choices = schema.get("anyOf", schema.get("oneOf"))
        if choices is not None:
            return {"anyOf": [self._of(choice) for choice in choices]}
        for keyword in ("const", "enum"):
            if keyword in schema:
                return {keyword: schema[keyword]}
        return self._of_types(schema) if schema.keys() - NOTES else {"type": list(BY_TYPE)}

    def _of_types(self, schema: dict[str, Any]) -> dict[str, Any]:
        kind = kind_of(schema)
        if isinstance(kind, list):
            return {"type": kind}
        plain = {"type": kind, **{key: schema[key] for key in BY_TYPE[kind] if key in schema}}
        for key in ("items", "additionalProperties"):
            if isinstance(plain.get(key), dict):
                plain[key] = self._of(plain[key])
        if "prefixItems" in plain:
            plain["prefixItems"] = [self._of(item) for item in plain["prefixItems"]]
        if "properties" in plain:
            plain["properties"] = {
                name: self._of(value) for name, value in plain["properties"].items()
            }
        return plain


def _convert(schema: dict[str, Any], references: dict[str, dict[str, Any]]) -> str:
    module = _load_converter()
    module.PRIMITIVE_RULES["char"] = module.BuiltinRule(_CHARACTER)
    converter = module.SchemaConverter(
        prop_order={}, allow_fetch=False, dotall=False, raw_pattern=False
    )
    # Its own leaves backslashes as they are, and takes a property "$ref" for a reference.
    converter._format_literal = _literal  # noqa: SLF001
    converter._refs = references  # noqa: SLF001
    try:
        converter.visit(schema, "")
        grammar: str = converter.format_grammar()
    except RecursionError:
        raise
    except Exception as error:  # its asserts and lookups
        raise UsageError(f"the JSON schema cannot be used: {error!r:.200}") from None
    return grammar


def _literal(value: str) -> str:
    """The GBNF literal of a value, which comes as JSON text; characters stand for themselves."""
    text = json.dumps(json.loads(value), ensure_ascii=False)
    return '"' + re.sub(r'["\\]', r"\\\g<0>", text) + '"'


def _load_converter() -> Any:
    """The converter's module alone: importing its package would load llama.cpp and more."""
    package = importlib.util.find_spec("llama_cpp")
    if package is None or not package.submodule_search_locations:
        raise EngineError("llama-cpp-python is not installed: reinstall gemmachat")
    path = f"{package.submodule_search_locations[0]}/llama_grammar.py"
    spec = importlib.util.spec_from_file_location("llama_grammar", path)
    if spec is None or spec.loader is None:
        raise EngineError("llama-cpp-python lacks its schema converter: reinstall gemmachat")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
