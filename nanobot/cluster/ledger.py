"""The ledger of many gateways in PostgreSQL: rows know which worker has them, Procrastinate hands them out.

An update is kept and queued in one transaction, as a job whose lock is the session: the engine runs the jobs of one
session one at a time, in their order, each at least once. Who may begin and who may finish is decided by claims that
carry the worker's name and by unique keys. A worker that was taken for dead can write nothing any more.
"""

import json
import secrets
from collections.abc import Collection, Iterable
from pathlib import Path

from procrastinate import App
from procrastinate.jobs import Job
from procrastinate.schema import SchemaManager

from nanobot.cluster.postgres import REQUEST, Connection, EngineConnector, Postgres
from nanobot.errors import StoreError
from nanobot.session.database import Clock, Transaction, now
from nanobot.session.layout import KEPT, SCHEDULE, WATCHES
from nanobot.session.ledger import Ledger
from nanobot.session.rows import INBOX, Arrival, InboxRow
from nanobot.utils.translation import N_, _

#: The tasks of the engine: to serve an update, and to be there.
SERVE, PRESENT = "nanobot.serve", "nanobot.present"
#: A worker's lease on each of several sessions; in one order, so that two workers never wait for each other.
_TAKE = """
INSERT INTO lease SELECT 'serve:' || value, :worker, 'infinity' FROM json_array_elements_text(:keys) ORDER BY value
ON CONFLICT (name) DO NOTHING
"""
_MINE = "FROM lease WHERE holder = :worker AND name IN (SELECT 'serve:' || value FROM json_array_elements_text(:keys))"
_OPEN = f"""{INBOX} WHERE channel = :channel AND state IN ('new', 'claimed', 'waiting') AND (
  (key <> '' AND key IN (SELECT value FROM json_array_elements_text(:keys)))
  OR seq IN (SELECT value::bigint FROM json_array_elements_text(:rows))) ORDER BY seq"""
