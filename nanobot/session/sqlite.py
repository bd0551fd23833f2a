"""Sessions in one SQLite file: append-only, one connection on one thread."""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from nanobot.errors import StoreError
from nanobot.messages import Message
from nanobot.session.codec import decode, encode
from nanobot.session.memory import new_id, pick
from nanobot.session.store import Record, RecordKind, SessionInfo
from nanobot.session.window import first_kept

#: `nano` in ASCII: marks the file as ours (PRAGMA application_id).
APPLICATION_ID = 0x6E616E6F
#: PRAGMA user_version of the layout below. A change of the layout adds one and a step to `MIGRATIONS`.
VERSION = 1
#: From version n to n + 1: SQL statements that run inside one transaction.
MIGRATIONS: Mapping[int, str] = {}
BUSY_SECONDS = 5.0

_LAYOUT = """
CREATE TABLE session (
  id TEXT PRIMARY KEY, key TEXT NOT NULL, title TEXT NOT NULL, created_at TEXT NOT NULL, updated_at TEXT NOT NULL
);
CREATE INDEX session_by_key ON session (key, updated_at);
CREATE TABLE current (key TEXT PRIMARY KEY, session_id TEXT NOT NULL REFERENCES session (id));
CREATE TABLE record (
  session_id TEXT NOT NULL REFERENCES session (id), seq INTEGER NOT NULL,
  kind TEXT NOT NULL, role TEXT NOT NULL, size INTEGER NOT NULL, turn TEXT NOT NULL, at TEXT NOT NULL,
  message TEXT NOT NULL
);
CREATE UNIQUE INDEX record_by_place ON record (session_id, seq);
CREATE INDEX record_by_size ON record (session_id, seq, role, size);
CREATE INDEX record_by_kind ON record (session_id, kind);
CREATE TRIGGER record_is_kept BEFORE DELETE ON record BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
CREATE TRIGGER record_is_fixed BEFORE UPDATE ON record BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
"""
_INFO = """
SELECT id, key, title, (SELECT count(*) FROM record WHERE session_id = session.id AND kind = 'message'),
       created_at, updated_at FROM session
"""
T = TypeVar("T")


