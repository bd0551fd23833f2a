"""What a worker works on: sessions that DBOS hands to it, and what comes in them as long as they are its own.

A session is this worker's from the moment at which DBOS gives one of its updates until nothing of it is left to do.
Meanwhile all that comes in it is taken up here at once, told by NOTIFY and by a look every second: so text reaches the
turn that it steers, and /stop the turn that it stops.
"""

import asyncio
import random
import time
from dataclasses import dataclass, field

import psycopg
from loguru import logger

from nanobot.cluster.desk import Desk
from nanobot.cluster.runtime import Runtime
from nanobot.errors import StoreError
from nanobot.session.ledger_dbos import BEAT_SECONDS, WORKER_SECONDS, LedgerDbos
from nanobot.session.postgres import Transaction

#: Seconds between two looks for what came in own sessions, and between two looks for dead workers.
LOOK_SECONDS, SWEEP_SECONDS = 1.0, 2.0
#: Seconds after which a row that was handed over and not begun is handed over again.
_AGAIN = 15.0


@dataclass(slots=True)
class _Session:
    """One session here. `rows` are those that were handed over, by when; `changed` is set when one is settled."""

    key: str
    rows: dict[int, float] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    pulling: asyncio.Lock = field(default_factory=asyncio.Lock)


class Dispatch:
    """Brings work to a `Desk`. `run` until cancelled, then `aclose` when what was begun has ended."""

    def __init__(self, ledger: LedgerDbos, channel: str, concurrency: int) -> None:
        self._ledger = ledger
        self._channel = channel
        self._runtime = Runtime(ledger.database.address, ledger.worker, concurrency)
        self._sessions: dict[str, _Session] = {}
        self._desk: Desk | None = None
        self._beating: asyncio.Task[None] | None = None
        self._heard = float("-inf")
        ledger.settled = self._settled

    async def run(self, desk: Desk) -> None:
        """Raises `StoreError` where the database cannot be used at the start, or others have taken over the work."""
        self._desk = desk
        asked = time.monotonic()
        await self._ledger.enroll()
        self._heard = asked
        beating = self._beating = asyncio.create_task(self._beat(desk))
        await self._sweep(desk)
        loops = [asyncio.create_task(one) for one in (self._listen(), self._look(), self._keep_sweeping(desk))]
        try:
            await self._runtime.start(self._serve)
            await asyncio.wait({beating, *loops}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._runtime.stop()  # takes nothing more while the rest of the work ends
            raise
        finally:
            for task in loops:
                task.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
        for task in (beating, *loops):
            if task.done() and not task.cancelled() and (problem := task.exception()) is not None:
                raise problem

    @property
    def alive(self) -> bool:
        """Whether others still take this worker for alive, as far as it can know without asking."""
        return time.monotonic() - self._heard < WORKER_SECONDS

    async def aclose(self) -> None:
        """What is left goes to others at once."""
        if self._beating is None:
            return
        self._beating.cancel()
        await asyncio.wait({self._beating})
        try:
            async with asyncio.timeout(BEAT_SECONDS):
                await self._ledger.leave()
        except (StoreError, TimeoutError) as error:
            logger.warning("others learn in {:.0f} s that this worker has ended: {}", WORKER_SECONDS, error)
        await self._runtime.stop()

    # Signs of life

    async def _beat(self, desk: Desk) -> None:
        """Runs until this worker is taken for dead; then it raises `StoreError`."""
        while True:
            asked = time.monotonic()
            try:
                async with asyncio.timeout(BEAT_SECONDS):
                    if not await self._ledger.beat():
                        break
                    self._heard = asked
                    desk.living(len(await self._ledger.workers()))
            except (StoreError, TimeoutError) as error:
                logger.warning("no sign of life could be given: {}", str(error) or "the database is slow")
            if not self.alive:
                break
            await asyncio.sleep(BEAT_SECONDS)
        raise StoreError(
            "This worker could not reach the database in time, so its work has gone to others. Start it again."
        )

    async def _keep_sweeping(self, desk: Desk) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS * random.uniform(0.75, 1.25))
            try:
                await self._sweep(desk)
            except StoreError as error:
                logger.warning("what dead workers left could not be looked for: {}", error)

    async def _sweep(self, desk: Desk) -> None:
        aside = await self._ledger.reap(self._channel)
        if aside:
            await desk.aside(aside)
        lost = await self._ledger.requeue(self._channel)
        if lost:
            logger.warning("{} sessions waited without being queued and are queued again", lost)

    # Work

    async def _serve(self, channel: str, key: str, seq: int) -> None:
        """One update that DBOS gives. Returns when it is settled and nothing of its session is left here."""
        if channel != self._channel:
            raise StoreError(f"An update of {channel} came to a worker of {self._channel}.")
        name = key or f"update {seq}"
        session = self._sessions.setdefault(name, _Session(key))
        while True:
            session.changed.clear()
            try:
                if await self._served(name, session, seq):
                    return
            except StoreError as error:
                logger.warning("{} waits for the database: {}", name, error)
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await session.changed.wait()
            except TimeoutError:
                continue

    async def _served(self, name: str, session: _Session, seq: int) -> bool:
        """Hand over what is new; whether nothing is left. Then the session is this worker's no more."""
        async with session.pulling:
            await self._hand_over(session, seq)
            row = None if session.rows else await self._ledger.row(seq)
            if session.rows or (row is not None and row.state in {"new", "claimed", "waiting"}):
                return False
            if self._sessions.get(name) is session:
                del self._sessions[name]
            return True

    async def _hand_over(self, session: _Session, seq: int = 0) -> None:
        """The lock of the session is held."""
        if session.key:
            rows = await self._ledger.waiting(self._channel, (session.key,))
        else:
            row = await self._ledger.row(seq)
            rows = (row,) if row is not None and row.state == "new" else ()
        now = time.monotonic()
        for row in rows:
            if self._desk is not None and now - session.rows.get(row.seq, -_AGAIN) >= _AGAIN:
                session.rows[row.seq] = now
                self._desk.take(row)

    def _settled(self, rows: tuple[int, ...]) -> None:
        gone = set(rows)
        for session in self._sessions.values():
            if gone & session.rows.keys():
                for seq in gone & session.rows.keys():
                    del session.rows[seq]
                session.changed.set()

    async def _pull(self, key: str) -> None:
        """What came in a session, if it is this worker's."""
        session = self._sessions.get(key)
        if session is None:
            return
        async with session.pulling:
            if self._sessions.get(key) is session:
                await self._hand_over(session)

    # News

    async def _look(self) -> None:
        """The net below NOTIFY."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            keys = tuple(one.key for one in self._sessions.values() if one.key)
            if not keys:
                continue
            try:
                found = await self._ledger.waiting(self._channel, keys)
                for key in {row.key for row in found if row.seq not in self._sessions_rows(row.key)}:
                    await self._pull(key)
            except StoreError as error:
                logger.warning("new updates could not be looked for: {}", error)

    def _sessions_rows(self, key: str) -> dict[int, float]:
        session = self._sessions.get(key)
        return session.rows if session is not None else {}

    async def _listen(self) -> None:
        while True:
            try:
                await self._hear(await self._ledger.listen())
            except (StoreError, psycopg.Error) as error:
                logger.warning("new updates are looked for every second, because listening broke: {}", error)
                await asyncio.sleep(LOOK_SECONDS)

    async def _hear(self, line: Transaction) -> None:
        try:
            async for notice in line.notifies():
                channel, _, key = notice.payload.partition(" ")
                if channel == self._channel and key in self._sessions:
                    try:
                        await self._pull(key)
                    except StoreError as error:
                        logger.warning("{} is looked at again in a second: {}", key, error)
        finally:
            await line.close()
