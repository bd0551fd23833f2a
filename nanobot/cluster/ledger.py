"""The ledger in PostgreSQL, for many gateways: rows know which worker has them, Procrastinate hands them out.

An update is kept and queued in one transaction, as a job whose lock is the session: the engine runs the jobs of one
session one at a time, in their order, each at least once. Who may begin and who may finish is decided here, by claims
that carry the worker's name and by unique keys. A worker that was taken for dead can write nothing any more.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta

from msgspec.structs import asdict
from procrastinate import App
from procrastinate.jobs import Job
from psycopg.rows import args_row

from nanobot.cluster.postgres import EngineConnector, Postgres, Transaction, fenced, plain, transaction
from nanobot.cluster.sessions import PostgresSessionStore, append_records
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
from nanobot.session.memory import new_id

#: The tasks of the engine: to serve an update, and to be there.
SERVE, PRESENT = "nanobot.serve", "nanobot.present"
_INBOX = "seq, channel, id, payload, key, state, attempts, reason, at, batch"
_OUTBOX = "seq, turn, part, channel, chat, payload, thread, not_before, state, attempts, message_id, reason, at"
_ACCEPT = f"""
INSERT INTO inbox (channel, id, payload, key, state, attempts, reason, at)
SELECT %(channel)s, id, payload, key, 'new', 0, '', %(at)s
FROM unnest(%(ids)s::text[], %(payloads)s::text[], %(keys)s::text[]) WITH ORDINALITY AS given (id, payload, key, place)
ORDER BY place
ON CONFLICT DO NOTHING RETURNING {_INBOX}
"""
_PUT = f"""
INSERT INTO outbox AS old (turn, part, channel, chat, thread, payload, not_before, state, attempts, message_id, reason,
                           at, worker)
VALUES (%(turn)s, %(part)s, %(channel)s, %(chat)s, %(thread)s, %(payload)s, %(not_before)s, %(state)s, 0, '', '',
        %(at)s, %(worker)s)
ON CONFLICT (turn, part) DO UPDATE SET (state, worker, channel, chat, thread, payload, not_before) = (
  SELECT CASE old.message_id WHEN '' THEN 'unknown' ELSE excluded.state END, excluded.worker, excluded.channel,
         excluded.chat, excluded.thread, excluded.payload, excluded.not_before
         WHERE old.state = 'draft' AND excluded.state = 'new'
  UNION ALL
  SELECT old.state, CASE old.state WHEN 'draft' THEN excluded.worker ELSE old.worker END, old.channel, old.chat,
         old.thread, old.payload, old.not_before WHERE NOT (old.state = 'draft' AND excluded.state = 'new')
)
RETURNING {_OUTBOX}
"""
#: Rows that this worker may send: its own and those of nobody. None before an earlier one of its chat that is being
#: sent, or that is to go out later or by another worker.
_DUE = """
FROM outbox WHERE state IN ('new', 'unknown') AND (not_before IS NULL OR not_before <= %(at)s)
AND worker IN (%(worker)s, '') AND NOT EXISTS (
  SELECT 1 FROM outbox AS earlier WHERE earlier.channel = outbox.channel AND earlier.chat = outbox.chat
  AND earlier.state IN ('new', 'sending', 'unknown') AND earlier.seq < outbox.seq
  AND (earlier.state = 'sending' OR earlier.not_before > %(at)s OR earlier.worker NOT IN (%(worker)s, '')))
