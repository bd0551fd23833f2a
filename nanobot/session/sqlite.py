"""A `Database` in one SQLite file, with one thread that writes and one that reads beside it; and one in memory."""

import asyncio
import os
import shutil
import sqlite3
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, ValidationError, convert

from nanobot.errors import StoreError
from nanobot.session.database import Transaction, Value, Work
from nanobot.session.layout import REQUEST, migrate, open_file
from nanobot.session.lock import FileLock, session_lock
from nanobot.utils.host import held_advice
from nanobot.utils.translation import _, sentences

#: Bytes: a disk with less room than this counts as full.
_ROOM = 1_000_000
#: Works that share one transaction at most.
MOST_TOGETHER = 64
_MEMBERS = "SELECT value FROM json_each(:without)"
T = TypeVar("T")


class _Statements:
    """Meets `Transaction`. Nothing here waits for a loop."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def change(self, statement: str, /, **values: Value) -> int:
        return self._connection.execute(statement, values).rowcount

    async def send(self, statement: str, /, **values: Value) -> None:
        self._connection.execute(statement, values)

    async def fetch(self, row: type[T], query: str, /, **values: Value) -> tuple[T, ...]:
        return tuple([convert(found, row) for found in self._connection.execute(query, values)])

    async def each(self, row: type[T], query: str, *values: Mapping[str, Value]) -> tuple[T, ...]:
        return tuple([convert(found, row) for given in values for found in self._connection.execute(query, given)])


class _Job(Struct, frozen=True):
    """`done` is a future of the loop that waits; nobody may wait any more when the work is over. `context` is that of
    who waits, whose language errors are said in."""

    work: Callable[[sqlite3.Connection], None]
    durable: bool
    done: "asyncio.Future[None]"
    context: Context

    def end(self, error: BaseException | None = None) -> None:
        """Called on the loop that waits, to wake it."""
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


class SqliteDatabase:
    """The file `path`, made on first use; its folder must exist or be creatable.

    Work runs on one thread, in the order of the calls. A file that is damaged, empty, foreign or of a newer nanobot
    raises `StoreError` and is left as it is; so does every work after the file was deleted or replaced, because what is
    written then is kept nowhere.
    """

    worker, request, members = "", REQUEST, _MEMBERS

    def __init__(self, path: Path) -> None:
        self.path, self.place = path, str(path)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="database")
        self._reading = ThreadPoolExecutor(1)
        self._connection: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._opened: os.stat_result
        self._synced = self._closed = False
        self._jobs: deque[_Job] = deque()
        self._held: dict[str, FileLock] = {}

    async def run(self, work: Work[T], *, durable: bool = False, **_how: bool) -> T:
        """Works that wait at the same time share a transaction and its way to the disk; when one of them fails, each
        runs again in a transaction of its own. So `work` touches nothing but the database, or bears that.
        """
        return await self.perform(work, writes=True, durable=durable)

    async def read(self, work: Work[T], *, long: bool = False) -> T:
        if not long:
            return await self.perform(work, writes=False)
        if self._connection is None:
            await self.read(_nothing)
        look = partial(copy_context().run, self._read, work)
        return await asyncio.get_running_loop().run_in_executor(self._reading, look)

    async def tidy(self) -> None:
        truncate = "PRAGMA wal_checkpoint(TRUNCATE)"  # brings all changes into the file, and empties their log
        await self.perform(lambda db: db.fetch(tuple[int, int, int], truncate), writes=False)

    async def perform(self, work: Work[T], *, writes: bool, durable: bool = False) -> T:
        """Do a work on the thread that writes."""
        made: list[T] = []

        def whole(db: sqlite3.Connection) -> None:
            if writes:
                _begin(db)
            made[:] = [_complete(work(_Statements(db)))]

        job = _Job(whole, durable, asyncio.get_running_loop().create_future(), copy_context())
        self._jobs.append(job)
        if len(self._jobs) == 1:  # else the thread has not come to those before it, and finds this one with them
            try:
                self._thread.submit(self._drain)
            except RuntimeError:  # it is closed
                self._jobs.clear()
                raise
        await job.done  # a cancelled caller takes back no write that is queued
        return made.pop()

    async def hold(self, session_id: str) -> str:
        """The lock is a file beside this one, and taken on the way of the works: at once with those that wait there."""
        lock, found = session_lock(self.path, session_id), list[str]()

        async def take(_db: Transaction) -> str:
            if not found:  # else works that were done together are done again, each alone
                found.append(lock.take())
            return found[0]

        try:
            holder = await self.perform(take, writes=False)
        except StoreError:
            lock.release()
            raise
        if not holder:
            self._held[session_id] = lock
        return holder

    async def drop(self, session_id: str) -> None:
        if lock := self._held.pop(session_id, None):

            async def release(_db: Transaction) -> None:
                lock.release()

            try:
                await self.perform(release, writes=False)
            except (StoreError, RuntimeError):  # the file is gone, or closed already: the session is free all the same
                lock.release()

    async def aclose(self) -> None:
        if self._closed:
            return
        self._closed = True
        reader = self._reading.submit(self._close_reader)
        self._reading.shutdown(wait=False)  # who would read behind it is refused, and opens nothing again
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, self._close, reader))

    def _drain(self) -> None:
        """Do what waits, until nothing does."""
        while self._jobs:
            self._try([self._jobs.popleft() for _job in range(min(len(self._jobs), MOST_TOGETHER))])

    def _try(self, jobs: Sequence[_Job]) -> None:
        """Do these in one transaction; where that fails, each in one of its own."""
        try:
            jobs[0].context.copy().run(self._do, jobs)
        except BaseException as error:  # noqa: BLE001 - handed to who waits for it
            if len(jobs) == 1:
                return _wake(jobs, error)
            for job in jobs:  # all was rolled back; each meets its own error
                self._try((job,))
        else:
            _wake(jobs)

    def _do(self, jobs: Sequence[_Job]) -> None:
        durable = any(job.durable for job in jobs)
        with self._explained():
            if self._connection is None:
                self._connection, self._opened = open_file(self.path), self.path.stat()
            if durable != self._synced:
                # NORMAL survives the death of the process; only FULL survives that of the machine.
                self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                self._synced = durable
            with self._connection as db:  # commits, or rolls back
                for job in jobs:
                    job.context.run(job.work, db)
            self._still_there()

    def _read(self, work: Work[T]) -> T:
        with self._explained():
            self._still_there()
            if self._reader is None:
                place = f"{self.path.absolute().as_uri()}?mode=ro"
                self._reader = sqlite3.connect(place, uri=True)
            return _complete(work(_Statements(self._reader)))

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say of a failure which file it is and what to do."""
        try:
            yield
        except (sqlite3.Error, OSError, ValidationError) as error:
            broken = _(
                "The sessions in {path} cannot be used: {why}. Nothing was overwritten.", path=self.path, why=error
            )
            raise StoreError(sentences(broken, held_advice(error) or self._advice())) from error

    def _advice(self) -> str:
        """What to do about a file that cannot be used; a full disk is no reason to give up what is in it."""
        with suppress(OSError):
            if shutil.disk_usage(self.path.parent).free < _ROOM:
                return _("The disk is full: free some room, then try again.")
        return _("Check the disk, or move the file away to start with an empty one.")

    def _still_there(self) -> None:
        """After every work, because a commit into a file that has no name any more is none."""
        try:
            if os.path.samestat(self._opened, self.path.stat()):
                return
            gone = _("{path} was replaced by another file while nanobot was running.", path=self.path)
        except FileNotFoundError:
            gone = _("{path} was deleted while nanobot was running.", path=self.path)
        advice = _(
            "Nothing is accepted until that very file is back in its place. Or start nanobot again: then it uses what "
            "is there, and without a file it begins anew, with no owner and no conversations."
        )
        raise StoreError(sentences(gone, advice))

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def _close(self, reader: Future[None]) -> None:
        """Close the connection that writes as the last one: that brings the log into the file, and no reader can."""
        reader.result()
        if self._connection is not None:
            self._connection.close()
        self._thread.shutdown(wait=False)


