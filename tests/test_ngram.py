"""Drafts copied from earlier places of the timeline: the index, and a session that uses it."""

from __future__ import annotations

import ctypes

import reference_ngram as reference
from embedded import DRAFTER, PROMPTS, TARGET, chat_tokens, open_handle
from hypothesis import given, settings
from hypothesis import strategies as st

from gemmachat import Engine, SamplingParams
from gemmachat.native import library
from gemmachat.native_structs import MAX_DRAFT


class Index:
    """The library's."""

    def __init__(self) -> None:
        self._lib, self._pointer = library(), ctypes.c_void_p()
        assert self._lib.gc_ngram_new(ctypes.byref(self._pointer)) == 0

    def __del__(self) -> None:
        self._lib.gc_ngram_free(self._pointer)

    def append(self, tokens: list[int]) -> None:
        ids = (ctypes.c_int32 * len(tokens))(*tokens)
        assert self._lib.gc_ngram_append(self._pointer, ids, len(tokens)) == 0

    def cut(self, n_tokens: int) -> None:
        self._lib.gc_ngram_cut(self._pointer, n_tokens)

    def find(self, max_tokens: int = MAX_DRAFT) -> tuple[list[int], int]:
        tokens = (ctypes.c_int32 * max_tokens)()
        n_tokens, n_alike = ctypes.c_int32(), ctypes.c_int32()
        status = self._lib.gc_ngram_find(
            self._pointer, max_tokens, tokens, ctypes.byref(n_tokens), ctypes.byref(n_alike)
        )
        assert status == 0
        return tokens[: n_tokens.value], n_alike.value


few_tokens = st.lists(st.integers(0, 3), max_size=150)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(few_tokens, st.integers(0, 150)), max_size=8))
def test_it_finds_what_a_look_at_all_places_finds_also_after_cuts(edits):
    index, tokens = Index(), []
    for edit in edits:
        if isinstance(edit, int):
            index.cut(edit)
            del tokens[edit:]
        else:
            index.append(edit)
            tokens += edit
        assert index.find() == reference.find(tokens, MAX_DRAFT)


def test_a_text_that_repeats_goes_on_with_itself():
    index = Index()
    index.append([9, 1, 2, 1, 2, 1, 2])
    assert index.find() == ([1, 2, 1, 2, 1, 2, 1], 4)


def test_the_longest_match_wins_and_of_equals_the_latest():
    index = Index()
    index.append([5, 1, 2, 3, 7, 6, 1, 2, 3, 8, 4, 1, 2, 3, 9, 0, 6, 1, 2, 3])
    assert index.find(1) == ([8], 4)
    index.append([0, 1, 2, 3])
    assert index.find(1) == ([0], 3)


def test_a_place_beyond_reach_is_not_found():
    index = Index()
    index.append([6, 1, 2, 3, 7] + [1, 2, 3, 8] * reference.PLACES + [6, 1, 2, 3])
    assert index.find(1) == ([8], 3)


def repeating_prompt(engine: Engine) -> list[int]:
    """A conversation in which the model has said the same thing over and over."""
    return chat_tokens(engine, PROMPTS[0]) + engine.vocab.tokenize("one two three four five. " * 6)


def test_greedy_text_is_that_of_the_target_alone_bit_for_bit():
    with Engine.load(TARGET, threads=1) as engine:
        for prompt in (repeating_prompt(engine), *(chat_tokens(engine, p) for p in PROMPTS[:3])):
            found = []
            for n_draft in (0, -1):
                handle = open_handle(engine, exact=True, trace=True)
                handle.sync(prompt)
                tokens: list[tuple[int, int]] = []
                while len(tokens) < 60:
                    emitted = handle.step(n_draft, 60 - len(tokens))
                    tokens += [(token.id, token.logits_hash) for token in emitted]
                found.append(tokens)
                copied = handle.stats().copied_rounds
                handle.free()
            assert found[0] == found[1]
            assert copied or prompt != repeating_prompt(engine)


def test_a_text_that_copies_itself_takes_few_passes_without_a_drafter():
    with Engine.load(TARGET, threads=1) as engine, engine.session() as session:
        params = SamplingParams(temperature=0.0, seed=1)
        list(session.generate(repeating_prompt(engine), params, max_tokens=60))
        stats = session.stats()
        assert stats.mean_accepted_length > 2
        assert "copies in" in stats.draft_policy


def test_a_timeline_that_is_cut_is_looked_up_as_it_now_is():
    """The same answer, whatever the session has read before."""
    params = SamplingParams(temperature=1.0, seed=3)
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        prompt = repeating_prompt(engine)
        with engine.session() as session:
            fresh = [event.token for event in session.generate(prompt, params, max_tokens=50)]
        with engine.session() as session:
            list(session.generate(prompt[:20] + prompt[5:40], params, max_tokens=30))
            assert [e.token for e in session.generate(prompt, params, max_tokens=50)] == fresh
