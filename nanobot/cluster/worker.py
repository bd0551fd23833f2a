"""What a process does among many: it works on sessions that the engine hands to it, and may win an office.

A session is this worker's from when Procrastinate gives one of its updates and no other worker has the session, until
nothing of it is left to do. Meanwhile all that comes in it is taken up here at once: so text reaches the turn that it
steers, and /stop the turn that it stops.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import psycopg
from loguru import logger
from msgspec import Struct, field
from procrastinate import JobContext
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Status

from nanobot.cluster.ledger import PRESENT, SERVE, PostgresLedger
from nanobot.cluster.postgres import TAKEN, Postgres
from nanobot.cluster.share import Handlers, Role, Share
from nanobot.errors import StoreError
from nanobot.utils.translation import N_, _

#: Seconds after which a worker that is not heard of is dead, and between two signs of life.
WORKER_SECONDS, BEAT_SECONDS = 10.0, 3.0
#: Seconds after which one that has joined and has not begun its first job is dead.
JOIN_SECONDS = 60.0
#: Seconds between two looks for what came in own sessions, for jobs, for dead workers; and between two tries to win.
LOOK_SECONDS, POLL_SECONDS, SWEEP_SECONDS, TRY_SECONDS = 0.3, 0.5, 2.0, 3.0
#: Seconds after which a row that was handed over and not begun is handed over again.
_AGAIN = 15.0
_BROKE = N_("The engine that hands out the work has stopped; the log says why. Start this worker again.")
#: The server ends the connection of an office whose holder stands still, and with it the lock.
_IDLE = f"-c idle_session_timeout={WORKER_SECONDS:.0f}s"


def join(address: str, role: Role, concurrency: int, channel: str) -> tuple[PostgresLedger, Share]:
    """The ledger of a bot, and this process's part of the work. Opens no connection yet.

    Raises `StoreError` for what is no address.
    """
    logging.getLogger("procrastinate").setLevel(logging.WARNING)
    ledger = PostgresLedger(address, channel)
    worker = ClusterWorker(ledger, concurrency) if role != "poller" else None
    return ledger, Share(
        role != "worker", worker, lambda name: Election(ledger.database, name), ledger.database.telling
    )


class _QueuedSession(Struct):
    """One session that the engine has given, or one update of none. `handed` are the rows that the channel has, by
    when. A session that is not `mine` is still served by another worker."""

    key: str
    seq: int
    mine: bool = False
    handed: dict[int, float] = field(default_factory=dict)
    over: asyncio.Event = field(default_factory=asyncio.Event)


class ClusterWorker:
    """Brings work to a channel: `run` until cancelled, then `aclose` when what was begun has ended.

    Where it is not `alive`, others may have taken over its work: then nothing may be sent.
    """

    def __init__(self, ledger: PostgresLedger, concurrency: int) -> None:
        self._ledger = ledger
        self._concurrency = concurrency
        self._sessions: dict[str, _QueuedSession] = {}
        self._jobs: set[int | None] = set()  # of the engine, that run here
        self._joining: dict[
            int | None, float
        ] = {}  # jobs by which others are to be known, by when they were first seen
        self._handlers: Handlers | None = None  # None while nothing is handed over
        self._engine: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        #: Set when this process is known as a worker.
        self.joined = asyncio.Event()
        self._heard = self._since = float("-inf")  # the last sign of life, and the first of those without a gap
        ledger.settled = self._changed.set

    @property
    def alive(self) -> bool:
        """Whether others still take this worker for alive, as far as it can know without asking."""
        return time.monotonic() - self._heard < WORKER_SECONDS

    async def run(self, handlers: Handlers) -> None:
        """Raises `StoreError` where the database cannot be used at the start, or others have taken over the work."""
        self._handlers = handlers
        app, database = self._ledger.engine, self._ledger.database
        await self._ledger.enroll()
        self.joined.set()
        await app.open_async(await database.pool())
        app.task(name=SERVE, pass_context=True, retry=True)(self._serve)
        app.task(name=PRESENT, pass_context=True)(self._present)
        self._engine = asyncio.create_task(
            app.run_worker_async(
                queues=[self._ledger.channel, self._ledger.name],
                concurrency=self._concurrency + 1,
                fetch_job_polling_interval=POLL_SECONDS,
                update_heartbeat_interval=BEAT_SECONDS,
                stalled_worker_timeout=86_400,
                shutdown_graceful_timeout=0,
                delete_jobs="always",
                install_signal_handlers=False,
            )
        )
        sweeper = Election(database, f"sweeper:{self._ledger.channel}")
        works = (self._look(), sweeper.run(self._sweep), database.lost.wait())
        loops = [asyncio.ensure_future(one) for one in works]
        try:
            await asyncio.wait({self._engine, *loops}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._handlers = None
            for task in loops:
                task.cancel()
            for end in await asyncio.gather(*loops, return_exceptions=True):
                if isinstance(end, Exception):
                    logger.opt(exception=end).error("a worker ends")
        raise StoreError(_(TAKEN if database.lost.is_set() else _BROKE))

    async def aclose(self) -> None:
        """What is left goes to others at once."""
        if self._engine is None:
            return
        lost = self._ledger.database.lost.is_set()
        self._ledger.connector.given_up = lost  # else it gives its jobs back
        self._engine.cancel()
        await asyncio.wait({self._engine}, timeout=BEAT_SECONDS)
        self._ledger.connector.given_up = True
        await asyncio.wait({self._engine})
        try:
            async with asyncio.timeout(BEAT_SECONDS):
                await self._ledger.free(self._ledger.name)
        except (StoreError, TimeoutError) as error:
            logger.warning("others learn in {:.0f} s that this worker has ended: {}", WORKER_SECONDS, error)

    # Tasks of the engine

    async def _present(self, context: JobContext, worker: str) -> None:
        """Runs as long as this worker lives: by this job the others know it, and what it has is theirs to take."""
        jobs, job, unknown = context.app.job_manager, context.job, set[int | None]()
        while job.worker_id is not None:
            asked = time.monotonic()
            await jobs.update_heartbeat(job.worker_id)
            living = list(await jobs.list_jobs_async(task=PRESENT, status="doing"))
            if job.id not in {one.id for one in living}:
                logger.error("{} was taken for dead", worker)
                self._ledger.database.lost.set()
                return
            if asked - self._heard > 2 * BEAT_SECONDS:
                self._since = asked
            self._heard = asked
            if self._handlers is not None:
                self._handlers.living(len(living))
            mine = await jobs.list_jobs_async(worker_id=job.worker_id, task=SERVE, status="doing")
            stray = {one.id for one in mine if one.id not in self._jobs}
            for one in mine:
                if one.id in stray & unknown:  # the answer that gave it to us was lost with its connection
                    with suppress(ConnectorException):
                        await jobs.retry_job(one)
            unknown = stray
            await asyncio.sleep(BEAT_SECONDS)

    async def _serve(self, context: JobContext, key: str, seq: int) -> None:
        """One update. Returns when it is settled and nothing of its session is left here."""
        self._jobs.add(context.job.id)
        session = self._sessions.setdefault(_name(key, seq), _QueuedSession(key, seq))
        self._changed.set()
        try:
            await session.over.wait()
            if len(session.handed) > 1:
                await self._withdraw(context, session)
        finally:
            self._jobs.discard(context.job.id)

    async def _withdraw(self, context: JobContext, session: _QueuedSession) -> None:
        """Take the jobs of what is settled out of the queue, so that nothing new has to wait for them."""
        jobs = context.app.job_manager
        for job in await jobs.list_jobs_async(lock=context.job.lock, status="todo"):
            if job.id is not None and job.task_kwargs.get("seq") in session.handed:
                await jobs.cancel_job_by_id_async(job.id, delete_job=True)

    # Own sessions

    async def _look(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            if self._sessions and self._handlers is not None:
                try:
                    await self._hand_over(self._handlers)
                except StoreError as error:
                    logger.warning("own sessions could not be looked at: {}", error)

    async def _hand_over(self, handlers: Handlers) -> None:
        """What is new in own sessions, in order; a session of which nothing is open is over."""
        given = dict(self._sessions)
        keys = {one.key: one for one in given.values() if one.key}
        fresh = [key for key, one in keys.items() if not one.mine]
        mine, rows = await self._ledger.look([*keys], fresh, [one.seq for one in given.values() if not one.key])
        now = time.monotonic()
        for name, session in given.items():
            session.mine = not session.key or session.key in mine
            found = [row for row in rows if _name(row.key, row.seq) == name]
            if session.mine and not found:
                del self._sessions[name]
                session.over.set()
            for row in found:
                if row.state == "new" and now - session.handed.get(row.seq, -_AGAIN) >= _AGAIN:
                    session.handed[row.seq] = now
                    handlers.take(row)

    # Dead workers

    async def _sweep(self) -> None:
        """Give to others what dead workers had. Who was cut off from the database lets the living be heard first: they
        may have been so as well."""
        jobs = self._ledger.engine.job_manager
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            asked = time.monotonic()
            stalled = await jobs.get_stalled_jobs(task_name=PRESENT, seconds_since_heartbeat=WORKER_SECONDS)
            dead = [*stalled, *await self.never_begun(asked)]
            if time.monotonic() - asked > BEAT_SECONDS:
                self._since = time.monotonic()
            if not self.alive or time.monotonic() - self._since < WORKER_SECONDS or self._handlers is None:
                continue
            try:
                for job in dead:
                    await self.bury(self._handlers, job)
            except StoreError as error:
                logger.warning("what a dead worker had is looked for again: {}", error)
                continue
            queue = self._ledger.channel
            for job in await jobs.get_stalled_jobs(queue=queue, seconds_since_heartbeat=WORKER_SECONDS):
                with suppress(ConnectorException):
                    await jobs.retry_job(job)

    async def never_begun(self, now: float) -> list[Job]:
        """The jobs of workers that have joined and died before they began the first."""
        waiting = list(await self._ledger.engine.job_manager.list_jobs_async(task=PRESENT, status="todo"))
        self._joining = {job.id: self._joining.get(job.id, now) for job in waiting}
        return [job for job in waiting if now - self._joining[job.id] > JOIN_SECONDS]

    async def bury(self, handlers: Handlers, job: Job) -> None:
        """Free what the worker of this job had; the job goes last, so that another can do this again."""
        name = str(job.task_kwargs["worker"])
        logger.warning("worker {} is dead", name)
        await handlers.aside(await self._ledger.free(name))
        with suppress(ConnectorException):
            await self._ledger.engine.job_manager.finish_job(job, Status.SUCCEEDED, delete_job=True)


class Election:
    """Runs work while this process holds the advisory lock `name`, on a connection of its own; the others wait."""

    def __init__(self, database: Postgres, name: str) -> None:
        self._database = database
        self._name = name

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Until cancelled. What `work` raises ends it."""
        while True:
            working: asyncio.Future[None] | None = None
            try:
                async with await self._database.connect(_IDLE) as db:
                    self._database.back()
                    won = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
                    if (await (await db.execute(won, (self._name,))).fetchone()) == (True,):
                        logger.info("this process is {} now", self._name)
                        working = asyncio.ensure_future(work())
                        await self._held(db, working)
            except (psycopg.Error, TimeoutError, OSError) as error:
                self._database.away(error)
                logger.warning("{} may be another process now: {}", self._name, error)
            finally:
                if working is not None:
                    working.cancel()
                    await asyncio.wait({working})
            if working is not None and not working.cancelled():
                return working.result()
            await asyncio.sleep(TRY_SECONDS)

    async def _held(self, db: psycopg.AsyncConnection[tuple[object, ...]], working: asyncio.Future[None]) -> None:
        """Returns when the work ends; raises when the lock may be lost."""
        while not working.done():
            await asyncio.wait({working}, timeout=TRY_SECONDS)
            async with asyncio.timeout(TRY_SECONDS):
                await db.execute("SELECT 1")


def _name(key: str, seq: int) -> str:
    """Of a session here; an update of none is one by itself."""
    return key or f"update {seq}"
