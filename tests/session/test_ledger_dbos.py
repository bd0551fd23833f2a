"""The ledger on PostgreSQL with several workers: who begins, who finishes, what a death frees, what an outage says."""

from collections.abc import AsyncIterator, Awaitable, Callable

import psycopg
import pytest

from nanobot.errors import StoreError
from nanobot.messages import AssistantMessage, Text
from nanobot.session.ledger import Arrival, Closing, InboxRow, OutboxItem
from nanobot.session.ledger_dbos import LedgerDbos
from nanobot.session.postgres import Postgres, Transaction
from nanobot.session.postgres_layout import VERSION
from nanobot.session.postgres_rows import QUEUE
from tests.fakes.postgres import TestServer

HOME = "telegram:1"
Join = Callable[[str], Awaitable[LedgerDbos]]


@pytest.fixture
def address(postgres: TestServer) -> str:
    return postgres.fresh()


@pytest.fixture
async def join(address: str) -> AsyncIterator[Join]:
    """A worker of the same database, which lives until its lease is dropped."""
    made: list[LedgerDbos] = []

    async def ledger(worker: str) -> LedgerDbos:
        made.append(LedgerDbos(Postgres(address), worker=worker))
        assert await made[-1].hold(f"worker:{worker}", worker, 60)
        return made[-1]

    yield ledger
    for one in made:
        await one.aclose()


async def died(ledger: LedgerDbos) -> None:
    await ledger.drop(f"worker:{ledger.worker}", ledger.worker)


async def accepted(ledger: LedgerDbos, update: str, key: str = "telegram:7") -> InboxRow:
    (row,) = await ledger.accept(HOME, (Arrival(update, "{}", key),))
    return row


def answer(row: InboxRow, text: str, part: int = 0, chat: str = "7") -> OutboxItem:
    return OutboxItem(row.turn, part, HOME, chat, text)


async def test_what_a_living_worker_has_is_left_to_it_and_what_a_dead_one_had_is_free(join: Join) -> None:
    one, other = await join("one"), await join("other")
    row = await accepted(one, "1")
    assert await one.claim((row.seq,))
    assert await other.claim((row.seq,)) == ()
    assert (await other.recover(HOME)).waiting == ()
    await other.release((row.seq,))
    await other.bury((row.seq,), "not mine")
    assert (await one.counts(HOME)).inbox == {"claimed": 1}
    await died(one)
    assert [free.seq for free in (await other.recover(HOME)).waiting] == [row.seq]
    assert [begun.attempts for begun in await other.claim((row.seq,))] == [1]


async def test_a_session_is_free_again_when_its_worker_was_taken_for_dead(join: Join) -> None:
    one, other = await join("one"), await join("other")
    session, unasked = await one.sessions.start("telegram:7"), await one.sessions.start("telegram:8")
    for held in (session, unasked):
        assert await one.sessions.hold(held.id) == ""
    assert await other.sessions.hold(session.id) == "worker one"
    await died(one)
    await other.reap(HOME)
    assert await other.sessions.hold(session.id) == ""
    assert await other.holder(f"session:{unasked.id}") == "", "nothing is left of it"


async def test_a_worker_that_was_taken_for_dead_cannot_answer_a_second_time(join: Join) -> None:
    slow, other = await join("slow"), await join("other")
    row = await accepted(slow, "1")
    session = await slow.sessions.current("telegram:7")
    await slow.claim((row.seq,))
    await died(slow)
    await other.reap(HOME)
    await other.claim((row.seq,))
    late = Closing(session.id, (AssistantMessage((Text("late"),)),), row.turn)
    assert await slow.finish((row.seq,), (answer(row, '"late"'), answer(row, '"more"', 1)), late) == ()
    right = Closing(session.id, (AssistantMessage((Text("right"),)),), row.turn)
    (sent,) = await other.finish((row.seq,), (answer(row, '"right"'),), right)
    assert await slow.finish((row.seq,), (answer(row, '"late"'), answer(row, '"more"', 1)), late) == (sent,)
    assert [item.item.payload for item in await other.pending(HOME)] == ['"right"']
    assert await other.sessions.history(session.id) == right.messages


