"""Why something may not be done, as somebody reads it who knows Chinese alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nanobot.agent.consent import question_of
from nanobot.errors import FetchError
from nanobot.files.origins import FROM_COMMAND
from nanobot.security import sandbox
from nanobot.security.control_files import ControlFiles, control_files
from nanobot.security.network import FAKE_IP, Exceptions, Hosts, judge_answers, judge_url
from nanobot.security.policy import GRANTS, KINDS, Effect, EffectKind, JudgedCall, Policy, Rule, answered
from nanobot.security.sandbox import Reason, choose
from nanobot.utils.translation import _, speaking
from tests.fakes.chinese import english_left

URLS = (
    "ftp://a.example", "https://", "https://a b.example", "https://me:pw@a.example", "https://%61.example", "https://[::",
    "https://[1]", "https://a.example:99999", "https://1.2.3", "https://-.example/", "https://router", "https://denied.example",
    "https://other.example", "https://a.example/" + "x" * 9_000,
)  # fmt: skip
ANSWERS = (
    "nonsense", "127.0.0.1", "169.254.169.254", "64:ff9b::7f00:1", "fe80::1%1", "2001:db8::1", "fd00::1", "198.18.0.1",
    "2600::5efe:7f00:1",
)  # fmt: skip


@pytest.fixture(autouse=True)
def chinese() -> Iterator[None]:
    with speaking("zh"):
        yield


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


def test_why_a_page_is_not_read_is_told_in_chinese() -> None:
    told = [_(FAKE_IP)]
    hosts = Exceptions(hosts=Hosts.parse(["a.example"], ["denied.example"]))
    for url in URLS:
        for exceptions in (hosts, Exceptions()):
            try:
                judge_url(url, exceptions)
            except FetchError as error:
                told.append(str(error))
    for answer in ANSWERS:
        for host in ("a.example", answer):
            try:
                judge_answers(host, [answer])
            except FetchError as error:
                told.append(str(error))
    assert len(told) > 30
    assert [left for one in told for left in english_left(one)] == []
    with pytest.raises(ValueError, match="既不是网段、地址，也不是主机名"):
        Exceptions.parse(["no name"])


async def test_which_sandbox_there_is_and_why_none_is_told_in_chinese() -> None:
    told = []
    for wanted in ("auto", "bubblewrap", "landlock", "none"):
        for platform in ("linux", "darwin", "win32"):
            found = await choose(wanted, platform)
            told.append(str(found) if isinstance(found, Reason) else found.note)
    told += map(_, sandbox._ESCAPED)
    assert [left for one in told for left in english_left(one)] == []


def test_what_a_command_changed_is_told_in_chinese(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("old")
    kept = ControlFiles(control_files(tmp_path))
    (tmp_path / "AGENTS.md").write_text("new")
    (tmp_path / "SOUL.md").write_text("new")
    heads = {one.partition("\n")[0] for one in kept.put_back()}
    assert heads == {
        f"{tmp_path / 'AGENTS.md'} 被命令更改，已还原。",
        f"{tmp_path / 'SOUL.md'} 由命令创建，已删除。",
    }


def test_where_content_from_outside_came_from_is_told_in_chinese() -> None:
    call = JudgedCall("exec", {"command": "ls"}, (Effect("run_open", "ls"),), "owner", taint=FROM_COMMAND, direct=True)
    question = question_of(call, Policy().judge(call), ())
    assert "命令的输出" in question.detail
    assert english_left(f"{question.title}\n{question.detail}") == []
