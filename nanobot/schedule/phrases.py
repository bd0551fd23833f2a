"""What people write of times, such as "every weekday at 8" or 明天早上八点, as rules of a schedule.

Nothing is guessed where two readings are as good: who asked is told what was understood, and how to write it.
"""

import calendar
import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from msgspec import Struct, field

from nanobot.errors import UsageError
from nanobot.schedule.due import cron, instant
from nanobot.schedule.job import Cron, Days, Every, Once, When
from nanobot.schedule.vocabulary import PART_HOURS, UNIT_SECONDS, Token, tokens
from nanobot.utils.translation import N_, _, listed, sentences, weekday_of

#: The time of a day that is named without one.
_HOUR = 9
_HOW = N_(
    'Write it such as "every weekday at 8", "tomorrow at 9:30", "in 20 minutes", "every 2 hours", '
    '"on 3 December at 18:00", "2026-12-03 18:00", or as a cron expression "0 8 * * 1-5".'
)
_CRON = re.compile(
    r"(?:cron\s*:?\s*)?((?:[\d*/,\-]+\s+){2}[\dlL*/,\-]+\s+[\d*/,\-a-zA-Z]+\s+[\d*/,\-a-zA-Z#]+)(?=\s|$|:)"
)
_LEAD = re.compile(
    r"\s*(?:please\s+)?(?:remind(?:er| me)?|erinnere? mich(?: daran)?|提醒我?|请提醒我|rappelle-moi|recuérdame)"
    r"(?![a-zà-ÿ])[\s,:：]*",
    re.IGNORECASE,
)
_JOINT = re.compile(r"[\s:：,，\-–—.。]*(?:(?:to|that|an|daran,?|dass|zu|de|que|说)\s+|提醒我|に)?", re.IGNORECASE)
#: Most words that tell a time, so that a long line of them is not read over and over.
_MOST_WORDS = 40
_NOT_TEXT = frozenset(("filler", "and", "to"))
_OF_A_DAY = frozenset(("second", "minute", "hour"))
#: Words that tell when on a day it is, so that a time at the end of the line belongs to what is to be done.
_CLOCKED = frozenset(("time", "number", "amount", "part", "day part", "weekday part", "in", "later"))
_AT = re.compile("at |by |around |um |gegen |ab |à |a las? |@")
#: A number that goes on behind a word that tells a time, such as 5 in 9:5.
_GLUED = re.compile(r"\d([:.])\d")
_NO_HOUR = N_("Hours go from 0 to 23, with am or pm from 1 to 12, and minutes from 00 to 59.")


class _Facts(Struct):
    """What the words of a phrase say, put together."""

    every: bool = False
    other: bool = False
    interval: tuple[int, str] | None = None
    interval_text: str = ""
    offset: int = 0
    far: tuple[int, str] | None = None
    day: int | None = None
    weekdays: list[int] = field(default_factory=list)
    known_days: str = ""
    weekend: bool = False
    next_week: bool = False
    coming: bool = False
    date: tuple[int, int, int] | None = None
    day_of_month: int = 0
    last_day: bool = False
    times: list[tuple[int, int, bool]] = field(default_factory=list)
    part: str = ""


def understand(phrase: str, now: datetime, zone: tzinfo) -> When:
    """What a whole phrase means for somebody in `zone`. Raises `UsageError` that says what was understood."""
    text = _plain(phrase.strip())
    if (found := _CRON.match(text)) and found.end() == len(text):
        return cron(found[1].upper())
    words = tokens(text)
    unknown = [word.text for word in words if word.kind == "other"]
    if unknown or not words:
        known = [word.text for word in words if word.kind not in ("other", *_NOT_TEXT)]
        read = _("I found no time in that.")
        if known:
            read = _("I understood {known}, and not {unknown}.", known=_quoted(known), unknown=_quoted(unknown))
        raise _unclear(read)
    return _meaning(words, now.astimezone(zone), zone)


def split(line: str, now: datetime, zone: tzinfo) -> tuple[When, str]:
    """The time that a line begins or ends with, and the rest of it. Raises `UsageError`."""
    lead = _LEAD.match(line)
    rest = _day_and_time(line[lead.end() :] if lead else line.strip())
    text = _plain(rest)
    if found := _CRON.match(text):
        return cron(found[1].upper()), _rest(rest[found.end() :])
    words = tokens(text)
    local = now.astimezone(zone)
    problem = ""
    for run in (*_beginnings(words), *_ends(words)):
        if all(word.kind in ("number", *_NOT_TEXT) for word in run):
            continue  # "buy 2" tells no time
        glued = _GLUED.match(text, run[-1].end - 1)
        if glued and glued[1] == ".":
            continue  # "3.5 km"
        _judge_existing(run, glued=glued is not None)
        try:
            when = _meaning(run, local, zone)
        except UsageError as error:
            problem = problem or str(error)
            continue
        before, after = rest[: run[0].begin].strip(), rest[run[-1].end :]
        said = before.rstrip(" ,:：-–—") if before else _rest(after)
        return when, said
    raise UsageError(problem) if problem else _unclear(_("I found no time in that."))


