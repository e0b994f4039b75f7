"""The process that tries a grammar: `python -m gemmachat.grammar_trial grammar|schema`.

Reads the text from standard input and writes one JSON object: the grammar, or why it is refused.
The vocabulary is the embedded pair's, which holds every byte: any grammar can be followed with it.
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
import tempfile

from gemmachat.bridge import EngineHandle
from gemmachat.catalog import DEFAULT_MODEL, resolve
from gemmachat.errors import GemmachatError, UsageError
from gemmachat.json_schema import to_grammar

CPU_SECONDS = 1  # the start-up takes some of it
MEMORY_BYTES = 2 << 30
WALKS, TOKENS = 4, 100
# llama.cpp takes a larger count for no limit at all.
MAX_REPEATS = 2000
_TEXT = re.compile(r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|#[^\r\n]*')  # where {9999} is no count


def main() -> None:
    """Try the grammar on standard input."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    text = sys.stdin.buffer.read().decode()
    try:
        grammar = to_grammar(text) if sys.argv[1] == "schema" else text
        _check_repetitions(grammar)
        _follow(grammar)
    except GemmachatError as error:
        print(json.dumps({"refused": str(error)}))  # noqa: T201 - the result of the process
    else:
        print(json.dumps({"grammar": grammar}))  # noqa: T201


def _check_repetitions(grammar: str) -> None:
    for counts in re.findall(r"\{\s*(\d+)\s*(?:,\s*(\d*)\s*)?\}", _TEXT.sub("_", grammar)):
        for count in filter(None, counts):
            if len(count) > 4 or int(count) > MAX_REPEATS:
                raise UsageError(
                    f"the grammar repeats something up to {count[:20]} times; "
                    f"at most {MAX_REPEATS} can be enforced"
                )


def _follow(grammar: str) -> None:
    """Raise `UsageError` where llama.cpp cannot read the grammar or gets stuck in it."""
    model = resolve(DEFAULT_MODEL)
    engine = EngineHandle(model.target, None)
    # llama.cpp prints why it cannot read a grammar, and nothing else says it.
    with tempfile.TemporaryFile() as printed:
        stderr = os.dup(2)
        os.dup2(printed.fileno(), 2)
        try:
            for seed in range(WALKS):
                engine.walk_grammar(grammar, seed, TOKENS)
        except UsageError as error:
            printed.seek(0)
            raise UsageError(_with_reason(str(error), printed.read(4096))) from None
        finally:
            os.dup2(stderr, 2)


def _with_reason(sentence: str, printed: bytes) -> str:
    found = re.search(r"error parsing grammar: ([^\n]+)", printed.decode("utf-8", "replace"))
    if found is None:
        return sentence
    reason = found.group(1)[:120]
    return f"{sentence}: {reason}" + ("its end" if reason.endswith(" at ") else "")


if __name__ == "__main__":
    main()