class MemoryDatabase:
    """A database that lives as long as this object and is written nowhere. Every method is done before it awaits."""

    place, worker, request, members = "memory", "", REQUEST, _MEMBERS

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        weakref.finalize(self, self._connection.close)
        migrate(self._connection)
        self._held: set[str] = set()

    async def run(self, work: Work[T], **_how: bool) -> T:
        with self._connection as db:
            return _complete(work(_Statements(db)))

    async def read(self, work: Work[T], **_how: bool) -> T:
        return _complete(work(_Statements(self._connection)))

    async def tidy(self) -> None:
        return None

    async def hold(self, session_id: str) -> str:
        if session_id in self._held:
            return _("another chat of this nanobot")
        self._held.add(session_id)
        return ""

    async def drop(self, session_id: str) -> None:
        self._held.discard(session_id)

    async def aclose(self) -> None:
        return None


def _wake(jobs: Sequence[_Job], error: BaseException | None = None) -> None:
    """Wake who waits for these, each loop once and in as few steps as there can be: it may be about to send one."""

    def wake(loop: asyncio.AbstractEventLoop) -> None:
        for job in jobs:
            if job.done.get_loop() is loop:
                job.end(error)

    for loop in {job.done.get_loop() for job in jobs}:
        with suppress(RuntimeError):  # that loop is closed
            loop.call_soon_threadsafe(wake, loop)


def _begin(db: sqlite3.Connection) -> None:
    """Take the lock at once: one that is asked for after a read is refused where another process wrote meanwhile."""
    if not db.in_transaction:  # else a work that is done together with this one has begun it
        db.execute("BEGIN IMMEDIATE")


def _complete(work: Coroutine[object, None, T]) -> T:
    """Run a work to its end. It awaits `_Statements` alone, which never wait, so one step takes it there."""
    try:
        work.send(None)
    except StopIteration as end:
        made: T = end.value
        return made
    # English: a programmer reads it
    raise RuntimeError("a work of the store waits for something else than the store")


async def _nothing(_db: Transaction) -> None:
    """Opens the file."""
