"""Markdown that comes in pieces: where blocks end, and what their lines look like."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from gemmachat.block_view import BlockView
from gemmachat.markdown import Block, MarkdownBlocks, ThoughtLines
from gemmachat.theme import theme

ANSWER = """# Title
Text one
more *text*
- a
- b
  cont

  para
- c
  ```py
  x

  y
  ```
1. one
2. two

After.

| a | b |
|---|---|
| 1 | 2 |

> q
> r

```python
def f():

    pass
```
Under
---
***
"""
BLOCKS = [
    ("text", "# Title"),
    ("text", "Text one\nmore *text*"),
    ("item", "- a"),
    ("item", "- b\n  cont\n\n  para"),
    ("item", "- c\n  ```py\n  x\n\n  y\n  ```"),
    ("item", "1. one"),
    ("item", "2. two"),
    ("text", "After."),
    ("text", "| a | b |\n|---|---|\n| 1 | 2 |"),
    ("text", "> q\n> r"),
    ("code_open", "python"),
    ("code_line", "def f():"),
    ("code_line", ""),
    ("code_line", "    pass"),
    ("code_close", ""),
    ("text", "Under\n---"),
    ("text", "***"),
]
HOSTILE = st.text(
    alphabet=st.sampled_from(list("#-*+>|`~_ \n\t[]()!&;x1.<你\x1b\x9b\x07\r\u202e👩\u200d")),
    max_size=60,
)
SGR = re.compile("\x1b\\[[0-9;]*m")


def blocks_of(*pieces: str) -> list[Block]:
    blocks = MarkdownBlocks()
    return [block for piece in pieces for block in blocks.feed(piece)] + blocks.flush()


def drawn(source: str, width: int = 40) -> list[str]:
    """Lines of a text without their colours."""
    view = BlockView(theme("dark"), colour=True, unicode=True)
    return [SGR.sub("", line) for block in blocks_of(source) for line in view.lines(block, width)]


def test_blocks_end_where_commonmark_ends_them() -> None:
    assert [(block.kind, block.text) for block in blocks_of(ANSWER)] == BLOCKS


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
def test_blocks_do_not_depend_on_how_the_text_is_cut(size: int) -> None:
    pieces = [ANSWER[at : at + size] for at in range(0, len(ANSWER), size)]
    assert blocks_of(*pieces) == blocks_of(ANSWER)


def test_items_follow_each_other_as_closely_as_in_the_source() -> None:
    spaced = [block.spaced for block in blocks_of("Here:\n- a\n- b\n\n- c\n\nEnd")]
    assert spaced == [False, False, False, True, True]


def test_number_inside_a_paragraph_begins_no_list() -> None:
    assert [block.kind for block in blocks_of("It was in\n1998. A good year.")] == ["text"]


def test_growing_end_never_shows_marks_that_may_become_something() -> None:
    blocks = MarkdownBlocks()
    for text, growing in (
        ("Hello", ["Hello"]),
        ("\n-", ["Hello"]),
        (" one", ["Hello", "- one"]),
        ("\n``", ["- one"]),
        ("`py", ["- one"]),
        ("\n", []),
        ("x = 1", ["x = 1"]),
        ("\n``", []),
    ):
        blocks.feed(text)
        assert [block.text for block in blocks.growing()] == growing


def test_code_block_that_is_never_closed_ends_with_the_text() -> None:
    assert [block.kind for block in blocks_of("```\nx")] == ["code_open", "code_line", "code_close"]


def test_thought_loses_blank_lines_around_it_alone() -> None:
    thought = ThoughtLines()
    lines = thought.feed("\n\na\n\nb\n\n") + thought.flush()
    assert [line.text for line in lines] == ["a", "", "b", ""]
    assert thought.flush() == []


def test_nothing_of_an_answer_disappears() -> None:
    text = "\n".join(
        drawn(
            "<b>html</b> <div> [bold red] :smile: [text](http://link/) ![alt](img.png)\n\n"
            "<script>x</script>\n\n[ref]: http://ref/\n\n<http://auto/>",
            width=200,
        )
    )
    for part in (
        "<b>html</b> <div> [bold red] :smile: text (http://link/) alt (img.png)",
        "<script>x</script>",
        "[ref]: http://ref/",
        "http://auto/",
    ):
        assert part in text
    assert text.count("http://auto/") == 1


def test_list_in_a_list_is_indented_and_keeps_its_numbers() -> None:
    assert drawn("- a\n  1. b\n  2. c\n- d\n\n7. e") == [
        " • a",
        "    1. b",
        "    2. c",
        " • d",
        "",
        " 7. e",
    ]


def test_table_has_its_columns_aligned_also_with_wide_characters() -> None:
    lines = drawn("| name | n |\n|:--|--:|\n| 你好 | 1 |\n| ab | 22 |")
    assert lines == ["name    n", "─────────", "你好    1", "ab     22"]


def test_quote_and_heading_and_rule() -> None:
    assert drawn("## A *b*\n> q\n\n***", 10) == ["A b", "", "▌ q", "", "─" * 10]


def test_without_unicode_only_ascii_is_drawn() -> None:
    view = BlockView(theme("light"), colour=False, unicode=False)
    source = "- a\n> q\n\n***\n```py\nx\n```\n|a|b|\n|-|-|\n|1|2|"
    lines = [line for block in blocks_of(source) for line in view.lines(block, 40)]
    assert "".join(lines).isascii()


def test_code_is_coloured_and_can_be_copied_as_it_is() -> None:
    view = BlockView(theme("dark"), colour=True, unicode=True)
    source = '```python\ndef f(): """a\n\tb"""  # ' + "x" * 100 + "\n```"
    lines = [line for block in blocks_of(source) for line in view.lines(block, 20)]
    assert [SGR.sub("", line) for line in lines[1:-1]] == source.split("\n")[1:-1]
    # The second line is part of the text that begins in the first.
    assert lines[2].startswith(lines[1][lines[1].index('"""') - 5 : lines[1].index('"""')])


def test_block_nested_without_end_is_shown_as_it_is() -> None:
    source = ">" * 3000 + " deep"
    assert "".join(drawn(source)) == source.replace("\n", "")


@settings(deadline=None, max_examples=300)
@given(HOSTILE, st.integers(min_value=1, max_value=30))
def test_no_line_holds_a_control_character_or_is_too_wide(text: str, width: int) -> None:
    view = BlockView(theme("dark"), colour=True, unicode=True)
    blocks = MarkdownBlocks()
    for char in text:
        for block in blocks.feed(char):
            view.lines(block, width)
        for block in blocks.growing():
            for line in view.lines(block, width, ended=False):
                bare = SGR.sub("", line)
                assert not set(bare) & set("\x1b\x9b\x07\r\u202e\n")
                assert cell_len(bare) <= max(width, 4)


@settings(deadline=None, max_examples=300)
@given(HOSTILE, st.lists(st.integers(1, 59), max_size=8))
def test_any_text_cut_anywhere_gives_the_same_blocks(text: str, cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(text)]
    pieces = [text[a:b] for a, b in pairwise(places)]
    assert blocks_of(*pieces) == blocks_of(text)
