"""kill -9 at the system calls of the program itself, without any help of its code."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.crash.rounds import Start, survive_all
from tests.crash.stage import Stage
from tests.fakes.crash import strace
from tests.fakes.crash.nursery import Life, Nursery

pytestmark = pytest.mark.asyncio(loop_scope="session")
#: How often a thread makes each call while three messages are answered, at least, and the step of an ordinary run.
CALLS = {"fdatasync": (18, 6), "pwrite64": (220, 55), "sendto": (48, 12)}
needs_strace = pytest.mark.skipif(strace.STRACE is None, reason=strace.MISSING)


def killed_at(call: str, at: int) -> Start:
    async def start(stage: Stage) -> Life:
        return await strace.start(stage.nursery, stage.home, "gateway", inject=strace.killing(call, at))

    return start


async def at_calls(nursery: Nursery, folder: Path, tried: list[str], places: Sequence[tuple[str, int]]) -> None:
    starts = {f"{call}-{at}": killed_at(call, at) for call, at in places}
    outcome = await survive_all(nursery, folder, starts)
    tried.append(f"at {len(starts)} system calls: {outcome}")
    assert not outcome.problems, "\n".join(outcome.problems)
    assert outcome.kills - outcome.second_kills >= len(starts) * 0.8, outcome


@needs_strace
@pytest.mark.timeout(900)
async def test_kills_at_some_system_calls_are_survived(nursery: Nursery, tmp_path: Path, tried: list[str]) -> None:
    sample = [(call, at) for call, (most, step) in CALLS.items() for at in range(step, most, step)]
    await at_calls(nursery, tmp_path, tried, sample)


@needs_strace
@pytest.mark.crash_all
@pytest.mark.timeout(3_600)
async def test_kills_at_every_system_call_are_survived(nursery: Nursery, tmp_path: Path, tried: list[str]) -> None:
    every = [(call, at) for call, (most, _) in CALLS.items() for at in range(1, most + 1)]
    await at_calls(nursery, tmp_path, tried, every)
