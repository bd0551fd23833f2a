"""The ledger in the SQLite file that holds the sessions too."""

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from nanobot.session.database import Database
from nanobot.session.ledger import (
    MOST_ATTEMPTS,
    SUSPECT_AFTER,
    Arrival,
    Closing,
    Counts,
    InboxRow,
    InboxState,
    OutboxItem,
    OutboxRow,
    OutboxState,
    Recovery,
)
from nanobot.session.ledger_memory import Clock, now
from nanobot.session.sqlite import SqliteSessionStore, append_records

T = TypeVar("T")
_INBOX = "SELECT seq, channel, id, payload, key, state, attempts, reason, at, batch FROM inbox"
_OUTBOX = """SELECT seq, turn, part, channel, chat, payload, thread, not_before, state, attempts, message_id, reason, at
             FROM outbox"""
#: Of each chat the rows before the first one that is being sent or waits for its time.
_HELD = """
WITH held AS (
  SELECT chat, min(seq) AS first FROM outbox WHERE channel = :channel
  AND (state = 'sending' OR (state IN ('new', 'unknown') AND not_before > :at)) GROUP BY chat),
served AS (SELECT value FROM json_each(:without))
"""
_DUE = f"""
{_HELD} {_OUTBOX} LEFT JOIN held USING (chat)
WHERE channel = :channel AND state IN ('new', 'unknown') AND not_before <= :at AND (first IS NULL OR seq < first)
AND chat NOT IN served ORDER BY seq LIMIT :limit
"""
#: Whether something else is on its way to a chat before a message that was never shown.
_EARLIER = """
SELECT 1 FROM outbox WHERE channel = :channel AND chat = :chat AND turn <> :turn
AND state IN ('new', 'sending', 'unknown')
AND NOT EXISTS (SELECT 1 FROM outbox WHERE turn = :turn AND part = :part) LIMIT 1
"""
_InboxValues = tuple[int, str, str, str, str, InboxState, int, str, str, int]
_OutboxValues = tuple[int, str, int, str, str, str, str, str, OutboxState, int, str, str, str]


