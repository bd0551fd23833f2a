"""Telegram as a channel: starts and stops its parts in the right order."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from loguru import logger
from msgspec import Struct

from nanobot.bus.events import OutboundMessage
from nanobot.channels.base import Agent
from nanobot.channels.telegram.access.claim_link import Claiming
from nanobot.channels.telegram.addressing import CHANNEL
from nanobot.channels.telegram.health import Health
from nanobot.channels.telegram.protocols import Outbox, ProgressRenderer
from nanobot.channels.telegram.read.old_media import OldMedia
from nanobot.channels.telegram.receive.inbox import Inbox
from nanobot.errors import ChannelError, StoreError
from nanobot.session.ledger import KEEP_DAYS, Ledger
from nanobot.session.ledger_memory import now
from nanobot.utils.watchdog import StallWatch

#: Seconds that running turns, and then the delivery of answers, get when the channel stops.
GRACE = 5.0
_HEALTH_EVERY = 15.0
_PURGE_EVERY = 3_600.0


class Source(Protocol):
    """Where updates come from: the poller or the webhook."""

    async def run(self) -> None:
        """Bring updates until cancelled. Raises `ChannelError`."""


class Running(Struct, frozen=True):
    """The parts of a channel. `close` are the clients to close at the end, in order; `health_file` may be None.

    `shared`: other processes work on the same ledger, so that `source` alone tells what is this one's to do.
    `old_media` is None where other ledgers may name files of the media folder too.
    """

    channel: str
    agent: Agent
    ledger: Ledger
    inbox: Inbox
    source: Source
    progress: ProgressRenderer
    outbox: Outbox
    claiming: Claiming | None
    health: Health
    lock: AbstractContextManager[None]
    health_file: Path | None = None
    close: tuple[Callable[[], Awaitable[None]], ...] = ()
    shared: bool = False
    old_media: OldMedia | None = None


class TelegramChannel:
    """Meets `channels.base.BaseChannel`."""

    def __init__(self, parts: Running) -> None:
        self._parts = parts
        self._stop = asyncio.Event()

    @property
    def name(self) -> str:
        return CHANNEL

    def health_line(self) -> str:
        """One line for /status: how long ago Telegram last answered, and what waits."""
        waiting = self._parts.inbox.waiting
        return self._parts.health.line() + (f"; {waiting} in the queue" if waiting else "")

    async def start(self) -> None:
        """Serve until `stop`. Raises `ChannelError` where Telegram refuses the token or another nanobot uses it."""
        parts = self._parts
        with parts.lock:
            events = parts.agent.bus.subscribe(self.name)
            try:
                with StallWatch(self._stalled):
                    async with asyncio.TaskGroup() as group:
                        problem = await self._serve(group, events)
            finally:
                await parts.inbox.aclose(0)
                for close in parts.close:
                    await close()
                parts.health.state = "stopped"
                self._write_health()
        if problem is not None:
            raise problem

    async def stop(self) -> None:
        self._stop.set()

    async def send(self, message: OutboundMessage) -> None:
        await self._parts.progress.show(message)

    async def _serve(self, group: asyncio.TaskGroup, events: AsyncIterator[OutboundMessage]) -> ChannelError | None:
        """Run the parts; when updates end, let turns end and answers go out. Returns why updates ended, if in error."""
        parts = self._parts
        running = (self._listen(events), parts.progress.run(), parts.outbox.run(), self._tidy(), self._tell())
        work = [group.create_task(one) for one in running]
        if parts.claiming is not None:
            work.append(group.create_task(parts.claiming.run()))
        if not parts.shared:
            await parts.inbox.resume()
        source = asyncio.create_task(parts.source.run())
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({source, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            source.cancel()
            stopping.cancel()
        ends = await asyncio.gather(source, stopping, return_exceptions=True)
        problem = ends[0]
        if isinstance(problem, StoreError):
            await parts.inbox.aclose(0)  # what this process had is another's now
        else:
            await parts.inbox.aclose(GRACE)
            await parts.outbox.drain(GRACE)
        for task in work:
            task.cancel()
        if isinstance(problem, ChannelError):
            return problem
        if isinstance(problem, Exception):
            raise problem
        return None

    async def _listen(self, events: AsyncIterator[OutboundMessage]) -> None:
        async for message in events:
            await self.send(message)

    async def _tidy(self) -> None:
        """Forget what was settled long ago."""
        while True:
            try:
                await self._parts.ledger.purge(now() - timedelta(days=KEEP_DAYS))
                if self._parts.old_media is not None:
                    await self._parts.old_media.forget(now())
            except StoreError as error:
                logger.warning("old rows and files could not be forgotten: {}", error)
            await asyncio.sleep(_PURGE_EVERY)

    async def _tell(self) -> None:
        while True:
            self._write_health()
            await asyncio.sleep(_HEALTH_EVERY)

    def _stalled(self, seconds: float) -> None:
        """The program itself hangs since so many seconds; 0.0: it goes on. Called while nothing else can write."""
        self._parts.health.stalled = seconds
        self._write_health()

    def _write_health(self) -> None:
        if self._parts.health_file is None:
            return
        try:
            self._parts.health.write(self._parts.health_file, {"waiting": self._parts.inbox.waiting})
        except OSError as error:
            logger.warning("the health file cannot be written: {}", error)
