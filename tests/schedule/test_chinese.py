"""The schedule as somebody reads it who knows Chinese alone."""

from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from nanobot.errors import UsageError
from nanobot.schedule.appointments import Appointments, Who
from nanobot.schedule.job import Cron, Days, Every, Once, ScheduledJob, When, told
from nanobot.schedule.store import JobStore
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import MemoryDatabase
from tests.fakes.chinese import english_left
from tests.tables import table

pytestmark = pytest.mark.usefixtures("chinese")

NOW, ZONE = datetime(2026, 11, 22, 14, tzinfo=UTC), ZoneInfo("Asia/Shanghai")
ME = Who("telegram:42", "telegram:42", "owner")
#: One after the other, to the same schedule.
SAID = (
    " | 明天9点 给妈妈打电话 | 明天9点 给妈妈打电话 | do 每个工作日8点：有什么新闻 | "
    "briefing 每周一9点：search: 关键词 | 每2小时 喝水 | quiet 22-7 | quiet | list | missed 1 once | missed 1 skip | "
    "pause 1 | resume 1 | run 2 | remove 2 | pause 9 | remove | resume all | missed | quiet 7-7 | quiet noon | "
    "quiet off | lits | 每1秒 喝水 | 99 99 * * * 喝水 | 30 2 30 2 * 喝水"
).split(" | ")


async def test_everything_that_a_schedule_answers_is_in_chinese() -> None:
    ledger = Ledger(MemoryDatabase())
    schedule = Appointments(JobStore(ledger), ledger, "Asia/Shanghai", clock=lambda: NOW)
    answers = []
    for words in SAID:
        try:
            answers.append(await schedule.say(words, ME))
        except UsageError as error:
            answers.append(str(error))
    for other in (replace(ME, role="guest"), replace(ME, role="user", direct=False)):
        with pytest.raises(UsageError) as caught:
            await schedule.say("", other)
        answers.append(str(caught.value))
    assert [left for answer in answers for left in english_left(answer, "lits", "noon")] == []
    assert answers[1] == "已安排 1：“给妈妈打电话”，一次，2026-11-23 周一 09:00 Asia/Shanghai。"
    assert "任务：“有什么新闻”，每个工作日 08:00；下次 2026-11-23 08:00 Asia/Shanghai" in answers[8]


@table(
    "when said",
    (Once(NOW), "一次，2026-11-22 周日 22:00"),
    (Every(7_200, NOW), "每 2 小时"),
    (Every(60, NOW), "每分钟"),
    (Days(2, date(2026, 11, 23), time(9)), "每 2 天 09:00"),
    (Days(14, date(2026, 11, 23), time(9)), "每 2 周的星期一 09:00"),
    (Cron("0 8,18 * * 1,3"), "每星期一、星期三 08:00 和 18:00"),
    (Cron("0 8 L * *"), "每月最后一天 08:00"),
    (Cron("0 8 3 * *"), "每月 3 日 08:00"),
    (Cron("0 8 * * 0,6"), "每个周末 08:00"),
)
def test_a_rule_is_told_as_one_says_it(when: When, said: str) -> None:
    job = ScheduledJob(kind="remind", text="x", when=when, zone="Asia/Shanghai", person="", chat="")
    assert told(job) == said
