"""Sends what must arrive: takes the rows of the ledger's outbox and goes on until Telegram has each of them.

A row that certainly did not go out is tried again and again. One that may have arrived is sent again with the mark of a
possible repeat, at most `MOST_REPEATS` times. The rows of a chat keep their order; replies to commands go first.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from loguru import logger
from pydantic import ValidationError

from nanobot.bus.alarms import Alarms
from nanobot.bus.alarms import Trouble as Failure
from nanobot.bus.events import Address, InboundMessage, TurnFinished
from nanobot.channels.telegram.addressing import CHANNEL
from nanobot.channels.telegram.answer import Letter, answer_letters, letter_of
from nanobot.channels.telegram.calls import Calls, Place
from nanobot.channels.telegram.errors import Trouble
from nanobot.channels.telegram.frames import Frame, Slot, Slots, as_repeat, frames_of, pieces
from nanobot.channels.telegram.insisting import insist
from nanobot.channels.telegram.lane import Lanes
from nanobot.command.router import parse_command
from nanobot.errors import StoreError
from nanobot.session.ledger import Ledger, OutboxItem, OutboxRow
from nanobot.session.ledger_memory import now

MOST_REPEATS = 2
#: A message that certainly did not go out is given up after this time, and so many tries of it.
LONGEST = timedelta(hours=24)
MOST_TRIES = 30
_KIND = "telegram"
_ADVICE = "The log names the chats and what Telegram said; `nanobot status` shows whether Telegram is reached."
#: Seconds between looks for rows that have become due, and the longest pause between two tries of one row.
_LOOK, _LONGEST_PAUSE = 1.0, 60.0
#: Seconds by which a clock that was put back is noticed, and how long a row waits by that clock at most.
_PUT_BACK, _LONGEST_HOLD = 5.0, timedelta(hours=1)
_REASONS: dict[Trouble, str] = {
    "dead_chat": "the chat cannot be written to: the bot was blocked or removed",
    "refused": "Telegram refused the message",
    "maybe_sent": "it was sent several times and Telegram never said that it arrived",
}
_LATE = "late-"
#: Tells which message of a chat a turn answers, by the turn's id; 0 for none.
ReplyTo = Callable[[str], int]


def no_reply(_turn: str) -> int:
    """Answers stand for themselves."""
    return 0


@dataclass(frozen=True, slots=True)
class OutboxParts:
    """What the outbox works with. `channel` is the bot's name in the ledger; `wall` tells the time in UTC.

    `alarms` hear of messages that are given up, but for those to a chat that wants none.
    """

    ledger: Ledger
    channel: str
    calls: Calls
    lanes: Lanes
    slots: Slots
    reply_to: ReplyTo = no_reply
    wall: Callable[[], datetime] = now
    alarms: Alarms = field(default_factory=Alarms)


class TelegramOutbox:
    """Meets `seams.Outbox`."""

    def __init__(self, parts: OutboxParts) -> None:
        self._parts = parts
        self._work = asyncio.Event()
        self._queues: dict[str, deque[OutboxRow]] = {}
        self._held: dict[str, float] = {}  # chat → when it may be written to again, by the clock that only grows
        self._ahead: float | None = None  # seconds by which the clock on the wall is ahead of that one
        self._repeats: dict[int, int] = {}

    def compose(self, message: InboundMessage, finished: TurnFinished) -> tuple[OutboxItem, ...]:
        self._parts.slots.close(message.id)
        command = parse_command(message.content) is not None
        if command and not finished.text and not finished.error:
            return ()
        letters = answer_letters(finished) or (Letter("text", Frame("The model gave no answer. Ask again.")),)
        letters = (*letters[:-1], replace(letters[-1], last=True))
        return tuple(
            self._item(
                message.address,
                message.id,
                part,
                replace(letter, urgent=command, reply_to=0 if part else self._parts.reply_to(message.id)),
            )
            for part, letter in enumerate(letters)
        )

    def compose_text(self, address: Address, turn: str, text: str) -> OutboxItem:
        frames = frames_of(text) or (Frame("…"),)
        return self._item(address, turn, 0, Letter("text", frames[0], urgent=True, last=True))

    def wake(self) -> None:
        self._work.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                self._work.clear()
                await self._keep_time()
                for row in await self._lease():
                    chat = row.item.chat
                    if chat not in self._queues:
                        self._queues[chat] = deque([row])
                        group.create_task(self._serve(chat))
                    else:
                        self._queues[chat].append(row)
                await self._parts.lanes.clock.wait(self._work, _LOOK)

    async def _keep_time(self) -> None:
        """Where the clock on the wall was put back, what waits for a time on it is not kept waiting longer."""
        at = self._parts.wall()
        ahead = at.timestamp() - self._parts.lanes.clock.now()
        known, self._ahead = self._ahead, ahead
        back = 0.0 if known is None else known - ahead
        if known is not None and back < _PUT_BACK:
            return
        for row in await insist(lambda: self._parts.ledger.pending(self._parts.channel)):
            due = row.item.not_before
            if due is None or due <= at or row.state == "sending":
                continue
            sooner = min(due - timedelta(seconds=back), at + _LONGEST_HOLD)
            if sooner < due:
                await self._postpone(row, sooner, unsure=row.state == "unknown")

    async def drain(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while self._queues or await self._due():
                    self.wake()
                    await asyncio.sleep(0.05)
        except TimeoutError:
            logger.warning("some messages were not delivered in time; they go out at the next start")

    async def _due(self) -> bool:
        at = self._parts.wall()
        rows = await self._parts.ledger.pending(self._parts.channel)
        return any(row.item.not_before is None or row.item.not_before <= at for row in rows)

    async def _lease(self) -> tuple[OutboxRow, ...]:
        try:
            return await self._parts.ledger.lease(self._parts.channel)
        except StoreError as error:
            logger.error("the outbox cannot be read and is tried again: {}", error)
            return ()

    async def _serve(self, chat: str) -> None:
        """Deliver the rows of one chat until none is left."""
        queue = self._queues[chat]
        try:
            while queue:
                row = _next(queue)
                try:
                    await self._deliver(row)
                except StoreError as error:
                    logger.error("message {} was sent and could not be noted: {}", row.seq, error)
                except Exception as error:  # noqa: BLE001 - one message must not take the others with it
                    logger.opt(exception=error).error("message {} cannot be sent", row.seq)
                    await self._give_up(row, f"sending it broke: {type(error).__name__}")
        finally:
            del self._queues[chat]

    async def _deliver(self, row: OutboxRow) -> None:
        parts, chat = self._parts, row.item.chat
        left = self._held.get(chat, 0.0) - parts.lanes.clock.now()
        if left > 0:
            await self._postpone(row, parts.wall() + timedelta(seconds=left), unsure=row.state == "unknown")
            return
        self._held.pop(chat, None)
        lane = parts.lanes.lane(chat)
        if lane.penalty:
            await self._hold(row, lane.penalty, unsure=row.state == "unknown")
            return
        try:
            letter = letter_of(row.item.payload)
        except ValidationError as error:
            await self._give_up(row, f"what is to be sent cannot be read: {error.error_count()} errors")
            return
        slot = parts.slots.slot(row.item.turn, row.item.part)
        async with lane.permit("command" if letter.urgent else "final") as permit:
            slot.message_id = slot.message_id or _number(row.message_id)
            if letter.kind == "text" and slot.message_id and letter.frame.looks_like(slot.frame):
                outcome: int | Trouble = slot.message_id
            else:
                permit.used()
                outcome = await self._send(row, letter, slot)
            await self._settle(row, letter, slot, outcome)

    async def _send(self, row: OutboxRow, letter: Letter, slot: Slot) -> int | Trouble:
        calls = self._parts.calls
        place = Place(row.item.chat, row.item.thread, letter.reply_to)
        repeat = not slot.message_id and (slot.unsure or row.state == "unknown")
        if repeat and not await calls.reachable(row.item.chat):
            return "not_sent"  # the few repeats there are must not be spent on a network that is down
        if letter.kind != "text":
            try:
                file = await asyncio.to_thread(letter.upload)
            except OSError as error:
                text = f"The file {letter.name} cannot be sent: {error.strerror or 'it cannot be read'}."
                return await calls.show(place, Frame(text))
            caption = as_repeat(Frame(file.caption)).text if repeat else file.caption
            return await calls.upload(place, replace(file, caption=caption))
        frame = as_repeat(letter.frame) if repeat else letter.frame
        outcome = await calls.show(place, frame, slot.message_id)
        if outcome != "too_long":
            return outcome
        for number, piece in enumerate(pieces(frame)):
            outcome = await calls.show(place, piece, 0 if number else slot.message_id)
            if isinstance(outcome, str):
                return outcome
        return outcome

    async def _settle(self, row: OutboxRow, letter: Letter, slot: Slot, outcome: int | Trouble) -> None:
        """Note in the ledger what became of a row."""
        ledger = self._parts.ledger
        lane = self._parts.lanes.lane(row.item.chat)
        match outcome:
            case int():
                slot.message_id, slot.frame = outcome, letter.frame
                await insist(lambda: ledger.ack(row.seq, str(outcome)))
                self._parts.alarms.well(_KIND)
                self._repeats.pop(row.seq, None)
                if letter.last:
                    await self._tidy(row)
            case "flood" | "not_sent" | "token" | "maybe_sent" if self._late(row):
                await self._give_up(row, "it could not be delivered for 24 hours")
                await self._say_late(row)
            case "flood":
                await self._hold(row, lane.penalty, unsure=row.state == "unknown")
            case "not_sent" | "token":
                await self._hold(row, _pause(row.attempts), unsure=row.state == "unknown")
            case "maybe_sent" if slot.message_id:
                await self._hold(row, _pause(row.attempts), unsure=False)  # an edit may be made twice
            case "maybe_sent" if self._repeats.get(row.seq, 0) < MOST_REPEATS:
                self._repeats[row.seq] = self._repeats.get(row.seq, 0) + 1
                await self._hold(row, _pause(row.attempts), unsure=True)
            case "dead_chat":
                await self._give_up(row, _REASONS[outcome], alarming=False)
            case _:
                reason = _REASONS.get(outcome, f"Telegram refused the message ({outcome})")
                await self._give_up(row, reason)

    def _late(self, row: OutboxRow) -> bool:
        return row.attempts >= MOST_TRIES and self._parts.wall() - row.at >= LONGEST

    async def _say_late(self, row: OutboxRow) -> None:
        """Tell the chat, when it can be reached again, that something is missing. Nothing is said of such a word."""
        if row.item.turn.startswith(_LATE):
            return
        text = f"An answer of {row.at:%d %B, %H:%M} UTC could not be delivered for 24 hours and is dropped. Ask again."
        address = Address(CHANNEL, row.item.chat, row.item.thread)
        await self._parts.ledger.put((self.compose_text(address, f"{_LATE}{row.seq}", text),))

    async def _give_up(self, row: OutboxRow, reason: str, *, alarming: bool = True) -> None:
        logger.error("message {} for chat {} is given up: {}", row.seq, row.item.chat, reason)
        if alarming:
            self._parts.alarms.failed(Failure(_KIND, "Delivering a message on Telegram", reason, _ADVICE))
        self._repeats.pop(row.seq, None)
        await insist(lambda: self._parts.ledger.fail(row.seq, reason))

    async def _hold(self, row: OutboxRow, seconds: float, *, unsure: bool) -> None:
        """Try a row later, and keep back what comes after it in its chat."""
        self._held[row.item.chat] = self._parts.lanes.clock.now() + seconds
        await self._postpone(row, self._parts.wall() + timedelta(seconds=seconds), unsure=unsure)

    async def _postpone(self, row: OutboxRow, until: datetime, *, unsure: bool) -> None:
        await insist(lambda: self._parts.ledger.postpone(row.seq, until, unsure=unsure))

    async def _tidy(self, row: OutboxRow) -> None:
        """Take away what was shown of a turn beyond its last message, also by an earlier process. The lane is held."""
        turn, last = row.item.turn, row.item.part
        drafts = [one for one in await self._parts.ledger.drafts(turn) if one.item.part > last]
        shown = {slot.message_id for part, slot in self._parts.slots.shown(turn) if part > last}
        for message_id in sorted({*shown, *(_number(one.message_id) for one in drafts)} - {0}):
            await self._parts.calls.delete(row.item.chat, message_id)
        for one in drafts:
            await self._parts.ledger.fail(one.seq, "the final text is shorter")
        self._parts.slots.forget(turn)

    def _item(self, address: Address, turn: str, part: int, letter: Letter) -> OutboxItem:
        return OutboxItem(turn, part, self._parts.channel, address.chat, letter.to_json(), address.thread)


def _next(queue: deque[OutboxRow]) -> OutboxRow:
    """The next row of a chat: a reply to a command before answers, the oldest first."""
    for row in queue:
        if '"urgent": true' in row.item.payload[-200:]:
            queue.remove(row)
            return row
    return queue.popleft()


def _number(message_id: str) -> int:
    return int(message_id) if message_id.isdigit() else 0


def _pause(attempts: int) -> float:
    return min(_LONGEST_PAUSE, 2.0 ** min(attempts, 6))
