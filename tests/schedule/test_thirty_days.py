"""Thirty days of a schedule with kills, times off and clocks that jump: nothing missed in silence, nothing twice."""

import random
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import takewhile

import pytest

from nanobot.agent.chats.chat import Settle
from nanobot.agent.scheduler import JobSurface, Scheduler
from nanobot.bus.events import InboundMessage, TurnFinished
from nanobot.schedule.due import cron, due_times
from nanobot.schedule.job import Every, JobKind, MissedPolicy, ScheduledJob, When
from nanobot.schedule.store import JobStore
from nanobot.session.ledger import Ledger
from tests.fakes.schedule import Disk, Killed, MortalDatabase, PlainReports, services_of

#: The clocks go back on 25 October.
BEGIN = datetime(2026, 10, 10, 12, tzinfo=UTC)
END = BEGIN + timedelta(days=30)
JOBS: tuple[tuple[JobKind, When, MissedPolicy], ...] = (
    ("remind", cron("0 8 * * *"), "once"),
    ("remind", cron("30 2 * * *"), "once"),
    ("remind", Every(5_400, BEGIN), "once"),
    ("remind", cron("15 7,19 * * 1-5"), "skip"),
    ("ask", cron("0 9 * * *"), "once"),
    ("ask", Every(6 * 3_600, BEGIN), "skip"),
)
_COUNTED = re.compile(r"(?i)missed (once|\d+)")


class World:
    """What outlives the processes of a run: the disk, the clock on the wall, and what models were asked."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.disk = Disk()
        self.at = self.latest = BEGIN
        self.kills = self.turns = 0

    def clock(self) -> datetime:
        return self.at

    def go(self, span: timedelta) -> None:
        self.at += span
        self.latest = max(self.latest, self.at)

    def process(self, odds: int) -> tuple[MortalDatabase, JobStore, Scheduler]:
        """A fresh process."""
        database = MortalDatabase(self.disk, self.chance, odds)
        ledger = Ledger(database, clock=self.clock)
        jobs = JobStore(ledger)

        async def turn(message: InboundMessage, settle: Settle) -> TurnFinished:
            self.turns += 1
            finished = TurnFinished("completed", f"done {message.conversation}")
            await settle(message, finished, None)
            return finished

        services = services_of(jobs, ledger, turn)
        return (
            database,
            jobs,
            Scheduler(services, [JobSurface("telegram", PlainReports("telegram:1"))], clock=self.clock),
        )


@pytest.mark.parametrize("seed", range(6))
async def test_U22_thirty_days_with_kills_and_clock_jumps_miss_nothing_and_do_nothing_twice(seed: int) -> None:
    world = World(seed)
    _, jobs, _ = world.process(0)
    made = [await jobs.add(entry(*one), BEGIN) for one in JOBS]
    database, _, scheduler = world.process(9)
    while world.at < END:
        with suppress(Killed):
            until = await scheduler.serve_due()
            await scheduler.idle()
            world.go(step(world, until))
        if database.dead.is_set() or world.chance.random() < 0.02:
            world.kills += 1
            database.kill()
            world.go(timedelta(hours=world.chance.choice((0, 0, 0, 0, 0, 0, 0, 0.1, 3, 30))))
            database, _, scheduler = world.process(9)
    database, jobs, scheduler = world.process(0)
    world.at = world.latest  # a clock that is right again
    await scheduler.serve_due()
    await scheduler.idle()
    assert world.kills > 50
    for job in made:
        await judge(world, job)


def entry(kind: JobKind, when: When, policy: MissedPolicy) -> ScheduledJob:
    place = {"person": "telegram:1", "chat": "telegram:1", "zone": "Europe/Berlin"}
    return ScheduledJob(kind=kind, text="x", when=when, missed=policy, **place)  # type: ignore[arg-type]


def step(world: World, until: datetime) -> timedelta:
    """To the next due time as a rule; now and then the clock is set ahead or back."""
    jump = world.chance.random()
    if jump < 0.02:
        return timedelta(minutes=world.chance.randrange(1, 180))
    if jump < 0.04:
        return -timedelta(minutes=world.chance.randrange(1, 120))
    return max(timedelta(seconds=1), min(until, world.at + timedelta(hours=1)) - world.at)


async def judge(world: World, job: ScheduledJob) -> None:
    """Every due time was served once, or told as missed."""
    rows = await world.disk.read(lambda db: db.fetch(tuple[str, str], _SAID, key=f"job-{job.id}-%"))
    said = dict(rows)
    assert len(said) == len(rows)
    ran = {key: text for key, text in said.items() if "⏰ Missed" not in text}
    fired = await world.disk.read(lambda db: db.fetch(tuple[datetime], _FIRED, job=job.id))
    assert len(fired) == len(said), "each served due time came to something, once"
    dues = list(takewhile(lambda due: due <= fired[-1][0], due_times(job, BEGIN)))
    assert {due for (due,) in fired} <= set(dues)
    missed = sum(counted(text) for text in said.values())
    assert len(ran) + missed == len(dues), (len(ran), missed, len(dues))
    assert (fired[-1][0] + timedelta(days=1, hours=12)) > world.latest
    if job.kind == "ask":
        answers = await world.disk.read(lambda db: db.fetch(tuple[str, int], _ANSWERS, text=f"done schedule:{job.id}"))
        assert len(answers) == len(ran), "each task was answered once"
        assert {number for _, number in answers} == {1}


def counted(text: str) -> int:
    found = _COUNTED.search(text)
    return 0 if found is None else 1 if found[1] == "once" else int(found[1])


_SAID = """
SELECT turn, payload FROM outbox WHERE turn LIKE :key UNION ALL
SELECT id, payload FROM inbox WHERE id LIKE :key
"""
_FIRED = "SELECT due FROM fired WHERE job = :job ORDER BY due"
_ANSWERS = "SELECT turn, count(*) FROM outbox WHERE payload = :text GROUP BY turn"
