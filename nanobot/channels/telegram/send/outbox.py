"""Sends what must arrive: takes the rows of the ledger's outbox and goes on until Telegram has each of them.

A row is tried for a day. One that may have arrived is sent again with the mark of a possible repeat, ever less often.
What is given up is said in its chat. The rows of a chat go out one after the other; replies to commands go first.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from loguru import logger
from msgspec import DecodeError
from msgspec.structs import replace

from nanobot.bus.alarms import IN_A_ROW, Alarms
from nanobot.bus.alarms import Trouble as Failure
from nanobot.bus.events import Address, InboundMessage, TurnFinished
from nanobot.channels.telegram.render.answer import (
    OutgoingMessage,
    answer_messages,
    outbox_items,
    outgoing_of,
    text_messages,
)
from nanobot.channels.telegram.render.markdown import Rendered
from nanobot.channels.telegram.render.screen_messages import (
    LIMIT,
    REPEAT,
    STATUS_PART,
    MessageSlot,
    ScreenMessage,
    split,
)
from nanobot.channels.telegram.send.calls import Sending, Upload
from nanobot.channels.telegram.send.errors import Trouble
from nanobot.channels.telegram.settings import CHANNEL
from nanobot.command.router import parse_command
from nanobot.errors import StoreError
from nanobot.session.database import now, until_stored
from nanobot.session.ledger import DUE
from nanobot.session.rows import OutboxItem, OutboxRow
from nanobot.utils.translation import N_, Later, _, day_of, speak, told

#: A message is given up after this time, and so many tries of it.
LONGEST = timedelta(hours=24)
MOST_TRIES = 10
_ADVICE = N_("The log names the chats and what Telegram said; `nanobot status` shows whether Telegram is reached.")
#: Seconds between looks for rows that have become due, and the longest pause between two tries of a row that did not go
#: out; in a chat that has blocked or removed the bot.
_LOOK, _LONGEST_PAUSE, _BLOCKED_PAUSE = 1.0, 60.0, 3_600.0
#: By so much the pause grows that follows on each sending that may have arrived: a chat sees a dozen of them a day.
_REPEATS_SPREAD = 2.5
_BLOCKED = Later(N_("the chat cannot be written to: the bot was blocked or removed"))
_MUTED = Later(N_("the bot may not write in the chat now"))
_NO_FILES = Later(N_("the bot may not send files there"))
_LATE = Later(N_("Telegram did not take it for 24 hours"))
_BROKE, _UNREADABLE = N_("sending it broke ({error})"), N_("it cannot be read: {error}")
_REFUSED = N_("Telegram refused it ({outcome})")
#: Begins the id of the word about a message that was given up.
_LOST = "lost-"


class TelegramOutbox:
    """Makes the rows of what must arrive, and delivers them. `clock` tells the time in UTC.

    With `replies` an answer points to the message that it answers. `alarms` hear of messages that are given up, but for
    those to a chat that wants none.
    """

    def __init__(
        self,
        sending: Sending,
        *,
        replies: bool = False,
        clock: Callable[[], datetime] = now,
        alarms: Alarms,
    ) -> None:
        self.sending = sending
        self._ledger, self._calls, self._slots = sending.ledger, sending.calls, sending.slots
        self.replies = replies
        self._clock = clock
        self.alarms = alarms
        self._work = asyncio.Event()
        self._serving: set[str] = set()  # the chats to which a row is being sent
        #: Until when nothing is tried in a chat, by the clock of the queues; what is new to say there ends that.
        self._waits: dict[str, float] = {}

    def compose(self, message: InboundMessage, finished: TurnFinished, number: int = 0) -> tuple[OutboxItem, ...]:
        """The parts of an answer or of a command's last reply, as they go into the ledger under `message.id`.

        `number` is that of the message in its chat.
        """
        self._slots.close(message.id)
        command = parse_command(message.content, alone=not (message.media or message.context)) is not None
        if command and not finished.text and not finished.error:
            return ()
        messages = answer_messages(finished) or (
            OutgoingMessage("text", ScreenMessage(_("The model gave no answer. Ask again."))),
        )
        reply_to = number if self.replies else 0
        first = replace(messages[0], reply_to=reply_to)
        return self._items(
            message.address, message.id, [replace(one, urgent=command) for one in (first, *messages[1:])]
        )

    def compose_text(self, address: Address, key: str, text: str, *, urgent: bool = True) -> tuple[OutboxItem, ...]:
        """The parts of a text (Markdown), which is said once under `key`; the channel's own goes before answers."""
        messages = text_messages(text) or (OutgoingMessage("text", ScreenMessage("…")),)
        return self._items(address, key, [replace(one, urgent=urgent) for one in messages])

    async def say(self, address: Address, text: str, key: str) -> None:
        """Say a line of the channel itself, once under its key. Raises `StoreError`."""
        await self.put(self.compose_text(address, key, text))

    async def say_unkept(self, address: Address, text: str) -> bool:
        """Say a line that cannot be kept, without a second try; whether it has arrived."""
        return isinstance(await self.sending.show(address, text_messages(text)[0].screen), int)

    async def put(self, items: tuple[OutboxItem, ...]) -> None:
        """Send messages that are not part of an answer, each once under its key. Raises `StoreError`."""
        await self._ledger.put(items)
        for one in items:
            self._waits.pop(one.chat, None)
        self.wake()

    def wake(self) -> None:
        """There is something new in the ledger's outbox."""
        self._work.set()

    async def run(self) -> None:
        """Deliver until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._work.clear()
                rows = await self._due()
                for row in _firsts(rows):
                    self._serving.add(row.item.chat)
                    group.create_task(self._serve(row))
                if len(rows) < DUE:  # else there may be more
                    await self.sending.queues.clock.wait(self._work, _LOOK)

    async def drain(self, seconds: float) -> None:
        """Return when nothing due is left, or after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while self._serving or await self._due():
                    self.wake()
                    await asyncio.sleep(0.05)
        except TimeoutError:
            logger.warning("some messages were not delivered in time; they go out at the next start")

    async def _due(self) -> tuple[OutboxRow, ...]:
        """What may be sent now to chats to which nothing is being sent."""
        now = self.sending.queues.clock.now()
        self._waits = {chat: until for chat, until in self._waits.items() if until > now}
        try:
            return await self._ledger.due(self.sending.channel, without=self._serving | self._waits.keys())
        except StoreError as error:
            logger.error("the outbox cannot be read and is tried again: {}", error)
            return ()

    async def _serve(self, row: OutboxRow) -> None:
        """Deliver one row, and look for the next one."""
        speak("", Address(CHANNEL, row.item.chat, row.item.thread).key)
        try:
            await self._deliver(row)
            self.wake()
        except StoreError as error:
            logger.error("message {} is looked at again: {}", row.seq, error)
        except DecodeError as error:
            await self._give_up(row, Later(_UNREADABLE, error=error))
        except Exception as error:  # noqa: BLE001 - one message must not take the others with it
            logger.opt(exception=error).error("message {} cannot be sent", row.seq)
            await self._give_up(row, Later(_BROKE, error=type(error).__name__))
        finally:
            self._serving.discard(row.item.chat)

    async def _deliver(self, row: OutboxRow) -> None:
        outgoing = outgoing_of(row.item.payload)
        slot = self._slots.slot(row.item.turn, row.item.part)
        queue = self.sending.queues.queue(row.item.chat)
        if queue.penalty:
            await self._hold(row, slot, queue.penalty)
            return
        async with queue.permit("final") as permit:
            slot.message_id = slot.message_id or int(row.message_id or 0)
            outcome: int | Trouble = slot.message_id
            if not outgoing.screen.looks_like(slot.screen):
                content = await _content(outgoing, repeat=_unsure(row, slot))
                permit.used()
                outcome = await self._send(row, content, slot, outgoing.reply_to)
            await self._settle(row, outgoing, slot, outcome)

    async def _send(
        self, row: OutboxRow, content: ScreenMessage | Upload, slot: MessageSlot, reply_to: int
    ) -> int | Trouble:
        calls, begun = self._calls, False

        async def begin() -> None:
            nonlocal begun
            begun = begun or await self._ledger.begin(row.seq)
            if not begun:
                raise StoreError("another worker sends it")  # English: the code alone sees it

        place = Address(CHANNEL, row.item.chat, row.item.thread)
        if _unsure(row, slot) and not await calls.reachable():
            return "not_sent"  # nothing is repeated on a network that is down
        outcome = await calls.show(place, content, slot.message_id, reply_to=reply_to, before=begin)
        if outcome in {"no_rights", "refused"} and (shown := slot.message_id):  # it may not be edited any more
            await self._bind(row, slot, 0)
            outcome = await calls.show(place, content, reply_to=reply_to, before=begin)
            if isinstance(outcome, int) or outcome == "maybe_sent":
                await calls.delete(row.item.chat, shown)
            else:
                await self._bind(row, slot, shown)
        if outcome != "too_long":
            return outcome
        for number, piece in enumerate(split(Rendered(content.text), LIMIT // 2)):
            quiet = replace(piece, silent=piece.silent or content.silent)
            outcome = await calls.show(place, quiet, 0 if number else slot.message_id, reply_to=reply_to)
            if isinstance(outcome, str):
                return outcome
            slot.message_id = slot.message_id or outcome
        return slot.message_id

    async def _settle(
        self, row: OutboxRow, outgoing: OutgoingMessage, slot: MessageSlot, outcome: int | Trouble
    ) -> None:
        """Note in the ledger what became of a row."""
        ledger = self._ledger
        logger.bind(turn=row.item.turn).info("send of row {} to chat {}: {}", row.seq, row.item.chat, outcome)
        match outcome:
            case int():
                drafts = await until_stored(lambda: ledger.ack(row.seq, str(outcome)))
                if not row.item.turn.startswith(_LOST):  # it says that another message did not arrive
                    self.alarms.well(CHANNEL)
                if outgoing.last:
                    await self._tidy(row, drafts)
            case "dead_chat" if self._clock() - row.at >= LONGEST:
                await self._give_up(row, _BLOCKED, aloud=False)
            case "flood" | "not_sent" | "token" | "no_rights" | "lost_thread" | "maybe_sent" if self._late(row):
                await self._give_up(row, _LATE)
            case "maybe_sent":
                await self._bind(row, slot, 0)
                slot.unsure = True
                pause = _REPEATS_SPREAD ** min(row.attempts + 1, MOST_TRIES + 2)
                left = (row.at + LONGEST - self._clock()).total_seconds()
                await self._hold(row, slot, left if 0 < left < pause else pause)
            case "no_rights" if outgoing.kind != "text":
                await self._give_up(row, _NO_FILES)
            case "no_rights" | "lost_thread":  # rights come back, and closed topics are opened again
                if row.attempts < IN_A_ROW:  # what is behind it waits for it
                    self._alarm(_MUTED)
                await self._hold(row, slot, _LONGEST_PAUSE)
            case "not_sent" | "token" | "flood" | "dead_chat":  # who blocks or removes the bot may let it in again
                known = {"flood": self.sending.queues.queue(row.item.chat).penalty, "dead_chat": _BLOCKED_PAUSE}
                await self._hold(row, slot, known.get(outcome, min(_LONGEST_PAUSE, 1 << row.attempts)))
            case _:
                await self._give_up(row, Later(_REFUSED, outcome=outcome))

    async def _bind(self, row: OutboxRow, slot: MessageSlot, message_id: int) -> None:
        """This message shows a row, or with 0 none that is known."""
        slot.message_id, slot.screen = message_id, None
        await until_stored(lambda: self._ledger.bind(row.seq, str(message_id or "")))

    def _late(self, row: OutboxRow) -> bool:
        return row.attempts >= MOST_TRIES and self._clock() - row.at >= LONGEST

    async def _give_up(self, row: OutboxRow, why: str, *, aloud: bool = True) -> None:
        reason = str(why)  # in English
        logger.error("message {} for chat {} is given up: {}", row.seq, row.item.chat, reason)
        if aloud:
            self._alarm(why)
            await until_stored(lambda: self._say_lost(row, why))
        await until_stored(lambda: self._ledger.fail(row.seq, reason))

    def _alarm(self, why: str) -> None:
        self.alarms.failed(Failure(CHANNEL, Later(N_("Delivering a message on Telegram")), why, Later(_ADVICE)))

    async def _say_lost(self, row: OutboxRow, why: str) -> None:
        """Tell the chat, when it can be reached, that something is missing. Nothing is said of such a word."""
        if row.item.turn.startswith(_LOST):
            return
        at = row.at.astimezone()
        when = _("{day}, {time}", day=day_of(at), time=f"{at:%H:%M}")
        text = _(
            "A message of {when} could not be delivered and is dropped: {why}. Ask again.", when=when, why=told(why)
        )
        await self.say(Address(CHANNEL, row.item.chat, row.item.thread), text, f"{_LOST}{row.item.turn}")

    async def _hold(self, row: OutboxRow, slot: MessageSlot, seconds: float) -> None:
        """Try a row later, or with what is new to say in its chat. What comes after it there waits for it."""
        self._waits[row.item.chat] = self.sending.queues.clock.now() + seconds
        unsure = _unsure(row, slot)
        await until_stored(lambda: self._ledger.postpone(row.seq, row.item.not_before, unsure=unsure))

    async def _tidy(self, row: OutboxRow, drafts: Sequence[OutboxRow]) -> None:
        """Take away what was shown of a turn beyond its last message, also by an earlier process. The queue is held."""
        turn, last = row.item.turn, row.item.part
        own = self._slots.slot(turn, STATUS_PART).row
        # Its own status is folded by `show`.
        left = {int(one.message_id) for one in drafts if one.message_id and one.seq != own}
        shown = {slot.message_id for part, slot in self._slots.shown(turn) if part > last}
        for message_id in sorted(shown | left):
            await self._calls.delete(row.item.chat, message_id)
        for one in drafts:
            await self._ledger.ack(one.seq)
        self._slots.forget(turn)

    def _items(self, address: Address, key: str, messages: Sequence[OutgoingMessage]) -> tuple[OutboxItem, ...]:
        self._waits.pop(address.chat, None)
        return outbox_items(self.sending.channel, address, key, messages)


def _firsts(rows: Sequence[OutboxRow]) -> tuple[OutboxRow, ...]:
    """The next row of each chat: a reply to a command before answers, the oldest first."""
    first: dict[str, OutboxRow] = {}
    for row in sorted(rows, key=_is_urgent, reverse=True):  # which keeps the order of equals
        first.setdefault(row.item.chat, row)
    return tuple(first.values())


def _is_urgent(row: OutboxRow) -> bool:
    with suppress(DecodeError):  # told of when it is to be sent
        return outgoing_of(row.item.payload).urgent
    return False


async def _content(outgoing: OutgoingMessage, *, repeat: bool) -> ScreenMessage | Upload:
    """What is sent of a message; `repeat` marks it as one that may be there already."""
    screen = outgoing.screen
    if outgoing.kind != "text":
        try:
            file = await asyncio.to_thread(outgoing.upload)
        except OSError as error:
            said = _("The file {name} cannot be sent: {why}.", name=outgoing.name, why=error.strerror)
            screen = ScreenMessage(said)
        else:
            return replace(file, text=REPEAT + file.text) if repeat else file
    return screen.as_repeat() if repeat else screen


def _unsure(row: OutboxRow, slot: MessageSlot) -> bool:
    """Whether a row may be in the chat as a message that nobody knows. Of its own drafts this process knows best."""
    return not slot.message_id and (slot.unsure or (row.state == "unknown" and slot.row != row.seq))
