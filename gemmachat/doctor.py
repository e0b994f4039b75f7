"""What gemmachat runs on, and whether the installation is sound."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gemmachat import native, settings
from gemmachat.catalog import ResolvedModel
from gemmachat.errors import EngineError, GemmachatError, NotFoundError
from gemmachat.gguf_info import check_pair, read_header
from gemmachat.levers import describe_levers
from gemmachat.processors import default_threads

_LIBRARY = re.compile(r"(lib(?:llama|ggml|gemmachat)[a-z0-9-]*)\.(?:so|dylib)")
_MAPS = Path("/proc/self/maps")
_MEMORY = Path("/proc/meminfo")


@dataclass(slots=True)
class Report:
    """Facts by name, in the order in which they are shown, and what is wrong with them."""

    facts: dict[str, object] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    exit_code: int = 0
    """That of the first problem."""

    def lines(self) -> list[str]:
        """The facts for a reader."""
        return [f"{name.replace('_', ' ')}: {_shown(fact)}" for name, fact in self.facts.items()]

    def as_dict(self) -> dict[str, object]:
        """The facts for a program, with the problems."""
        return {**self.facts, "problems": self.problems}

    def check(self, action: Callable[[], dict[str, object]]) -> None:
        """Add the facts that `action` finds, or the problem that it meets."""
        try:
            self.facts.update(action())
        except GemmachatError as error:
            self.exit_code = self.exit_code or error.exit_code
            if str(error) not in self.problems:
                self.problems.append(str(error))


def examine(model: ResolvedModel) -> Report:
    """Look at everything that a chat with this model would need."""
    report = Report()
    report.facts.update(
        gemmachat=_version("gemmachat"),
        python=platform.python_version(),
        platform=platform.platform(),
        llama_cpp_python=_version("llama-cpp-python"),
    )
    report.check(native.library_info)
    report.check(_mapped_libraries)
    report.facts["models_folder"] = _models_folder()
    report.facts.update(
        processors=os.cpu_count(),
        default_threads=default_threads(),
        memory_total_bytes=_memory("MemTotal"),
        memory_available_bytes=_memory("MemAvailable"),
    )
    report.check(lambda: _pair(model))
    return report


def copies(maps: Iterable[str]) -> dict[str, list[str]]:
    """Return the files behind each llama.cpp and gemmachat library in lines of /proc/PID/maps.

    Two files of one library, even of one content, are two copies with their own globals.
    """
    found: dict[str, dict[tuple[str, str], str]] = {}
    for line in maps:
        _, _, _, device, inode, *path = line.split(maxsplit=5)
        match = _LIBRARY.match(Path(path[0].strip()).name) if path else None
        if match:
            found.setdefault(match[1], {})[device, inode] = path[0].strip()
    return {name: sorted(files.values()) for name, files in sorted(found.items())}


def _mapped_libraries() -> dict[str, object]:
    if not _MAPS.exists():
        return {}
    libraries = copies(_MAPS.read_text(encoding="utf-8", errors="replace").splitlines())
    if twice := [name for name, files in libraries.items() if len(files) > 1]:
        files = " and ".join(libraries[twice[0]])
        raise GemmachatError(f"{twice[0]} is loaded more than once, from {files}")
    return {"libraries": {name: files[0] for name, files in libraries.items()}}


def _pair(model: ResolvedModel) -> dict[str, object]:
    drafter = read_header(model.drafter) if model.drafter else None
    check_pair(read_header(model.target), drafter)
    files = [str(path) for path in (model.target, model.drafter) if path is not None]
    return {"model": files, **describe_levers(model)}


def _models_folder() -> str | None:
    try:
        return str(settings.models_folder())
    except NotFoundError:  # a user without a home
        return None


def _version(package: str) -> str | None:
    try:
        return native.installed_version(package)
    except EngineError:
        return None


def _memory(key: str) -> int | None:
    if not _MEMORY.exists():
        return None
    match = re.search(rf"^{key}:\s+(\d+) kB$", _MEMORY.read_text(encoding="ascii"), re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def _shown(fact: object) -> str:
    if isinstance(fact, dict):
        return ", ".join(str(value) for value in fact.values())
    if isinstance(fact, list):
        return ", ".join(map(str, fact))
    return "unknown" if fact is None else str(fact)
