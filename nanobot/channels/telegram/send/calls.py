"""The calls that show something, and what is done when Telegram refuses one: fewer entities, no reply, no topic."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Literal

from loguru import logger
from msgspec import Struct
from msgspec.structs import replace
from telegram import InputFile, LinkPreviewOptions, ReplyParameters
from telegram.error import ChatMigrated, RetryAfter, TelegramError

from nanobot import jsonval
from nanobot.bus.events import Address
from nanobot.channels.telegram.bot import DEPARTURE, Departure, TelegramLine
from nanobot.channels.telegram.read.incoming import number_of
from nanobot.channels.telegram.render.screen_messages import STATUS_PART, MessageSlot, ScreenMessage, Slots
from nanobot.channels.telegram.send.errors import Trouble, classify, penalty_of
from nanobot.channels.telegram.send.pacing import ChatQueues, Urgency
from nanobot.errors import StoreError
from nanobot.session.ledger import Ledger
from nanobot.session.rows import OutboxItem

#: Seconds that a call, that one which need not succeed, and that an upload may take.
CALL_SECONDS, SHORT_SECONDS = 35.0, 12.0
UPLOAD_SECONDS = 180.0
#: Nothing that stands in an answer makes Telegram fetch a page.
_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)
SendOutcome = Literal["shown", "later", "never"]
Before = Callable[[], Awaitable[None]]


class Upload(Struct, frozen=True):
    """A file to send, with `text` under it; `photo` shows it as a picture."""

    name: str
    data: bytes
    text: str = ""
    photo: bool = False
    silent: bool = True


class Calls:
    """Whoever calls holds a permit of the chat's queue. What goes wrong is returned, never raised.

    `before` is awaited just before the content of a call leaves; its `StoreError` stops the call and is raised.
    """

    def __init__(self, line: TelegramLine, queues: ChatQueues, seconds: float = CALL_SECONDS) -> None:
        self._line = line
        self._queues = queues
        self._seconds = seconds

    def short(self) -> "Calls":
        """The same for what need not succeed: nobody waits for it long."""
        return Calls(self._line, self._queues, SHORT_SECONDS)

    async def show(
        self,
        place: Address,
        content: ScreenMessage | Upload,
        message_id: int = 0,
        *,
        reply_to: int = 0,
        before: Before | None = None,
    ) -> int | Trouble:
        """Send a message or a file, or edit the message of this id. Returns the id of what shows it now.

        `reply_to` is the id of the message that it answers, 0 for none.
        """
        topic_failed = False  # Telegram sometimes does not know a topic for a moment: it gets a second try
        for _ in range(6):
            seconds = UPLOAD_SECONDS if isinstance(content, Upload) else 0
            method, fields = _call(place, content, message_id, reply_to)
            match outcome := await self._attempt(place.chat, method, fields, seconds=seconds, before=before):
                case "same" | True:
                    return message_id
                case "maybe_sent" if message_id:
                    return "not_sent"  # an edit may be made twice
                case "lost_target" | "moved":
                    message_id = 0
                case "lost_thread" if message_id:  # an edit names no topic
                    message_id = 0
                case "lost_reply":
                    reply_to = 0
                case "lost_thread" if place.thread:
                    place, topic_failed = (replace(place, thread="") if topic_failed else place), True
                case "format" | "refused" if (simpler := _simpler(content, outcome)) is not None:
                    content = simpler
                case _:
                    return outcome
        return "refused"

    async def delete(self, chat: str, message_id: int) -> int | Trouble:
        return await self._attempt(chat, "deleteMessage", {"message_id": message_id})

    async def typing(self, place: Address) -> int | Trouble:
        return await self._attempt(place.chat, "sendChatAction", {"action": "typing", **_thread(place.thread)})

    async def reachable(self) -> bool:
        """Whether Telegram answers now. Shows nothing to anybody."""
        with suppress(TelegramError, TimeoutError):
            async with asyncio.timeout(SHORT_SECONDS), self._line.places:
                await self._line.call("getMe")
                return True
        return False

    async def draft(self, place: Address, draft_id: int, screen: ScreenMessage) -> int | Trouble:
        """Show text in a draft, which Telegram forgets after half a minute."""
        shown = {"draft_id": draft_id, "text": screen.text, "entities": screen.wire, "can_stop": True}
        return await self._attempt(place.chat, "sendMessageDraft", {**shown, **_thread(place.thread)})

    async def _attempt(
        self, chat: str, method: str, fields: Mapping[str, object], *, seconds: float = 0, before: Before | None = None
    ) -> int | Trouble:
        """One call; the number of the message that it shows, or True. What it says of the chat is told to its queue."""
        queue = self._queues.queue(chat)
        departure = Departure(self._queues.pace.may_send, before)
        token = DEPARTURE.set(departure)
        try:
            async with asyncio.timeout(seconds or self._seconds), self._line.places:
                answer = await self._line.call(method, chat_id=int(self._queues.now_at(chat)), **fields)
        except (TelegramError, TimeoutError) as error:
            if isinstance(error.__cause__, StoreError):  # of `before`
                raise error.__cause__ from None
            trouble = classify(error)
            if trouble == "maybe_sent" and not departure.left:
                trouble = "not_sent"
            if isinstance(error, RetryAfter):
                queue.punish(penalty_of(error))
            elif isinstance(error, ChatMigrated):
                self._queues.move(chat, str(error.new_chat_id))
            elif trouble == "dead_chat":
                queue.dead = True
            if trouble != "same":
                logger.info("a call to chat {} failed: {} ({})", chat, trouble, type(error).__name__)
            return trouble
        finally:
            DEPARTURE.reset(token)
        queue.succeeded()
        return answer is True or number_of(jsonval.obj(answer).get("message_id")) or "maybe_sent"


def _thread(thread: str) -> dict[str, object]:
    return {"message_thread_id": int(thread)} if thread else {}


def _call(
    place: Address, content: ScreenMessage | Upload, message_id: int, reply_to: int
) -> tuple[str, dict[str, object]]:
    """The call that shows it; the general topic of a forum wants no thread."""
    reply = {"reply_parameters": ReplyParameters(reply_to)} if reply_to else {}
    thread = _thread("" if place.thread == "1" else place.thread)
    sent = {"disable_notification": content.silent, **thread, **reply}
    if isinstance(content, Upload):
        kind, file = "Photo" if content.photo else "Document", InputFile(content.data, filename=content.name)
        return f"send{kind}", {kind.lower(): file, "caption": content.text or None, **sent}
    shown: dict[str, object] = {"text": content.text, "entities": content.wire, "reply_markup": content.keyboard}
    shown["link_preview_options"] = _NO_PREVIEW
    return ("editMessageText", {"message_id": message_id, **shown}) if message_id else ("sendMessage", shown | sent)


class Sending(Struct, frozen=True):
    """What all share that show something in the chats of a bot. `channel` is the bot's name in the ledger."""

    ledger: Ledger
    channel: str
    calls: Calls
    queues: ChatQueues
    slots: Slots

    async def show(
        self, address: Address, content: ScreenMessage | Upload, message_id: int = 0, urgency: Urgency = "command"
    ) -> int | Trouble:
        """`Calls.show`, once the queue of the chat lets it out."""
        async with self.queues.queue(address.chat).permit(urgency) as permit:
            permit.used()
            return await self.calls.show(address, content, message_id)

    @classmethod
    def over(cls, line: TelegramLine, ledger: Ledger, channel: str, queues: ChatQueues) -> "Sending":
        return cls(ledger, channel, Calls(line, queues), queues, Slots())


