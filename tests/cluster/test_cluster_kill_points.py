"""kill -9 at resumptions of the event loop of a gateway on PostgreSQL; another one takes over and the fakes judge."""

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, fields
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio

from tests.crash.stage import CORES, KEPT, Stage, staged
from tests.fakes.crash.nursery import Life, Nursery
from tests.fakes.crash.points import Plan
from tests.fakes.postgres import TestServer

pytestmark = pytest.mark.asyncio(loop_scope="session")
#: Rounds at the same time: most of a round is waiting until the dead one's lease has ended.
AT_ONCE = 2 * CORES
_LEFT = """
SELECT (SELECT count(*) FROM nanobot_123456.inbox WHERE state <> 'done'),
       (SELECT count(*) FROM nanobot_123456.outbox WHERE state IN ('new', 'sending', 'unknown', 'failed')
                                               AND reason <> 'the final text is shorter')
"""


@pytest_asyncio.fixture(loop_scope="session")
async def nursery() -> AsyncIterator[Nursery]:
    async with Nursery() as made:
        yield made


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
        file = stage.home.home / "config.json"
        config = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(json.dumps({**config, "gateway": {"ledger": address}}), encoding="utf-8")
        known = {field.name: getattr(stage, field.name) for field in fields(Stage)}
        yield SharedStage(**known, address=address)


async def talked(stage: SharedStage, *, steer: bool) -> None:
    await stage.talk(steer=steer)
    await stage.finish()


async def steps_of_a_run(nursery: Nursery, folder: Path, server: TestServer) -> int:
    async with shared(nursery, folder, server) as stage:
        life = await stage.start()
        await talked(stage, steer=True)
        await life.kill()
        assert not stage.problems(), stage.problems()
        return life.counts.places["step"]


async def survived(nursery: Nursery, folder: Path, server: TestServer, at: int) -> tuple[int, list[str]]:
    """Two gateways, of which one dies at its `at`th step; kills, and what did not hold."""
    async with shared(nursery, folder, server) as stage:
        talking = asyncio.create_task(talked(stage, steer=at % 2 == 0))
        first = await stage.start(Plan("step", at))
        await stage.start()
        died = await ended(first, talking)
        try:
            await talking
        except TimeoutError:
            seen = [stage.telegram.visible(one.chat) for one in (stage.ada, stage.bob)]
            return died, [f"step {at}: it is stuck: {seen}"]
        for life in stage.lives:
            await life.kill()
        return died, [f"step {at}: {problem}" for problem in stage.problems()]


async def ended(life: Life, talking: "asyncio.Task[None]") -> int:
    ending = asyncio.ensure_future(life.ended(240))
    await asyncio.wait({ending, talking}, return_when=asyncio.FIRST_COMPLETED)
    died = ending.done() and ending.result() == -signal.SIGKILL
    await life.kill()
    await ending
    return int(died)


async def survive(nursery: Nursery, folder: Path, server: TestServer, count: int) -> None:
    """Kill at so many steps, evenly spread over a run. Not every one dies: the other gateway may have the work."""
    whole = await steps_of_a_run(nursery, folder / "whole", server)
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(at: int) -> tuple[int, list[str]]:
        async with slots:
            return await survived(nursery, folder / f"step-{at}", server, at)

    ends = await asyncio.gather(*(one(max(1, whole * number // count)) for number in range(count)))
    kills, problems = sum(died for died, _ in ends), [problem for _, found in ends for problem in found]
    print(f"{kills} kills in {count} rounds of {whole} steps on PostgreSQL, {3 * count} messages")
    assert not problems, "\n".join(problems)
    assert kills >= count // 3


@pytest.mark.timeout(900)
async def test_some_kill_points_are_survived_by_another_gateway(
    nursery: Nursery, postgres: TestServer, tmp_path: Path
) -> None:
    await survive(nursery, tmp_path, postgres, 8)


@pytest.mark.crash_all
@pytest.mark.timeout(3_600)
async def test_many_kill_points_are_survived_by_another_gateway(
    nursery: Nursery, postgres: TestServer, tmp_path: Path
) -> None:
    await survive(nursery, tmp_path, postgres, 240)