def _day_and_time(line: str) -> str:
    """The line with a time that it ends with beside the day that it begins with: "tomorrow call mum at 9"."""
    words = tokens(_plain(line))
    day = next(iter(_beginnings(words)), ())
    tail = words[-2:] if words and words[-1].kind == "part" else words[-1:]
    if not day or tail[0].kind != "time" or not _AT.match(tail[0].text) or tail[0] in day:
        return line
    if any(word.kind in _CLOCKED for word in day) or sum(word.kind == "time" for word in words) > 1:
        return line
    place = tail[0].begin
    return " ".join((line[: day[-1].end], line[place:], line[day[-1].end : place].rstrip(" ,")))


def _beginnings(words: Sequence[Token]) -> list[Sequence[Token]]:
    """The runs of known words from the first one on, the longest first."""
    end = next((place for place, word in enumerate(words) if word.kind == "other"), len(words))
    lasts = range(min(end, _MOST_WORDS), 0, -1)
    return [words[:last] for last in lasts if words[last - 1].kind not in _NOT_TEXT and not _parts(words, last)]


def _parts(words: Sequence[Token], place: int) -> bool:
    """Whether a number stands before the place, and its unit behind."""
    return words[place - 1].kind == "number" and place < len(words) and words[place].kind == "unit"


def _ends(words: Sequence[Token]) -> list[Sequence[Token]]:
    """The runs of known words up to the last one, the longest first."""
    begin = max((place + 1 for place, word in enumerate(words) if word.kind == "other"), default=0)
    begin = max(begin, len(words) - _MOST_WORDS)
    firsts = range(max(begin, 1), len(words))
    return [words[first:] for first in firsts if words[first].kind != "and" and not _parts(words, first)]


def _judge_existing(words: Sequence[Token], *, glued: bool) -> None:  # English: kinds of words
    """Raises `UsageError` where words name a time or a day that does not exist: fewer of them are not meant then."""
    if glued:
        raise _unclear(_(_NO_HOUR))
    told = False
    for place, word in enumerate(words):
        before = [known.kind for known in words[max(0, place - 2) : place]]
        match word.kind:
            case "time" if (int(word.value[0]) > 23 or int(word.value[1]) > 59) and not (
                told and re.fullmatch(r"\D+\d+", word.text)  # "at 9 at 221 Baker Street"
            ):
                raise _unclear(_(_NO_HOUR))
            case "day of month" if not 1 <= word.number <= 31:
                raise _unclear(_("No month has a day {number}.", number=word.number))
            case "date" if int(word.value[1]) >= 0:
                year, month, day = map(int, word.value)
                _real(year or 2028, month, day)
            case "unit" if word.text == "h" and before[:1] == ["day"] and words[place - 1].number > 23:
                raise _unclear(_(_NO_HOUR))  # "demain 25h"
        told = told or word.kind in ("time", "amount") or (word.kind == "unit" and word.name in _OF_A_DAY)


def _rest(text: str) -> str:
    joint = _JOINT.match(text)
    return text[joint.end() if joint else 0 :].strip()


def _plain(text: str) -> str:
    """The text in small letters and plain forms, every sign at its place."""

    def plain(sign: str) -> str:
        form = unicodedata.normalize("NFKC", sign).lower()
        return form if len(form) == 1 else sign

    return "".join(map(plain, text))


def _quoted(words: Sequence[str]) -> str:
    return listed(f'"{word}"' for word in words[:6])


def _unclear(problem: str) -> UsageError:
    """Why a phrase is not understood, and how to write it."""
    return UsageError(sentences(problem, _(_HOW)))


def _meaning(words: Sequence[Token], now: datetime, zone: tzinfo) -> When:
    """The rule that known words tell together; `now` is the time of the person. Raises `UsageError`."""
    _judge_existing(words, glued=False)
    facts = _facts(words)
    if any(hour > 23 for hour, _minute, _sure in facts.times):
        raise _unclear(_(_NO_HOUR))
    try:
        return _rule(facts, now, zone)
    except OverflowError:
        raise _unclear(_("No calendar reaches so far.")) from None


