"""What the ledger in the file promises beyond the contract: it survives, and it migrates what is there."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from nanobot.errors import StoreError
from nanobot.session.database import APPLICATION_ID, STEPS, VERSION, Database
from nanobot.session.ledger import Arrival, OutboxItem
from nanobot.session.ledger_sqlite import SqliteLedger
from nanobot.session.sqlite import SqliteSessionStore

NORMAL, FULL = 1, 2


async def test_rows_and_answers_are_there_after_a_restart(tmp_path: Path) -> None:
    database = Database(tmp_path / "n.db")
    ledger = SqliteLedger(database)
    first, second = await ledger.accept("telegram:1", (Arrival("1", '{"a": "ä"}'), Arrival("2", "{}")))
    await ledger.claim((first.seq, second.seq))
    await ledger.finish((first.seq,), (OutboxItem(first.turn, 0, "telegram:1", "7", '"hi"', "3"),))
    await database.aclose()
    database = Database(tmp_path / "n.db")
    ledger = SqliteLedger(database)
    assert [(row.id, row.attempts) for row in (await ledger.recover("telegram:1")).waiting] == [("2", 1)]
    (row,) = await ledger.lease("telegram:1")
    assert (row.item.payload, row.item.thread, row.item.chat) == ('"hi"', "3", "7")
    await database.aclose()


async def test_a_file_of_the_first_layout_gains_the_ledger_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "n.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(STEPS[0])
        db.execute(
            "INSERT INTO session VALUES ('s1', 'a', 'old', '2026-01-01T00:00:00+00:00', '2026-01-01T00:00:00+00:00')"
        )
        db.execute("INSERT INTO current VALUES ('a', 's1')")
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("PRAGMA user_version = 1")
        db.commit()
    database = Database(path)
    ledger, store = SqliteLedger(database), SqliteSessionStore(database)
    assert len(await ledger.accept("telegram:1", (Arrival("1", "{}"),))) == 1
    assert (await store.current("a")).title == "old"
    await database.aclose()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone()[0] == VERSION


async def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "n.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(STEPS[0])
        db.execute("CREATE TABLE note (somebody TEXT)")  # in the way of the last statement
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("PRAGMA user_version = 1")
        db.commit()
    database = Database(path)
    with pytest.raises(StoreError, match="note already exists"):
        await SqliteLedger(database).note("x")
    await database.aclose()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone()[0] == 1
        assert db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'inbox'").fetchone()[0] == 0


async def test_accepted_means_on_the_disk_and_sessions_do_not_pay_for_it(tmp_path: Path) -> None:
    database = Database(tmp_path / "n.db")
    ledger, store = SqliteLedger(database), SqliteSessionStore(database)
    await ledger.accept("telegram:1", (Arrival("1", "{}"),))
    assert (database._synced, await database.run(_level, durable=True)) == (True, FULL)
    await store.current("a")
    assert (database._synced, await database.run(_level)) == (False, NORMAL)
    await database.aclose()


def _level(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA synchronous").fetchone()[0])
