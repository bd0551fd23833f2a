"""The ledger in PostgreSQL, for many machines: rows know which worker has them, DBOS Transact hands them out.

An update is kept and queued in one transaction (`dbos.enqueue_workflow`): the workflow's id is `channel:update id`,
its partition of the queue is the session. What DBOS runs, it runs at least once; who may begin and who may finish is
decided here, by claims that carry the worker's name and by unique keys.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import datetime
from typing import TypeVar

from nanobot.errors import StoreError
from nanobot.session import postgres_rows as rows_of
from nanobot.session.ledger import (
    MOST_ATTEMPTS,
    Arrival,
    Closing,
    Counts,
    InboxRow,
    InboxState,
    OutboxItem,
    OutboxRow,
    Recovery,
)
from nanobot.session.ledger_memory import Clock
from nanobot.session.memory import new_id
from nanobot.session.postgres import Postgres, Transaction
from nanobot.session.postgres_sessions import PostgresSessionStore, append_records

#: Seconds after which a worker that is not heard of is dead, and between two signs of life.
WORKER_SECONDS, BEAT_SECONDS = 10.0, 3.0
#: Seconds for which it is tried to note what happened to a message.
_PATIENCE = 60
T = TypeVar("T")


class LedgerDbos:
    """The `Ledger` in `database`, which `aclose` closes. `worker` names this process among all of the database.

    A worker lives while it holds `worker:<its name>`; what a dead one had is free for others. Times come from the
    server, so that the clocks of the machines need not agree; a `clock` is for tests.
    """

    def __init__(
        self,
        database: Postgres,
        *,
        worker: str = "",
        most_attempts: int = MOST_ATTEMPTS,
        clock: Clock | None = None,
    ) -> None:
        self.database = database
        self.worker = worker or new_id()
        self.sessions = PostgresSessionStore(database, self.worker)
        #: Called with the rows that this process has ended or given back.
        self.settled: Callable[[tuple[int, ...]], None] = _nobody
        self._most_attempts = most_attempts
        self._clock = clock
        self._member = False

    # Updates

    async def accept(self, channel: str, arrivals: tuple[Arrival, ...]) -> tuple[InboxRow, ...]:
        if not arrivals:
            return ()
        return await self._run(lambda db: rows_of.accept(db, channel, arrivals, self._at))

    async def claim(self, rows: tuple[int, ...]) -> tuple[InboxRow, ...]:
        return await self._run(lambda db: rows_of.claim(db, rows, self.worker, self._at, member=self._member))

    async def wait(self, rows: tuple[int, ...]) -> None:
        await self._move(rows, "claimed", "waiting")

    async def start(self, rows: tuple[int, ...]) -> None:
        await self._move(rows, "waiting", "claimed")

    async def _move(self, rows: tuple[int, ...], before: InboxState, after: InboxState) -> None:
        change = "UPDATE inbox SET state = %s WHERE state = %s AND worker = %s AND seq = ANY(%s)"
        await self._do(change, (after, before, self.worker, list(rows)))

    async def release(self, rows: tuple[int, ...]) -> None:
        change = (
            "UPDATE inbox SET state = 'new', worker = '' "
            "WHERE state IN ('claimed', 'waiting') AND worker = %s AND seq = ANY(%s)"
        )
        await self._do(change, (self.worker, list(rows)))
        self.settled(rows)

    async def bury(self, rows: tuple[int, ...], reason: str, items: tuple[OutboxItem, ...] = ()) -> None:
        async def work(db: Transaction) -> None:
            if await rows_of.settle(db, rows, "dead", self.worker, self._at, reason):
                await rows_of.put(db, items, "new", self.worker, self._at)

        await self._own(work)
        self.settled(rows)

    async def recover(self, channel: str) -> Recovery:
        async def work(db: Transaction) -> Recovery:
            parked = await rows_of.reap(db, channel, self.worker, self._most_attempts, self._at)
            return Recovery(await rows_of.new_rows(db, channel), parked)

        return await self._run(work)

    async def finish(
        self, rows: tuple[int, ...], items: tuple[OutboxItem, ...] = (), closing: Closing | None = None
    ) -> tuple[OutboxRow, ...]:
        """Rows that another worker has taken over, or that are done, are left; where no other is named, nothing is kept
        of this turn: its end is the other worker's, and what is returned is what stands in the outbox already."""

        async def work(db: Transaction) -> tuple[OutboxRow, ...]:
            own = await rows_of.settle(db, rows, "done", self.worker, self._at)
            if rows and not own:
                return await rows_of.standing(db, items)
            if closing is not None:
                await append_records(db, closing.session, "message", closing.messages, closing.turn)
            return await rows_of.put(db, items, "new", self.worker, self._at)

        made = await self._own(work)
        self.settled(rows)
        return made

    # Workers and leases

    async def enroll(self) -> None:
        """Become a worker that lives; from now on work is begun only while others see it so."""
        if not await self.hold(f"worker:{self.worker}", self.worker, WORKER_SECONDS):
            raise StoreError(f"Another process works as {self.worker}.")
        self._member = True

    async def beat(self) -> bool:
        """Give a sign of life; False where this worker was taken for dead and its work has gone to others."""
        change = (
            "UPDATE lease SET until = coalesce(%s, clock_timestamp()) + %s * interval '1 s' "
            "WHERE name = %s AND holder = %s"
        )
        values = (self._at, WORKER_SECONDS, f"worker:{self.worker}", self.worker)

        async def work(db: Transaction) -> bool:
            return (await db.execute(change, values)).rowcount == 1

        return await self._run(work)

    async def leave(self) -> None:
        """End as a worker: others may take what is left at once."""
        self._member = False
        await self.drop(f"worker:{self.worker}", self.worker)

    async def requeue(self, channel: str) -> int:
        """Hand to DBOS again what waits without it, which no order of events should lead to; how many sessions."""
        return await self._run(lambda db: rows_of.requeue(db, channel, new_id(), self._at))

    async def reap(self, channel: str) -> tuple[InboxRow, ...]:
        """Free what dead workers of all channels had; this worker has now the rows of this channel that are to be
        parked."""
        return await self._run(lambda db: rows_of.reap(db, channel, self.worker, self._most_attempts, self._at))

    async def waiting(self, channel: str, keys: tuple[str, ...]) -> tuple[InboxRow, ...]:
        """What is `new` in these sessions, in order."""
        return await self._run(lambda db: rows_of.new_rows(db, channel, keys))

    async def row(self, seq: int) -> InboxRow | None:
        """A row as it stands; None where it was forgotten."""
        return await self._run(lambda db: rows_of.one_row(db, seq))

    async def workers(self) -> tuple[str, ...]:
        """The names of the workers that live."""
        query = "SELECT holder FROM lease WHERE name = 'worker:' || holder AND until > coalesce(%s, clock_timestamp())"
        return tuple(str(row[0]) for row in await self._all(query, (self._at,)))

    async def listen(self) -> Transaction:
        """A connection that hears of new updates, as `channel key`; the caller closes it."""
        return await self.database.listen(rows_of.NEWS)

    async def hold(self, name: str, holder: str, seconds: float) -> bool:
        change = (
            "INSERT INTO lease VALUES (%(name)s, %(holder)s, coalesce(%(at)s, clock_timestamp()) + %(span)s * interval "
            "'1 s') ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until "
            "WHERE lease.holder = %(holder)s OR lease.until <= coalesce(%(at)s, clock_timestamp())"
        )
        values = {"name": name, "holder": holder, "at": self._at, "span": seconds}

        async def work(db: Transaction) -> bool:
            return (await db.execute(change, values)).rowcount == 1

        return await self._run(work)

    async def holder(self, name: str) -> str:
        query = "SELECT holder FROM lease WHERE name = %s AND until > coalesce(%s, clock_timestamp())"
        found = await self._all(query, (name, self._at))
        return str(found[0][0]) if found else ""

    async def drop(self, name: str, holder: str) -> None:
        await self._do("DELETE FROM lease WHERE name = %s AND holder = %s", (name, holder))

    # Messages on their way out

    async def put(self, items: tuple[OutboxItem, ...]) -> tuple[OutboxRow, ...]:
        return await self._own(lambda db: rows_of.put(db, items, "new", self.worker, self._at))

    async def draft(self, item: OutboxItem) -> OutboxRow:
        async def work(db: Transaction) -> OutboxRow:
            return (await rows_of.put(db, (item,), "draft", self.worker, self._at))[0]

        return await self._own(work)

    async def bind(self, seq: int, message_id: str) -> None:
        await self._surely("UPDATE outbox SET message_id = %s WHERE seq = %s", (message_id, seq))

    async def due(self, channel: str, *, without: Collection[str] = (), limit: int = 50) -> tuple[OutboxRow, ...]:
        """This worker's own rows and those of dead ones; never one that has an earlier one of a living worker before it
        in its chat."""
        return await self._run(lambda db: rows_of.due(db, channel, self.worker, without, limit, self._at))

    async def begin(self, seq: int) -> bool:
        return await self._own(lambda db: rows_of.begin(db, seq, self.worker, self._at))

    async def ack(self, seq: int, message_id: str = "") -> None:
        change = (
            "UPDATE outbox SET state = 'sent', message_id = coalesce(nullif(%s, ''), message_id), "
            "at = coalesce(%s, clock_timestamp()) WHERE seq = %s"
        )
        await self._surely(change, (message_id, self._at, seq))

    async def postpone(self, seq: int, until: datetime, *, unsure: bool = False) -> None:
        change = "UPDATE outbox SET state = %s, not_before = %s, attempts = attempts + 1 WHERE seq = %s"
        await self._surely(change, ("unknown" if unsure else "new", until, seq))

    async def fail(self, seq: int, reason: str) -> None:
        change = "UPDATE outbox SET state = 'failed', reason = %s, at = coalesce(%s, clock_timestamp()) WHERE seq = %s"
        await self._surely(change, (rows_of.plain(reason), self._at, seq))

    async def drafts(self, turn: str) -> tuple[OutboxRow, ...]:
        return await self._run(lambda db: rows_of.drafts(db, turn))

    async def pending(self, channel: str) -> tuple[OutboxRow, ...]:
        """Of this worker and of dead ones."""
        return await self._run(lambda db: rows_of.pending(db, channel, self.worker, self._at))

    # Small facts

    async def note(self, key: str) -> str | None:
        found = await self._all("SELECT value FROM note WHERE key = %s", (key,))
        return str(found[0][0]) if found else None

    async def notes(self, prefix: str) -> Mapping[str, str]:
        found = await self._all("SELECT key, value FROM note WHERE starts_with(key, %s) ORDER BY key", (prefix,))
        return {str(key): str(value) for key, value in found}

    async def set_notes(self, changes: Mapping[str, str | None]) -> None:
        async def work(db: Transaction) -> None:
            for key in sorted(changes):  # in one order, so that two processes never wait for each other
                value = changes[key]
                if value is None:
                    await db.execute("DELETE FROM note WHERE key = %s", (key,))
                else:
                    change = "INSERT INTO note VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
                    await db.execute(change, (key, rows_of.plain(value)))

        await self._run(work)

    async def purge(self, before: datetime) -> int:
        return await self._run(lambda db: rows_of.purge(db, before))

    async def counts(self, channel: str) -> Counts:
        return await self._run(lambda db: rows_of.counts(db, channel))

    async def aclose(self) -> None:
        await self.database.aclose()

    @property
    def _at(self) -> datetime | None:
        """The time of tests; None for the server's."""
        return self._clock() if self._clock is not None else None

    async def _run(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        return await self.database.run(work)

    async def _own(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Work that only a living worker may do. Raises `StoreError` where this one may have been taken for dead."""

        async def fenced(db: Transaction) -> T:
            if self._member and not await rows_of.lives(db, self.worker, self._at):
                raise StoreError("This worker was not heard of for too long, so its work may be another's now.")
            return await work(db)

        return await self._run(fenced)

    async def _do(self, change: str, values: tuple[object, ...]) -> None:
        async def work(db: Transaction) -> None:
            await db.execute(change, values)

        await self._run(work)

    async def _surely(self, change: str, values: tuple[object, ...]) -> None:
        """What happened outside must be noted: tried until the database is back, for a while."""
        for _ in range(_PATIENCE):
            try:
                return await self._do(change, values)
            except StoreError:
                await asyncio.sleep(1.0)
        return await self._do(change, values)

    async def _all(self, query: str, values: tuple[object, ...]) -> list[tuple[object, ...]]:
        async def work(db: Transaction) -> list[tuple[object, ...]]:
            return await (await db.execute(query, values)).fetchall()

        return await self._run(work)


def _nobody(_rows: tuple[int, ...]) -> None:
    return None
