"""Keeps appointments: sleeps until something is due, and does it once.

A reminder goes into the outbox in the transaction that serves its due time, and asks no model. A prompt goes into the
inbox in that transaction, so that its turn is durable: it goes on in the next process where this one ends.
"""

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta

from loguru import logger
from msgspec import DecodeError, Struct
from msgspec.json import decode, encode
from msgspec.structs import replace

from nanobot.agent.work.background import KEY as BACKGROUND_KEY
from nanobot.agent.work.briefing import wanted_of
from nanobot.agent.work.runs import (
    MAX_RESULT,
    SILENT,
    JobRun,
    Prompted,
    Reports,
    ScheduleServices,
    late,
    skipped,
    title_of,
    told_in,
    when_of,
)
from nanobot.bus.events import Address, Errand, InboundMessage, MessageSent, OutboundMessage, Sender
from nanobot.errors import NanobotError, StoreError
from nanobot.messages import least
from nanobot.schedule.due import Missed, missed
from nanobot.schedule.heartbeat import Heartbeat
from nanobot.schedule.job import NEVER, ScheduledJob, told
from nanobot.schedule.store import Comes
from nanobot.session.database import DISK_PAUSE, Clock, now, until_stored
from nanobot.session.lock import FileLock
from nanobot.session.rows import Arrival, InboxRow, OutboxItem, crash_reason
from nanobot.utils.text import shorten, squeeze
from nanobot.utils.translation import N_, _, speak

#: The channel of conversations that the schedule begins; on it their events are published.
CHANNEL = "schedule"
#: Seconds after which the clock on the wall is compared with what is due, and it is looked for changes by others; after
#: which what waits for another run is tried again; and after which the rows are read again at the latest.
BEAT_SECONDS, LOOK_SECONDS, READ_SECONDS = 2.0, 30.0, 60.0
#: Seconds by which a clock that was put back is noticed.
_PUT_BACK = 60.0
#: Turns of the schedule at once.
MOST_AT_ONCE = 4
_DAY = timedelta(days=1)


class JobSurface(Struct):
    """A channel whose chats' jobs are done here: always, or while this process has the `lock`."""

    channel: str
    reports: Reports
    lock: FileLock | None = None
    held: bool = False

    @property
    def inbox(self) -> str:
        return f"{CHANNEL}:{self.channel}"


