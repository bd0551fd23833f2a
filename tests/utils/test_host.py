"""Files of SQLite that several processes open in the same moment, and the days by which ages are judged."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nanobot.utils.host import SETTLED_DAYS, held_advice, settled, write_ahead


class _Neighbour(sqlite3.Connection):
    """A connection beside another one, whose transaction ends when this one has asked for the third time."""

    other: sqlite3.Connection
    asked = 0

    def execute(self, sql: str, parameters: object = (), /) -> sqlite3.Cursor:
        assert not parameters
        self.asked += 1
        if self.asked == 3:
            self.other.commit()
        return super().execute(sql)


def test_a_new_file_is_opened_while_another_process_makes_its_tables(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("CREATE TABLE made (one)")
        with closing(sqlite3.connect(path)) as impatient, pytest.raises(sqlite3.OperationalError, match="locked"):
            write_ahead(impatient, 0)
        with closing(sqlite3.connect(path, factory=_Neighbour)) as db:
            db.other = other
            write_ahead(db, 60)
            assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert db.execute("SELECT count(*) FROM made").fetchone() == (0,)


def test_a_clock_that_is_ahead_for_some_days_makes_nothing_older(tmp_path: Path) -> None:
    begin = datetime(2026, 1, 1, 12, tzinfo=UTC)
    days = [settled(tmp_path, begin + timedelta(days=number)) for number in range(10)]
    assert {one.year for one in days[: SETTLED_DAYS - 1]} == {1970}, "no days, no ages"
    assert [one.day for one in days[SETTLED_DAYS - 1 :]] == [1, 2, 3]
    ahead = [settled(tmp_path, begin + timedelta(days=60 + number)) for number in range(3)]
    assert [one.day for one in ahead] == [4, 5, 6]
    assert settled(tmp_path, begin + timedelta(days=10, hours=1)).year == 1970
    (tmp_path / "days").write_text("0-0 what", encoding="ascii")
    assert settled(tmp_path, begin).year == 1970


def test_a_file_that_somebody_else_has_or_that_may_not_be_written_is_not_to_be_moved_away(tmp_path: Path) -> None:
    path, said = tmp_path / "held.db", list[str]()
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE made (one)")
        other.execute("BEGIN EXCLUSIVE")
        for place in (path.as_uri(), f"{path.as_uri()}?mode=ro"):
            with closing(sqlite3.connect(place, uri=True, timeout=0)) as db, pytest.raises(sqlite3.Error) as refused:
                db.execute("INSERT INTO made VALUES (1)")
            said.append(held_advice(refused.value))
            other.rollback()
    assert [one.partition(":")[0] for one in said] == [
        "Another program keeps it to itself, such as a backup or an editor of databases",
        "It may not be written",
    ]
    assert held_advice(sqlite3.DatabaseError("file is not a database")) == ""
