"""Sessions in one SQLite file: append-only, on the thread of a `Database`."""

import asyncio
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from msgspec.structs import astuple

from nanobot.errors import StoreError
from nanobot.messages import AssistantMessage, Message, ToolCall, Usage
from nanobot.session.codec import decode, encode
from nanobot.session.database import REQUEST, Database
from nanobot.session.lock import FileLock, session_lock
from nanobot.session.memory import new_id, pick
from nanobot.session.store import EVER, Record, RecordKind, SessionInfo, intent_of
from nanobot.session.window import first_kept

_INFO = "SELECT id, key, title, messages, created_at, updated_at FROM session"
_RECORD = "SELECT seq, kind, message, turn, at FROM record WHERE session_id = ?"
_PLACE = "SELECT session_id, seq, turn FROM record WHERE"
#: By whole quarters of an hour from the first one after `since`, and by answers before that.
_SPENT = """
SELECT coalesce(sum(input), 0), coalesce(sum(output), 0), coalesce(sum(cached), 0), coalesce(sum(cache_write), 0),
       coalesce(sum(reasoning), 0), coalesce(sum(cost), 0.0), coalesce(sum(requests), 0)
FROM (
  SELECT session_id, input, output, cached, cache_write, reasoning, cost, requests FROM spending WHERE quarter >= :whole
  UNION ALL
  SELECT session_id, input, output, cached, cache_write, reasoning, cost, requests FROM answers
  WHERE at >= :since AND at < :whole
) AS spent JOIN session ON session.id = spent.session_id
WHERE (:key = '' OR session.key = :key) AND (:session = '' OR session.id = :session)
"""
_SPEND = """
INSERT INTO spending VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET input = input + excluded.input,
output = output + excluded.output, cached = cached + excluded.cached, cache_write = cache_write + excluded.cache_write,
reasoning = reasoning + excluded.reasoning, cost = cost + excluded.cost, requests = requests + excluded.requests
"""
#: Beyond every `seq`.
_END = 2**62
T = TypeVar("T")


class SqliteSessionStore:
    """The `SessionStore` in a file or in a `Database` that others use too; the latter is closed by who made it."""

    def __init__(self, place: Path | Database) -> None:
        self._database = Database(place) if isinstance(place, Path) else place
        self._owned = isinstance(place, Path)
        self._held: dict[str, FileLock] = {}

    async def current(self, key: str) -> SessionInfo:
        return await self._run(lambda db: _current(db, key))

    async def start(self, key: str, title: str = "") -> SessionInfo:
        return await self._run(lambda db: _start(db, key, title))

    async def resume(self, key: str, session_id: str) -> SessionInfo:
        return await self._run(lambda db: _resume(db, key, session_id))

    async def append(self, session_id: str, messages: tuple[Message, ...], *, turn: str = "") -> None:
        await self._run(lambda db: append_records(db, session_id, "message", messages, turn))

    async def intend(self, session_id: str, call: ToolCall, *, turn: str) -> None:
        line = (intent_of(call),)
        await self._run(lambda db: append_records(db, session_id, "intent", line, turn), durable=True)

    async def begun(self, turn: str) -> tuple[str, tuple[Record, ...]]:
        return await self._run(lambda db: _begun(db, turn))

    async def hold(self, session_id: str) -> str:
        lock = session_lock(self._database.path, session_id)
        holder = await asyncio.to_thread(lock.take)
        if not holder:
            self._held[session_id] = lock
        return holder

    async def drop(self, session_id: str) -> None:
        lock = self._held.pop(session_id, None)
        if lock is not None:
            await asyncio.to_thread(lock.release)

    async def history(self, session_id: str, *, size: int = 0, before: int = 0) -> tuple[Message, ...]:
        moved, messages = await self._run(lambda db: _history(db, session_id, size, before or _END))
        if moved and not before:
            await self._run(lambda db: _keep_cut(db, (session_id, size, moved)))
        return messages

    async def transcript(self, session_id: str, *, after: int = 0, limit: int = 0) -> tuple[Record, ...]:
        return await self._run(lambda db: _transcript(db, session_id, after, limit or -1), reading=True)

    async def list(self, key: str = "", *, limit: int = 50) -> tuple[SessionInfo, ...]:
        return await self._run(lambda db: _list(db, key, limit), reading=True)

    async def rename(self, session_id: str, title: str) -> None:
        await self._run(lambda db: _rename(db, session_id, title))

    async def spent(self, since: datetime = EVER, *, key: str = "", session: str = "") -> Usage:
        return await self._run(lambda db: _spent(db, since.astimezone(UTC), key, session))

    async def aclose(self) -> None:
        if self._owned:
            await self._database.aclose()

    async def _run(self, work: Callable[[sqlite3.Connection], T], *, durable: bool = False, reading: bool = False) -> T:
        try:
            return await (self._database.read(work) if reading else self._database.run(work, durable=durable))
        except StoreError as error:
            told = f"{self._database.path}: {error}" if "stored message" in str(error) else str(error)
            raise StoreError(told) from error


def _current(db: sqlite3.Connection, key: str) -> SessionInfo:
    row = db.execute("SELECT session_id FROM current WHERE key = ?", (key,)).fetchone()
    return _info(db, row[0]) if row else _start(db, key, "")


def _start(db: sqlite3.Connection, key: str, title: str) -> SessionInfo:
    session_id, now = new_id(), _now()
    insert = "INSERT INTO session (id, key, title, created_at, updated_at) VALUES (?, ?, ?, ?, ?)"
    db.execute(insert, (session_id, key, title, now, now))
    _point(db, key, session_id)
    return _info(db, session_id)


