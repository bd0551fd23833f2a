"""Sessions in PostgreSQL: append-only, shared by every process that works on the same database."""

import json
from datetime import UTC, datetime

from msgspec.structs import asdict, astuple
from psycopg.rows import args_row

from nanobot.cluster.postgres import ANSWERS, QUARTER, REQUEST, SUMS, Postgres, Transaction, fenced, plain, transaction
from nanobot.errors import StoreError
from nanobot.messages import AssistantMessage, Message, ToolCall, Usage
from nanobot.session.codec import decode, encode
from nanobot.session.memory import new_id, pick
from nanobot.session.store import EVER, Record, RecordKind, SessionInfo, intent_of
from nanobot.session.window import first_kept

_INFO = "SELECT id, key, title, messages, created_at, updated_at FROM session"
_RECORD = "SELECT seq, kind, message, turn, at FROM record WHERE session_id = %s"
_HIDDEN = """
SELECT coalesce(max(seq + CASE kind WHEN 'reset' THEN 1 ELSE 0 END), 0) FROM record
WHERE session_id = %s AND kind IN ('compaction', 'reset') AND seq < %s
"""
_COSTS = "input, output, cached, cache_write, reasoning, cost, requests"
#: By whole quarters of an hour from the first one after `since`, and by answers before that.
_SPENT = f"""
WITH first AS (SELECT {QUARTER.format("%(since)s + interval '15 minutes' - interval '1 microsecond'")} AS whole)
SELECT {SUMS} FROM (
  SELECT session_id, {_COSTS} FROM spending WHERE quarter >= (SELECT whole FROM first)
  UNION ALL
  SELECT session_id, {_COSTS} FROM {ANSWERS}
  WHERE usage IS NOT NULL AND at >= %(since)s AND at < (SELECT whole FROM first)
) AS spent JOIN session ON session.id = spent.session_id
WHERE %(key)s IN ('', session.key) AND %(session)s IN ('', session.id)
"""
_SPEND = f"""
INSERT INTO spending VALUES (%s, {QUARTER.format("%s::timestamptz")}, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (session_id, quarter) DO UPDATE SET ({_COSTS}) = (
  spending.input + excluded.input, spending.output + excluded.output, spending.cached + excluded.cached,
  spending.cache_write + excluded.cache_write, spending.reasoning + excluded.reasoning, spending.cost + excluded.cost,
  spending.requests + excluded.requests)
"""
_POINT = "INSERT INTO current VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET session_id = excluded.session_id"
_BEGUN = """
SELECT session_id, seq, turn FROM record WHERE {} = %s ORDER BY seq LIMIT 1
"""
#: Beyond every `seq`.
_END = 2**31 - 1


class PostgresSessionStore:
    """The `SessionStore` in a `Postgres`, which is closed by who made it.

    What a turn writes is refused where the work of this process has gone to others.
    """

    def __init__(self, database: Postgres) -> None:
        self.database = database

    @transaction
    async def current(self, db: Transaction, key: str) -> SessionInfo:
        query = f"{_INFO} WHERE id = (SELECT session_id FROM current WHERE key = %s)"
        known = await _infos(db, query, (key,))
        return known[0] if known else await _start(db, key, "")

    @transaction
    async def start(self, db: Transaction, key: str, title: str = "") -> SessionInfo:
        return await _start(db, key, title)

    @transaction
    async def resume(self, db: Transaction, key: str, session_id: str) -> SessionInfo:
        rows = await db.execute("SELECT id FROM session WHERE starts_with(id, %s)", (plain(session_id),))
        found = pick(session_id, [row[0] for row in await rows.fetchall()])
        await db.execute(_POINT, (key, found))
        return await _info(db, found)

    @fenced
    async def append(self, db: Transaction, session_id: str, messages: tuple[Message, ...], *, turn: str = "") -> None:
        await append_records(db, session_id, "message", messages, turn)

    @fenced
    async def intend(self, db: Transaction, session_id: str, call: ToolCall, *, turn: str) -> None:
        await append_records(db, session_id, "intent", (intent_of(call),), turn)

    @transaction
    async def begun(self, db: Transaction, turn: str) -> tuple[str, tuple[Record, ...]]:
        """Both places are found by an index, however long ago it was."""
        for place in (f"role = 'user' AND {REQUEST}", "turn"):
            row = await (await db.execute(_BEGUN.format(place), (turn,))).fetchone()
            if row is not None:
                session, first, reader = row
                query = f"{_RECORD} AND seq >= %s AND turn IN (%s, %s) ORDER BY seq"
                return session, await _records(db, query, (session, first, turn, reader))
        return "", ()

    @fenced
    async def hold(self, db: Transaction, session_id: str) -> str:
        """It is free again at the latest when this worker was taken for dead."""
        name = f"session:{session_id}"
        change = "INSERT INTO lease VALUES (%s, %s, 'infinity') ON CONFLICT (name) DO NOTHING"
        if (await db.execute(change, (name, self.database.worker))).rowcount:
            return ""
        row = await (await db.execute("SELECT holder FROM lease WHERE name = %s", (name,))).fetchone()
        return f"worker {row[0]}" if row is not None else "another worker"

    @transaction
    async def drop(self, db: Transaction, session_id: str) -> None:
        change = "DELETE FROM lease WHERE name = %s AND holder = %s"
        await db.execute(change, (f"session:{session_id}", self.database.worker))

    @transaction
    async def history(self, db: Transaction, session_id: str, *, size: int = 0, before: int = 0) -> tuple[Message, ...]:
        await _info(db, session_id)
        end = before or _END
        row = await (await db.execute(_HIDDEN, (session_id, end))).fetchone()
        first: int = row[0] if row is not None else 0
        if size:
            first = await _cut(db, (session_id, size), range(first, end))
        query = f"{_RECORD} AND seq >= %s AND seq < %s AND kind <> 'intent' ORDER BY seq"
        return tuple(record.message for record in await _records(db, query, (session_id, first, end)))

    @transaction
    async def transcript(
        self, db: Transaction, session_id: str, *, after: int = 0, limit: int = 0
    ) -> tuple[Record, ...]:
        await _info(db, session_id)
        return await _records(db, f"{_RECORD} AND seq > %s ORDER BY seq LIMIT %s", (session_id, after, limit or _END))

    @transaction
    async def list(self, db: Transaction, key: str = "", *, limit: int = 50) -> tuple[SessionInfo, ...]:
        query = f"{_INFO} WHERE %s IN ('', key) ORDER BY updated_at DESC, place DESC LIMIT %s"
        return tuple(await _infos(db, query, (key, limit)))

    @transaction
    async def rename(self, db: Transaction, session_id: str, title: str) -> None:
        await _info(db, session_id)
        await db.execute("UPDATE session SET title = %s WHERE id = %s", (plain(title), session_id))

    @transaction
    async def spent(self, db: Transaction, since: datetime = EVER, *, key: str = "", session: str = "") -> Usage:
        async with db.cursor(row_factory=args_row(Usage)) as cursor:
            await cursor.execute(_SPENT, {"since": since, "key": key, "session": session})
            return await cursor.fetchone() or Usage()

    async def aclose(self) -> None:
        return None


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
        raise _unknown(session_id)
    first, lines = row[0] - len(messages) + 1, [(message, encode(message)) for message in messages]
    rows = [
        (session_id, first + place, kind, message.role, len(line), turn, now, line, _usage(message))
        for place, (message, line) in enumerate(lines)
    ]
    async with db.cursor() as cursor:
        await cursor.executemany("INSERT INTO record VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s::jsonb)", rows)
    for used in (item.usage for item in messages if isinstance(item, AssistantMessage) and item.usage != Usage()):
        await db.execute(_SPEND, (session_id, now, *astuple(used)))


