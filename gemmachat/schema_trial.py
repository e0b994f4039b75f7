"""A JSON schema to its grammar, in a process of its own with bounds on time and memory.

A small schema can ask for much: choices are compared pair by pair, and definitions refer to each
other. The process, `python -m gemmachat.schema_trial`, reads the schema from standard input and
writes one JSON object: the grammar, or why it is refused. It loads no model and nothing native.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

from gemmachat.errors import EngineError, GemmachatError, UsageError
from gemmachat.json_schema import to_grammar

if sys.platform != "win32":  # there, only the parent's patience bounds the process
    import resource

CPU_SECONDS = 2
MEMORY_BYTES = 512 << 20
_PATIENCE_S = 10.0
# Isolated and without site: neither the current folder nor the environment adds modules, and the
# standard library comes before everything that lies beside the package.
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); from gemmachat.schema_trial import main; main()"
)


def convert_apart(text: str) -> str:
    """The grammar of a JSON schema.

    Raises `UsageError` when it is malformed, cannot be enforced or asks too much, `EngineError`
    when the process cannot do its work.
    """
    home = str(Path(__file__).resolve().parents[1])
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, home],
            input=text.encode(),
            capture_output=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except UnicodeEncodeError:
        raise UsageError("the JSON schema is not valid Unicode text") from None
    except subprocess.TimeoutExpired:
        raise UsageError("the JSON schema is too complex: converting it takes too long") from None
    except OSError as error:
        raise EngineError(f"the JSON schema cannot be converted: {error}") from None
    if done.returncode < 0:
        raise UsageError(
            "the JSON schema is too complex: converting it takes too much time or memory"
        )
    if done.returncode > 0:
        raise EngineError(
            f"the JSON schema cannot be converted: its process ended with {done.returncode}"
        )
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise EngineError("the JSON schema cannot be converted: its process said nothing") from None
    if "refused" in answer:
        raise UsageError(answer["refused"])
    return str(answer["grammar"])


def main() -> None:
    """Convert the schema on standard input."""
    data = sys.stdin.buffer.read()
    _limit_resources()
    try:
        answer = {"grammar": to_grammar(data.decode())}
    except GemmachatError as error:
        answer = {"refused": str(error)}
    except UnicodeDecodeError:
        answer = {"refused": "the JSON schema is not UTF-8 text"}
    except MemoryError:
        answer = {"refused": "the JSON schema is too complex: converting it takes too much memory"}
    print(json.dumps(answer))  # noqa: T201 - the result of the process


def _limit_resources() -> None:
    """Bound what the process may use beyond what it has used so far, as far as the system can."""
    if sys.platform == "win32":
        return
    usage = resource.getrusage(resource.RUSAGE_SELF)
    _limit(resource.RLIMIT_CPU, math.ceil(usage.ru_utime + usage.ru_stime) + CPU_SECONDS)
    _limit(resource.RLIMIT_CORE, 0)
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return  # not Linux; macOS does not keep this limit
    _limit(resource.RLIMIT_AS, pages * resource.getpagesize() + MEMORY_BYTES)


def _limit(kind: int, amount: int) -> None:
    soft, hard = resource.getrlimit(kind)
    limits = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    try:
        resource.setrlimit(kind, (min([amount, *limits]), hard))
    except (OSError, ValueError):
        return  # not every system lets a process lower every limit


if __name__ == "__main__":
    main()
