"""Long answers and long texts in windows of any size: every line once, and memory stays flat."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pseudo_terminal import PseudoTerminal, pseudo_terminal, scripted

TOKENS = 20_000  # of the scripted engine: bytes
LINES = TOKENS // 20
PROSE = "".join(f"Line {number:06} is it.\n\n" for number in range(LINES))
ITEMS = "".join(f"- item {number:06} **x**\n" for number in range(LINES))


def held(terminal: PseudoTerminal) -> int:
    """The memory that the program holds, in bytes."""
    status = Path(f"/proc/{terminal.child.pid}/status")
    found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text())
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.parametrize(("columns", "lines", "answer"), [(80, 24, PROSE), (20, 5, ITEMS)])
def test_answer_of_20000_tokens_is_printed_once(columns: int, lines: int, answer: str) -> None:
    script = scripted("warm", answer)
    with pseudo_terminal(
        "run", "tiny", "--ctx", "100000", script=script, columns=columns, lines=lines
    ) as terminal:
        terminal.wait_for_prompt()
        terminal.ask("hi")
        before = held(terminal)
        terminal.ask("long")
        after = held(terminal)
        assert re.findall(r"(?:Line|item) (\d+)", terminal.text) == [
            f"{n:06}" for n in range(LINES)
        ]
        # An answer is kept as text and tokens; what is drawn of it is not.
        assert after - before < 20_000_000
        assert terminal.leave() == 0


def test_tiny_window_has_a_prompt_that_can_be_typed_in() -> None:
    with pseudo_terminal("run", "tiny", script=scripted("ok"), columns=20, lines=5) as terminal:
        terminal.wait_for_prompt()
        terminal.send("several words that need more lines than there are " * 3)
        terminal.wait_for("there are")
        terminal.ask("")
        terminal.send("/st")
        terminal.wait_for("/st")
        terminal.send("ats\r")
        terminal.wait(lambda shown: "target pass" in shown.text.replace("\n", ""))
        terminal.wait_for_prompt()
        assert terminal.leave() == 0
