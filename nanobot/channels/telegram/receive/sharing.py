"""Where updates come from and go to when many processes answer for one bot."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from loguru import logger
from msgspec import Struct
from telegram.error import InvalidToken, TelegramError

from nanobot.bus.events import OutboundMessage
from nanobot.channels.telegram.access.claim_link import Claiming
from nanobot.channels.telegram.addressing import CHANNEL
from nanobot.channels.telegram.channel import Source
from nanobot.channels.telegram.health import Health
from nanobot.channels.telegram.receive.inbox import Inbox
from nanobot.channels.telegram.receive.poller import REFUSED
from nanobot.channels.telegram.receive.updates import arrivals_of
from nanobot.channels.telegram.send.pacing import ChatQueues
from nanobot.cluster.share import Dispatcher, Elected, Handlers
from nanobot.errors import ChannelError
from nanobot.session.ledger import Ledger
from nanobot.utils.logs import scrub

#: Seconds between two tries to learn the bot's name, and between two writes of the health file.
_AGAIN, _HEALTH_EVERY = 5.0, 15.0


def keeping(ledger: Ledger, channel: str) -> Callable[[list[dict[str, object]]], Awaitable[None]]:
    """Keeps updates for whoever works on them. Raises `StoreError`."""

    async def keep(updates: list[dict[str, object]]) -> None:
        await ledger.accept(channel, arrivals_of(updates))

    return keep


class Work:
    """The updates that this process is given. Meets `channel.Source`."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        inbox: Inbox,
        health: Health,
        queues: ChatQueues,
        identify: Callable[[], Awaitable[None]],
    ) -> None:
        self._dispatcher = dispatcher
        self._inbox = inbox
        self._health = health
        self._queues = queues
        self._identify = identify

    async def run(self) -> None:
        """Raises `ChannelError` where Telegram refuses the token, `StoreError` where the work has gone to others."""
        await self._known()
        self._queues.only_while(lambda: self._dispatcher.alive)
        await self._dispatcher.run(Handlers(self._inbox.take, self._inbox.set_aside, self._living))

    async def _known(self) -> None:
        while True:
            try:
                return await self._identify()
            except InvalidToken as error:
                raise ChannelError(REFUSED) from error
            except TelegramError as error:
                reason = scrub(str(error)) or type(error).__name__
                self._health.failed("retrying", f"Telegram cannot be reached ({reason})", _AGAIN)
                await asyncio.sleep(_AGAIN)

    def _living(self, workers: int) -> None:
        self._queues.share(workers)
        self._health.working(workers)


class ElectedSource:
    """The poller of the one process that may poll. Meets `channel.Source`."""

    def __init__(self, elected: Elected, source: Source, claiming: Claiming) -> None:
        self._elected = elected
        self._source = source
        self._claiming = claiming

    async def run(self) -> None:
        await self._elected.run(self._poll)

    async def _poll(self) -> None:
        await both(self._source.run, self._claiming.run)


async def both(first: Callable[[], Awaitable[None]], second: Callable[[], Awaitable[None]]) -> None:
    """Run two things side by side until `first` ends; an error of either ends both."""

    async def run(work: Callable[[], Awaitable[None]]) -> None:
        await work()

    main, other = asyncio.create_task(run(first)), asyncio.create_task(run(second))
    try:
        left = {main, other}
        while main in left and all(task.exception() is None for task in {main, other} - left):
            _, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (main, other):
            task.cancel()
        ends = await asyncio.gather(main, other, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


class PollAndWork:
    """Two sources in one process: it polls, when it is its turn, and works. Meets `channel.Source`."""

    def __init__(self, one: Source, other: Source) -> None:
        self._sources = (one, other)

    async def run(self) -> None:
        one, other = self._sources
        await both(one.run, other.run)


class PollingParts(Struct, frozen=True):
    """What a process needs that only takes updates in. `close` are the clients to close at the end, in order."""

    source: Source
    health: Health
    health_file: Path
    close: tuple[Callable[[], Awaitable[None]], ...] = ()


class PollingChannel:
    """Takes updates in and answers none. Meets `channels.base.BaseChannel`."""

    def __init__(self, parts: PollingParts) -> None:
        self._parts = parts
        self._stop = asyncio.Event()

    @property
    def name(self) -> str:
        return CHANNEL

    def health_line(self) -> str:
        return self._parts.health.line()

    async def start(self) -> None:
        """Take updates in until `stop`. Raises `ChannelError` where Telegram refuses the token."""

        async def stopped() -> None:
            await self._stop.wait()

        source = asyncio.create_task(both(self._parts.source.run, self._tell))
        stopping = asyncio.create_task(stopped())
        try:
            await asyncio.wait({source, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (source, stopping):
                task.cancel()
            ends = await asyncio.gather(source, stopping, return_exceptions=True)
            for close in self._parts.close:
                await close()
            self._parts.health.state = "stopped"
            self._write()
        if isinstance(ends[0], Exception):
            raise ends[0]

    async def stop(self) -> None:
        self._stop.set()

    async def send(self, message: OutboundMessage) -> None:
        """Nothing happens here that could be shown."""

    async def _tell(self) -> None:
        while True:
            self._write()
            await asyncio.sleep(_HEALTH_EVERY)

    def _write(self) -> None:
        try:
            self._parts.health.write(self._parts.health_file, {})
        except OSError as error:
            logger.warning("the health file cannot be written: {}", error)
