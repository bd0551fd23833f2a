"""The pace of a bot whose calls come from several processes."""

import asyncio

from nanobot.channels.telegram.send.pacing import CALLS_PER_SECOND, RESERVE, Gate, Lanes


async def test_nothing_goes_out_while_the_work_may_be_anothers() -> None:
    mine, lanes = [False], Lanes()
    lanes.only_while(lambda: mine[0])
    got = asyncio.Event()

    async def send() -> None:
        async with lanes.lane("7").permit("final") as permit:
            permit.used()
            got.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(send())
        assert not await lanes.clock.wait(got, 0.7)
        mine[0] = True
        assert await lanes.clock.wait(got, 5)


def test_each_process_keeps_to_its_share_of_the_pace_and_of_the_reserve() -> None:
    gate = Gate()
    gate.share(5)
    free = 0
    while gate.delay("final", 1_000.0) == 0:
        gate.count(1_000.0)
        free += 1
    assert free == RESERVE // 5
    later = 1_001.5
    sent = 0
    while gate.delay("partial", later) == 0:
        gate.count(later)
        sent += 1
    assert sent == CALLS_PER_SECOND // 5
