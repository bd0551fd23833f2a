"""From accepted updates to answers: in order within a conversation, side by side between them, commands past both.

A row of the ledger is claimed when work on it begins and marked done together with its answer, in one transaction.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial

from loguru import logger
from msgspec import Struct, field
from msgspec.structs import replace
from telegram import Update

from nanobot.bus.alarms import crashed
from nanobot.bus.events import Address, InboundMessage, Role, TurnFinished
from nanobot.channels.base import Agent
from nanobot.channels.telegram.access.gate import Gate, Refusals
from nanobot.channels.telegram.bot import TelegramLine
from nanobot.channels.telegram.read.incoming import (
    IncomingMessage,
    arrivals_of,
    place_in,
    private_sender,
    said_of,
    update_of,
    whole,
)
from nanobot.channels.telegram.read.intake import TelegramIntake
from nanobot.channels.telegram.receive.callback_queries import CallbackQueries
from nanobot.channels.telegram.send.outbox import TelegramOutbox
from nanobot.channels.telegram.settings import CHANNEL
from nanobot.errors import ChannelError, StoreError, UsageError
from nanobot.session.database import DISK_PAUSE, until_stored
from nanobot.session.ledger import SUSPECT_AFTER
from nanobot.session.rows import Closing, InboxRow, OutboxItem, crash_reason
from nanobot.session.store import Record
from nanobot.utils.text import duration
from nanobot.utils.translation import (
    ENGLISH,
    N_,
    Later,
    _,
    _n,
    heard,
    listed,
    speak,
    speaking,
    spoken_at,
    told,
)

#: A message that is older than this when it is read is answered with a word about the delay.
AWAY_AFTER = timedelta(minutes=10)
#: Seconds for which the process must have lived before a message that it died of alone is tried again: meanwhile others
#: are served, and a death of another cause clears it.
PROBATION_SECONDS = 8.0
#: Messages that are named where several of one chat are given up.
_MOST_NAMED = 40
_PARKED = N_("I set {number} of {chats} aside, because {why} each time. Their chats are told; the log names them.")
_GIVEN_UP = N_(
    "I set {what} aside without an answer: {said}. The reason is that {why}. What was begun may have taken effect. I "
    "do not try it again; you may send it again in other words."
)
_ASIDE = N_("I set a message aside, because {why}. It is not tried again; the log has the rest. I say this once a day.")
_UNREADABLE, _BROKE = N_("it cannot be read ({error})"), N_("working on it broke: {error}")
#: Begins the note of the language in which somebody is spoken to at an address.
_LANGUAGE = "language:"
#: Has the menu of commands of a private chat set: its id, the role of its person, their language.
OfferMenu = Callable[[str, Role, str], None]


class _Batch(Struct, frozen=True):
    """Rows that are worked on together, and what they are: messages of a person, another update, or unreadable."""

    rows: tuple[InboxRow, ...]
    messages: tuple[IncomingMessage, ...] = ()
    update: Update | None = None
    problem: ChannelError | None = None

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(row.seq for row in self.rows)

    @property
    def suspect(self) -> bool:
        return any(row.attempts >= SUSPECT_AFTER for row in self.rows)

    def joined(self, later: "_Batch") -> "_Batch":
        return _Batch(self.rows + later.rows, self.messages + later.messages)


class _Conversation(Struct):
    """What waits in one chat or topic; `more` is set when something came."""

    waiting: deque[_Batch] = field(default_factory=deque)
    more: asyncio.Event = field(default_factory=asyncio.Event)


class _Open(Struct, frozen=True):
    """A message that the agent has, and the rows that are done when it is answered."""

    message: InboundMessage
    rows: tuple[int, ...]
    incoming: IncomingMessage


class Inbox:
    """Takes updates in (`accept`), and takes up at a start what was left (`resume`)."""

    def __init__(
        self,
        line: TelegramLine,
        intake: TelegramIntake,
        gate: Gate,
        outbox: TelegramOutbox,
        agent: Agent,
        offer_menu: OfferMenu,
    ) -> None:
        self._line = line
        self._intake = intake
        self._gate = gate
        self.outbox = outbox
        self._agent = agent
        self._offer_menu = offer_menu
        self._ledger, self._channel = outbox.sending.ledger, outbox.sending.channel
        self._refusals = Refusals(outbox.sending)
        self._callback_queries = CallbackQueries(line, gate, agent)
        self._conversations: dict[Address, _Conversation] = {}
        self._open: dict[str, _Open] = {}
        #: Rows that are being worked on, or wait here for it.
        self._held: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._told_away: set[Address] = set()
        self._suspects = asyncio.Lock()
        self._begun = time.monotonic()

    @property
    def waiting(self) -> int:
        """How many updates wait for their turn, and messages for their answer."""
        return len(self._open) + sum(len(one.waiting) for one in self._conversations.values())

    async def accept(self, updates: list[dict[str, object]]) -> None:
        """Keep updates and begin work on the new ones. Returns when they are on the disk. Raises `StoreError`."""
        for row in await self._ledger.accept(self._channel, arrivals_of(updates)):
            self.take(row)
            await asyncio.sleep(0)  # many at once hold up nobody

    async def recall(self) -> None:
        """Remember who speaks which language. Raises `StoreError`."""
        for key, tag in (await self._ledger.notes(_LANGUAGE)).items():
            heard(tag, key.removeprefix(_LANGUAGE))

    async def resume(self) -> None:
        """Take up what an earlier process left; say which messages are given up. Raises `StoreError`."""
        found = await self._ledger.recover(self._channel)
        await self.set_aside(found.parked)
        if found.waiting:
            logger.info("{} updates were left from before and are taken up", len(found.waiting))
        for row in found.waiting:
            self.take(row)
        self.outbox.wake()

    async def set_aside(self, parked: tuple[InboxRow, ...]) -> None:
        """Give up rows that came with crashes: each chat is told of its own, the owner of all of them, once.

        Nothing of them is read again but the beginnings of their texts.
        """
        if not parked:
            return
        chats: dict[str, list[InboxRow]] = {}
        for row in parked:
            with speaking(ENGLISH):
                logger.error("update {} of {} is set aside: {}", row.id, row.key, crash_reason(row.attempts))
            chats.setdefault(row.key, []).append(row)
        crashes = parked[0].attempts
        owner = await self._gate.access.owner()
        items = [one for key, rows in chats.items() if key for one in self._given_up(rows, crashes)]
        with speaking(spoken_at(Address(CHANNEL, owner).key)):
            self.outbox.alarms.failed(crashed(crash_reason(crashes)))
            if owner and set(chats) != {Address(CHANNEL, owner).key}:
                number = _n("{number} message", "{number} messages", len(parked))
                count = _n("{number} chat", "{number} chats", len(chats))
                text = _(_PARKED, number=number, chats=count, why=crash_reason(crashes))
                items += self.outbox.compose_text(Address(CHANNEL, owner), f"parked-{parked[0].seq}-all", text)
        with speaking(ENGLISH):
            why = crash_reason(crashes)
        await until_stored(lambda: self._ledger.bury(tuple(row.seq for row in parked), why, tuple(items)))
        self.outbox.wake()

    def _given_up(self, rows: list[InboxRow], crashes: int) -> tuple[OutboxItem, ...]:
        """What a chat is told of its rows."""
        with speaking(spoken_at(rows[0].key)):
            said = listed(filter(None, map(said_of, rows[:_MOST_NAMED]))) or "…"
            what = _("a message") if len(rows) == 1 else _n("{number} message", "{number} messages", len(rows))
            text = _(_GIVEN_UP, what=what, said=said, why=crash_reason(crashes))
        return self.outbox.compose_text(Address.of(rows[0].key), f"parked-{rows[0].seq}", text)

    async def aclose(self, grace: float) -> None:
        """Let turns end for `grace` seconds; what still runs then is given back and begins again at the next start."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                while self._tasks:  # one that ends may have begun another
                    await asyncio.wait(set(self._tasks))
        left = set(self._tasks)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=10.0)

    # Sorting

    def take(self, row: InboxRow) -> None:
        """Begin work on an accepted row; one that is here already changes nothing. Whatever stands in it, nothing is
        raised."""
        if row.seq in self._held:
            return
        self._held.add(row.seq)
        try:
            update = update_of(row, self._line.bot)
            incoming = self._intake.describe(update, place_in(row))
            control = incoming is not None and self._gate.is_control(incoming)
        except Exception as error:  # noqa: BLE001 - nobody was judged yet: a stranger's update must not end the process
            problem = ChannelError(Later(_UNREADABLE, error=type(error).__name__))
            problem.__cause__ = error
            self._start(self._serve(_Batch((row,), problem=problem)))
            return
        place = place_in(row)
        if incoming is None and place is not None and _moves_to(update) is not None:
            self._put(place, _Batch((row,), update=update))  # what comes after that waits for it
        elif incoming is None:
            self._start(self._serve(_Batch((row,), update=update)))
        elif control and not self._gate.keeps_its_place(incoming):  # it is past all that waits
            self._start(self._serve(_Batch((row,), (incoming,))))
        else:
            self._put(incoming.address, _Batch((row,), (incoming,)))

    def _put(self, address: Address, batch: _Batch) -> None:
        """In its place: a command finds the turns of what came before it, and none of what comes after."""
        conversation = self._conversations.get(address)
        if conversation is None:
            conversation = self._conversations[address] = _Conversation()
            self._start(self._converse(address, conversation))
        conversation.waiting.append(batch)
        conversation.more.set()

    def _start(self, work: Awaitable[object]) -> None:
        task = asyncio.create_task(_run(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _converse(self, address: Address, conversation: _Conversation) -> None:
        """Hand the messages of one conversation over in their order. Returns when none waits."""
        try:
            while conversation.waiting:
                await self._serve(await self._together(conversation.waiting.popleft(), conversation))
                await asyncio.sleep(0)  # in which the agent takes it
        finally:
            del self._conversations[address]

    async def _together(self, batch: _Batch, conversation: _Conversation) -> _Batch:
        """An update and those that belong to it."""
        intake, waiting = self._intake, conversation.waiting
        if batch.update is not None:
            return batch
        if begun := batch.rows[0].batch:  # in an earlier process: what was one message stays one
            for one in [one for one in waiting if one.rows[0].batch == begun]:
                waiting.remove(one)
                batch = batch.joined(one)
            return batch
        while True:
            if not waiting:
                conversation.more.clear()
                patience = intake.patience(batch.messages[-1], in_a_row=len(batch.messages) > 1)
                if not patience:
                    return batch
                try:
                    async with asyncio.timeout(patience):
                        await conversation.more.wait()
                except TimeoutError:
                    return batch
            later = waiting[0]
            if (
                later.rows[0].batch
                or later.update is not None
                or not intake.joins(batch.messages[-1], later.messages[0])
            ):
                return batch
            batch = batch.joined(waiting.popleft())

    # Working

    async def _serve(self, batch: _Batch) -> None:
        """Work on rows: on suspects one after the other, each until it is answered, so that what the process dies of
        is found."""
        if batch.suspect:
            if max(row.attempts for row in batch.rows) > SUSPECT_AFTER:
                await asyncio.sleep(self._begun + PROBATION_SECONDS - time.monotonic())
            await self._suspects.acquire()
        try:
            await self._work(batch)
        finally:
            if batch.rows[0].turn not in self._open:  # else its answer ends it
                self._over(batch)

    def _over(self, batch: _Batch) -> None:
        self._held.difference_update(batch.numbers)
        if batch.suspect:
            self._suspects.release()

    async def _work(self, batch: _Batch) -> None:
        """Claim rows and work on them, again where the disk refuses.

        Cancelled work is given back; work that breaks sets its rows aside, aloud.
        """
        names = [row.id for row in batch.rows]
        while len(begun := await until_stored(lambda: self._ledger.claim(batch.numbers))) == len(batch.rows):
            try:
                await self._read(batch)
            except asyncio.CancelledError:
                await self._ledger.release(batch.numbers)
                raise
            except StoreError as error:
                logger.error("updates {} wait for the disk: {}", names, error)
                await until_stored(lambda: self._ledger.release(batch.numbers))
                await asyncio.sleep(DISK_PAUSE)
            except Exception as error:  # noqa: BLE001 - one update must not take the others with it
                broke = Later(_BROKE, error=type(error).__name__)
                why = error.args[0] if isinstance(error, ChannelError) else broke
                logger.opt(exception=error).error("updates {} are set aside: {}", names, why)
                await until_stored(partial(self._ledger.bury, batch.numbers, str(why)))
                await until_stored(partial(self._say_broken, batch, why))
                return
            else:
                return
        logger.error("updates {} are being worked on by somebody else", names)
        await until_stored(lambda: self._ledger.release(tuple(row.seq for row in begun)))

    async def _read(self, batch: _Batch) -> None:
        if batch.problem is not None:
            raise batch.problem
        if batch.update is not None:
            await self._other(batch.rows[0], batch.update)
        elif (incoming := whole(batch.messages)) is not None:
            await self._judge(batch, incoming)
        elif not any([await self._amend(edit, batch.numbers) for edit in batch.messages]):
            await self._finish(batch.numbers)

    async def _judge(self, batch: _Batch, incoming: IncomingMessage) -> None:
        """Judge a message; then hand it to the agent, or close its rows with the line its sender gets."""
        place = incoming.address.key
        speak(incoming.sender.language, place)
        row, verdict = batch.rows[0], await self._gate.judge(incoming)
        if verdict.overhear:
            for one in batch.messages:
                self._intake.overhear(one)
        if verdict.welcome:
            await self._finish(batch.numbers, self.outbox.compose_text(incoming.address, row.turn, verdict.reply))
            return
        if verdict.role is None or (verdict.role == "guest" and incoming.command):
            silent = verdict.role is None and not verdict.reply
            if silent or not self._refusals.may(incoming.address.chat):
                if verdict.role and self._gate.stops(incoming):  # it counts, though nothing more is said
                    with contextlib.suppress(UsageError):
                        await self._agent.loop.cancel(place, by=replace(incoming.sender, role=verdict.role))
                await self._finish(batch.numbers)
                return
        if verdict.role is None:
            self._start(self._refuse(incoming.address, verdict.reply, batch.numbers))
            return
        await self._say_away(incoming, row)
        message = replace(await self._intake.complete(incoming, verdict.role, verdict.granted), id=row.turn)
        spoken = {f"{_LANGUAGE}{place}": incoming.sender.language} if heard(incoming.sender.language, place) else {}
        # The agent keeps the order of a conversation itself; text that comes during a turn steers it.
        await self._ledger.wait(batch.numbers, spoken)
        self._open[message.id] = _Open(message, batch.numbers, incoming)
        self._start(self._answer(message, batch))

    async def _refuse(self, address: Address, text: str, rows: tuple[int, ...]) -> None:
        """Beside the conversation, which does not wait for it."""
        try:
            await self._ledger.wait(rows)
            await self._refusals.say(address, text)
        except asyncio.CancelledError:
            await self._ledger.release(rows)
            raise
        await self._finish(rows)

    async def _amend(self, edit: IncomingMessage, rows: tuple[int, ...]) -> bool:
        """An edit counts as long as no turn has read the message; its sender passed the gate with the message.

        True where it counts: then its rows belong to the message, so that a crash does not bring the old words back.
        """
        speak(edit.sender.language, edit.address.key)
        for one in self._open.values():
            known = one.incoming
            if known.address != edit.address or edit.message_ids[0] not in known.message_ids:
                continue
            if not self._agent.loop.amend(one.message):
                return False  # too late, so nothing is fetched again
            incoming = known.rewritten(edit)
            message = await self._intake.complete(incoming, one.message.sender.role, one.message.sender.granted)
            message = replace(message, id=one.message.id)
            if not self._agent.loop.amend(message) or message.id not in self._open:
                return False
            self._open[message.id] = replace(
                one, message=message, incoming=incoming, rows=(*dict.fromkeys((*one.rows, *rows)),)
            )
            await self._ledger.release(rows)
            await self._ledger.claim((one.rows[0], *rows))  # as one batch with the message
            await self._ledger.wait(rows)
            return True
        return False

    async def _begin(self, message: InboundMessage) -> tuple[str, tuple[Record, ...]]:
        """Its turn begins: a crash from now on counts against it. What an earlier process left of it."""
        known = self._open.get(message.id)
        try:
            return await self._ledger.start(known.rows if known is not None else (), message.id)
        except StoreError as error:
            logger.error("that {} is begun could not be kept: {}", message.id, error)
            return await self._agent.sessions.begun(message.id)

    async def _answer(self, message: InboundMessage, batch: _Batch) -> None:
        try:
            finished = await self._agent.loop.process(message, self._settle, self._begin, alone=batch.suspect)
        except asyncio.CancelledError:
            left = self._open.pop(message.id, None)
            if left is not None:
                await self._ledger.release(left.rows)
            raise
        else:
            await self._settle(message, finished, None)  # of a command; a turn has settled everything
            if message.direct:
                self._offer_menu(message.address.chat, message.sender.role, batch.messages[0].sender.language)
        finally:
            self._over(batch)

    async def _settle(self, message: InboundMessage, finished: TurnFinished | None, closing: Closing | None) -> None:
        """One turn may have read several messages: all of them are done at once, with one answer."""
        read = (finished.answered if finished else ()) or (message.id,)
        answered = [self._open[one] for one in read if one in self._open]
        if not answered:
            return  # settled together with another message of the same turn
        first = answered[0]
        items = self.outbox.compose(first.message, finished, first.incoming.message_ids[0]) if finished else ()
        await self._finish(tuple(seq for one in answered for seq in one.rows), items, closing)
        for one in answered:
            self._open.pop(one.message.id, None)

    async def _finish(
        self, rows: tuple[int, ...], items: tuple[OutboxItem, ...] = (), closing: Closing | None = None
    ) -> None:
        await until_stored(lambda: self._ledger.finish(rows, items, closing))
        if items:
            self.outbox.wake()

    async def _say_away(self, incoming: IncomingMessage, row: InboxRow) -> None:
        late = datetime.now(UTC) - incoming.date
        if late < AWAY_AFTER or incoming.address in self._told_away:
            return
        self._told_away.add(incoming.address)
        ago = duration(late.total_seconds())
        text = _("I was away. Your message of {time} ago has reached me only now.", time=ago)
        await self.outbox.say(incoming.address, text, f"away-{row.seq}")

    async def _say_broken(self, batch: _Batch, why: str) -> None:
        """Tell who wrote to the bot, strangers as ever; and once a day the owner, whoever wrote."""
        row = batch.rows[0]
        place, person = private_sender(row) or (None, "")
        if batch.messages and batch.messages[0].addressed != "none":
            place, person = batch.messages[0].address, batch.messages[0].sender.id
        owner = await self._gate.access.owner()
        speak(batch.messages[0].sender.language if batch.messages else "", place.key if place is not None else "")
        text = await self._gate.refusal(place, person, told(why)) if place is not None else ""
        if place is not None and text:
            await self.outbox.say(place, text, f"broken-{row.seq}")
        if owner and owner != person:
            theirs = Address(CHANNEL, owner)
            with speaking(spoken_at(theirs.key)):
                text = _(_ASIDE, why=told(why))
            await self.outbox.say(theirs, text, f"aside-{row.at:%Y-%m-%d}")

    # What is not a message of a person

    async def _other(self, row: InboxRow, update: Update) -> None:
        if update.message is not None and (new := _moves_to(update)) is not None:
            await self._migrate(update.message.chat.id, new)
        place = place_in(row)
        said = await self._callback_queries.handle(update, place)
        line = self.outbox.compose_text(place, f"pressed-{row.seq}", said) if place and said else ()
        await self._finish((row.seq,), line)

    async def _migrate(self, old: int, new: int) -> None:
        """A group became a supergroup: its permission and its conversation go with it."""
        await self._gate.access.move_group(str(old), str(new))
        sessions = self._agent.sessions
        known = await sessions.list(Address(CHANNEL, str(old)).key, limit=1)
        if known:
            current = await sessions.current(Address(CHANNEL, str(old)).key)
            await sessions.resume(Address(CHANNEL, str(new)).key, current.id)


def _moves_to(update: Update) -> int | None:
    """The supergroup that a group becomes."""
    return update.message.migrate_to_chat_id if update.message is not None else None


async def _run(work: Awaitable[object]) -> None:
    try:
        await work
    except StoreError as error:
        logger.error("an update could not be worked on and waits for the next start: {}", error)
