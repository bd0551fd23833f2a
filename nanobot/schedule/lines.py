"""A line such as "tomorrow at 9 call mum" is the time that it begins or ends with, and what is to be done."""

import re
from collections.abc import Sequence
from datetime import datetime, tzinfo

from nanobot.schedule.due import cron
from nanobot.schedule.job import When
from nanobot.schedule.phrases import CRON, NO_HOUR, NOT_TEXT, ZONED, meaning, moment, plain, unclear
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
_AT = re.compile(
    "at |by |around |um |gegen |ab |@|in the |am |zu |(?:morgen|vormittag|mittag|nachmittag|abend|nacht)s$"
)
#: A part of a day that says so of a number before it: 8 in the morning, but 2 morning walks.
_OF_A_PART = re.compile("in the |at |am |(?:morgen|vormittag|mittag|nachmittag|abend|nacht)s$")
_FULL_STOPS = frozenset(".!。！")
#: A number that is no hour with its minutes and no date that is read, such as 9:5 and 3/12.
_GLUED = re.compile(r"\d*[:/]\d")
#: What goes on with a time in Japanese, or in Chinese that is not read, behind the words that are: 明日の朝8時.
_GOES_ON = re.compile(
    "[负負朝夜夕晩午方前後]{1,3}[0-9一二三四五六七八九十]+[时時点點]|(?<=[\u4e00-\u9fff])[\u3041-\u309f]"
)
#: A day before the hour at the end of a line that is not read: with slashes, or in a language that once was.
_UNREAD_DAY = re.compile(
    r"(?<![\w/])\d+/\d+(?:/\d+)?(?![\w/])|\b(?:demain|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|mañana|lunes"
    r"|martes|mi[eé]rcoles|jueves|viernes|s[aá]bado|domingo)\b|\b(?:à|a las?|\d+ (?:de )?(?:janv|févr|mars|avr|juin"
    r"|juil|août|ener|febrer|marz|abril|mayo|juni|juli|agost|[^\W\d]+bre)\w*)\s*$"
)
#: Words of the hour of a line that names no day.
_OF_NO_DAY = frozenset(("time", "part", "number", *NOT_TEXT))


def split(line: str, now: datetime, zone: tzinfo) -> tuple[When, str]:
    """The time that a line begins or ends with, as far as its words go, and the rest of it. Raises `UsageError`."""
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
    if not first:
        last = _trimmed(words[_end(words) :])
        if not last:
            raise unclear(_("I found no time in that."))
        if all(word.kind in _OF_NO_DAY for word in last) and _UNREAD_DAY.search(text[: last[0].begin]):
            raise unclear(_("I found no time in that."))
        return meaning(last, now.astimezone(zone), zone), rest[: last[0].begin].rstrip(" ,:：-–—")
    if length < len(words) and _GLUED.match(text, words[length].begin):
        raise unclear(_(NO_HOUR))
    if _GOES_ON.match(text, first[-1].end):
        raise unclear(_("I found no time in that."))
    clock = _clock(words, first)
    what = rest[first[-1].end : clock[0].begin].rstrip(" ,") if clock else rest[first[-1].end :]
    return meaning((*first, *clock), now.astimezone(zone), zone), _rest(what)


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
    of_a_part = follows is not None and after == "part" and _OF_A_PART.match(follows.text) is not None
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
