"""What is to be done and when: a job, its next due times, and which of them were missed. Nothing here knows a clock.

Due times are instants in UTC. What has a time of day keeps it when the clocks change: a time that is skipped comes when
the clocks have moved on, one that comes twice counts once.
"""

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from msgspec import Meta, Struct
from msgspec.json import decode, encode

from nanobot.bus.events import Errand
from nanobot.errors import UsageError
from nanobot.utils.translation import N_, _, _n, listed, short_weekday_of, together, weekday_of

JobKind = Literal["remind", "ask", "briefing", "watch", "helper"]
MissedPolicy = Literal["once", "skip"]

#: The due time of a job that is never due again, and the time of what has not happened.
NEVER, EVER = datetime(9000, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)


class Once(Struct, frozen=True, tag="once"):
    """At one instant."""

    at: datetime


class Every(Struct, frozen=True, tag="every"):
    """Every so many seconds since `start`, whatever the clocks on the wall do."""

    seconds: Annotated[int, Meta(ge=1)]
    start: datetime


class Days(Struct, frozen=True, tag="days"):
    """Every so many days, from `first` on, at a time of day."""

    number: Annotated[int, Meta(ge=1)]
    first: date
    at: time


class Cron(Struct, frozen=True, tag="cron"):
    """By the five fields of a cron expression."""

    expression: Annotated[str, Meta(pattern=r"^\S+( \S+){4}$")]


When = Once | Every | Days | Cron


class Quiet(Struct, frozen=True):
    """Hours of a day in which nothing comes that runs at intervals, such as from 22:00 to 7:00."""

    begin: time
    end: time

    def __str__(self) -> str:
        return f"{self.begin:%H:%M}-{self.end:%H:%M}"

    def holds(self, at: time) -> bool:
        if self.begin <= self.end:
            return self.begin <= at < self.end
        return at >= self.begin or at < self.end


class ScheduledJob(Struct, frozen=True, kw_only=True):
    """Something to be done at set times.

    `kind`: a reminder, whose `text` is said as it is; a prompt for the agent; a briefing, whose `text` names feeds and
    searches; a watch, whose `text` is what `nanobot.watch` keeps of it; or a helper in the background, whose `text` is
    its errand. `zone` is the IANA name of the zone of its times. `person` is who made it (`telegram:42`), `chat` the
    key of the chat that hears of it, which nobody else reads where it is `direct`. `origin` names the file that it is a
    line of, and the line, if any; `quiet` is empty or hours such as `22:00-07:00`.

    `due` is its next due time, and `at` when that is done: a little later for what is spread. `last` is when it ran,
    `result` how that ended, in one line; `failures` counts those in a row.
    """

    id: int = 0
    kind: JobKind
    text: str
    when: When
    zone: str
    person: str
    chat: str
    direct: bool = True
    missed: MissedPolicy = "once"
    quiet: str = ""
    paused: bool = False
    origin: str = ""
    due: datetime = NEVER
    at: datetime = NEVER
    last: datetime = EVER
    result: str = ""
    failures: int = 0

    @property
    def title(self) -> str:
        """What it is about."""
        if self.kind == "briefing" and not self.text:
            return _("what you watch")
        return self.errand.task if self.kind == "helper" else self.text

    @property
    def errand(self) -> Errand:
        return decode(self.text, type=Errand)

    @property
    def place(self) -> tzinfo:
        return zone_named(self.zone)

    def local(self, at: datetime) -> datetime:
        """A time as the person of the job reads it; in UTC where this machine does not know the zone."""
        try:
            return at.astimezone(self.place)
        except UsageError:
            return at.astimezone(UTC)


def zone_named(name: str) -> tzinfo:
    """The zone of an IANA name. Raises `UsageError`."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # a name that is a path, a folder, or none
        raise UsageError(_("There is no time zone {name!r}. Write one such as Europe/Berlin.", name=name)) from None


def written(when: When) -> str:
    """A rule as it is kept."""
    return encode(when).decode()


def quiet_hours(text: str) -> Quiet:
    """Hours such as `22-7` or `22:30-06:00`. Raises `UsageError`."""
    begin, _dash, end = text.replace("–", "-").partition("-")
    try:
        made = Quiet(_clock(begin), _clock(end))
    except ValueError:
        raise UsageError(_("{text!r} are no hours. Write them such as 22-7 or 22:30-6:45.", text=text)) from None
    if made.begin == made.end:
        raise UsageError(_("Quiet hours begin and end at different times, such as 22-7."))
    return made


def _clock(text: str) -> time:
    hour, _colon, minute = text.strip().partition(":")
    return time(int(hour) % 24, int(minute or 0)) if int(hour) <= 24 else time(99)


#: Seconds of a unit, and what is said of a rule that comes every one or several of them.
_EVERY = (
    (604_800, N_("every week"), N_("every {number} weeks")),
    (86_400, N_("every day"), N_("every {number} days")),
    (3_600, N_("every hour"), N_("every {number} hours")),
    (60, N_("every minute"), N_("every {number} minutes")),
    (1, N_("every second"), N_("every {number} seconds")),
)


def told(job: ScheduledJob) -> str:
    """When a job runs, in words."""
    match job.when:
        case Once():
            at = job.local(job.when.at)
            return _("once, {day} {time:%d %b %Y %H:%M}", day=short_weekday_of(at), time=at)
        case Every():
            size, one, several = next(unit for unit in _EVERY if job.when.seconds % unit[0] == 0)
            number = job.when.seconds // size
            return _(one) if number == 1 else _(several, number=number)
        case Days() as rule if rule.number % 7:
            return _n(
                "every {number} day at {time:%H:%M}", "every {number} days at {time:%H:%M}", rule.number, time=rule.at
            )
        case Days():
            return _n(
                "every {number} week on {day} at {time:%H:%M}",
                "every {number} weeks on {day} at {time:%H:%M}",
                job.when.number // 7,
                day=weekday_of(job.when.first),
                time=job.when.at,
            )
        case Cron():
            return _cron_told(job.when.expression)


#: A Sunday, with which cron begins to count.
_SUNDAY = date(2026, 1, 4)
#: Days of the week, as cron has them → what is said of a rule for them.
_ON_DAYS = {
    "*": N_("every day at {times}"),
    "1-5": N_("every weekday at {times}"),
    "0,6": N_("every weekend day at {times}"),
}


def _cron_told(expression: str) -> str:
    """The common rules in words, the others as they are."""
    minute, hours, day, month, weekday = expression.split()
    some = [one for one in weekday.split(",") if one.isdigit() and int(one) <= 7]
    known = weekday in _ON_DAYS or len(some) == len(weekday.split(","))
    if not minute.isdigit() or not hours.replace(",", "").isdigit() or month != "*" or not known:
        return f"cron {expression}"
    times = together(f"{int(hour):02}:{int(minute):02}" for hour in hours.split(","))
    if day == "*" and weekday in _ON_DAYS:
        return _(_ON_DAYS[weekday], times=times)
    if day == "*":
        names = listed(weekday_of(_SUNDAY + timedelta(days=int(one))) for one in some)
        return _("every {days} at {times}", days=names, times=times)
    if weekday == "*" and day == "L":
        return _("every month on the last day at {times}", times=times)
    if weekday == "*" and day.replace(",", "").isdigit():
        return _("every month on day {day} at {times}", day=together(day.split(",")), times=times)
    return f"cron {expression}"
