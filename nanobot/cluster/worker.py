"""What a process does among many: it works on sessions that the engine hands to it, and looks for the dead.

A session is this worker's from when Procrastinate gives one of its updates and no other worker has the session, until
nothing of it is left to do. Meanwhile all that comes in it is taken up here at once: so text reaches the turn that it
steers, and /stop the turn that it stops.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from loguru import logger
from msgspec import Struct, field
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Notification, Status

from nanobot.cluster.ledger import PRESENT, SERVE, PostgresLedger, served_as
from nanobot.cluster.postgres import TAKEN
from nanobot.cluster.share import Handlers, Role, Share
from nanobot.errors import StoreError
from nanobot.session.rows import InboxRow
from nanobot.utils.translation import _

#: Seconds after which a worker that is not heard of is dead, and between two signs of life.
WORKER_SECONDS, BEAT_SECONDS = 10.0, 3.0
#: Seconds between two looks for what came in own sessions, for jobs where there are none, and for dead workers.
LOOK_SECONDS, POLL_SECONDS, SWEEP_SECONDS = 0.3, 0.5, 2.0
#: Seconds after which a row that was handed over and not begun is handed over again.
_AGAIN = 15.0


def join(address: str, role: Role, concurrency: int, channel: str) -> tuple[PostgresLedger, Share]:
    """The ledger of a bot, and this process's part of the work. Opens no connection yet.

    Raises `StoreError` for what is no address.
    """
    ledger = PostgresLedger(address, channel)
    worker = ClusterWorker(ledger, concurrency) if role != "poller" else None
    return ledger, Share(role != "worker", worker, ledger.database)


class _QueuedSession(Struct):
    """One session of which the engine has given jobs. `handed` are the rows that the channel has, by when. One that is
    not `mine` is still served by another worker."""

    mine: bool = False
    jobs: dict[int | None, Job] = field(default_factory=dict)
    handed: dict[int, float] = field(default_factory=dict)


class ClusterWorker:
    """Brings work to a channel: `run` until cancelled, then `aclose` when what was begun has ended.

    Where it is not `alive`, others may have taken over its work: then nothing may be sent.
    """

    def __init__(self, ledger: PostgresLedger, concurrency: int) -> None:
        self._ledger, self._jobs, self._concurrency = ledger, ledger.engine.job_manager, concurrency
        self._sessions: dict[str, _QueuedSession] = {}
        self._changed, self._room = asyncio.Event(), asyncio.Event()  # something to look at, and something to take
        self._present: Job | None = None
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
        self._present = await self._ledger.enroll()
        self.joined.set()
        works = (
            _again(partial(self._beat, handlers, self._present), BEAT_SECONDS),
            _again(partial(self._sweep, handlers), SWEEP_SECONDS),
            _again(partial(self._take, self._present), 0),
            _again(partial(self._look, handlers), 0),
            _again(self._hear, POLL_SECONDS),
            self._ledger.database.lost.wait(),
        )
        loops = [asyncio.ensure_future(one) for one in works]
        try:
            ended, _others = await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
        finally:
            while running := [task for task in loops if not task.done()]:
                for task in running:
                    task.cancel()
                await asyncio.wait(running, timeout=1.0)  # `wait_for` in the engine may lose a cancellation
        for task in ended:
            task.result()
        raise StoreError(_(TAKEN))

    async def aclose(self) -> None:
        """What is left goes to others at once."""
        if self._present is None or self._ledger.database.lost.is_set():
            return
        try:
            async with asyncio.timeout(BEAT_SECONDS):
                await self._end(self._present)
                await self._requeue()
        except (StoreError, TimeoutError) as error:
            logger.warning("others learn in {:.0f} s that this worker has ended: {}", WORKER_SECONDS, error)

    async def _hear(self) -> None:
        """Learn at once of new jobs."""
        await self._ledger.engine.open_async(await self._ledger.database.pool())
        await self._jobs.listen_for_jobs(on_notification=self._told, queues=[self._ledger.channel])

    async def _told(self, *, channel: str, notification: Notification) -> None:  # noqa: ARG002 - the engine gives them
        self._changed.set()
        self._room.set()

    async def _beat(self, handlers: Handlers, present: Job) -> None:
        """A sign of life; what others know of it, and which jobs this worker has."""
        asked = time.monotonic()
        await self._jobs.update_heartbeat(present.worker_id or 0)
        living = list(await self._jobs.list_jobs_async(task=PRESENT, status="doing"))
        if present.id not in {one.id for one in living}:
            logger.error("{} was taken for dead", self._ledger.database.worker)
            self._ledger.database.lost.set()
            return
        if asked - self._heard > 2 * BEAT_SECONDS:
            self._since = asked
        self._heard = asked
        handlers.living(len(living))
        for job in await self._jobs.list_jobs_async(worker_id=present.worker_id, task=SERVE, status="doing"):
            self._given(job)  # also where the answer that gave it to us was lost

    # Own sessions

    async def _take(self, present: Job) -> None:
        """Take jobs while there is room. One by one, which is slow where the database is: nothing else waits for it."""
        await _woken(self._room, POLL_SECONDS)
        while sum(len(one.jobs) for one in self._sessions.values()) < self._concurrency:
            job = await self._jobs.fetch_job([self._ledger.channel], present.worker_id or 0)
            if job is None:
                break
            self._given(job)

    async def _look(self, handlers: Handlers) -> None:
        """Take up what is new in own sessions."""
        await _woken(self._changed, LOOK_SECONDS)
        if self._sessions:
            await self._hand_over(handlers)

    def _given(self, job: Job) -> None:
        name = served_as(str(job.task_kwargs["key"]), int(str(job.task_kwargs["seq"])))
        self._sessions.setdefault(name, _QueuedSession()).jobs[job.id] = job
        self._changed.set()

    async def _hand_over(self, handlers: Handlers) -> None:
        """What is new in own sessions, in order; a session of which nothing is open is over."""
        given = dict(self._sessions)
        mine, rows = await self._ledger.look([name for name, one in given.items() if not one.mine])
        now, still = time.monotonic(), {served_as(row.key, row.seq) for row in rows}
        for row in rows:
            session = given.get(served_as(row.key, row.seq))
            if session and row.state == "new" and now - session.handed.get(row.seq, -_AGAIN) >= _AGAIN:
                session.handed[row.seq] = now
                handlers.take(row)
        over = list[Job]()
        for name, session in given.items():
            session.mine = name in mine
            if session.mine and name not in still:
                over += self._sessions.pop(name).jobs.values()
        if over:
            await asyncio.gather(*(self._done(job) for job in over))  # at once: the next look waits for them
            self._room.set()

    async def _done(self, job: Job) -> None:
        with suppress(StoreError):  # another has it by now
            await self._jobs.finish_job(job, Status.SUCCEEDED, delete_job=True)

    # Dead workers

    async def _sweep(self, handlers: Handlers) -> None:
        """Give to others what dead workers had. Who was cut off from the database lets the living be heard first: they
        may have been so as well."""
        asked = time.monotonic()
        dead = await self._jobs.get_stalled_jobs(task_name=PRESENT, seconds_since_heartbeat=WORKER_SECONDS)
        if time.monotonic() - asked > BEAT_SECONDS:
            self._since = time.monotonic()
        if not self.alive or time.monotonic() - self._since < WORKER_SECONDS:
            return
        for job in dead:
            logger.warning("worker {} is dead", job.task_kwargs["worker"])
            await handlers.aside(await self._end(job))
        await self._requeue()

    async def _end(self, present: Job) -> tuple[InboxRow, ...]:
        """Free what the worker of this job had; the job goes last, so that another can do this again. The rows that
        are to be parked are this worker's."""
        rows = await self._ledger.free(str(present.task_kwargs["worker"]))
        await self._done(present)
        await self._jobs.unregister_worker(present.worker_id or 0)
        return rows

    async def _requeue(self) -> None:
        """Put the jobs of those who are no more back into the queue."""
        queue = self._ledger.channel
        for job in await self._jobs.get_stalled_jobs(queue=queue, seconds_since_heartbeat=WORKER_SECONDS):
            with suppress(StoreError):  # another was faster
                await self._jobs.retry_job(job)


async def _woken(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event or so long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    event.clear()


async def _again(step: Callable[[], Awaitable[None]], seconds: float) -> None:
    """Take a step again and again, also where the database has refused one."""
    while True:
        try:
            await step()
        except (StoreError, ConnectorException) as error:
            logger.warning("what a worker does is tried again: {}", error)
        await asyncio.sleep(seconds)
