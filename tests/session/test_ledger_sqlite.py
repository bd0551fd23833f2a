"""What the ledger in the file promises beyond the contract: it survives, and it migrates what is there."""

import asyncio
import re
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from contextlib import aclosing, closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nanobot.errors import StoreError
from nanobot.messages import AssistantMessage, Text, ToolCall, Usage, UserMessage
from nanobot.session.codec import encode
from nanobot.session.database import Transaction
from nanobot.session.layout import APPLICATION_ID, STEPS, VERSION
from nanobot.session.ledger import Ledger
from nanobot.session.rows import Arrival, OutboxItem
from nanobot.session.sqlite import SqliteDatabase
from nanobot.session.store import SessionStore
from tests.fakes.ledger import states

NORMAL, FULL = 1, 2
#: A dump of a file of each layout, as the nanobot of its time made it.
LAYOUTS = Path(__file__).parent.parent / "golden" / "layouts"


def tables(db: sqlite3.Connection) -> dict[str, str]:
    """How each table, index and trigger was made, without blanks and quotes."""
    found = db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {name: re.sub(r'[\s"]', "", sql) for name, sql in found}


async def test_rows_and_answers_are_there_after_a_restart(tmp_path: Path) -> None:
    async with aclosing(SqliteDatabase(tmp_path / "n.db")) as database:
        ledger = Ledger(database)
        first, second = await ledger.accept("telegram:1", (Arrival("1", '{"a": "ä"}'), Arrival("2", "{}")))
        await ledger.claim((first.seq, second.seq))
        await ledger.finish((first.seq,), (OutboxItem(first.turn, 0, "telegram:1", "7", '"hi"', "3"),))
    database = SqliteDatabase(tmp_path / "n.db")
    ledger = Ledger(database)
    assert [(row.id, row.attempts) for row in (await ledger.recover("telegram:1")).waiting] == [("2", 1)]
    (row,) = await ledger.due("telegram:1")
    assert (row.item.payload, row.item.thread, row.item.chat) == ('"hi"', "3", "7")
    await database.aclose()