async def _start(db: Transaction, key: str, title: str) -> SessionInfo:
    session_id, now = new_id(), datetime.now(UTC)
    insert = "INSERT INTO session (id, key, title, created_at, updated_at) VALUES (%s, %s, %s, %s, %s)"
    await db.execute(insert, (session_id, key, plain(title), now, now))
    await db.execute(_POINT, (key, session_id))
    return await _info(db, session_id)


async def _cut(db: Transaction, of: tuple[str, int], span: range) -> int:
    """The record of `span` from which the newest turns fit into a size; the kept one spares the records before it.

    A cut depends on what came before it alone, so a span that begins at an earlier cut has the same later ones.
    """
    row = await (await db.execute("SELECT seq FROM cut WHERE session_id = %s AND size = %s", of)).fetchone()
    begin = max(span.start, row[0]) if row is not None and row[0] < span.stop else span.start
    cut = await _within(db, of, range(begin, span.stop))
    if cut > begin and span.stop == _END:
        change = "INSERT INTO cut VALUES (%s, %s, %s) ON CONFLICT (session_id, size) DO UPDATE SET seq = excluded.seq"
        await db.execute(change, (*of, cut))
    return cut


async def _within(db: Transaction, of: tuple[str, int], span: range) -> int:
    """Reads no message."""
    starts: list[int] = []
    sizes: list[int] = []
    query = "SELECT seq, role, size FROM record WHERE session_id = %s AND seq >= %s AND seq < %s ORDER BY seq"
    for seq, role, size in await (await db.execute(query, (of[0], span.start, span.stop))).fetchall():
        if role == "user" or not starts:
            starts.append(seq)
            sizes.append(size)
        else:
            sizes[-1] += size
    return starts[first_kept(sizes, of[1])] if starts else span.start


async def _info(db: Transaction, session_id: str) -> SessionInfo:
    found = await _infos(db, f"{_INFO} WHERE id = %s", (session_id,))
    if not found:
        raise _unknown(session_id)
    return found[0]


async def _infos(db: Transaction, query: str, values: tuple[str | int, ...]) -> list[SessionInfo]:
    async with db.cursor(row_factory=args_row(SessionInfo)) as cursor:
        return await (await cursor.execute(query.encode(), values)).fetchall()


async def _records(db: Transaction, query: str, values: tuple[str | int, ...]) -> tuple[Record, ...]:
    """The records that a query finds in the session that its first value names."""
    rows = await (await db.execute(query.encode(), values)).fetchall()
    return tuple(Record(seq, kind, _decode(values[0], seq, text), turn, at) for seq, kind, text, turn, at in rows)


def _decode(session_id: str | int, seq: int, text: str) -> Message:
    try:
        return decode(text)
    except StoreError as error:
        raise StoreError(
            f"record {seq} of session {session_id}: {error}. Nothing was changed. /new starts a fresh session."
        ) from error


def _unknown(session_id: str) -> StoreError:
    return StoreError(f"There is no session {session_id!r}. /sessions lists them.")


def _usage(message: Message) -> str | None:
    return json.dumps(asdict(message.usage)) if isinstance(message, AssistantMessage) else None
