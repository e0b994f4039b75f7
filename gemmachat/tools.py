"""Python functions as tools: what the model is told of them, and how its arguments reach them.

The schema comes from a function's signature and docstring. Known types are str, int, float, bool,
list, dict, Literal of texts, and any of them or None.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from gemmachat.errors import NotFoundError, UsageError
from gemmachat.tool_declaration import RESERVED

_SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object"}
_TYPES: dict[str, type] = {
    **{schema: python for python, schema in _SIMPLE.items()},
    "array": list,
}
# In a docstring: "city: Where?", "city (str): Where?" or ":param city: Where?".
_ARGUMENT = re.compile(r"^\s*(?::param\s+)?(\w+)\s*(?:\([^)]*\))?:\s*(\S.*)$")
_MAX_DEPTH = 20  # of lists in lists
_SECTION = re.compile(r"^\s*(\w[\w ]*):\s*$")
_PARAM_FIELD = re.compile(r"^\s*:(param|return|raises|rtype|type)\b")


class ArgumentError(ValueError):
    """Arguments that a tool does not take; `str()` says why, for the model."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call.

    `declaration` holds its name, description and the JSON schema of its parameters, as OpenAI's
    interface has them.
    """

    function: Callable[..., Any]
    declaration: dict[str, Any]

    @property
    def name(self) -> str:
        """What the model calls it."""
        return str(self.declaration["name"])

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Tool:
        """Describe a function. Raises `UsageError` where its signature cannot be described."""
        name = function.__name__
        try:
            hints = get_type_hints(function)
        except Exception as error:  # whatever a name in an annotation does
            raise UsageError(f"the types of the tool {name} cannot be read: {error}") from None
        description, told = _read_docstring(function)
        properties: dict[str, Any] = {}
        required: list[str] = []
        for parameter in inspect.signature(function).parameters.values():
            where = f"the parameter {parameter.name} of the tool {name}"
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise UsageError(f"{where} cannot be given by name")
            if parameter.name in RESERVED:
                raise UsageError(f"{where} needs another name: the model would not be told of it")
            if parameter.name not in hints:
                raise UsageError(f"{where} has no type: write it as {parameter.name}: str")
            schema = _schema(hints[parameter.name], where)
            # Some templates break on a parameter without a description.
            schema["description"] = told.get(parameter.name, parameter.name.replace("_", " "))
            properties[parameter.name] = schema
            if parameter.default is parameter.empty:
                required.append(parameter.name)
        parameters = {"type": "object", "properties": properties, "required": required}
        return cls(function, {"name": name, "description": description, "parameters": parameters})

    def call(self, arguments: dict[str, Any]) -> Any:
        """Call the function. Raises `ArgumentError`, and whatever the function raises."""
        parameters = self.declaration["parameters"]
        unknown = [name for name in arguments if name not in parameters["properties"]]
        if unknown:
            raise ArgumentError(f"{self.name} has no argument {unknown[0]}")
        for name in parameters["required"]:
            if name not in arguments:
                raise ArgumentError(f"{self.name} needs the argument {name}")
        return self.function(
            **{
                name: _fit(value, parameters["properties"][name], name)
                for name, value in arguments.items()
            }
        )


def load_tools(path: Path) -> list[Tool]:
    """Run a Python file; its tools are the functions that it defines, but for _private ones.

    Raises `NotFoundError` and `UsageError`, the latter too for whatever the file raises.
    """
    if not path.is_file():
        raise NotFoundError(f"there is no file {path} with tools")
    spec = importlib.util.spec_from_file_location("gemmachat_user_tools", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # annotations and dataclasses look it up
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UsageError(f"{path} fails: {type(error).__name__}: {error}") from None
    tools = describe(
        member
        for name, member in vars(module).items()
        if inspect.isfunction(member) and member.__module__ == spec.name and name[0] != "_"
    )
    if not tools:
        raise UsageError(f"{path} defines no function that could be a tool")
    return tools


def describe(functions: Iterable[Callable[..., Any]]) -> list[Tool]:
    """A tool for every function. Raises `UsageError` where one cannot be described."""
    return [Tool.of(function) for function in functions]


def _schema(hint: Any, where: str, depth: int = 0) -> dict[str, Any]:
    if depth > _MAX_DEPTH:
        raise UsageError(f"{where} has a type that is nested too deeply")
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (typing.Union, types.UnionType):
        some = [each for each in inner if each is not types.NoneType]
        if len(some) == 1 and len(inner) == 2:
            return {**_schema(some[0], where, depth + 1), "nullable": True}
    elif origin is Literal and all(isinstance(value, str) for value in inner):
        return {"type": "string", "enum": list(inner)}
    elif hint is list:
        return {"type": "array"}
    elif origin is list:
        return {"type": "array", "items": _schema(inner[0], where, depth + 1)}
    elif (origin or hint) in _SIMPLE:
        return {"type": _SIMPLE[origin or hint]}
    raise UsageError(
        f"{where} has a type that the model cannot be told of: use str, int, float, bool, list, "
        "dict or Literal"
    )


def _fit(value: Any, schema: dict[str, Any], name: str) -> Any:
    """The value as the function wants it; models write 3.0 for 3, and 8001 for "8001"."""
    kind = schema["type"]
    if value is None and schema.get("nullable"):
        return None
    fitted = _converted(value, kind)
    fits = type(fitted) is _TYPES[kind]
    if not fits:
        raise ArgumentError(f"the argument {name} must be of type {kind}")
    if schema.get("enum") and fitted not in schema["enum"]:
        raise ArgumentError(f"the argument {name} must be one of {', '.join(schema['enum'])}")
    if kind == "array" and "items" in schema:
        return [_fit(item, schema["items"], f"{name}[{i}]") for i, item in enumerate(fitted)]
    return fitted


def _converted(value: Any, kind: str) -> Any:
    if type(value) in (int, float):
        if kind == "string":
            return str(value)
        if kind == "number":
            return float(value)
        if kind == "integer" and value == value // 1:
            return int(value)
    return value


def _read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The text before any section, and what is said of each parameter."""
    description: list[str] = []
    told: dict[str, str] = {}
    section = None
    for line in (inspect.getdoc(function) or "").splitlines():
        head, field = _SECTION.match(line), _PARAM_FIELD.match(line)
        if head is not None:
            section = head[1].lower()
        elif field is not None:
            section = "args" if field[1] == "param" else field[1]
        argument = _ARGUMENT.match(line)
        if section is None:
            description.append(line)
        elif section in ("args", "arguments", "parameters") and argument is not None:
            told.setdefault(argument[1], argument[2].strip())
    return " ".join(" ".join(description).split()), told
