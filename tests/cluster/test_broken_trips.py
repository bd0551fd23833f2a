"""A message on its way through two workers, of which every trip to the database breaks once, in each way that it can.

The trips are those of a recording of a run in which nothing breaks, and what is kept at the end is what it has kept.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import psycopg
import pytest
from procrastinate.jobs import Job

from nanobot.cluster.ledger import PostgresLedger
from nanobot.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, Usage, UserMessage
from nanobot.schedule.job import Every, ScheduledJob
from nanobot.schedule.store import Comes, JobStore
from nanobot.session.database import now
from nanobot.session.rows import Arrival, Closing, InboxRow, OutboxItem
from tests.fakes.postgres import Break, Door, TestServer

HOME, KEY = "telegram:1", "telegram:7"
SAID = UserMessage((Text("hello"),))
DONE = AssistantMessage((Text("done"),), usage=Usage(input=10, output=2, requests=1))
#: The number of a trip in its step, and how it breaks.
Place = tuple[int, Break]
#: What ends at all ends long before; else the first one that does not says so, and nothing else is waited for.
STEP_SECONDS = 40.0
#: What stands in the database at the end, in order; numbers of rows and workers have gaps where work was done again.
KEPT = {
    "inbox": "SELECT id, state, attempts, reason FROM inbox ORDER BY seq",
    "outbox": "SELECT payload, part, state, attempts, message_id, reason FROM outbox ORDER BY seq",
    "record": "SELECT kind, message FROM record ORDER BY session_id, seq",
    "session": "SELECT key, title FROM session ORDER BY rowid",
    "spending": "SELECT input, output, requests FROM spending",
    "note": "SELECT key, value FROM note ORDER BY key",
    "job": "SELECT body, last > '2000-01-01', result, failures, due > now() FROM job ORDER BY id",
    "fired": "SELECT count(*) FROM fired",
    "lease": "SELECT split_part(name, ':', 1), count(*) FROM lease WHERE NOT name ^@ 'commit:' GROUP BY 1 ORDER BY 1",
    "queue": "SELECT status, lock FROM procrastinate_jobs ORDER BY id",
    "workers": "SELECT count(*) FROM procrastinate_workers",
}


def item(row: InboxRow, text: str, part: int = 0) -> OutboxItem:
    return OutboxItem(row.turn, part, HOME, "7", text)


async def sent(worker: PostgresLedger, *expected: str, late: bool = False) -> AsyncIterator[None]:
    """Send what is due, which are these texts."""
    due = await worker.due(HOME)
    assert [row.item.payload for row in due] == [*expected]
    yield
    for row in due:
        assert await worker.begin(row.seq)
        yield
        if late:
            await worker.postpone(row.seq, now(), unsure=True)
            yield
            assert await worker.begin(row.seq)
            yield
        await worker.ack(row.seq, f"m{row.item.payload}")
        yield


async def doing(worker: PostgresLedger) -> Iterable[Job]:
    return await worker.jobs.list_jobs_async(worker_id=worker.number, status="doing")


async def story(one: PostgresLedger, other: PostgresLedger) -> AsyncIterator[None]:
    """Two messages, one of which a second worker takes over, a /stop, a tool, a summary, and something at a set time.

    Stops behind each thing that is done."""
    await one.enroll()
    yield
    hello, remark = await one.accept(HOME, (Arrival("1", "{}", KEY), Arrival("2", "{}", KEY)))
    yield
    await one.jobs.fetch_job([HOME], one.number)
    yield
    assert len([*await doing(one)]) == 1, "also where the answer that gave it was lost"
    yield
    assert await one.jobs.fetch_job([HOME], one.number) is None, "another one of that session waits for it"
    yield
    assert [row.seq for row in await one.look([KEY])] == [hello.seq, remark.seq]
    yield
    assert [row.seq for row in await one.claim((hello.seq,))] == [hello.seq]
    yield
    await one.wait((hello.seq,), {"place": "known"})
    yield
    await one.start((hello.seq,))
    yield
    session = await one.sessions.start(KEY)
    yield
    assert await one.database.hold(session.id) == ""
    yield
    await one.sessions.append(session.id, (SAID,), turn=hello.turn, title="greetings")
    yield
    shown = await one.draft(item(hello, "so far"))
    assert shown is not None
    yield
    await one.bind(shown.seq, "m1")
    yield
    call = ToolCall("c1", "send_mail", "{}")
    await one.sessions.intend(session.id, call, turn=hello.turn)
    yield
    result: tuple[Message, ...] = (ToolMessage(call.id, call.name, (Text("sent"),)),)
    await one.sessions.append(session.id, (AssistantMessage((call,)), *result), turn=hello.turn)
    yield
    await one.sessions.compact(session.id, UserMessage((Text("in short"),)), 2, turn=hello.turn)
    yield
    (stop,) = await one.accept(HOME, (Arrival("3", "{}", KEY),))
    yield
    assert await one.claim((stop.seq,))
    yield
    await one.finish((stop.seq,), (item(stop, "stopped"),))
    yield
    answered = Closing(session.id, (DONE,), hello.turn)
    assert [row.state for row in await one.finish((hello.seq,), (item(hello, "done"),), answered)] == ["new"]
    yield
    async for _ in sent(one, "done", "stopped", late=True):
        yield

    assert await one.claim((remark.seq,))
    yield
    (beside,) = await one.put((item(remark, "beside", 1),))
    yield
    assert await one.begin(beside.seq)
    yield
    await other.enroll()
    yield
    assert await other.beat() == 2
    yield
    assert await other.free(one.database.worker) == ()
    yield
    assert await other.database.hold(session.id) == "", "it went with its worker"
    yield
    assert [row.attempts for row in await other.claim((remark.seq,))] == [1]
    yield
    assert await other.finish((remark.seq,), (item(remark, "and so"),))
    yield
    async for _ in sent(other, "beside", "and so"):
        yield
    await other.database.drop(session.id)
    yield

    jobs, at = JobStore(other), now()
    hourly = Every(3600, at - timedelta(hours=1))
    planned = await jobs.add(ScheduledJob(kind="ask", text="look", when=hourly, zone="UTC", person=KEY, chat=KEY), at)
    yield
    said = OutboxItem("job", 0, HOME, "7", "due")
    comes = Comes("came", (said,), (HOME, Arrival("job", "{}", KEY)))
    assert await jobs.serve(planned, planned.due, planned.due, comes)
    yield
    assert not await jobs.serve(planned, planned.due, planned.due, comes), "once"
    yield
    async for _ in sent(other, "due"):
        yield
    (run,) = [row for row in await other.look([KEY]) if row.id == "job"]
    yield
    assert await other.claim((run.seq,))
    yield
    await other.finish((run.seq,))
    yield
    while True:
        await other.jobs.fetch_job([HOME], other.number)
        yield
        given = await doing(other)
        yield
        if not given:
            break
        await other.end(given)
        yield
    await other.free(other.database.worker)
    yield


@asynccontextmanager
async def stage(server: TestServer) -> AsyncIterator[tuple[str, Door, PostgresLedger, PostgresLedger]]:
    address = await asyncio.to_thread(server.fresh)
    async with Door(address) as door:
        one, other = PostgresLedger(door.address, HOME), PostgresLedger(door.address, HOME)
        try:
            for ledger in (one, other):
                await ledger.note("the tables stand")
            yield address, door, one, other
        finally:  # without waiting for what hangs
            for ledger in (one, other):
                ledger.database.ending = True
                await ledger.aclose()


async def told(
    address: str, door: Door, workers: Sequence[PostgresLedger], places: Iterable[Place | None] = ()
) -> tuple[list[int], object]:
    """How many trips each step of the story took, and what it has left, where each step breaks at its place."""
    steps, left, breaks = list[int](), dict[str, object](), iter(places)
    telling = story(*workers)
    while True:
        place = next(breaks, None)
        door.trips, door.breaks = [], dict(filter(None, [place]))
        try:
            async with asyncio.timeout(STEP_SECONDS):
                if await anext(telling, workers) is workers:
                    break
        except TimeoutError:
            trips = b"\n".join(door.trips).decode(errors="replace")
            pytest.fail(f"step {len(steps)} does not end where its trip {place} breaks, after:\n{trips}")
        steps.append(len(door.trips))
        assert not door.breaks, f"step {len(steps)} has other trips than before"
    async with await psycopg.AsyncConnection.connect(address, autocommit=True) as db:
        await db.execute("SET search_path = nanobot_1")
        for name, query in KEPT.items():
            left[name] = await (await db.execute(query.encode())).fetchall()
    return steps, left


def all_places(step: int, trips: int) -> Iterator[Place]:
    """Where a step can break: before its last trip, behind it, and with an end that is told where it commits. Of those
    on the way there, after which nothing is kept whether they were done or not, each breaks in one way."""
    ways: tuple[Break, ...] = ("unasked", "half", "unanswered")
    for number in range(trips - 1):
        yield number, ways[(step + number) % 3]
    yield trips - 1, "unasked"
    yield trips - 1, "half" if step % 2 else "unanswered"
    if trips > 1:
        yield trips - 1, "ended"


async def test_a_message_is_answered_once_and_in_order_wherever_a_trip_to_the_database_breaks(
    postgres: TestServer,
) -> None:
    async with stage(postgres) as (address, door, *workers):
        steps, whole = await told(address, door, workers)

    async def broken(places: Sequence[Place | None]) -> int:
        async with stage(postgres) as (address, door, *workers):
            _, left = await told(address, door, workers, places)
        assert left == whole, places
        return len(places) - places.count(None)

    runs = itertools.zip_longest(*itertools.starmap(all_places, enumerate(steps)))
    broke = await asyncio.gather(*map(broken, runs))
    print(f"{sum(broke)} places, in {len(broke)} runs")
    assert sum(broke) > len(steps) + sum(steps)
