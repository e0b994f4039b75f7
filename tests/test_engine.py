"""The public API, and what loading refuses."""

from __future__ import annotations

import gc
import shutil
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
from embedded import DRAFTER, GREEDY, PROMPTS, TARGET, chat_tokens
from gemmachat.converters.conversion import plan_file
from gemmachat.converters.gguf_values import int32_array
from gemmachat.converters.write import GgufFile, write_files

import gemmachat
from gemmachat import (
    DamagedFileError,
    Engine,
    EngineError,
    NotFoundError,
    PairMismatchError,
    SamplingParams,
    UsageError,
)


def test_the_public_names_are_these():
    assert gemmachat.__all__ == sorted(gemmachat.__all__)
    assert gemmachat.__all__ == [
        "Chat",
        "ContextFullError",
        "Conversation",
        "DamagedFileError",
        "Engine",
        "EngineError",
        "GemmachatError",
        "MemoryLimitError",
        "Message",
        "NotFoundError",
        "PairMismatchError",
        "PromptFormat",
        "SamplingParams",
        "ServerError",
        "Session",
        "Stats",
        "TokenEvent",
        "ToolCall",
        "UsageError",
    ]
    assert all(hasattr(gemmachat, name) for name in gemmachat.__all__)


def test_loading_refuses_what_is_no_pair(tmp_path):
    with pytest.raises(NotFoundError, match="no-such"):
        Engine.load(tmp_path / "no-such.gguf")
    with pytest.raises(PairMismatchError, match="swapped"):
        Engine.load(DRAFTER, TARGET)
    with pytest.raises(DamagedFileError):
        Engine.load(DRAFTER)
    text = tmp_path / "notes.gguf"
    text.write_text("These are notes.")
    with pytest.raises(DamagedFileError, match="GGUF"):
        Engine.load(text)
    for threads in (0, -1, 10**6):
        with pytest.raises(UsageError, match="threads"):
            Engine.load(TARGET, threads=threads)


@pytest.mark.parametrize("keep", [0, 3, 100, 10_000, -64, -4096])
def test_a_truncated_file_is_refused(tmp_path, keep):
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(TARGET.read_bytes()[:keep])
    with pytest.raises(DamagedFileError, match="cut"):
        Engine.load(cut)


@pytest.mark.parametrize("which", ["target", "drafter"])
def test_a_file_that_changes_between_its_check_and_its_load_is_refused(
    which, tmp_path, monkeypatch
):
    files = {"target": TARGET, "drafter": DRAFTER}
    path = Path(shutil.copy(files[which], tmp_path / f"{which}.gguf"))
    files[which] = path
    check_pair = gemmachat.engine.check_pair

    def check_and_replace(*pair: object) -> None:
        check_pair(*pair)
        path.unlink()
        shutil.copy(DRAFTER if which == "drafter" else TARGET, path)

    monkeypatch.setattr(gemmachat.engine, "check_pair", check_and_replace)
    with pytest.raises(DamagedFileError, match=rf"{which}\.gguf changed while it was loaded"):
        Engine.load(files["target"], files["drafter"], threads=1)


def test_a_closed_engine_says_so():
    engine = Engine.load(TARGET, DRAFTER, threads=1)
    session = engine.session(n_ctx=64)
    engine.close()
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        session.generate([2], GREEDY)
    with pytest.raises(EngineError, match="closed"):
        engine.session()


