"""One turn as its chat sees it: when something is shown, and in which message."""

import asyncio
import zlib
from typing import Literal

from msgspec.structs import replace

from nanobot.bus.events import Event, Notice, OutboundMessage, ToolStarted, TurnStarted
from nanobot.channels.telegram.receive.callback_queries import STOP
from nanobot.channels.telegram.render.answer import MOST_PARTS
from nanobot.channels.telegram.render.screen_messages import STATUS_PART, ScreenMessage, screen_messages_of
from nanobot.channels.telegram.send.calls import Sending, SendOutcome, send_part
from nanobot.channels.telegram.send.pacing import ChatQueue, Urgency
from nanobot.channels.telegram.show.status import Look, folded, live
from nanobot.channels.view import Hint, TurnView
from nanobot.command.settings import ChatSettings
from nanobot.errors import StoreError
from nanobot.messages import StepRetried, TextDelta

#: Seconds in which nothing but typing is shown; after which a Stop button is shown whatever the turn does; between two
#: signs of typing; and until a draft is shown again.
QUIET, BARE, TYPING, DRAFT = 1.2, 1.6, 4.5, 20.0
#: An answer is shown once it has so many characters or has been written for so many seconds.
ENOUGH, LONG_ENOUGH = 40, 1.0
#: Seconds until what could not be shown is tried again; after the end of a turn ever later, up to the longest pause.
_RETRY, _LONGEST_RETRY = 3.0, 60.0
_FOREVER = 3_600.0
Deed = Literal["notice", "status", "answer"]


