"""Places that several processes with one database have together, such as those of helpers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from nanobot.cluster.ledger import PostgresLedger
from nanobot.cluster.postgres import Postgres
from nanobot.cluster.share import SharedSlots
from nanobot.errors import StoreError
from tests.fakes.postgres import TestServer


class Watched(Postgres):
    """A worker's database that says when a place was asked for in vain."""

    def __init__(self, ledger: PostgresLedger, address: str) -> None:
        super().__init__(address, ledger.channel, ledger._prepare)
        self.worker, self.refused = ledger.database.worker, asyncio.Event()

    async def hold(self, session_id: str) -> str:
        holder = await super().hold(session_id)
        if holder:
            self.refused.set()
        return holder


@asynccontextmanager
async def workers(server: TestServer) -> AsyncIterator[tuple[PostgresLedger, Watched, Watched]]:
    """A worker, and the databases of it and of another one."""
    address = server.fresh()
    async with AsyncExitStack() as stack:
        ledgers = [PostgresLedger(address, "telegram:1") for _ in range(2)]
        for ledger in ledgers:
            stack.push_async_callback(ledger.aclose)
            await ledger.enroll()
        here, there = (Watched(ledger, address) for ledger in ledgers)
        for database in (here, there):
            stack.push_async_callback(database.aclose)
        yield ledgers[0], here, there


async def working(slots: SharedSlots, begun: asyncio.Event, ends: asyncio.Event) -> None:
    async with slots:
        begun.set()
        await ends.wait()


async def test_helpers_of_two_gateways_share_their_places_and_one_that_ends_makes_room(postgres: TestServer) -> None:
    begun, ends = [asyncio.Event() for _ in range(3)], [asyncio.Event() for _ in range(3)]
    async with workers(postgres) as (_, mine, theirs), asyncio.TaskGroup() as group:
        here, there = (SharedSlots(database, "helper", 2) for database in (mine, theirs))
        for place, slots in enumerate((here, there)):
            group.create_task(working(slots, begun[place], ends[place]))
            await asyncio.wait_for(begun[place].wait(), 30)
        assert not there.locked()
        theirs.refused.clear()
        group.create_task(working(there, begun[2], ends[2]))
        await asyncio.wait_for(theirs.refused.wait(), 30)
        assert not begun[2].is_set()
        ends[0].set()
        await asyncio.wait_for(begun[2].wait(), 30)
        assert there.locked()
        for end in ends:
            end.set()


async def test_of_what_was_given_up_while_it_was_asked_for_the_place_is_free(postgres: TestServer) -> None:
    async with workers(postgres) as (_, here, there):
        slots = SharedSlots(here, "helper", 1)
        asking = asyncio.create_task(working(slots, asyncio.Event(), asyncio.Event()))
        await asyncio.sleep(0)  # it has begun to ask, and what has begun is kept
        asking.cancel()
        await asyncio.wait({asking})
        assert await there.hold("helper 0") == ""
        here.worker = "of nobody"  # who was taken for dead meanwhile is refused, and is given up all the same
        asking = asyncio.create_task(working(slots, asyncio.Event(), asyncio.Event()))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait({asking})
        assert asking.cancelled()


class Silent(Postgres):
    """A worker's database of which the first answer is lost, when the place is had already."""

    def __init__(self, ledger: PostgresLedger, address: str) -> None:
        super().__init__(address, ledger.channel, ledger._prepare)
        self.worker, self.lost_answers = ledger.database.worker, 1

    async def hold(self, session_id: str) -> str:
        holder = await super().hold(session_id)
        self.lost_answers -= 1
        if self.lost_answers >= 0:
            raise StoreError("the database does not answer")
        return holder


async def test_a_place_that_was_had_without_an_answer_is_free_again(postgres: TestServer) -> None:
    async with workers(postgres) as (ledger, here, _):
        silent = Silent(ledger, here._address)
        begun, ends = asyncio.Event(), asyncio.Event()
        ends.set()
        await asyncio.wait_for(working(SharedSlots(silent, "helper", 1), begun, ends), 30)
        silent.lost_answers = 1
        asking = asyncio.create_task(working(SharedSlots(silent, "helper", 1), asyncio.Event(), asyncio.Event()))
        await asyncio.sleep(0)  # it has begun to ask
        asking.cancel()
        await asyncio.wait({asking})
        assert asking.cancelled()
        assert await here.hold("helper 0") == ""
        await silent.aclose()


async def test_a_gateway_that_died_loses_its_places_and_gets_none_any_more(postgres: TestServer) -> None:
    async with workers(postgres) as (ledger, dead, other):
        assert await dead.hold("helper 0") == ""
        begun, ends = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(working(SharedSlots(other, "helper", 1), begun, ends))
        await asyncio.wait_for(other.refused.wait(), 30)
        assert not begun.is_set()
        await ledger.free(dead.worker)
        await asyncio.wait_for(begun.wait(), 30)
        with pytest.raises(StoreError, match="has gone to others"):
            await dead.hold("helper 1")
        ends.set()
        await task
