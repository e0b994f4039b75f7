"""The prompt loop: commands, turns, and leaving it; see test_terminal.py for a real terminal."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from conftest import Command, Finished
from fakes import ByteVocab, FakeEngine

from gemmachat import command_runner, talk
from gemmachat.errors import UsageError
from gemmachat.opening import OpenedChat, Opening
from gemmachat.settings import chats_file
from gemmachat.store import Store

VOCAB = ByteVocab()
Chat = Callable[..., Finished]


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch, command: Command) -> Chat:
    """Run a chat in which the user types lines; an exception class stands for a key."""

    def run(
        engine: FakeEngine, lines: Iterable[str | type[BaseException]], *arguments: str
    ) -> Finished:
        typed = iter(lines)

        def read(_prompt: str = "") -> str:
            line = next(typed)
            if isinstance(line, str):
                return line
            raise line

        monkeypatch.setattr(builtins, "input", read)
        return command("run", "tiny", *arguments, engine=engine)

    return run


def prompts(engine: FakeEngine) -> list[str]:
    return [VOCAB.decode(prompt) for prompt in engine.sessions[0].prompts]


def test_turns_build_on_each_other(chat: Chat) -> None:
    engine = FakeEngine("one", "two")
    done = chat(engine, ["a", "b", EOFError])
    assert (done.code, done.out) == (0, "one\ntwo\n")
    assert "a<turn|>\n<|turn>model\none<turn|>\n<|turn>user\nb<turn|>" in prompts(engine)[1]


def test_blank_lines_are_no_questions(chat: Chat) -> None:
    engine = FakeEngine("one")
    chat(engine, ["", "  ", "\t", EOFError])
    assert prompts(engine) == []


@pytest.mark.parametrize("line", ["/bye", "/bye ", "/exit", "/quit"])
def test_bye_leaves(chat: Chat, line: str) -> None:
    done = chat(FakeEngine(), [line, "never read"])
    assert (done.code, done.out) == (0, "")


def test_clear_starts_a_new_conversation(chat: Chat) -> None:
    engine = FakeEngine("one")
    chat(engine, ["a", "/clear", "b", EOFError], "--system", "Brief.")
    assert prompts(engine)[1] == (
        "<bos><|turn>system\nBrief.<turn|>\n<|turn>user\nb<turn|>\n<|turn>model\n"
    )


def test_help_lists_every_command(chat: Chat) -> None:
    done = chat(FakeEngine(), ["/help", EOFError])
    for name in ("/help", "/clear", "/stats", "/bye", "Ctrl-C", "Ctrl-D"):
        assert name in done.err
    assert done.out == ""


def test_stats_command_shows_the_last_answer(chat: Chat) -> None:
    done = chat(FakeEngine("one"), ["/stats", "a", "/stats", EOFError])
    assert done.err.index("no answer yet") < done.err.index("tokens per target pass")


def test_stats_option_shows_every_answer(chat: Chat) -> None:
    done = chat(FakeEngine("one"), ["a", "b", EOFError], "--stats")
    assert done.err.count("tokens per target pass") == 2


def test_unknown_command_is_told_and_not_sent(chat: Chat) -> None:
    engine = FakeEngine()
    done = chat(engine, ["/frobnicate", EOFError])
    assert "there is no command /frobnicate" in done.err
    assert prompts(engine) == []


@pytest.mark.parametrize("line", ["/etc/passwd holds what?", "/ is a slash", " /clear", "//"])
def test_text_that_only_begins_like_a_command_is_a_question(chat: Chat, line: str) -> None:
    engine = FakeEngine()
    chat(engine, [line, EOFError])
    assert f"<|turn>user\n{line.strip()}<turn|>" in prompts(engine)[0]


def test_interrupt_at_the_prompt_hints_and_the_second_one_leaves(chat: Chat) -> None:
    done = chat(FakeEngine(), [KeyboardInterrupt, KeyboardInterrupt, "never read"])
    assert done.code == 0
    assert done.err.count("press Ctrl-C again or Ctrl-D to leave") == 1


def test_a_line_in_between_takes_the_first_interrupt_back(chat: Chat) -> None:
    done = chat(
        FakeEngine("one"),
        [KeyboardInterrupt, "a", KeyboardInterrupt, "b", KeyboardInterrupt, KeyboardInterrupt],
    )
    assert done.out == "one\none\n"
    assert done.err.count("press Ctrl-C again") == 3


def test_stopped_answer_leaves_the_conversation_going(chat: Chat) -> None:
    engine = FakeEngine("abcdef", "two", hang_at=3)

    def stop() -> None:
        engine.sessions[0].cancel()
        engine.hang_at = None

    engine.on_hang = stop
    done = chat(engine, ["a", "b", EOFError])
    assert (done.code, done.out) == (0, "abc\ntwo\n")
    assert "stopped" in done.err
    assert "<|turn>model\nabc<turn|>\n<|turn>user\nb" in prompts(engine)[1]


def test_second_interrupt_during_an_answer_does_not_end_the_chat(chat: Chat) -> None:
    engine = FakeEngine("abcdef", "two", hang_at=3)

    def interrupt() -> None:
        engine.hang_at = None
        raise KeyboardInterrupt

    engine.on_hang = interrupt
    done = chat(engine, ["lost", "b", EOFError])
    assert (done.code, done.out) == (0, "abc\ntwo\n")
    assert "lost" not in prompts(engine)[1]


def test_interrupts_right_after_a_stopped_answer_do_not_end_the_chat(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(talk, "monotonic", lambda: 100.0)
    engine = FakeEngine("abcdef", "two", hang_at=3)

    def stop() -> None:
        engine.sessions[0].cancel()
        engine.hang_at = None

    engine.on_hang = stop
    done = chat(engine, ["a", *[KeyboardInterrupt] * 3, "b", EOFError])
    assert (done.code, done.out) == (0, "abc\ntwo\n")


def test_interrupt_that_hits_a_command_does_not_count_as_the_first_at_the_prompt(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command_runner, "show_stats", interrupt)
    monkeypatch.setattr(talk, "SETTLED_S", 0.0)
    engine = FakeEngine("one", "two")
    done = chat(engine, ["a", "/stats", KeyboardInterrupt, "b", EOFError])
    assert (done.code, done.out) == (0, "one\ntwo\n")


def test_interrupt_while_the_one_before_is_told_does_not_end_the_chat(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = talk.Talk.stopped
    interrupts = [KeyboardInterrupt, KeyboardInterrupt]

    def stopped(self: talk.Talk) -> None:
        if interrupts:
            raise interrupts.pop()
        told(self)

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command_runner, "show_stats", interrupt)
    monkeypatch.setattr(talk.Talk, "stopped", stopped)
    done = chat(FakeEngine("one", "two"), ["a", "/stats", "b", EOFError])
    assert (done.code, done.out) == (0, "one\ntwo\n")
    assert done.err.count("stopped") == 1


def test_prompt_that_does_not_fit_is_told_and_the_chat_goes_on(chat: Chat) -> None:
    engine = FakeEngine("one")
    done = chat(engine, ["x" * 100, "a", EOFError], "--ctx", "60")
    assert (done.code, done.out) == (0, "one\n")
    assert "the prompt has 116 tokens and the context 60" in done.err
    assert "/clear" in done.err


def test_full_context_is_told_with_both_numbers(chat: Chat) -> None:
    done = chat(FakeEngine("a" * 100), ["a", EOFError], "--ctx", "60")
    assert done.code == 0
    assert "have 60 tokens and --ctx is 60" in done.err
    assert "/clear" in done.err


def test_question_that_failed_can_be_sent_again_with_its_files(chat: Chat, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("my notes")
    engine = FakeEngine("one")
    done = chat(engine, [f"/read {file}", "x" * 200, "a", EOFError], "--ctx", "100")
    assert "to be typed anew" in done.err
    assert "user\nnotes.txt:\nmy notes\n\na<turn|>" in prompts(engine)[0]


def test_question_that_failed_stays_saved_as_unanswered(chat: Chat) -> None:
    done = chat(FakeEngine("one"), ["x" * 100, EOFError], "--ctx", "60")
    assert "the prompt has 116 tokens" in done.err
    saved = Store(chats_file(), print).load().content
    assert (saved.document["messages"], saved.pending) == ([], "x" * 100)


def test_blank_message_gives_an_edit_up(chat: Chat) -> None:
    engine = FakeEngine("one", "two")
    chat(engine, ["a", "/edit", "", "b", EOFError])
    assert "<|turn>model\none<turn|>\n<|turn>user\nb<turn|>" in prompts(engine)[1]


def test_interrupt_while_a_model_is_freed_leaves_a_chat_that_works(chat: Chat) -> None:
    class Interrupted(FakeEngine):
        def close(self) -> None:
            if not self.closed:
                self.closed = True
                raise KeyboardInterrupt

    engine = Interrupted("one")
    chat(engine, ["a", "/model tiny", "b", EOFError])
    assert "<|turn>user\nb<turn|>" in VOCAB.decode(engine.sessions[1].prompts[0])


def test_loading_ends_although_telling_of_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: failed.set())

    def load() -> OpenedChat:
        raise UsageError("no model")

    def told(_error: BaseException | None) -> None:
        raise RuntimeError("the prompt is gone")

    opening = Opening("tiny", load, {})
    opening.start(told)
    with pytest.raises(UsageError, match="no model"):
        opening.wait()
    assert failed.wait(30)


def test_only_the_seed_that_was_given_reaches_the_engine(chat: Chat) -> None:
    def seeds(*arguments: str) -> set[int | None]:
        engine = FakeEngine("one")
        chat(engine, ["a", "b", "c", "d", EOFError], *arguments)
        return {sampling.seed for sampling in engine.sessions[0].samplings}

    assert seeds() == {None}
    assert seeds("--seed", "3") == {3}
