"""What stands in a ledger, for tests."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Literal

from nanobot.session.ledger import Ledger


async def states(ledger: Ledger, table: Literal["inbox", "outbox"], channel: str) -> Mapping[str, int]:
    """How many rows of a channel there are by state."""
    query = f"SELECT state, count(*) FROM {table} WHERE channel = :channel GROUP BY state"
    return dict(await ledger.database.read(lambda db: db.fetch(tuple[str, int], query, channel=channel)))


def rows(path: Path, query: str, *values: object) -> list[tuple[object, ...]]:
    """What a statement finds or changes in a file that may be at work."""
    with closing(sqlite3.connect(path, timeout=60)) as db, db:
        return db.execute(query, values).fetchall()
