"""What is to be done and when: a job, its next due times, and which of them were missed. Nothing here knows a clock.

Due times are instants in UTC. What has a time of day keeps it when the clocks change: a time that is skipped comes when
the clocks have moved on, one that comes twice counts once.
"""

from datetime import UTC, date, datetime, time, tzinfo
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from msgspec import Meta, Struct
from msgspec.json import decode, encode

from nanobot.bus.events import Errand
from nanobot.errors import UsageError

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
            return "what you watch"
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
        raise UsageError(f"There is no time zone {name!r}. Write one such as Europe/Berlin.") from None


def written(when: When) -> str:
    """A rule as it is kept."""
    return encode(when).decode()


def quiet_hours(text: str) -> Quiet:
    """Hours such as `22-7` or `22:30-06:00`. Raises `UsageError`."""
    begin, _, end = text.replace("–", "-").partition("-")
    try:
        made = Quiet(_clock(begin), _clock(end))
    except ValueError:
        raise UsageError(f"{text!r} are no hours. Write them such as 22-7 or 22:30-6:45.") from None
    if made.begin == made.end:
        raise UsageError("Quiet hours begin and end at different times, such as 22-7.")
    return made


def _clock(text: str) -> time:
    hour, _, minute = text.strip().partition(":")
    return time(int(hour) % 24, int(minute or 0)) if int(hour) <= 24 else time(99)


_UNITS = ((604_800, "week"), (86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def told(job: ScheduledJob) -> str:
    """When a job runs, in words."""
    match job.when:
        case Once():
            return f"once, {job.local(job.when.at):%a %d %b %Y %H:%M}"
        case Every():
            size, unit = next(one for one in _UNITS if job.when.seconds % one[0] == 0)
            number = job.when.seconds // size
            return f"every {unit}" if number == 1 else f"every {number} {unit}s"
        case Days():
            week = job.when.number % 7 == 0
            number = job.when.number // 7 if week else job.when.number
            on = f" on {job.when.first:%A}" if week else ""
            return f"every {number} {'week' if week else 'day'}{'s' * (number > 1)}{on} at {job.when.at:%H:%M}"
        case Cron():
            return _cron_told(job.when.expression)


_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _cron_told(expression: str) -> str:
    """The common rules in words, the others as they are."""
    minute, hours, day, month, weekday = expression.split()
    known = {"*": "every day", "1-5": "every weekday", "0,6": "every weekend day"}
    names = [_DAYS[int(one)] for one in weekday.split(",") if one.isdigit() and int(one) < len(_DAYS)]
    on = known.get(weekday) or (f"every {', '.join(names)}" if names and len(names) == len(weekday.split(",")) else "")
    if not minute.isdigit() or not hours.replace(",", "").isdigit() or month != "*" or not on:
        return f"cron {expression}"
    times = " and ".join(f"{int(hour):02}:{int(minute):02}" for hour in hours.split(","))
    if day == "*":
        return f"{on} at {times}"
    if weekday == "*" and (day.isdigit() or day == "L"):
        return f"every month on {'the last day' if day == 'L' else f'day {day}'} at {times}"
    return f"cron {expression}"
