"""When something is due: the due times of a rule, which of them were missed, and what may not run so often."""

import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice, pairwise, takewhile

from msgspec import Struct
from msgspec.structs import replace

from nanobot.errors import UsageError
from nanobot.schedule.job import EVER, NEVER, Cron, Days, Every, Once, Quiet, ScheduledJob, When, quiet_hours
from nanobot.utils.translation import _, _n

#: The shortest time between two runs: of a reminder, and of what asks a model or reads a page.
SHORTEST, SHORTEST_WORK = timedelta(minutes=1), timedelta(minutes=5)
#: A run that is later than this was missed; one that was missed longer ago is not made up for.
LATE, TOO_LATE = timedelta(minutes=2), timedelta(days=1)
#: Missed runs that are counted; beyond them there are "more than" so many.
MOST_COUNTED = 1_000
#: Seconds over which jobs that fall on a full hour are spread.
_SPREAD = 240


class Missed(Struct, frozen=True):
    """What was due and is past: `run` is the due time that is made up for, None for none; `due` the latest one.

    `count` is for how many of them nothing comes.
    """

    due: datetime
    run: datetime | None
    count: int


def judge(job: ScheduledJob) -> None:
    """Raises `UsageError` for what may not run so often, or never does."""
    shortest = SHORTEST if job.kind == "remind" else SHORTEST_WORK
    plain = replace(job, quiet="")  # what the quiet hours hold back comes at their end, however soon the next one is
    dues = list(islice(due_times(plain, EVER if isinstance(job.when, Once) else _BEGIN), 100))
    if not dues:
        raise UsageError(_("That time never comes. Look at its day and month."))
    if any(later - earlier < shortest for earlier, later in pairwise(dues)):
        minutes = int(shortest.total_seconds() // 60)
        if job.kind == "remind":
            told = _n(
                "A reminder comes at most once in {number} minute.",
                "A reminder comes at most once in {number} minutes.",
                minutes,
            )
        else:
            told = _n(
                "What asks a model or reads a page comes at most once in {number} minute.",
                "What asks a model or reads a page comes at most once in {number} minutes.",
                minutes,
            )
        raise UsageError(told)


#: Any day: how often something runs is judged from it on.
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def next_due(job: ScheduledJob, after: datetime) -> datetime | None:
    """The first due time later than `after`; None where there is none."""
    return next(due_times(job, after), None)


def due_times(job: ScheduledJob, after: datetime) -> Iterator[datetime]:
    """The due times later than `after`, in order."""
    zone = job.place
    quiet = quiet_hours(job.quiet) if job.quiet and runs_at_intervals(job.when) else None
    latest = after
    try:
        for due in _due_times(job.when, zone, after):
            held = _after_quiet(due, zone, quiet) if quiet is not None else due
            if held > latest:
                latest = held
                yield held
    except OverflowError:  # beyond what a calendar holds nothing is due
        return


def runs_at_intervals(when: When) -> bool:
    """Whether a rule names no time of day, so that quiet hours hold it back."""
    return isinstance(when, Every) or (isinstance(when, Cron) and when.expression.split()[1].startswith("*"))


def done_at(job: ScheduledJob, due: datetime) -> datetime:
    """When that which is due is done: a reminder in time, and work at full hours spread by the job's number."""
    if job.kind == "remind" or job.local(due).minute or not isinstance(job.when, Cron | Days):
        return due
    return due + timedelta(seconds=zlib.crc32(str(job.id).encode()) % _SPREAD)


def planned(job: ScheduledJob, after: datetime) -> tuple[datetime, datetime]:
    """The next due time and when it is done, both `NEVER` where there is none."""
    due = next_due(job, after)
    return (due, done_at(job, due)) if due is not None else (NEVER, NEVER)


def missed(job: ScheduledJob, now: datetime) -> Missed:
    """What of a job that is due has to be done now, and what was missed."""
    dues = takewhile(lambda due: done_at(job, due) <= now, due_times(job, job.due))
    past = [job.due, *islice(dues, MOST_COUNTED)]
    if len(past) > MOST_COUNTED:  # what runs so often has run in the last days
        recent = takewhile(lambda due: done_at(job, due) <= now, due_times(job, max(past[-1], now - 2 * TOO_LATE)))
        past += islice(recent, 10 * MOST_COUNTED)
    latest = past[-1]
    in_time = now - done_at(job, latest) <= LATE
    wanted = in_time or (job.missed == "once" and now - latest <= TOO_LATE)
    return Missed(latest, latest if wanted else None, min(len(past), MOST_COUNTED) - wanted)


def _due_times(when: When, zone: tzinfo, after: datetime) -> Iterator[datetime]:
    match when:
        case Once():
            if when.at > after:
                yield when.at
        case Every():
            step = timedelta(seconds=when.seconds)
            due = when.start + step * max(1, (after - when.start) // step + 1)
            while due < NEVER:
                yield due
                due += step
        case Days():
            gone = (after.astimezone(zone).date() - when.first).days // when.number - 1
            day = when.first + timedelta(days=max(0, gone) * when.number)
            while day.year < NEVER.year:
                due = instant(datetime.combine(day, when.at), zone)
                if due > after:
                    yield due
                day += timedelta(days=when.number)
        case Cron():
            for due in cron_times(when.expression, after.astimezone(zone)):
                if due > after:  # in the hour that comes twice the first one may lie before
                    yield due


def instant(wall: datetime, zone: tzinfo) -> datetime:
    """The instant of a time on the wall: the first of two, and of a time that the clocks skip the end of the gap."""
    local = wall.replace(tzinfo=zone, fold=0)
    while local.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != local.replace(tzinfo=None):
        local += timedelta(minutes=1)
    return local.astimezone(UTC)


def cron_times(expression: str, after: datetime) -> Iterator[datetime]:
    """The times of a cron expression later than `after`, in its zone."""
    from cronsim import CronSim

    for due in CronSim(cron(expression).expression, after):
        yield due.astimezone(UTC)


def cron(expression: str) -> Cron:
    """A cron expression of five fields. Raises `UsageError` that says what is wrong with it."""
    from cronsim import CronSim, CronSimError

    fields = expression.split()
    if len(fields) != 5:
        parts = _("{cron!r} is no cron expression: it has minute, hour, day, month and weekday.", cron=expression)
        raise UsageError(parts)
    try:
        CronSim(expression, _BEGIN)
    except CronSimError as error:
        why = str(error).lower()
        raise UsageError(_("{cron!r} is no cron expression: {why}.", cron=expression, why=why)) from None
    return Cron(" ".join(fields))


def _after_quiet(due: datetime, zone: tzinfo, quiet: Quiet) -> datetime:
    """The due time, or the end of the quiet hours that it falls into."""
    local = due.astimezone(zone)
    if not quiet.holds(local.time()):
        return due
    day = local.date() + timedelta(days=local.time() >= quiet.end)
    return max(due, instant(datetime.combine(day, quiet.end), zone))