class SqliteLedger:
    """The `Ledger` in `database`, which is closed by who made it. Commits wait for the disk."""

    def __init__(self, database: Database, *, clock: Clock = now) -> None:
        self._database = database
        self._clock = clock
        self.sessions = SqliteSessionStore(database)

    async def accept(self, channel: str, arrivals: tuple[Arrival, ...]) -> tuple[InboxRow, ...]:
        return await self._write(lambda db: _accept(db, channel, arrivals, self._now()))

    async def claim(self, rows: tuple[int, ...]) -> tuple[InboxRow, ...]:
        return await self._write(lambda db: _claim(db, rows))

    async def wait(self, rows: tuple[int, ...]) -> None:
        change = "UPDATE inbox SET state = 'waiting' WHERE state = 'claimed' AND seq = ?"
        await self._write(lambda db: _each(db, change, [(seq,) for seq in rows]), durable=False)

    async def start(self, rows: tuple[int, ...]) -> None:
        change = "UPDATE inbox SET state = 'claimed' WHERE state = 'waiting' AND seq = ?"
        await self._write(lambda db: _each(db, change, [(seq,) for seq in rows]), durable=False)

    async def release(self, rows: tuple[int, ...]) -> None:
        change = "UPDATE inbox SET state = 'new' WHERE state IN ('claimed', 'waiting') AND seq = ?"
        await self._write(lambda db: _each(db, change, [(seq,) for seq in rows]))

    async def bury(self, rows: tuple[int, ...], reason: str, items: tuple[OutboxItem, ...] = ()) -> None:
        def work(db: sqlite3.Connection) -> None:
            _settle(db, rows, "dead", reason, self._now())
            for item in items:
                _put(db, item, "new", self._now())

        await self._write(work)

    async def recover(self, channel: str) -> Recovery:
        return await self._write(lambda db: _recover(db, channel))

    async def finish(
        self, rows: tuple[int, ...], items: tuple[OutboxItem, ...] = (), closing: Closing | None = None
    ) -> tuple[OutboxRow, ...]:
        def work(db: sqlite3.Connection) -> tuple[OutboxRow, ...]:
            if closing is not None:
                append_records(db, closing.session, "message", closing.messages, closing.turn)
            _settle(db, rows, "done", "", self._now())
            return tuple(_put(db, item, "new", self._now()) for item in items)

        return await self._write(work)

    async def hold(self, name: str, holder: str, seconds: float) -> bool:
        until = _text(self._clock() + timedelta(seconds=seconds))
        change = (
            "INSERT INTO lease VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE "
            "SET holder = excluded.holder, until = excluded.until "
            "WHERE lease.holder = excluded.holder OR lease.until <= ?"
        )
        return await self._write(lambda db: db.execute(change, (name, holder, until, self._now())).rowcount == 1)

    async def put(self, items: tuple[OutboxItem, ...]) -> tuple[OutboxRow, ...]:
        return await self._write(lambda db: tuple(_put(db, item, "new", self._now()) for item in items))

    async def draft(self, item: OutboxItem) -> OutboxRow | None:
        return await self._write(lambda db: _draft(db, item, self._now()))

    async def drafts(self, turn: str) -> tuple[OutboxRow, ...]:
        query = f"{_OUTBOX} WHERE turn = ? AND state = 'draft' ORDER BY part"
        return await self._database.run(lambda db: tuple(map(_outbox_row, db.execute(query, (turn,)))))

    async def bind(self, seq: int, message_id: str) -> None:
        change = "UPDATE outbox SET message_id = ? WHERE seq = ?"
        await self._write(lambda db: _each(db, change, [(message_id, seq)]))

    async def due(self, channel: str, *, without: Collection[str] = (), limit: int = 50) -> tuple[OutboxRow, ...]:
        values = {"channel": channel, "at": self._now(), "without": json.dumps(list(without)), "limit": limit}
        return await self._database.run(lambda db: tuple(map(_outbox_row, db.execute(_DUE, values))))

    async def begin(self, seq: int) -> bool:
        change = "UPDATE outbox SET state = 'sending' WHERE state IN ('new', 'unknown') AND seq = ?"
        return await self._write(lambda db: db.execute(change, (seq,)).rowcount == 1)

    async def ack(self, seq: int, message_id: str = "") -> None:
        change = (
            "UPDATE outbox SET state = 'sent', message_id = coalesce(nullif(?, ''), message_id), at = ? WHERE seq = ?"
        )
        await self._write(lambda db: _each(db, change, [(message_id, self._now(), seq)]))

    async def postpone(self, seq: int, until: datetime, *, unsure: bool = False) -> None:
        change = "UPDATE outbox SET state = ?, not_before = ?, attempts = attempts + 1 WHERE seq = ?"
        values = ("unknown" if unsure else "new", _text(until), seq)
        await self._write(lambda db: _each(db, change, [values]))

    async def fail(self, seq: int, reason: str) -> None:
        change = "UPDATE outbox SET state = 'failed', reason = ?, at = ? WHERE seq = ?"
        await self._write(lambda db: _each(db, change, [(reason, self._now(), seq)]))

    async def pending(self, channel: str) -> tuple[OutboxRow, ...]:
        query = f"{_OUTBOX} WHERE channel = ? AND state IN ('new', 'sending', 'unknown') ORDER BY seq"
        return await self._database.run(lambda db: tuple(map(_outbox_row, db.execute(query, (channel,)))))

    async def note(self, key: str) -> str | None:
        query = "SELECT value FROM note WHERE key = ?"
        row = await self._database.run(lambda db: db.execute(query, (key,)).fetchone())
        return None if row is None else str(row[0])

    async def notes(self, prefix: str) -> Mapping[str, str]:
        query = "SELECT key, value FROM note WHERE substr(key, 1, ?) = ? ORDER BY key"
        return await self._database.run(lambda db: dict(db.execute(query, (len(prefix), prefix)).fetchall()))

    async def set_notes(self, changes: Mapping[str, str | None]) -> None:
        await self._write(lambda db: _set_notes(db, changes))

    async def purge(self, before: datetime) -> int:
        return await self._write(lambda db: _purge(db, _text(before)))

    async def counts(self, channel: str) -> Counts:
        return await self._database.run(lambda db: _counts(db, channel))

    async def aclose(self) -> None:
        return None

    def _now(self) -> str:
        return _text(self._clock())

    async def _write(self, work: Callable[[sqlite3.Connection], T], *, durable: bool = True) -> T:
        def whole(db: sqlite3.Connection) -> T:
            if not db.in_transaction:  # else a work that is done together with this one has begun it
                # Taken at once: a lock that is asked for after a read is refused where another process wrote meanwhile.
                db.execute("BEGIN IMMEDIATE")
            return work(db)

        return await self._database.run(whole, durable=durable)


def _accept(db: sqlite3.Connection, channel: str, arrivals: tuple[Arrival, ...], at: str) -> tuple[InboxRow, ...]:
    fresh: list[InboxRow] = []
    insert = (
        "INSERT OR IGNORE INTO inbox (channel, id, payload, key, state, attempts, reason, at) "
        "VALUES (?, ?, ?, ?, 'new', 0, '', ?)"
    )
    for one in arrivals:
        cursor = db.execute(insert, (channel, one.id, one.payload, one.key, at))
        if cursor.rowcount == 1 and cursor.lastrowid is not None:
            fresh.append(_inbox_row(db.execute(f"{_INBOX} WHERE seq = ?", (cursor.lastrowid,)).fetchone()))
    return tuple(fresh)


def _claim(db: sqlite3.Connection, rows: tuple[int, ...]) -> tuple[InboxRow, ...]:
    change = "UPDATE inbox SET state = 'claimed', batch = ? WHERE state = 'new' AND seq = ?"
    begun = [seq for seq in rows if db.execute(change, (rows[0], seq)).rowcount]
    return tuple(_inbox_row(db.execute(f"{_INBOX} WHERE seq = ?", (seq,)).fetchone()) for seq in begun)


