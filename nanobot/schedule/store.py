"""The rows of the schedule: jobs, and which of their due times were served.

A due time is served by who writes its row of `fired` first, in the transaction that puts what comes of it into the
outbox, or the prompt into the inbox. So it is served once, whoever dies and however many processes try.
"""

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path

from loguru import logger
from msgspec import MsgspecError, Struct, convert
from msgspec.json import decode
from msgspec.structs import asdict, replace

from nanobot.errors import UsageError
from nanobot.schedule.due import judge, planned
from nanobot.schedule.job import EVER, NEVER, JobKind, Once, ScheduledJob, written
from nanobot.session.database import Transaction, Value, stamp
from nanobot.session.ledger import Also, Ledger
from nanobot.session.rows import Arrival, OutboxItem
from nanobot.utils.host import settled
from nanobot.utils.translation import _

#: Jobs of one person.
MOST_JOBS = 500
#: Days for which a due time is known to be served, and for which a job that is over is shown; for which it is shown
#: what a watch has told, and known what briefings have.
_KEEP_FIRED, _KEEP_OVER, _KEEP_TOLD, _KEEP_BRIEFED = map(timedelta, (40, 7, 90, 400))
#: The columns of a job but its number: the fields of `ScheduledJob`, of which two are called otherwise.
_CALLED = {"text": "body", "when": "rule"}
_COLUMNS = tuple(_CALLED.get(name, name) for name in ScheduledJob.__struct_fields__ if name != "id")
_SELECT = f"SELECT id, {', '.join(_COLUMNS)} FROM job"  # noqa: S608 - columns of ours
_INSERT = f"INSERT INTO job ({', '.join(_COLUMNS)}) VALUES (:{', :'.join(_COLUMNS)}) RETURNING id"  # noqa: S608 - columns of ours
_UPDATE = f"UPDATE job SET {', '.join(f'{one} = :{one}' for one in _COLUMNS)} WHERE id = :id"  # noqa: S608 - columns of ours
_NEXT = "SELECT coalesce(min(at), :never) FROM job WHERE paused = 0 AND substr(chat, 1, :length) = :prefix"
_FIRE = "INSERT INTO fired (job, due, at) VALUES (:job, :due, :at) ON CONFLICT (job, due) DO NOTHING"
# English: a condition of SQL
_OURS = "paused = 0 AND substr(chat, 1, :length) = :prefix"


class Comes(Struct, frozen=True):
    """What comes of a due time: the `result` for a list, `items` for the outbox, a `prompt` for the inbox of the
    channel that it names, and what is done in that transaction `also`."""

    result: str
    items: tuple[OutboxItem, ...] = ()
    prompt: tuple[str, Arrival] | None = None
    also: Also | None = None


