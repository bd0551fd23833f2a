"""One run of a job, what comes of it, and what its chat is told."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from nanobot.agent.control import Settle
from nanobot.bus.events import Address, InboundMessage, MessageBus, Sender, TurnFinished
from nanobot.errors import NanobotError
from nanobot.schedule.due import LATE, Missed
from nanobot.schedule.job import ScheduledJob
from nanobot.schedule.store import JobStore
from nanobot.session.database import until_stored
from nanobot.session.ledger import Closing, InboxRow, Ledger, OutboxItem
from nanobot.session.store import SessionStore
from nanobot.utils.prompt_templates import PromptTemplates
from nanobot.utils.text import shorten, squeeze

#: Failures in a row after which a job is paused.
MOST_FAILURES = 5
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

    def wake(self) -> None:
        """There is something new in the outbox."""


class Prompted(Struct, frozen=True):
    """What stands in the inbox of a due time: the job, when it was due, and what is to be said of the delay."""

    job: int
    due: datetime
    delay: str = ""


#: What does the jobs of a kind that need no turn: the job, its due time, and who made it with the rights of now → what
#: its chat is told, empty for nothing. Raises `NanobotError`.
JobWork = Callable[[ScheduledJob, datetime, Sender], Awaitable[str]]
#: Stops the turn of a conversation, by its key.
Stop = Callable[[str], Awaitable[object]]
#: (message, settle) → the end of its turn.
Process = Callable[[InboundMessage, Settle], Awaitable[TurnFinished]]


async def _leave(_key: str) -> None:
    """Nothing is stopped."""


class ScheduleServices(Struct, frozen=True):
    """What the scheduler works with. `works` do the jobs of other kinds than reminders and prompts."""

    jobs: JobStore
    ledger: Ledger
    bus: MessageBus
    process: Process
    templates: PromptTemplates
    works: Mapping[str, JobWork] = field(default_factory=dict)
    stop: Stop = _leave

    @property
    def sessions(self) -> SessionStore:
        return self.ledger.sessions


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
        self._result = ("", False)

    async def settle(self, message: InboundMessage, finished: TurnFinished | None, closing: Closing | None) -> None:
        """Keep the end of the turn with its answer for the chat."""
        items: tuple[OutboxItem, ...] = ()
        if finished is not None:
            failed, stopped = finished.outcome == "failed", finished.outcome == "cancelled"
            silent = finished.text.strip().strip(".*_`") in ("", SILENT) and not finished.receipts
            if failed and not self.job.failures:
                items = await self._failed(finished.error)
            elif not (failed or stopped or silent):
                items = await self._reports.answer(message, _headed(self.job, _without_silence(finished)))
            said = "stopped" if stopped else "had nothing to say" if silent else "answered"
            self._result = (f"failed: {finished.error}" if failed else said, failed)
        await until_stored(lambda: self._services.ledger.finish((self.row.seq,), items, closing))
        self._reports.wake()

    async def work(self, work: JobWork | None, sender: Sender) -> None:
        """Do a job that needs no turn."""
        items: tuple[OutboxItem, ...] = ()
        try:
            text = await (work or _nobody)(self.job, self.prompted.due, sender)
            items = await self._reports.line(Address.of(self.job.chat), self.row.turn, text) if text else ()
            self._result = ("told of a change" if text else "nothing new", False)
        except NanobotError as error:
            self._result = (f"failed: {error}", True)
            items = () if self.job.failures else await self._failed(str(error))
        await until_stored(lambda: self._services.ledger.finish((self.row.seq,), items))
        self._reports.wake()
        await self.note()

    async def note(self) -> None:
        """Keep how it ended for who asks; what fails again and again is paused, and that is said."""
        text, failed = self._result
        job = await self._services.jobs.ended(self.job.id, shorten(squeeze(text), MAX_RESULT), failed=failed)
        if job is None or job.failures < MOST_FAILURES or job.paused:
            return
        await self._services.jobs.change((job.id,), lambda one: replace(one, paused=True))
        said = (
            f"⏸ “{title_of(job)}” has failed {job.failures} times and is paused. `/schedule resume {job.id}` goes on."
        )
        items = await self._reports.line(Address.of(job.chat), f"{self.row.turn}-paused", said)
        await until_stored(lambda: self._services.ledger.put(items))
        self._reports.wake()

    async def _failed(self, error: str) -> tuple[OutboxItem, ...]:
        text = f"⚠️ “{title_of(self.job)}” of {when_of(self.job, self.prompted.due)} failed: {error}"
        said = f"{text} I say this once; `/schedule` shows how it goes on."
        return await self._reports.line(Address.of(self.job.chat), self.row.turn, said)


async def _nobody(job: ScheduledJob, _due: datetime, _sender: Sender) -> str:
    raise NanobotError(f"nothing here does jobs of the kind {job.kind}")


def _without_silence(finished: TurnFinished) -> TurnFinished:
    """The end of a turn that has done something and has nothing to say of it."""
    return replace(finished, text="Done.") if finished.text.strip() == SILENT else finished


def _headed(job: ScheduledJob, finished: TurnFinished) -> TurnFinished:
    """What a helper answers, under what it was asked."""
    if job.kind != "helper":
        return finished
    return replace(finished, text=f"**Helper h{job.id}**: {title_of(job)}\n\n{finished.text}")


def title_of(job: ScheduledJob) -> str:
    """What a job is called, in one line."""
    return shorten(squeeze(job.title), MAX_TITLE)


def when_of(job: ScheduledJob, due: datetime) -> str:
    """A due time as people say it, in the zone of the job."""
    return f"{job.local(due):%A %d %B, %H:%M}"


def skipped(job: ScheduledJob, past: Missed) -> str:
    """That something was not done, because it was due while nobody was there to do it."""
    number = f"{past.count} times" if past.count > 1 else "once"
    ends = "It is not made up for." if job.kind != "remind" else ""
    return (
        f"⏰ Missed {number}: “{title_of(job)}”, due {when_of(job, past.due)}; nanobot was not running. {ends}".rstrip()
    )


def late(job: ScheduledJob, past: Missed, at: datetime) -> str:
    """What is said of a delay, in brackets; empty where there is none."""
    if past.run is None or (at - past.run <= 2 * LATE and not past.count):
        return ""
    number = f"; missed {past.count}" if past.count else ""
    return f"\n\n_(due {when_of(job, past.run)}{number})_"
