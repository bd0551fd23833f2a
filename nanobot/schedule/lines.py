"""A line such as "tomorrow at 9 call mum" is the time that it begins or ends with, and what is to be done."""

import re
from collections.abc import Sequence
from datetime import datetime, tzinfo

from nanobot.schedule.due import cron
from nanobot.schedule.job import When
from nanobot.schedule.phrases import CRON, NO_HOUR, NO_TIME, NOT_TEXT, ZONED, meaning, moment, plain, unclear
from nanobot.schedule.vocabulary import Token, tokens
from nanobot.utils.translation import _

_LEAD = re.compile(
    r"\s*(?:please\s+)?(?:remind(?:er| me)?|erinnere? mich(?: daran)?|提醒我?|请提醒我)"
    r"(?![a-zà-ÿ])[\s,:：]*",
    re.IGNORECASE,
)
_JOINT = re.compile(r"(?:[\s:：,，–—.。]|-(?!\d))*(?:(?:to|that|an|daran,?|dass|zu|说)\s+|提醒我)?", re.IGNORECASE)
#: Words that tell when on a day it is, so that a time at the end of the line belongs to what is to be done.
_CLOCKED = frozenset(("time", "amount", "part", "day part", "weekday part", "in", "later"))
#: What says of an hour or of a part of the day that it is one: 8 in the morning, but 2 morning walks.
_AT = re.compile(
    "at |by |around |um |gegen |ab |@|in the |am |zu |(?:morgen|vormittag|mittag|nachmittag|abend|nacht)s$"
    "|.*(?:uhr|clock|[点點])"
)
_FULL_STOPS = frozenset(".!。！")
#: A number that is no hour with its minutes and no date that is read, such as 9:5 and 3/12.
_GLUED = re.compile(r"\d*[:/]\d")
#: What looks like a time or a rule and is none that is read: an hour or a date in figures, or words of other languages.
_LIKE_A_TIME = re.compile(
    r"\d\s?[:/h]\s?\d|(?<![\d.,])\d{1,2}\.[0-5]\d(?![\d.,])|(?<![\w.])\d{1,2}\s?(?:h|uur|uhr|heures?|horas?|ore|minut\w+)\b"
    r"|[\d一二三四五六七八九十](?:[时時시]|[点點][钟鐘半]?\s*$)|[负負][\d一二三四五六七八九十]|\b(?:kl|om|saat)\.? \d"
    r"|\b(?:chaque|tou(?:s|tes) les|demain|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|cada|tod[oa]s [lo]?[oa]s"
    r"|mañana|lunes|martes|mi[eé]rcoles|jueves|viernes|s[aá]bado|domingo|ogni|domani|\w+edì|sabato|domenica|amanhã"
    r"|elke|iedere|завтра|кажд\w+|ежедневно)\b|[毎매][日朝晩週月일주]|来週|내일"
)
#: Words that tell a time wherever they stand.
_TELLING = frozenset(("every", "rate", "time", "date", "weekdays"))
#: Words of the hour of a line that names no day.
_OF_NO_DAY = frozenset(("time", "part", "number", *NOT_TEXT))


def split(line: str, now: datetime, zone: tzinfo) -> tuple[When | None, str]:
    """The time that a line begins or ends with, as far as its words go, and the rest of it; None where nothing in it
    looks like a time. Raises `UsageError` for what does and is not understood."""
    lead = _LEAD.match(line)
    rest = _rest(line[lead.end() :]) if lead else line.strip()
    text = plain(rest)
    if found := CRON.match(text):
        return cron(found[1].upper()), _rest(rest[found.end() :])
    if found := ZONED.match(text):
        return moment(found[1], now), _rest(rest[found.end() :])
    words = tokens(text)
    while words and words[-1].text in _FULL_STOPS:
        words = words[:-1]
    length = next((place for place in range(len(words)) if not _is_of_time(words, place)), len(words))
    first = _trimmed(words[:length])
    last = () if first else _trimmed(words[_end(words) :])
    if not first and not last:
        if _LIKE_A_TIME.search(text) or any(word.kind in _TELLING for word in words):
            raise unclear(_(NO_TIME))
        return None, rest
    if not first:
        what = rest[: last[0].begin]
        _judge(last, what)
        return meaning(last, now.astimezone(zone), zone), what.rstrip(" ,:：-–—")
    if length < len(words) and _GLUED.match(text, words[length].begin):
        raise unclear(_(NO_HOUR))
    clock = _clock(words, first)
    what = rest[first[-1].end : clock[0].begin].rstrip(" ,") if clock else rest[first[-1].end :]
    told = (*first, *clock)
    _judge(told, what)
    return meaning(told, now.astimezone(zone), zone), _rest(what)


def _judge(told: Sequence[Token], what: str) -> None:
    """Raises `UsageError` for a time without its day, or a day without its time, where the rest may name it unread."""
    of_no_day = all(word.kind in _OF_NO_DAY for word in told)
    today = any(word.kind == "part" or _AT.match(word.text) for word in told)
    if of_no_day and what.strip() and not today:
        raise unclear(_('Name the day of that time, or write "at" before it for the next one.'))
    half = of_no_day or not any(word.kind in _CLOCKED for word in told)
    if half and not re.match(r"\s*[:：]", what) and _LIKE_A_TIME.search(plain(what)):
        raise unclear(_("The rest looks like a time too, and I cannot read that."))


def _is_of_time(words: Sequence[Token], place: int) -> bool:
    """Whether a word tells a time. A number does with a unit, a part of the day, or in a list of hours; else it counts
    something that is to be done."""
    word = words[place]
    if word.kind != "number":
        return word.kind != "other"
    follows = next((other for other in words[place + 1 :] if other.kind != "filler"), None)
    after = follows.kind if follows is not None else ""
    kinds = [other.kind for other in words[max(0, place - 2) : place]]
    listed_hour = kinds in (["time", "to"], *([kind, "and"] for kind in ("time", "number", "part")))
    closed = after in ("and", "time") or words[place - 1].text not in ",;、"
    of_a_part = follows is not None and after == "part" and _AT.match(follows.text) is not None
    return after == "unit" or of_a_part or (listed_hour and closed)


def _end(words: Sequence[Token]) -> int:
    """The place from which on all words tell a time."""
    place = len(words)
    while place > 0 and _is_of_time(words, place - 1):
        place -= 1
    return place


def _clock(words: Sequence[Token], first: Sequence[Token]) -> Sequence[Token]:
    """The time that a line ends with, where that belongs to the day that it begins with: "tomorrow call mum at 9"."""
    place = len(words)
    while place > len(first) and words[place - 1].kind in ("time", "part"):
        place -= 1
    told = any(word.kind in _CLOCKED for word in first) or sum(word.kind == "time" for word in words) > 1
    return () if told or place == len(words) or not _AT.match(words[place].text) else words[place:]


def _trimmed(words: Sequence[Token]) -> Sequence[Token]:
    """Words without those at their end that only join others."""
    while words and words[-1].kind in NOT_TEXT:
        words = words[:-1]
    return words


def _rest(text: str) -> str:
    joint = _JOINT.match(text)
    return text[joint.end() if joint else 0 :].strip()
