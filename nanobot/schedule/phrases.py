"""What people write of times, such as "every weekday at 8" or 明天早上八点, as rules of a schedule.

Nothing is guessed where two readings are as good: who asked is told what was understood, and how to write it.
"""

import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from msgspec import Struct, field

from nanobot.errors import UsageError
from nanobot.schedule.due import cron, cron_times, instant
from nanobot.schedule.job import Cron, Days, Every, Once, When
from nanobot.schedule.vocabulary import ARTICLES, PARTS, UNIT_SECONDS, Token, tokens
from nanobot.utils.translation import N_, _, listed, sentences, weekday_of

#: The time of a day that is named without one.
_HOUR = 9
CRON = re.compile(
    r"(?:cron\s*:?\s*)?((?:[\d*/,\-]+\s+){2}[\dlL*/,\-]+\s+[\d*/,\-a-zA-Z]+\s+[\d*/,\-a-zA-Z#]+)(?=\s|$|:)"
)
#: A date with a time and a zone, as programs and models write it.
ZONED = re.compile(
    r"([1-9]\d{3}-\d{2}-\d{2}[t ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?\s?(?:z|[+-]\d{2}:?\d{2}))(?!\w|:\d)"
)
_HOW = N_(
    'Write it such as "every weekday at 8", "tomorrow at 9:30", "in 20 minutes", "every 2 hours", '
    '"on 3 December at 18:00", "2026-12-03 18:00", or as a cron expression "0 8 * * 1-5", '
    "and what is to be done behind a colon."
)
#: A year that has every day of any other one.
_LEAP_YEAR = 2028
#: Kinds of words between those that tell a time.
NOT_TEXT = frozenset(("filler", "and", "to"))
_OF_A_DAY = frozenset(("second", "minute", "hour"))
_TWO_DAYS = N_("Two different days are named.")
#: The part of the day of a time that has none, so that no other one is taken for it.
_ANY = "any"
_OWN_RULES = N_("Days with different times are rules of their own: write them one by one.")
_ONE_KIND = N_("A rule has days of the week or days of the month, not both.")
_TWO_NIGHTS = N_('A night is of two days: write which of them {time:%H:%M} is of, such as "tomorrow at {time:%H:%M}".')
_MIDNIGHTS = ({"evening", "midnight"}, {"night", "midnight"})
NO_TIME = N_("I found no time in that; I read times in English, German and Chinese.")
NO_HOUR = N_("Hours go from 0 to 23, with am or pm from 1 to 12, and minutes from 00 to 59.")


class _Facts(Struct):
    """What the words of a phrase say, put together."""

    every: bool = False
    other: bool = False
    interval: tuple[int, str] | None = None
    offset: int = 0
    far: tuple[int, str] | None = None
    day: int | None = None
    weekdays: list[int] = field(default_factory=list)
    regular: bool = False
    weekend: bool = False
    next_week: bool = False
    coming: bool = False
    date: tuple[int, int, int] | None = None
    days_of_month: list[int] = field(default_factory=list)
    last_day: bool = False
    times: list[tuple[int, int, int, str]] = field(default_factory=list)
    part: str = ""
    part_alone: bool = False


def understand(phrase: str, now: datetime, zone: tzinfo) -> When:
    """What a whole phrase means for somebody in `zone`. Raises `UsageError` that says what was understood."""
    text = plain(phrase.strip())
    if (found := CRON.match(text)) and found.end() == len(text):
        return cron(found[1].upper())
    if found := ZONED.fullmatch(text):
        return moment(found[1], now)
    words = tokens(text)
    unknown = [word.text for word in words if word.kind == "other"]
    if unknown or not words:
        known = [word.text for word in words if word.kind not in ("other", *NOT_TEXT)]
        read = _(NO_TIME)
        if known:
            read = _("I understood {known}, and not {unknown}.", known=_quoted(known), unknown=_quoted(unknown))
        raise unclear(read)
    return meaning(words, now.astimezone(zone), zone)


