"""A ledger over each kind of database, with a clock that a test moves."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nanobot.cluster.ledger import PostgresLedger
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import MemoryDatabase, SqliteDatabase


@dataclass
class HandClock:
    """Stands still but for `step` at each look, until a test moves it."""

    at: datetime = datetime(2026, 3, 1, 12, 7, tzinfo=UTC)
    step: timedelta = timedelta()

    def __call__(self) -> datetime:
        self.at += self.step
        return self.at

    def forward(self, **by: float) -> None:
        self.at += timedelta(**by)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def ledger(request: pytest.FixtureRequest, tmp_path: Path, clock: HandClock) -> AsyncIterator[Ledger]:
    if request.param == "postgres":
        made: Ledger = PostgresLedger(request.getfixturevalue("postgres").fresh(), "telegram:1", clock=clock)
    else:
        file = SqliteDatabase(tmp_path / "nanobot.db")
        made = Ledger(MemoryDatabase() if request.param == "memory" else file, clock=clock)
    yield made
    await made.aclose()