def _rule(facts: _Facts, now: datetime, zone: tzinfo) -> When:
    if facts.interval is not None:
        return _repeated(facts, *facts.interval, now)
    if facts.other and len(facts.weekdays) == 1:
        return _repeated(facts, 2, "week", now)
    if facts.every or facts.known_days:
        return _by_calendar(facts)
    return _once(facts, now, zone)


# Words


def _facts(words: Sequence[Token]) -> _Facts:
    facts, place = _Facts(), 0
    while place < len(words):
        taken = _amount(facts, words, place) or _weekdays(facts, words, place)
        if not taken:
            _take(facts, words[place], words[place - 1] if place else None)
        place += taken or 1
    return facts


def _amount(facts: _Facts, words: Sequence[Token], place: int) -> int:
    """Read a number with its unit, such as `20 minutes`; how many words that were."""
    here = words[place]
    if here.kind == "amount":
        return _kept_amount(facts, words, place, 1, (here.number, "second"))
    if here.kind not in ("number", "unit"):
        return 0
    number, length = (here.number, 1) if here.kind == "number" else (1, 0)
    while place + length < len(words) and words[place + length].kind == "filler":
        length += 1
    unit = words[place + length] if place + length < len(words) else None
    if unit is None or unit.kind != "unit":
        return 0
    return _kept_amount(facts, words, place, length + 1, (number, unit.name))


def _kept_amount(facts: _Facts, words: Sequence[Token], place: int, length: int, amount: tuple[int, str]) -> int:
    number, unit = amount
    text = " ".join(word.text for word in words[place : place + length])
    before = words[place - 1] if place else None
    after = words[place + length] if place + length < len(words) else None
    if after is not None and after.kind == "each":
        facts.interval, facts.interval_text = amount, text
        return length + 1
    later = after is not None and after.kind == "later"
    if before is not None and before.kind == "next" and unit == "week":
        facts.next_week = True
        return length
    if not later and facts.every and facts.interval is None and not facts.offset:
        facts.interval, facts.interval_text = (number * (2 if facts.other else 1), unit), text
    elif later or facts.far is not None or (before is not None and before.kind == "in"):
        if unit in ("month", "year"):
            months, years = (
                _("Name the date instead of a number of months."),
                _("Name the date instead of a number of years."),
            )
            raise _unclear(months if unit == "month" else years)
        facts.offset += number * UNIT_SECONDS[unit]
        facts.far = amount
    elif unit == "day" and (facts.day_of_month or facts.last_day):
        pass
    elif text.endswith("h") and (facts.day is not None or facts.date or facts.weekdays or facts.every):
        facts.times.append((number, 0, True))  # "tomorrow 14h"
    else:
        raise _unclear(_('"{time}" could be a pause or a rule: write "in" or "every".', time=text))
    return length + later


def _weekdays(facts: _Facts, words: Sequence[Token], place: int) -> int:
    """Read days of the week from one to another; how many words that were."""
    between = words[place : place + 3]
    kinds = [word.kind for word in between]
    spanish = kinds == ["weekday", "number", "weekday"] and len(between[1].text) == 1  # de lunes a viernes
    if kinds != ["weekday", "to", "weekday"] and not spanish:
        return 0
    first, last = (between[0].number, between[2].number)
    facts.known_days = f"{first}-{last}" if first < last else f"{first}-6,0" + (f"-{last}" if last else "")
    return 3


def _take(facts: _Facts, word: Token, before: Token | None) -> None:
    """Read one word by itself."""
    after_every = before is not None and before.kind == "every"
    match word.kind:
        case "every":
            facts.every, facts.other = True, word.number == 2
        case "rate":
            facts.every, facts.interval, facts.interval_text = True, (1, word.name), word.text
        case "time" | "number":
            _take_time(facts, word, before)
        case "part":
            facts.part = word.name
        case "day" if word.number == 1 and after_every:
            facts.part = "morning"  # "jeden Morgen"
        case "later" | "each":
            raise _unclear(_("Say how much later."))
        case _:
            _take_day(facts, word, before)


def _take_time(facts: _Facts, word: Token, before: Token | None) -> None:
    if word.kind == "time":
        hour, minute, sure = word.value
        facts.times.append((int(hour), int(minute), bool(sure)))
        return
    if facts.times and (before is None or before.kind != "and"):
        raise _unclear(_("A second number says nothing by itself."))
    facts.times.append((word.number, 0, word.number > 12))


