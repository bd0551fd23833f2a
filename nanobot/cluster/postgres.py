"""A PostgreSQL database that several processes share: its tables, its connections, and words for what goes wrong.

Every bot has a schema of its own, which holds our tables and those of Procrastinate, so that several bots may share a
database and know nothing of each other.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import cache
from typing import LiteralString, TypeVar
from uuid import uuid4

import psycopg
from loguru import logger
from msgspec import convert
from procrastinate import PsycopgConnector
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import DivisionByZero, LockNotAvailable
from psycopg.rows import TupleRow, dict_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from nanobot.errors import StoreError, UsageError
from nanobot.session.database import Value
from nanobot.utils.translation import N_, _, sentences

#: Seconds for a connection, and for one transaction from its begin to its commit.
CONNECT_SECONDS, WORK_SECONDS = 10, 30.0
#: Seconds for which work is tried again while the server is away, and between two tries; tries at least.
PATIENCE_SECONDS, PAUSE, _FEWEST_TRIES = 60.0, 0.25, 4
#: Connections of one process at most, besides those that listen or hold an office.
CONNECTIONS = 10
#: Seconds between two tries to win an election, and between two looks at what was won.
TRY_SECONDS = 3.0
#: The server ends the connection of an office whose holder stands still, and with it the lock.
_IDLE = "-c idle_session_timeout=10s"
#: Seconds for one transaction of a process that ends, and for what is still under way then.
ENDING_SECONDS = 5.0
#: Leases that a worker has as long as it lives: what it may write under, the sessions of its turns, and places; who has
#: them. What this worker has already it is given again: it asks so where it does not know whether it was given.
HOLD = """
INSERT INTO lease VALUES (:name, :holder, :until)
ON CONFLICT (name) DO UPDATE SET until = excluded.until RETURNING holder
"""
DROP = "DELETE FROM lease WHERE name = :name AND holder = :worker"
#: A transaction whose process stands still is ended by the server: others need what it has locked.
_OPTIONS = "-c search_path={} -c TimeZone=UTC -c idle_in_transaction_session_timeout=5s"
#: The server does not mind one that stands still before the Sync of its trip (`Connection.synced`): those that live do.
# English: a call of SQL
STILL = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user AND application_name = 'nanobot'
AND state = 'active' AND wait_event = 'ClientRead'
AND query_start < now() - current_setting('idle_in_transaction_session_timeout')::interval
"""
#: The id in the JSON of a user's message. Quotes inside of its texts are escaped, so they are not met.
# English: a call of SQL
REQUEST = 'substring(message from \'"id":"([^"]*)"\')'
TAKEN = N_("This worker was not heard of for too long, so its work has gone to others. Start it again.")
#: A transaction begins with its token in a row of ours, where who got no answer to its commit finds it if it was kept.
#: Who asks takes that row as a lease, and so waits for a transaction that has not ended.
_MARK = """
INSERT INTO lease VALUES (:mark, :token, now())
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
"""
#: The server itself takes nothing of what comes behind it where the lease is gone.
_FENCE = "SELECT 1 / count(*) FROM (SELECT FROM lease WHERE name = 'worker:' || :worker FOR KEY SHARE) AS mine"
T = TypeVar("T")


class Connection(psycopg.AsyncConnection[TupleRow]):
    """Meets `Transaction`; the engine takes it, too. In the pipeline `pipe` a statement goes out with the first one
    behind it of which something is to be known, in one trip."""

    pipe: psycopg.AsyncPipeline | None = None

    async def cancel_safe(self, *, timeout: float = 0.0) -> None:  # noqa: ARG002 - the driver's own
        """A statement that is given up ends with its connection: a server that hangs hears of no cancel either."""
        logger.warning("a statement was given up, and its connection is closed")
        await self.close()

    async def version(self) -> str:
        """That of the server."""
        return self.info.parameter_status("server_version") or ""

    async def synced(self) -> None:
        """What was sent is done. A Sync has to be the last word, and no Flush or end of a pipeline: only then the
        server minds how long a transaction stands still."""
        if self.pipe is not None:
            await self.pipe.sync()

    async def change(self, statement: str, /, **values: Value) -> int:
        changed = await self.execute(_translated(statement), _plain(values))
        await self.synced()
        return changed.rowcount

    async def send(self, statement: str, /, **values: Value) -> None:
        await self.execute(_translated(statement), _plain(values))

    async def fetch(self, row: type[T], query: str, /, **values: Value) -> tuple[T, ...]:
        return await self.each(row, query, values)

    async def each(self, row: type[T], query: str, *values: Mapping[str, Value]) -> tuple[T, ...]:
        asked = [await self.execute(_translated(query), _plain(one)) for one in values]
        if asked:
            await self.synced()
        return tuple([convert(found, row) for one in asked for found in await one.fetchall()])


