"""What people write of times is understood, in three languages, kept by its rules, and told as one says it."""

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from nanobot.errors import UsageError
from nanobot.schedule.appointments import Appointments, Who
from nanobot.schedule.due import cron, done_at, due_times, judge, missed
from nanobot.schedule.job import Cron, Days, Every, JobKind, Once, ScheduledJob, When, quiet_hours, told
from nanobot.schedule.lines import split
from nanobot.schedule.phrases import understand
from nanobot.schedule.store import JobStore
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import MemoryDatabase
from tests.fakes.chinese import english_left
from tests.tables import table

ZONE = ZoneInfo("Europe/Berlin")
#: A Sunday.
NOW = datetime(2026, 11, 22, 15, 0, tzinfo=ZONE)
PHRASES = [
    json.loads(line) for line in (Path(__file__).parent / "phrases.jsonl").read_text(encoding="utf-8").splitlines()
]
#: A line, what its time means ("?" where it is refused), and what is left to be done.
LINES = [line.split("\t") for line in (Path(__file__).parent / "lines.tsv").read_text(encoding="utf-8").splitlines()]
NO_HOURS = (
    *(
        "tomorrow at 25:00 tea",
        "tea at 25:00 tomorrow",
        "every day at 25",
        "tomorrow at 9:75 tea",
        "tomorrow at 9:5 tea",
    ),
    *(
        "tomorrow at 9:5 tea",
        "tomorrow at 9:305 tea",
        "tomorrow at 9.75 tea",
        "tomorrow at 0 am tea",
        "tomorrow half past 25 tea",
    ),
    *("tomorrow 25 o'clock tea", "next week at 25 tea", "25 Uhr Tee", "morgen halb 25 Tee", "明天二十五点开会"),
    "明天早上8点75分开会",
)
NO_DAYS = (
    *("at 9 on 31 February tea", "every 31 April tea", "on 29 February 2027 tea", "2027-00-10 tea"),
    *("on the 0th at 9 tea", "every month on the 32nd at 9 tea", "am 31.2. um 9 Tee", "每月32号9点付款"),
)


def shown(when: When) -> str:
    match when:
        case Once():
            local = when.at.astimezone(ZONE)
            return local.strftime("%Y-%m-%dT%H:%M:%S" if local.second else "%Y-%m-%dT%H:%M")
        case Every():
            return f"every {when.seconds}"
        case Days():
            return f"days {when.number} {when.first} {when.at:%H:%M}"
        case Cron():
            return f"cron {when.expression}"


def understood(phrase: str) -> str:
    try:
        return shown(understand(phrase, NOW, ZONE))
    except UsageError:
        return "?"


@pytest.mark.parametrize("row", PHRASES, ids=[row["phrase"] for row in PHRASES])
def test_U65_a_phrase_means_what_its_writer_means(row: Mapping[str, str]) -> None:
    assert understood(row["phrase"]) == row["means"]


def test_a_line_is_its_time_and_what_is_to_be_done() -> None:
    def parts(line: str) -> list[str]:
        try:
            when, text = split(line, NOW, ZONE)
        except UsageError:
            return ["?", ""]
        return ["?", ""] if when is None else [shown(when), text]

    assert [[line, *parts(line)] for line, _means, _text in LINES] == LINES


@pytest.mark.parametrize("line", NO_HOURS)
def test_an_hour_or_a_minute_that_does_not_exist_is_refused(line: str) -> None:
    with pytest.raises(UsageError, match=r"^Hours go from 0 to 23, .*Write it such as"):
        split(line, NOW, ZONE)


@pytest.mark.parametrize("line", NO_DAYS)
def test_a_day_that_does_not_exist_is_refused(line: str) -> None:
    with pytest.raises(UsageError, match=r"^(There is no day|No month has a day) \d"):
        split(line, NOW, ZONE)


def test_the_29th_of_february_is_the_next_one_there_is() -> None:
    for begin, end in ((date(2027, 3, 1), 2028), (date(2028, 3, 1), 2032), (date(2096, 3, 1), 2104)):
        when, _text = split("on 29 February tea", datetime.combine(begin, time(), ZONE), ZONE)
        assert when is not None
        assert shown(when) == f"{end}-02-29T09:00"


def test_a_number_alone_is_no_time() -> None:
    assert split("paus 2", NOW, ZONE) == (None, "paus 2")


