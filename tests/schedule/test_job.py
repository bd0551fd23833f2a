"""Due times: over the changes of the clocks, in quiet hours, spread over full hours, and missed ones."""

from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from nanobot.errors import UsageError
from nanobot.schedule.due import cron, done_at, due_times, judge, missed
from nanobot.schedule.job import Cron, Days, Every, JobKind, Once, ScheduledJob, When, quiet_hours

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