def _take_day(facts: _Facts, word: Token, before: Token | None) -> None:  # English: kinds of words
    """Read a word that tells the day."""
    match word.kind:
        case "day":
            facts.day = word.number
        case "day part":
            facts.day, facts.part = word.number, str(word.value[1])
        case "weekday part":
            facts.weekdays.append(word.number)
            facts.part = str(word.value[1])
        case "weekday" | "weekday of next week":
            facts.weekdays.append(word.number)
            facts.next_week = facts.next_week or word.kind != "weekday"
            facts.coming = facts.coming or (before is not None and before.kind == "next")
        case "weekdays":
            facts.known_days = ",".join(filter(None, (facts.known_days, word.name)))
        case "weekend":
            facts.weekend = True
        case "date":
            year, month, day = map(int, word.value)
            facts.date = (year, month, day)
        case "day of month":
            facts.day_of_month = word.number
        case "last day":
            facts.last_day = True
        case _:
            return


# Rules


def _clock(facts: _Facts) -> list[time]:
    """The times of day of a phrase."""
    if not facts.times:
        return [time(PART_HOURS[facts.part]) if facts.part else time(_HOUR)]
    return [time(hour if sure else _in_part(hour, facts.part), minute) for hour, minute, sure in facts.times]


def _in_part(hour: int, part: str) -> int:
    """The hour of a part of the day: 8 in the evening is 20."""
    if part in ("afternoon", "evening") and hour < 12:
        return hour + 12
    if part == "night":
        return hour + 12 if 5 < hour < 12 else hour % 12
    if part == "noon" and hour < 5:
        return hour + 12
    return hour % 12 if part == "midnight" else hour


def _one_clock(facts: _Facts) -> time:
    clock = _clock(facts)
    if len(clock) > 1:
        times = listed(f"{one:%H:%M}" for one in clock)
        raise _unclear(_("I read the times {times}; one of them can be meant.", times=times))
    return clock[0]


def _cron(facts: _Facts, day: str, month: str, weekday: str) -> Cron:
    clock = _clock(facts)
    if len({one.minute for one in clock}) > 1:
        raise UsageError(_("Times with different minutes are rules of their own: write them one by one."))
    hours = ",".join(str(hour) for hour in sorted({one.hour for one in clock}))
    return cron(f"{clock[0].minute} {hours} {day} {month} {weekday}")


def _on(facts: _Facts) -> str:
    """The days of the week, as cron has them; empty for none."""
    if facts.known_days:
        return facts.known_days
    if facts.weekend:
        return "0,6"
    return ",".join(map(str, sorted(set(facts.weekdays))))


def _repeated(facts: _Facts, number: int, unit: str, now: datetime) -> When:
    """Every so many of a unit."""
    if number < 1:
        raise _unclear(_('"{time}" is no interval.', time=facts.interval_text))
    if unit in _OF_A_DAY:
        if facts.times or facts.part or facts.date or _on(facts):
            every = facts.interval_text
            raise _unclear(_('"{time}" has no time of day. For hours of a day, a cron expression says it.', time=every))
        return Every(number * UNIT_SECONDS[unit], now.astimezone(UTC))
    if unit == "month" and number == 1 and (facts.day_of_month or facts.last_day):
        return _cron(facts, "L" if facts.last_day else str(facts.day_of_month), "*", "*")
    if unit == "year" and number == 1 and facts.date is not None:
        return _yearly(facts)
    if unit in ("month", "year"):
        raise _unclear(_('Name the day: "every month on the 1st at 9", "every year on 3 December".'))
    on = _on(facts)
    if number == 1:
        return _cron(facts, "*", "*", on or ("*" if unit == "day" else str(now.isoweekday() % 7)))
    return _days(facts, number * (7 if unit == "week" else 1), on, now)


def _days(facts: _Facts, number: int, on: str, now: datetime) -> Days:
    """Every so many days, from the next day on that fits."""
    at = _one_clock(facts)
    if on and (not on.isdigit() or number % 7):
        raise _unclear(_("Every {number} days cannot be on those days of the week.", number=number))
    first = now.date() if at > now.time() else now.date() + timedelta(days=1)
    while on and first.isoweekday() % 7 != int(on):
        first += timedelta(days=1)
    return Days(number, first, at)