class SqliteSessionStore:
    """The `SessionStore` in the file `path`, made on first use; its folder must exist or be creatable.

    Every method runs on one thread of the store, in the order of the calls, and to its end even when its caller is
    cancelled. A file that is damaged, foreign or of a newer nanobot raises `StoreError` and is left as it is.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sessions")
        self._connection: sqlite3.Connection | None = None

    async def current(self, key: str) -> SessionInfo:
        return await self._run(lambda db: _current(db, key))

    async def start(self, key: str, title: str = "") -> SessionInfo:
        return await self._run(lambda db: _start(db, key, title))

    async def resume(self, key: str, session_id: str) -> SessionInfo:
        return await self._run(lambda db: _resume(db, key, session_id))

    async def append(self, session_id: str, messages: tuple[Message, ...], *, turn: str = "") -> None:
        await self._run(lambda db: _append(db, session_id, "message", messages, turn))

    async def compact(self, session_id: str, summary: Message, *, turn: str = "") -> None:
        await self._run(lambda db: _append(db, session_id, "compaction", (summary,), turn))

    async def history(self, session_id: str, *, size: int = 0) -> tuple[Message, ...]:
        return await self._run(lambda db: _history(db, session_id, size))

    async def transcript(self, session_id: str) -> tuple[Record, ...]:
        return await self._run(lambda db: _transcript(db, session_id))

    async def list(self, key: str = "", *, limit: int = 50) -> tuple[SessionInfo, ...]:
        return await self._run(lambda db: _list(db, key, limit))

    async def rename(self, session_id: str, title: str) -> None:
        await self._run(lambda db: _rename(db, session_id, title))

    async def aclose(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.shield(loop.run_in_executor(self._thread, self._close))
        self._thread.shutdown(wait=False)

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        loop = asyncio.get_running_loop()
        # Shielded: a cancelled caller must not take back a write that is queued.
        return await asyncio.shield(loop.run_in_executor(self._thread, self._do, work))

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._connection is None:
                self._connection = _open(self._path)
            with self._connection as db:  # commits, or rolls back
                return work(db)
        except StoreError as error:
            raise StoreError(f"{self._path}: {error}" if "stored message" in str(error) else str(error)) from error
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"The sessions in {self._path} cannot be used: {error}. Nothing was overwritten. "
                "Check the disk, or move the file away to start with an empty one."
            ) from error

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False)
    try:
        _prepare(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    """Check what the file is before anything is written; make or migrate the layout in one transaction."""
    version = _number(db, "PRAGMA user_version")
    mark = _number(db, "PRAGMA application_id")
    empty = _number(db, "SELECT count(*) FROM sqlite_master") == 0
    if not empty and mark != APPLICATION_ID:
        raise StoreError(f"{path} is a database of another program. Nothing was changed. Name another file.")
    if version > VERSION:
        raise StoreError(
            f"{path} was written by a newer nanobot (layout {version}, this one knows {VERSION}). "
            "Nothing was changed. Update nanobot, or name another file."
        )
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute("PRAGMA foreign_keys = ON")
    if empty:
        marks = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};"
        db.executescript(f"BEGIN IMMEDIATE; {_LAYOUT} {marks} COMMIT;")
        return
    for step in range(version, VERSION):
        db.executescript(f"BEGIN IMMEDIATE; {MIGRATIONS[step]} PRAGMA user_version = {step + 1}; COMMIT;")


def _number(db: sqlite3.Connection, query: str) -> int:
    return int(db.execute(query).fetchone()[0])


def _current(db: sqlite3.Connection, key: str) -> SessionInfo:
    row = db.execute("SELECT session_id FROM current WHERE key = ?", (key,)).fetchone()
    return _info(db, row[0]) if row else _start(db, key, "")


def _start(db: sqlite3.Connection, key: str, title: str) -> SessionInfo:
    session_id, now = new_id(), _now()
    db.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?)", (session_id, key, title, now, now))
    _point(db, key, session_id)
    return _info(db, session_id)


def _resume(db: sqlite3.Connection, key: str, wanted: str) -> SessionInfo:
    ids = [row[0] for row in db.execute("SELECT id FROM session WHERE substr(id, 1, ?) = ?", (len(wanted), wanted))]
    session_id = pick(wanted, ids)
    _point(db, key, session_id)
    return _info(db, session_id)


def _point(db: sqlite3.Connection, key: str, session_id: str) -> None:
    db.execute("INSERT INTO current VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET session_id = ?2", (key, session_id))


def _append(
    db: sqlite3.Connection, session_id: str, kind: RecordKind, messages: tuple[Message, ...], turn: str
) -> None:
    if not db.in_transaction:
        db.execute("BEGIN IMMEDIATE")
    _known(db, session_id)
    last = db.execute("SELECT max(seq) FROM record WHERE session_id = ?", (session_id,)).fetchone()[0] or 0
    now = _now()
    lines = [(item.role, encode(item)) for item in messages]
    rows = [
        (session_id, last + number, kind, role, len(line), turn, now, line)
        for number, (role, line) in enumerate(lines, 1)
    ]
    db.executemany("INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    db.execute("UPDATE session SET updated_at = ? WHERE id = ?", (now, session_id))


def _history(db: sqlite3.Connection, session_id: str, size: int) -> tuple[Message, ...]:
    _known(db, session_id)
    hidden = "SELECT max(seq + (kind = 'reset')) FROM record WHERE session_id = ? AND kind IN ('compaction', 'reset')"
    first = db.execute(hidden, (session_id,)).fetchone()[0] or 0
    if size:
        first = _within(db, session_id, first, size)
    shown = "SELECT seq, message FROM record WHERE session_id = ? AND seq >= ? ORDER BY seq"
    return tuple(_decode(session_id, seq, text) for seq, text in db.execute(shown, (session_id, first)))


def _within(db: sqlite3.Connection, session_id: str, first: int, limit: int) -> int:
    """The record from which the newest turns fit into `limit`; reads no message."""
    starts: list[int] = []
    sizes: list[int] = []
    query = "SELECT seq, role, size FROM record WHERE session_id = ? AND seq >= ? ORDER BY seq"
    for seq, role, size in db.execute(query, (session_id, first)):
        if role == "user" or not starts:
            starts.append(seq)
            sizes.append(size)
        else:
            sizes[-1] += size
    return starts[first_kept(sizes, limit)] if starts else first


def _transcript(db: sqlite3.Connection, session_id: str) -> tuple[Record, ...]:
    _info(db, session_id)
    rows = db.execute(
        "SELECT seq, kind, message, turn, at FROM record WHERE session_id = ? ORDER BY seq", (session_id,)
    )
    return tuple(
        Record(seq, kind, _decode(session_id, seq, text), turn, datetime.fromisoformat(at))
        for seq, kind, text, turn, at in rows
    )


def _list(db: sqlite3.Connection, key: str, limit: int) -> tuple[SessionInfo, ...]:
    query = f"{_INFO} WHERE ?1 = '' OR key = ?1 ORDER BY updated_at DESC, rowid DESC LIMIT ?2"
    return tuple(_as_info(row) for row in db.execute(query, (key, limit)))


def _rename(db: sqlite3.Connection, session_id: str, title: str) -> None:
    _known(db, session_id)
    db.execute("UPDATE session SET title = ? WHERE id = ?", (title, session_id))


def _known(db: sqlite3.Connection, session_id: str) -> None:
    if db.execute("SELECT 1 FROM session WHERE id = ?", (session_id,)).fetchone() is None:
        raise StoreError(f"There is no session {session_id!r}. /sessions lists them.")


def _info(db: sqlite3.Connection, session_id: str) -> SessionInfo:
    row = db.execute(f"{_INFO} WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        raise StoreError(f"There is no session {session_id!r}. /sessions lists them.")
    return _as_info(row)


def _as_info(row: tuple[str, str, str, int, str, str]) -> SessionInfo:
    session_id, key, title, count, created, updated = row
    return SessionInfo(session_id, key, title, count, datetime.fromisoformat(created), datetime.fromisoformat(updated))


def _decode(session_id: str, seq: int, text: str) -> Message:
    try:
        return decode(text)
    except StoreError as error:
        raise StoreError(
            f"record {seq} of session {session_id}: {error}. Nothing was changed. /new starts a fresh session."
        ) from error


def _now() -> str:
    return datetime.now(UTC).isoformat()
