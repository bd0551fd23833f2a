"""kill -9 at the system calls of the program itself, without any help of its code."""

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


@needs_strace
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("everywhere", [False, pytest.param(True, marks=pytest.mark.crash_all)])
async def test_kills_at_system_calls_are_survived(
    nursery: Nursery, tmp_path: Path, tried: list[str], everywhere: bool
) -> None:
    starts = {
        f"{call}-{at}": killed_at(call, at)
        for call, (most, step) in CALLS.items()
        for at in (range(1, most + 1) if everywhere else range(step, most, step))
    }
    outcome = await survive_all(nursery, tmp_path, starts)
    tried.append(f"at {len(starts)} system calls: {outcome}")
    assert not outcome.problems, "\n".join(outcome.problems)
    assert outcome.kills - outcome.second_kills >= len(starts) * 0.8, outcome