def moment(text: str, now: datetime) -> Once:
    """The moment that a text of `ZONED` tells. Raises `UsageError`."""
    try:
        at = datetime.fromisoformat(text.replace(" ", "T", 1).replace(" ", "").upper())
        made = at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise unclear(_(NO_HOUR)) from None
    return Once(_coming(made, at, now))


def plain(text: str) -> str:
    """The text in small letters and plain forms, every sign at its place."""

    def plain_sign(sign: str) -> str:
        form = unicodedata.normalize("NFKC", sign).lower()
        return form if len(form) == 1 else sign

    return "".join(map(plain_sign, text))


def _quoted(words: Sequence[str]) -> str:
    return listed(f'"{word}"' for word in words[:6])


def unclear(problem: str) -> UsageError:
    """Why a phrase is not understood, and how to write it."""
    return UsageError(sentences(problem, _(_HOW)))


def meaning(words: Sequence[Token], now: datetime, zone: tzinfo) -> When:
    """The rule that known words tell together; `now` is the time of the person. Raises `UsageError`."""
    facts = _facts(words)
    if any(hour > 23 or minute > 59 for hour, minute, *_others in facts.times):
        raise unclear(_(NO_HOUR))
    try:
        return _rule(facts, now, zone)
    except OverflowError:
        raise unclear(_("No calendar reaches so far.")) from None


def _rule(facts: _Facts, now: datetime, zone: tzinfo) -> When:
    if facts.interval is not None:
        return _repeated(facts, *facts.interval, now)
    if facts.other and len(facts.weekdays) == 1:
        return _repeated(facts, 2, "week", now)
    if facts.every or facts.regular:
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
    later = any(word.kind == "later" for word in words[place + length :])
    if before is not None and before.kind == "next" and unit == "week":
        facts.next_week = True
        return length
    if not later and facts.every and facts.interval is None and not facts.offset:
        facts.interval = (number * (2 if facts.other else 1), unit)
    elif later or facts.far is not None or (before is not None and before.kind == "in"):
        if unit in ("month", "year"):
            raise unclear(_("Name the date instead of a number of months or years."))
        facts.offset += number * UNIT_SECONDS[unit]
        facts.far = amount
    elif unit == "day" and (facts.days_of_month or facts.last_day):
        pass
    elif text.endswith("h") and (facts.day is not None or facts.date or facts.weekdays or facts.every):
        facts.times.append((number, 0, 1, facts.part))  # "tomorrow 14h"
    else:
        raise unclear(_('"{time}" could be a pause or a rule: write "in" or "every".', time=text))
    return length + (after is not None and after.kind == "later")


def _weekdays(facts: _Facts, words: Sequence[Token], place: int) -> int:
    """Read days of the week from one to another; how many words that were."""
    between = words[place : place + 3]
    kinds = [word.kind.removesuffix("s") for word in between]  # "montags bis freitags"
    if kinds != ["weekday", "to", "weekday"]:
        return 0
    if "1-5" in (between[0].name, between[2].name):
        return 0
    first, last = (between[0].number, between[2].number)
    facts.weekdays += [(first + ahead) % 7 for ahead in range((last - first) % 7 + 1)]
    facts.regular = True
    return 3


def _take(facts: _Facts, word: Token, before: Token | None) -> None:
    """Read one word by itself."""
    after_every = before is not None and before.kind == "every"
    match word.kind:
        case "every":
            facts.every, facts.other = True, word.number == 2
        case "rate":
            facts.every, facts.interval = True, (1, word.name)
        case "time" | "number":
            _take_time(facts, word, before)
        case "part":
            _take_part(facts, word.name, before.kind if before is not None else "")
        case "to" if facts.times:
            raise unclear(_("From one time to another is a while: name one time."))
        case "day" if word.number == 1 and after_every:
            facts.part = "morning"  # "jeden Morgen"
        case "later":
            raise unclear(_("Say how much later."))
        case _:
            if word.kind in ("day part", "weekday part"):
                _take_part(facts, str(word.value[1]), before.kind if before is not None else "")
            _take_day(facts, word, before)


