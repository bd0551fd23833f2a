"""What becomes of an update on which nanobot itself breaks, and of those that a dead process had begun."""

import asyncio
import json
import time
from contextlib import aclosing
from pathlib import Path

import httpx

from nanobot.bus.alarms import Alarms
from nanobot.bus.events import InboundMessage, Role
from nanobot.channels.telegram.access.gate import STRANGER, Gate
from nanobot.channels.telegram.access.people import Access
from nanobot.channels.telegram.bot import TelegramLine
from nanobot.channels.telegram.read.incoming import IncomingMessage
from nanobot.channels.telegram.read.intake import TelegramIntake
from nanobot.channels.telegram.read.media import MediaFolder
from nanobot.channels.telegram.receive.inbox import Inbox, OfferMenu
from nanobot.channels.telegram.render.answer import outgoing_of
from nanobot.channels.telegram.send.calls import Sending
from nanobot.channels.telegram.send.outbox import TelegramOutbox
from nanobot.channels.telegram.send.pacing import ChatQueues
from nanobot.channels.telegram.settings import TelegramSettings
from nanobot.command.builtin import builtin_router
from nanobot.messages import UserMessage
from nanobot.session.ledger import Ledger
from nanobot.session.rows import Arrival, InboxRow, OutboxRow
from nanobot.session.sqlite import MemoryDatabase
from tests.channels.harness import SmallAgent, small_agent
from tests.fakes.clock import JumpingClock
from tests.fakes.ledger import states
from tests.fakes.telegram_server import TOKEN, TelegramServer

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
    inbox = Inbox(line, intake, gate, outbox, agent, offer_menu)
    inbox.identified()
    return inbox


def text_of(row: OutboxRow) -> str:
    return outgoing_of(row.item.payload).screen.text


async def test_a_message_on_which_nanobot_breaks_is_refused_aloud_and_others_go_on(tmp_path: Path) -> None:
    ledger = Ledger(MemoryDatabase())
    async with TelegramServer() as server, small_agent([]) as agent, httpx.AsyncClient() as client:
        async with aclosing(TelegramLine(TelegramSettings(TOKEN, base_url=f"{server.url}/bot"))) as line:
            intake = BrokenIntake(line, MediaFolder(tmp_path, client))
            inbox = inbox_over(ledger, line, intake, agent, 7)
            await inbox.accept([update(1, 7, "hello"), update(2, 8, "from a stranger"), update(3, 7, "/whoami")])
            await inbox.aclose(120)
        assert server.visible(8) == [f"bot: {STRANGER}"]
    told = {(row.item.chat, text_of(row)) for row in await ledger.pending(CHANNEL)}
    assert len([text for chat, text in told if chat == "7" and "set aside" in text]) == 1
    assert {chat for chat, _ in told} == {"7"}, "what strangers get is never written down"
    assert await states(ledger, "inbox", CHANNEL) == {"dead": 2, "done": 1}


async def test_what_was_begun_as_one_message_before_a_crash_is_the_same_message_after_it(tmp_path: Path) -> None:
    ledger = Ledger(MemoryDatabase())
    updates = [update(number, 7, text) for number, text in ((1, "one"), (2, "two"), (3, "three"))]
    rows = await ledger.accept(CHANNEL, tuple(Arrival(str(one["update_id"]), json.dumps(one)) for one in updates))
    await ledger.claim((rows[0].seq, rows[1].seq))  # and then the process died; the third came in the same second
    async with small_agent(["first", "second"], store=ledger.sessions) as agent, httpx.AsyncClient() as client:
        async with aclosing(TelegramLine(TelegramSettings(TOKEN))) as line:
            inbox = inbox_over(ledger, line, TelegramIntake(line, MediaFolder(tmp_path, client)), agent, 7)
            await inbox.resume()
            await inbox.aclose(120)
        asked = [one.text for one in agent.provider.requests[-1].messages if isinstance(one, UserMessage)]
    assert "\n\n".join(asked) == "one\ntwo\n\nthree", "a line of its own, whether it was read on the way or asked after"
    assert await states(ledger, "inbox", CHANNEL) == {"done": 3}


class SlowAtFirst(Ledger):
    """Takes its time for the first row."""

    async def claim(self, rows: tuple[int, ...]) -> tuple[InboxRow, ...]:
        for _ in range(100 if rows == (1,) else 0):
            await asyncio.sleep(0)
        return await super().claim(rows)


async def test_a_command_that_ends_turns_never_ends_that_of_a_message_that_came_after_it(tmp_path: Path) -> None:
    ledger = SlowAtFirst(MemoryDatabase())
    async with small_agent(["the answer"], store=ledger.sessions) as agent, httpx.AsyncClient() as client:
        line = TelegramLine(TelegramSettings(TOKEN))
        inbox = inbox_over(ledger, line, TelegramIntake(line, MediaFolder(tmp_path, client)), agent, 7)
        await inbox.accept([update(1, 7, "/new"), update(2, 7, "an easy one")])
        await inbox.aclose(120)
        await line.aclose()
    texts = [text_of(row) for row in await ledger.pending(CHANNEL)]
    assert texts[-1] == "the answer"
    assert await states(ledger, "inbox", CHANNEL) == {"done": 2}


async def test_an_update_that_is_handed_over_again_while_it_waits_is_answered_once(tmp_path: Path) -> None:
    ledger = SlowAtFirst(MemoryDatabase())
    updates = [update(1, 7, "first"), update(2, 7, "second")]
    rows = await ledger.accept(CHANNEL, tuple(Arrival(str(one["update_id"]), json.dumps(one)) for one in updates))
    async with small_agent(["an answer", "another"], store=ledger.sessions) as agent, httpx.AsyncClient() as client:
        line = TelegramLine(TelegramSettings(TOKEN))
        inbox = inbox_over(ledger, line, TelegramIntake(line, MediaFolder(tmp_path, client)), agent, 7)
        inbox.take(rows[0])
        await asyncio.sleep(0)
        for row in (rows[1], rows[1], rows[0], rows[1]):  # by an engine that hands over what is not begun after a while
            inbox.take(row)
        await inbox.aclose(120)
        await line.aclose()
        said = "\n".join(one.text for one in agent.provider.requests[-1].messages if isinstance(one, UserMessage))
    assert (said.count("first"), said.count("second")) == (1, 1)
    assert await states(ledger, "inbox", CHANNEL) == {"done": 2}


FORGED = ["/help", "/new", "/sessions", "/approve", "/approve ", "/approve x", "/ ", "/", "hello", "", "/x" * 9_000]


async def test_what_a_client_sends_as_a_press_of_no_button_of_ours_is_no_command_and_waits_in_nobodys_way(
    tmp_path: Path,
) -> None:
    ledger = Ledger(MemoryDatabase())
    async with TelegramServer() as server, small_agent([]) as agent, httpx.AsyncClient() as client:
        async with aclosing(TelegramLine(TelegramSettings(TOKEN, base_url=f"{server.url}/bot"))) as line:
            inbox = inbox_over(ledger, line, TelegramIntake(line, MediaFolder(tmp_path, client)), agent, 7)
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
            await inbox.aclose(120)
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
