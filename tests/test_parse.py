"""Thoughts and answers are told apart by token id, however the stream is cut."""

from __future__ import annotations

import pytest
from fakes import ByteVocab

from gemmachat.errors import DamagedFileError
from gemmachat.parse import Marks, Parser, Piece, without_thoughts

VOCAB = ByteVocab()
MARKS = Marks.of(VOCAB)


def parse(script: str) -> tuple[str, str]:
    """Thought and answer of a script in which control tokens are spelled out."""
    parser = Parser(MARKS)
    pieces: list[Piece] = []
    for token in VOCAB.encode(script):
        pieces += parser.feed(token, VOCAB.piece(token).decode("latin-1"))
    pieces += parser.flush()
    thought = "".join(piece.text for piece in pieces if piece.part == "thought")
    return thought, "".join(piece.text for piece in pieces if piece.part == "answer")


@pytest.mark.parametrize(
    ("script", "thought", "answer"),
    [
        ("plain", "", "plain"),
        ("<|channel>thought\nhm\n<channel|>yes", "hm\n", "yes"),
        ("<|channel>thought\n<channel|>yes", "", "yes"),
        ("<|channel>thought<channel|>yes", "", "yes"),
        ("<|channel><channel|>yes", "", "yes"),
        ("yes<|channel>thought\n<channel|>", "", "yes"),
        ("<|channel><|channel>thought\nhm<channel|>yes", "hm", "yes"),
        ("<|channel>thoughtful<channel|>yes", "thoughtful", "yes"),
        ("<|channel>tho<channel|>yes", "tho", "yes"),
        ("<channel|>yes<channel|>", "", "yes"),
        ("a<|channel>thought\nb<channel|>c<|channel>thought\nd<channel|>e", "bd", "ace"),
    ],
)
def test_thought_and_answer(script: str, thought: str, answer: str) -> None:
    assert parse(script) == (thought, answer)


def test_channel_that_is_never_closed_is_all_thought() -> None:
    assert parse("<|channel>thought\nand on and on") == ("and on and on", "")


def test_held_back_channel_name_is_not_lost_at_the_end() -> None:
    assert parse("<|channel>though") == ("though", "")
    assert parse("<|channel>thought") == ("", "")


def test_text_completed_by_a_mark_belongs_to_what_came_before() -> None:
    parser = Parser(MARKS)
    assert parser.feed(MARKS.open, "\ufffd") == [Piece("answer", "\ufffd")]
    assert parser.feed(None, "thought\nhm") == [Piece("thought", "hm")]


def test_marks_spelled_as_text_are_text() -> None:
    parser = Parser(MARKS)
    assert parser.feed(200, "<|channel>") == [Piece("answer", "<|channel>")]


def test_vocabulary_without_channels_has_answers_only() -> None:
    class NoChannels(ByteVocab):
        def control(self, name: str) -> int:
            raise DamagedFileError(name)

    parser = Parser(Marks.of(NoChannels()))
    assert parser.feed(None, "a") == [Piece("answer", "a")]
    assert parser.feed(MARKS.open, "b") == [Piece("answer", "b")]


@pytest.mark.parametrize(
    ("script", "kept"),
    [
        ("yes", "yes"),
        ("<|channel>thought\nhm<channel|>yes", "yes"),
        ("yes<|channel>thought\nhm", "yes"),
        ("yes<channel|>no", "yesno"),
    ],
)
def test_history_keeps_what_is_outside_channels(script: str, kept: str) -> None:
    assert without_thoughts(VOCAB.encode(script), MARKS) == VOCAB.encode(kept)