async def test_a_worker_that_may_be_taken_for_dead_ends_and_sends_nothing(join: Join) -> None:
    slow, other = await join("slow"), await join("other")
    row = await accepted(slow, "1")
    await slow.enroll()
    await slow.claim((row.seq,))
    (shown,) = await slow.put((answer(row, "shown", 7),))
    await died(slow)
    late = slow.finish((row.seq,), (answer(row, "late"),))
    for attempt in (late, slow.begin(shown.seq), slow.bury((row.seq,), "broke")):
        with pytest.raises(StoreError, match="another's now"):
            await attempt
    assert await slow.claim((row.seq,)) == ()
    assert not await slow.beat()
    await other.reap(HOME)
    assert (await other.counts(HOME)).inbox == {"new": 1}


async def test_a_worker_that_stands_still_in_a_transaction_does_not_keep_others_from_taking_over(
    join: Join, address: str
) -> None:
    slow, other = await join("slow"), await join("other")
    row = await accepted(slow, "1")
    await slow.enroll()
    await slow.claim((row.seq,))
    line = await slow.listen()  # a connection as every other
    await line.execute("BEGIN")
    await line.execute("SELECT 1 FROM inbox, lease FOR UPDATE OF inbox, lease")
    with psycopg.connect(address, autocommit=True) as db:  # what time does, without the wait
        late = "UPDATE nanobot.lease SET until = now() WHERE holder = 'slow'"
        db.execute(late)
    await other.reap(HOME)
    assert (await other.counts(HOME)).inbox == {"new": 1}
    await line.close()


async def test_what_a_dead_worker_was_sending_keeps_back_later_messages_of_its_chat(join: Join) -> None:
    one, other = await join("one"), await join("other")
    first, second = await accepted(one, "1"), await accepted(one, "2")
    (sent,) = await one.finish((first.seq,), (answer(first, "1"),))
    assert await one.begin(sent.seq)
    await died(one)
    await other.finish((second.seq,), (answer(second, "2"),))
    assert await other.due(HOME) == ()
    await other.reap(HOME)
    assert [(row.item.payload, row.state) for row in await other.due(HOME)] == [("1", "unknown"), ("2", "new")]


async def test_each_worker_sends_its_own_messages_and_those_of_the_dead_in_the_order_of_the_chat(join: Join) -> None:
    one, other = await join("one"), await join("other")
    first, second, third = [await accepted(one, update) for update in ("1", "2", "3")]
    await one.finish((first.seq,), (answer(first, "1"),))
    (later,) = await other.finish((second.seq,), (answer(second, "2"),))
    await other.finish((third.seq,), (answer(third, "3", chat="8"),))
    assert [row.item.payload for row in await other.due(HOME)] == ["3"], "chat 7 has an earlier message elsewhere"
    assert not await other.begin(later.seq)
    (sent,) = await one.due(HOME)
    assert await one.begin(sent.seq)
    assert await other.due(HOME, without=["8"]) == ()
    await died(one)
    await other.reap(HOME)
    due = await other.due(HOME, without=["8"])
    assert [(row.item.payload, row.state) for row in due] == [("1", "unknown"), ("2", "new")]


