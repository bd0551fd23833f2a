"""The ledger of many gateways in PostgreSQL: rows know which worker has them, Procrastinate hands them out.

An update is kept and queued in one transaction, as a job whose lock is the session: the engine runs the jobs of one
session one at a time, in their order, each at least once. Who may begin and who may finish is decided by claims that
carry the worker's name and by unique keys. A worker that was taken for dead can write nothing any more.
"""

import json
import re
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from loguru import logger
from procrastinate import App
from procrastinate.jobs import Job, Status
from procrastinate.schema import SchemaManager

from nanobot.cluster.postgres import HOLD, REQUEST, STILL, Connection, EngineConnector, Postgres
from nanobot.errors import StoreError
from nanobot.session import layout
from nanobot.session.database import Clock, Transaction, now
from nanobot.session.ledger import Ledger
from nanobot.session.rows import INBOX, Arrival, InboxRow
from nanobot.utils.translation import N_, _

#: The task of the engine: to serve an update.
SERVE = "nanobot.serve"
_OPEN = f"""{INBOX} WHERE channel = :channel AND state IN ('new', 'claimed', 'waiting')
AND CASE key WHEN '' THEN 'update ' || seq ELSE key END IN ({Postgres.members}) ORDER BY seq"""
_CHAT = "SELECT pg_advisory_xact_lock(hashtextextended(channel || ' ' || chat, 0)) FROM outbox WHERE seq = :seq"
#: How PostgreSQL calls what is in the tables of a SQLite file, whose times are text.
_CALLED = {
    "INTEGER PRIMARY KEY AUTOINCREMENT": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    r"\b(at|until|not_before|created_at|updated_at|quarter|due|last) TEXT": r"\1 timestamptz",
    "INTEGER": "bigint",
    "REAL": "float8",
    " WITHOUT ROWID": "",
    re.escape(layout.REQUEST): f"({REQUEST})",
}
_OURS = """
ALTER TABLE session ADD COLUMN rowid bigint GENERATED ALWAYS AS IDENTITY;
CREATE INDEX session_by_time ON session (updated_at DESC, rowid DESC);
CREATE FUNCTION record_is_kept() RETURNS trigger LANGUAGE plpgsql AS
  $$BEGIN
    IF TG_OP = 'DELETE' AND EXISTS (SELECT 1 FROM going WHERE session_id = OLD.session_id) THEN RETURN OLD; END IF;
    RAISE EXCEPTION 'records are append-only';
  END$$;
CREATE TRIGGER record_is_kept BEFORE UPDATE OR DELETE ON record FOR EACH ROW EXECUTE FUNCTION record_is_kept();
CREATE INDEX inbox_settled ON inbox (at) WHERE state IN ('done', 'dead');
CREATE INDEX outbox_settled ON outbox (at) WHERE state IN ('draft', 'sent', 'failed');
"""
#: Workers have the numbers of the engine: what earlier ones had is free, and those that live have no lease and end.
_NUMBERED = """
UPDATE inbox SET state = 'new' WHERE state IN ('claimed', 'waiting');
UPDATE outbox SET worker = '', state = CASE state WHEN 'sending' THEN 'unknown' ELSE state END
  WHERE state IN ('draft', 'new', 'sending', 'unknown');
DELETE FROM lease;
"""
#: From layout 9 on, a step each, as in `session/layout.py`; the tables that are made are those of today.
_STEPS: tuple[str, ...] = (_NUMBERED,)
#: The number in `layout`, and that of the oldest which is taken over: that of the version of 22 November 2026.
VERSION, _OLDEST = 9 + len(_STEPS), 9
#: The advisory lock under which the layout changes: `nano` in ASCII.
_LOCK = 0x6E616E6F
#: That of layouts 1 and 2 was in a schema of all bots.
_KNOWN = "SELECT coalesce(max(version), (to_regclass('nanobot.inbox') IS NOT NULL)::integer) FROM layout"
_OTHER = N_(
    "The database {place} holds what another version of nanobot has kept (layout {version}, this one knows {known}). "
    "Nothing was changed. Update nanobot, or start that of 22 November 2026 once if this one is newer, or name another "
    "database."
)


