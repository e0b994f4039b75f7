"""What the screen writes, and to which stream."""

from __future__ import annotations

import io
import json
import sys

import pytest

from gemmachat.parse import Piece
from gemmachat.render import Screen
from gemmachat.stats import Stats
from gemmachat.stats_text import agreement, stats_lines


class Stream(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


class Streams:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> None:
        self.out = Stream(terminal=terminal)
        self.err = Stream(terminal=terminal)
        monkeypatch.setattr(sys, "stdout", self.out)
        monkeypatch.setattr(sys, "stderr", self.err)


def test_pieces_keep_thoughts_off_stdout(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Streams(monkeypatch, terminal=False)
    screen = Screen({})
    for piece in (
        Piece("thought", "let me"),
        Piece("thought", " see"),
        Piece("answer", "Yes"),
        Piece("answer", "."),
        Piece("thought", "done"),
    ):
        screen.piece(piece)
    screen.end_answer()
    assert streams.out.getvalue() == "Yes.\n"
    assert streams.err.getvalue() == "let me see\ndone\n"


def test_every_answer_starts_on_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Streams(monkeypatch, terminal=False)
    screen = Screen({})
    for text in ("one", "two\n", "three"):
        screen.piece(Piece("answer", text))
        screen.end_answer()
    assert streams.out.getvalue() == "one\ntwo\nthree\n"


def test_own_colours_only_on_a_terminal_that_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def written(environment: dict[str, str], *, terminal: bool) -> str:
        streams = Streams(monkeypatch, terminal=terminal)
        screen = Screen(environment)
        screen.piece(Piece("thought", "hm"))
        screen.end_answer()
        screen.note("a note")
        screen.progress("1/2")
        screen.error("a problem")
        return streams.out.getvalue() + streams.err.getvalue()

    plain = "hm\na note\nerror: a problem\n"
    assert written({}, terminal=False) == plain
    assert written({"NO_COLOR": "1"}, terminal=True) == plain
    assert written({"TERM": "dumb"}, terminal=True) == plain
    assert "\x1b" in written({"NO_COLOR": "", "TERM": "xterm"}, terminal=True)


def test_hostile_text_is_made_safe_on_every_path(monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = "a\x1b]0;x\x07\x9b2J\rb"
    streams = Streams(monkeypatch, terminal=False)
    screen = Screen({})
    screen.piece(Piece("answer", hostile))
    screen.piece(Piece("thought", hostile))
    screen.end_answer()
    screen.result(hostile)
    screen.note(hostile)
    screen.error(hostile)
    written = streams.out.getvalue() + streams.err.getvalue()
    assert not set(written) & set("\x1b\x07\x9b\r")
    assert written.count("<U+001B>]0;x<U+0007><U+009B>2Jb") == 5


def test_error_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Streams(monkeypatch, terminal=False)
    Screen({}).error("two\nlines  and\ttabs")
    assert streams.err.getvalue() == "error: two lines and tabs\n"


def test_json_is_pure_ascii_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Streams(monkeypatch, terminal=True)
    value = {"text": "\x1b\x9b\x7f 你好 \u202e", "tokens": (1, 2)}
    Screen({}).json(value)
    written = streams.out.getvalue()
    assert written.removesuffix("\n").isprintable()
    assert written.isascii()
    assert json.loads(written) == {**value, "tokens": [1, 2]}


FIGURES = Stats(
    prompt_tokens=30,
    cached_tokens=10,
    completion_tokens=40,
    ttft_s=0.5,
    prefill_tps=80.0,
    decode_tps=25.0,
    total_s=2.0,
    rounds=20,
    drafted=60,
    accepted=20,
    acceptance_rate=1 / 3,
    mean_accepted_length=2.0,
    accepted_by_position=(0.5, 0.25),
    draft_s=0.25,
    verify_s=1.0,
    sample_s=0.125,
    early_exit="on, layers 4-7 skipped in prefill",
    draft_policy="auto",
)


def test_stats_lines_hold_the_figures() -> None:
    text = "\n".join(stats_lines(FIGURES, "as it is"))
    for figure in (
        "2.00 tokens per target pass",
        "first token after 0.50 s",
        "20.0 tokens/s end to end",
        "agreement with the target alone: as it is",
        "prompt 30 tokens (10 cached",
        "answer 40 tokens",
        "early exit: on, layers 4-7 skipped in prefill",
        "drafted 60, accepted 20 (33%)",
        "by position: 50% 25%",
        "draft 0.25, verify 1.00, sampling 0.12",
    ):
        assert figure in text


def test_stats_of_an_answer_without_a_token_are_no_division_by_zero() -> None:
    assert "0.0 tokens/s" in stats_lines(Stats(), "none")[0]


@pytest.mark.parametrize("exact", [False, True])
def test_agreement_does_not_promise_equal_tokens_for_samples(exact: bool) -> None:
    assert "same tokens" not in agreement(FIGURES, exact=exact, greedy=False)