def test_what_is_not_understood_is_answered_with_what_was_and_how_to_write_it() -> None:
    with pytest.raises(
        UsageError, match=r'understood "every", and not "blue", "moon".*Write it such as "every weekday'
    ):
        understand("every blue moon", NOW, ZONE)
    with pytest.raises(UsageError, match=r'Write "at 20:00" for today, or "tomorrow at 08:00"'):
        understand("at 8", NOW, ZONE)
    ones, midnights = ("tonight at 1", "今晚1点", "tomorrow night at 1"), ("tonight at midnight", "midnight tonight")
    for number, phrase in [*((1, one) for one in ones), *((0, one) for one in (*midnights, "every night at midnight"))]:
        with pytest.raises(UsageError, match=rf'such as "tomorrow at 0{number}:00"'):
            understand(phrase, NOW, ZONE)


#: A zone, the days of 2026 on which its clocks go ahead and back, and a time that is skipped or comes twice.
CHANGES = [
    ("Europe/Berlin", date(2026, 3, 29), date(2026, 10, 25), time(2, 30)),
    ("America/New_York", date(2026, 3, 8), date(2026, 11, 1), time(1, 30)),
    ("Australia/Lord_Howe", date(2026, 10, 4), date(2026, 4, 5), time(1, 45)),  # by half an hour
]


def job(when: When, zone: str = "Europe/Berlin", kind: JobKind = "remind", **others: object) -> ScheduledJob:
    made = ScheduledJob(kind=kind, text="x", when=when, zone=zone, person="telegram:1", chat="telegram:1")
    return replace(made, **others)


def dues(one: ScheduledJob, after: datetime, number: int) -> list[datetime]:
    return [due.astimezone(one.place) for due in islice(due_times(one, after), number)]


@pytest.mark.parametrize(("zone", "ahead", "back", "hour"), CHANGES)
@pytest.mark.parametrize("rule", ["cron", "days"])
def test_U65_what_has_a_time_of_day_comes_once_a_day_over_both_changes(
    zone: str, ahead: date, back: date, hour: time, rule: str
) -> None:
    for day in (ahead, back):
        for at in (hour, time(2, 30), time(12)):
            first = day - timedelta(days=2)
            when = cron(f"{at.minute} {at.hour} * * *") if rule == "cron" else Days(1, first, at)
            start = datetime.combine(first, time(), ZoneInfo(zone))
            found = dues(job(when, zone), start, 5)
            assert [due.date() for due in found] == [first + timedelta(days=number) for number in range(5)]
            for due in found:
                skipped = datetime.combine(due.date(), at, due.tzinfo).astimezone(UTC).astimezone(due.tzinfo)
                assert due.time() == at or skipped.time() != at, "only a time that the clocks skip comes later"
                assert due.time() >= at
                assert due.fold == 0, "of two the first one"
            assert dues(job(when, zone), found[2], 1) == found[3:4], "also when asked from there on"


@pytest.mark.parametrize(("zone", "ahead", "back"), [one[:3] for one in CHANGES])
def test_U65_what_runs_at_intervals_runs_by_the_time_that_passes(zone: str, ahead: date, back: date) -> None:
    for day in (ahead, back):
        start = datetime.combine(day, time(), ZoneInfo(zone)).astimezone(UTC)
        for when in (Every(1_800, start), Cron("*/30 * * * *")):
            found = [due.astimezone(UTC) for due in dues(job(when, zone), start, 20)]
            assert found == [start + timedelta(minutes=30 * number) for number in range(1, 21)]


def test_the_zone_of_an_entry_stays_when_its_person_travels() -> None:
    after = datetime(2026, 11, 22, tzinfo=UTC)
    here, there = (dues(job(cron("0 8 * * *"), zone), after, 1)[0] for zone in ("Europe/Berlin", "Asia/Tokyo"))
    assert here - there == timedelta(hours=8) - timedelta(hours=24) * (here < there)


def test_tasks_on_a_full_hour_are_spread_and_reminders_are_not() -> None:
    due = datetime(2026, 11, 23, 7, tzinfo=UTC)
    when, times = cron("0 8 * * *"), set()
    for number in range(50):
        assert done_at(job(when, id=number), due) == due
        times.add(done_at(job(when, kind="ask", id=number), due) - due)
        assert done_at(job(when, kind="ask", id=number), due) == done_at(job(when, kind="ask", id=number), due)
    assert len(times) > 40
    assert min(times) >= timedelta(0)
    assert max(times) < timedelta(minutes=4)
    assert done_at(job(Once(due), kind="ask", id=7), due) == due