class PostgresLedger(Ledger):
    """The `Ledger` of the bot `channel` at `address`; `aclose` closes it. A `clock` is for tests."""

    database: Postgres
    #: That of this worker.
    number: int

    def __init__(self, address: str, channel: str, *, clock: Clock = now) -> None:
        super().__init__(Postgres(address, channel, self._prepare), clock=clock)
        self.channel = channel
        self.engine = App(connector=EngineConnector(self.database))
        self.jobs = self.engine.job_manager

    async def enroll(self) -> None:
        """Become a worker whom the engine watches over; the number that it gives is its name."""

        async def work(db: Connection) -> int:
            number = await self.jobs.register_worker()
            await db.change(HOLD, name=f"worker:{number}", holder=str(number), until="infinity")
            return number

        self.number = await self.database.run(work)
        self.database.worker = str(self.number)

    async def beat(self) -> int:
        """Give a sign of life; how many workers there are."""

        async def work(db: Connection) -> int:
            await self.jobs.update_heartbeat(self.number)
            ((living,),) = await db.fetch(tuple[int], "SELECT count(*) FROM lease WHERE name LIKE 'worker:%'")
            return living

        return await self.database.run(work, fenced=True)

    async def sweep(self, seconds: float, end: float) -> tuple[InboxRow, ...]:
        """Free what those workers had who gave no sign of life for `seconds`, unless it is later than `end` by then.

        This process has now the rows that are to be parked.
        """

        async def work(db: Connection) -> tuple[InboxRow, ...]:
            await db.fetch(tuple[int], STILL)  # before the clock is asked: an answer may wait for a database that hangs
            dead = await self.jobs.prune_stalled_workers(seconds) if time.monotonic() < end else []
            if dead:
                logger.warning("workers {} are dead", dead)
            freed = [await self._free(db, self.channel, str(one)) for one in dead]
            return freed[-1] if freed else ()

        return await self.database.run(work)

    async def free(self, worker: str) -> tuple[InboxRow, ...]:
        """A worker is no more: what it worked on is `new` again, what it sent is `unknown`, its sessions are free and
        its jobs back in the queue."""
        return await self.database.run(lambda db: self._free(db, self.channel, worker))

    async def end(self, jobs: Iterable[Job]) -> None:
        """Jobs are done, unless they are another worker's by now."""

        async def work(_db: Connection) -> None:
            for job in jobs:
                await self.jobs.finish_job(job, Status.SUCCEEDED, delete_job=True)

        await self.database.run(work, fenced=True)

    async def look(self, sessions: Iterable[str]) -> tuple[InboxRow, ...]:
        """What is open in sessions, by `served_as`, in order."""
        names = json.dumps(list(sessions))
        return await self.database.read(lambda db: db.fetch(InboxRow, _OPEN, channel=self.channel, without=names))

    async def _accept(self, db: Transaction, channel: str, arrivals: tuple[Arrival, ...]) -> tuple[InboxRow, ...]:
        fresh = await super()._accept(db, channel, arrivals)
        if jobs := [_job(row) for row in fresh if row.channel == self.channel]:  # another one has no workers
            await self.jobs.batch_defer_jobs_async(jobs)
        return fresh

    async def _free(self, db: Transaction, channel: str, worker: str) -> tuple[InboxRow, ...]:
        # First the one that lets it write: what it takes until then is seen by the second statement.
        await db.send("DELETE FROM lease WHERE name = 'worker:' || :worker", worker=worker)
        await db.send("DELETE FROM lease WHERE holder = :worker", worker=worker)
        await self.jobs.unregister_worker(int(worker))
        for job in await self.jobs.get_stalled_jobs(queue=channel):
            if job.worker_id is None:  # its worker is gone: in this transaction, so that nobody else gives it back too
                await self.jobs.retry_job(job)
        return await super()._free(db, channel, worker)

    async def _begin(self, db: Transaction, seq: int) -> bool:
        """One worker after the other in a chat, so that two never send to it side by side."""
        await db.send(_CHAT, seq=seq)
        return await super()._begin(db, seq)

    async def _prepare(self, db: Connection) -> None:
        """Make or migrate the tables, of many processes that start at once in one. Raises `StoreError`."""
        await db.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        async with db.transaction():
            await db.execute(f'CREATE SCHEMA IF NOT EXISTS "{self.database.schema}"'.encode())
            await db.execute(
                "CREATE TABLE IF NOT EXISTS layout (version integer NOT NULL, engine text NOT NULL DEFAULT '')"
            )
            ((version,),) = await db.fetch(tuple[int], _KNOWN)
            if version and not _OLDEST <= version <= VERSION:
                raise StoreError(_(_OTHER, place=self.database.place, version=version, known=VERSION))
            changes = _engine_changes()
            ((engine,),) = await db.fetch(tuple[str], "SELECT coalesce(max(engine), '') FROM layout")
            later = [one.read_text(encoding="utf-8") for one in changes if one.name > engine]
            missing = [*_STEPS[version - _OLDEST :], *later] if version else [_tables(), SchemaManager.get_schema()]
            for statement in missing:
                await db.execute(statement.encode())
            if missing:
                await db.execute("DELETE FROM layout")
                await db.execute("INSERT INTO layout VALUES (%s, %s)", (VERSION, changes[-1].name))


def _tables() -> str:
    """The tables and indexes of a SQLite file, and what is ours alone."""
    query = "SELECT sql FROM sqlite_master WHERE type <> 'trigger' AND name NOT LIKE 'sqlite%' ORDER BY rowid"
    with closing(sqlite3.connect(":memory:")) as db:
        layout.migrate(db)
        tables = ";\n".join(sql for (sql,) in db.execute(query))
    for there, here in _CALLED.items():
        tables = re.sub(there, here, tables)
    return f"{tables};{_OURS}"


def _engine_changes() -> list[Path]:
    """The migrations of the engine, in their order."""
    return sorted(Path(SchemaManager.get_migrations_path()).glob("*.sql"))


def served_as(key: str, seq: int) -> str:
    """The name of a session among those of all workers; an update of none is one by itself."""
    return key or f"update {seq}"


def _job(row: InboxRow) -> Job:
    lock = f"{row.channel} {row.key}" if row.key else None
    return Job(
        queue=row.channel, task_name=SERVE, lock=lock, queueing_lock=None, task_kwargs={"key": row.key, "seq": row.seq}
    )
