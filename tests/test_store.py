"""Saved chats on disk: kept whole through kills, damage and other programs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gemmachat.errors import DamagedFileError, GemmachatError, NotFoundError
from gemmachat.recording import ChatOrigin, Recording
from gemmachat.store import ChatContent, Store, first_name


def message(role: str, text: str, **more) -> dict:
    return {"role": role, "text": text, **more}


def document(*texts: str) -> dict:
    roles = ("user", "model") * len(texts)
    messages = [message(role, text) for role, text in zip(roles, texts, strict=False)]
    return {"format": 1, "messages": messages}


def content(*texts: str, name: str = "a chat", **more) -> ChatContent:
    return ChatContent(name, "tiny", {"temperature": 0.5}, document(*texts), **more)


class Warned(list):
    def __call__(self, sentence: str) -> None:
        self.append(sentence)


@pytest.fixture
def warned() -> Warned:
    return Warned()


@pytest.fixture
def store(tmp_path: Path, warned: Warned) -> Store:
    return Store(tmp_path / "data" / "chats.sqlite3", warned)


# ---- what is saved comes back --------------------------------------------------------------------


def test_a_chat_comes_back_as_it_was_saved(store: Store) -> None:
    chat = content("Grüße \x1b[31m <|turn> 'x\"; --\0 \U0001f600", "ok", pending="and?")
    chat.document["messages"][1]["tokens"] = [1, 2, 262143]
    saved = store.save(chat)
    assert store.load(saved.id) == saved
    assert store.load() == saved


def test_text_that_is_no_unicode_can_be_saved(store: Store) -> None:
    saved = store.save(content("a\ud800b", name="n\udfff", pending="\ud800"))
    loaded = store.load(saved.id).content
    assert loaded.name == "n?"
    assert loaded.pending == "?"
    assert loaded.document["messages"][0]["text"] == "a\ud800b"


def test_saving_again_replaces_what_changed(store: Store) -> None:
    saved = store.save(content("one", "1", "two", "2", "three", "3"))
    for texts in (("one", "1", "zwei", "2"), ("one", "1", "zwei", "2", "x", "y"), ()):
        saved = store.save(content(*texts), saved.id, saved.revision)
        assert store.load(saved.id).content.document == document(*texts)
    assert len(store.chats()) == 1


def test_keys_of_a_later_document_are_kept(store: Store) -> None:
    later = replace(content("q", "a"), document={**document("q", "a"), "format": 9, "new": [1]})
    assert store.load(store.save(later).id).content.document == later.document


def test_a_text_that_is_damaged_hides_no_other_chat(store: Store) -> None:
    broken, sound = store.save(content("what?", "a")).id, store.save(content("WHAT else", "b")).id
    with sqlite3.connect(store.path) as connection:
        connection.execute(
            "UPDATE messages SET text = CAST(x'77686174ff' AS TEXT) WHERE chat = ?", (broken,)
        )
    assert [chat.id for chat in store.chats("what")] == [sound, broken]
    assert store.load(sound).content.document["messages"]


def test_chats_are_listed_newest_first_and_found_in_any_case(store: Store) -> None:
    first = store.save(content("Über STRASSEN", "100% sure_", name="Roads"))
    second = store.save(content("q", "a", "q2", "a2", name="Other"))
    assert [(chat.id, chat.name, chat.questions) for chat in store.chats()] == [
        (second.id, "Other", 2),
        (first.id, "Roads", 1),
    ]
    store.save(first.content, first.id, first.revision)
    assert [chat.id for chat in store.chats()] == [first.id, second.id]
    for text in ("ÜBER straßen", "100%", "E_", "roads", "'"):
        found = [chat.id for chat in store.chats(text)]
        assert found == ([] if text == "'" else [first.id]), text


def test_a_deleted_chat_leaves_nothing_in_the_file(store: Store) -> None:
    saved = store.save(content("the secret word is xylophone", "hm" * 5000))
    other = store.save(content("q", "a"))
    assert b"xylophone" in store.path.read_bytes()
    store.delete(saved.id)
    assert b"xylophone" not in store.path.read_bytes()
    assert [chat.id for chat in store.chats()] == [other.id]
    with pytest.raises(NotFoundError, match=f"chat {saved.id}"):
        store.load(saved.id)


def test_what_is_taken_back_leaves_nothing_in_the_file(store: Store) -> None:
    saved = store.save(content("q", "a", "the secret word is xylophone", "hm" * 5000))
    assert b"xylophone" in store.path.read_bytes()
    store.save(content("q", "a"), saved.id, saved.revision)
    assert b"xylophone" not in store.path.read_bytes()


def test_numbers_of_deleted_chats_are_not_used_again(store: Store) -> None:
    saved = store.save(content("q"))
    store.delete(saved.id)
    assert store.save(content("q")).id == saved.id + 1


def test_what_is_not_there_is_said(store: Store) -> None:
    with pytest.raises(NotFoundError, match="no saved chats yet"):
        store.load()
    assert not store.path.exists()
    store.delete(store.save(content("q")).id)
    for act in (store.load, store.delete, lambda chat: store.rename(chat, "x")):
        for number in (7, 2**70):
            with pytest.raises(NotFoundError, match=f"no saved chat {number}"):
                act(number)
    with pytest.raises(NotFoundError, match="no saved chats yet"):
        store.load()


def test_chats_are_readable_by_their_owner_only(store: Store) -> None:
    old = os.umask(0)
    try:
        store.save(content("q"))
    finally:
        os.umask(old)
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("Hi", "Hi"),
        ("  two\n\nlines\t here ", "two lines here"),
        ("0123456789" * 10, "0123456789" * 5 + "0123456..."),
    ],
)
def test_a_chat_is_named_after_its_first_question(question: str, name: str) -> None:
    assert first_name(question) == name


# ---- damage --------------------------------------------------------------------------------------


def set_aside(store: Store) -> list[Path]:
    return sorted(store.path.parent.glob("*.damaged-*"))


def spoiled(store: Store, at: int, data: bytes) -> bytes:
    with store.path.open("r+b") as file:
        file.seek(at)
        file.write(data)
    return store.path.read_bytes()


@pytest.mark.parametrize("damage", ["no database", "cut", "header", "page", "tables", "foreign"])
def test_a_damaged_file_is_set_aside_untouched_and_chats_go_on(
    store: Store, warned: Warned, damage: str
) -> None:
    saved = store.save(content(*["word " * 3000] * 20))
    if damage == "no database":
        store.path.write_bytes(b"my diary\n" * 2000)
    elif damage == "cut":
        os.truncate(store.path, store.path.stat().st_size // 2)
    elif damage == "header":
        spoiled(store, 0, bytes(100))
    elif damage == "page":
        spoiled(store, 4096 * 3, b"\xff" * 4096)
    else:
        statement = {"tables": "DROP TABLE messages", "foreign": "PRAGMA application_id = 1"}
        connection = sqlite3.connect(store.path)
        connection.execute(statement[damage])
        connection.close()
    before = store.path.read_bytes()

    again = store.save(saved.content, saved.id, saved.revision)
    assert store.load(again.id).content == saved.content
    (aside,) = set_aside(store)
    assert aside.read_bytes() == before
    (sentence,) = warned
    assert str(aside) in sentence
    assert "damaged" in sentence


def test_one_damaged_chat_spares_the_others(store: Store) -> None:
    bad, good = store.save(content("q", "a")), store.save(content("q", "b"))
    connection = sqlite3.connect(store.path)
    connection.execute("UPDATE messages SET body = '{' WHERE chat = ?", (bad.id,))
    connection.commit()
    connection.close()
    with pytest.raises(DamagedFileError, match=f"chats delete {bad.id}"):
        store.load(bad.id)
    assert store.load(good.id) == good
    store.delete(bad.id)


def test_a_file_of_a_newer_gemmachat_is_left_alone(store: Store, warned: Warned) -> None:
    store.save(content("q"))
    connection = sqlite3.connect(store.path)
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    before = store.path.read_bytes()
    with pytest.raises(DamagedFileError, match="newer gemmachat"):
        store.save(content("q"))
    assert store.path.read_bytes() == before
    assert not set_aside(store)
    assert not warned


def test_a_file_that_cannot_be_written_is_no_damage(store: Store) -> None:
    store.path.mkdir(parents=True)
    with pytest.raises(GemmachatError, match="cannot be used"):
        store.save(content("q"))
    assert not set_aside(store)


# ---- kills and other programs --------------------------------------------------------------------

SAVING = """
import sys
from pathlib import Path
from gemmachat.store import ChatContent, Store
store = Store(Path(sys.argv[1]), print)
saved, texts = None, []
while True:
    texts.append({"role": "user", "text": f"turn {len(texts)} " + "x" * 20000})
    content = ChatContent("n", "m", {}, {"format": 1, "messages": texts})
    saved = store.save(content, saved and saved.id, saved.revision if saved else 0)
    print(len(texts), flush=True)
