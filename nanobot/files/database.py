"""`files.db`, in which the room of files notes what it does, and the lock by which one of all processes changes files.

Nothing is made before something is noted: who never changes a file has no such database.
"""

import contextlib
import fcntl
import json
import os
import re
import sqlite3
import stat
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import astuple

from nanobot.errors import PathError, StoreError
from nanobot.utils.host import held_advice, write_ahead
from nanobot.utils.text import is_whole
from nanobot.utils.translation import _, sentences

#: Seconds to wait for somebody else who changes a file, and between two looks.
_PATIENCE, _LOOK = 10.0, 0.005
#: `changes` are those that `/undo` takes back, in their order: of the file `path`, or of a command, whose line that is,
#: and `steps` say what was done. In a step no `mode` stands for what was not there before, no `before` for what was
#: not kept, no `after` for what has gone, and an empty one for what others may have changed as well. `origins` are
#: files from outside, `commands` those that run now and may write such files. `steering` is what steers as it is to be
#: while one of them runs (`top`: a place of such files; no `digest`: nothing is there). `mirror` says which version of
#: each file in the roots is kept.
_LAYOUT = """
CREATE TABLE IF NOT EXISTS changes (
  id INTEGER PRIMARY KEY, session TEXT NOT NULL, path TEXT NOT NULL, at REAL NOT NULL,
  undone INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS changes_of_session ON changes (session, id);
CREATE TABLE IF NOT EXISTS steps (
  change INTEGER NOT NULL, path TEXT NOT NULL, mode INTEGER, before TEXT, after TEXT,
  labels TEXT NOT NULL DEFAULT '[]', PRIMARY KEY (change, path)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS origins (path TEXT PRIMARY KEY, labels TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS commands (
  id INTEGER PRIMARY KEY, process INTEGER NOT NULL, token TEXT NOT NULL, roots TEXT NOT NULL, at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS steering (
  command INTEGER NOT NULL, path TEXT NOT NULL, top INTEGER NOT NULL DEFAULT 0, mode INTEGER NOT NULL DEFAULT 0,
  digest TEXT NOT NULL DEFAULT '', text BLOB,
  PRIMARY KEY (command, path)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS mirror (
  path TEXT PRIMARY KEY, inode INTEGER NOT NULL, size INTEGER NOT NULL, written INTEGER NOT NULL,
  changed INTEGER NOT NULL, digest TEXT NOT NULL) WITHOUT ROWID;
"""
#: From a file in which a change of one file said itself what was done. Of what was deleted it did not say the mode,
#: which stays as it is in the trash where a step has none; nor the origins, which are those that the next change has
#: found at that place, or that are known now.
_OF_ONE = """
INSERT INTO steps SELECT id, path,
  CASE WHEN trash IS NOT NULL THEN 32768 WHEN before IS NOT NULL THEN 33188 END,
  coalesce('trash:' || trash, before), after,
  CASE WHEN trash IS NULL THEN labels ELSE coalesce(
    (SELECT later.labels FROM changes AS later WHERE later.path = changes.path AND later.id > changes.id
       AND later.after IS NOT NULL ORDER BY later.id LIMIT 1),
    (SELECT origins.labels FROM origins WHERE origins.path = changes.path), '[]') END
FROM changes WHERE after IS NOT NULL OR trash IS NOT NULL;
ALTER TABLE changes DROP COLUMN before;
ALTER TABLE changes DROP COLUMN after;
ALTER TABLE changes DROP COLUMN trash;
ALTER TABLE changes DROP COLUMN labels
"""
_COLUMNS = "SELECT 1 FROM pragma_table_info('changes') WHERE name = 'trash'"


class Step(Struct, frozen=True, array_like=True):
    """What was done at one path: `mode` and `before` are None for what was not there or is not kept, `after` for what
    is gone, empty for what others may have changed as well. `labels` are the origins of what stood there."""

    path: str
    mode: int | None
    before: str | None
    after: str | None
    labels: tuple[str, ...] = ()

    @property
    def is_folder(self) -> bool:
        return self.after == "folder" if self.mode is None else stat.S_ISDIR(self.mode)

    @property
    def by_content(self) -> bool:
        """Whether `after` is the digest of a file, and not what `files.snapshots.as_text` says of it."""
        after = self.after or ""
        return len(after) == 64 and ":" not in after


