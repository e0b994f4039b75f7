"""Saved chats: what was said, with what model and settings, one row a message.

A chat's document is what `Conversation.as_dict` writes. Names, texts and settings come back as they
were given; whoever shows them makes them safe.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gemmachat.errors import DamagedFileError, NotFoundError
from gemmachat.store_file import StoreFile

MAX_NAME = 60  # characters of a name made from the first question
_MAX_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ChatInfo:
    """What a list of chats tells of one."""

    id: int
    name: str
    model: str
    questions: int
    created_at: datetime
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class ChatContent:
    """All that is saved of a chat."""

    name: str
    model: str
    settings: Mapping[str, Any]
    """JSON values by the names of `gemmachat run`'s options."""
    document: Mapping[str, Any]
    pending: str | None = None
    """A question without an answer: one in flight, or all that is left of it."""


@dataclass(frozen=True, slots=True)
class SavedChat:
    """One saved chat. `revision` counts its changes, so that a program notices another's."""

    id: int
    revision: int
    content: ChatContent


class Store:
    """The saved chats in one file, which is made when the first one is saved.

    Every method is one transaction; see `StoreFile.transaction` for what it raises. Methods that
    look for a chat raise `NotFoundError` when it is not there.
    """

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self._file = StoreFile(path, warn)
        self.path = path

    def save(self, content: ChatContent, chat: int | None = None, revision: int = 0) -> SavedChat:
        """Save a chat, as a new one unless `chat` still has that `revision`.

        Another program may have gone on with the chat or deleted it: neither's turns are lost.
        """
        now = datetime.now(UTC).isoformat()
        with self._file.transaction(writing=True) as connection:
            known = connection.execute("SELECT revision FROM chats WHERE id = ?", (chat,))
            if chat is None or known.fetchone() != (revision,):
                chat, revision = _insert(connection, now), 0
            connection.execute(
                "UPDATE chats SET revision = ?, name = ?, model = ?, settings = ?, head = ?, "
                "pending = ?, changed_at = ? WHERE id = ?",
                (revision + 1, *_columns(content), now, chat),
            )
            _write_messages(connection, chat, content.document["messages"])
        return SavedChat(chat, revision + 1, content)

    def load(self, chat: int | None = None) -> SavedChat:
        """Return a chat, without `chat` the one that was changed last."""
        with self._file.transaction(writing=False) as connection:
            number = _latest(connection) if chat is None else chat
            row = _find(connection, number, "revision, name, model, settings, head, pending")
            bodies = connection.execute(
                "SELECT body FROM messages WHERE chat = ? ORDER BY place", (number,)
            ).fetchall()
        revision, name, model, settings, head, pending = row
        try:
            if any("\ufffd" in text for text in (head, settings, *(body for (body,) in bodies))):
                raise ValueError("JSON is saved in ASCII: this was no UTF-8")
            document = {**json.loads(head), "messages": [json.loads(body) for (body,) in bodies]}
            content = ChatContent(name, model, {**json.loads(settings)}, document, pending)
        except (ValueError, TypeError, RecursionError):
            raise DamagedFileError(
                f"chat {number} in {self.path} is damaged: gemmachat chats delete {number} "
                "removes it"
            ) from None
        return SavedChat(number, revision, content)

    def chats(self, containing: str = "") -> list[ChatInfo]:
        """Return the chats in whose name or messages a text occurs, in any case, newest first."""
        with self._file.transaction(writing=False) as connection:
            connection.create_function("folded", 1, _folded, deterministic=True)
            rows = connection.execute(
                "SELECT id, name, model, "
                "(SELECT count(*) FROM messages WHERE chat = id AND role = 'user'), "
                "created_at, changed_at FROM chats "
                "WHERE instr(folded(CAST(name AS BLOB)), :text) OR EXISTS (SELECT 1 FROM messages "
                "WHERE chat = id AND instr(folded(CAST(text AS BLOB)), :text)) "
                "ORDER BY changed_at DESC, id DESC",
                {"text": _encodable(containing.casefold())},
            ).fetchall()
        return [ChatInfo(*row[:4], *map(_time, row[4:])) for row in rows]

    def rename(self, chat: int, name: str) -> None:
        """Give a chat another name."""
        with self._file.transaction(writing=True) as connection:
            _find(connection, chat, "id")
            connection.execute("UPDATE chats SET name = ? WHERE id = ?", (_encodable(name), chat))

    def delete(self, chat: int) -> None:
        """Remove a chat; what it said is overwritten in the file."""
        with self._file.transaction(writing=True) as connection:
            _find(connection, chat, "id")
            connection.execute("DELETE FROM chats WHERE id = ?", (chat,))


def _folded(text: bytes) -> str:
    return text.decode("utf-8", "replace").casefold()


def first_name(question: str) -> str:
    """Return the name of a chat that begins with this question."""
    words = " ".join(question.split())
    return words if len(words) <= MAX_NAME else words[: MAX_NAME - 3].rstrip() + "..."


def _columns(content: ChatContent) -> tuple[str | None, ...]:
    head = {key: value for key, value in content.document.items() if key != "messages"}
    pending = None if content.pending is None else _encodable(content.pending)
    return (
        _encodable(content.name),
        _encodable(content.model),
        _json(content.settings),
        _json(head),
        pending,
    )


def _insert(connection: sqlite3.Connection, now: str) -> int:
    """Make the row of a new chat, to be filled in."""
    inserted = connection.execute(
        "INSERT INTO chats (revision, name, model, settings, head, created_at, changed_at) "
        "VALUES (0, '', '', '', '', ?, ?)",
        (now, now),
    )
    assert inserted.lastrowid is not None
    return inserted.lastrowid


def _write_messages(
    connection: sqlite3.Connection, chat: int, messages: list[Mapping[str, Any]]
) -> None:
    """Replace what follows the first message that differs: mostly nothing."""
    written = connection.execute(
        "SELECT body FROM messages WHERE chat = ? ORDER BY place", (chat,)
    ).fetchall()
    bodies = [_json(message) for message in messages]
    same = 0
    while same < min(len(bodies), len(written)) and written[same] == (bodies[same],):
        same += 1
    connection.execute("DELETE FROM messages WHERE chat = ? AND place >= ?", (chat, same))
    connection.executemany(
        "INSERT INTO messages (chat, place, role, text, body) VALUES (?, ?, ?, ?, ?)",
        (
            (chat, place, message["role"], _encodable(message["text"]), bodies[place])
            for place, message in enumerate(messages)
            if place >= same
        ),
    )


def _latest(connection: sqlite3.Connection) -> int:
    newest = connection.execute("SELECT id FROM chats ORDER BY changed_at DESC, id DESC LIMIT 1")
    row = newest.fetchone()
    if row is None:
        raise NotFoundError("there are no saved chats yet")
    return int(row[0])


def _find(connection: sqlite3.Connection, chat: int, columns: str) -> Any:
    found = None
    if chat <= _MAX_ID:
        found = connection.execute(f"SELECT {columns} FROM chats WHERE id = ?", (chat,)).fetchone()
    if found is None:
        raise NotFoundError(f"there is no saved chat {chat}: gemmachat chats lists them")
    return found


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


def _encodable(text: str) -> str:
    """The text without lone surrogates, which SQLite could not hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):  # written by somebody else
        return datetime.fromtimestamp(0, UTC)
