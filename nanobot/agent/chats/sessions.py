"""One session, one turn: what is asked while another chat or another process has the session waits, or is refused."""

import asyncio
from collections.abc import AsyncIterator, Collection, Coroutine
from contextlib import asynccontextmanager

from nanobot.agent import explanations
from nanobot.agent.chats.chat import Chat, Entry
from nanobot.agent.chats.services import AgentServices
from nanobot.agent.ends import safely
from nanobot.agent.turn import Publisher, Turn
from nanobot.bus.events import InboundMessage, Notice
from nanobot.session.store import SessionStore
from nanobot.utils.translation import _

#: Seconds in which the store may say in which session a chat is, before its turn begins and says what it waits for.
LOOK_SECONDS = 1.0
#: Seconds between two looks whether another process has left the session.
HOLD_SECONDS = 0.5


@asynccontextmanager
async def own_session(
    services: AgentServices, chat: Chat, chats: Collection[Chat], message: InboundMessage
) -> AsyncIterator[None]:
    """The session of a chat, for it alone among `chats`: what is asked while another one has it waits."""
    told = False
    while True:
        session = await session_now(services.store, chat)
        other = next((one for one in chats if session and one.session == session), None)
        if other is None or chat.stop.is_set() or not chat.inbox:
            break
        if not told:
            channel = other.key.partition(":")[0]
            another = message.address.channel == channel
            terminal = _("another terminal") if another else _("a terminal")
            holder = terminal if channel == "terminal" else channel.capitalize()
            await Publisher(services.bus, message.shown_at)(Notice(explanations.waits_for(holder)))
            told = True
        await _first(other.left.wait(), chat.stop.wait())
    if other is None:
        chat.session = session
        chat.left.clear()
    try:
        yield
    finally:
        chat.session = ""
        chat.left.set()


async def session_now(store: SessionStore, chat: Chat) -> str:
    """The session that a chat is in; empty where the store does not tell, of which its turn will speak."""
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            current = await safely(store.current(chat.key))
    except TimeoutError:
        return ""
    return "" if isinstance(current, str) else current.id


def steers(running: Chat, entry: Entry) -> bool:
    """Whether the turn of a chat may read a message as said in it: only its own person speaks there."""
    said = entry.message
    if said.cause != "chat" or said.aside or entry.alone or entry.behind:
        return False
    first = next(iter(running.taken), entry)
    return not (first.alone or first.message.aside) and first.message.sender.id == said.sender.id


async def hold(store: SessionStore, turn: Turn) -> bool:
    """Take the session, so that no other process and no other chat serves it; what is durable waits for it."""
    while holder := await _take(store, turn):
        if not turn.behind:
            turn.behind = holder
            if turn.durable:
                await turn.emit(Notice(explanations.waits_for(holder)))
        if not turn.durable:
            return False
        await asyncio.sleep(HOLD_SECONDS)
    turn.behind = ""
    return True


async def _take(store: SessionStore, turn: Turn) -> str:
    """Who has the session; empty where this turn has it now. A turn that is cancelled meanwhile gives it back."""
    taking = asyncio.ensure_future(store.database.hold(turn.session))
    try:
        await asyncio.shield(taking)
    finally:
        turn.held = not await taking
    return taking.result()


async def _first(*works: Coroutine[object, object, object]) -> None:
    """Wait until one of these has ended; the others are given up."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
