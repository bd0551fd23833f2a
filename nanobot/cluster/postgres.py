"""A PostgreSQL database that several processes share: its tables, its connections, and words for what goes wrong.

Every bot has a schema of its own, which holds our tables and those of Procrastinate, so that several bots may share a
database and know nothing of each other.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import wraps
from pathlib import Path
from typing import Concatenate, LiteralString, ParamSpec, Protocol, TypeVar

import psycopg
from procrastinate import PsycopgConnector
from procrastinate.connector import Notify
from procrastinate.exceptions import ConnectorException
from procrastinate.schema import SchemaManager
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool

from nanobot.errors import StoreError

#: Seconds for a connection, and for one transaction from its begin to its commit.
CONNECT_SECONDS, WORK_SECONDS = 10, 30.0
#: Seconds for which work is tried again while the server is away, and between two tries; tries at least.
PATIENCE_SECONDS, PAUSE, _FEWEST_TRIES = 60.0, 0.25, 4
#: Connections of one process at most, besides those that listen or hold an office.
CONNECTIONS = 10
#: A transaction whose process stands still is ended by the server: others need what it has locked.
_OPTIONS = "-c search_path={} -c TimeZone=UTC -c idle_in_transaction_session_timeout=5s"
#: The advisory lock under which the layout changes: `nano` in ASCII.
_LOCK = 0x6E616E6F
#: The id in the JSON of a user's message. Quotes inside of its texts are escaped, so they are not met.
REQUEST = 'substring(message from \'"id":"([^"]*)"\')'
#: A quarter of an hour: a midnight is the begin of one in every zone.
QUARTER = "date_bin('15 minutes', {}, timestamptz '2000-01-01T00:00:00Z')"
#: What each answer cost, from its record.
ANSWERS = """record, jsonb_to_record(usage) AS cost_of (input bigint, output bigint, cached bigint, cache_write bigint,
  reasoning bigint, cost float8, requests bigint)"""
SUMS = """coalesce(sum(input), 0)::bigint, coalesce(sum(output), 0)::bigint, coalesce(sum(cached), 0)::bigint,
  coalesce(sum(cache_write), 0)::bigint, coalesce(sum(reasoning), 0)::bigint, coalesce(sum(cost), 0)::float8,
  coalesce(sum(requests), 0)::bigint"""
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
  id text PRIMARY KEY, place bigint GENERATED ALWAYS AS IDENTITY, key text NOT NULL, title text NOT NULL,
  created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, records integer NOT NULL DEFAULT 0,
  messages integer NOT NULL DEFAULT 0
);
CREATE INDEX session_by_key ON session (key, updated_at DESC, place DESC);
CREATE INDEX session_by_time ON session (updated_at DESC, place DESC);
CREATE TABLE current (key text PRIMARY KEY, session_id text NOT NULL REFERENCES session (id));
CREATE TABLE record (
  session_id text NOT NULL REFERENCES session (id), seq integer NOT NULL, kind text NOT NULL, role text NOT NULL,
  size integer NOT NULL, turn text NOT NULL, at timestamptz NOT NULL, message text NOT NULL, usage jsonb,
  PRIMARY KEY (session_id, seq)
);
CREATE INDEX record_by_kind ON record (session_id, seq) WHERE kind IN ('compaction', 'reset');
CREATE INDEX record_by_cost ON record (at) WHERE usage IS NOT NULL;
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
CREATE TABLE outbox (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, turn text NOT NULL, part integer NOT NULL,
  channel text NOT NULL, chat text NOT NULL, thread text NOT NULL, payload text NOT NULL, not_before timestamptz,
  state text NOT NULL, attempts integer NOT NULL, message_id text NOT NULL, reason text NOT NULL,
  at timestamptz NOT NULL, worker text NOT NULL DEFAULT '', UNIQUE (turn, part)
);
CREATE INDEX outbox_open ON outbox (channel, chat, seq) WHERE state IN ('new', 'sending', 'unknown');
CREATE INDEX outbox_settled ON outbox (at) WHERE state IN ('draft', 'sent', 'failed');
CREATE TABLE note (key text PRIMARY KEY, value text NOT NULL);
CREATE TABLE lease (name text PRIMARY KEY, holder text NOT NULL, until timestamptz NOT NULL);
"""
_INDEX = "CREATE INDEX inbox_open ON inbox (channel, key, seq) WHERE state IN ('new', 'claimed', 'waiting')"
#: From the layouts 1 and 2, whose queue was that of DBOS: nothing runs then, and all that is open is queued again.
_FROM_DBOS = f"""
{_TOTALS}
INSERT INTO spending
  SELECT session_id, {QUARTER.format("at")}, {SUMS} FROM {ANSWERS} WHERE usage IS NOT NULL GROUP BY 1, 2;
CREATE INDEX IF NOT EXISTS record_by_turn ON record (turn);
CREATE INDEX IF NOT EXISTS record_by_request ON record (({REQUEST})) WHERE role = 'user';
DROP INDEX inbox_open;
DROP TABLE fired;
DELETE FROM lease;
UPDATE inbox SET state = 'new', worker = '', attempts = attempts + (state = 'claimed')::integer
  WHERE state IN ('claimed', 'waiting');
UPDATE outbox SET state = CASE state WHEN 'sending' THEN 'unknown' ELSE state END, worker = '';
"""
#: The number in `layout`.
VERSION = 3
_SEVERAL = (
    "The database {} holds what an older nanobot kept for several bots in the schema nanobot. Nothing was changed. "
    'Stop all gateways and give it to one of them: ALTER SCHEMA nanobot RENAME TO "{}".'
)
_NEWER = (
    "The database {} was written by a newer nanobot (layout {}, this one knows {}). Nothing was changed. Update "
    "nanobot, or name another database."
)
TAKEN = "This worker was not heard of for too long, so its work has gone to others. Start it again."
Transaction = psycopg.AsyncConnection[TupleRow]
T = TypeVar("T")
P = ParamSpec("P")


