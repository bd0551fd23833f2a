"""The ledger on PostgreSQL with several workers: who begins, who finishes, what a death frees, what an outage says."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import psycopg
import pytest
from msgspec.structs import replace

from nanobot.channels.telegram.read.incoming import arrivals_of
from nanobot.cluster.ledger import SERVE, VERSION, PostgresLedger
from nanobot.cluster.postgres import CONNECTIONS
from nanobot.cluster.share import Handlers
from nanobot.cluster.worker import ClusterWorker
from nanobot.errors import StoreError, UsageError
from nanobot.messages import AssistantMessage, Text, ToolCall, Usage
from nanobot.session.rows import Arrival, Closing, InboxRow, OutboxItem
from nanobot.session.store import EVER
from tests.fakes.ledger import states
from tests.fakes.patience import growing
from tests.fakes.postgres import Break, Door, TestServer, postgres_server
from tests.fakes.waiting import until

HOME = "telegram:1"
Join = Callable[..., Awaitable[PostgresLedger]]


@pytest.fixture
def address(postgres: TestServer) -> str:
    return postgres.fresh()


@pytest.fixture
async def join(address: str) -> AsyncIterator[Join]:
    """A worker of the same database."""
    made: list[PostgresLedger] = []

    async def ledger(channel: str = HOME) -> PostgresLedger:
        made.append(PostgresLedger(address, channel))
        await made[-1].enroll()
        return made[-1]

    yield ledger
    for one in made:
        await one.aclose()


async def accepted(ledger: PostgresLedger, update: str, key: str = "telegram:7") -> InboxRow:
    (row,) = await ledger.accept(HOME, (Arrival(update, "{}", key),))
    return row


async def found(address: str, what: str) -> None:
    """Wait until a connection is at work of which this is so."""
    query = f"SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND {what}"
    with psycopg.connect(address, autocommit=True) as beside:
        while beside.execute(query.encode()).fetchone() is None:
            await asyncio.sleep(0.01)


async def blocked(address: str) -> None:
    """Wait until somebody waits for a lock."""
    await found(address, "wait_event_type = 'Lock'")


def unheard(address: str, worker: PostgresLedger) -> None:
    """Its last sign of life was an hour ago."""
    change = "UPDATE nanobot_1.procrastinate_workers SET last_heartbeat = now() - interval '1 hour' WHERE id = %s"
    with psycopg.connect(address, autocommit=True) as db:
        db.execute(change, (worker.number,))


def answer(row: InboxRow, text: str, part: int = 0, chat: str = "7") -> OutboxItem:
    return OutboxItem(row.turn, part, HOME, chat, text)


async def test_what_a_living_worker_has_is_left_to_it_and_what_a_dead_one_had_is_free(join: Join) -> None:
    one, other = await join(), await join()
    row = await accepted(one, "1")
    assert await one.claim((row.seq,))
    assert await other.claim((row.seq,)) == ()
    await other.release((row.seq,))
    await other.bury((row.seq,), "not mine")
    assert await states(one, "inbox", HOME) == {"claimed": 1}
    await other.free(one.database.worker)
    assert [begun.attempts for begun in await other.claim((row.seq,))] == [1]
    third = await join()
    assert [row.attempts for row in (await third.recover(HOME, everybodys=True)).waiting] == [2]
    assert await other.claim((row.seq,)), "who had it lives"


async def test_a_row_of_which_worker_after_worker_dies_is_parked_by_one_alone_and_spoils_no_other(join: Join) -> None:
    lives, beside = await join(), await join()
    bad, good, worse = [await accepted(lives, one, f"telegram:{one}") for one in ("1", "2", "3")]
    together = (bad.seq, worse.seq)
    await lives.claim((good.seq,))
    for deaths in range(5):
        dead = await join()
        assert [row.attempts for row in await dead.claim(together)] == [deaths, deaths]
        parked = await lives.free(dead.database.worker)
    assert [(row.id, row.attempts) for row in parked] == [("1", 5), ("3", 5)]
    assert await beside.free(dead.database.worker) == (), "another one says it"
    assert await beside.claim((good.seq,)) == ()
    assert [row.attempts for row in await lives.claim((good.seq,))] == [0]
    await lives.bury(together, "they came with crashes")
    assert await states(lives, "inbox", HOME) == {"dead": 2, "claimed": 1}


async def test_a_session_is_free_again_when_its_worker_was_taken_for_dead(join: Join) -> None:
    one, other = await join(), await join()
    session = await one.sessions.start("telegram:7")
    assert await one.sessions.database.hold(session.id) == ""
    assert await other.sessions.database.hold(session.id) == f"worker {one.database.worker}"
    await other.free(one.database.worker)
    assert await other.sessions.database.hold(session.id) == ""


async def test_a_session_is_given_again_to_the_worker_that_does_not_know_whether_it_got_it(join: Join) -> None:
    one, other = (await join()).database, (await join()).database
    taking = asyncio.create_task(one.hold("x"))
    await asyncio.sleep(0)
    taking.cancel()
    await asyncio.wait({taking, *one._work})
    assert await one.hold("x") == ""
    assert {await one.hold("x"), await other.hold("x")} == {f"worker {one.worker}"}, "and to nobody else"
    giving = asyncio.create_task(one.drop("x"))
    await asyncio.sleep(0)
    giving.cancel()
    async with asyncio.timeout(120):
        while await one.hold("x"):
            await asyncio.sleep(0)
    await one.drop("x")
    assert await other.hold("x") == ""


async def test_the_jobs_of_a_dead_worker_are_given_to_one_other_whoever_looks_for_the_dead(join: Join) -> None:
    """Several that see it dead at once free it once: a job that is given back twice would have two workers."""
    dead, one, other = [await join() for _ in range(3)]
    row, end = await accepted(dead, "1"), time.monotonic() + 600
    job = await dead.jobs.fetch_job([HOME], dead.number)
    await dead.claim((row.seq,))
    assert await one.jobs.fetch_job([HOME], one.number) is None, "another has the session"
    await asyncio.gather(one.beat(), other.beat())
    for _ in range(5):
        await asyncio.gather(one.sweep(60.0, end), other.sweep(60.0, end))
    assert await one.jobs.fetch_job([HOME], one.number) is None, "it may live"
    assert await other.sweep(0.0, 0.0) == (), "it is too late to tell who is dead: the database was away"
    assert await one.jobs.fetch_job([HOME], one.number) is None
    await asyncio.gather(*(one.free(dead.database.worker) for one in (one, other, one)))
    taken = await one.jobs.fetch_job([HOME], one.number)
    await asyncio.gather(*(one.free(dead.database.worker) for one in (one, other, one)))
    assert [found and found.id for found in (taken, await other.jobs.fetch_job([HOME], other.number))] == [
        job and job.id,
        None,
    ]
    assert [begun.attempts for begun in await one.claim((row.seq,))] == [1], "and it is counted once"


async def test_nobody_is_taken_for_dead_by_a_question_that_waited_for_the_database(join: Join, address: str) -> None:
    lives = await join()
    async with Door(address) as door:
        other = PostgresLedger(door.address, HOME)
        await other.enroll()
        unheard(address, lives)
        door.asked.clear()
        end = time.monotonic() + 1.0
        looking = asyncio.create_task(other.sweep(60.0, end))
        await until(lambda: time.monotonic() > end)
        door.asked.set()
        assert await looking == ()
        await other.aclose()
    assert await lives.beat() == 2


@pytest.mark.parametrize("kind", ["one that waits", "one in a pipeline"])
async def test_who_gives_up_a_statement_waits_for_no_database_that_hangs(join: Join, address: str, kind: str) -> None:
    await join()
    async with Door(address) as door:
        line = await PostgresLedger(door.address, HOME).database.connect()
        async with AsyncExitStack() as end:
            end.enter_context(suppress(psycopg.OperationalError))  # the end of a pipeline on no connection
            if kind == "one in a pipeline":
                line.pipe = await end.enter_async_context(line.pipeline())
            door.asked.clear()
            asking = asyncio.create_task(line.fetch(tuple[int], "SELECT 1"))
            await until(lambda: b"SELECT 1" in b"".join(door.trips))
            asking.cancel()
            await asyncio.wait({asking})
        assert asking.cancelled()
        assert (line.closed, door.connections) == (True, 1), "it goes, and nobody else asks for its end"


async def test_what_a_worker_takes_while_it_is_taken_for_dead_is_free_too(join: Join, address: str) -> None:
    slow, other = await join(), await join()
    async with await psycopg.AsyncConnection.connect(address) as db, asyncio.timeout(120):
        await db.execute("SELECT 1 FROM nanobot_1.lease WHERE holder = %s FOR KEY SHARE", (slow.database.worker,))
        freeing = asyncio.create_task(other.free(slow.database.worker))
        await blocked(address)
        await db.execute("INSERT INTO nanobot_1.lease VALUES ('session:x', %s, 'infinity')", (slow.database.worker,))
        await db.commit()
        await freeing
    assert await other.sessions.database.hold("x") == ""


@asynccontextmanager
async def working(address: str, places: int) -> AsyncIterator[tuple[PostgresLedger, asyncio.Queue[str]]]:
    """A worker with so many places, and the updates that it takes."""
    ledger, taken = PostgresLedger(address, HOME), asyncio.Queue[str]()

    async def nothing(_: tuple[InboxRow, ...]) -> None: ...

    worker = ClusterWorker(ledger, places)
    task = asyncio.create_task(worker.run(Handlers(lambda row: taken.put_nowait(row.id), nothing, lambda _: None)))
    async with asyncio.timeout(120):
        await worker.joined.wait()
        yield ledger, taken
    task.cancel()
    await asyncio.wait({task})
    await worker.aclose()
    await ledger.aclose()


async def test_a_job_is_worked_on_also_where_the_answer_that_gave_it_was_lost(join: Join, address: str) -> None:
    poller = await join()
    async with working(address, 0) as (ledger, taken):  # it asks for none
        row = await accepted(poller, "1")
        assert await ledger.jobs.fetch_job([HOME], ledger.number)
        assert await taken.get() == row.id
        await ledger.finish((row.seq,))
        while await poller.jobs.list_jobs_async(task=SERVE):
            await asyncio.sleep(0.05)


async def test_what_comes_in_an_own_session_waits_for_no_job_of_a_slow_engine(join: Join, address: str) -> None:
    """Who reads /stop late stops nothing."""
    poller = await join()
    async with working(address, 8) as (_, taken), await psycopg.AsyncConnection.connect(address) as db:
        await accepted(poller, "1")
        assert await taken.get() == "1"
        await db.execute("SELECT 1 FROM nanobot_1.procrastinate_workers FOR UPDATE")  # who gets a job refers to one
        await accepted(poller, "2", "telegram:8")
        await blocked(address)
        await accepted(poller, "3")
        assert await taken.get() == "3"
        await db.commit()
        assert await taken.get() == "2"


async def test_what_is_said_in_a_supergroup_is_worked_on_by_who_moves_the_group_there(join: Join) -> None:
    ledger = await join()
    old, new = {"id": -55, "type": "group"}, {"id": -10055, "type": "supergroup"}
    moved = {"update_id": 1, "message": {"chat": old, "migrate_to_chat_id": -10055}}
    said = {"update_id": 2, "message": {"chat": new, "text": "which door?"}}
    rows = await ledger.accept(HOME, arrivals_of([moved, said]))
    lock = "telegram:1 telegram:-10055"
    assert await queued(ledger) == [(lock, rows[0].seq), (lock, rows[1].seq)], "one after the other"


async def test_a_worker_that_was_taken_for_dead_writes_nothing_more(join: Join) -> None:
    """Not even where nobody else has begun again what it worked on: another may do so at any time."""
    slow, other = await join(), await join()
    row, session = await accepted(slow, "1"), await slow.sessions.current("telegram:7")
    await slow.claim((row.seq,))
    (shown,) = await slow.put((answer(row, "shown", 7),))
    (sent,) = await slow.put((answer(row, "sent", 8, "8"),))
    assert await slow.begin(sent.seq)
    await other.free(slow.database.worker)
    assert await other.begin(sent.seq)
    await slow.postpone(sent.seq, EVER)
    await slow.fail(sent.seq, "late")
    assert await states(other, "outbox", HOME) == {"new": 1, "sending": 1}
    await other.ack(sent.seq, "5")
    await slow.postpone(sent.seq, EVER)
    await other.postpone(sent.seq, EVER)
    assert [one.state for one in await other.put((sent.item,))] == ["sent"], "what went out never goes out again"
    late, call = Closing(session.id, (AssistantMessage((Text("late"),)),), row.turn), ToolCall("c1", "send_mail", "{}")
    for attempt in (
        slow.claim((row.seq,)),
        slow.finish((row.seq,), (answer(row, "late"),), late),
        slow.bury((row.seq,), "broke"),
        slow.put((answer(row, "more", 1),)),
        slow.draft(answer(row, "more", 1)),
        slow.begin(shown.seq),
        slow.hold("helper 0", slow.database.worker, 60),
        slow.sessions.intend(session.id, call, turn=row.turn),
        slow.sessions.append(session.id, late.messages, turn=row.turn),
        slow.sessions.database.hold(session.id),
    ):
        with pytest.raises(StoreError, match="has gone to others"):
            await attempt
    assert slow.database.lost.is_set(), "its process learns of it"
    await other.claim((row.seq,))
    right = Closing(session.id, (AssistantMessage((Text("right"),)),), row.turn)
    await other.finish((row.seq,), (answer(row, "right"),), right)
    assert [item.item.payload for item in await other.pending(HOME)] == ["shown", "right"]
    assert await other.sessions.history(session.id) == right.messages


async def test_a_worker_that_stands_still_in_a_transaction_does_not_keep_others_from_taking_over(join: Join) -> None:
    slow, other = await join(), await join()
    row = await accepted(slow, "1")
    await slow.claim((row.seq,))
    line = await slow.database.connect()  # as every other
    with suppress(psycopg.OperationalError):  # the server ends it
        async with line.pipeline() as line.pipe:
            await line.send("BEGIN")
            await line.fetch(tuple[int], "SELECT 1 FROM inbox, lease WHERE name ^@ 'worker:' FOR UPDATE")
            await other.free(slow.database.worker)
    await line.close()
    assert await states(other, "inbox", HOME) == {"new": 1}


async def test_a_worker_that_stands_still_before_its_trip_is_over_does_not_keep_others_from_taking_over(
    join: Join, address: str
) -> None:
    slow, other = await join(), await join()
    row = await accepted(slow, "1")
    await slow.claim((row.seq,))
    unheard(address, slow)
    line = await slow.database.connect()
    with suppress(psycopg.OperationalError):  # another worker ends it
        async with line.pipeline() as line.pipe:
            await line.send("BEGIN")
            await line.send("SELECT 1 FROM inbox, lease, procrastinate_workers WHERE name ^@ 'worker:' FOR UPDATE")
            await found(address, "wait_event = 'ClientRead' AND query_start < now() - interval '5 seconds'")
            await other.sweep(60.0, time.monotonic() + 600)
    await line.close()
    assert await states(other, "inbox", HOME) == {"new": 1}


async def test_an_answer_is_refused_where_another_worker_has_its_row(join: Join) -> None:
    one, other = await join(), await join()
    row = await accepted(one, "1")
    await one.claim((row.seq,))
    assert await other.finish((row.seq,), (answer(row, "theirs"),)) == ()
    (sent,) = await one.finish((row.seq,), (answer(row, "mine"),))
    assert await other.finish((row.seq,), (answer(row, "theirs"),)) == (sent,)


async def test_each_worker_sends_its_own_messages_and_those_of_the_dead_in_the_order_of_the_chat(join: Join) -> None:
    one, other = await join(), await join()
    first, second, third = [await accepted(one, update) for update in ("1", "2", "3")]
    await one.finish((first.seq,), (answer(first, "1"), answer(first, "1b", 1), unsure := answer(first, "?", 2, "9")))
    (later,) = await other.finish((second.seq,), (answer(second, "2"),))
    await other.finish((third.seq,), (answer(third, "3", chat="8"),))
    for part in (4, 5):
        await one.draft(answer(first, "so far", part, "10"))
    await other.put((answer(first, "final", 4, "10"),))
    texts = ["3", "final"]
    assert [row.item.payload for row in await other.due(HOME)] == texts, "chat 7 has an earlier message elsewhere"
    assert [row.item.payload for row in await other.pending(HOME)] == ["2", *texts]
    assert not await other.begin(later.seq)
    assert await other.begin((await other.due(HOME))[0].seq)
    sent, _, doubtful = await one.due(HOME)
    assert doubtful.item == unsure
    assert await one.begin(sent.seq)
    assert await one.begin(doubtful.seq)
    await one.postpone(doubtful.seq, EVER, unsure=True)
    assert await other.due(HOME, without=["8", "10"]) == ()
    await other.free(one.database.worker)
    due = await other.due(HOME, without=["8", "10"])
    freed = [("1", "unknown", 0), ("1b", "new", 0), ("?", "unknown", 1), ("2", "new", 0)]
    assert [(row.item.payload, row.state, row.attempts) for row in due] == freed
    assert [row.state for row in await other.pending(HOME) if row.item.payload == "3"] == ["sending"]
    assert len(await other.pending(HOME)) == 6
    for row in await other.drafts(first.turn):
        await other.fail(row.seq, "the final text is shorter")
    assert await other.drafts(first.turn) == ()
    assert await other.begin(due[0].seq)


async def test_an_update_is_queued_in_the_transaction_that_keeps_it(join: Join) -> None:
    ledger = await join()
    kept = await ledger.accept(
        HOME, (Arrival("10", "{}", "telegram:7"), Arrival("11", "{}", "telegram:7"), Arrival("12", "{}"))
    )
    assert await ledger.accept(HOME, (Arrival("10", "{}", "telegram:7"),)) == ()
    jobs = await queued(ledger)
    lock = "telegram:1 telegram:7"
    assert jobs == [(lock, kept[0].seq), (lock, kept[1].seq), (None, kept[2].seq)]


async def test_two_bots_on_one_database_know_nothing_of_each_other(join: Join) -> None:
    one, other = await join("telegram:1"), await join("telegram:2")
    mine, theirs = await one.sessions.current("telegram:7"), await other.sessions.current("telegram:7")
    assert mine.id != theirs.id
    await one.accept("telegram:1", (Arrival("1", "{}", "telegram:7"),))
    (row,) = await other.accept("telegram:2", (Arrival("1", "{}", "telegram:7"),))
    word = OutboxItem("alarm-today", 0, "telegram:1", "7", "one")
    await one.put((word,))
    assert [kept.item.payload for kept in await other.put((replace(word, channel="telegram:2", payload="2"),))] == ["2"]
    assert [len(await queued(ledger)) for ledger in (one, other)] == [1, 1]
    await one.free(other.database.worker)
    assert [begun.seq for begun in await other.claim((row.seq,))] == [row.seq]


#: From the tables of today to those of layout 9, whose workers had other names.
LAYOUT_9 = """
SET search_path = nanobot_1;
UPDATE inbox SET worker = 'old' WHERE worker <> '';
UPDATE outbox SET worker = 'old' WHERE worker <> '';
UPDATE lease SET holder = 'old';
UPDATE layout SET version = 9;
"""


async def test_the_tables_of_an_older_nanobot_are_taken_over_with_all_that_is_open(join: Join, address: str) -> None:
    old = await join()
    (done, begun, _new) = await old.accept(HOME, tuple(Arrival(one, "{}", "telegram:7") for one in ("1", "2", "3")))
    await old.claim((begun.seq,))
    assert await old.jobs.fetch_job([HOME], old.number)
    session = await old.sessions.current("telegram:7")
    priced = AssistantMessage((Text("so"),), usage=Usage(input=10, cost=0.25, requests=1))
    await old.finish((done.seq,), (answer(done, "so"),), Closing(session.id, (priced,)))
    with psycopg.connect(address, autocommit=True) as db:
        db.execute(LAYOUT_9)
    ledger = await join()
    assert await states(ledger, "inbox", HOME) == {"done": 1, "new": 2}
    with pytest.raises(StoreError, match="has gone to others"):
        await old.claim((begun.seq,))
    assert await ledger.sessions.spent() == priced.usage, "its totals are counted"
    assert await ledger.sessions.spending("person") == (("", priced.usage),)
    assert await ledger.sessions.spending("model") == (("", priced.usage),)
    assert [seq for _, seq in await queued(ledger)][-2:] == [begun.seq, begun.seq + 1]
    assert [row.item for row in await ledger.due(HOME)] == [answer(done, "so")]
    await ledger.sessions.append(session.id, (priced,))
    assert [one.seq for one in await ledger.sessions.transcript(session.id)] == [1, 2]


async def queued(ledger: PostgresLedger) -> list[tuple[str | None, object]]:
    """Locks and updates of the jobs that wait, in order."""
    jobs = await ledger.jobs.list_jobs_async(queue=ledger.channel, status="todo")
    return [(job.lock, job.task_kwargs["seq"]) for job in jobs]


async def test_who_loses_the_connection_of_an_office_loses_the_office(join: Join, address: str) -> None:
    """As the server does to one that stands still."""
    one, other = (await join()).database, (await join()).database
    begun, ended = [asyncio.Event(), asyncio.Event()], asyncio.Event()

    async def hold(number: int) -> None:
        begun[number].set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        tasks = [group.create_task(one.elect("poller:1", lambda: hold(0)))]
        await begun[0].wait()
        tasks.append(group.create_task(other.elect("poller:1", lambda: hold(1))))
        query = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND database = "
        with psycopg.connect(address, autocommit=True) as db:
            db.execute(f"{query} (SELECT oid FROM pg_database WHERE datname = current_database())".encode())
        await begun[1].wait()
        await ended.wait()
        for task in tasks:
            task.cancel()


async def test_connections_that_were_cut_are_made_again(join: Join, address: str) -> None:
    ledger = await join()
    await accepted(ledger, "1")
    with psycopg.connect(address, autocommit=True) as db:
        cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        assert db.execute(f"{cut} AND datname = current_database()").fetchone() != (0,)
    await accepted(ledger, "2")
    assert await states(ledger, "inbox", HOME) == {"new": 2}


@pytest.mark.parametrize("how", ["unanswered", "ended"])
async def test_work_whose_commit_got_no_answer_is_not_done_twice_though_the_server_is_away_then(
    address: str, how: Break
) -> None:
    said = AssistantMessage((Text("so"),))
    async with Door(address) as door:
        ledger = PostgresLedger(door.address, HOME)
        session = await ledger.sessions.start("telegram:7")
        before = len(door.trips)
        await ledger.sessions.append(session.id, (said,))
        assert b"COMMIT" in door.trips[-1]
        commit = 2 * len(door.trips) - before - 1
        door.breaks, door.refused = {commit: how}, 3
        await ledger.sessions.append(session.id, (said,))
        assert b"COMMIT" in door.trips[commit]
        assert (door.breaks, door.refused) == ({}, 0)
        assert await ledger.sessions.history(session.id) == (said, said)
        await ledger.aclose()


async def test_what_a_crash_of_the_database_lost_is_done_again() -> None:
    """Though the server gives the number of a transaction that it has forgotten to another one, which is kept."""
    said = AssistantMessage((Text("so"),))
    with postgres_server() as server:
        async with Door(address := server.fresh()) as door:
            ledger = PostgresLedger(door.address, HOME)
            session = await ledger.sessions.start("telegram:7")
            before = len(door.trips)
            await ledger.sessions.append(session.id, (said,))
            door.breaks, door.refused = {2 * len(door.trips) - before - 1: "unasked"}, 1_000_000
            losing = asyncio.create_task(ledger.sessions.append(session.id, (said,)))
            await until(lambda: not door.breaks)
            assert server.restart is not None
            server.restart(signal.SIGQUIT)
            with psycopg.connect(address, autocommit=True) as db:
                for number in range(30):
                    db.execute("INSERT INTO nanobot_1.note VALUES (%s, '')", (str(number),))
            door.refused = 0
            await losing
            assert await ledger.sessions.history(session.id) == (said, said)
            await ledger.aclose()


@growing(2.0, 60.0)
async def test_work_is_refused_where_a_database_hangs_and_never_where_it_was_kept(limit: float, address: str) -> None:
    """Who is refused has it done again."""
    said = AssistantMessage((Text("so"),))
    async with Door(address) as door:
        ledger = PostgresLedger(door.address, HOME)
        session = await ledger.sessions.start("telegram:7")
        before = len(door.trips)
        await ledger.sessions.append(session.id, (said,))
        trips, ledger.database.seconds = len(door.trips) - before, limit
        door.breaks = {len(door.trips) + trips - 1: "silent"}
        await ledger.sessions.append(session.id, (said,))
        assert not door.breaks
        assert await ledger.sessions.history(session.id) == (said, said)
        door.breaks = {len(door.trips) + trips - 1: "unheard"}
        with pytest.raises(StoreError, match="does not answer"):
            await ledger.sessions.append(session.id, (said,))
        assert not door.breaks
        assert await ledger.sessions.history(session.id) == (said, said)
        with psycopg.connect(address, autocommit=True) as db:
            db.execute("""
                CREATE FUNCTION hangs() RETURNS trigger LANGUAGE plpgsql
                AS 'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END';
                CREATE CONSTRAINT TRIGGER hangs AFTER INSERT ON nanobot_1.note
                DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hangs();
                SELECT pg_advisory_lock(1)""")
            keys, told = [str(number) for number in range(CONNECTIONS)], list[str]()
            ledger.database.say = told.append
            commits = asyncio.gather(*(ledger.set_notes({key: "kept"}) for key in keys))
            hanging = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'"
            await until(lambda: db.execute(hanging).rowcount == CONNECTIONS)
            assert await ledger.notes("") == {}, "others work, though nobody knows yet what became of those"
            await until(lambda: bool(told))
            assert "does not answer" in told[0]
            assert not commits.done()
        await commits
        assert "answers again" in told[1]
        assert sorted(await ledger.notes("")) == sorted(keys)
        await ledger.aclose()


async def test_a_server_that_cannot_be_used_is_told_in_words_without_its_password(postgres: TestServer) -> None:
    gone = PostgresLedger("postgresql://nano:hunter2@127.0.0.1:1/chats", HOME)
    with pytest.raises(StoreError, match=r"chats at 127\.0\.0\.1:1 cannot be reached.*by itself") as told:
        await gone.note("x")
    assert "hunter2" not in str(told.value)
    missing = PostgresLedger(postgres.of("no_such_database"), HOME)
    with pytest.raises(StoreError, match=r"no_such_database.*does not exist.*createdb"):
        await missing.note("x")
    refused = psycopg.OperationalError('connection failed: FATAL: password authentication failed for user "nano"')
    assert "refuses the user or the password" in str(gone.database.trouble(refused))
    for address in ("postgresql://[", "mysql://localhost/x", "host=localhost"):
        with pytest.raises(UsageError, match="no address of a PostgreSQL database"):
            PostgresLedger(address, HOME)


@pytest.mark.parametrize(
    ("schema", "layout"),
    [("nanobot", 2), ("nanobot_1", 8), ("nanobot_1", VERSION + 1)],
    ids=["that of all bots", "the last before the version", "newer"],
)
async def test_tables_of_another_version_are_left_alone(address: str, schema: str, layout: int) -> None:
    tables = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema ^@ 'nanobot'"
    with psycopg.connect(address, autocommit=True) as db:
        db.execute(f"CREATE SCHEMA {schema}".encode())
        db.execute(f"CREATE TABLE {schema}.layout (version integer NOT NULL)".encode())
        db.execute(f"INSERT INTO {schema}.layout VALUES (1), ({layout})".encode())
        db.execute(f"CREATE TABLE {schema}.inbox (seq bigint)".encode())
        before = db.execute(tables).fetchall()
        with pytest.raises(StoreError, match=r"another version of nanobot.*Nothing was changed"):
            await PostgresLedger(address, HOME).note("x")
        assert db.execute(tables).fetchall() == before
