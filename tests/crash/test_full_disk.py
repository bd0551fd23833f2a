"""The disk is full or broken for a while: the gateway says so, lives on, and loses nothing."""

import asyncio
import resource
from pathlib import Path

import pytest

from tests.crash.rounds import Outcome, Start, Trouble, each, endure, planned
from tests.crash.stage import Stage
from tests.crash.test_kill_points import needs_strace
from tests.fakes.crash import strace
from tests.fakes.crash.nursery import Life, Nursery
from tests.fakes.crash.points import Plan

pytestmark = pytest.mark.asyncio(loop_scope="session")
#: Seconds for which no file can be written.
FULL_SECONDS = 2.0
#: Calls that fail in a row, about as many as two commits make.
IN_A_ROW = 3


def set_room(life: Life, size: int) -> None:
    """No file of the process grows beyond `size` bytes, as on a disk without room: the kernel refuses the write."""
    hard = resource.prlimit(life.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(life.pid, resource.RLIMIT_FSIZE, (size, hard))


async def full(life: Life) -> None:
    set_room(life, 0)
    await asyncio.sleep(FULL_SECONDS)
    set_room(life, resource.RLIM_INFINITY)


MOMENTS = ("before the messages", "while a tool runs", "while an answer is written")


def without_room(moment: str) -> Trouble:
    async def trouble(stage: Stage, life: Life) -> None:
        if moment == "before the messages":
            set_room(life, 0)
        stage.judge.ask(stage.ada, "note-a1")
        stage.judge.ask(stage.bob, "slow-b1")
        if moment == "before the messages":
            await stage.until(lambda: any("disk I/O error" in line for line in stage.telegram.visible(stage.ada.chat)))
        elif moment == "while a tool runs":
            await stage.until(lambda: bool(stage.judge.effects))
        elif moment == "while an answer is written":
            await stage.until(lambda: bool(stage.judge.answers(stage.bob.chat)))
        await full(life)

    return trouble


async def test_the_owner_is_told_of_a_full_disk_which_costs_no_message_and_no_restart(
    nursery: Nursery, tmp_path: Path, tried: list[str]
) -> None:
    whole = planned(nursery, Plan())
    outcome = await each(
        MOMENTS, lambda one: endure(nursery, tmp_path / one.replace(" ", "-"), whole, without_room(one), one)
    )
    tried.append(f"no room on the disk {', '.join(MOMENTS)}: {outcome.messages} messages")
    assert not outcome.problems, "\n".join(outcome.problems)


async def two_messages(stage: Stage, life: Life) -> None:
    del life
    stage.judge.ask(stage.ada, "note-a1")
    stage.judge.ask(stage.bob, "slow-b1")


def failing(call: str, error: str, at: int) -> Start:
    async def start(stage: Stage) -> Life:
        inject = strace.failing(call, error, at, at + IN_A_ROW - 1)
        return await strace.start(stage.nursery, stage.home, "gateway", inject=inject)

    return start


#: (call, error, from which of a thread's calls on, up to where, step of an unhurried run): the first ones belong to
#: the start.
FAULTS = (
    ("pwrite64", "ENOSPC", 65, 200, IN_A_ROW),
    ("pwrite64", "EIO", 75, 200, IN_A_ROW),
    ("fdatasync", "EIO", 7, 16, 1),
)


@needs_strace
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("everywhere", [False, pytest.param(True, marks=pytest.mark.crash_all)])
async def test_writes_and_syncs_that_fail_for_a_while_cost_no_message(
    nursery: Nursery, tmp_path: Path, tried: list[str], everywhere: bool
) -> None:
    faults = [
        (call, error, at)
        for call, error, first, last, step in FAULTS
        for at in (range(first, last, step) if everywhere else (first, (first + last) // 2))
    ]

    async def one(fault: tuple[str, str, int]) -> Outcome:
        name = "-".join(map(str, fault))
        return await endure(nursery, tmp_path / name, failing(*fault), two_messages, name)

    outcome = await each(faults, one)
    tried.append(f"{len(faults)} times writes or syncs failed (ENOSPC, EIO): {outcome.messages} messages")
    assert not outcome.problems, "\n".join(outcome.problems)