def test_two_sessions_at_once_do_not_disturb_each_other():
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        prompts = [chat_tokens(engine, prompt) for prompt in PROMPTS[:2]]

        def answers() -> list[list[int | None]]:
            out: list[list[int | None]] = [[], []]

            def run(which: int) -> None:
                with engine.session(n_ctx=512, exact=True) as session:
                    events = session.generate(prompts[which], GREEDY, draft=3, max_tokens=30)
                    out[which] = [event.token for event in events]

            threads = [threading.Thread(target=run, args=(which,)) for which in (0, 1)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return out

        first = answers()
        assert first[0] != first[1]
        assert answers() == first


def test_an_answer_that_nobody_reads_to_the_end_can_be_followed_by_another():
    with Engine.load(TARGET, DRAFTER, threads=1) as engine, engine.session(n_ctx=512) as session:
        tokens = chat_tokens(engine, PROMPTS[0])
        whole = [e.token for e in session.generate(tokens, GREEDY, max_tokens=20)]
        events = session.generate(tokens, GREEDY, max_tokens=20)
        next(events)
        del events
        assert [e.token for e in session.generate(tokens, GREEDY, max_tokens=20)] == whole


def test_an_answer_cannot_go_on_once_its_session_has_begun_another():
    with Engine.load(TARGET, DRAFTER, threads=1) as engine, engine.session(n_ctx=512) as session:
        one = session.generate(chat_tokens(engine, PROMPTS[0]), GREEDY, max_tokens=30)
        next(one)
        two = session.generate(chat_tokens(engine, PROMPTS[1]), GREEDY, max_tokens=30)
        next(two)
        with pytest.raises(EngineError, match="begun another"):
            list(one)
        assert [e.finish_reason for e in two][-1] in ("length", "stop")
        assert session.stats().completion_tokens > 0


def test_closing_while_another_thread_generates_stops_it_cleanly():
    for _ in range(10):
        engine = Engine.load(TARGET, DRAFTER, threads=1)
        session = engine.session(n_ctx=1024)
        tokens = chat_tokens(engine, " ".join(PROMPTS))[:600]
        outcome: list[str] = []

        def read(session=session, tokens=tokens, outcome=outcome) -> None:
            try:
                events = list(session.generate(tokens, GREEDY, draft=3))
                outcome.append(str(events[-1].finish_reason))
            except EngineError as error:
                outcome.append(str(error))

        reader = threading.Thread(target=read)
        reader.start()
        reader.join(0.02)
        engine.close()
        reader.join(60)
        session.cancel()
        assert outcome[0] in ("cancelled", "the session is closed", "the engine is closed", "stop")


def test_opening_sessions_while_another_thread_closes_the_engine_is_refused_cleanly():
    for _ in range(5):
        engine = Engine.load(TARGET, DRAFTER, threads=1)
        opened, refused = threading.Event(), threading.Event()

        def open_sessions(engine=engine, opened=opened) -> None:
            while True:
                engine.session(n_ctx=64)
                opened.set()

        def run(refused=refused) -> None:
            with pytest.raises(EngineError, match="the engine is closed"):
                open_sessions()
            refused.set()

        opener = threading.Thread(target=run)
        opener.start()
        assert opened.wait(60)
        engine.close()
        opener.join(60)
        assert refused.is_set()


def test_a_signal_handler_can_cancel_a_session_that_is_being_closed():
    with Engine.load(TARGET, threads=1) as engine, engine.session(n_ctx=64) as session:

        def interrupted() -> None:
            with session._handle._life:  # as in the middle of close or cancel
                session.cancel()

        thread = threading.Thread(target=interrupted, daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_is_dropped_without_being_closed_is_freed(tmp_path):
    target = Path(shutil.copy(TARGET, tmp_path))
    engine = Engine.load(target, threads=1)
    session = engine.session(n_ctx=64)
    events = session.generate([2, 3], GREEDY, max_tokens=5)
    next(events)
    maps = Path("/proc/self/maps")
    assert str(target) in maps.read_text()
    handle = weakref.ref(session._handle)
    session = events = None
    gc.collect()
    assert handle() is None
    assert list(engine.session(n_ctx=64).generate([2, 3], GREEDY, max_tokens=5))
    engine = None
    gc.collect()
    assert str(target) not in maps.read_text()


FORKED = """
import os, sys
from gemmachat import Engine, EngineError, SamplingParams
engine = Engine.load(sys.argv[1], threads=2)
session = engine.session(n_ctx=64)
def ask(session):
    return [e.token for e in session.generate([2, 3], SamplingParams(0.0), max_tokens=3)]
before = ask(session)
with session._handle._life, session._handle._call:  # as if another thread were inside a call
    child = os.fork()
if child == 0:
    refused = 0
    for use in (
        lambda: ask(session),
        lambda: engine.session(n_ctx=64),
        lambda: engine.vocab.tokenize("a"),
        lambda: Engine.load(sys.argv[1]),
    ):
        try:
            use()
        except EngineError as error:
            refused += "forked" in str(error)
    session.cancel()
    session.close()
    engine.close()
    os._exit(refused)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), ask(session) == before)
"""


def test_a_forked_process_is_told_that_it_cannot_use_the_engine():
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(TARGET)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "4 True\n", done.stderr


def test_token_ids_that_do_not_fit_32_bits_are_refused():
    with Engine.load(TARGET, threads=1) as engine, engine.session(n_ctx=64) as session:
        for bad in (2**31, 2**64, 1.5, "2"):
            with pytest.raises(UsageError, match="token id"):
                list(session.generate([2, bad], GREEDY))


def test_numbers_of_numpy_are_numbers():
    with Engine.load(TARGET, threads=1) as engine, engine.session(n_ctx=np.int64(64)) as session:
        tokens = chat_tokens(engine, PROMPTS[0])[:20]
        params = SamplingParams(np.float32(0.5), top_k=np.int32(9), seed=np.uint64(2**64 - 1))
        plain = SamplingParams(0.5, top_k=9, seed=2**64 - 1)
        answers = [
            [e.token for e in session.generate(prompt, sampling, max_tokens=limit)]
            for prompt, sampling, limit in (
                (tokens, plain, 5),
                (np.array(tokens), params, np.int64(5)),
                (iter(tokens), params, 5),
            )
        ]
        assert answers[0] == answers[1] == answers[2]


def test_what_is_no_whole_number_is_refused():
    with Engine.load(TARGET, threads=1) as engine, engine.session(n_ctx=64) as session:
        for wrong in (1.5, "2"):
            for use in (
                lambda wrong: session.generate([2], GREEDY, max_tokens=wrong),
                lambda wrong: engine.session(n_ctx=wrong),
                lambda wrong: Engine.load(TARGET, threads=wrong),
                lambda wrong: SamplingParams(top_k=wrong),
                lambda wrong: SamplingParams(seed=wrong),
                engine.vocab.piece,
                engine.vocab.is_end,
            ):
                with pytest.raises(UsageError, match="must be a whole number"):
                    use(wrong)


def test_tokens_outside_the_vocabulary_are_refused_and_not_wrapped_around():
    with Engine.load(TARGET, threads=1) as engine:
        for token in (-1, engine.vocab.size, 2**32 + 5):
            with pytest.raises(UsageError, match="between 0 and 4095"):
                engine.vocab.piece(token)
        assert not engine.vocab.is_end(2**32 + engine.vocab.control("<turn|>"))
        for spelling in ("<bos>\0x", "<bos>\udcff", ""):
            with pytest.raises(DamagedFileError, match="no control token"):
                engine.vocab.control(spelling)


def test_a_path_that_no_file_can_have_is_not_found():
    for path in ("a\0b", f"{TARGET}/x"):
        with pytest.raises(NotFoundError):
            Engine.load(path)
        with pytest.raises(NotFoundError):
            Engine.load(TARGET, path)


def test_a_probability_too_small_for_the_native_side_keeps_the_likeliest_token():
    with Engine.load(TARGET, threads=1) as engine, engine.session(n_ctx=512) as session:
        tokens = chat_tokens(engine, PROMPTS[0])
        greedy = [e.token for e in session.generate(tokens, GREEDY, max_tokens=9)]
        params = SamplingParams(temperature=1.0, top_p=1e-50)
        assert [e.token for e in session.generate(tokens, params, max_tokens=9)] == greedy


def test_characters_of_several_tokens_come_out_whole():
    with Engine.load(TARGET, threads=1) as engine, engine.session(n_ctx=256) as session:
        tokens = chat_tokens(engine, PROMPTS[0])
        for seed in range(10):
            params = SamplingParams(temperature=3.0, top_k=0, top_p=1.0, seed=seed)
            events = list(session.generate(tokens, params, max_tokens=100))
            raw = b"".join(engine.vocab.piece(e.token) for e in events if e.token is not None)
            assert "".join(e.text for e in events) == raw.decode("utf-8", "replace")


@pytest.mark.parametrize(
    "changes",
    [
        {"temperature": -1.0},
        {"temperature": "1"},
        {"temperature": None},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"top_k": -1},
        {"top_k": 2**31},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"top_p": float("nan")},
        {"min_p": -0.1},
        {"min_p": 2.0},
        {"seed": -1},
        {"seed": 2**64},
    ],
    ids=str,
)
def test_impossible_sampling_parameters_are_refused(changes):
    with pytest.raises(UsageError):
        SamplingParams(**changes)