"""
#: Whether something else is on its way to a chat before a message that was never shown.
_EARLIER = """
SELECT 1 FROM outbox WHERE channel = %(channel)s AND chat = %(chat)s AND turn <> %(turn)s
AND state IN ('new', 'sending', 'unknown')
AND NOT EXISTS (SELECT 1 FROM outbox WHERE turn = %(turn)s AND part = %(part)s) LIMIT 1
"""
_HOLD = """
INSERT INTO lease VALUES (%(name)s, %(holder)s, %(until)s)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE lease.holder = %(holder)s OR lease.until <= %(at)s
"""


class PostgresLedger:
    """The `Ledger` of the bot `channel` at `address`; `aclose` closes it. A `clock` is for tests."""

    def __init__(self, address: str, channel: str, *, clock: Clock = now) -> None:
        self.database = Postgres(address, channel, self._queue_open)
        self.sessions = PostgresSessionStore(self.database)
        self.channel = channel
        #: The name of this process among all of the database.
        self.name = new_id()
        self.connector = EngineConnector()
        self.engine = App(connector=self.connector)
        #: Called when this process has ended rows or given them back.
        self.settled: Callable[[], None] = _nobody
        self._clock = clock

    # Updates

    @transaction
    async def accept(self, db: Transaction, channel: str, arrivals: tuple[Arrival, ...]) -> tuple[InboxRow, ...]:
        values = {
            "channel": channel,
            "ids": [one.id for one in arrivals],
            "payloads": [plain(one.payload) for one in arrivals],
            "keys": [one.key for one in arrivals],
            "at": self._clock(),
        }
        fresh = sorted(await _inbox(db, _ACCEPT, values), key=_seq)
        await self._queue(db, fresh)
        return tuple(fresh)

    @fenced
    async def claim(self, db: Transaction, rows: tuple[int, ...]) -> tuple[InboxRow, ...]:
        change = (
            "UPDATE inbox SET state = 'claimed', worker = %(worker)s, batch = %(batch)s "
            f"WHERE state = 'new' AND seq = ANY(%(rows)s) RETURNING {_INBOX}"
        )
        values = {"worker": self.database.worker, "batch": rows[0] if rows else 0, "rows": list(rows)}
        begun = {row.seq: row for row in await _inbox(db, change, values)}
        return tuple(begun[seq] for seq in rows if seq in begun)

    async def wait(self, rows: tuple[int, ...]) -> None:
        await self._move(rows, "claimed", "waiting")

    async def start(self, rows: tuple[int, ...]) -> None:
        await self._move(rows, "waiting", "claimed")

    @transaction
    async def _move(self, db: Transaction, rows: tuple[int, ...], before: InboxState, after: InboxState) -> None:
        change = "UPDATE inbox SET state = %s WHERE state = %s AND worker = %s AND seq = ANY(%s)"
        await db.execute(change, (after, before, self.database.worker, list(rows)))

    async def release(self, rows: tuple[int, ...]) -> None:
        await self._move(rows, "claimed", "new")
        await self._move(rows, "waiting", "new")
        self.settled()

    async def bury(self, rows: tuple[int, ...], reason: str, items: tuple[OutboxItem, ...] = ()) -> None:
        await self._bury(rows, reason, items)
        self.settled()

    @fenced
    async def _bury(self, db: Transaction, rows: tuple[int, ...], reason: str, items: tuple[OutboxItem, ...]) -> None:
        if await self._settle(db, rows, "dead", reason):
            await self._put(db, items, "new")

    @transaction
    async def recover(self, db: Transaction, channel: str) -> Recovery:
        parked = await self._freed(db, channel, self.database.worker)
        query = f"SELECT {_INBOX} FROM inbox WHERE channel = %(channel)s AND state = 'new' ORDER BY seq"
        return Recovery(tuple(await _inbox(db, query, {"channel": channel})), parked)

    async def finish(
        self, rows: tuple[int, ...], items: tuple[OutboxItem, ...] = (), closing: Closing | None = None
    ) -> tuple[OutboxRow, ...]:
        """Rows that another worker has, or that are done, are left; where no other is named, nothing is kept of this
        turn, and what is returned is what stands in the outbox already."""
        made = await self._finish(rows, items, closing)
        self.settled()
        return made

    @fenced
    async def _finish(
        self, db: Transaction, rows: tuple[int, ...], items: tuple[OutboxItem, ...], closing: Closing | None
    ) -> tuple[OutboxRow, ...]:
        if rows and not await self._settle(db, rows, "done", ""):
            query = f"SELECT {_OUTBOX} FROM outbox WHERE turn = %(turn)s AND part = %(part)s"
            found = [await _outbox(db, query, asdict(item)) for item in items]
            return tuple(row for rows_of in found for row in rows_of)
        if closing is not None:
            await append_records(db, closing.session, "message", closing.messages, closing.turn)
        return await self._put(db, items, "new")

    async def _settle(self, db: Transaction, rows: tuple[int, ...], state: InboxState, reason: str) -> int:
        """End rows that are open, and not begun by another worker; how many there were."""
        change = (
            "UPDATE inbox SET state = %s, reason = %s, at = %s WHERE seq = ANY(%s) "
            "AND (state = 'new' OR (state IN ('claimed', 'waiting') AND worker = %s))"
        )
        values = (state, plain(reason), self._clock(), list(rows), self.database.worker)
        return (await db.execute(change, values)).rowcount

    # Workers

    @transaction
    async def enroll(self, db: Transaction) -> None:
        """Become a worker, under a name of its own; a job that it alone may take lets the engine watch over it."""
        await db.execute("INSERT INTO lease VALUES (%s, %s, 'infinity')", (f"worker:{self.name}", self.name))
        job = Job(
            queue=self.name,
            lock=None,
            queueing_lock=None,
            task_name=PRESENT,
            task_kwargs={"worker": self.name},
            priority=1,
        )
        await self.engine.job_manager.batch_defer_jobs_async([job], connection=db)
        self.database.worker = self.name

    @transaction
    async def free(self, db: Transaction, worker: str) -> tuple[InboxRow, ...]:
        """A worker is no more: what it worked on is `new` again, what it sent is `unknown`, its sessions are free.

        This process has now the rows that are to be parked.
        """
        return await self._freed(db, self.channel, worker)

    async def _freed(self, db: Transaction, channel: str, worker: str) -> tuple[InboxRow, ...]:
        values = {"old": worker, "me": self.database.worker, "channel": channel, "most": MOST_ATTEMPTS}
        await db.execute("DELETE FROM lease WHERE holder = %(old)s", values)
        begun = "FROM inbox WHERE state = 'claimed' AND worker = %(old)s AND channel = %(channel)s"
        alone = await (await db.execute(f"SELECT count(DISTINCT batch) = 1 {begun}", values)).fetchone() == (True,)
        counted = (
            "UPDATE inbox SET attempts = counted, worker = %(me)s, "
            "state = CASE WHEN counted >= %(most)s THEN 'claimed' ELSE 'new' END "
            f"FROM (SELECT seq AS one, least(attempts + 1, %(bound)s) AS counted {begun}) AS begun "
            f"WHERE seq = one RETURNING {_INBOX}"
        )
        values["bound"] = MOST_ATTEMPTS if alone else SUSPECT_AFTER
        rows = sorted(await _inbox(db, counted, values), key=_seq)
        await db.execute("UPDATE inbox SET state = 'new' WHERE state = 'waiting' AND worker = %(old)s", values)
        change = "UPDATE outbox SET state = CASE state WHEN 'sending' THEN 'unknown' ELSE state END, worker = '' "
        await db.execute(f"{change} WHERE worker = %(old)s AND state IN ('draft', 'new', 'sending', 'unknown')", values)
        return tuple(row for row in rows if row.state == "claimed")

    @transaction
    async def open_rows(self, db: Transaction, keys: list[str], rows: list[int]) -> tuple[InboxRow, ...]:
        """What is open in these sessions and of these rows, in order, whoever has it."""
        query = (
            f"SELECT {_INBOX} FROM inbox WHERE channel = %(channel)s AND state IN ('new', 'claimed', 'waiting') "
            "AND ((key <> '' AND key = ANY(%(keys)s)) OR seq = ANY(%(rows)s)) ORDER BY seq"
        )
        return tuple(await _inbox(db, query, {"channel": self.channel, "keys": keys, "rows": rows}))

    async def _queue(self, db: Transaction, rows: Iterable[InboxRow]) -> None:
        jobs = [
            Job(
                queue=row.channel,
                lock=f"{row.channel} {row.key}" if row.key else None,
                queueing_lock=None,
                task_name=SERVE,
                task_kwargs={"key": row.key, "seq": row.seq},
            )
            for row in rows
        ]
        if jobs:
            await self.engine.job_manager.batch_defer_jobs_async(jobs, connection=db)

    async def _queue_open(self, db: Transaction) -> None:
        await self._queue(db, await _inbox(db, f"SELECT {_INBOX} FROM inbox WHERE state = 'new' ORDER BY seq", {}))

    @transaction
    async def hold(self, db: Transaction, name: str, holder: str, seconds: float) -> bool:
        at = self._clock()
        values = {"name": name, "holder": holder, "at": at, "until": at + timedelta(seconds=seconds)}
        return (await db.execute(_HOLD, values)).rowcount == 1

    # Messages on their way out

    @fenced
    async def put(self, db: Transaction, items: tuple[OutboxItem, ...]) -> tuple[OutboxRow, ...]:
        return await self._put(db, items, "new")

    @fenced
    async def draft(self, db: Transaction, item: OutboxItem) -> OutboxRow | None:
        if await (await db.execute(_EARLIER, asdict(item))).fetchone():
            return None
        return (await self._put(db, (item,), "draft"))[0]

    async def _put(self, db: Transaction, items: tuple[OutboxItem, ...], state: OutboxState) -> tuple[OutboxRow, ...]:
        """A draft becomes what is put after it; any other row of the same key stays as it is."""
        rows: list[OutboxRow] = []
        for item in items:
            values = {**asdict(item), "payload": plain(item.payload), "at": self._clock()}
            values |= {"state": state, "worker": self.database.worker}
            rows += await _outbox(db, _PUT, values)
        return tuple(rows)

    @transaction
    async def drafts(self, db: Transaction, turn: str) -> tuple[OutboxRow, ...]:
        query = f"SELECT {_OUTBOX} FROM outbox WHERE turn = %(turn)s AND state = 'draft' ORDER BY part"
        return await _outbox(db, query, {"turn": turn})

    @transaction
    async def bind(self, db: Transaction, seq: int, message_id: str) -> None:
        await db.execute("UPDATE outbox SET message_id = %s WHERE seq = %s", (message_id, seq))

    @transaction
    async def due(
        self, db: Transaction, channel: str, *, without: Collection[str] = (), limit: int = 50
    ) -> tuple[OutboxRow, ...]:
        query = (
            f"SELECT {_OUTBOX} {_DUE} AND channel = %(channel)s AND chat <> ALL(%(without)s) ORDER BY seq "
            "LIMIT %(limit)s"
        )
        values = {"channel": channel, "without": list(without), "limit": limit}
        return await _outbox(db, query, {**values, "worker": self.database.worker, "at": self._clock()})

    @fenced
    async def begin(self, db: Transaction, seq: int) -> bool:
        """One worker after the other in a chat, so that two never send to it side by side."""
        turns = "SELECT pg_advisory_xact_lock(hashtextextended(channel || ' ' || chat, 0)) FROM outbox WHERE seq = %s"
        await db.execute(turns, (seq,))
        change = (
            f"WITH ready AS (SELECT seq {_DUE} AND seq = %(seq)s FOR UPDATE) UPDATE outbox "
            "SET state = 'sending', worker = %(worker)s FROM ready WHERE outbox.seq = ready.seq"
        )
        values = {"seq": seq, "worker": self.database.worker, "at": self._clock()}
        return (await db.execute(change.encode(), values)).rowcount == 1

    @transaction
    async def ack(self, db: Transaction, seq: int, message_id: str = "") -> None:
        change = (
            "UPDATE outbox SET state = 'sent', message_id = coalesce(nullif(%s, ''), message_id), at = %s "
            "WHERE seq = %s"
        )
        await db.execute(change, (message_id, self._clock(), seq))

    @transaction
    async def postpone(self, db: Transaction, seq: int, until: datetime, *, unsure: bool = False) -> None:
        change = "UPDATE outbox SET state = %s, not_before = %s, attempts = attempts + 1 WHERE seq = %s"
        await db.execute(change, ("unknown" if unsure else "new", until, seq))

    @transaction
    async def fail(self, db: Transaction, seq: int, reason: str) -> None:
        change = "UPDATE outbox SET state = 'failed', reason = %s, at = %s WHERE seq = %s"
        await db.execute(change, (plain(reason), self._clock(), seq))

    @transaction
    async def pending(self, db: Transaction, channel: str) -> tuple[OutboxRow, ...]:
        """Of this worker and of nobody."""
        query = (
            f"SELECT {_OUTBOX} FROM outbox WHERE channel = %(channel)s AND state IN ('new', 'sending', 'unknown') "
            "AND worker IN (%(worker)s, '') ORDER BY seq"
        )
        return await _outbox(db, query, {"channel": channel, "worker": self.database.worker})

    # Small facts

    async def note(self, key: str) -> str | None:
        return (await self.notes(key)).get(key)

    @transaction
    async def notes(self, db: Transaction, prefix: str) -> Mapping[str, str]:
        query = "SELECT key, value FROM note WHERE starts_with(key, %s) ORDER BY key"
        return dict(await (await db.execute(query, (prefix,))).fetchall())

    @transaction
    async def set_notes(self, db: Transaction, changes: Mapping[str, str | None]) -> None:
        change = "INSERT INTO note VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
        for key, value in sorted(changes.items()):  # in one order, so that two processes never wait for each other
            if value is None:
                await db.execute("DELETE FROM note WHERE key = %s", (key,))
            else:
                await db.execute(change, (key, plain(value)))

    @transaction
    async def purge(self, db: Transaction, before: datetime) -> int:
        await db.execute("DELETE FROM lease WHERE until < %s", (before,))
        inbox = "DELETE FROM inbox WHERE state IN ('done', 'dead') AND at < %s"
        outbox = "DELETE FROM outbox WHERE state IN ('draft', 'sent', 'failed') AND at < %s"
        return (await db.execute(inbox, (before,))).rowcount + (await db.execute(outbox, (before,))).rowcount

    @transaction
    async def counts(self, db: Transaction, channel: str) -> Counts:
        inbox = await db.execute("SELECT state, count(*) FROM inbox WHERE channel = %s GROUP BY state", (channel,))
        outbox = await db.execute("SELECT state, count(*) FROM outbox WHERE channel = %s GROUP BY state", (channel,))
        return Counts(dict(await inbox.fetchall()), dict(await outbox.fetchall()))

    async def aclose(self) -> None:
        await self.database.aclose()


async def _inbox(db: Transaction, query: str, values: Mapping[str, object]) -> list[InboxRow]:
    async with db.cursor(row_factory=args_row(InboxRow)) as cursor:
        return await (await cursor.execute(query.encode(), values)).fetchall()


async def _outbox(db: Transaction, query: str, values: Mapping[str, object]) -> tuple[OutboxRow, ...]:
    rows = await (await db.execute(query.encode(), values)).fetchall()
    return tuple(OutboxRow(row[0], OutboxItem(*row[1:8]), *row[8:]) for row in rows)


def _seq(row: InboxRow) -> int:
    return row.seq


def _nobody() -> None:
    return None