async def test_an_update_is_queued_in_the_transaction_that_keeps_it(join: Join, address: str) -> None:
    ledger = await join("one")
    await ledger.accept(
        HOME, (Arrival("10", "{}", "telegram:7"), Arrival("11", "{}", "telegram:7"), Arrival("12", "{}"))
    )
    await accepted(ledger, "13", "telegram:8")
    assert await ledger.accept(HOME, (Arrival("10", "{}", "telegram:7"),)) == ()
    query = "SELECT workflow_uuid, queue_partition_key FROM dbos.workflow_status WHERE queue_name = %s ORDER BY 1"
    with psycopg.connect(address) as db:
        assert db.execute(query, (QUEUE,)).fetchall() == [
            ("telegram:1:10", "telegram:1 telegram:7"),
            ("telegram:1:11", "telegram:1 telegram:7"),
            ("telegram:1:12", "telegram:1 update 12"),
            ("telegram:1:13", "telegram:1 telegram:8"),
        ]


async def test_new_updates_of_a_session_are_told_to_those_who_listen(join: Join) -> None:
    ledger = await join("one")
    listening = await ledger.listen()
    await accepted(ledger, "1")
    news = [notice.payload async for notice in listening.notifies(timeout=120, stop_after=1)]
    assert news == ["telegram:1 telegram:7"]
    await listening.close()


async def test_connections_that_were_cut_are_made_again(join: Join, address: str) -> None:
    ledger = await join("one")
    await accepted(ledger, "1")
    with psycopg.connect(address, autocommit=True) as db:
        cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        assert db.execute(f"{cut} AND datname = current_database()").fetchone() == (1,)
    await accepted(ledger, "2")
    assert (await ledger.counts(HOME)).inbox == {"new": 2}


async def test_work_whose_connection_breaks_is_done_again_and_only_once(join: Join, address: str) -> None:
    ledger, tries = await join("one"), list[int]()

    async def work(db: Transaction) -> str:
        tries.append(db.info.backend_pid)
        await db.execute("INSERT INTO note VALUES ('key', 'value')")
        if len(tries) == 1:
            with psycopg.connect(address, autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(%s)", (tries[0],))
        await db.execute("SELECT 1")
        return "done"

    assert await ledger.database.run(work) == "done"
    assert len(set(tries)) == 2
    assert await ledger.notes("") == {"key": "value"}


async def test_the_server_tells_whether_a_commit_without_an_answer_took_place(join: Join, address: str) -> None:
    ledger = await join("one")
    with psycopg.connect(address) as db:
        query = "SELECT pg_current_xact_id()::text"
        kept = db.execute(query).fetchone()
        db.commit()
        lost = db.execute(query).fetchone()
        db.rollback()
    assert kept is not None
    assert lost is not None
    assert await ledger.database.committed(kept[0])
    assert not await ledger.database.committed(lost[0])


async def test_a_server_that_cannot_be_used_is_told_in_words_without_its_password(postgres: TestServer) -> None:
    gone = LedgerDbos(Postgres("postgresql://nano:hunter2@127.0.0.1:1/chats"))
    with pytest.raises(StoreError, match=r"chats at 127\.0\.0\.1:1 cannot be reached.*by itself") as told:
        await gone.note("x")
    assert "hunter2" not in str(told.value)
    missing = LedgerDbos(Postgres(postgres.of("no_such_database")))
    with pytest.raises(StoreError, match=r"no_such_database.*does not exist.*createdb"):
        await missing.note("x")
    refused = psycopg.OperationalError('connection failed: FATAL: password authentication failed for user "nano"')
    assert "refuses the user or the password" in str(gone.database.trouble(refused))
    for address in ("postgresql://[", "mysql://localhost/x", "host=localhost"):
        with pytest.raises(StoreError, match="no address of a PostgreSQL database"):
            Postgres(address)
    assert Postgres("postgres://nano@localhost/x").address == "postgresql://nano@localhost/x"


async def test_a_layout_of_a_newer_nanobot_is_refused(join: Join, address: str) -> None:
    await join("one")
    with psycopg.connect(address, autocommit=True) as db:
        db.execute("INSERT INTO nanobot.layout VALUES (%s)", (VERSION + 1,))
    with pytest.raises(StoreError, match=r"newer nanobot.*Nothing was changed"):
        await LedgerDbos(Postgres(address)).note("x")