class JobStore:
    """The schedule in the ledger. `signal` is a file by which the processes of one home tell each other that something
    has changed; None where nobody else has the home. Raises `StoreError`."""

    def __init__(self, ledger: Ledger, signal: Path | None = None) -> None:
        self._ledger = ledger
        self._signal = signal
        #: Called when something was changed here.
        self.told: Callable[[], None] = lambda: None

    def seen(self) -> bytes:
        """What is another value after each change by any process of the home. Costs one look at a small file."""
        with suppress(OSError):
            return self._signal.read_bytes() if self._signal is not None else b""
        return b""

    def _tell(self) -> None:
        """Something was changed. Who cannot be told looks again by itself, only later."""
        self.told()
        with suppress(OSError):
            if self._signal is not None:
                self._signal.touch(mode=0o600)
                self._signal.write_bytes(os.urandom(8))

    async def add(self, job: ScheduledJob, now: datetime) -> ScheduledJob:
        """Keep a job; what is kept has its number and its next due time.

        Raises `UsageError` for one that never comes or comes too often, and for more than `MOST_JOBS`.
        """
        judge(job)

        async def work(db: Transaction) -> ScheduledJob:
            counted = await db.fetch(tuple[int], "SELECT count(*) FROM job WHERE person = :person", person=job.person)
            if counted[0][0] >= MOST_JOBS:
                raise UsageError(_("There are {number} jobs already. `/schedule remove` makes room.", number=MOST_JOBS))
            return await _insert(db, job, now)

        made = await self._ledger.database.run(work, durable=True)
        self._tell()
        return made

    async def all(self, persons: Collection[str] = ()) -> tuple[ScheduledJob, ...]:
        """The jobs of these people, or of everybody, the next one first; those that are over at the end."""
        found = await self._ledger.database.read(lambda db: _jobs(db, f"{_SELECT} ORDER BY at, id"))
        return tuple(job for job in found if not persons or job.person in persons)

    async def of_chat(self, chat: str, kind: JobKind) -> tuple[ScheduledJob, ...]:
        """The jobs of one kind that report to a chat, the oldest first."""
        query = f"{_SELECT} WHERE chat = :chat AND kind = :kind ORDER BY id"
        return await self._ledger.database.read(lambda db: _jobs(db, query, chat=chat, kind=kind))

    async def get(self, number: int) -> ScheduledJob | None:
        found = await self._ledger.database.read(lambda db: _jobs(db, f"{_SELECT} WHERE id = :id", id=number))
        return found[0] if found else None

    async def change(
        self, numbers: Sequence[int], change: Callable[[ScheduledJob], ScheduledJob | None]
    ) -> tuple[ScheduledJob, ...]:
        """Change jobs, or take them away where `change` gives None; those that there were, as they are now or were."""

        async def work(db: Transaction) -> tuple[ScheduledJob, ...]:
            changed: tuple[ScheduledJob, ...] = ()
            for number in numbers:
                for job in await _jobs(db, f"{_SELECT} WHERE id = :id", id=number):
                    now = change(job)
                    if now is None:
                        await _delete(db, "id = :id", id=number)
                    else:
                        await db.change(_UPDATE, id=number, **_values(now))
                    changed += (now or job,)
            return changed

        done = await self._ledger.database.run(work, durable=True)
        self._tell()
        return done

    async def end(self, person: str) -> int:
        """Take all jobs of a person away; how many there were."""
        count = await self._ledger.database.run(lambda db: _delete(db, "person = :person", person=person), durable=True)
        self._tell()
        return count

    async def follow(self, file: str, person: str, jobs: Sequence[ScheduledJob], now: datetime) -> None:
        """Let the jobs of a file be these, which are known by their origin: what is new comes, what is not among them
        goes, the others stay as they are."""
        first = f"{file} "

        async def work(db: Transaction) -> bool:
            query = f"{_SELECT} WHERE person = :person AND substr(origin, 1, :length) = :first"
            found = await _jobs(db, query, person=person, length=len(first), first=first)
            known, wanted = {one.origin: one for one in found}, {one.origin: one for one in jobs}
            for origin in known.keys() - wanted.keys():
                await _delete(db, "id = :id", id=known[origin].id)
            for origin in [origin for origin in wanted if origin not in known]:
                await _insert(db, wanted[origin], now)
            return known.keys() != wanted.keys()

        if await self._ledger.database.run(work, durable=True):
            self._tell()

    # Running them

    async def next_time(self, channel: str) -> datetime:
        """When the next job is to be done that reports to chats of a channel; `NEVER` where there is none."""
        values = {"never": stamp(NEVER), **_prefix(channel)}
        found = await self._ledger.database.read(lambda db: db.fetch(tuple[datetime], _NEXT, **values))
        return found[0][0]

    async def due(self, channel: str, now: datetime) -> tuple[ScheduledJob, ...]:
        """The jobs of a channel's chats that are to be done, the oldest first."""
        query = f"{_SELECT} WHERE {_OURS} AND at <= :now ORDER BY at, id"
        values = {"now": stamp(now), **_prefix(channel)}
        return await self._ledger.database.read(lambda db: _jobs(db, query, **values))

    async def served(self, number: int, since: datetime, until: datetime) -> int:
        """How many due times of a job were served from `since` on and before `until`."""
        query = "SELECT count(*) FROM fired WHERE job = :job AND due >= :since AND due < :until"
        values: dict[str, Value] = {"job": number, "since": stamp(since), "until": stamp(until)}
        found = await self._ledger.database.read(lambda db: db.fetch(tuple[int], query, **values))
        return found[0][0]

    async def serve(self, job: ScheduledJob, due: datetime, now: datetime, comes: Comes) -> bool:
        """Serve a due time.

        False where that is done already, or the job has changed: then nothing comes of it. Whatever comes of it, the
        job goes on to its next due time.
        """
        at, when_done = planned(job, max(due, now))
        later = replace(job, due=at, at=when_done, last=now, result=comes.result)

        async def work(db: Transaction) -> bool:
            same = f"{_SELECT} WHERE id = :id AND paused = 0 AND due = :due"
            if not await _jobs(db, same, id=job.id, due=stamp(job.due)):
                return False
            if not await db.change(_FIRE, job=job.id, due=stamp(due), at=stamp(now)):
                moved = "UPDATE job SET due = :due, at = :at WHERE id = :id"
                await db.change(moved, due=stamp(at), at=stamp(when_done), id=job.id)
                return False
            await db.change(_UPDATE, id=job.id, **_values(later))
            await self._ledger.take_in(db, comes.items, comes.prompt)
            if comes.also is not None:
                await comes.also(db)
            return True

        return await self._ledger.database.run(work, durable=True, fenced=True)

    async def ended(self, number: int, result: str, *, failed: bool) -> ScheduledJob | None:
        """Note how a run ended; the job as it is now, None where it is gone."""

        def note(job: ScheduledJob) -> ScheduledJob:
            return replace(job, result=result, failures=job.failures + 1 if failed else 0)

        changed = await self.change((number,), note)
        return changed[0] if changed else None

    async def replan(self, now: datetime) -> bool:
        """Bring forward what repeats and waits for a later time than its next one, because the clock was put back;
        whether there is any. What was served is not served again."""

        def plan(job: ScheduledJob) -> ScheduledJob:
            try:
                due, at = planned(job, now)
            except UsageError:  # such as a zone that this machine does not know: that is told when it is due
                return job
            return replace(job, due=due, at=at) if due < job.due else job

        repeated = (job for job in await self.all() if not isinstance(job.when, Once) and not job.paused)
        late = [job.id for job in repeated if plan(job) != job]
        return bool(late and await self.change(late, plan))

    async def forget(self, now: datetime) -> None:
        """Let go of what was served, told and is over since long. A line of a file stays known as long as it stands
        there."""
        now = settled(self._signal.parent, now) if self._signal is not None else now
        kept = {"fired": _KEEP_FIRED, "watch_told": _KEEP_TOLD, "briefed": _KEEP_BRIEFED}

        async def work(db: Transaction) -> None:
            for table, days in kept.items():
                await db.change(f"DELETE FROM {table} WHERE at < :old", old=stamp(now - days))  # noqa: S608 - tables of ours
            over = "due = :never AND last > :ever AND last < :old AND (origin = '' OR kind = 'helper')"
            await _delete(db, over, never=stamp(NEVER), ever=stamp(EVER), old=stamp(now - _KEEP_OVER))

        await self._ledger.database.run(work)