def _take_time(facts: _Facts, word: Token, before: Token | None) -> None:
    if word.text in ARTICLES:
        return
    if word.kind == "number" and facts.times and (before is None or before.kind != "and"):
        raise unclear(_("A second number says nothing by itself."))
    if before is not None and before.kind == "and":
        _keep_part(facts)
    hour, minute, sure = word.value if word.kind == "time" else (word.number, 0, word.number > 12)
    facts.times.append((int(hour), int(minute), int(sure), facts.part))
    facts.part_alone = False


def _take_part(facts: _Facts, part: str, before: str) -> None:
    """Read a part of a day, of the times before it ("8 in the evening") or of those that follow, or a time itself."""
    if before in ("time", "number"):
        facts.times = [(*clock[:3], clock[3] or part) for clock in facts.times]
        return
    if before == "and":  # "at 8 and in the evening"
        facts.times = [(*clock[:3], clock[3] or _ANY) for clock in facts.times]
    if part != facts.part:
        if facts.part_alone and before != "and" and {part, facts.part} in _MIDNIGHTS:
            raise unclear(_(_TWO_NIGHTS, time=time()))
        if facts.part_alone and before not in ("and", "part"):
            raise unclear(_(_OWN_RULES))
        _keep_part(facts)
    facts.part, facts.part_alone = part, True


def _keep_part(facts: _Facts) -> None:
    """A part of the day beside which no time is told is a time itself: noon and midnight."""
    if facts.part_alone:
        facts.times.append((PARTS[facts.part][0], 0, 2, facts.part))
        facts.part, facts.part_alone = "", False


def _take_day(facts: _Facts, word: Token, before: Token | None) -> None:  # English: kinds of words
    """Read a word that tells the day."""
    match word.kind:
        case "day" | "day part":
            if facts.day not in (None, word.number):
                raise unclear(_(_TWO_DAYS))
            facts.day = word.number
        case "weekday part":
            facts.weekdays.append(word.number)
        case "weekday" | "weekdays" | "weekday of next week" if facts.weekdays and facts.times:
            raise unclear(_(_OWN_RULES))
        case "weekday" | "weekday of next week":
            facts.weekdays.append(word.number)
            facts.next_week = facts.next_week or word.kind != "weekday"
            facts.coming = facts.coming or (before is not None and before.kind == "next")
        case "weekdays":
            facts.weekdays += range(1, 6) if word.name == "1-5" else [int(word.name)]
            facts.regular = True
        case "weekend":
            facts.weekend = True
        case "date":
            year, month, day = map(int, word.value)
            _real(year or _LEAP_YEAR, month, day)
            facts.date = (year, month, day)
        case "day of month":
            if not 1 <= word.number <= 31:
                raise unclear(_("No month has a day {number}.", number=word.number))
            facts.days_of_month.append(word.number)
        case "last day":
            facts.last_day = True
        case _:
            return


# Rules


def _clock(facts: _Facts) -> list[time]:
    """The times of day of a phrase."""
    if not facts.times:
        return [time(PARTS[facts.part][0]) if facts.part else time(_HOUR)]
    last = facts.part
    if any(part for *_clock, part in facts.times):
        _keep_part(facts)
        last = ""
    return [_in_part(time(hour, minute), part or last, told=sure == 2) for hour, minute, sure, part in facts.times]


