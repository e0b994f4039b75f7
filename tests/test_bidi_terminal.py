"""Right-to-left text, typed, pasted and answered: lines stay whole, overrides are seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from pseudo_terminal import PseudoTerminal, pseudo_terminal, scripted

HEBREW = "שלום עולם"
ARABIC = "مرحبا بالعالم 123 abc"
OVERRIDES = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
VISIBLE = "".join(f"<U+{ord(char):04X}>" for char in OVERRIDES)


def raw_overrides(terminal: PseudoTerminal) -> list[str]:
    return [f"{ord(char):04X}" for char in OVERRIDES if char.encode() in terminal.raw]


def test_typed_text_is_sent_as_it_was_typed(tmp_path: Path) -> None:
    with pseudo_terminal("run", "tiny", script=scripted(ARABIC)) as terminal:
        terminal.wait_for_prompt()
        terminal.send(HEBREW)
        terminal.wait_for(f"> {HEBREW}")
        terminal.wait(lambda shown: shown.cursor[0] == 2 + len(HEBREW))
        terminal.send("\x1b[D" * 4 + "!")  # Left
        terminal.wait_for(f"> {HEBREW[:-4]}!{HEBREW[-4:]}")
        terminal.send("\x05" + "\x7f" * 4)  # to the end, and back
        terminal.wait(lambda shown: f"> {HEBREW[:-4]}!" in shown.screen)
        terminal.send(f"\x1b[200~{ARABIC}\nx\x1b[201~")
        terminal.wait_for(f"> {HEBREW[:-4]}!{ARABIC}")
        terminal.ask("")
        assert ARABIC in terminal.screen
        terminal.ask(f"/export {tmp_path}/all.md")
        assert terminal.leave() == 0
    assert f"{HEBREW[:-4]}!{ARABIC}\nx" in (tmp_path / "all.md").read_text()


def test_long_line_wraps_and_is_deleted_without_a_trace() -> None:
    with pseudo_terminal("run", "tiny", script=scripted("ok"), columns=20) as terminal:
        terminal.wait_for_prompt()
        terminal.send(f"{HEBREW} " * 6)
        terminal.wait(lambda shown: "".join(shown.screen).count("ם") == 6 * 2)
        terminal.send("\x15")
        terminal.wait(lambda shown: shown.screen[shown.cursor[1]] == ">")
        assert "ש" not in terminal.text
        assert terminal.leave() == 0


@pytest.mark.parametrize("way", ["typed", "pasted"])
def test_overrides_that_are_entered_are_seen(way: str) -> None:
    with pseudo_terminal("run", "tiny", script=scripted("ok"), columns=100) as terminal:
        terminal.wait_for_prompt()
        terminal.send(f"\x1b[200~a{OVERRIDES}b\x1b[201~" if way == "pasted" else f"a{OVERRIDES}b")
        terminal.wait_for(f"> a{VISIBLE}b")
        terminal.ask("")
        assert f"a{VISIBLE}b" in terminal.told("/undo")
        terminal.send("\x1b[A\x1b[A")  # the history has it too
        terminal.wait(lambda shown: f"> a{VISIBLE}b" in shown.screen[shown.cursor[1]])
        assert raw_overrides(terminal) == []


@pytest.mark.parametrize("options", [(), ("--plain",)])
def test_overrides_in_answers_are_seen_and_text_stays(options: tuple[str, ...]) -> None:
    answer = f"{HEBREW}\n\n- {ARABIC}\n- a{OVERRIDES}b\n\n```python\nx = 1  # {OVERRIDES}\n```"
    script = scripted(f"<|channel>thought\n{OVERRIDES}<channel|>{answer}")
    with pseudo_terminal("run", "tiny", "hi", *options, script=script, columns=100) as terminal:
        assert terminal.end() == 0
        assert terminal.text.count(VISIBLE) == 3
        assert HEBREW in terminal.screen
        assert ARABIC in terminal.text
        assert raw_overrides(terminal) == []
