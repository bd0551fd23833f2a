"""Sessions in PostgreSQL: append-only, shared by every process that works on the same database."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TypeVar

from nanobot.errors import StoreError
from nanobot.messages import AssistantMessage, Message, ToolCall, Usage
from nanobot.session.codec import decode, encode
from nanobot.session.memory import new_id, pick
from nanobot.session.postgres import Postgres, Transaction
from nanobot.session.postgres_layout import REQUEST
from nanobot.session.store import EVER, Record, RecordKind, SessionInfo, intent_of
from nanobot.session.window import first_kept

_INFO = "SELECT id, key, title, messages, created_at, updated_at FROM session"
_RECORD = "SELECT seq, kind, message, turn, at FROM record WHERE session_id = %s"
_SPENT = """
SELECT sum((usage->>'input')::bigint), sum((usage->>'output')::bigint), sum((usage->>'cached')::bigint),
       sum((usage->>'cache_write')::bigint), sum((usage->>'reasoning')::bigint), sum((usage->>'cost')::float8),
       sum((usage->>'requests')::bigint)
FROM record JOIN session ON session.id = record.session_id
WHERE usage IS NOT NULL AND record.at >= %(since)s AND (%(key)s = '' OR session.key = %(key)s)
AND (%(session)s = '' OR session.id = %(session)s)
"""
#: Beyond every `seq`.
_END = 2**31 - 1
T = TypeVar("T")


class PostgresSessionStore:
    """The `SessionStore` in a `Postgres`, which is closed by who made it.

    `worker` names this process; what it holds is free again when it is no longer among the living.
    """

    def __init__(self, database: Postgres, worker: str = "") -> None:
        self._database = database
        self._worker = worker

    async def current(self, key: str) -> SessionInfo:
        return await self._run(lambda db: _current(db, key))

    async def start(self, key: str, title: str = "") -> SessionInfo:
        return await self._run(lambda db: _start(db, key, title))

    async def resume(self, key: str, session_id: str) -> SessionInfo:
        return await self._run(lambda db: _resume(db, key, session_id))

    async def append(self, session_id: str, messages: tuple[Message, ...], *, turn: str = "") -> None:
        await self._run(lambda db: append_records(db, session_id, "message", messages, turn))

    async def intend(self, session_id: str, call: ToolCall, *, turn: str) -> None:
        await self._run(lambda db: append_records(db, session_id, "intent", (intent_of(call),), turn))

    async def begun(self, turn: str) -> tuple[str, tuple[Record, ...]]:
        return await self._run(lambda db: _begun(db, turn))

    async def hold(self, session_id: str) -> str:
        return await self._run(lambda db: _hold(db, f"session:{session_id}", self._worker))

    async def drop(self, session_id: str) -> None:
        async def work(db: Transaction) -> None:
            change = "DELETE FROM lease WHERE name = %s AND holder = %s"
            await db.execute(change, (f"session:{session_id}", self._worker))

        await self._run(work)

    async def history(self, session_id: str, *, size: int = 0, before: int = 0) -> tuple[Message, ...]:
        return await self._run(lambda db: _history(db, session_id, size, before or _END))

    async def transcript(self, session_id: str, *, after: int = 0, limit: int = 0) -> tuple[Record, ...]:
        return await self._run(lambda db: _transcript(db, session_id, after, limit))

    async def list(self, key: str = "", *, limit: int = 50) -> tuple[SessionInfo, ...]:
        return await self._run(lambda db: _list(db, key, limit))

    async def rename(self, session_id: str, title: str) -> None:
        await self._run(lambda db: _rename(db, session_id, title))

    async def spent(self, since: datetime = EVER, *, key: str = "", session: str = "") -> Usage:
        return await self._run(lambda db: _spent(db, {"since": since, "key": key, "session": session}))

    async def aclose(self) -> None:
        return None

    async def _run(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        try:
            return await self._database.run(work)
        except StoreError as error:
            told = f"{self._database.place}: {error}" if "stored message" in str(error) else str(error)
            raise StoreError(told) from error


async def append_records(
    db: Transaction, session_id: str, kind: RecordKind, messages: tuple[Message, ...], turn: str
) -> None:
    """Add records at the end of a session, inside the caller's transaction. The session's row gives their numbers."""
    now, shown = datetime.now(UTC), len(messages) if kind == "message" else 0
    change = (
        "UPDATE session SET updated_at = %s, records = records + %s, messages = messages + %s WHERE id = %s "
        "RETURNING records"
    )
    row = await (await db.execute(change, (now, len(messages), shown, session_id))).fetchone()
    if row is None:
        raise unknown_session(session_id)
    first = _int(row[0]) - len(messages) + 1
    lines = [(message, encode(message)) for message in messages]
    rows = [
        (session_id, first + place, kind, message.role, len(line), turn, now, line, _usage(message))
        for place, (message, line) in enumerate(lines)
    ]
    insert = "INSERT INTO record VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s::jsonb)"
    if len(rows) == 1:
        await db.execute(insert, rows[0])
    elif rows:
        async with db.cursor() as cursor:
            await cursor.executemany(insert, rows)


def unknown_session(session_id: str) -> StoreError:
    return StoreError(f"There is no session {session_id!r}. /sessions lists them.")


async def _current(db: Transaction, key: str) -> SessionInfo:
    known = f"{_INFO} WHERE id = (SELECT session_id FROM current WHERE key = %s)"
    row = await (await db.execute(known, (key,))).fetchone()
    return _as_info(row) if row is not None else await _start(db, key, "")


async def _start(db: Transaction, key: str, title: str) -> SessionInfo:
    session_id, now = new_id(), datetime.now(UTC)
    insert = "INSERT INTO session (id, key, title, created_at, updated_at) VALUES (%s, %s, %s, %s, %s)"
    await db.execute(insert, (session_id, key, _plain(title), now, now))
    await _point(db, key, session_id)
    return await _info(db, session_id)


async def _resume(db: Transaction, key: str, wanted: str) -> SessionInfo:
    cursor = await db.execute("SELECT id FROM session WHERE starts_with(id, %s)", (_plain(wanted),))
    session_id = pick(wanted, [str(row[0]) for row in await cursor.fetchall()])
    await _point(db, key, session_id)
    return await _info(db, session_id)


async def _point(db: Transaction, key: str, session_id: str) -> None:
    change = "INSERT INTO current VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET session_id = excluded.session_id"
    await db.execute(change, (key, session_id))


async def _history(db: Transaction, session_id: str, size: int, end: int) -> tuple[Message, ...]:
    await _info(db, session_id)
    hidden = (
        "SELECT max(seq + CASE kind WHEN 'reset' THEN 1 ELSE 0 END) FROM record "
        "WHERE session_id = %s AND kind IN ('compaction', 'reset') AND seq < %s"
    )
    row = await (await db.execute(hidden, (session_id, end))).fetchone()
    first = _int(row[0]) if row is not None else 0
    if size:
        first = await _within(db, session_id, range(first, end), size)
    shown = (
        "SELECT seq, message FROM record WHERE session_id = %s AND seq >= %s AND seq < %s AND kind <> 'intent' "
        "ORDER BY seq"
    )
    cursor = await db.execute(shown, (session_id, first, end))
    return tuple(_decode(session_id, seq, text) for seq, text in await cursor.fetchall())


async def _within(db: Transaction, session_id: str, span: range, limit: int) -> int:
    """The record of `span` from which the newest turns fit into `limit`; reads no message."""
    starts: list[int] = []
    sizes: list[int] = []
    query = "SELECT seq, role, size FROM record WHERE session_id = %s AND seq >= %s AND seq < %s ORDER BY seq"
    for seq, role, size in await (await db.execute(query, (session_id, span.start, span.stop))).fetchall():
        if role == "user" or not starts:
            starts.append(_int(seq))
            sizes.append(_int(size))
        else:
            sizes[-1] += _int(size)
    return starts[first_kept(sizes, limit)] if starts else span.start


async def _transcript(db: Transaction, session_id: str, after: int, limit: int) -> tuple[Record, ...]:
    await _info(db, session_id)
    query = f"{_RECORD} AND seq > %s ORDER BY seq LIMIT %s"
    cursor = await db.execute(query, (session_id, after, limit or None))
    return tuple(_record(session_id, row) for row in await cursor.fetchall())


async def _begun(db: Transaction, turn: str) -> tuple[str, tuple[Record, ...]]:
    """Both places are found by an index, however long ago it was."""
    read = f"SELECT session_id, seq, turn FROM record WHERE role = 'user' AND {REQUEST} = %s LIMIT 1"
    own = "SELECT session_id, seq, turn FROM record WHERE turn = %s ORDER BY seq LIMIT 1"
    place = await (await db.execute(read, (turn,))).fetchone() or await (await db.execute(own, (turn,))).fetchone()
    if place is None:
        return "", ()
    session_id, first, reader = place
    records = f"{_RECORD} AND seq >= %s AND turn IN (%s, %s) ORDER BY seq"
    rows = await (await db.execute(records, (session_id, first, turn, reader))).fetchall()
    return str(session_id), tuple(_record(str(session_id), row) for row in rows)


async def _hold(db: Transaction, name: str, worker: str) -> str:
    """Take a lease that ends when its worker was taken for dead; empty, or who has it."""
    change = (
        "INSERT INTO lease AS old VALUES (%s, %s, 'infinity') "
        "ON CONFLICT (name) DO UPDATE SET holder = excluded.holder "
        "WHERE NOT EXISTS (SELECT 1 FROM lease AS life WHERE life.name = 'worker:' || old.holder)"
    )
    if (await db.execute(change, (name, worker))).rowcount:
        return ""
    row = await (await db.execute("SELECT holder FROM lease WHERE name = %s", (name,))).fetchone()
    return f"worker {row[0]}" if row is not None else "another worker"


async def _list(db: Transaction, key: str, limit: int) -> tuple[SessionInfo, ...]:
    query = f"{_INFO} WHERE %(key)s = '' OR key = %(key)s ORDER BY updated_at DESC, place DESC LIMIT %(limit)s"
    cursor = await db.execute(query, {"key": key, "limit": limit})
    return tuple(_as_info(row) for row in await cursor.fetchall())


async def _spent(db: Transaction, wanted: Mapping[str, object]) -> Usage:
    row = await (await db.execute(_SPENT, wanted)).fetchone()
    sent, received, cached, written, reasoned, cost, requests = row or (0,) * 7
    return Usage(_int(sent), _int(received), _int(cached), _int(written), _int(reasoned), _float(cost), _int(requests))


async def _rename(db: Transaction, session_id: str, title: str) -> None:
    change = await db.execute("UPDATE session SET title = %s WHERE id = %s", (_plain(title), session_id))
    if not change.rowcount:
        raise unknown_session(session_id)


async def _info(db: Transaction, session_id: str) -> SessionInfo:
    row = await (await db.execute(f"{_INFO} WHERE id = %s", (session_id,))).fetchone()
    if row is None:
        raise unknown_session(session_id)
    return _as_info(row)


def _as_info(row: tuple[object, ...]) -> SessionInfo:
    session_id, key, title, count, created, updated = row
    return SessionInfo(str(session_id), str(key), str(title), _int(count), time_of(created), time_of(updated))


def _record(session_id: str, row: tuple[object, ...]) -> Record:
    seq, kind, text, turn, at = row
    return Record(_int(seq), _kind(kind), _decode(session_id, seq, text), str(turn), time_of(at))


def _decode(session_id: str, seq: object, text: object) -> Message:
    try:
        return decode(str(text))
    except StoreError as error:
        raise StoreError(
            f"record {seq} of session {session_id}: {error}. Nothing was changed. /new starts a fresh session."
        ) from error


def _usage(message: Message) -> str | None:
    return json.dumps(asdict(message.usage)) if isinstance(message, AssistantMessage) else None


def _plain(text: str) -> str:
    """What PostgreSQL keeps as text: no zero character, no lone surrogate."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()


def _kind(value: object) -> RecordKind:
    for kind in ("message", "compaction", "reset", "intent"):
        if value == kind:
            return kind
    raise StoreError(f"A stored record is of the unknown kind {value!r}. Update nanobot.")


def time_of(value: object) -> datetime:
    """A time as UTC."""
    if not isinstance(value, datetime):
        raise StoreError(f"The store has {value!r} where a time belongs.")
    return value.astimezone(UTC)


def _int(value: object) -> int:
    return int(str(value)) if value is not None else 0


def _float(value: object) -> float:
    return float(str(value)) if value is not None else 0.0