def _in_part(at: time, part: str, *, told: bool) -> time:
    """The time in a part of the day: 8 in the evening is 20. Raises `UsageError` where that part has no such hour."""
    hour = at.hour
    second_half = {"afternoon": 1, "evening": 1, "night": 6}
    if (not told and second_half.get(part, 12) <= hour < 12) or (part == "noon" and 0 < hour < 5):
        hour += 12
    elif part in ("night", "midnight") and hour == 12:
        hour = 0
    _hour, first, last = PARTS.get(part, (0, 0, 23))
    if not (first <= hour <= last if first <= last else hour >= first or hour <= last):
        if part == "evening" and (at.hour < 5 or (at.hour == 12 and not told)):  # "tonight at 1"
            raise unclear(_(_TWO_NIGHTS, time=at.replace(hour=at.hour % 12)))
        raise unclear(_("{time:%H:%M} is not in the part of the day that you name.", time=at.replace(hour=hour)))
    return at.replace(hour=hour)


def _one_clock(facts: _Facts) -> time:
    clock = _clock(facts)
    if len(clock) > 1:
        times = listed(f"{one:%H:%M}" for one in clock)
        raise unclear(_("I read the times {times}; one of them can be meant.", times=times))
    return clock[0]


def _cron(facts: _Facts, day: str, month: str, weekday: str) -> Cron:
    clock = _clock(facts)
    if len({one.minute for one in clock}) > 1:
        raise UsageError(_("Times with different minutes are rules of their own: write them one by one."))
    hours = ",".join(str(hour) for hour in sorted({one.hour for one in clock}))
    return cron(f"{clock[0].minute} {hours} {day} {month} {weekday}")


def _on(facts: _Facts) -> str:
    """The days of the week, as cron has them; empty for none."""
    days = sorted({*facts.weekdays, *((0, 6) if facts.weekend else ())})
    return "1-5" if days == [1, 2, 3, 4, 5] else "*" if len(days) == 7 else ",".join(map(str, days))


def _repeated(facts: _Facts, number: int, unit: str, now: datetime) -> When:
    """Every so many of a unit."""
    if number < 1:
        raise unclear(_("That is no interval."))
    if unit in _OF_A_DAY:
        if facts.times or facts.part or facts.date or _on(facts):
            raise unclear(_("An interval has no time of day. For hours of a day, a cron expression says it."))
        return Every(number * UNIT_SECONDS[unit], now.astimezone(UTC))
    if unit == "month" and number == 1 and (facts.days_of_month or facts.last_day):
        return _monthly(facts)
    if unit == "year" and number == 1 and facts.date is not None:
        return _yearly(facts)
    if unit in ("month", "year"):
        raise unclear(_('Name the day: "every month on the 1st at 9", "every year on 3 December".'))
    on = _on(facts)
    if facts.days_of_month or facts.last_day or facts.date:
        raise unclear(_(_ONE_KIND))
    if unit == "day" and on.isdigit():
        raise unclear(_(_TWO_DAYS))  # "from Monday every day"
    if number == 1:
        return _cron(facts, "*", "*", on or ("*" if unit == "day" else str(now.isoweekday() % 7)))
    return _days(facts, number * (7 if unit == "week" else 1), on, now)


def _days(facts: _Facts, number: int, on: str, now: datetime) -> Days:
    """Every so many days, from the next day on that fits."""
    at = _one_clock(facts)
    if on and (not on.isdigit() or number % 7):
        raise unclear(_("Every {number} days cannot be on those days of the week.", number=number))
    first = now.date() if at > now.time() else now.date() + timedelta(days=1)
    while on and first.isoweekday() % 7 != int(on):
        first += timedelta(days=1)
    return Days(number, first, at)


def _by_calendar(facts: _Facts) -> When:
    """Every one of the days that are named."""
    on = _on(facts)
    if facts.other and on.isdigit():
        raise unclear(_('Say "every 2 weeks" with the day.'))
    if facts.date is not None:
        return _yearly(facts)
    if facts.days_of_month or facts.last_day:
        return _monthly(facts)
    if on or facts.part or facts.times:
        return _cron(facts, "*", "*", on or "*")
    raise unclear(_("Every what?"))