_CHAT = "SELECT pg_advisory_xact_lock(hashtextextended(channel || ' ' || chat, 0)) FROM outbox WHERE seq = :seq"
_TOTALS = """
CREATE TABLE spending (
  session_id text NOT NULL REFERENCES session (id), quarter timestamptz NOT NULL, input bigint NOT NULL,
  output bigint NOT NULL, cached bigint NOT NULL, cache_write bigint NOT NULL, reasoning bigint NOT NULL,
  cost float8 NOT NULL, requests bigint NOT NULL, PRIMARY KEY (session_id, quarter)
);
CREATE INDEX spending_by_time ON spending (quarter);
CREATE TABLE cut (
  session_id text NOT NULL REFERENCES session (id), size integer NOT NULL, seq integer NOT NULL,
  PRIMARY KEY (session_id, size)
);
"""
_TABLES = f"""
CREATE TABLE session (
  id text PRIMARY KEY, rowid bigint GENERATED ALWAYS AS IDENTITY, key text NOT NULL, title text NOT NULL,
  created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, messages integer NOT NULL DEFAULT 0
);
CREATE INDEX session_by_key ON session (key, updated_at DESC, rowid DESC);
CREATE INDEX session_by_time ON session (updated_at DESC, rowid DESC);
CREATE TABLE current (key text PRIMARY KEY, session_id text NOT NULL REFERENCES session (id));
CREATE TABLE record (
  session_id text NOT NULL REFERENCES session (id), seq integer NOT NULL, kind text NOT NULL, role text NOT NULL,
  size integer NOT NULL, turn text NOT NULL, at timestamptz NOT NULL, message text NOT NULL,
  PRIMARY KEY (session_id, seq)
);
CREATE INDEX record_by_kind ON record (session_id, seq) WHERE kind IN ('compaction', 'reset');
CREATE INDEX record_by_turn ON record (turn);
CREATE INDEX record_by_request ON record (({REQUEST})) WHERE role = 'user';
{_TOTALS}
CREATE FUNCTION record_is_kept() RETURNS trigger LANGUAGE plpgsql AS
  $$BEGIN RAISE EXCEPTION 'records are append-only'; END$$;
CREATE TRIGGER record_is_kept BEFORE UPDATE OR DELETE ON record FOR EACH ROW EXECUTE FUNCTION record_is_kept();
CREATE TABLE inbox (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, channel text NOT NULL, id text NOT NULL,
  payload text NOT NULL, key text NOT NULL, state text NOT NULL, attempts integer NOT NULL, reason text NOT NULL,
  at timestamptz NOT NULL, worker text NOT NULL DEFAULT '', batch bigint NOT NULL DEFAULT 0,
  UNIQUE (channel, id)
);
CREATE INDEX inbox_settled ON inbox (at) WHERE state IN ('done', 'dead');
CREATE INDEX inbox_open ON inbox (channel, key, seq) WHERE state IN ('new', 'claimed', 'waiting');
CREATE TABLE outbox (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, turn text NOT NULL, part integer NOT NULL,
  channel text NOT NULL, chat text NOT NULL, thread text NOT NULL, payload text NOT NULL,
  not_before timestamptz NOT NULL, state text NOT NULL, attempts integer NOT NULL, message_id text NOT NULL,
  reason text NOT NULL, at timestamptz NOT NULL, worker text NOT NULL DEFAULT '', UNIQUE (turn, part)
);
CREATE INDEX outbox_open ON outbox (channel, chat, seq) WHERE state IN ('new', 'sending', 'unknown');
CREATE INDEX outbox_settled ON outbox (at) WHERE state IN ('draft', 'sent', 'failed');
CREATE TABLE note (key text PRIMARY KEY, value text NOT NULL);
CREATE TABLE lease (name text PRIMARY KEY, holder text NOT NULL, until timestamptz NOT NULL);
"""
#: From the layouts 1 and 2, whose queue was that of DBOS: nothing runs then, and all that is open is queued again.
_FROM_DBOS = f"""
{_TOTALS}
INSERT INTO spending
  SELECT session_id, date_bin('15 minutes', at, timestamptz '2000-01-01T00:00:00Z'), sum(input), sum(output),
  sum(cached), sum(cache_write), sum(reasoning), sum(cost), sum(requests)
  FROM record, jsonb_to_record(usage) AS cost_of (input bigint, output bigint, cached bigint, cache_write bigint,
  reasoning bigint, cost float8, requests bigint) WHERE usage IS NOT NULL GROUP BY 1, 2;
CREATE INDEX IF NOT EXISTS record_by_turn ON record (turn);
CREATE INDEX IF NOT EXISTS record_by_request ON record (({REQUEST})) WHERE role = 'user';
DROP INDEX inbox_open;
CREATE INDEX inbox_open ON inbox (channel, key, seq) WHERE state IN ('new', 'claimed', 'waiting');
DROP TABLE fired;
DELETE FROM lease;
UPDATE inbox SET state = 'new', worker = '', attempts = attempts + (state = 'claimed')::integer
  WHERE state IN ('claimed', 'waiting');
UPDATE outbox SET state = CASE state WHEN 'sending' THEN 'unknown' ELSE state END, worker = '';
"""
#: To layout 4, whose statements are those of SQLite: a session's records are counted by their numbers, costs by totals.
_SHARED = """
ALTER TABLE session RENAME COLUMN place TO rowid;
ALTER TABLE session DROP COLUMN records;
ALTER TABLE record DROP COLUMN usage;
UPDATE outbox SET not_before = 'epoch' WHERE not_before IS NULL;
ALTER TABLE outbox ALTER COLUMN not_before SET NOT NULL;
"""
#: Spending by model, person and cause, as the step of SQLite does it.
_SPENDING = """
ALTER TABLE spending DROP CONSTRAINT spending_pkey;
ALTER TABLE spending ADD COLUMN model text NOT NULL DEFAULT '', ADD COLUMN person text NOT NULL DEFAULT '',
  ADD COLUMN cause text NOT NULL DEFAULT '', ADD COLUMN unpriced bigint NOT NULL DEFAULT 0;
ALTER TABLE spending ADD PRIMARY KEY (session_id, quarter, model, person, cause);
UPDATE spending SET unpriced = input + output WHERE cost = 0;
UPDATE spending SET person = CASE WHEN key = 'terminal:local' THEN key ELSE substring(key from '^telegram:[0-9]+') END
  FROM session WHERE session.id = session_id AND (key = 'terminal:local' OR key ~ '^telegram:[0-9]');
"""
#: Sessions of one question, and sessions that are being deleted, as the step of SQLite makes them.
_SINGLE = """
ALTER TABLE session ADD COLUMN once integer NOT NULL DEFAULT 0;
CREATE TABLE going (session_id text PRIMARY KEY);
CREATE OR REPLACE FUNCTION record_is_kept() RETURNS trigger LANGUAGE plpgsql AS
  $$BEGIN
    IF TG_OP = 'DELETE' AND EXISTS (SELECT 1 FROM going WHERE session_id = OLD.session_id) THEN RETURN OLD; END IF;
    RAISE EXCEPTION 'records are append-only';
  END$$;
"""
_IDENTITY = "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
_TYPES = {"id": _IDENTITY, "number": "bigint", "time": "timestamptz", "flat": ""}
#: What was added since, a step each, as in `session/layout.py`.
_LATER: tuple[str, ...] = (KEPT, _SPENDING, SCHEDULE.format(**_TYPES), WATCHES.format(**_TYPES), _SINGLE)
#: The number in `layout`.
VERSION = 4 + len(_LATER)
#: The advisory lock under which the layout changes: `nano` in ASCII.
_LOCK = 0x6E616E6F
_SEVERAL = N_(
    "The database {place} holds what an older nanobot kept for several bots in the schema nanobot. Nothing was "
    'changed. Stop all gateways and give it to one of them: ALTER SCHEMA nanobot RENAME TO "{schema}".'
)
_NEWER = N_(
    "The database {place} was written by a newer nanobot (layout {version}, this one knows {known}). Nothing was "
    "changed. Update nanobot, or name another database."
)


