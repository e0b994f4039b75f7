"""What reaches a terminal: whole characters, and no control character but newline and tab."""

from __future__ import annotations

import unicodedata
from random import Random

import pytest

from gemmachat.sanitize import Utf8Stream, safe_line, safe_text

HOSTILE = [
    "\x1b[31mred\x1b[0m",  # CSI
    "\x1b]0;title\x07",  # OSC ended by BEL
    "\x1b]8;;http://example.com\x1b\\link\x1b]8;;\x1b\\",  # OSC ended by ST
    "\x1bPq#0;2;0;0;0\x1b\\",  # DCS
    "\x1b_Gpayload\x1b\\",  # APC
    "\x9b31mred",  # C1 CSI
    "\x9d0;title\x9c",  # C1 OSC
    "\x90q\x9c",  # C1 DCS
    "\x08\x08\x7f\x00\x07\x0b\x0c",
    "safe\rrewritten",
]


def is_allowed(char: str) -> bool:
    return char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs")


@pytest.mark.parametrize("text", HOSTILE)
def test_no_control_character_survives(text: str) -> None:
    assert all(map(is_allowed, safe_text(text)))


@pytest.mark.parametrize("text", HOSTILE)
def test_split_sequences_are_treated_like_whole_ones(text: str) -> None:
    for cut in range(len(text) + 1):
        assert safe_text(text[:cut]) + safe_text(text[cut:]) == safe_text(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_sequences_split_between_bytes_of_utf8_are_caught(text: str) -> None:
    stream = Utf8Stream()
    shown = "".join(safe_text(stream.feed(bytes([byte]))) for byte in text.encode())
    assert shown + safe_text(stream.flush()) == safe_text(text)


def test_escape_sequences_hide_nothing() -> None:
    assert safe_text("a\x1b]0;secret\x07b") == "a<U+001B>]0;secret<U+0007>b"


def test_c1_controls_are_made_visible() -> None:
    assert safe_text(b"\xc2\x9b2J".decode()) == "<U+009B>2J"


def test_bidi_overrides_are_made_visible() -> None:
    for char in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069":
        assert safe_text(f"a{char}b") == f"a<U+{ord(char):04X}>b"


def test_newlines_tabs_and_joined_emoji_stay() -> None:
    text = "a\n\tb  \U0001f469\u200d\U0001f680 你好 שלום"
    assert safe_text(text) == text


def test_windows_line_ends_become_newlines() -> None:
    assert safe_text("a\r\nb\r\n") == "a\nb\n"


def test_lone_surrogates_become_encodable() -> None:
    assert safe_text("a\udcffb").encode("utf-8") == "a\ufffdb".encode()


def test_safe_line_is_one_line() -> None:
    assert safe_line(" a\n\tb\x1b[0m \n") == "a b<U+001B>[0m"


def random_text(seed: int) -> str:
    """Code points from every plane, the dangerous ranges more often than others."""
    random = Random(seed)
    ranges = [(0, 0x20), (0x7F, 0xA0), (0x2000, 0x2070), (0x20, 0xD800), (0xE000, 0x110000)]
    return "".join(chr(random.randrange(*random.choice(ranges))) for _ in range(400))


@pytest.mark.parametrize("seed", range(20))
def test_safe_text_allows_only_safe_characters_and_is_idempotent(seed: int) -> None:
    shown = safe_text(random_text(seed))
    assert all(map(is_allowed, shown))
    assert safe_text(shown) == shown


@pytest.mark.parametrize("size", range(1, 6))
def test_utf8_stream_rebuilds_text_from_any_split(size: int) -> None:
    data = random_text(size).encode() + b"\xed\xa0\x80\xff" + random_text(size).encode()
    stream = Utf8Stream()
    parts = [stream.feed(data[i : i + size]) for i in range(0, len(data), size)]
    assert "".join(parts) + stream.flush() == data.decode("utf-8", "replace")


def test_incomplete_bytes_wait_for_their_rest() -> None:
    stream = Utf8Stream()
    rocket = "\U0001f680".encode()
    assert [stream.feed(rocket[i : i + 1]) for i in range(4)] == ["", "", "", "\U0001f680"]
    assert stream.flush() == ""


@pytest.mark.parametrize("dangling", [b"\xf0", b"\xf0\x9f", b"\xf0\x9f\x9a", b"\xe4\xbd", b"\xc3"])
def test_dangling_bytes_become_one_replacement_character(dangling: bytes) -> None:
    stream = Utf8Stream()
    assert stream.feed(b"a" + dangling) == "a"
    assert stream.flush() == "\ufffd"
    assert stream.feed(b"b") == "b"
    assert stream.flush() == ""
