"""The SQLite file that saved chats are in: opened, checked, set aside where it is damaged.

Every operation opens the file anew and holds it for one short transaction, under SQLite's rollback
journal. So a program that is killed leaves the state before or after a transaction, two programs
take turns, folders on a network work too (which WAL does not), and nobody holds a file that
another one sets aside.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from gemmachat.errors import DamagedFileError, DownloadError, GemmachatError, NotFoundError
from gemmachat.file_lock import locked

APPLICATION = 0x67636874
"""What SQLite calls the application id: whose file it is."""
FORMAT = 1
BUSY_S = 10.0
_CHECKED_BYTES = 64 << 20  # a larger file is checked when damage has shown

_SCHEMA = """
CREATE TABLE chats (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    revision INTEGER NOT NULL,
    name TEXT NOT NULL,
    model TEXT NOT NULL,
    settings TEXT NOT NULL,
    head TEXT NOT NULL,
    pending TEXT,
    created_at TEXT NOT NULL,
    changed_at TEXT NOT NULL
);
CREATE TABLE messages (
    chat INTEGER NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    role TEXT NOT NULL,
    text TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (chat, place)
) WITHOUT ROWID;
"""
_PROBES = (
    "SELECT id, revision, name, model, settings, head, pending, created_at, changed_at FROM chats "
    "LIMIT 1",
    "SELECT chat, place, role, text, body FROM messages LIMIT 1",
)


class StoreFile:
    """The file at `path`. `warn` is told when a damaged one was set aside."""

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self.path = path
        self._warn = warn
        self._suspect = False  # damage has shown: the next check reads all of the file

    @contextlib.contextmanager
    def transaction(self, *, writing: bool) -> Iterator[sqlite3.Connection]:
        """Open the file and run the block as one transaction, on disk when the block has ended.

        A file that is found damaged when it is opened is set aside, and an empty one takes its
        place. Raises `DamagedFileError` where damage shows later (the next transaction sets the
        file aside) or a newer gemmachat made the file, `NotFoundError` when there is nothing to
        read, and `GemmachatError` where the file cannot be read or written.
        """
        if not writing and not self.path.exists():
            raise NotFoundError("there are no saved chats yet")
        with self._explained():
            connection = self._open()
            try:
                connection.execute("BEGIN IMMEDIATE" if writing else "BEGIN")
                yield connection
                connection.execute("COMMIT")
            finally:
                connection.close()  # without a commit that is a rollback

    def _open(self) -> sqlite3.Connection:
        """A connection to a sound file, a new one if need be."""
        try:
            return self._connect()
        except _DamageError:
            self._set_aside()
        return self._connect()

    def _connect(self) -> sqlite3.Connection:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # What is said in private is for its owner only; SQLite's own files follow.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
        # One damaged text must not keep all others from being read.
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")  # also what is taken back
            _prepare(connection, thoroughly=self._suspect)
        except sqlite3.DatabaseError as error:
            connection.close()
            if _is_damage(error):
                raise _DamageError from error
            raise
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_aside(self) -> None:
        """Rename a damaged file, unless another program has done so meanwhile."""
        try:
            with locked(self.path, lambda: None):
                with contextlib.suppress(_DamageError):
                    self._connect().close()
                    return
                stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
                aside = self.path.with_name(f"{self.path.name}.damaged-{stamp}")
                self.path.rename(aside)
                with contextlib.suppress(FileNotFoundError):
                    Path(f"{self.path}-journal").rename(f"{aside}-journal")
        except DownloadError as error:
            raise DamagedFileError(
                f"{self.path} is damaged, and cannot be set aside in its folder: move it away"
            ) from error
        self._warn(
            f"the saved chats in {self.path} are damaged: the file is now {aside}, untouched, and "
            "chats are saved in a new one"
        )

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if _is_damage(error):
                self._suspect = True
                raise DamagedFileError(f"{self.path} is damaged: {error}") from error
            raise GemmachatError(
                f"the saved chats in {self.path} cannot be used: {error}"
            ) from error
        except OSError as error:
            raise GemmachatError(
                f"the saved chats in {self.path} cannot be used: {error.strerror or error}"
            ) from error


class _DamageError(Exception):
    """The file is no sound file of saved chats."""


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether SQLite says that the file is corrupt or none of its own: for these, the plain class.

    A full disk, a lock or a missing right are subclasses.
    """
    return type(error) is sqlite3.DatabaseError


def _prepare(connection: sqlite3.Connection, *, thoroughly: bool) -> None:
    """Make the tables of a new file; check those of an old one."""
    if not _pragma(connection, "schema_version"):
        connection.execute("BEGIN IMMEDIATE")
        if not _pragma(connection, "schema_version"):  # nobody else was faster
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("COMMIT")
    if _pragma(connection, "application_id") != APPLICATION:
        raise _DamageError
    if (version := _pragma(connection, "user_version")) > FORMAT:
        raise DamagedFileError(
            f"the saved chats are of format {version}, made by a newer gemmachat: update it, or "
            "chat with --no-save"
        )
    _check(connection, thoroughly=thoroughly)


def _check(connection: sqlite3.Connection, *, thoroughly: bool) -> None:
    size = _pragma(connection, "page_count") * _pragma(connection, "page_size")
    if thoroughly or size <= _CHECKED_BYTES:
        found = connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != ("ok",):
            raise _DamageError
    try:
        for probe in _PROBES:
            connection.execute(probe).fetchone()
    except sqlite3.OperationalError as error:
        if "no such" in str(error):
            raise _DamageError from error
        raise


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
