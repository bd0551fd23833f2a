"""Files of SQLite that several processes open in the same moment."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from nanobot.utils.host import write_ahead


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