class _FilesConnection(sqlite3.Connection):
    """Keeps the names of files byte by byte: one may be no UTF-8, as out of an archive from elsewhere."""

    def execute(self, sql: str, values: Sequence[object] = (), /) -> sqlite3.Cursor:  # type: ignore[override]
        try:
            return super().execute(sql, values)
        except UnicodeEncodeError:
            odd = [isinstance(one, str) and not is_whole(one) for one in values]
            marks = iter("CAST(? AS TEXT)" if one else "?" for one in odd)
            said = re.sub(r"\?", lambda _: next(marks), sql)
            given = [os.fsencode(str(value)) if one else value for value, one in zip(values, odd, strict=True)]
            return super().execute(said, given)

    def executemany(self, sql: str, rows: Sequence[Sequence[object]], /) -> sqlite3.Cursor:  # type: ignore[override]
        try:
            return super().executemany(sql, rows)
        except UnicodeEncodeError:  # what was put before that row is put again
            return [self.execute(sql, row) for row in rows][-1]


class FilesDatabase:
    """The database in `folder`, opened when it is needed. Its methods wait for the disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.RLock()
        self._database: sqlite3.Connection | None = None

    def rows(self, sql: str, *values: object) -> list[tuple[str, ...]]:
        """What a query finds; nothing where nothing was ever noted. Numbers come as numbers. Raises `StoreError`."""
        with self._lock:
            if self._database is None and not (self.folder / "files.db").exists():
                return []  # what was never changed leaves no trace
            with self._told():
                return self._open().execute(sql, values).fetchall()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction that holds every other one off, also those of other processes. Raises `StoreError`."""
        with self._lock, self._told():
            database = self._open()
            with database:
                database.execute("BEGIN IMMEDIATE")
                yield database

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else changes a file between its reading and its writing, neither here nor in another process.

        Raises `PathError` where somebody does for `_PATIENCE` seconds.
        """
        with self._lock:
            try:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                lock = os.open(self.folder / "files.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                why = error.strerror or error
                raise StoreError(_("{path} cannot be written: {why}.", path=self.folder, why=why)) from error
            try:
                _take(lock)
                yield
            finally:
                os.close(lock)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            path = self.folder / "files.db"
            raise StoreError(_("{path} cannot be read or written: {why}.", path=path, why=error)) from error

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            path = self.folder / "files.db"
            try:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                database = sqlite3.connect(path, check_same_thread=False, timeout=_PATIENCE, factory=_FilesConnection)
                database.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
                weakref.finalize(self, database.close)  # where nobody closes it
                path.chmod(0o600)
                write_ahead(database, _PATIENCE)
                database.executescript(_LAYOUT)
                if database.execute(_COLUMNS).fetchone():
                    _renew(database)
            except (sqlite3.Error, OSError) as error:
                said = _("{path} cannot be opened: {why}.", path=path, why=error)
                raise StoreError(sentences(said, held_advice(error) or unusable_advice())) from error
            self._database = database
        return self._database

    def close(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None


def unusable_advice() -> str:
    """What to do where the file cannot be used."""
    return _(
        "Put that of a backup in its place, or move it away: /undo then goes back no further, and files from outside "
        "count as your own."
    )


def note(database: sqlite3.Connection, session: str, about: str, steps: Iterable[Step]) -> int:
    """Note a change of a chat, of the file or by the command that it is `about`; its number."""
    row = (session, about, time.time())
    number = database.execute("INSERT INTO changes (session, path, at) VALUES (?, ?, ?)", row).lastrowid or 0
    rows = [(number, *astuple(one)[:-1], as_json(one.labels)) for one in steps]
    database.executemany("INSERT OR REPLACE INTO steps VALUES (?, ?, ?, ?, ?, ?)", rows)
    return number


def _renew(database: sqlite3.Connection) -> None:
    """Another process may do it first."""
    with database:
        database.execute("BEGIN IMMEDIATE")
        for statement in _OF_ONE.split(";") if database.execute(_COLUMNS).fetchone() else ():
            database.execute(statement)


def as_json(labels: tuple[str, ...]) -> str:
    """Labels or paths as they stand in a column."""
    return json.dumps(labels)


def from_json(text: str) -> tuple[str, ...]:
    return tuple(map(str, json.loads(text)))


def _take(lock: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise PathError(_("Another nanobot changes files all the time. Try again later.")) from None
            time.sleep(_LOOK)
        else:
            return