def test_U55_quiet_hours_hold_back_what_has_no_time_of_day() -> None:
    after = datetime(2026, 11, 22, 20, 30, tzinfo=UTC)  # 21:30
    often = job(Every(3_600, after), quiet="22:00-07:00")
    assert [f"{due:%d %H:%M}" for due in dues(often, after, 3)] == ["23 07:00", "23 07:30", "23 08:30"]
    judge(job(Every(660, after), quiet="22:00-07:00", kind="ask"))
    daily = job(cron("0 23 * * *"), quiet="22:00-07:00")
    assert [f"{due:%d %H:%M}" for due in dues(daily, after, 1)] == ["22 23:00"]
    assert str(quiet_hours("22-7")) == "22:00-07:00"
    for wrong in ("22", "22-22", "25-7", "ten to six"):
        with pytest.raises(UsageError):
            quiet_hours(wrong)


def test_missed_runs_are_counted_and_made_up_for_by_one_within_a_day() -> None:
    due = datetime(2026, 11, 20, 8, tzinfo=UTC)
    every = job(Every(3_600, due - timedelta(hours=1)), due=due, at=due)
    in_time = missed(every, due + timedelta(seconds=20))
    assert (in_time.run, in_time.count) == (due, 0)
    late = missed(every, due + timedelta(hours=2, minutes=30))
    assert (late.run, late.count) == (due + timedelta(hours=2), 2)
    skipped = missed(job(every.when, due=due, at=due, missed="skip"), due + timedelta(hours=2, minutes=30))
    assert (skipped.run, skipped.count) == (None, 3)
    once = job(Once(due), due=due, at=due)
    assert missed(once, due + timedelta(hours=23)).run == due
    assert missed(once, due + timedelta(hours=25)).run is None
    long_ago = missed(job(Every(60, due), due=due, at=due), due + timedelta(days=30))
    assert (long_ago.count, long_ago.due) == (999, due + timedelta(days=30))


def test_what_never_comes_or_comes_too_often_is_refused() -> None:
    start = datetime(2026, 11, 22, tzinfo=UTC)
    for when, kind in ((Every(30, start), "remind"), (Every(60, start), "ask"), (Cron("* * * * *"), "watch")):
        with pytest.raises(UsageError, match="at most"):
            judge(job(when, kind=kind))  # type: ignore[arg-type]
    for expression in ("0 8 * *", "0 25 * * *", "0 0 31 2 *", "* * * * * *", "x"):
        with pytest.raises(UsageError, match="no cron expression"):
            cron(expression)
    judge(job(Every(60, start)))
    judge(job(Cron("*/5 * * * *"), kind="ask"))


DAY, SHANGHAI = datetime(2026, 11, 22, 14, tzinfo=UTC), ZoneInfo("Asia/Shanghai")
ME = Who("telegram:42", "telegram:42", "owner")
#: One after the other, to the same schedule.
SAID = (
    " | 明天9点 给妈妈打电话 | 明天9点 给妈妈打电话 | do 每个工作日8点：有什么新闻 | "
    "briefing 每周一9点：search: 关键词 | 每2小时 喝水 | quiet 22-7 | quiet | list | missed 1 once | missed 1 skip | "
    "pause 1 | resume 1 | run 2 | remove 2 | pause 9 | remove | resume all | missed | quiet 7-7 | quiet noon | "
    "quiet off | lits | 每1秒 喝水 | 99 99 * * * 喝水 | 30 2 30 2 * 喝水"
).split(" | ")


@pytest.mark.usefixtures("chinese")
async def test_everything_that_a_schedule_answers_is_in_chinese() -> None:
    ledger = Ledger(MemoryDatabase())
    schedule = Appointments(JobStore(ledger), ledger, "Asia/Shanghai", clock=lambda: DAY)
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


@pytest.mark.usefixtures("chinese")
@table(
    "when said",
    (Once(DAY), "一次，2026-11-22 周日 22:00"),
    (Every(7_200, DAY), "每 2 小时"),
    (Every(60, DAY), "每分钟"),
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
