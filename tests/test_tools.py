"""Functions become tools: schemas, arguments that fit, and a clear word where they cannot."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from gemmachat.builtin_tools import calculator, current_time
from gemmachat.errors import NotFoundError, UsageError
from gemmachat.tools import ArgumentError, Tool, load_tools


def weather(
    city: str, days: int = 1, unit: Literal["C", "F"] | None = None, tags: list[str] | None = None
) -> dict[str, Any]:
    """Tell the weather
    of a city.

    Args:
        city: Where: a town.
        days (int): How many.

    Returns:
        unit: not an argument.
    """
    return {"city": city, "days": days, "unit": unit, "tags": tags}


def test_schema_comes_from_signature_and_docstring() -> None:
    assert Tool.of(weather).declaration == {
        "name": "weather",
        "description": "Tell the weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Where: a town."},
                "days": {"type": "integer", "description": "How many."},
                "unit": {
                    "type": "string",
                    "enum": ["C", "F"],
                    "nullable": True,
                    "description": "unit",
                },
                "tags": {
                    "type": "array",
                    "items": {"type": "string"},
                    "nullable": True,
                    "description": "tags",
                },
            },
            "required": ["city"],
        },
    }


def test_fields_of_a_docstring_describe_parameters() -> None:
    def f(a: float, b: bool, c: dict[str, int]) -> None:
        """Do it.

        :param a: The first.
        :returns: nothing
        """

    found = Tool.of(f).declaration
    assert found["description"] == "Do it."
    assert found["parameters"]["properties"] == {
        "a": {"type": "number", "description": "The first."},
        "b": {"type": "boolean", "description": "b"},
        "c": {"type": "object", "description": "c"},
    }


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"city": "Bern"}, ("Bern", 1, None, None)),
        ({"city": 8001, "days": 2.0, "unit": "F"}, ("8001", 2, "F", None)),
        ({"city": "Bern", "unit": None, "tags": ["a", 1]}, ("Bern", 1, None, ["a", "1"])),
    ],
)
def test_arguments_fit_what_models_write(given: dict[str, Any], taken: tuple[Any, ...]) -> None:
    assert tuple(Tool.of(weather).call(given).values()) == taken


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "needs the argument city"),
        ({"city": "Bern", "town": 1}, "no argument town"),
        ({"city": None}, "city must be of type string"),
        ({"city": True}, "city must be of type string"),
        ({"city": "Bern", "days": 1.5}, "days must be of type integer"),
        ({"city": "Bern", "days": True}, "days must be of type integer"),
        ({"city": "Bern", "unit": "K"}, "one of C, F"),
        ({"city": "Bern", "tags": [["a"]]}, r"tags\[0\] must be of type string"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        Tool.of(weather).call(given)


def bare(a) -> None: ...  # type: ignore[no-untyped-def]
def many(*a: str) -> None: ...
def positional(a: str, /) -> None: ...
def reserved(required: str) -> None: ...
def strange(a: bytes) -> None: ...
def either(a: int | str) -> None: ...
def deep(a: int) -> None: ...


deep.__annotations__["a"] = "list[" * 30 + "int" + "]" * 30


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (bare, "has no type"),
        (many, "by name"),
        (positional, "by name"),
        (reserved, "another name"),
        (strange, "cannot be told"),
        (either, "cannot be told"),
        (deep, "nested too deeply"),
    ],
)
def test_functions_that_cannot_be_described_are_refused(
    function: Callable[..., Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        Tool.of(function)


def test_a_file_gives_the_functions_that_it_defines(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from math import sqrt\nfrom os.path import join\n"
        "def f(a: int) -> int:\n    'Doubles.'\n    return 2 * a\n"
        "def _g(): ...\nclass C: ...\nh = lambda: 1\nh.__module__ = 'other'\n"
    )
    (tool,) = load_tools(file)
    assert (tool.name, tool.call({"a": 3})) == ("f", 6)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "no function"),
        ("1 / 0", "ZeroDivisionError"),
        ("def (", "SyntaxError"),
        ("exit(3)", "SystemExit"),
        ("def f(a): ...", "no type"),
    ],
)
def test_a_file_without_tools_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    with pytest.raises(UsageError, match=said):
        load_tools(file)


def test_files_that_are_not_there_or_not_python(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"none\.py"):
        load_tools(tmp_path / "none.py")
    (tmp_path / "notes.txt").write_text("def f(): ...")
    with pytest.raises(UsageError, match=r"\.py"):
        load_tools(tmp_path / "notes.txt")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", 7),
        ("-(2 ^ 10) // 3", -342),
        ("2**0.5", 2**0.5),
        ("sqrt(16) + max(1, 2, 3)", 7.0),
        ("cos(2 * pi)", 1.0),
        ("7 % 4 / 2", 1.5),
    ],
)
def test_calculator(expression: str, value: float) -> None:
    assert math.isclose(calculator(expression), value)


@pytest.mark.parametrize(
    "expression",
    [
        "9**9**9",
        "(-8)**0.5",
        "().__class__",
        "__import__('os')",
        "open('x')",
        "'a' * 3",
        "True + 1",
        "round(number=1)",
        "[1][0]",
        "1 if 1 else 2",
        "*".join(["2**9000"] * 3),
        "1" * 1001,
        "",
    ],
)
def test_calculator_does_arithmetic_only(expression: str) -> None:
    with pytest.raises((ValueError, SyntaxError)):
        calculator(expression)


def test_current_time_knows_zones() -> None:
    assert current_time("UTC").endswith(" UTC")
    assert current_time()
    with pytest.raises(Exception, match="Nowhere"):
        current_time("Nowhere/Land")
