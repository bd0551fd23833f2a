"""kill -9 at every resumption of the event loop, SQL statement and commit of three messages in two chats."""

from pathlib import Path

import pytest

from tests.crash.rounds import places, planned_all, survive_all
from tests.fakes.crash.nursery import Nursery
from tests.fakes.crash.points import KINDS, Kind

pytestmark = pytest.mark.asyncio(loop_scope="session")
#: Of each kind of place an ordinary run takes one in so many: most of those where the most is written down.
STEPS: dict[Kind, int] = {"step": 24, "sql": 12, "commit": 4}


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("everywhere", [False, pytest.param(True, marks=pytest.mark.crash_all)])
async def test_kill_points_are_survived(nursery: Nursery, tmp_path: Path, tried: list[str], everywhere: bool) -> None:
    found = await places(nursery, tmp_path / "count")
    assert len(found) >= 800, "the places of a whole run"
    taken = [plan for plan in found if everywhere or plan.at % STEPS[plan.kind] == 0]
    assert {plan.kind for plan in taken} == {*KINDS}
    outcome = await survive_all(nursery, tmp_path, planned_all(nursery, taken))
    tried.append(f"{len(taken)} of {len(found)} kill points: {outcome}")
    assert not outcome.problems, "\n".join(outcome.problems)
    assert outcome.kills >= len(taken) * 0.9, outcome
