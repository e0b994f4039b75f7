"""Grammars that an answer must follow: from files, checked before the model's process sees them.

llama.cpp's grammar engine has no limits of its own: a hostile grammar can keep it busy for ever,
exhaust memory or end the process. So every grammar is first tried in a process of its own, with
bounds on time and memory: it is converted, read, and followed at random for some text.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from gemmachat.errors import EngineError, NotFoundError, UsageError

JSON_OBJECT = '{"type": "object"}'
MAX_BYTES = 256 * 1024
_PATIENCE_S = 20.0  # far above the processor time that the trial may take


def read_grammar(path: Path) -> str:
    """The GBNF grammar in a file. Raises `UsageError` or `NotFoundError`."""
    return try_grammar("grammar", _read(path, "grammar"))


def read_schema(path: Path) -> str:
    """The grammar of the JSON schema in a file. Raises `UsageError` or `NotFoundError`."""
    return try_grammar("schema", _read(path, "JSON schema"))


def any_json_object() -> str:
    """The grammar of any JSON object."""
    return try_grammar("schema", JSON_OBJECT)


def try_grammar(kind: str, text: str) -> str:
    """The grammar that a text of the kind, "grammar" or "schema", stands for.

    Raises `UsageError` when it is malformed, cannot be enforced or asks too much.
    """
    command = [sys.executable, "-m", "gemmachat.grammar_trial", kind]
    try:
        done = subprocess.run(
            command,
            # Python looks for modules in the folder it starts in, where anything may lie.
            cwd=Path(__file__).resolve().parents[1],
            input=text.encode(),
            capture_output=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UsageError(f"the {kind} is too complex: trying it takes too long") from None
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = {}
    if isinstance(answer, dict) and isinstance(answer.get("grammar"), str):
        return str(answer["grammar"])
    if isinstance(answer, dict) and isinstance(answer.get("refused"), str):
        raise UsageError(str(answer["refused"]))
    if done.returncode > 0:
        raise EngineError(f"the {kind} cannot be tried: its process ended with {done.returncode}")
    raise UsageError(f"the {kind} is too complex: trying it takes too much time or memory")


def _read(path: Path, what: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise NotFoundError(f"the {what} file {path} does not exist") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"the {what} file {path} cannot be read: {reason}") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"the {what} file {path} is larger than {MAX_BYTES // 1024} KiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"the {what} file {path} is not UTF-8 text") from None
    if "\0" in text or not text.strip():
        raise UsageError(f"the {what} file {path} is empty or holds a NUL character")
    return text