#: What is done with a connection.
Work = Callable[[Connection], Awaitable[T]]


class Postgres:
    """The database at `address` (`postgresql://…`) of the bot `channel`. Nothing is opened before its first use.

    A connection that breaks is replaced, and the work that was on it is done again: nothing of it was kept, or, where
    the commit got no answer, the server tells whether it was. `prepare` makes the tables or those of today out of older
    ones, before anything else is done.
    """

    request, members = REQUEST, "SELECT value FROM json_array_elements_text(:without)"

    def __init__(self, address: str, channel: str, prepare: Callable[[Connection], Awaitable[None]]) -> None:
        self.place = place_of(address)
        self.schema = "nanobot_" + channel.rpartition(":")[2]
        #: The name under which this process works; empty where it is no worker.
        self.worker = ""
        #: Set when the work of this worker has gone to others.
        self.lost = asyncio.Event()
        self._address, self._prepare = address, prepare
        mine = str(conninfo_to_dict(address).get("options") or "")
        self._options = f"{mine} {_OPTIONS.format(self.schema)}".strip()
        self._pool: AsyncConnectionPool[Connection] | None = None
        self._opening = asyncio.Lock()
        self._work: set[asyncio.Task[object]] = set()
        self._held: set[str] = set()
        self._marks: list[str] = []  # names of rows for tokens that are free
        #: Shows who runs this process a line when the database goes away, and one when it is back.
        self.say: Callable[[str], None] = lambda _line: None
        self.is_away = False
        #: Set where this process ends: it waits no more for a server that is away.
        self.ending = False
        #: For one transaction; less in tests.
        self.seconds = WORK_SECONDS

    def seen(self, error: Exception | None = None) -> None:
        """A connection stands, or has failed: who runs this process is told when that changes."""
        if self.is_away != (error is not None):
            back = _("The database {place} answers again.", place=self.place)
            self.say(sentences(str(self.trouble(error)), _("Messages wait meanwhile.")) if error else back)
        self.is_away = error is not None

    async def run(self, work: Work[T], *, durable: bool = False, fenced: bool = False, again: bool = False) -> T:
        """Every commit is durable. `fenced` work keeps others from taking this worker for dead until it is kept."""
        del durable
        fence = (_FENCE,) if fenced and self.worker else ()
        return await asyncio.shield(self._kept(work, ("BEGIN", *fence) if again else ("BEGIN", _MARK, *fence)))

    async def read(self, work: Work[T], *, long: bool = False) -> T:
        """Without a transaction: where a connection breaks, each statement may have been done."""
        del long  # there are several connections
        return await asyncio.shield(self._kept(work, ()))

    def _kept(self, work: Work[T], begin: tuple[str, ...]) -> asyncio.Task[T]:
        """Work that is shielded by who waits for it: a cancelled caller must not take back a write that has begun."""
        task = asyncio.create_task(self._run(work, begin))
        self._work.add(task)
        task.add_done_callback(self._ended)
        return task

    async def hold(self, session_id: str) -> str:
        """It is free again at the latest when this worker was taken for dead."""
        name, mine = f"session:{session_id}", f"worker {self.worker}"
        if name in self._held:
            return mine

        async def work(db: Connection) -> str:
            ((holder,),) = await db.fetch(tuple[str], HOLD, name=name, holder=self.worker, until="infinity")
            return "" if holder == self.worker else f"worker {holder}"

        self._held.add(name)
        holder = mine
        try:
            holder = await self.run(work, fenced=True)
        finally:
            if holder:
                self._held.discard(name)
        return holder

    async def tidy(self) -> None:
        """The server frees what was deleted in its own time."""

    async def drop(self, session_id: str) -> None:
        name = f"session:{session_id}"
        giving = self._kept(lambda db: db.change(DROP, name=name, worker=self.worker), ("BEGIN", _MARK))
        giving.add_done_callback(lambda _: self._held.discard(name))  # and no sooner: where who asks is cancelled, too
        await asyncio.shield(giving)

    async def elect(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do a work while this process holds the advisory lock `name`, on a connection of its own; the others wait.

        Until cancelled. What `work` raises ends it.
        """
        while True:
            working: asyncio.Future[None] | None = None
            try:
                async with await self.connect(_IDLE) as db:
                    self.seen()
                    won = "SELECT pg_try_advisory_lock(hashtextextended(:name, 0))"
                    if await db.fetch(tuple[bool], won, name=name) == ((True,),):
                        logger.info("this process is {} now", name)
                        working = asyncio.ensure_future(work())
                    while working is not None and not working.done():
                        await asyncio.wait({working}, timeout=TRY_SECONDS)
                        async with asyncio.timeout(TRY_SECONDS):
                            await db.execute("SELECT 1")
            except (psycopg.Error, OSError) as error:  # a `TimeoutError` too
                self.seen(error)
                logger.warning("{} may be another process now: {}", name, error)
            finally:
                if working is not None:
                    working.cancel()
                    await asyncio.wait({working})
            if working is not None and not working.cancelled():
                return working.result()
            await asyncio.sleep(TRY_SECONDS)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._work.discard(task)
        if not task.cancelled():
            task.exception()  # else asyncio tells of it where its caller has gone

    async def pool(self) -> AsyncConnectionPool[Connection]:
        """The connections, once the tables stand. Raises `StoreError`."""
        async with self._opening:
            if self._pool is None:
                await self.alone(self._prepare)
                self.seen()
                self._pool = AsyncConnectionPool(
                    self._conninfo(),
                    connection_class=Connection,
                    min_size=1,
                    max_size=CONNECTIONS,
                    reconnect_timeout=2.0,
                    open=False,
                )
                await self._pool.open()
        return self._pool

    async def alone(self, work: Work[T]) -> T:
        """Work on a connection of its own, for which there need be no tables. Raises `StoreError`."""
        try:
            async with await self.connect() as db:
                return await work(db)
        except (psycopg.Error, OSError) as error:
            self.seen(error)
            raise self.trouble(error) from error

    async def connect(self, options: str = "") -> Connection:
        """A connection of its own, which the caller closes. Raises `psycopg.Error`."""
        return await Connection.connect(self._conninfo(options), autocommit=True)

    def _conninfo(self, options: str = "") -> str:
        options = f"{self._options} {options}".strip()
        return make_conninfo(
            self._address, options=options, connect_timeout=CONNECT_SECONDS, application_name="nanobot"
        )

    async def aclose(self) -> None:
        """Wait for the work that runs, then close what is open."""
        if self._work:
            await asyncio.wait(set(self._work), timeout=ENDING_SECONDS if self.ending else WORK_SECONDS)
        if self._pool is not None:
            await self._pool.close(timeout=1.0)  # it may be waiting for a connection

    def trouble(self, error: Exception) -> StoreError:
        """What went wrong, in words that help."""
        told = " ".join(str(error).split()).rstrip(".")
        if isinstance(error, TimeoutError | LockNotAvailable):
            told = _("it does not answer")
        if "authentication failed" in told or "no password supplied" in told:  # English: the server says it
            text = N_("The database {place} refuses the user or the password of gateway.ledger. Correct it there.")
        elif "database" in told and "does not exist" in told:
            told = told[0].upper() + told[1:]
            text = N_("{why} ({place}). Make it with createdb, or name another.")
        elif not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | TimeoutError):
            text = N_("The database {place} refused the work: {why}. Nothing of it was kept.")
        else:
            text = N_(
                "The database {place} cannot be reached: {why}. Nothing was lost; nanobot connects again by itself as "
                "soon as it is back."
            )
        return StoreError(_(text, place=self.place, why=told))

    async def _run(self, work: Work[T], begin: tuple[str, ...]) -> T:
        """Again while the server is away. Work that broke off was taken back, so it may be done again."""
        pool, end, tries = await self.pool(), time.monotonic() + PATIENCE_SECONDS, 0
        while True:
            tries += 1
            try:
                return await self._once(pool, work, begin)
            except (psycopg.OperationalError, psycopg.InterfaceError, OSError) as error:
                given_up = isinstance(error, TimeoutError) or (self.ending and isinstance(error, PoolTimeout))
                # A process that stood still has tried nothing in the time that went by.
                if given_up or (time.monotonic() > end and tries >= _FEWEST_TRIES):
                    raise self.trouble(error) from error
                await asyncio.sleep(PAUSE)
            except psycopg.Error as error:
                raise self.trouble(error) from error

    async def _once(self, pool: AsyncConnectionPool[Connection], work: Work[T], begin: tuple[str, ...]) -> T:
        """Work in a transaction, which begins with the statements `begin`; without any each is its own."""
        mark, token, committing = self._marks.pop() if self._marks else f"commit:{uuid4()}", str(uuid4()), False
        values = {"mark": mark, "token": token, "worker": self.worker}
        try:
            # What cannot be had so soon is asked for anew, so that nobody waits longer than the outage.
            async with pool.connection(timeout=1.0 if self.ending else 2.0) as db:
                try:
                    await db.set_autocommit(True)  # a transaction of the driver's own has a trip for its begin
                    async with asyncio.timeout(ENDING_SECONDS if self.ending else self.seconds):
                        if not begin:
                            return await work(db)
                        _JOINED.set(db)
                        async with db.pipeline() as db.pipe:
                            for statement in begin:
                                begun = await db.execute(_translated(statement), values)
                            made = await work(db)
                            if _MARK in begin:
                                if begun.statusmessage is None:  # nothing was waited for, and no mark is made yet
                                    await db.synced()
                                committing = True
                            await db.send("COMMIT")
                except Exception:
                    await db.close()  # what was begun ends with it; the pool would wait for that, or commit
                    raise
                finally:
                    db.pipe = None
        except DivisionByZero:
            self.lost.set()
            raise StoreError(_(TAKEN)) from None
        except Exception:  # the connection has gone back: others need it while the fate of a commit is not known
            if not (committing and await self._committed(mark, token)):
                raise
        finally:
            self._marks.append(mark)
        return made

    async def _committed(self, mark: str, token: str) -> bool:
        """Whether a commit that got no answer took place: its row tells, as soon as the server answers. Who asked for
        the work waits until then, since it would have it done again, but for a process that ends; who runs this process
        is told of it."""
        while True:
            try:
                async with asyncio.timeout(self.seconds), await self.connect(f"-c lock_timeout={self.seconds}s") as db:
                    found = await db.fetch(tuple[str], HOLD, name=mark, holder="", until="now")
            except (psycopg.OperationalError, TimeoutError) as error:
                self.seen(error)
                if self.ending:
                    raise self.trouble(error) from error
                logger.warning("whether a change was kept is asked again: {}", error)
                await asyncio.sleep(PAUSE)
            else:
                self.seen()
                return found == ((token,),)


#: The connection of the transaction that this task is in.
_JOINED: ContextVar[Connection | None] = ContextVar("joined", default=None)


class EngineConnector(PsycopgConnector):
    """How Procrastinate reaches the database: in the transaction that asks for it, else in one of its own, which is
    done again where a connection breaks."""

    def __init__(self, database: Postgres) -> None:
        super().__init__()
        self._database = database

    async def execute_query_async(self, query: LiteralString, **arguments: object) -> None:
        await self.execute_query_all_async(query, **arguments)

    async def execute_query_one_async(self, query: LiteralString, **arguments: object) -> dict[str, object]:
        return (await self.execute_query_all_async(query, **arguments))[0]

    async def execute_query_all_async(self, query: LiteralString, **arguments: object) -> list[dict[str, object]]:
        async def work(db: Connection) -> list[dict[str, object]]:
            asked = await db.cursor(row_factory=dict_row).execute(query, self._wrap_json(arguments))
            await db.synced()
            return await asked.fetchall()

        joined = _JOINED.get()
        return await (self._database.run(work, again=True) if joined is None else work(joined))


@cache
def _translated(statement: str) -> bytes:
    """A statement with its values as this driver names them."""
    return re.sub(r"(?<!:):(\w+)", r"%(\1)s", statement.replace("%", "%%")).encode()


def _plain(values: Mapping[str, Value]) -> Mapping[str, Value]:
    """What PostgreSQL keeps as text: no zero character, no lone surrogate."""
    texts = {key: value.replace("\x00", "") for key, value in values.items() if isinstance(value, str)}
    return {**values, **{key: text.encode("utf-8", "replace").decode() for key, text in texts.items()}}


def place_of(address: str) -> str:
    """Where a database is, without the password."""
    try:
        if not address.startswith(("postgresql://", "postgres://")):
            raise psycopg.ProgrammingError("another scheme")
        parts = conninfo_to_dict(address)
    except psycopg.Error as error:
        raise UsageError(
            _("gateway.ledger is no address of a PostgreSQL database. Write postgresql://user:password@host/name.")
        ) from error
    host = parts.get("host") or "localhost"
    name = parts.get("dbname") or parts.get("user") or "postgres"
    return _("{name} at {host}:{port}", name=name, host=host, port=parts.get("port") or 5432)
