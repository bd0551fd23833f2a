"""A line such as "tomorrow at 9 call mum" is the time that it begins or ends with, and what is to be done."""

import re
from collections.abc import Sequence
from datetime import datetime, tzinfo

from nanobot.errors import UsageError
from nanobot.schedule.due import cron
from nanobot.schedule.job import When
from nanobot.schedule.phrases import CRON, NOT_TEXT, ZONED, judge_existing, meaning, moment, plain, unclear
from nanobot.schedule.vocabulary import ARTICLES, Token, tokens
from nanobot.utils.translation import _

_LEAD = re.compile(
    r"\s*(?:please\s+)?(?:remind(?:er| me)?|erinnere? mich(?: daran)?|提醒我?|请提醒我|rappelle-moi|recuérdame)"
    r"(?![a-zà-ÿ])[\s,:：]*",
    re.IGNORECASE,
)
_JOINT = re.compile(
    r"(?:[\s:：,，–—.。]|-(?!\d))*(?:(?:to|that|an|daran,?|dass|zu|de|que|说)\s+|提醒我|に)?", re.IGNORECASE
)
#: Most words that tell a time, so that a long line of them is not read over and over.
_MOST_WORDS = 40
#: Words that tell when on a day it is, so that a time at the end of the line belongs to what is to be done.
_CLOCKED = frozenset(("time", "number", "amount", "part", "day part", "weekday part", "in", "later"))
_AT = re.compile(
    "at |by |around |um |gegen |ab |à |a |@|in the |am |zu |al |de la |por la "
    "|(?:morgen|vormittag|mittag|nachmittag|abend|nacht)s$"
)
#: A part of a day that says so of a number before it: 8 in the morning, but 2 morning walks.
_OF_A_PART = re.compile("in the |at |de la |por la |du |de l'|am |(?:morgen|vormittag|mittag|nachmittag|abend|nacht)s$")
_FULL_STOPS = frozenset(".!。！")
# English: kinds of words, of which the second tells of the first, whatever it is beside
_BELONGING = (
    *(("time", "part"), ("day part", "part"), ("unit", "part"), ("weekday", "part"), ("day of month", "unit")),
    *(("weekday", "day of month"), ("in", "number"), ("in", "unit"), ("every", "unit"), ("every", "number")),
)
#: A number that goes on behind a word that tells a time, such as 5 in 9:5.
_GLUED = re.compile(r"\d([:.])\d")


def split(line: str, now: datetime, zone: tzinfo) -> tuple[When, str]:
    """The time that a line begins or ends with, and the rest of it. Raises `UsageError`."""
    lead = _LEAD.match(line)
    rest = _day_and_time(_rest(line[lead.end() :]) if lead else line.strip())
    text = plain(rest)
    if found := CRON.match(text):
        return cron(found[1].upper()), _rest(rest[found.end() :])
    if found := ZONED.match(text):
        return moment(found[1], now), _rest(rest[found.end() :])
    words = tokens(text)
    local = now.astimezone(zone)
    problem = ""
    for run in (*_beginnings(words), *_ends(words)):
        if all(word.kind in ("number", *NOT_TEXT) for word in run):
            continue  # "buy 2" tells no time
        glued = _GLUED.match(text, run[-1].end - 1)
        if glued and glued[1] == ".":
            continue  # "3.5 km"
        judge_existing(run, glued=glued is not None)
        if _counts(run):
            continue  # "tomorrow 14 bottles"
        try:
            when = meaning(run, local, zone)
        except UsageError as error:
            problem = problem or str(error)
            continue
        if problem and run[0] is words[0] and _cuts_a_time(words, len(run)):
            raise UsageError(problem)
        before, after = rest[: run[0].begin].strip(), rest[run[-1].end :]
        said = before.rstrip(" ,:：-–—") if before else _rest(after)
        return when, said
    raise UsageError(problem) if problem else unclear(_("I found no time in that."))


def _day_and_time(line: str) -> str:
    """The line with a time that it ends with beside the day that it begins with: "tomorrow call mum at 9"."""
    words = tokens(plain(line))
    day = next((run for run in _beginnings(words) if not _counts(run)), ())
    first = len(words)
    while first > len(day) and words[first - 1].kind in ("time", "part"):
        first -= 1
    if not day or first == len(words) or not _AT.match(words[first].text):
        return line
    if any(word.kind in _CLOCKED for word in day) or sum(word.kind == "time" for word in words) > 1:
        return line
    place = words[first].begin
    return " ".join((line[: day[-1].end], line[place:], line[day[-1].end : place].rstrip(" ,")))


def _beginnings(words: Sequence[Token]) -> list[Sequence[Token]]:
    """The runs of known words from the first one on, the longest first."""
    end = next((place for place, word in enumerate(words) if word.kind == "other"), len(words))
    lasts = range(min(end, _MOST_WORDS), 0, -1)
    return [words[:last] for last in lasts if words[last - 1].kind not in NOT_TEXT and not _parts(words, last)]


def _counts(words: Sequence[Token]) -> bool:
    """Whether a number counts something that is to be done, since it has no unit and is in no list of hours."""
    for place, word in enumerate(words):
        if word.kind != "number":
            continue
        before = words[max(0, place - 2) : place]
        follows = next((other for other in words[place + 1 :] if other.kind != "filler"), None)
        after = follows.kind if follows is not None else ""
        kinds = [other.kind for other in before]
        listed_hour = kinds in (["time", "to"], *([kind, "and"] for kind in ("time", "number", "part")))
        closed = after in ("and", "time") or (bool(before) and before[-1].text not in ",;、")
        if follows is not None and after == "part" and _OF_A_PART.match(follows.text):
            continue
        if not (after == "unit" or (listed_hour and closed) or (word.text in ARTICLES and after == "weekday")):
            return True
    return False


def _cuts_a_time(words: Sequence[Token], end: int) -> bool:
    """Whether words go on behind the end with what belongs to the time, rather than to what is to be done."""
    place = next((place for place in range(end, len(words)) if words[place].kind not in NOT_TEXT), len(words))
    if place == len(words):
        return False
    clocked = any(word.kind in ("time", "amount", "in") for word in words[:end])
    joints = [word.text for word in words[end:place] if word.kind != "filler"]
    joined = bool(joints)
    last, kind = words[end - 1].kind, words[place].kind
    if (
        kind in ("date", "day", "day part", "weekday", "weekday part", "every", "rate")
        or (last, kind) in _BELONGING
        or (joined and last == kind)
    ):
        return True
    if kind == "number":
        return joined and clocked and joints[0] not in ",;、"
    return kind == "time" and (joined or not clocked)


def _parts(words: Sequence[Token], place: int) -> bool:
    """Whether a number stands before the place, and its unit behind."""
    return words[place - 1].kind == "number" and place < len(words) and words[place].kind == "unit"


def _ends(words: Sequence[Token]) -> list[Sequence[Token]]:
    """The runs of known words up to the last one, the longest first."""
    while words and words[-1].text in _FULL_STOPS:
        words = words[:-1]
    begin = max((place + 1 for place, word in enumerate(words) if word.kind == "other"), default=0)
    begin = max(begin, len(words) - _MOST_WORDS)
    firsts = range(max(begin, 1), len(words))
    return [words[first:] for first in firsts if words[first].kind != "and" and not _parts(words, first)]


def _rest(text: str) -> str:
    joint = _JOINT.match(text)
    return text[joint.end() if joint else 0 :].strip()
