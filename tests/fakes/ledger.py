"""What stands in a ledger, for tests."""

from collections.abc import Mapping
from typing import Literal

from nanobot.session.ledger import Ledger


async def states(ledger: Ledger, table: Literal["inbox", "outbox"], channel: str) -> Mapping[str, int]:
    """How many rows of a channel there are by state."""
    query = f"SELECT state, count(*) FROM {table} WHERE channel = :channel GROUP BY state"
    return dict(await ledger.database.read(lambda db: db.fetch(tuple[str, int], query, channel=channel)))