async def _delete(db: Transaction, which: str, **values: Value) -> int:
    """Take jobs away, and what is kept of watches that are none any more; how many there were."""
    count = await db.change(f"DELETE FROM job WHERE {which}", **values)  # noqa: S608 - words of ours
    for table in ("watch", "watch_told"):
        await db.change(f"DELETE FROM {table} WHERE job NOT IN (SELECT id FROM job)")  # noqa: S608 - tables of ours
    return count


async def _insert(db: Transaction, job: ScheduledJob, now: datetime) -> ScheduledJob:
    ((number,),) = await db.fetch(tuple[int], _INSERT, **_values(job))
    due, at = planned(replace(job, id=number), now)
    made = replace(job, id=number, due=due, at=at)
    await db.change(_UPDATE, id=number, **_values(made))
    return made


async def _jobs(db: Transaction, query: str, **values: Value) -> tuple[ScheduledJob, ...]:
    """The jobs that can be read; one that was damaged keeps no other from its time."""
    rows = await db.fetch(tuple[object, ...], query, **values)
    return tuple(job for row in rows if (job := _job(dict(zip(("id", *_COLUMNS), row, strict=True)))) is not None)


def _job(row: dict[str, object]) -> ScheduledJob | None:
    try:
        flags = {"direct": row["direct"] == 1, "paused": row["paused"] == 1}
        job = convert({**row, **flags, "text": row["body"], "when": decode(str(row["rule"]))}, ScheduledJob)
        _ = job.title
    except MsgspecError as error:
        _tell_unreadable(str(row["id"]), str(error))
        return None
    return job


@lru_cache(maxsize=1_000)
def _tell_unreadable(number: str, why: str) -> None:
    """Log it once, however often the rows are read."""
    logger.error("job {} cannot be read and is left out: {}", number, why)


def _values(job: ScheduledJob) -> dict[str, Value]:
    """A job as its columns."""
    times = {name: stamp(getattr(job, name)) for name in ("due", "at", "last")}
    changed = {**times, "direct": int(job.direct), "paused": int(job.paused), "when": written(job.when)}
    return {_CALLED.get(name, name): value for name, value in {**asdict(job), **changed}.items() if name != "id"}


def _prefix(channel: str) -> dict[str, Value]:
    return {"prefix": f"{channel}:", "length": len(channel) + 1}