class Postgres:
    """The database at `address` (`postgresql://…`) of the bot `channel`. Nothing is opened before its first use.

    A connection that breaks is replaced, and the work that was on it is done again: nothing of it was kept, or, where
    the commit got no answer, the server tells whether it was. `requeue` is called once in a database that an older
    nanobot has left, in the transaction that changes its layout.
    """

    def __init__(self, address: str, channel: str, requeue: Callable[[Transaction], Awaitable[None]]) -> None:
        self.place = place_of(address)
        self.schema = "nanobot_" + channel.rpartition(":")[2]
        #: The name under which this process works; empty where it is no worker.
        self.worker = ""
        #: Set when the work of this worker has gone to others.
        self.lost = asyncio.Event()
        self._address, self._channel, self._requeue = address, channel, requeue
        mine = str(conninfo_to_dict(address).get("options") or "")
        self._options = f"{mine} {_OPTIONS.format(self.schema)}".strip()
        self._pool: AsyncConnectionPool[Transaction] | None = None
        self._opening = asyncio.Lock()
        self._work: set[asyncio.Task[object]] = set()

    async def run(self, work: Callable[[Transaction], Awaitable[T]], *, fenced: bool = False) -> T:
        """Run `work` in one transaction, to its end even when its caller is cancelled. Raises `StoreError` only.

        `fenced` work is refused where this worker was taken for dead, and keeps others from doing so until it is kept.
        """

        async def guarded(db: Transaction) -> T:
            if fenced and self.worker:
                query = "SELECT 1 FROM lease WHERE name = 'worker:' || %s FOR KEY SHARE"
                if await (await db.execute(query, (self.worker,))).fetchone() is None:
                    self.lost.set()
                    raise StoreError(TAKEN)
            return await work(db)

        task = asyncio.create_task(self._run(guarded))
        self._work.add(task)
        task.add_done_callback(self._ended)
        # Shielded: a cancelled caller must not take back a write that has begun.
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._work.discard(task)
        if not task.cancelled():
            task.exception()  # else asyncio tells of it where its caller has gone

    async def pool(self) -> AsyncConnectionPool[Transaction]:
        """The connections, once the tables stand. Raises `StoreError`."""
        async with self._opening:
            if self._pool is None:
                try:
                    async with await self.connect() as db:
                        await self._prepare(db)
                except (psycopg.Error, TimeoutError, OSError) as error:
                    raise self.trouble(error) from error
                # What cannot be had within two seconds is asked for anew, so that nobody waits longer than the outage.
                self._pool = AsyncConnectionPool(
                    self._conninfo(),
                    min_size=1,
                    max_size=CONNECTIONS,
                    timeout=2.0,
                    reconnect_timeout=2.0,
                    open=False,
                )
                await self._pool.open()
        return self._pool

    async def connect(self, options: str = "") -> Transaction:
        """A connection of its own, which the caller closes. Raises `psycopg.Error`."""
        return await psycopg.AsyncConnection.connect(self._conninfo(options), autocommit=True)

    def _conninfo(self, options: str = "") -> str:
        options = f"{self._options} {options}".strip()
        return make_conninfo(
            self._address, options=options, connect_timeout=CONNECT_SECONDS, application_name="nanobot"
        )

    async def aclose(self) -> None:
        """Wait for the work that runs, then close what is open."""
        if self._work:
            await asyncio.wait(set(self._work), timeout=WORK_SECONDS)
        if self._pool is not None:
            await self._pool.close()

    def trouble(self, error: Exception) -> StoreError:
        """What went wrong, in words that help."""
        told = " ".join(str(error).split()).rstrip(".")
        if isinstance(error, TimeoutError):
            told = "it does not answer"
        elif "authentication failed" in told or "no password supplied" in told:
            return StoreError(
                f"The database {self.place} refuses the user or the password of gateway.ledger. Correct it there."
            )
        elif "database" in told and "does not exist" in told:
            return StoreError(f"{told[0].upper()}{told[1:]} ({self.place}). Make it with createdb, or name another.")
        elif not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return StoreError(f"The database {self.place} refused the work: {told}. Nothing of it was kept.")
        return StoreError(
            f"The database {self.place} cannot be reached: {told}. Nothing was lost; nanobot connects again by "
            "itself as soon as it is back."
        )

    async def _run(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Again while the server is away. Work that broke off was taken back, so it may be done again."""
        pool, end, tries = await self.pool(), time.monotonic() + PATIENCE_SECONDS, 0
        while True:
            tries += 1
            try:
                async with asyncio.timeout(WORK_SECONDS):
                    return await self._once(pool, work)
            except (psycopg.OperationalError, psycopg.InterfaceError, OSError) as error:
                # A process that stood still has tried nothing in the time that went by.
                if isinstance(error, TimeoutError) or (time.monotonic() > end and tries >= _FEWEST_TRIES):
                    raise self.trouble(error) from error
                await asyncio.sleep(PAUSE)
            except psycopg.Error as error:
                raise self.trouble(error) from error

    async def _once(self, pool: AsyncConnectionPool[Transaction], work: Callable[[Transaction], Awaitable[T]]) -> T:
        async with pool.connection() as db:
            try:
                made = await work(db)
            except ConnectorException as error:  # what the engine did on our connection failed for this reason
                raise error.__cause__ or error from None
            row = await (await db.execute("SELECT pg_current_xact_id_if_assigned()::text")).fetchone()
            try:
                await db.commit()
            except psycopg.OperationalError:
                if row is None or row[0] is None or not await self.committed(str(row[0])):
                    raise
            return made

    async def committed(self, transaction: str) -> bool:
        """Whether a commit that got no answer took place: the server knows."""
        async with await self.connect() as db:
            while True:
                row = await (await db.execute("SELECT pg_xact_status(%s::xid8)", (transaction,))).fetchone()
                if row != ("in progress",):
                    return row == ("committed",)
                await asyncio.sleep(PAUSE)

    async def _prepare(self, db: Transaction) -> None:
        """Make or migrate the tables, of many processes that start at once in one. Raises `StoreError`."""
        await db.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        async with db.transaction():
            await self._adopt(db)
            await db.execute(f'CREATE SCHEMA IF NOT EXISTS "{self.schema}"'.encode())
            await db.execute("CREATE TABLE IF NOT EXISTS layout (version integer NOT NULL)")
            await db.execute("ALTER TABLE layout ADD COLUMN IF NOT EXISTS engine text NOT NULL DEFAULT ''")
            row = await (await db.execute("SELECT version, engine FROM layout ORDER BY version DESC")).fetchone()
            version, engine = row or (0, "")
            if version > VERSION:
                raise StoreError(_NEWER.format(self.place, version, VERSION))
            changes = _engine_changes()
            if version < VERSION:
                for statement in (_FROM_DBOS if version else _TABLES, _INDEX, SchemaManager.get_schema()):
                    await db.execute(statement.encode())
                await self._requeue(db)
            else:
                for change in [one for one in changes if one.name > engine]:
                    await db.execute(change.read_bytes())
            if (VERSION, changes[-1].name) != (version, engine):
                await db.execute("DELETE FROM layout")
                await db.execute("INSERT INTO layout VALUES (%s, %s)", (VERSION, changes[-1].name))

    async def _adopt(self, db: Transaction) -> None:
        """Older nanobots kept everything in one schema for all bots of a database."""
        query = "SELECT to_regnamespace(%s) IS NULL AND to_regclass('nanobot.inbox') IS NOT NULL"
        if (await (await db.execute(query, (self.schema,))).fetchone()) != (True,):
            return
        query = "SELECT 1 FROM nanobot.inbox WHERE channel <> %s LIMIT 1"
        if await (await db.execute(query, (self._channel,))).fetchone():
            raise StoreError(_SEVERAL.format(self.place, self.schema))
        await db.execute(f'ALTER SCHEMA nanobot RENAME TO "{self.schema}"'.encode())


class EngineConnector(PsycopgConnector):
    """How Procrastinate reaches the pool: it waits while the database is away, where the engine alone would stop."""

    #: Nothing of the engine reaches the database any more.
    given_up = False

    async def execute_query_async(self, query: LiteralString, **arguments: object) -> None:
        await self._again(lambda: super(EngineConnector, self).execute_query_async(query, **arguments), None)

    async def execute_query_one_async(self, query: LiteralString, **arguments: object) -> dict[str, object]:
        return await self._again(lambda: super(EngineConnector, self).execute_query_one_async(query, **arguments), {})

    async def execute_query_all_async(self, query: LiteralString, **arguments: object) -> list[dict[str, object]]:
        return await self._again(lambda: super(EngineConnector, self).execute_query_all_async(query, **arguments), [])

    async def listen_notify(self, on_notification: Notify, channels: Iterable[str]) -> None:
        await self._again(lambda: super(EngineConnector, self).listen_notify(on_notification, channels), None)

    async def _again(self, work: Callable[[], Awaitable[T]], done: T) -> T:
        """Until the database answers; `done` where it says then that an earlier try was kept."""
        tries = 0
        while not self.given_up:
            try:
                return await work()
            except ConnectorException as error:
                if tries and isinstance(error.__cause__, psycopg.errors.RaiseException):
                    return done
                if not isinstance(error.__cause__, psycopg.OperationalError | psycopg.InterfaceError):
                    raise
            tries += 1
            await asyncio.sleep(PAUSE)
        raise ConnectorException("this process has ended its work")


def _engine_changes() -> list[Path]:
    """The migrations of the engine, in their order."""
    return sorted(Path(SchemaManager.get_migrations_path()).glob("*.sql"))


class Stored(Protocol):
    """Whatever has its data in a `Postgres`."""

    @property
    def database(self) -> Postgres: ...


S = TypeVar("S", bound=Stored)


Method = Callable[Concatenate[S, Transaction, P], Awaitable[T]]
Bound = Callable[Concatenate[S, P], Coroutine[None, None, T]]


def transaction(method: Method[S, P, T], *, fence: bool = False) -> Bound[S, P, T]:
    """The method runs in one transaction, which it gets as its first argument."""

    @wraps(method)
    async def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.database.run(lambda db: method(self, db, *args, **kwargs), fenced=fence)

    return run


def fenced(method: Method[S, P, T]) -> Bound[S, P, T]:
    """As `transaction`, for what only a worker may do whose work has not gone to others."""
    return transaction(method, fence=True)


def plain(text: str) -> str:
    """What PostgreSQL keeps as text: no zero character, no lone surrogate."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()


def place_of(address: str) -> str:
    """Where a database is, without the password."""
    try:
        if not address.startswith(("postgresql://", "postgres://")):
            raise psycopg.ProgrammingError("another scheme")
        parts = conninfo_to_dict(address)
    except psycopg.Error as error:
        raise StoreError(
            "gateway.ledger is no address of a PostgreSQL database. Write postgresql://user:password@host/name."
        ) from error
    host = parts.get("host") or "localhost"
    return f"{parts.get('dbname') or parts.get('user') or 'postgres'} at {host}:{parts.get('port') or 5432}"
