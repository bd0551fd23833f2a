"""A stage for turns: progress renderer and outbox against the fake server, events by hand, and time that jumps."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from nanobot.bus.alarms import Alarms
from nanobot.bus.events import Address, Event, InboundMessage, OutboundMessage, Sender, TurnFinished, TurnStarted
from nanobot.channels.telegram.bot import TelegramLine
from nanobot.channels.telegram.send.calls import Sending
from nanobot.channels.telegram.send.outbox import TelegramOutbox
from nanobot.channels.telegram.send.pacing import ChatQueues
from nanobot.channels.telegram.settings import TelegramSettings
from nanobot.channels.telegram.show.progress import TelegramProgress
from nanobot.channels.telegram.show.status import Look
from nanobot.command.settings import ChatSettings
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import MemoryDatabase
from tests.fakes.clock import AT, JumpingClock
from tests.fakes.telegram_server import TOKEN, TelegramServer, User

CHANNEL = "telegram:123456"
LIVE = Look()


@dataclass(slots=True)
class Stage:
    """`play` shows events of a turn, `finish` ends it as the inbox does."""

    server: TelegramServer
    ledger: Ledger
    clock: JumpingClock
    queues: ChatQueues
    progress: TelegramProgress
    outbox: TelegramOutbox
    person: User
    alarms: Alarms = field(default_factory=Alarms)
    _ids: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    @property
    def address(self) -> Address:
        return Address("telegram", str(self.person.chat))

    @property
    def seen(self) -> list[str]:
        return self.server.visible(self.person.chat)

    async def begin(self, thread: str = "") -> "Turn":
        number = next(self._ids)
        address = Address("telegram", str(self.person.chat), thread)
        turn = Turn(
            self, f"t{number}", InboundMessage(address, Sender("7", role="owner"), "question", id=f"in-{number}")
        )
        await turn.play(TurnStarted("m", AT, turn.message.id))
        return turn

    async def until(self, text: str, seconds: float = 120.0) -> None:
        await self.server.until(lambda: any(text in line for line in self.seen), seconds)

    async def settled(self, seconds: float = 120.0) -> None:
        """Wait until nothing is left to deliver."""
        async with asyncio.timeout(seconds):
            while await self.ledger.pending(CHANNEL):
                await self.clock.sleep(0.01)

    async def quiet(self, seconds: float) -> None:
        """Let that much of the stage's time pass."""
        await self.clock.sleep(seconds)


@dataclass(slots=True)
class Turn:
    stage: Stage
    id: str
    message: InboundMessage

    async def play(self, *events: Event, until: str = "") -> None:
        """Show events, and wait until the chat has these words."""
        for event in events:
            await self.stage.progress.show(OutboundMessage(self.message.address, event, self.id))
        if until:
            await self.stage.until(until)

    async def finish(self, finished: TurnFinished) -> None:
        await self.play(finished)
        outbox = self.stage.outbox
        await self.stage.ledger.put(outbox.compose(self.message, finished))
        outbox.wake()

    async def end(self, finished: TurnFinished) -> None:
        """End it, and wait until nothing is left to deliver."""
        await self.finish(finished)
        await self.stage.settled()


@dataclass(slots=True)
class Lives:
    """What outlasts one life of the program: Telegram, the person, the ledger and the time."""

    server: TelegramServer
    person: User
    clock: JumpingClock
    ledger: Ledger

    @contextlib.asynccontextmanager
    async def begin(self, look: Look = LIVE) -> AsyncIterator[Stage]:
        """One life of the program: leaving it ends it as a kill would."""
        base, self.server.clock = self.server.url, self.clock.now
        line = TelegramLine(TelegramSettings(TOKEN, base_url=f"{base}/bot", base_file_url=f"{base}/file/bot"))
        queues, alarms = ChatQueues(self.clock), Alarms()
        sending = Sending.over(line, self.ledger, CHANNEL, queues)
        chats = ChatSettings(defaults={"hints": look.hints, "streaming": look.streaming})

        async def owner() -> str:
            return "7"

        progress = TelegramProgress(sending, chats, owner)
        outbox = TelegramOutbox(sending, clock=self.clock.wall, alarms=alarms)
        running = [asyncio.create_task(progress.run()), asyncio.create_task(outbox.run())]
        try:
            yield Stage(self.server, self.ledger, self.clock, queues, progress, outbox, self.person, alarms)
        finally:
            for task in running:
                task.cancel()
            ends = await asyncio.gather(*running, return_exceptions=True)
            await line.aclose()
        assert [type(end) for end in ends] == [asyncio.CancelledError] * 2, ends


@contextlib.asynccontextmanager
async def lives(
    clock: JumpingClock | None = None, *, group: int = 0, ledger: Ledger | None = None
) -> AsyncIterator[Lives]:
    clock = clock or JumpingClock()
    async with TelegramServer() as server:
        person = server.member("Ada", group) if group else server.user("Ada", 7)
        yield Lives(server, person, clock, ledger or Ledger(MemoryDatabase(), clock=clock.wall))


@contextlib.asynccontextmanager
async def stage(
    look: Look = LIVE, *, step: float = 0.0, group: int = 0, ledger: Ledger | None = None
) -> AsyncIterator[Stage]:
    async with lives(JumpingClock(step=step), group=group, ledger=ledger) as life, life.begin(look) as at:
        yield at


@contextlib.asynccontextmanager
async def one_turn(look: Look = LIVE, *, group: int = 0) -> AsyncIterator[tuple[Stage, Turn]]:
    """A stage on which a turn has begun."""
    async with stage(look, group=group) as at:
        yield at, await at.begin()
