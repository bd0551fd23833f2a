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
from procrastinate.jobs import Job, Notification

from nanobot.cluster.ledger import PostgresLedger, served_as
from nanobot.cluster.postgres import TAKEN
from nanobot.cluster.share import Handlers, Role, Share
from nanobot.errors import StoreError
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
    """One session whose job this worker has. `handed` are the rows that the channel has, by when."""

    job: Job
    handed: dict[int, float] = field(default_factory=dict)


class ClusterWorker:
    """Brings work to a channel: `run` until cancelled, then `aclose` when what was begun has ended.

    Where it is not `alive`, others may have taken over its work: then nothing may be sent.
    """

    def __init__(self, ledger: PostgresLedger, concurrency: int) -> None:
        self._ledger, self._jobs, self._concurrency = ledger, ledger.jobs, concurrency
        self._sessions: dict[str, _QueuedSession] = {}
        self._over: list[Job] = []  # of sessions of which nothing is open any more
        self._changed, self._room = asyncio.Event(), asyncio.Event()  # something to look at, and something to take
        #: Set when this process is known as a worker.
        self.joined = asyncio.Event()
        self._heard = self._since = self._asked = float("-inf")  # signs of life: the last, the first without a gap
        ledger.settled = self._changed.set

    @property
    def alive(self) -> bool:
        """Whether others still take this worker for alive, as far as it can know without asking."""
        return time.monotonic() - self._heard < WORKER_SECONDS

    async def run(self, handlers: Handlers) -> None:
        """Raises `StoreError` where the database cannot be used at the start, or others have taken over the work."""
        await self._ledger.enroll()
        self.joined.set()
        works = (
            _again(partial(self._beat, handlers), BEAT_SECONDS),
            _again(partial(self._sweep, handlers), SWEEP_SECONDS),
            _again(self._take, 0),
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
        database = self._ledger.database
        if not self.joined.is_set() or database.lost.is_set():
            return
        try:
            async with asyncio.timeout(BEAT_SECONDS):
                await self._ledger.free(database.worker)
        except (StoreError, TimeoutError) as error:
            logger.warning("others learn in {:.0f} s that this worker has ended: {}", WORKER_SECONDS, error)

    async def _hear(self) -> None:
        """Learn at once of new jobs."""
        await self._ledger.engine.open_async(await self._ledger.database.pool())
        await self._jobs.listen_for_jobs(on_notification=self._told, queues=[self._ledger.channel])

    async def _told(self, *, channel: str, notification: Notification) -> None:  # noqa: ARG002 - the engine gives them
        self._changed.set()
        self._room.set()

    async def _beat(self, handlers: Handlers) -> None:
        asked = time.monotonic()
        living = await self._ledger.beat()
        if asked - self._heard > 2 * BEAT_SECONDS:
            self._since = asked
        self._heard = asked
        handlers.living(living)

    async def _sweep(self, handlers: Handlers) -> None:
        """Give to others what dead workers had. Who was cut off from the database lets the living be heard first: they
        may have been so as well."""
        late = time.monotonic() + BEAT_SECONDS
        if self.alive and time.monotonic() - self._since > WORKER_SECONDS:
            parked = await self._ledger.sweep(WORKER_SECONDS, late)
            if time.monotonic() > late:
                self._since = time.monotonic()
            await handlers.aside(parked)

    async def _take(self) -> None:
        """Give back the jobs of sessions that are over, and take others while there is room. One by one, which is slow
        where the database is: nothing else waits for it."""
        await _woken(self._room, POLL_SECONDS)
        over, self._over = self._over, []
        if over:
            await self._ledger.end(over)
        if time.monotonic() - self._asked > BEAT_SECONDS:
            self._asked = time.monotonic()
            for job in await self._jobs.list_jobs_async(worker_id=self._ledger.number, status="doing"):
                self._given(job)  # also where the answer that gave it to us was lost
        while len(self._sessions) < self._concurrency:
            if (found := await self._jobs.fetch_job([self._ledger.channel], self._ledger.number)) is None:
                break
            self._given(found)

    def _given(self, job: Job) -> None:
        name = served_as(str(job.task_kwargs["key"]), int(str(job.task_kwargs["seq"])))
        if name not in self._sessions and job.id not in {one.id for one in self._over}:
            self._sessions[name] = _QueuedSession(job)
            self._changed.set()

    async def _look(self, handlers: Handlers) -> None:
        """Hand over what is new in own sessions, in order; one of which nothing is open is over."""
        await _woken(self._changed, LOOK_SECONDS)
        if not (given := dict(self._sessions)):
            return
        rows, now = await self._ledger.look(given), time.monotonic()
        for row in rows:
            handed = given[served_as(row.key, row.seq)].handed
            if row.state == "new" and now - handed.get(row.seq, -_AGAIN) >= _AGAIN:
                handed[row.seq] = now
                handlers.take(row)
        for name in given.keys() - {served_as(row.key, row.seq) for row in rows}:
            self._over.append(self._sessions.pop(name).job)
            self._room.set()


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
