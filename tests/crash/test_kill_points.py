"""kill -9 at every resumption of the event loop, SQL statement and commit of three messages in two chats."""

from pathlib import Path

import pytest

from tests.crash.rounds import places, planned_all, survive_all
from tests.fakes.crash.nursery import Nursery

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.crash_all)])
async def test_kill_points_are_survived(nursery: Nursery, tmp_path: Path, tried: list[str], step: int) -> None:
    found = await places(nursery, tmp_path / "count")
    assert len(found) >= 800, "the places of a whole run"
    outcome = await survive_all(nursery, tmp_path, planned_all(nursery, found[step - 1 :: step]))
    tried.append(f"one in {step} of {len(found)} kill points: {outcome}")
    assert not outcome.problems, "\n".join(outcome.problems)
    assert outcome.kills >= len(found) // step * 0.9, outcome