def test_tokens_that_the_file_suppresses_are_never_drawn(tmp_path: Path) -> None:
    with Engine.load(TARGET, DRAFTER, threads=1) as engine:
        prompt = chat_tokens(engine, "What is a token?")
        with engine.session() as session:
            said = [event.token for event in session.generate(prompt, GREEDY, max_tokens=8)]
    plan = plan_file(TARGET, quant="Q8_0")
    suppress = {"tokenizer.ggml.suppress_tokens": int32_array(said[:2])}
    target = tmp_path / "suppressing.gguf"
    write_files({target: GgufFile({**plan.metadata, **suppress}, plan.tensors)}, force=False)
    with Engine.load(target, DRAFTER, threads=1) as engine, engine.session() as session:
        assert engine.suppressed == tuple(said[:2])
        for draft in ("off", 3):
            events = session.generate(prompt, GREEDY, draft=draft, max_tokens=8)
            assert not {event.token for event in events} & set(said[:2])


def test_suppressed_token_that_does_not_exist_is_damage(tmp_path: Path) -> None:
    plan = plan_file(TARGET, quant="Q8_0")
    suppress = {"tokenizer.ggml.suppress_tokens": int32_array([4096])}
    target = tmp_path / "suppressing.gguf"
    write_files({target: GgufFile({**plan.metadata, **suppress}, plan.tensors)}, force=False)
    with pytest.raises(DamagedFileError, match="suppresses a token that is not among its 4096"):
        Engine.load(target, DRAFTER)
