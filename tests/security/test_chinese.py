"""Why something may not be done, as somebody reads it who knows Chinese alone."""

import pytest

from nanobot.agent.consent import question_of
from nanobot.files.origins import FROM_COMMAND
from nanobot.security.policy import GRANTS, KINDS, Effect, EffectKind, JudgedCall, Policy, Rule, answered
from nanobot.security.sandbox import Reason, choose
from nanobot.utils.translation import _
from tests.fakes.chinese import english_left

pytestmark = pytest.mark.usefixtures("chinese")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_judged_is_told_in_chinese(kind: EffectKind) -> None:
    told = [_(KINDS[kind].means), _(KINDS[kind].why), *map(_, GRANTS.values())]
    rules = (Rule("deny", "never"), Rule("ask", "ask*"))
    for role in ("owner", "user", "guest"):
        for tool in ("never", "asked", "tool"):
            for more in ({}, {"direct": False}, {"scheduled": True}, {"taint": ("网页",)}):
                call = JudgedCall(tool, {}, (Effect(kind, "目标"),), role, **more)
                verdict = Policy("careful", rules).judge(call)
                told += [*verdict.reasons, *answered(verdict, yes=False, reason="不行").reasons]
    assert [left for one in told for left in english_left(one)] == []


async def test_which_sandbox_there_is_and_why_none_is_told_in_chinese() -> None:
    told = []
    for wanted in ("auto", "bubblewrap", "landlock", "none"):
        for platform in ("linux", "darwin", "win32"):
            found = await choose(wanted, platform)
            told.append(str(found) if isinstance(found, Reason) else found.note)
    assert [left for one in told for left in english_left(one)] == []


def test_where_content_from_outside_came_from_is_told_in_chinese() -> None:
    call = JudgedCall("exec", {"command": "ls"}, (Effect("run_open", "ls"),), "owner", taint=FROM_COMMAND, direct=True)
    question = question_of(call, Policy().judge(call), ())
    assert "命令的输出" in question.detail
    assert english_left(f"{question.title}\n{question.detail}") == []
