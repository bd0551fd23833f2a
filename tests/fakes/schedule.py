"""A surface for the schedule without a channel, and a database whose process can die at any of its works."""

import asyncio
import random
from typing import Never, TypeVar

from nanobot.agent.work.runs import Process, ScheduleServices
from nanobot.bus.events import Address, InboundMessage, MessageBus, Sender, TurnFinished
from nanobot.schedule.store import JobStore
from nanobot.session.database import Work
from nanobot.session.ledger import Ledger
from nanobot.session.rows import OutboxItem
from nanobot.session.sqlite import MemoryDatabase
from nanobot.utils.prompt_templates import PromptTemplates

T = TypeVar("T")


class PlainReports:
    """Meets `agent.work.runs.Reports`: rows of plain text. `people` may have entries."""

    def __init__(self, *people: str, channel: str = "telegram:1") -> None:
        self.people = {one: Sender(one.partition(":")[2], role="owner") for one in people}
        self._channel = channel

    async def sender(self, person: str) -> Sender | None:
        return self.people.get(person)

    async def line(self, address: Address, key: str, text: str) -> tuple[OutboxItem, ...]:
        return (OutboxItem(key, 0, self._channel, address.chat, text),)

    async def answer(self, message: InboundMessage, finished: TurnFinished) -> tuple[OutboxItem, ...]:
        return (OutboxItem(message.id, 0, self._channel, message.address.chat, finished.text),)

    async def place(self, address: Address) -> Address:
        return address

    def wake(self) -> None:
        return


def _nothing(*_: object) -> Never:
    raise AssertionError("nothing of this kind is due")


def services_of(jobs: JobStore, ledger: Ledger, process: Process, bus: MessageBus | None = None) -> ScheduleServices:
    """What a scheduler works with where there are neither watches nor briefings."""
    parts = (jobs, ledger, bus or MessageBus(), process, PromptTemplates())
    return ScheduleServices(*parts, _nothing, _nothing)


class Killed(asyncio.CancelledError):
    """The process is dead: nothing that it does comes about any more."""


class Disk(MemoryDatabase):
    """What outlives processes; each has a `MortalDatabase` on it."""


class MortalDatabase:
    """The database as one process has it. In one of `odds` works it dies, before the work or after it was kept."""

    place, worker = "memory", ""

    def __init__(self, disk: Disk, chance: random.Random, odds: int = 0) -> None:
        self._disk, self._chance, self._odds = disk, chance, odds
        self.request, self.members = disk.request, disk.members
        self.dead = asyncio.Event()

    def kill(self) -> None:
        self.dead.set()

    async def run(self, work: Work[T], **how: bool) -> T:
        dies = bool(self._odds) and self._chance.randrange(self._odds) == 0
        if dies and self._chance.random() < 0.5:
            self.kill()
        self._judge()
        made = await self._disk.run(work, **how)
        if dies:
            self.kill()
        self._judge()
        return made

    async def read(self, work: Work[T], *, long: bool = False) -> T:
        self._judge()
        return await self._disk.read(work, long=long)

    async def hold(self, session_id: str) -> str:
        return await self._disk.hold(session_id)

    async def tidy(self) -> None:
        await self._disk.tidy()

    async def drop(self, session_id: str) -> None:
        await self._disk.drop(session_id)

    async def aclose(self) -> None:
        return

    def _judge(self) -> None:
        if self.dead.is_set():
            raise Killed
