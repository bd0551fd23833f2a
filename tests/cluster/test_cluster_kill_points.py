"""kill -9 at resumptions of the event loop of a gateway on PostgreSQL; another one takes over and the fakes judge."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, fields
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio

from tests.crash.rounds import AT_ONCE, Outcome, each, killed, stuck, talked
from tests.crash.stage import KEPT, Stage, staged
from tests.fakes.crash.nursery import Nursery
from tests.fakes.crash.points import Plan
from tests.fakes.postgres import TestServer

pytestmark = pytest.mark.asyncio(loop_scope="session")
_LEFT = """
SELECT (SELECT count(*) FROM nanobot_123456.inbox WHERE state <> 'done'),
       (SELECT count(*) FROM nanobot_123456.outbox WHERE state IN ('new', 'sending', 'unknown', 'failed'))
"""


@pytest_asyncio.fixture(loop_scope="session")
async def nursery() -> AsyncIterator[Nursery]:
    made = Nursery()
    yield made
    await made.clear()


@dataclass(slots=True)
class SharedStage(Stage):
    """A stage whose gateways keep everything in the database at `address`."""

    address: str = ""

    @property
    def settled(self) -> bool:
        return self._rows(_LEFT) == (0, 0)

    def _wrong_store(self, sent: int) -> list[str]:
        left, kept = self._rows(_LEFT), self._rows(KEPT.format("nanobot_123456.inbox"))
        found = [] if left == (0, 0) else [f"rows of the inbox and the outbox are stuck: {left}"]
        return found if kept == (sent, sent) else [*found, f"{sent} messages came, {kept} are done"]

    def _rows(self, query: str) -> tuple[object, ...]:
        with psycopg.connect(self.address) as db:
            return tuple(db.execute(query.encode()).fetchone() or ())


@contextlib.asynccontextmanager
async def shared(nursery: Nursery, folder: Path, server: TestServer) -> AsyncIterator[SharedStage]:
    async with staged(nursery, folder) as stage:
        address = await asyncio.to_thread(server.fresh)
        stage.home.change(gateway={"ledger": address})
        known = {field.name: getattr(stage, field.name) for field in fields(Stage)}
        yield SharedStage(**known, address=address)


async def steps_of_a_run(nursery: Nursery, folder: Path, server: TestServer) -> int:
    async with shared(nursery, folder, server) as stage:
        life = await stage.start()
        await talked(stage, steer=True)
        await life.kill()
        assert not stage.problems(), stage.problems()
        return life.counts.places["step"]


async def survived(nursery: Nursery, folder: Path, server: TestServer, at: int) -> Outcome:
    """Two gateways, of which one dies at its `at`th step."""
    async with shared(nursery, folder, server) as stage:
        talking = asyncio.create_task(talked(stage, steer=at % 2 == 0))
        first = await stage.start(Plan("step", at))
        await stage.start()
        died = await killed(first, talking)
        try:
            await talking
        except TimeoutError:
            return stuck(stage, f"step {at}")
        for life in stage.lives:
            await life.kill()
        return Outcome(int(died), 0, 3, 1, tuple(f"step {at}: {problem}" for problem in stage.problems()))


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("count", [8, pytest.param(240, marks=pytest.mark.crash_all)])
async def test_another_gateway_outlives_kills(
    nursery: Nursery, postgres: TestServer, tmp_path: Path, count: int
) -> None:
    """Evenly spread over a run. Not every one dies: the other gateway may have the work."""
    whole = await steps_of_a_run(nursery, tmp_path / "whole", postgres)
    steps = (max(1, whole * number // count) for number in range(count))
    outcome = await each(steps, lambda at: survived(nursery, tmp_path / f"step-{at}", postgres, at), AT_ONCE // 2)
    print(f"{outcome} of {whole} steps on PostgreSQL")
    assert not outcome.problems, "\n".join(outcome.problems)
    assert outcome.kills >= count // 3