def _settle(db: sqlite3.Connection, rows: Iterable[int], state: InboxState, reason: str, at: str) -> None:
    change = "UPDATE inbox SET state = ?, reason = ?, at = ? WHERE state NOT IN ('done', 'dead') AND seq = ?"
    _each(db, change, [(state, reason, at, seq) for seq in rows])


def _recover(db: sqlite3.Connection, channel: str) -> Recovery:
    own = (channel,)
    begun = "SELECT count(DISTINCT batch) FROM inbox WHERE channel = ? AND state = 'claimed' AND attempts < ?"
    alone = db.execute(begun, (channel, MOST_ATTEMPTS)).fetchone() == (1,)
    count = (
        "UPDATE inbox SET attempts = min(attempts + (state = 'claimed'), ?) "
        "WHERE channel = ? AND state IN ('new', 'waiting', 'claimed') AND attempts < ?"
    )
    db.execute(count, (MOST_ATTEMPTS if alone else SUSPECT_AFTER, channel, MOST_ATTEMPTS))
    free = "UPDATE inbox SET state = 'new' WHERE channel = ? AND state IN ('waiting', 'claimed') AND attempts < ?"
    db.execute(free, (channel, MOST_ATTEMPTS))
    db.execute("UPDATE outbox SET state = 'unknown' WHERE channel = ? AND state = 'sending'", own)
    waiting = db.execute(f"{_INBOX} WHERE channel = ? AND state = 'new' ORDER BY seq", own)
    found = tuple(map(_inbox_row, waiting))
    parked = db.execute(f"{_INBOX} WHERE channel = ? AND state = 'claimed' ORDER BY seq", own)
    return Recovery(found, tuple(map(_inbox_row, parked)))


def _draft(db: sqlite3.Connection, item: OutboxItem, at: str) -> OutboxRow | None:
    values = {"channel": item.channel, "chat": item.chat, "turn": item.turn, "part": item.part}
    return None if db.execute(_EARLIER, values).fetchone() else _put(db, item, "draft", at)


def _put(db: sqlite3.Connection, item: OutboxItem, state: OutboxState, at: str) -> OutboxRow:
    not_before = _text(item.not_before) if item.not_before else ""
    db.execute(
        "INSERT OR IGNORE INTO outbox (turn, part, channel, chat, thread, payload, not_before, state, attempts, "
        "message_id, reason, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, '', '', ?)",
        (item.turn, item.part, item.channel, item.chat, item.thread, item.payload, not_before, state, at),
    )
    if state == "new":
        db.execute(
            "UPDATE outbox SET state = CASE message_id WHEN '' THEN 'unknown' ELSE 'new' END, channel = ?, chat = ?, "
            "thread = ?, payload = ?, not_before = ? WHERE turn = ? AND part = ? AND state = 'draft'",
            (item.channel, item.chat, item.thread, item.payload, not_before, item.turn, item.part),
        )
    return _outbox_row(db.execute(f"{_OUTBOX} WHERE turn = ? AND part = ?", (item.turn, item.part)).fetchone())


def _set_notes(db: sqlite3.Connection, changes: Mapping[str, str | None]) -> None:
    for key, value in changes.items():
        if value is None:
            db.execute("DELETE FROM note WHERE key = ?", (key,))
        else:
            change = "INSERT INTO note VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
            db.execute(change, (key, value))


def _purge(db: sqlite3.Connection, before: str) -> int:
    _each(db, "DELETE FROM lease WHERE until < ?", [(before,)])
    gone = db.execute("DELETE FROM inbox WHERE state IN ('done', 'dead') AND at < ?", (before,)).rowcount
    return (
        gone
        + db.execute("DELETE FROM outbox WHERE state IN ('draft', 'sent', 'failed') AND at < ?", (before,)).rowcount
    )


def _counts(db: sqlite3.Connection, channel: str) -> Counts:
    inbox = "SELECT state, count(*) FROM inbox WHERE channel = ? GROUP BY state"
    outbox = "SELECT state, count(*) FROM outbox WHERE channel = ? GROUP BY state"
    return Counts(dict(db.execute(inbox, (channel,)).fetchall()), dict(db.execute(outbox, (channel,)).fetchall()))


def _each(db: sqlite3.Connection, change: str, values: list[tuple[str | int, ...]]) -> None:
    db.executemany(change, values)


def _inbox_row(row: _InboxValues) -> InboxRow:
    seq, channel, update, payload, key, state, attempts, reason, at, batch = row
    return InboxRow(seq, channel, update, payload, key, state, attempts, reason, datetime.fromisoformat(at), batch)


def _outbox_row(row: _OutboxValues) -> OutboxRow:
    seq, turn, part, channel, chat, payload, thread, not_before, state, attempts, message_id, reason, at = row
    due = datetime.fromisoformat(not_before) if not_before else None
    item = OutboxItem(turn, part, channel, chat, payload, thread, due)
    return OutboxRow(seq, item, state, attempts, message_id, reason, datetime.fromisoformat(at))


def _text(at: datetime) -> str:
    """Fixed width, so that texts sort as times do."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")