class PostgresLedger(Ledger):
    """The `Ledger` of the bot `channel` at `address`; `aclose` closes it. A `clock` is for tests."""

    database: Postgres

    def __init__(self, address: str, channel: str, *, clock: Clock = now) -> None:
        super().__init__(Postgres(address, channel, self._prepare), clock=clock)
        self.channel = channel
        #: The name of this process among all of the database.
        self.name = secrets.token_hex(5)
        self.connector = EngineConnector()
        self.engine = App(connector=self.connector)

    async def enroll(self) -> None:
        """Become a worker, under a name of its own; a job that it alone may take lets the engine watch over it."""

        async def work(db: Connection) -> None:
            await db.execute("INSERT INTO lease VALUES (%s, %s, 'infinity')", (f"worker:{self.name}", self.name))
            job = Job(queue=self.name, lock=None, queueing_lock=None, task_name=PRESENT, priority=1)
            job.task_kwargs["worker"] = self.name
            await self.engine.job_manager.batch_defer_jobs_async([job], connection=db)

        await self.database.run(work)
        self.database.worker = self.name

    async def free(self, worker: str) -> tuple[InboxRow, ...]:
        """A worker is no more: what it worked on is `new` again, what it sent is `unknown`, its sessions are free.

        This process has now the rows that are to be parked.
        """
        return await self.database.run(lambda db: self._free(db, self.channel, worker))

    async def look(
        self, keys: Collection[str], fresh: Collection[str], rows: Collection[int]
    ) -> tuple[frozenset[str], tuple[InboxRow, ...]]:
        """Which of the sessions `keys` are this worker's, and what is open in them and of `rows`, in order.

        Those of them that are `fresh` are taken first, where no other worker has them: whatever the engine hands out,
        and to whomever, a session is one worker's. One in which nothing is open is given back.
        """

        async def work(db: Connection) -> tuple[frozenset[str], tuple[InboxRow, ...]]:
            if fresh:
                await db.change(_TAKE, keys=json.dumps([*fresh]), worker=self.name)
            wanted = {"keys": json.dumps([*keys]), "worker": self.name}
            mine = {key for (key,) in await db.fetch(tuple[str], f"SELECT substr(name, 7) {_MINE}", **wanted)}
            of = {"keys": json.dumps([*mine]), "rows": json.dumps([*rows])}
            found = await db.fetch(InboxRow, _OPEN, channel=self.channel, **of)
            if over := mine - {row.key for row in found}:
                await db.change(f"DELETE {_MINE}", keys=json.dumps([*over]), worker=self.name)
            return frozenset(mine), found

        return await self.database.run(work, fenced=bool(fresh))

    async def _accept(self, db: Transaction, channel: str, arrivals: tuple[Arrival, ...]) -> tuple[InboxRow, ...]:
        fresh = await super()._accept(db, channel, arrivals)
        await self._queue(db, fresh)
        return fresh

    async def _free(self, db: Transaction, channel: str, worker: str) -> tuple[InboxRow, ...]:
        # First the one that lets it write: what it takes until then is seen by the second statement.
        await db.change("DELETE FROM lease WHERE name = 'worker:' || :worker", worker=worker)
        await db.change("DELETE FROM lease WHERE holder = :worker", worker=worker)
        return await super()._free(db, channel, worker)

    async def _begin(self, db: Transaction, seq: int) -> bool:
        """One worker after the other in a chat, so that two never send to it side by side."""
        await db.change(_CHAT, seq=seq)
        return await super()._begin(db, seq)

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
            if row.channel == self.channel  # another one has no workers
        ]
        if jobs:
            await self.engine.job_manager.batch_defer_jobs_async(jobs, connection=db)

    async def _prepare(self, db: Connection) -> None:
        """Make or migrate the tables, of many processes that start at once in one. Raises `StoreError`."""
        await db.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        async with db.transaction():
            await self._adopt(db)
            await db.execute(f'CREATE SCHEMA IF NOT EXISTS "{self.database.schema}"'.encode())
            await db.execute("CREATE TABLE IF NOT EXISTS layout (version integer NOT NULL)")
            await db.execute("ALTER TABLE layout ADD COLUMN IF NOT EXISTS engine text NOT NULL DEFAULT ''")
            row = await (await db.execute("SELECT version, engine FROM layout ORDER BY version DESC")).fetchone()
            version, engine = row or (0, "")
            if version > VERSION:
                raise StoreError(_(_NEWER, place=self.database.place, version=version, known=VERSION))
            changes = _engine_changes()
            if version < VERSION:
                for statement in _steps_from(version):
                    await db.execute(statement.encode())
            if version < 3:
                await db.execute(SchemaManager.get_schema().encode())
                await self._queue(db, await db.fetch(InboxRow, f"{INBOX} WHERE state = 'new' ORDER BY seq"))
            else:
                for change in [one for one in changes if one.name > engine]:
                    await db.execute(change.read_bytes())
            if (VERSION, changes[-1].name) != (version, engine):
                await db.execute("DELETE FROM layout")
                await db.execute("INSERT INTO layout VALUES (%s, %s)", (VERSION, changes[-1].name))

    async def _adopt(self, db: Connection) -> None:
        """Older nanobots kept everything in one schema for all bots of a database."""
        query = "SELECT to_regnamespace(%s) IS NULL AND to_regclass('nanobot.inbox') IS NOT NULL"
        if (await (await db.execute(query, (self.database.schema,))).fetchone()) != (True,):
            return
        query = "SELECT 1 FROM nanobot.inbox WHERE channel <> %s LIMIT 1"
        if await (await db.execute(query, (self.channel,))).fetchone():
            raise StoreError(_(_SEVERAL, place=self.database.place, schema=self.database.schema))
        await db.execute(f'ALTER SCHEMA nanobot RENAME TO "{self.database.schema}"'.encode())


def _steps_from(version: int) -> tuple[str, ...]:
    """What makes the tables out of those of a layout; 0 is none."""
    if not version:
        return (_TABLES, *_LATER)
    return (
        *((_FROM_DBOS,) if version < 3 else ()),
        *((_SHARED,) if version < 4 else ()),
        *_LATER[max(0, version - 4) :],
    )


def _engine_changes() -> list[Path]:
    """The migrations of the engine, in their order."""
    return sorted(Path(SchemaManager.get_migrations_path()).glob("*.sql"))
