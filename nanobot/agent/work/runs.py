"""One run of a job, what comes of it, and what its chat is told."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from nanobot.agent.chats.chat import Settle
from nanobot.agent.history import foreign_in
from nanobot.bus.events import Address, InboundMessage, MessageBus, Sender, TurnFinished
from nanobot.errors import NanobotError, StoreError
from nanobot.schedule.due import LATE, Missed
from nanobot.schedule.job import JobKind, ScheduledJob
from nanobot.schedule.store import JobStore
from nanobot.session.database import Transaction, now, until_stored
from nanobot.session.heard import Heard, hear
from nanobot.session.ledger import Also, Ledger
from nanobot.session.rows import Closing, InboxRow, OutboxItem
from nanobot.utils.prompt_templates import PromptTemplates
from nanobot.utils.text import shorten, squeeze
from nanobot.utils.translation import N_, _, _n, day_of, sentences, weekday_of

#: Failures in a row after which a job is paused.
MOST_FAILURES = 5
#: Messages to its chat that were given up one after the other, after which a job is paused: nobody hears of it.
MOST_UNHEARD = 3
#: What a model answers that has nothing to say, so that nobody is disturbed.
SILENT = "NOTHING_TO_SAY"
#: Most characters of a title, and of what is kept of how a run ended.
MAX_TITLE, MAX_RESULT = 60, 160


class Reports(Protocol):
    """A surface that brings what comes of jobs to its chats."""

    async def sender(self, person: str) -> Sender | None:
        """Somebody with the rights that they have now; None for who has none any more."""

    async def line(self, address: Address, key: str, text: str) -> tuple[OutboxItem, ...]:
        """A text of the runtime (Markdown) as rows of the outbox, under their key."""

    async def answer(self, message: InboundMessage, finished: TurnFinished) -> tuple[OutboxItem, ...]:
        """The end of a turn as rows of the outbox."""

    async def place(self, address: Address) -> Address:
        """The chat where what is for this one is said."""

    def wake(self) -> None:
        """There is something new in the outbox."""


class Watching(Protocol):
    """Looks at things for jobs, with the rights that their people have now. Raises `NanobotError`."""

    async def work(self, job: ScheduledJob, due: datetime, sender: Sender) -> str:
        """What the chat of a watch is told; empty for nothing."""

    async def anything(self, job: ScheduledJob, sender: Sender, turn: str) -> bool:
        """Whether a briefing has anything to tell in this turn."""


class Prompted(Struct, frozen=True):
    """What stands in the inbox of a due time: the job, when it was due, and what is to be said of the delay."""

    job: int
    due: datetime
    delay: str = ""


#: Stops the turn of a conversation, by its key.
Stop = Callable[[str], Awaitable[object]]
#: (message, settle) → the end of its turn.
Process = Callable[[InboundMessage, Settle], Awaitable[TurnFinished]]


class ScheduleServices(Struct, frozen=True):
    """What the scheduler works with; `watches` are made for the first job that looks at anything."""

    jobs: JobStore
    ledger: Ledger
    bus: MessageBus
    process: Process
    templates: PromptTemplates
    stop: Stop
    watches: Callable[[], Watching]


class JobRun:
    """One run of a job, and what becomes of it."""

    def __init__(
        self, services: ScheduleServices, reports: Reports, row: InboxRow, job: ScheduledJob, prompted: Prompted
    ) -> None:
        self._services = services
        self._reports = reports
        self.row = row
        self.job = job
        self.prompted = prompted

    async def settle(self, message: InboundMessage, finished: TurnFinished | None, closing: Closing | None) -> None:
        """Keep the end of the turn with its answer for the chat, whose model is told of it too."""
        if finished is None:
            await self._finish("", closing=closing)
        elif finished.outcome == "failed":
            await self._failed(finished.error, closing)
        elif finished.outcome == "cancelled":
            await self._finish(_("stopped"), closing=closing)
        elif is_silent(finished.text) and not finished.receipts:
            await self._finish(_("had nothing to say"), closing=closing)
        else:
            # It may have done something, and have nothing to say of it.
            told = replace(finished, text=_("Done.")) if finished.text.strip() == SILENT else finished
            items = await self._reports.answer(message, _headed(self.job, told))
            await self._finish(_("answered"), items, closing, await self._heard(message, finished, closing))

    async def _heard(self, message: InboundMessage, finished: TurnFinished, closing: Closing | None) -> Also | None:
        """What the model of the chat is to know of an answer; those of helpers it is told at their length elsewhere."""
        if self.job.kind == "helper":
            return None
        said = () if closing is None else await self._services.ledger.sessions.history(closing.session)
        known = closing is not None and not any(foreign_in((*said, *closing.messages), message.sender.role))
        text = f"{title_of(self.job)}: {finished.text}"
        return await told_in(self._reports, self.job, text, now(), foreign=not known)

    async def look(self, sender: Sender) -> None:
        """Do a watch, which needs no turn."""
        try:
            text = await self._services.watches().work(self.job, self.prompted.due, sender)
        except NanobotError as error:
            await self._failed(str(error))
            return
        if not text:
            await self._finish(_("nothing new"))
            return
        items = await self._reports.line(Address.of(self.job.chat), self.row.turn, text)
        await self._finish(_("told of a change"), items, also=await told_in(self._reports, self.job, text, now()))

    async def has_news(self, sender: Sender) -> bool:
        """Whether a briefing has anything to tell; where it has not, the run is over, and no model was asked."""
        try:
            if await self._services.watches().anything(self.job, sender, self.row.turn):
                return True
        except StoreError:
            raise
        except NanobotError as error:
            await self._failed(str(error))
            return False
        await self._finish(_("nothing new"))
        return False

    async def _finish(
        self,
        result: str,
        items: tuple[OutboxItem, ...] = (),
        closing: Closing | None = None,
        also: Also | None = None,
        *,
        failed: bool = False,
    ) -> None:
        """Keep how it ended, for its chat and for who asks; what fails again and again is paused, and that is said."""
        services = self._services
        await until_stored(lambda: services.ledger.finish((self.row.seq,), items, closing, also))
        self._reports.wake()
        job = await services.jobs.ended(self.job.id, shorten(squeeze(result), MAX_RESULT), failed=failed)
        if job is None or job.paused:
            return
        said = N_("⏸ “{title}” has failed {failures} times and is paused. `/schedule resume {number}` goes on.")
        if job.failures < MOST_FAILURES:
            place = await self._reports.place(Address.of(job.chat))
            if not await services.ledger.unheard(place.chat, MOST_UNHEARD):
                return
            said = N_(
                "⏸ “{title}” is paused, for nothing has arrived in this chat. `/schedule resume {number}` goes on."
            )
        await services.jobs.change((job.id,), lambda one: replace(one, paused=True))
        told = _(said, title=title_of(job), failures=job.failures, number=job.id)
        paused = await self._reports.line(Address.of(job.chat), f"{self.row.turn}-paused", told)
        await until_stored(lambda: services.ledger.put(paused))
        self._reports.wake()

    async def _failed(self, error: str, closing: Closing | None = None) -> None:
        """End in a failure; of several in a row the chat is told once."""
        said = _(
            "⚠️ “{title}” of {time} failed: {error} I say this once; `/schedule` shows how it goes on.",
            title=title_of(self.job),
            time=when_of(self.job, self.prompted.due),
            error=error,
        )
        first = not self.job.failures
        items = await self._reports.line(Address.of(self.job.chat), self.row.turn, said) if first else ()
        await self._finish(_("failed: {error}", error=error), items, closing, failed=True)


#: What jobs are called towards a model.
_NAMES: Mapping[JobKind, str] = {"remind": "reminder", "ask": "task", "briefing": "briefing", "watch": "watch"}


async def told_in(reports: Reports, job: ScheduledJob, text: str, at: datetime, *, foreign: bool = True) -> Also:
    """What keeps for the model of a chat that this was said there."""
    chat = await reports.place(Address.of(job.chat))

    async def keep(db: Transaction) -> None:
        await hear(db, chat.key, Heard(at, _NAMES.get(job.kind, job.kind), text, foreign))

    return keep


def is_silent(answer: str) -> bool:
    """Whether this is the answer of a model that has nothing to say."""
    return answer.strip().strip(".*_`") in ("", SILENT)


def _headed(job: ScheduledJob, finished: TurnFinished) -> TurnFinished:
    """What a helper answers, under what it was asked."""
    if job.kind != "helper":
        return finished
    return replace(
        finished, text=_("**Helper h{number}**: {title}", number=job.id, title=title_of(job)) + f"\n\n{finished.text}"
    )


def title_of(job: ScheduledJob) -> str:
    """What a job is called, in one line."""
    return shorten(squeeze(job.title), MAX_TITLE)


def when_of(job: ScheduledJob, due: datetime) -> str:
    """A due time as people say it, in the zone of the job."""
    at = job.local(due)
    return _("{weekday} {date}, {time}", weekday=weekday_of(at), date=day_of(at), time=f"{at:%H:%M}")


def skipped(job: ScheduledJob, past: Missed) -> str:
    """That something was not done, because it was due while nobody was there to do it."""
    said = _n(
        "⏰ Missed once: “{title}”, due {time}; nanobot was not running.",
        "⏰ Missed {number} times: “{title}”, due {time}; nanobot was not running.",
        max(1, past.count),
        title=title_of(job),
        time=when_of(job, past.due),
    )
    return said if job.kind == "remind" else sentences(said, _("It is not made up for."))


def late(job: ScheduledJob, past: Missed, at: datetime) -> str:
    """What is said of a delay, in brackets; empty where there is none."""
    if past.run is None or (at - past.run <= 2 * LATE and not past.count):
        return ""
    time = when_of(job, past.run)
    said = (
        _("_(due {time}; missed {number})_", time=time, number=past.count)
        if past.count
        else _("_(due {time})_", time=time)
    )
    return f"\n\n{said}"
