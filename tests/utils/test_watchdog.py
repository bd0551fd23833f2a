"""What hangs is named: the await of a task, the line that blocks the loop."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from nanobot.utils.watchdog import StallWatch, await_chain, log_chain
from tests.fakes.logs import log_lines
from tests.fakes.patience import growing

BOUND = 120.0


async def never() -> None:
    await asyncio.get_running_loop().create_future()


async def numbers() -> AsyncIterator[int]:
    yield 1
    await never()


async def over_a_stream() -> None:
    async for _ in numbers():
        pass


async def in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(never())
        group.create_task(asyncio.sleep(0))


async def in_a_gather() -> None:
    await asyncio.gather(over_a_stream(), never())


async def in_a_wait() -> None:
    async with asyncio.timeout(60):
        await asyncio.wait({asyncio.ensure_future(never())})


async def chain_of(task: "asyncio.Task[None]") -> tuple[str, ...]:
    for _ in range(5):
        await asyncio.sleep(0)
    chain = await_chain(task)
    task.cancel()
    await asyncio.wait({task}, timeout=BOUND)
    return chain


def names(chain: tuple[str, ...]) -> list[str]:
    return [line.split(" (")[0].strip() for line in chain]


async def test_the_chain_of_a_task_goes_through_coroutines_and_async_generators() -> None:
    chain = await chain_of(asyncio.create_task(over_a_stream()))
    assert names(chain) == ["over_a_stream", "numbers", "never"]
    assert all("test_watchdog.py:" in line for line in chain)


async def test_the_chain_goes_into_the_tasks_of_a_group_a_gather_and_a_wait() -> None:
    grouped = await chain_of(asyncio.create_task(in_a_group()))
    assert names(grouped) == ["in_a_group", "TaskGroup.__aexit__", "never"]
    gathered = await chain_of(asyncio.create_task(in_a_gather()))
    assert names(gathered) == ["in_a_gather", "over_a_stream", "numbers", "never", "never"]
    waited = await chain_of(asyncio.create_task(in_a_wait()))
    assert names(waited)[0] == "in_a_wait"
    assert names(waited)[-1] == "never"


async def test_a_task_that_ended_or_waits_for_itself_ends_the_chain() -> None:
    ended = asyncio.create_task(asyncio.sleep(0))
    await ended
    assert await_chain(ended) == ()

    async def circle() -> None:
        await asyncio.wait({first, second})

    async def other() -> None:
        await asyncio.wait({first})

    first = asyncio.create_task(circle())
    second = asyncio.create_task(other())
    chain = await chain_of(first)
    second.cancel()
    assert names(chain).count("circle") == 1


async def test_the_log_says_where_a_task_hangs() -> None:
    task = asyncio.create_task(over_a_stream())
    await asyncio.sleep(0)
    with log_lines() as lines:
        log_chain("turn in-7", task)
    task.cancel()
    assert "turn in-7 hangs" in lines[0]
    assert "never (test_watchdog.py:" in lines[0]


def block(until: threading.Event) -> None:
    assert until.wait(BOUND)


async def test_a_blocked_loop_is_seen_from_outside_and_its_line_is_logged() -> None:
    told: list[float] = []
    seen = threading.Event()

    def note(seconds: float) -> None:
        told.append(seconds)
        if len(told) == 2:
            seen.set()

    with log_lines() as lines, StallWatch(note, after=0.2, beat=0.02):
        block(seen)  # no await: the loop stands until the thread has told twice
        async with asyncio.timeout(BOUND):
            while told[-1]:
                await asyncio.sleep(0.02)
    assert 0.2 <= told[0] < told[1]
    assert ["in block" in line for line in lines] == [True] + [False] * (len(lines) - 1), "it is told once"
    assert "blocked" in lines[0]
    assert "turns again" in lines[1]


@growing(0.5, 5, 50)
async def test_a_loop_that_turns_is_left_alone(limit: float) -> None:
    told: list[float] = []
    with StallWatch(told.append, after=limit, beat=0.02):
        await asyncio.sleep(1.5 * limit)
    assert told == []


@pytest.mark.parametrize("entered", [0, 1])
async def test_leaving_the_watch_ends_its_thread(entered: int) -> None:
    with StallWatch(print, after=0.2 + entered):
        assert any(thread.name == "watchdog" for thread in threading.enumerate())
    assert not any(thread.name == "watchdog" for thread in threading.enumerate())