def _resume(db: sqlite3.Connection, key: str, wanted: str) -> SessionInfo:
    ids = [row[0] for row in db.execute("SELECT id FROM session WHERE substr(id, 1, ?) = ?", (len(wanted), wanted))]
    session_id = pick(wanted, ids)
    _point(db, key, session_id)
    return _info(db, session_id)


def _point(db: sqlite3.Connection, key: str, session_id: str) -> None:
    change = "INSERT INTO current VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET session_id = excluded.session_id"
    db.execute(change, (key, session_id))


def append_records(
    db: sqlite3.Connection, session_id: str, kind: RecordKind, messages: tuple[Message, ...], turn: str
) -> None:
    """Add records at the end of a session, inside a transaction of the caller's or a new one."""
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
    shown = len(rows) if kind == "message" else 0
    db.execute("UPDATE session SET updated_at = ?, messages = messages + ? WHERE id = ?", (now, shown, session_id))
    for used in (item.usage for item in messages if isinstance(item, AssistantMessage) and item.usage != Usage()):
        db.execute(_SPEND, (session_id, _quarter(now), *astuple(used)))


def _history(db: sqlite3.Connection, session_id: str, size: int, end: int) -> tuple[int, tuple[Message, ...]]:
    """The record of a later cut than the one that is kept, or 0; and the messages from the cut on."""
    _known(db, session_id)
    hidden = (
        "SELECT max(seq + (kind = 'reset')) FROM record "
        "WHERE session_id = ? AND kind IN ('compaction', 'reset') AND seq < ?"
    )
    first = db.execute(hidden, (session_id, end)).fetchone()[0] or 0
    moved = 0
    if size:
        kept = db.execute("SELECT seq FROM cut WHERE session_id = ? AND size = ?", (session_id, size)).fetchone()
        begin = max(first, kept[0]) if kept and kept[0] < end else first
        first = _within(db, session_id, range(begin, end), size)
        moved = first if first > begin else 0
    shown = (
        "SELECT seq, message FROM record WHERE session_id = ? AND seq >= ? AND seq < ? AND kind != 'intent' "
        "ORDER BY seq"
    )
    found = db.execute(shown, (session_id, first, end))
    return moved, tuple(_decode(session_id, seq, text) for seq, text in found)


def _within(db: sqlite3.Connection, session_id: str, span: range, limit: int) -> int:
    """The record of `span` from which the newest turns fit into `limit`; reads no message.

    A cut depends on what came before it alone, so a span that begins at an earlier cut has the same later ones.
    """
    starts: list[int] = []
    sizes: list[int] = []
    query = "SELECT seq, role, size FROM record WHERE session_id = ? AND seq >= ? AND seq < ? ORDER BY seq"
    for seq, role, size in db.execute(query, (session_id, span.start, span.stop)):
        if role == "user" or not starts:
            starts.append(seq)
            sizes.append(size)
        else:
            sizes[-1] += size
    return starts[first_kept(sizes, limit)] if starts else span.start


def _keep_cut(db: sqlite3.Connection, cut: tuple[str, int, int]) -> None:
    if not db.in_transaction:
        db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT OR REPLACE INTO cut VALUES (?, ?, ?)", cut)


def _transcript(db: sqlite3.Connection, session_id: str, after: int, limit: int) -> tuple[Record, ...]:
    _known(db, session_id)
    rows = db.execute(f"{_RECORD} AND seq > ? ORDER BY seq LIMIT ?", (session_id, after, limit))
    return tuple(_record(session_id, row) for row in rows)


def _begun(db: sqlite3.Connection, turn: str) -> tuple[str, tuple[Record, ...]]:
    """Both places are found by an index, however long ago it was."""
    read = f"{_PLACE} role = 'user' AND {REQUEST} = ? LIMIT 1"
    own = f"{_PLACE} turn = ? ORDER BY seq LIMIT 1"
    place = db.execute(read, (turn,)).fetchone() or db.execute(own, (turn,)).fetchone()
    if place is None:
        return "", ()
    session_id, first, reader = place
    rows = db.execute(f"{_RECORD} AND seq >= ? AND turn IN (?, ?) ORDER BY seq", (session_id, first, turn, reader))
    return session_id, tuple(_record(session_id, row) for row in rows)


def _record(session_id: str, row: tuple[int, RecordKind, str, str, str]) -> Record:
    seq, kind, text, turn, at = row
    return Record(seq, kind, _decode(session_id, seq, text), turn, datetime.fromisoformat(at))


def _list(db: sqlite3.Connection, key: str, limit: int) -> tuple[SessionInfo, ...]:
    query = f"{_INFO} WHERE :key = '' OR key = :key ORDER BY updated_at DESC, rowid DESC LIMIT :most"
    return tuple(_as_info(row) for row in db.execute(query, {"key": key, "most": limit}))


def _spent(db: sqlite3.Connection, since: datetime, key: str, session: str) -> Usage:
    at = since.isoformat(timespec="microseconds")
    whole = _quarter((since + timedelta(minutes=15, microseconds=-1)).isoformat())
    row = db.execute(_SPENT, {"since": at, "whole": whole, "key": key, "session": session}).fetchone()
    return Usage(*row)


def _quarter(at: str) -> str:
    """The quarter of an hour of a UTC time in ISO 8601, as `spending` names it."""
    return f"{at[:14]}{int(at[14:16]) // 15 * 15:02}"


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
    return datetime.now(UTC).isoformat(timespec="microseconds")
