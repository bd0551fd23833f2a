"""Places that several processes with one ledger have together, such as those of helpers."""

import asyncio
from datetime import UTC, datetime, timedelta

from nanobot.cluster.share import LEASE_SECONDS, SharedSlots
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import MemoryDatabase


class Watched(Ledger):
    """A ledger with a clock of its own that says when somebody has asked for a place in vain."""

    def __init__(self) -> None:
        self.at = datetime(2026, 3, 2, tzinfo=UTC)
        super().__init__(MemoryDatabase(), clock=lambda: self.at)
        self.refused = asyncio.Event()

    async def hold(self, name: str, holder: str, seconds: float) -> bool:
        got = await super().hold(name, holder, seconds)
        if not got:
            self.refused.set()
        return got


async def working(slots: SharedSlots, begun: asyncio.Event, ends: asyncio.Event) -> None:
    async with slots:
        begun.set()
        await ends.wait()


async def test_helpers_of_two_gateways_share_their_places_and_one_that_ends_makes_room() -> None:
    ledger = Watched()
    here, there = (SharedSlots(ledger, "helper", 2) for _ in range(2))
    begun, ends = [asyncio.Event() for _ in range(3)], [asyncio.Event() for _ in range(3)]
    async with asyncio.TaskGroup() as group:
        for place, slots in enumerate((here, there)):
            group.create_task(working(slots, begun[place], ends[place]))
            await asyncio.wait_for(begun[place].wait(), 30)
        ledger.refused.clear()
        group.create_task(working(there, begun[2], ends[2]))
        await asyncio.wait_for(ledger.refused.wait(), 30)
        assert not begun[2].is_set()
        ends[0].set()
        await asyncio.wait_for(begun[2].wait(), 30)
        for end in ends:
            end.set()


async def test_a_gateway_that_died_loses_its_places() -> None:
    ledger = Watched()
    assert await ledger.hold("helper 0", "a dead one", LEASE_SECONDS)
    begun, ends = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(working(SharedSlots(ledger, "helper", 1), begun, ends))
    await asyncio.wait_for(ledger.refused.wait(), 30)
    assert not begun.is_set()
    ledger.at += timedelta(seconds=LEASE_SECONDS + 1)
    await asyncio.wait_for(begun.wait(), 30)
    ends.set()
    await task