@pytest.mark.parametrize("version", range(1, VERSION + 1))
async def test_a_file_of_every_layout_that_there_was_is_migrated_and_loses_nothing(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "n.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript((LAYOUTS / f"{version}.sql").read_text(encoding="utf-8"))
    async with aclosing(SqliteDatabase(path)) as database:
        ledger = Ledger(database)
        session = await ledger.sessions.current("telegram:7")
        assert (session.title, session.messages) == ("Ärger mit 🦊", 2)
        assert await ledger.sessions.spent(session=session.id) == Usage()
        history = await ledger.sessions.history(session.id)
        assert [getattr(message, "text", "") for message in history] == ["summary"]
        kinds = [record.kind for record in await ledger.sessions.transcript(session.id)]
        assert kinds == ["message", "message", "compaction", *["intent"] * (version > 2)]
        found = await ledger.recover("telegram:1")
        assert [row.id for row in found.waiting] == ([], [], ["11"], *[["11", "12"]] * VERSION)[version]
        sent = await ledger.due("telegram:1")
        assert [row.item.payload for row in sent] == ['"hi"'] * (version > 1)
        assert await ledger.note("telegram:1:owner") == ("42" if version > 1 else None)
        assert await ledger.hold("poller", "us", 60)
    with closing(sqlite3.connect(path)) as db, closing(sqlite3.connect(":memory:")) as kept:
        kept.executescript((LAYOUTS / f"{VERSION}.sql").read_text(encoding="utf-8"))
        assert tables(db) == tables(kept), "a step that has been taken stays as it is"
        assert db.execute("PRAGMA user_version").fetchone()[0] == VERSION
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


async def test_what_was_spent_before_totals_were_kept_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "n.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript((LAYOUTS / "4.sql").read_text(encoding="utf-8"))
        spent = encode(AssistantMessage((Text("dear"),), usage=Usage(input=9, cost=0.5, requests=1)))
        row = ("30febf40fd", "message", "assistant", len(spent), "t2")
        for seq, (at, line) in enumerate((("01", spent), ("20", spent), ("21", "{damaged")), 5):
            values = (row[0], seq, *row[1:], f"2026-11-21T13:{at}:00.000001+00:00", line)
            db.execute("INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
        db.commit()
    database = SqliteDatabase(path)
    store = SessionStore(database)
    assert await store.spent() == Usage(input=18, cost=1.0, requests=2)
    assert [name for name, _ in await store.spending("model")] == [""], "nobody knows which model that was"
    assert [name for name, _ in await store.spending("cause")] == [""]
    assert [name for name, _ in await store.spending("person")] == ["telegram:7"], "one person alone is in that chat"
    assert (await store.spent(datetime(2026, 11, 21, 13, 15, tzinfo=UTC))).requests == 1
    await database.aclose()


async def test_what_was_spent_at_no_known_cost_stays_of_unknown_cost(tmp_path: Path) -> None:
    path = tmp_path / "n.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript((LAYOUTS / "6.sql").read_text(encoding="utf-8"))
        db.execute("UPDATE spending SET input = 90, output = 10, cached = 5")
        db.execute(
            "INSERT INTO session (id, key, title, created_at, updated_at) VALUES ('g', 'telegram:-9', '', '', '')"
        )
        db.execute("INSERT INTO spending VALUES ('g', '2026-11-21T12:45', 7, 0, 0, 0, 0, 0.5, 1)")
        db.commit()
    async with aclosing(SqliteDatabase(path)) as database:
        people = dict(await SessionStore(database).spending("person"))
    assert people["telegram:7"] == Usage(input=90, output=10, cached=5, unpriced=100)
    assert people[""] == Usage(input=7, cost=0.5, requests=1), "in a group nobody knows who"


async def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "n.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(STEPS[0])
        db.execute("CREATE TABLE note (somebody TEXT)")  # in the way of the last statement
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("PRAGMA user_version = 1")
        db.commit()
    async with aclosing(SqliteDatabase(path)) as database:
        with pytest.raises(StoreError, match="note already exists"):
            await Ledger(database).note("x")
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone()[0] == 1
        assert db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'inbox'").fetchone()[0] == 0


async def test_accepted_means_on_the_disk_and_sessions_do_not_pay_for_it(tmp_path: Path) -> None:
    async with aclosing(SqliteDatabase(tmp_path / "n.db")) as database:
        ledger, store = Ledger(database), SessionStore(database)
        await ledger.accept("telegram:1", (Arrival("1", "{}"),))
        assert (database._synced, await database.run(_level, durable=True)) == (True, FULL)
        await store.current("a")
        assert (database._synced, await database.read(_level)) == (False, NORMAL)


async def test_every_change_of_the_ledger_waits_for_the_disk_but_that_of_a_turn_that_waits(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "n.db")
    ledger, at = Ledger(database), datetime(2026, 1, 1, tzinfo=UTC)
    item, call = OutboxItem("t", 0, "telegram:1", "7", "{}"), ToolCall("c1", "send", "{}")
    session = await ledger.sessions.current("a")
    changes: dict[str, Callable[[], Awaitable[object]]] = {
        "accept": lambda: ledger.accept("telegram:1", (Arrival("1", "{}"),)),
        "claim": lambda: ledger.claim((1,)),
        "release": lambda: ledger.release((1,)),
        "bury": lambda: ledger.bury((1,), "broken"),
        "recover": lambda: ledger.recover("telegram:1"),
        "finish": lambda: ledger.finish((1,)),
        "draft": lambda: ledger.draft(item),
        "bind": lambda: ledger.bind(1, "5"),
        "put": lambda: ledger.put((item,)),
        "begin": lambda: ledger.begin(1),
        "postpone": lambda: ledger.postpone(1, at),
        "ack": lambda: ledger.ack(1),
        "fail": lambda: ledger.fail(1, "gone"),
        "hold": lambda: ledger.hold("poller", "us", 60),
        "set_notes": lambda: ledger.set_notes({"a": "b"}),
        "purge": ledger.purge,
        "intend": lambda: ledger.sessions.intend(session.id, call, turn="t"),
    }
    for name, change in changes.items():
        await ledger.wait((1,))
        await ledger.start((1,))
        assert not database._synced
        await change()
        assert database._synced, name
    await ledger.aclose()


async def test_works_that_wait_at_the_same_time_share_one_way_to_the_disk(tmp_path: Path) -> None:
    async with aclosing(SqliteDatabase(tmp_path / "n.db")) as database:
        ledger = Ledger(database)
        said: list[str] = []
        session = await ledger.sessions.current("a")
        assert database._connection is not None
        database._connection.set_trace_callback(said.append)
        busy = threading.Event()
        _hold_up(database, busy)
        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            for number in range(32):
                group.create_task(ledger.accept("telegram:1", (Arrival(str(number), "{}"),)))
                if number:
                    group.create_task(ledger.sessions.append(session.id, (UserMessage((Text("hi"),)),), turn="t"))
            later = group.create_task(states(ledger, "inbox", "telegram:1"))
            await asyncio.sleep(0)
            try:
                for _ in range(9):
                    assert await database.read(_level, long=True), "what reads for long waits for none of them"
                assert not later.done(), "but what is before it in the one thread is waited for"
            finally:
                busy.set()
        assert said.count("COMMIT") == 1, said
        assert "ROLLBACK" not in said
        assert database._synced, "where one has to be on the disk all are"
        assert later.result() == {"new": 32}


async def test_who_writes_has_the_file_alone_from_before_it_reads_and_who_reads_holds_nobody_up(tmp_path: Path) -> None:
    async with aclosing(SqliteDatabase(tmp_path / "n.db")) as database:
        await Ledger(database).set_notes({"a": "1"})

        async def meanwhile(db: Transaction) -> str:
            ((value,),) = await db.fetch(tuple[str], "SELECT value FROM note")
            with closing(sqlite3.connect(database.path, timeout=0)) as other, other:
                other.execute("UPDATE note SET value = value + 1")
            return value

        with pytest.raises(StoreError, match="locked"):
            await database.run(meanwhile)
        assert [await database.read(meanwhile) for _ in range(3)] == ["1", "2", "3"]
        assert await database.read(meanwhile, long=True) == "4"
        assert await asyncio.gather(*(database.read(meanwhile, long=True) for _ in range(2))) == ["5", "6"]
        with closing(sqlite3.connect(database.path)) as other, other:
            other.execute("BEGIN IMMEDIATE")
            assert await database.hold("a") == "", "nor is a session something that is written"
            await database.drop("a")


async def test_a_work_that_fails_or_waits_for_something_else_spoils_none_of_those_done_with_it(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "n.db")
    ledger = Ledger(database)

    async def broken(db: Transaction) -> None:
        await db.change("INSERT INTO note VALUES ('broken', '')")
        await db.change("INSERT INTO nowhere VALUES (1)")

    async def waits(db: Transaction) -> None:
        await db.change("INSERT INTO note VALUES ('waits', '')")
        await asyncio.sleep(0)

    for spoiled, why in ((broken, "StoreError('The sessions in"), (waits, "RuntimeError('a work of the store waits")):
        busy = threading.Event()
        _hold_up(database, busy)
        fine = asyncio.create_task(ledger.set_notes({why: ""}))
        failed = asyncio.create_task(database.run(spoiled))
        await asyncio.sleep(0)
        busy.set()
        await fine
        with pytest.raises((StoreError, RuntimeError)) as told:
            await failed
        assert repr(told.value).startswith(why)
    assert len(await ledger.notes("")) == 2
    await database.aclose()


async def test_what_stands_beside_the_file_is_emptied_by_tidying_and_gone_once_it_is_closed(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "n.db")
    ledger = Ledger(database)
    await ledger.set_notes({"a": "1"})
    assert await database.read(_level, long=True)
    assert (tmp_path / "n.db-wal").stat().st_size
    await database.tidy()
    assert not (tmp_path / "n.db-wal").stat().st_size
    await ledger.set_notes({"a": "2"})
    for _ in range(2):
        await ledger.aclose()
        assert [file.name for file in tmp_path.iterdir()] == ["n.db"]
        with pytest.raises(RuntimeError):
            await ledger.note("a")


async def test_who_reads_while_the_file_is_being_closed_is_refused_and_opens_nothing_again(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "n.db")
    await Ledger(database).set_notes({"a": "1"})
    busy = threading.Event()
    _hold_up(database, busy)
    closed = asyncio.create_task(database.aclose())
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError):
        await database.read(_level, long=True)
    busy.set()
    await closed
    assert [file.name for file in tmp_path.iterdir()] == ["n.db"]


async def test_nobody_else_on_the_machine_can_read_the_file_or_what_stands_beside_it(tmp_path: Path) -> None:
    async with aclosing(SqliteDatabase(tmp_path / "new" / "n.db")) as database:
        await Ledger(database).accept("telegram:1", (Arrival("1", "{}"),))
        modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "new").iterdir()}
        assert modes == {"n.db": 0o600, "n.db-wal": 0o600, "n.db-shm": 0o600}


def _hold_up(database: SqliteDatabase, busy: threading.Event) -> None:
    """Keep its thread from doing works; one that has just done some may still look whether more have come."""
    database._thread.submit(int).result(60)
    database._thread.submit(busy.wait)


async def _level(db: Transaction) -> int:
    ((level,),) = await db.fetch(tuple[int], "PRAGMA synchronous")
    return level
