"""Gateways are killed while many people talk: nothing is lost or said twice unmarked, and chats keep their order."""

from pathlib import Path

import pytest

from tests.crash.trial import Plan, run
from tests.fakes.postgres import TestServer


@pytest.mark.timeout(900)
async def test_nothing_is_lost_or_said_twice_while_gateways_are_killed(tmp_path: Path, postgres: TestServer) -> None:
    plan = Plan(messages=100, chats=20, kills=5, rate=10, workers=2, cuts=1)
    trial = await run(plan, tmp_path, postgres.fresh(), bound=240)
    print(trial)
    assert not trial.problems, "\n".join(trial.problems)
    assert trial.kills.total() >= 4
    assert trial.kills["poller"] >= 1


@pytest.mark.timeout(900)
async def test_a_worker_that_stood_still_ends_and_nothing_is_said_twice(tmp_path: Path, postgres: TestServer) -> None:
    """Its turns are under way when it stops; by the time it goes on, another one has answered them."""
    plan = Plan(messages=30, chats=8, kills=0, rate=2.5, workers=2, model=3.0, freezes=1)
    trial = await run(plan, tmp_path, postgres.fresh(), bound=240)
    print(trial)
    assert not trial.problems, "\n".join(trial.problems)
    assert trial.kills["frozen worker"] == 1
    assert not trial.kills["frozen worker that nobody missed"]


@pytest.mark.crash_all
@pytest.mark.timeout(1_200)
async def test_nothing_is_lost_in_a_long_storm(tmp_path: Path, postgres: TestServer) -> None:
    plan = Plan(2_000, 300, kills=40, rate=10, workers=4, faults=40, cuts=3, freezes=3, naps=3, away=15.0)
    trial = await run(plan, tmp_path, postgres.fresh(), bound=300, restart=postgres.restart)
    print(trial)
    assert not trial.problems, "\n".join(trial.problems)
