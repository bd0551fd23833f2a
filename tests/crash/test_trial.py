"""One gateway is killed at random while many people talk and Telegram fails: nothing is lost or done twice."""

from pathlib import Path

import pytest

from tests.crash.trial import Plan, Trial, run

#: Of the marks of a repeat so many stand where the chat has an earlier one, but for those where Telegram failed.
TRUE_MARKS = 0.8


def judged(trial: Trial, tried: list[str]) -> None:
    tried.append(str(trial))
    assert not trial.problems, "\n".join(trial.problems)
    assert trial.kills["poller"] >= trial.plan.kills
    assert trial.effects >= trial.plan.messages // 12
    assert trial.set_aside <= trial.plan.kills // 90, "no message of the trial kills anything"


@pytest.mark.timeout(500)
async def test_nothing_is_lost_or_done_twice_by_a_gateway_often_killed(tmp_path: Path, tried: list[str]) -> None:
    plan = Plan(messages=60, chats=12, kills=8, rate=5, model=0.1, pause=0.3, faults=12, rests=(0, 1))
    judged(await run(plan, tmp_path, "", bound=240), tried)


@pytest.mark.crash_all
@pytest.mark.timeout(7_200)
async def test_nothing_is_lost_in_a_long_time_of_kills(tmp_path: Path, tried: list[str]) -> None:
    plan = Plan(1_200, 60, kills=190, rate=1.6, pause=0.3, faults=140, rests=(0, 1, 5, 20, 60, 120))
    trial = await run(plan, tmp_path, "", bound=300)
    judged(trial, tried)
    assert trial.marks.arrived >= TRUE_MARKS * (trial.marks.all - trial.marks.unknowable)
