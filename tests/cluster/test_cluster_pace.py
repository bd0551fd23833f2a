"""The pace of a bot whose calls come from several processes."""

import asyncio

from nanobot.channels.telegram.send.pacing import CALLS_PER_SECOND, RESERVE, BotPace, ChatQueues


async def test_nothing_goes_out_while_the_work_may_be_anothers() -> None:
    mine, queues = [False], ChatQueues()
    queues.pace.may_send = lambda: mine[0]
    got = asyncio.Event()

    async def send() -> None:
        async with queues.queue("7").permit("final") as permit:
            permit.used()
            got.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(send())
        await queues.clock.wait(got, 0.7)
        assert not got.is_set()
        mine[0] = True
        await queues.clock.wait(got, 5)
        assert got.is_set()


def test_each_process_keeps_to_its_share_of_the_pace_and_of_the_reserve() -> None:
    pace = BotPace()
    pace.share(5)
    free = 0
    while pace.delay("final", 1_000.0) == 0:
        pace.count(1_000.0)
        free += 1
    assert free == RESERVE // 5
    later = 1_001.5
    sent = 0
    while pace.delay("partial", later) == 0:
        pace.count(later)
        sent += 1
    assert sent == CALLS_PER_SECOND // 5