"""


def test_a_kill_loses_no_saved_turn_and_never_the_file(store: Store, warned: Warned) -> None:
    for round_number in range(4):
        process = subprocess.Popen(
            [sys.executable, "-c", SAVING, str(store.path)], stdout=subprocess.PIPE
        )
        with process:
            told = [int(process.stdout.readline()) for _ in range(3 + round_number)]
            process.send_signal(signal.SIGKILL)
            told += [int(line) for line in process.stdout.read().splitlines()]
        messages = store.load().content.document["messages"]
        # The kill may come after the file has a turn and before that is told.
        assert len(messages) in (told[-1], told[-1] + 1)
        assert all(each["text"].startswith(f"turn {n} ") for n, each in enumerate(messages))
    assert len(store.chats()) == 4
    assert not warned


def _save_many(path: Path, mark: str) -> None:
    store = Store(path, print)
    saved = store.save(content(mark))
    for turn in range(15):
        saved = store.save(content(mark, str(turn)), saved.id, saved.revision)


def test_programs_that_save_at_once_take_turns(store: Store) -> None:
    context = multiprocessing.get_context("spawn")
    programs = [context.Process(target=_save_many, args=(store.path, str(n))) for n in range(4)]
    for program in programs:
        program.start()
    for program in programs:
        program.join(60)
        assert program.exitcode == 0
    saved = [store.load(chat.id) for chat in store.chats()]
    assert sorted(chat.content.document["messages"][0]["text"] for chat in saved) == list("0123")
    assert all(chat.content.document["messages"][1]["text"] == "14" for chat in saved)
    assert [chat.revision for chat in saved] == [16] * 4


def test_two_programs_that_go_on_with_one_chat_both_keep_their_turns(store: Store) -> None:
    saved = store.save(content("q", "a"))
    mine = store.save(content("q", "a", "mine"), saved.id, saved.revision)
    other = store.save(content("q", "a", "other"), saved.id, saved.revision)
    assert mine.id == saved.id != other.id
    assert store.load(mine.id).content.document == document("q", "a", "mine")
    assert store.load(other.id).content.document == document("q", "a", "other")


# ---- a chat while it goes on ---------------------------------------------------------------------


@pytest.fixture
def recording(store: Store, warned: Warned) -> Recording:
    return Recording(store, ChatOrigin("tiny", {"seed": 1}), warned)


def test_a_question_is_saved_before_its_answer(store: Store, recording: Recording) -> None:
    recording.ask("What is a token?", document())
    loaded = store.load(recording.id).content
    assert (loaded.pending, loaded.name) == ("What is a token?", "What is a token?")
    assert (loaded.model, loaded.settings) == ("tiny", {"seed": 1})
    recording.keep(document("What is a token?", "A piece of text."))
    loaded = store.load(recording.id).content
    assert loaded.pending is None
    assert loaded.document == document("What is a token?", "A piece of text.")


def test_a_question_without_an_answer_outlives_a_change_of_settings(
    store: Store, recording: Recording
) -> None:
    recording.ask("q", document())
    recording.origin = ChatOrigin("tiny", {"seed": 2})
    recording.keep(document())
    loaded = store.load(recording.id).content
    assert (loaded.pending, loaded.settings) == ("q", {"seed": 2})


def test_a_chat_without_questions_is_not_saved(store: Store, recording: Recording) -> None:
    recording.keep(document())
    assert recording.id is None
    assert not store.path.exists()


def test_a_branch_leaves_the_chat_so_far_as_it_was(store: Store, recording: Recording) -> None:
    recording.ask("q", document())
    recording.keep(document("q", "a"))
    first = recording.id
    recording.branch()()
    recording.keep(document("q", "b"))
    assert recording.id == first
    recording.branch()
    recording.keep(document("summary", "short"))
    assert recording.id != first
    assert store.load(first).content.document == document("q", "b")
    assert store.load(recording.id).content.document == document("summary", "short")


def test_a_name_stays(store: Store, recording: Recording) -> None:
    recording.ask("one", document())
    recording.rename("Mine")
    recording.ask("two", document("one", "1"))
    assert store.load(recording.id).content.name == "Mine"


def test_a_resumed_chat_goes_on_under_its_number(store: Store, warned: Warned) -> None:
    saved = store.save(content("q", "a"))
    resumed = Recording(store, ChatOrigin("tiny", {}), warned, store.load(saved.id))
    resumed.ask("q2", saved.content.document)
    assert resumed.id == saved.id
    resumed.switch(None)
    resumed.ask("q3", document())
    assert resumed.id != saved.id
    assert not warned


def test_a_chat_that_another_program_changed_goes_on_as_a_new_one(
    store: Store, recording: Recording, warned: Warned
) -> None:
    recording.ask("q", document())
    first = recording.id
    store.delete(first)
    recording.keep(document("q", "a"))
    assert recording.id != first
    assert store.load(recording.id).content.document == document("q", "a")
    (sentence,) = warned
    assert f"chat {first} " in sentence


def test_that_a_chat_cannot_be_saved_is_said_once(tmp_path: Path, warned: Warned) -> None:
    (tmp_path / "file").write_text("")
    recording = Recording(
        Store(tmp_path / "file" / "chats", warned), ChatOrigin("tiny", {}), warned
    )
    recording.ask("q", document())
    recording.keep(document("q", "a"))
    (sentence,) = warned
    assert "not saved" in sentence


def test_without_a_store_nothing_is_written(tmp_path: Path, warned: Warned) -> None:
    recording = Recording(None, ChatOrigin("tiny", {}), warned)
    recording.ask("q", document())
    recording.keep(document("q", "a"))
    assert recording.id is None
    assert not warned


def test_damage_that_shows_late_costs_no_turn(
    store: Store, recording: Recording, warned: Warned, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording.ask("q", document())
    recording.keep(document("q", "word " * 20000))
    # As with a large file, which is not read in full every time.
    monkeypatch.setattr("gemmachat.store_file._CHECKED_BYTES", 0)
    spoiled(store, 4096 * 4, b"\xff" * (store.path.stat().st_size - 4096 * 4))
    recording.keep(document("q", "word " * 20000, "q2", "a2"))
    assert store.load(recording.id).content.document == document("q", "word " * 20000, "q2", "a2")
    assert len(set_aside(store)) == 1
    assert any("damaged" in sentence for sentence in warned)