def _simpler(content: ScreenMessage | Upload, trouble: Trouble) -> ScreenMessage | Upload | None:
    """What is tried instead of what was refused: fewer entities; a file for what is too large or no picture."""
    if isinstance(content, ScreenMessage):
        return content.plainer() if trouble == "format" else None
    return replace(content, photo=False) if content.photo else None


async def send_part(
    sending: Sending, address: Address, key: tuple[str, int], screen: ScreenMessage, slot: MessageSlot
) -> SendOutcome:
    """Show the status of a turn, or a part of its answer before its text is final. The queue is held, the call counted.

    Its row in the ledger is written just before it leaves, so that another process finds the message and goes on with
    it. An answer stands below every earlier one; a status may stand above one that is still owed to the chat.
    """
    (turn, number), fresh = key, not slot.row
    status = number == STATUS_PART
    if fresh and await _left_unsure(sending, key, slot) and not status:
        return "never"
    refused: SendOutcome | None = None

    async def draft() -> None:
        nonlocal refused
        item = OutboxItem(turn, number, sending.channel, address.chat, sending.slots.token, address.thread)
        row = await sending.ledger.draft(item)
        if row is not None:
            slot.row = row.seq
        if not status and (row is None or row.state != "draft"):  # an earlier one is owed, or its final text is there
            refused = "later" if row is None else "never"
            raise StoreError("it is not to be shown now")  # English: the code alone sees it

    known = slot.message_id
    try:
        outcome = await sending.calls.show(address, screen, known, before=None if slot.row and known else draft)
    except StoreError:
        if refused is None:
            raise
        return refused
    if isinstance(outcome, int):
        slot.message_id, slot.screen = outcome, screen
        if slot.row and (fresh or outcome != known):
            await sending.ledger.bind(slot.row, str(outcome))
        return "shown"
    slot.screen = None
    if outcome == "maybe_sent":
        slot.unsure, slot.message_id = True, 0
        if known:
            await sending.ledger.bind(slot.row, "")
    return "later" if outcome in {"flood", "not_sent", "token"} else "never"


async def _left_unsure(sending: Sending, key: tuple[str, int], slot: MessageSlot) -> bool:
    """Whether a process that died may have sent this part; its message is taken over where it is known."""
    turn, number = key
    for row in await sending.ledger.drafts(turn):
        if row.item.part == number and row.item.payload != sending.slots.token:
            slot.message_id = slot.message_id or int(row.message_id or 0)
            slot.unsure = not slot.message_id
    return slot.unsure
