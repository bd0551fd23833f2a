"""What a person sends one after the other keeps its meaning: stops, edits and refusals, also beyond a crash."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from nanobot.channels.telegram.bot import TelegramLine
from nanobot.channels.telegram.read.intake import TelegramIntake
from nanobot.channels.telegram.read.media import MediaFolder
from nanobot.channels.telegram.receive.inbox import Inbox
from nanobot.channels.telegram.settings import TelegramSettings
from nanobot.errors import StoreError
from nanobot.messages import UserMessage
from nanobot.providers.scripted import Say, Step, Wait
from nanobot.session.ledger import Also, Ledger
from nanobot.session.rows import Arrival, Closing, OutboxItem, OutboxRow
from nanobot.session.sqlite import MemoryDatabase
from tests.channels.harness import SmallAgent, small_agent
from tests.channels.telegram.test_inbox import CHANNEL, BrokenIntake, inbox_over, text_of, update
from tests.fakes.ledger import states
from tests.fakes.telegram_server import TOKEN
from tests.fakes.waiting import until


@asynccontextmanager
async def life(
    folder: Path, ledger: Ledger, *steps: Step, intake: type[TelegramIntake] = TelegramIntake
) -> AsyncIterator[tuple[Inbox, SmallAgent]]:
    """One life of the program on `ledger`; what runs at the end of it is given back."""
    line = TelegramLine(TelegramSettings(TOKEN))
    async with small_agent(steps, store=ledger.sessions) as agent, httpx.AsyncClient() as client:
        reads = intake(line, MediaFolder(folder, client))
        inbox = inbox_over(ledger, line, reads, agent, 7)
        yield inbox, agent
        await inbox.aclose(0)
    await line.aclose()


def edit(number: int, message: int, text: str) -> dict[str, object]:
    whole = update(number, 7, text)
    said = whole.pop("message")
    assert isinstance(said, dict)
    return {**whole, "edited_message": {**said, "message_id": message, "edit_date": int(time.time())}}


def asked(agent: SmallAgent) -> str:
    return "\n".join(one.text for one in agent.provider.requests[-1].messages if isinstance(one, UserMessage))


class Diary(Ledger):
    """A ledger that tells which rows are done, and takes no ends of turns while it is `full`."""

    def __init__(self) -> None:
        super().__init__(MemoryDatabase())
        self.done: set[int] = set()
        self.full = False
        self.refused = asyncio.Event()

    async def finish(
        self,
        rows: tuple[int, ...],
        items: tuple[OutboxItem, ...] = (),
        closing: Closing | None = None,
        also: Also | None = None,
    ) -> tuple[OutboxRow, ...]:
        if self.full:
            self.refused.set()
            raise StoreError("The disk is full.")
        self.done |= set(rows)
        return await super().finish(rows, items, closing, also)


async def test_stop_holds_for_a_message_that_still_waits_for_its_next_line(tmp_path: Path) -> None:
    ledger = Diary()
    async with life(tmp_path, ledger, (Say("half"), Wait(asyncio.Event()))) as (inbox, _agent):
        await inbox.accept([update(1, 7, "do it")])
        await asyncio.sleep(0)
        await inbox.accept([update(2, 7, "/stop")])
        await until(lambda: ledger.done == {1, 2})
    told = {row.item.turn: text_of(row) for row in await ledger.pending(CHANNEL)}
    assert told["in-2"].startswith("Stopped")


async def test_stop_that_came_while_nanobot_was_down_holds_for_the_turn_that_was_begun(tmp_path: Path) -> None:
    ledger = Diary()
    never = Wait(asyncio.Event())
    async with life(tmp_path, ledger, (never,)) as (inbox, agent):
        await inbox.accept([update(1, 7, "do it")])
        await agent.provider.asked(1)
    async with life(tmp_path, ledger, (Say("half"), never)) as (inbox, _agent):
        await ledger.accept(CHANNEL, (Arrival("2", json.dumps(update(2, 7, "/stop"))),))
        await inbox.resume()
        await until(lambda: ledger.done == {1, 2})


async def counted(ledger: Ledger, rows: dict[str, int]) -> None:
    """Wait until the inbox holds so many rows of each state."""
    async with asyncio.timeout(120):
        while await states(ledger, "inbox", CHANNEL) != rows:
            await asyncio.sleep(0.001)


async def test_an_edit_that_counted_counts_also_after_a_crash(tmp_path: Path) -> None:
    ledger = Diary()
    async with life(tmp_path, ledger, (Wait(asyncio.Event()),)) as (inbox, agent):
        await inbox.accept([update(1, 7, "first")])
        await agent.provider.asked(1)
        await inbox.accept([update(2, 7, "tell me about cats")])
        await counted(ledger, {"claimed": 1, "waiting": 1})
        await inbox.accept([edit(3, 2, "tell me about dogs")])
        await counted(ledger, {"claimed": 1, "waiting": 2})
        assert ledger.done == set(), "it is done with the message that it edits"
    async with life(tmp_path, ledger, "one", "two") as (inbox, agent):
        await inbox.resume()
        await until(lambda: ledger.done == {1, 2, 3})
        assert "tell me about dogs" in asked(agent)
        assert "cats" not in asked(agent)


async def test_a_stop_of_nanobot_while_the_disk_is_full_is_no_crash(tmp_path: Path) -> None:
    ledger = Diary()
    ledger.full = True
    async with life(tmp_path, ledger, "the answer") as (inbox, _agent):
        await inbox.accept([update(1, 7, "do it")])
        await asyncio.wait_for(ledger.refused.wait(), 120)
    (row,) = (await ledger.recover(CHANNEL)).waiting
    assert row.attempts == 0


class SilentOnce(Ledger):
    """A ledger that refuses the first line about a message that was set aside."""

    def __init__(self) -> None:
        super().__init__(MemoryDatabase())
        self.refused = False
        self.said = 0

    async def put(self, items: tuple[OutboxItem, ...]) -> tuple[OutboxRow, ...]:
        if not self.refused and any(one.turn.startswith("broken-") for one in items):
            self.refused = True
            raise StoreError("The disk is full.")
        self.said += len(items)
        return await super().put(items)


async def test_a_refusal_that_cannot_be_written_down_blocks_no_chat(tmp_path: Path) -> None:
    ledger = SilentOnce()
    async with life(tmp_path, ledger, intake=BrokenIntake) as (inbox, _agent):
        await inbox.accept([update(1, 7, "hello")])
        await until(lambda: ledger.refused)
        await inbox.accept([update(2, 7, "are you there")])
        await until(lambda: ledger.said == 2)
    assert await states(ledger, "inbox", CHANNEL) == {"dead": 2}