class TurnProgress:
    """`apply` takes events, `run` shows it until the turn is over and its status folded."""

    def __init__(self, sending: Sending, chats: ChatSettings, message: OutboundMessage, started: TurnStarted) -> None:
        self._sending = sending
        self._chats = chats
        self._address = message.address
        self._turn = started.message or message.turn
        self._stop = f"{STOP}{message.turn}"
        self._view = TurnView().apply(started)
        self._look = Look()
        self._began = sending.queues.clock.now()
        self._wrote = 0.0
        self._changed = asyncio.Event()
        self._over = asyncio.Event()
        self._notices: list[str] = []
        self._status = sending.slots.slot(self._turn, STATUS_PART)
        self._quiet = False  # after nobody could tell whether the status arrived: a second one would be a repeat
        self._announced = ""
        self._text = ""  # of the answer as it is shown
        self._void = False  # a failed try has said that
        self._fold_seconds = 0.0
        self._folded = False
        self._drafted = 0.0
        self._not_before, self._pause = 0.0, _RETRY
        self._streams = bool(started.message)

    def apply(self, event: Event) -> None:
        """Take one event. What is shown follows when the queue lets it."""
        before, self._view = self._view, self._view.apply(event)
        if isinstance(event, Notice) and event.text not in self._notices:
            self._notices.append(event.text)
        elif isinstance(event, ToolStarted) and before.text.strip():
            self._announced = before.text
        if isinstance(event, StepRetried | TextDelta | ToolStarted):
            self._void = isinstance(event, StepRetried)
        if self._view.running and self._view.text and not before.text:
            self._wrote = self._sending.queues.clock.now()
            self._fold_seconds = self._wrote - self._began
        if not self._view.running:
            self._over.set()
        if self._notices or not self._view.running or self._now >= self._began + QUIET:  # else nothing is due sooner
            self._changed.set()

    async def run(self) -> None:
        chat = self._address.key
        self._look = Look(await self._chats.get(chat, "hints"), await self._chats.get(chat, "streaming"))
        self._queue.dead = False  # who writes to us can be written to
        try:
            async with asyncio.TaskGroup() as group:
                typing = group.create_task(self._type())
                await self._show_turn()
                typing.cancel()
        except ExceptionGroup as errors:
            raise next((one for one in errors.exceptions if isinstance(one, StoreError)), errors) from errors

    @property
    def _queue(self) -> ChatQueue:
        return self._sending.queues.queue(self._address.chat)

    @property
    def _now(self) -> float:
        return self._sending.queues.clock.now()

    async def _type(self) -> None:
        """Show that somebody types until the turn is over, never during a penalty."""
        while not self._over.is_set() and not self._queue.dead:
            async with self._queue.permit("typing") as permit:
                if not self._over.is_set() and not self._queue.penalty and not self._queue.dead:
                    permit.used()
                    await self._sending.calls.typing(self._address)
            await self._sending.queues.clock.wait(self._over, TYPING)

    # What is due

    async def _show_turn(self) -> None:
        while not self._queue.dead:
            self._changed.clear()
            due = self._due()
            if due is None:
                return
            if isinstance(due, float):
                await self._sending.queues.clock.wait(self._changed, due)
                continue
            async with self._queue.permit(self._urgency(due)) as permit:
                newest = self._due()  # much may have happened while the queue was taken
                if isinstance(newest, str) and not self._queue.dead:
                    permit.used()
                    await self._do(newest)

    def _urgency(self, due: Deed) -> Urgency:
        if not self._stands and not self._status.message_id:
            return "first"
        return "partial" if due == "answer" else "status"

    def _due(self) -> Deed | float | None:
        """What to show now; else how many seconds to wait for it unless something happens; None when all is shown."""
        view, now = self._view, self._now
        if self._notices:
            return "notice"
        if now < self._not_before:
            return self._not_before - now
        if not view.running:
            return "status" if self._status_is_stale() else None
        if (quiet := self._began + QUIET - now) > 0:
            return quiet
        pause = self._answer_pause(now)
        first = pause == 0 and not self._text
        if not first and self._status_is_stale():
            bare = 0.0 if self._status.message_id or self._hints else self._began + BARE - now
            if bare <= 0:
                return "status"
            return min(pause, bare) or "answer"
        return "answer" if pause == 0 else pause

    def _answer_pause(self, now: float) -> float:
        """0 where there is text to show; else how long to wait for it."""
        text = self._wanted_text()
        if not self._streams or self._look.streaming == "off" or not text.strip():
            return _FOREVER
        if self._drafts and self._drafted and now - self._drafted >= DRAFT:
            return 0.0
        if text == self._text:
            return self._drafted + DRAFT - now if self._drafts and self._drafted else _FOREVER
        if self._text or len(text) >= ENOUGH:
            return 0.0
        latest = self._wrote + LONG_ENOUGH
        if not self._status.message_id:
            latest = min(latest, max(self._wrote, self._began + BARE))
        return max(0.0, latest - now)

    def _wanted_text(self) -> str:
        """What the model is saying now. What a failed try has said stays until the next one says something; what was
        said before a tool is no answer."""
        if self._void:
            return self._text
        return "" if self._view.text == self._announced else self._view.text

    @property
    def _drafts(self) -> bool:
        return self._look.streaming == "draft" and not self._queue.group

    @property
    def _stands(self) -> bool:
        """Whether something of an answer stands in the chat."""
        return bool(self._text or self._sending.slots.shown(self._turn))

    @property
    def _hints(self) -> tuple[Hint, ...]:
        return () if self._look.hints == "off" else self._view.hints

    def _status_is_stale(self) -> bool:
        if self._quiet:
            return False
        screen = self._wanted_status()
        return bool(self._status.message_id) if screen is None else not screen.looks_like(self._status.screen)

    def _wanted_status(self) -> ScreenMessage | None:
        """The status message as it should be; None where there is to be none.

        It never appears below an answer, which has the Stop button then; without hints it goes when the answer begins.
        """
        view, shown = self._view, self._status.message_id
        keep = self._look.hints == "keep"
        if not view.running:
            if not self._hints or not shown:
                return None
            again = self._folded and view.outcome == "completed"  # it stands there as it is to stay
            seconds = self._fold_seconds if again else max(view.seconds, self._fold_seconds)
            return folded(view, seconds, keep=keep)
        if self._stands and self._wanted_text() and (view.phase != "retrying" or not shown):
            return folded(view, self._fold_seconds, keep=keep) if self._hints and shown else None
        return live(replace(view, hints=self._hints), self._stop, self._announced)

    # Showing it. The queue is held

    async def _do(self, deed: Deed) -> None:
        match deed:
            case "notice":
                text = "\n".join(self._notices)
                self._notices.clear()
                await self._sending.calls.show(self._address, ScreenMessage(f"· {text}", silent=True))
            case "status":
                await self._show_status()
            case "answer" if self._drafts:
                await self._show_draft()
            case "answer":
                await self._show_answer()

    async def _show_status(self) -> None:
        """Send, edit or take away the status message. An answer that is none any more becomes part of it."""
        status = self._status
        if self._view.running and self._text and not self._wanted_text():
            await self._take_back()
        screen = self._wanted_status()
        if screen is None:
            gone = await self._sending.calls.delete(self._address.chat, status.message_id)
            outcome: SendOutcome = "later" if gone in {"maybe_sent", "not_sent", "flood"} else "shown"
            if outcome == "shown":
                status.clear()
        else:
            outcome = await send_part(self._sending, self._address, (self._turn, STATUS_PART), screen, status)
            self._folded = outcome == "shown" and not screen.stop
        if outcome == "later":
            self._not_before = self._now + self._pause
            self._pause = _RETRY if self._view.running else min(_LONGEST_RETRY, 2 * self._pause)
        self._quiet = outcome == "never"

    async def _take_back(self) -> None:
        """What stood there as an answer was an announcement: its message becomes the status, or goes."""
        self._text = ""
        for _, slot in self._sending.slots.shown(self._turn):
            if not self._status.message_id:
                self._status.message_id = slot.message_id
            else:
                await self._sending.calls.delete(self._address.chat, slot.message_id)
            slot.clear()
            await self._sending.ledger.bind(slot.row, "")

    async def _show_answer(self) -> None:
        """Send or edit the first part that is not shown as it should be: one call."""
        if self._sending.slots.closed(self._turn):
            self._streams = False
            return
        text = self._wanted_text()
        screens = screen_messages_of(text)[:MOST_PARTS]
        screens = (*screens[:-1], *(replace(last, stop=self._stop) for last in screens[-1:]))
        for number, screen in enumerate(screens):
            if screen.looks_like(self._sending.slots.slot(self._turn, number).screen):
                continue
            slot = self._sending.slots.slot(self._turn, number)
            outcome = await send_part(self._sending, self._address, (self._turn, number), screen, slot)
            if outcome == "later":
                self._not_before = self._now + _RETRY
            self._streams = outcome != "never"
            if outcome != "shown" or number + 1 < len(screens):
                return
        self._text = text

    async def _show_draft(self) -> None:
        text = self._wanted_text()
        screens = screen_messages_of(text)
        if screens:
            draft_id = zlib.crc32(self._stop.encode()) or 1
            outcome = await self._sending.calls.draft(self._address, draft_id, screens[-1])
            self._streams = outcome in {True, "flood", "not_sent", "maybe_sent"}
        self._text, self._drafted = text, self._now