def _monthly(facts: _Facts) -> Cron:
    if _on(facts) or (facts.last_day and facts.days_of_month):
        raise unclear(_(_ONE_KIND))
    return _cron(facts, ",".join(map(str, sorted(set(facts.days_of_month)))) or "L", "*", "*")


def _yearly(facts: _Facts) -> Cron:
    year, month, day = facts.date or (0, 0, 0)
    if year:
        raise unclear(_("A year that is named comes once."))
    return _cron(facts, str(day), str(month), "*")


def _once(facts: _Facts, now: datetime, zone: tzinfo) -> Once:
    if facts.far is not None and not (facts.times or facts.part or facts.weekdays or facts.date):
        return Once(now.astimezone(UTC) + timedelta(seconds=facts.offset))
    at = _one_clock(facts)
    day = _day(facts, now, at)
    if day is not None:
        if at.hour < 6 and "night" in (facts.part, *(part for *_clock, part in facts.times)):
            raise unclear(_(_TWO_NIGHTS, time=at))
        if (
            (facts.weekdays and day.isoweekday() % 7 not in facts.weekdays)
            or (facts.days_of_month and [day.day] != facts.days_of_month)
            or (facts.day and day != now.date() + timedelta(days=facts.day))
        ):
            raise unclear(_(_TWO_DAYS))
        return Once(_coming(instant(datetime.combine(day, at), zone), datetime.combine(day, at), now))
    if not (facts.times or facts.part):
        raise unclear(_(NO_TIME))
    _judge_half(facts, at, now)
    today = instant(datetime.combine(now.date(), at), zone)
    return Once(today if today > now else instant(datetime.combine(now.date() + timedelta(days=1), at), zone))


def _coming(made: datetime, told: datetime, now: datetime) -> datetime:
    """The moment itself. Raises `UsageError` where it is past."""
    if made <= now:
        raise unclear(_("{weekday} {day} {time:%H:%M} is past.", weekday=weekday_of(told), day=told.date(), time=told))
    return made


def _judge_half(facts: _Facts, at: time, now: datetime) -> None:
    """Raises `UsageError` where an hour without its half of the day may be one of today or of tomorrow."""
    sure = facts.part or not facts.times or facts.times[0][2] or facts.times[0][3]
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
        year, month, number = facts.date
        return date(year, month, number) if year else _next(f"{number} {month} *", now, at)
    if facts.far is not None:
        return today + timedelta(days=facts.offset // 86_400)
    if facts.weekdays:
        return _on_weekday(facts, now, at)
    if facts.weekend:
        return today + timedelta(days=(6 - now.isoweekday() % 7) % 7)
    if facts.next_week:
        return today + timedelta(days=7)
    if facts.last_day or facts.days_of_month:
        return _next(f"{'L' if facts.last_day else facts.days_of_month[0]} * *", now, at)
    return today + timedelta(days=facts.day) if facts.day is not None else None


def _on_weekday(facts: _Facts, now: datetime, at: time) -> date:
    if len(set(facts.weekdays)) > 1:
        raise unclear(_('Several days: write "every" for a rule, or one day.'))
    ahead = (facts.weekdays[0] - now.isoweekday()) % 7
    if facts.next_week:
        monday = now.date() + timedelta(days=8 - now.isoweekday())
        return monday + timedelta(days=(facts.weekdays[0] - 1) % 7)
    if ahead == 0 and (facts.coming or at <= now.time()):
        ahead = 7
    return now.date() + timedelta(days=ahead)


def _next(days: str, now: datetime, at: time) -> date:
    """The next of these days of a cron expression on which that time is to come."""
    return next(cron_times(f"{at.minute} {at.hour} {days}", now)).astimezone(now.tzinfo).date()


def _real(year: int, month: int, day: int) -> None:
    """Raises `UsageError` for a day that there is not."""
    try:
        date(year, month, day)
    except ValueError:
        raise unclear(_("There is no day {day} in that month.", day=day)) from None
