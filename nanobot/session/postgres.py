"""A PostgreSQL database that several processes share: connections, layout, and words for what goes wrong."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import psycopg
from dbos import DBOS
from psycopg.conninfo import conninfo_to_dict

from nanobot.errors import StoreError
from nanobot.session.postgres_layout import LOCK, prepare

#: Seconds for a connection, and for one transaction from its begin to its commit.
CONNECT_SECONDS, WORK_SECONDS = 10, 30.0
#: Seconds for which work is tried again while the server is away, and between two tries.
PATIENCE_SECONDS, _PAUSE, _FEWEST_TRIES = 8.0, 0.25, 4
#: Seconds after which the server ends a transaction whose process stands still: others need what it has locked.
IDLE_SECONDS, _NO_IDLE = 5, "idle_in_transaction_session_timeout"
#: Connections of one process at most, besides the one that listens.
CONNECTIONS = 8
Transaction = psycopg.AsyncConnection[tuple[object, ...]]
T = TypeVar("T")


class Postgres:
    """The database at `address` (`postgresql://…`). Nothing is opened before the first use.

    A connection that breaks is replaced, and the work that was on it is done again: nothing of it was kept, or, where
    the commit got no answer, the server tells whether it was.
    """

    def __init__(self, address: str) -> None:
        self.place = place_of(address)
        # The older name of the scheme, which PostgreSQL takes and DBOS does not.
        self.address = re.sub(r"^postgres://", "postgresql://", address)
        self._idle: list[Transaction] = []
        self._room = asyncio.Semaphore(CONNECTIONS)
        self._preparing = asyncio.Lock()
        self._ready = False
        self._work: set[asyncio.Task[object]] = set()

    async def run(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Run `work` in one transaction, to its end even when its caller is cancelled. Raises `StoreError` only."""
        task = asyncio.create_task(self._run(work))
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        # Shielded: a cancelled caller must not take back a write that has begun.
        return await asyncio.shield(task)

    async def listen(self, channel: str) -> Transaction:
        """A connection of its own that hears `NOTIFY channel`; the caller closes it. Raises `StoreError`."""
        await self._prepared()
        try:
            db = await self._connect()
            await db.execute(f'LISTEN "{channel}"')
        except (psycopg.Error, TimeoutError, OSError) as error:
            raise self.trouble(error) from error
        return db

    async def aclose(self) -> None:
        """Wait for the work that runs, then close what is open."""
        if self._work:
            await asyncio.wait(set(self._work), timeout=WORK_SECONDS)
        await self._forget()

    def trouble(self, error: Exception) -> StoreError:
        """What went wrong, in words that help."""
        if isinstance(error, TimeoutError):
            return StoreError(
                f"The database {self.place} does not answer. Nothing was lost; nanobot goes on trying. "
                "Check that it runs and can be reached."
            )
        told = " ".join(str(error).split()).rstrip(".")
        if "authentication failed" in told or "no password supplied" in told:
            return StoreError(
                f"The database {self.place} refuses the user or the password of gateway.ledger. Correct it there."
            )
        if "database" in told and "does not exist" in told:
            return StoreError(f"{told[0].upper()}{told[1:]} ({self.place}). Make it with createdb, or name another.")
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return StoreError(
                f"The database {self.place} cannot be reached: {told}. Nothing was lost; nanobot connects again by "
                "itself as soon as it is back."
            )
        return StoreError(f"The database {self.place} refused the work: {told}. Nothing of it was kept.")

    async def _run(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        if not self._ready:
            await self._prepared()
        try:
            async with self._room, asyncio.timeout(WORK_SECONDS):
                return await self._patiently(work)
        except (psycopg.Error, TimeoutError, OSError) as error:
            raise self.trouble(error) from error

    async def _patiently(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Again while the server is away for a moment. Work that broke off was taken back, so it may be done again."""
        end, tries = time.monotonic() + PATIENCE_SECONDS, 0
        while True:
            tries += 1
            try:
                return await self._once(work)
            except (psycopg.OperationalError, psycopg.InterfaceError, OSError) as error:
                # A process that stood still has tried nothing in the time that went by.
                if not _passes(error) or (time.monotonic() > end and tries >= _FEWEST_TRIES):
                    raise
                await self._forget()
                await asyncio.sleep(_PAUSE)

    async def _once(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        db = await self._connection()
        try:
            await db.execute("BEGIN")
            made = await work(db)
            row = await (await db.execute("SELECT pg_current_xact_id_if_assigned()::text")).fetchone()
            try:
                await db.execute("COMMIT")
            except psycopg.OperationalError:
                if row is None or row[0] is None or not await self.committed(str(row[0])):
                    raise
                await db.close()
                return made
        except BaseException:
            await db.close()  # the server takes back what had begun
            raise
        self._idle.append(db)
        return made

    async def committed(self, transaction: str) -> bool:
        """Whether a commit that got no answer took place: the server knows."""
        await self._forget()
        async with await self._connect() as db:
            while True:
                row = await (await db.execute("SELECT pg_xact_status(%s::xid8)", (transaction,))).fetchone()
                if row != ("in progress",):
                    return row == ("committed",)
                await asyncio.sleep(_PAUSE)

    async def _forget(self) -> None:
        """The waiting connections were opened to a server that has gone."""
        while self._idle:
            await self._idle.pop().close()

    async def _connection(self) -> Transaction:
        while self._idle:
            db = self._idle.pop()
            if not db.closed:
                return db
        return await self._connect()

    async def _connect(self) -> Transaction:
        db: Transaction = await psycopg.AsyncConnection.connect(
            self.address, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="nanobot"
        )
        await db.execute(f"SET search_path TO nanobot, pg_catalog; SET {_NO_IDLE} = '{IDLE_SECONDS} s'")
        return db

    async def _prepared(self) -> None:
        """Make or migrate the layout, ours and that of DBOS, once per process."""
        async with self._preparing:
            if not self._ready:
                try:
                    await self._prepare()
                except (psycopg.Error, TimeoutError, OSError) as error:
                    raise self.trouble(error) from error
                self._ready = True

    async def _prepare(self) -> None:
        async with asyncio.timeout(CONNECT_SECONDS):
            db = await self._connect()
        try:
            # Held by the session, so that of many processes that start at once one makes the layout.
            await db.execute("SELECT pg_advisory_lock(%s)", (LOCK,))
            found = await (await db.execute("SELECT to_regclass('dbos.workflow_status') IS NOT NULL")).fetchone()
            if found != (True,):
                await asyncio.to_thread(DBOS.migrate, self.address)
            await prepare(db, self.place)
        finally:
            await db.close()


def _passes(error: Exception) -> bool:
    """Whether trying again may help: not where the server refuses who asks, or what for."""
    told = str(error)
    return not ("authentication failed" in told or "no password supplied" in told or "does not exist" in told)


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
