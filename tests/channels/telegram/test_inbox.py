"""What becomes of updates: their order, those on which nanobot itself breaks, those that a dead process had begun."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from nanobot.bus.alarms import Alarms
from nanobot.bus.events import InboundMessage, Role
from nanobot.channels.telegram.access.gate import STRANGER, Gate
from nanobot.channels.telegram.access.people import Access
from nanobot.channels.telegram.bot import TelegramLine
from nanobot.channels.telegram.read.incoming import IncomingMessage, arrivals_of
from nanobot.channels.telegram.read.intake import TelegramIntake
from nanobot.channels.telegram.read.media import MediaFolder
from nanobot.channels.telegram.receive.inbox import Inbox, OfferMenu
from nanobot.channels.telegram.render.answer import outgoing_of
from nanobot.channels.telegram.send.calls import Sending
from nanobot.channels.telegram.send.outbox import TelegramOutbox
from nanobot.channels.telegram.send.pacing import ChatQueues
from nanobot.channels.telegram.settings import TelegramSettings
from nanobot.command.builtin import builtin_router
from nanobot.errors import StoreError
from nanobot.messages import UserMessage
from nanobot.providers.scripted import Say, Step, Wait
from nanobot.session.ledger import Also, Ledger
from nanobot.session.rows import Arrival, Closing, InboxRow, OutboxItem, OutboxRow
from nanobot.session.sqlite import MemoryDatabase
from nanobot.session.store import Record
from nanobot.web.client import trusted_client
from tests.channels.harness import SmallAgent, small_agent
from tests.fakes.clock import JumpingClock
from tests.fakes.ledger import states
from tests.fakes.telegram_server import TOKEN, TelegramServer
from tests.fakes.waiting import until

CHANNEL = "telegram:123456"


class BrokenIntake(TelegramIntake):
    """Breaks where files would be fetched."""

    async def complete(
        self, incoming: IncomingMessage, role: Role = "guest", granted: tuple[str, ...] = ()
    ) -> InboundMessage:
        raise RuntimeError(f"a mistake in nanobot at {incoming.text} of a {role}")


def no_menu(chat: str, role: Role, language: str) -> None:
    del chat, role, language


def inbox_over(
    ledger: Ledger,
    line: TelegramLine,
    intake: TelegramIntake,
    agent: SmallAgent,
    *people: int,
    offer_menu: OfferMenu = no_menu,
    alarms: Alarms | None = None,
) -> Inbox:
    """An inbox between a real client library and an agent; `people` are those of allowFrom."""
    outbox = TelegramOutbox(Sending.over(line, ledger, CHANNEL, ChatQueues(JumpingClock())), alarms=alarms or Alarms())
    gate = Gate(Access(ledger, CHANNEL, tuple(map(str, people))), builtin_router())
    return Inbox(line, intake, gate, outbox, agent, offer_menu)


def text_of(row: OutboxRow) -> str:
    return outgoing_of(row.item.payload).screen.text


async def test_a_message_on_which_nanobot_breaks_is_refused_aloud_and_others_go_on(tmp_path: Path) -> None:
    ledger = Ledger(MemoryDatabase())
    async with TelegramServer() as server:
        async with life(tmp_path, ledger, intake=BrokenIntake, server=server, ends=120) as (inbox, _agent):
            await inbox.accept([update(1, 7, "hello"), update(2, 8, "from a stranger"), update(3, 7, "/whoami")])
        assert server.visible(8) == [f"bot: {STRANGER}"]
    told = {(row.item.chat, text_of(row)) for row in await ledger.pending(CHANNEL)}
    assert len([text for chat, text in told if chat == "7" and "set aside" in text]) == 1
    assert {chat for chat, _ in told} == {"7"}, "what strangers get is never written down"
    assert await states(ledger, "inbox", CHANNEL) == {"dead": 2, "done": 1}


async def test_what_was_begun_as_one_message_before_a_crash_is_the_same_message_after_it(tmp_path: Path) -> None:
    ledger = Ledger(MemoryDatabase())
    updates = [update(number, 7, text) for number, text in ((1, "one"), (2, "two"), (3, "three"))]
    rows = await ledger.accept(CHANNEL, arrivals_of(updates))
    await ledger.claim((rows[0].seq, rows[1].seq))  # and then the process died; the third came in the same second
    async with life(tmp_path, ledger, "first", "second", ends=120) as (inbox, agent):
        await inbox.resume()
    assert asked(agent) == "one\ntwo\n\nthree", "a line of its own, whether it was read on the way or asked after"
    assert await states(ledger, "inbox", CHANNEL) == {"done": 3}


class SlowAtFirst(Ledger):
    """Takes its time for the first row."""

    async def claim(self, rows: tuple[int, ...]) -> tuple[InboxRow, ...]:
        for _ in range(100 if rows == (1,) else 0):
            await asyncio.sleep(0)
        return await super().claim(rows)


async def test_a_command_that_ends_turns_never_ends_that_of_a_message_that_came_after_it(tmp_path: Path) -> None:
    ledger = SlowAtFirst(MemoryDatabase())
    async with life(tmp_path, ledger, "the answer", ends=120) as (inbox, _agent):
        await inbox.accept([update(1, 7, "/new"), update(2, 7, "an easy one")])
    texts = [text_of(row) for row in await ledger.pending(CHANNEL)]
    assert texts[-1] == "the answer"
    assert await states(ledger, "inbox", CHANNEL) == {"done": 2}


async def test_an_update_that_is_handed_over_again_while_it_waits_is_answered_once(tmp_path: Path) -> None:
    ledger = SlowAtFirst(MemoryDatabase())
    updates = [update(1, 7, "first"), update(2, 7, "second")]
    rows = await ledger.accept(CHANNEL, arrivals_of(updates))
    async with life(tmp_path, ledger, "an answer", "another", ends=120) as (inbox, agent):
        inbox.take(rows[0])
        await asyncio.sleep(0)
        for row in (rows[1], rows[1], rows[0], rows[1]):  # by an engine that hands over what is not begun after a while
            inbox.take(row)
    assert (asked(agent).count("first"), asked(agent).count("second")) == (1, 1)
    assert await states(ledger, "inbox", CHANNEL) == {"done": 2}


FORGED = ["/help", "/new", "/sessions", "/approve", "/approve ", "/approve x", "/ ", "/", "hello", "", "/x" * 9_000]


async def test_a_press_of_no_button_of_ours_is_no_command_and_waits_in_nobodys_way(tmp_path: Path) -> None:
    ledger = Ledger(MemoryDatabase())
    async with TelegramServer() as server:
        async with life(tmp_path, ledger, server=server, ends=120) as (inbox, agent):
            message, number = update(1, 7, "of the bot")["message"], len(FORGED)
            for person in (7, 8):
                sender = {"id": person, "is_bot": False, "first_name": "P"}
                query = {"id": "1", "from": sender, "chat_instance": "1", "message": message}
                await inbox.accept(
                    [
                        {"update_id": 100 * person + at, "callback_query": {**query, "data": data}}
                        for at, data in enumerate(FORGED)
                    ]
                )
        assert len(server.sent("answerCallbackQuery")) == 2 * number
    assert (await ledger.pending(CHANNEL), agent.provider.requests) == ((), [])
    assert await states(ledger, "inbox", CHANNEL) == {"done": 2 * number}


def update(number: int, person: int, text: str) -> dict[str, object]:
    return {
        "update_id": number,
        "message": {
            "message_id": number,
            "date": int(time.time()),
            "chat": {"id": person, "type": "private"},
            "from": {"id": person, "is_bot": False, "first_name": "P"},
            "text": text,
        },
    }


@asynccontextmanager
async def life(
    folder: Path,
    ledger: Ledger,
    *steps: Step,
    intake: type[TelegramIntake] = TelegramIntake,
    server: TelegramServer | None = None,
    ends: float = 0,
) -> AsyncIterator[tuple[Inbox, SmallAgent]]:
    """One life of the program on `ledger`; what still runs `ends` seconds after its end is given back."""
    settings = TelegramSettings(TOKEN, base_url=f"{server.url}/bot") if server else TelegramSettings(TOKEN)
    making, asking = small_agent(steps, store=ledger.sessions), aclosing(TelegramLine(settings))
    async with making as agent, asking as line, trusted_client() as client:
        inbox = inbox_over(ledger, line, intake(line, MediaFolder(folder, client)), agent, 7)
        yield inbox, agent
        await inbox.aclose(ends)


def edit(number: int, message: int, text: str) -> dict[str, object]:
    whole = update(number, 7, text)
    said = whole.pop("message")
    assert isinstance(said, dict)
    return {**whole, "edited_message": {**said, "message_id": message, "edit_date": int(time.time())}}


def asked(agent: SmallAgent) -> str:
    return "\n\n".join(one.text for one in agent.provider.requests[-1].messages if isinstance(one, UserMessage))


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


class Unbegun(Diary):
    """A ledger in which it cannot be written that a turn begins."""

    async def start(self, rows: tuple[int, ...], turn: str = "") -> tuple[str, tuple[Record, ...]]:
        raise StoreError("The disk is full.")


async def test_a_message_is_answered_where_it_cannot_be_written_down_that_its_turn_begins(tmp_path: Path) -> None:
    ledger = Unbegun()
    async with life(tmp_path, ledger, "the answer") as (inbox, _agent):
        await inbox.accept([update(1, 7, "do it")])
        await until(lambda: ledger.done == {1})
    assert [text_of(row) for row in await ledger.pending(CHANNEL)] == ["the answer"]


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
