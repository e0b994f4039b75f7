"""Whatever a model says, and wherever its tokens end: only text and our own sequences get out."""

from __future__ import annotations

import fcntl
import io
import os
import re
import struct
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pseudo_terminal import pseudo_terminal, scripted

from gemmachat import answer_view
from gemmachat.parse import Part, Piece
from gemmachat.render import Screen
from gemmachat.sanitize import Utf8Stream, safe_text

ESCAPES = (
    *("\x1b]0;owned\x07", "\x1b]8;;http://e\x1b\\link\x1b]8;;\x1b\\", "\x1b]52;c;eA==\x07"),
    *("\x1b[2J", "\x1b[31m", "\x1b[0m", "\x1b[6n", "\x1b[?1049h", "\x1b[?2026h", "\x1b[J"),
    *("\x1bP+q544e\x1b\\", "\x1b_Gi=1\x1b\\", "\x1b^pm\x1b\\", "\x1bXsos\x1b\\", "\x1bc", "\x1b"),
    *("\x9b2J", "\x9d0;owned\x9c", "\x90q\x9c", "\x9fapc\x9c", "\x84\x85\x8d"),
)
TRICKS = (
    *("shown\rhidden", "secret\b\b\b\b\b\bpublic", "\x7f", "\x00", "\x05", "\x0e\x0f", "\x07"),
    *("\x0b\x0c", "\u202a\u202b\u202c\u202d\u202e", "\u2066\u2067\u2068\u2069"),
    *("&#27;[2J", "&#x9b;2J", "&#8238;", "&#13;", "&NewLine;"),
)
CARRIERS = (
    *("{}", "# {}\n", "- {}\n", "> {}\n", "**{}**", "`{}`", "[a](http://e/{})", "![{}](x)"),
    *("```python\n{}\n```\n", "```{}\nx\n```\n", "| {} |\n|---|\n| {} |\n\n", "<b>{}</b>"),
    *("    {}\n", "$ {}\t|", "\n\n1. {}\n   - {}\n\n", "~~{}~~", "<http://e/{}>", "[x]: u/{}\n"),
)
HOSTILE = [carrier.replace("{}", bad) for bad in (*ESCAPES, *TRICKS) for carrier in CARRIERS]
NO_TEXT = (b"\x9b2J", b"\xff\xfe", b"\xc2", b"\xed\xa0\x80", b"\xf0\x9f", b"\x1b\xc2\x9b[2J")
# Without colours, which are switched off here so that those of others show.
_OURS = re.compile(rb"\x1b\[(?:\?2026[hl]|\?7[hl]|J|\d+A|K|[0123479](?:;[123479])*m)")
_OTHER = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@contextmanager
def terminal_of(monkeypatch: pytest.MonkeyPatch, columns: int) -> Iterator[bytearray]:
    """Standard output and error on a terminal; what has reached it, to the last byte, is given."""
    master, slave = os.openpty()
    tty.setraw(slave)
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    got = bytearray()

    def read() -> None:
        with suppress(OSError):  # the other side is closed
            while data := os.read(master, 65536):
                got.extend(data)

    reader = threading.Thread(target=read)
    reader.start()
    with monkeypatch.context() as patch:
        for name in ("stdout", "stderr"):
            raw = io.FileIO(os.dup(slave), "w")
            stream = io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="replace")
            patch.setattr(sys, name, stream)
        yield got
        for stream in (sys.stdout, sys.stderr):
            stream.close()
    os.close(slave)
    reader.join()
    os.close(master)


def show(said: list[tuple[Part, bytes]], cuts: list[int], *, markdown: bool) -> None:
    """Show an answer on standard output as if it came in tokens that end at the cuts."""
    screen = Screen({"TERM": "xterm", "NO_COLOR": "1"})
    screen.display.markdown = markdown
    decoder = Utf8Stream()
    with screen.answering():
        for part, data in said:
            ends = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
            for start, end in pairwise(ends):
                screen.piece(Piece(part, decoder.feed(data[start:end])))
            screen.piece(Piece(part, decoder.flush()))


def not_ours(data: bytes) -> str:
    """What is left of the bytes without our own sequences, if all of it is allowed."""
    text = _OURS.sub(b"", data).decode("utf-8")
    found = _OTHER.search(text)
    assert found is None, ascii(text[max(0, found.start() - 30) : found.start() + 30])
    return text


hostile_bytes = st.one_of(
    st.sampled_from(HOSTILE).map(lambda text: text.encode()),
    st.sampled_from(NO_TEXT),
    st.sampled_from((b"words ", b"\n", b"\n\n", b"* ", b"```\n", "日本".encode(), "é".encode())),
)
messages = st.lists(
    st.tuples(st.sampled_from(("answer", "answer", "thought", "tool")), hostile_bytes), max_size=12
)
cuts = st.lists(st.integers(0, 200), max_size=30)


@pytest.fixture(autouse=True)
def eager_painter(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have what grows drawn as often as can be."""
    monkeypatch.setattr(answer_view, "_PAUSE_S", 0.0001)
    monkeypatch.setattr(answer_view, "_SHARE", 0)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.0001)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.parametrize("columns", [7, 100])
def test_markdown_view_writes_text_and_its_own_sequences_only(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    @settings(max_examples=60, deadline=None)
    @given(said=messages, cuts=cuts)
    def holds(said: list[tuple[Part, bytes]], cuts: list[int]) -> None:
        with terminal_of(monkeypatch, columns) as got:
            show(said, cuts, markdown=True)
        not_ours(bytes(got))

    holds()


def test_plain_answers_are_the_safe_text_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    @settings(max_examples=60, deadline=None)
    @given(said=st.lists(hostile_bytes, min_size=1, max_size=12), cuts=cuts)
    def holds(said: list[bytes], cuts: list[int]) -> None:
        with terminal_of(monkeypatch, 100) as got:
            show([("answer", data) for data in said], cuts, markdown=False)
        expected = "".join(safe_text(data.decode("utf-8", "replace")) for data in said)
        assert _OTHER.search(expected) is None
        ended = expected if expected.endswith("\n") or not expected else expected + "\n"
        assert got.decode() == ended

    holds()


@pytest.mark.parametrize("bad", ESCAPES)
def test_escape_is_seen_once_wherever_it_is_split(
    bad: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = f"before {bad} after".encode()
    for cut in range(len(data)):
        with terminal_of(monkeypatch, 100) as got:
            show([("answer", data)], [cut], markdown=True)
        screen = pyte.Screen(100, 40)
        pyte.ByteStream(screen).feed(bytes(got))
        shown = screen.display[0].rstrip().replace("\\", "")  # which Markdown may take
        assert shown == f"before {safe_text(bad)} after".replace("\\", "")


@pytest.mark.parametrize("options", [(), ("--plain",)])
def test_program_writes_nothing_else_either(options: tuple[str, ...]) -> None:
    thought, answer = "\n".join((*ESCAPES, *TRICKS)), "\n\n".join(HOSTILE)
    script = scripted(f"<|channel>thought\n{thought}<channel|>{answer}")
    with pseudo_terminal(
        "run", "tiny", "hi", "--ctx", "1000000", *options, script=script, NO_COLOR="1"
    ) as terminal:
        assert terminal.end() == 0
        not_ours(terminal.raw)
        assert terminal.text.count("owned") >= 2 + 2 * len(CARRIERS)