def _by_calendar(facts: _Facts) -> When:
    """Every one of the days that are named."""
    on = _on(facts)
    if facts.other and on.isdigit():
        raise _unclear(_('Say "every 2 weeks" with the day.'))
    if facts.date is not None:
        return _yearly(facts)
    if facts.day_of_month or facts.last_day:
        return _cron(facts, "L" if facts.last_day else str(facts.day_of_month), "*", "*")
    if on or facts.part or facts.times:
        return _cron(facts, "*", "*", on or "*")
    raise _unclear(_("Every what?"))


def _yearly(facts: _Facts) -> Cron:
    year, month, day = facts.date or (0, 0, 0)
    if year:
        raise _unclear(_("A year that is named comes once."))
    _real(2028, month, day)
    return _cron(facts, str(day), str(month), "*")


def _once(facts: _Facts, now: datetime, zone: tzinfo) -> Once:
    if facts.far is not None and not (facts.times or facts.part):
        return Once(now.astimezone(UTC) + timedelta(seconds=facts.offset))
    at = _one_clock(facts)
    day = _day(facts, now, at)
    if day is not None:
        made = instant(datetime.combine(day, at), zone)
        if made <= now:
            past = _("{weekday} {day} {time:%H:%M} is past.", weekday=weekday_of(day), day=day, time=at)
            raise _unclear(past)
        return Once(made)
    if not (facts.times or facts.part):
        raise _unclear(_("I found no time in that."))
    _judge_half(facts, at, now)
    today = instant(datetime.combine(now.date(), at), zone)
    return Once(today if today > now else instant(datetime.combine(now.date() + timedelta(days=1), at), zone))


def _judge_half(facts: _Facts, at: time, now: datetime) -> None:
    """Raises `UsageError` where an hour without its half of the day may be one of today or of tomorrow."""
    sure = facts.part or not facts.times or facts.times[0][2]
    if not sure and at <= now.time() and at.hour < 12 and at.replace(hour=at.hour + 12) > now.time():
        later = at.replace(hour=at.hour + 12)
        raise UsageError(
            _(
                '{time:%H:%M} of today is past. Write "at {later:%H:%M}" for today, or "tomorrow at {time:%H:%M}".',
                time=at,
                later=later,
            )
        )


def _day(facts: _Facts, now: datetime, at: time) -> date | None:
    """The day that a phrase names, None where it names none. Raises `UsageError`."""
    today = now.date()
    if facts.date is not None:
        return _dated(facts.date, now, at)
    if facts.far is not None:
        return today + timedelta(days=facts.offset // 86_400)
    if facts.weekdays:
        return _on_weekday(facts, now, at)
    if facts.weekend:
        return today + timedelta(days=(6 - now.isoweekday() % 7) % 7)
    if facts.next_week:
        return today + timedelta(days=7)
    if facts.last_day or facts.day_of_month:
        return _in_month(facts, now, at)
    return today + timedelta(days=facts.day) if facts.day is not None else None


def _on_weekday(facts: _Facts, now: datetime, at: time) -> date:
    if len(set(facts.weekdays)) > 1:
        raise _unclear(_('Several days: write "every" for a rule, or one day.'))
    ahead = (facts.weekdays[0] - now.isoweekday()) % 7
    if facts.next_week:
        monday = now.date() + timedelta(days=8 - now.isoweekday())
        return monday + timedelta(days=(facts.weekdays[0] - 1) % 7)
    if ahead == 0 and (facts.coming or at <= now.time()):
        ahead = 7
    return now.date() + timedelta(days=ahead)


def _in_month(facts: _Facts, now: datetime, at: time) -> date:
    """The next day of that number."""
    year, month = now.year, now.month
    while True:
        last = calendar.monthrange(year, month)[1]
        day = last if facts.last_day else facts.day_of_month
        if day <= last and (date(year, month, day), at) > (now.date(), now.time()):
            return date(year, month, day)
        year, month = (year + 1, 1) if month == 12 else (year, month + 1)


def _dated(given: tuple[int, int, int], now: datetime, at: time) -> date:
    year, month, day = given
    if month < 0:
        raise UsageError(
            _("That date has two readings, day/month and month/day. Write it such as 3 December or 2026-12-03.")
        )
    made = _real(year or (2028 if (month, day) == (2, 29) else now.year), month, day)
    if not year and (made, at) <= (now.date(), now.time()):
        made = _real(made.year + 1, month, day)
    return made


def _real(year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except ValueError:
        if year == 2028:
            raise _unclear(_("There is no day {day} in month {month}.", day=day, month=month)) from None
        none = _("There is no day {day} in month {month} of {year}.", day=day, month=month, year=year)
        raise _unclear(none) from None