class Scheduler:
    """Does the jobs of these surfaces. `file` is one whose lines are jobs, `clock` tells the time in UTC.

    `read_seconds` is how long a change by a process of another home may stay unseen.
    """

    def __init__(
        self,
        services: ScheduleServices,
        surfaces: Iterable[JobSurface],
        *,
        file: Heartbeat | None = None,
        read_seconds: float = READ_SECONDS,
        clock: Clock = now,
    ) -> None:
        self._file = file
        self._services = services
        self._surfaces = tuple(surfaces)
        self._read_seconds = read_seconds
        self._clock = clock
        self._changed = asyncio.Event()
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)
        self._runs: dict[int, asyncio.Task[None]] = {}  # by row of the inbox
        self._running: dict[int, int] = {}  # by row, the job
        self._ahead: float | None = None
        self._tidied = NEVER

    async def run(self) -> None:
        """Serve until cancelled; what runs then is given back to the next process."""
        listening = asyncio.create_task(self._listen())
        try:
            self._services.jobs.told = self._changed.set
            while True:
                self._changed.clear()
                seen = self._services.jobs.seen()
                try:
                    until = await self.serve_due()
                except StoreError as error:
                    logger.error("the schedule cannot be read and is tried again: {}", error)
                    until = self._clock() + timedelta(seconds=READ_SECONDS)
                await self._sleep(until, seen)
        finally:
            listening.cancel()
            await self.aclose()

    async def aclose(self) -> None:
        """End what runs, which the next process takes up, and let other processes have the surfaces."""
        runs = [*self._runs.values()]
        for task in runs:
            task.cancel()
        if runs:
            await asyncio.wait(runs, timeout=10.0)
        for surface in self._surfaces:
            if surface.held and surface.lock is not None:
                await asyncio.to_thread(surface.lock.release)
            surface.held = False

    async def serve_due(self) -> datetime:
        """Do what is due now; when to look again."""
        await self._notice_put_back()
        if self._file is not None:
            await self._file.read()
        at = self._clock()
        next_times = [await self._serve_surface(surface, at) for surface in self._surfaces]
        if self._tidied == NEVER or at - self._tidied > _DAY:
            self._tidied = at
            await self._services.jobs.forget(at)
        return min(next_times, default=NEVER)

    async def idle(self) -> None:
        """Return when nothing runs."""
        while self._runs:
            await asyncio.wait({*self._runs.values()})

    # Sleeping

    async def _sleep(self, until: datetime, seen: bytes) -> None:
        """Wait for a time on the wall or a change, also by other processes: of the same home it is `seen`. The wall's
        clock may jump, so it is looked at again and again."""
        end = time.monotonic() + self._read_seconds
        while not self._changed.is_set() and time.monotonic() < end:
            left = (until - self._clock()).total_seconds()
            if left <= 0 or self._was_put_back() or self._services.jobs.seen() != seen:
                return
            if self._file is not None and self._file.changed():
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, BEAT_SECONDS)):
                    await self._changed.wait()

    def _was_put_back(self) -> bool:
        ahead = self._clock().timestamp() - time.monotonic()
        return self._ahead is not None and self._ahead - ahead > _PUT_BACK

    async def _notice_put_back(self) -> None:
        """Plan anew what waits for a time that is far again, because the clock was put back, here or before this start;
        what was served stays served."""
        if (self._ahead is None or self._was_put_back()) and await self._services.jobs.replan(self._clock()):
            logger.warning("the clock was put back: the schedule is planned anew")
        self._ahead = self._clock().timestamp() - time.monotonic()

    # What is due

    async def _serve_surface(self, surface: JobSurface, at: datetime) -> datetime:
        """Do what is due on a surface; when something is due there next."""
        jobs = self._services.jobs
        if not await self._hold(surface):
            return at + timedelta(seconds=READ_SECONDS)
        busy = set(self._running.values())
        for job in await jobs.due(surface.channel, at):
            if job.id not in busy:  # else it is late when its last run has ended
                await self._contained_serve(surface, job, at)
        self._begin(surface, await self._services.ledger.open_rows(surface.inbox))
        await self._end_unwanted()
        return await self._next(surface, at)

    async def _end_unwanted(self) -> None:
        """Stop what runs of jobs that were taken away or paused meanwhile."""
        for number in set(self._running.values()):
            job = await self._services.jobs.get(number)
            if job is None or job.paused:
                await self._services.stop(f"{CHANNEL}:{number}")

    async def _next(self, surface: JobSurface, at: datetime) -> datetime:
        """When the next job is due. What is due and not done waits: for its last run, or for who has the surface."""
        due = await self._services.jobs.next_time(surface.channel)
        return due if due > at else at + timedelta(seconds=LOOK_SECONDS)

    async def _contained_serve(self, surface: JobSurface, job: ScheduledJob, at: datetime) -> None:
        """Serve what is due of a job; one that cannot be is paused, and the others go on."""
        try:
            await self._serve(surface, job, at)
        except StoreError:
            raise
        except NanobotError as error:  # such as a zone that this machine does not know
            logger.error("job {} is paused: {}", job.id, error)
            said = shorten(_("paused: {error}", error=error), MAX_RESULT)
            await self._services.jobs.change((job.id,), lambda one: replace(one, paused=True, result=said))

    async def _serve(self, surface: JobSurface, job: ScheduledJob, at: datetime) -> None:
        """Serve what is due of a job."""
        speak("", job.chat)
        jobs, reports = self._services.jobs, surface.reports
        sender = await reports.sender(job.person)
        if sender is None or sender.role == "guest":
            logger.warning("job {} is taken away: {} may not have it any more", job.id, job.person)
            await jobs.change((job.id,), lambda _job: None)
            return
        past, address = await self._missed(job, at), Address.of(job.chat)
        key = f"job-{job.id}-{past.due:%Y%m%dT%H%M%S%f}"  # somebody may run it twice in one second
        if past.run is None and job.kind != "watch":  # whatever was missed, one look shows what has changed
            text = skipped(job, past)
            items = await reports.line(address, key, text)
            comes = Comes(
                _("missed {number}", number=past.count),
                items,
                also=await told_in(reports, job, text, at, foreign=False),
            )
            await jobs.serve(job, past.due, at, comes)
        elif job.kind == "remind":
            items = await reports.line(address, key, f"⏰ {job.text}{late(job, past, at)}")
            comes = Comes(N_("said"), items, also=await told_in(reports, job, job.text, at, foreign=False))
            await jobs.serve(job, past.due, at, comes)
        else:
            prompted = Prompted(job.id, past.due, late(job, past, at).strip())
            arrival = Arrival(key, encode(prompted).decode(), f"{CHANNEL}:{job.id}")
            await jobs.serve(job, past.due, at, Comes(N_("runs"), prompt=(surface.inbox, arrival)))
        reports.wake()

    async def _missed(self, job: ScheduledJob, at: datetime) -> Missed:
        """What of a job has to be done; what was served before the clock was put back was not missed."""
        past = missed(job, at)
        if not past.count:
            return past
        return replace(past, count=max(0, past.count - await self._services.jobs.served(job.id, job.due, past.due)))

    # Turns

    async def _hold(self, surface: JobSurface) -> bool:
        """Have a surface; what an earlier process left of it is taken up then."""
        if surface.held:
            return True
        holder = await asyncio.to_thread(surface.lock.take) if surface.lock is not None else ""
        if holder:
            return False
        surface.held = True
        found = await self._services.ledger.recover(surface.inbox, everybodys=True)
        for row in found.parked:
            await self._set_aside(surface, row)
        self._begin(surface, found.waiting)
        return True

    def _begin(self, surface: JobSurface, rows: Iterable[InboxRow]) -> None:
        for row in rows:
            if row.seq in self._runs:
                continue
            try:
                prompted = decode(row.payload, type=Prompted)
            except DecodeError as error:
                logger.error("row {} of the schedule cannot be read: {}", row.seq, error)
                continue
            self._running[row.seq] = prompted.job
            self._runs[row.seq] = asyncio.create_task(self._contained(surface, row, prompted))

    async def _contained(self, surface: JobSurface, row: InboxRow, prompted: Prompted) -> None:
        try:
            async with self._slots:
                await self._run_row(surface, row, prompted)
        except StoreError as error:
            logger.error("job {} waits for the disk: {}", prompted.job, error)
            await asyncio.sleep(DISK_PAUSE)
        except Exception as error:  # noqa: BLE001 - what broke is not begun again and again, and ends no other
            logger.exception("a run of job {} broke", prompted.job)
            await until_stored(lambda: self._services.ledger.finish((row.seq,)))
            said = shorten(squeeze(_("failed: {error}", error=error)), MAX_RESULT)
            await self._services.jobs.change((prompted.job,), lambda one: replace(one, paused=True, result=said))
        finally:
            self._runs.pop(row.seq, None)
            self._running.pop(row.seq, None)
            self._changed.set()

    async def _run_row(self, surface: JobSurface, row: InboxRow, prompted: Prompted) -> None:
        """Do what a due time asks for, by the rights of who made the job as they are now."""
        services = self._services
        if not await services.ledger.claim((row.seq,)):
            return
        job = await services.jobs.get(prompted.job)
        sender = await surface.reports.sender(job.person) if job is not None else None
        if job is None or sender is None or sender.role == "guest":
            await services.ledger.finish((row.seq,))
            return
        speak("", job.chat)
        run = JobRun(services, surface.reports, row, job, prompted)
        try:
            if job.kind == "ask":
                await self._ask(run, sender, job.text)
            elif job.kind == "briefing":
                await self._brief(run, sender)
            elif job.kind == "helper":
                await self._help(run, sender)
            else:
                await run.look(sender)
        except asyncio.CancelledError:
            await asyncio.shield(services.ledger.release((row.seq,)))
            raise

    async def _brief(self, run: JobRun, sender: Sender) -> None:
        """A turn only where something is new; one that an earlier process began goes on."""
        _session, begun = await self._services.ledger.sessions.begun(run.row.turn)
        if begun or await run.has_news(sender):
            sources, wishes = wanted_of(run.job.text)
            named = "\n".join(map(str, sources))
            task = self._services.templates.render("agent/briefing.md", sources=named, wishes=wishes)
            await self._ask(run, sender, task)

    async def _ask(self, run: JobRun, sender: Sender, task: str) -> None:
        """A turn in a session of its own, which begins anew at each run."""
        job, services = run.job, self._services
        conversation = f"{CHANNEL}:{job.id}"
        _session, begun = await services.ledger.sessions.begun(run.row.turn)
        if not begun:
            await services.ledger.sessions.start(conversation, title_of(job))
        due = f"{job.local(run.prompted.due):%Y-%m-%d %H:%M}"
        content = services.templates.render(
            "agent/scheduled.md", rule=told(job), due=due, delay=run.prompted.delay, silent=SILENT, task=task
        )
        await self._process(run, sender, content, conversation)

    async def _help(self, run: JobRun, sender: Sender) -> None:
        """The turn of a helper in the background."""
        job, services, errand = run.job, self._services, run.job.errand
        conversation = BACKGROUND_KEY.format(job.id)
        granted = tuple(one for one in sender.granted if one in errand.granted or errand.role == "owner")
        session = await services.ledger.sessions.current(conversation)
        if not session.title:
            await services.ledger.sessions.rename(session.id, title_of(job))
        sender = replace(sender, role=least(sender.role, errand.role), granted=granted)
        await self._process(run, sender, errand.task, conversation, errand)

    async def _process(
        self, run: JobRun, sender: Sender, content: str, conversation: str, errand: Errand | None = None
    ) -> None:
        """The turn of a run, or of a helper where there is an `errand`."""
        message = InboundMessage(
            Address.of(run.job.chat),
            sender,
            content,
            id=run.row.turn,
            direct=run.job.direct,
            revisable=errand is not None,
            cause="schedule" if errand is None else "helper",
            conversation=conversation,
            errand=errand,
        )
        await self._services.process(message, run.settle)

    async def _set_aside(self, surface: JobSurface, row: InboxRow) -> None:
        """Give up a run that came with crashes, and say so."""
        prompted = decode(row.payload, type=Prompted)
        job = await self._services.jobs.get(prompted.job)
        speak("", job.chat if job is not None else "")
        why, items = crash_reason(row.attempts), tuple[OutboxItem, ...]()
        if job is not None:
            due = when_of(job, prompted.due)
            text = _("⚠️ “{title}” of {time} was given up: {why}.", title=title_of(job), time=due, why=why)
            items = await surface.reports.line(Address.of(job.chat), row.turn, text)
            await self._services.jobs.ended(job.id, _("given up: {why}", why=why), failed=True)
        await self._services.ledger.bury((row.seq,), why, items)
        surface.reports.wake()

    async def _listen(self) -> None:
        """What a turn sends to its chat beside its answer goes into the outbox where no channel brings it there."""
        async for event in self._services.bus.subscribe(CHANNEL):
            if isinstance(event.event, MessageSent):
                await self._pass_on(event, event.event)

    async def _pass_on(self, event: OutboundMessage, sent: MessageSent) -> None:
        job = await self._services.jobs.get(int(event.address.chat))
        surface = next((one for one in self._surfaces if job and job.chat.startswith(f"{one.channel}:")), None)
        if job is not None and surface is not None:
            text = "\n\n".join((sent.text, *sent.files)).strip()
            items = await surface.reports.line(Address.of(job.chat), f"{event.turn}-{event.seq}", text)
            await until_stored(lambda: self._services.ledger.put(items))
            surface.reports.wake()
