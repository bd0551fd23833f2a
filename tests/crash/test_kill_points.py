"""kill -9 at every resumption of the event loop, SQL statement and commit of three messages in two chats."""

from pathlib import Path

import pytest

from tests.crash.rounds import places, planned_all, survive_all
from tests.fakes.crash.nursery import Nursery

pytestmark = pytest.mark.asyncio(loop_scope="session")
#: In an ordinary run every eighth place is a kill point.
STEP = 8


@pytest.mark.timeout(900)
async def test_each_eighth_kill_point_is_survived(nursery: Nursery, tmp_path: Path, tried: list[str]) -> None:
    found = await places(nursery, tmp_path / "count")
    assert len(found) >= 800, "the places of a whole run"
    outcome = await survive_all(nursery, tmp_path, planned_all(nursery, found[STEP - 1 :: STEP]))
    tried.append(f"every eighth of {len(found)} kill points: {outcome}")
    assert not outcome.problems, "\n".join(outcome.problems)
    assert outcome.kills >= len(found) // STEP * 0.9, outcome


@pytest.mark.crash_all
@pytest.mark.timeout(3_600)
async def test_every_kill_point_is_survived(nursery: Nursery, tmp_path: Path, tried: list[str]) -> None:
    found = await places(nursery, tmp_path / "count")
    outcome = await survive_all(nursery, tmp_path, planned_all(nursery, found))
    tried.append(f"all {len(found)} kill points: {outcome}")
    assert not outcome.problems, "\n".join(outcome.problems)
    assert outcome.kills >= len(found) * 0.9, outcome
