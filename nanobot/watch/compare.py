"""What has changed between two looks at a text, and what of it is noise. Asks no model.

A text is its blocks, in whatever order. Noise is learnt: what differs between two looks within seconds, and what has
changed at each of the last looks, counts no more until it has been calm for a while. Until a place is known to be calm,
a change of its numbers is told when the next look finds it again.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from nanobot.utils.text import fold
from nanobot.watch.target import plain

#: Looks after which a place that never changed is known to be calm.
WARM = 3
#: Changes in a row after which a place is noise: one where numbers differ, one where the words do.
NOISY_NUMBERS, NOISY_WORDS = 3, 4
#: Calm looks after which what was learnt of a place is forgotten.
_FORGET = 8
#: Habits, and changes that were told, that are kept of one watch.
_MOST_HABITS, _MOST_TOLD = 400, 600
#: What the months are called, in order.
_MONTHS = (
    *("jan(?:uary|uar|vier)?", "feb(?:ruary|ruar)?|février", "mar(?:ch|s)?|märz", "apr(?:il)?|avril", "may|mai"),
    *("june?|juni|juin", "july?|juli|juillet", "aug(?:ust)?|août", "sept?(?:ember|embre)?", "o[ck]t(?:ober|obre)?"),
    *("nov(?:ember|embre)?", "de[cz](?:ember)?|décembre"),
)
_MONTH = "|".join(_MONTHS)
_DAYS = (
    "mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:rs(?:day)?)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?"
    "|montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag"
)
_UNIT = "s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|weeks?|months?|years?"
_AGO = re.compile(
    rf"\b(?:(?:\d+|an?|one|few|a few) ?(?:{_UNIT})(?: and \d+ ?(?:{_UNIT}))? ago|just now|moments? ago|yesterday"
    r"|vor (?:\d+|ein(?:er|em)|wenigen) (?:sekunden?|minuten?|stunden?|tag(?:en)?|wochen?|monat(?:en)?|jahr(?:en)?)"
    r"|gerade eben"
    r"|il y a (?:\d+|une?) (?:secondes?|minutes?|heures?|jours?|semaines?|mois|ans?)"
    r"|hace (?:\d+|una?) (?:segundos?|minutos?|horas?|d[ií]as?|semanas?|mes(?:es)?|años?))(?!\w)"
    r"|(?<!\d)\d{1,9} ?(?:秒|分钟|分鐘|分|小时|小時|時間|天|日|周|週間|个月|ヶ月)前|刚刚|刚才"
)
_COUNTED = re.compile(
    r"(?<![\d.,])\d[\d.,  ]{0,20}[km]?\+? ?(?=(?:total |unique |active )?"
    r"(?:views?|visits?|visitors?|readers?|likes?|comments?|repl(?:y|ies)|shares?|followers?|reactions?|upvotes?"
    r"|points?|users? online|online|watching|people (?:are )?(?:viewing|watching|reading)|stars?|forks?"
    r"|aufrufe|besucher|kommentare?|leser|downloads?|次浏览|阅读|评论|人在看)\b)"
    r"|(?<=views: )[\d.,]+|(?<=visitors: )[\d.,]+|(?<=visitor no. )[\d.,]+|(?<=online: )[\d.,]+|(?<=comments \()[\d.,]+"
)
_AD = re.compile(
    r"(?:ad|ads|advertisement|anzeige|werbung|sponsored|promoted|publicité|publicidad|广告|reklame)\b[\s:·|–—-]*.{0,240}"
)
_DATE = re.compile(
    rf"(?:(?:{_DAYS})\.?,?\s+)?(?:\d{{4}}-\d{{1,2}}-\d{{1,2}}|\d{{1,2}}\.\s?\d{{1,2}}\.(?:\s?\d{{2,4}})?"
    rf"|\d{{1,2}}(?:st|nd|rd|th|\.)?\s+(?:{_MONTH})\b\.?,?(?:\s+\d{{4}})?|(?:{_MONTH})\b\.?\s+\d{{1,2}}(?!\d)(?:st|nd|rd|th)?,?"
    rf"(?:\s+\d{{4}})?|\d{{1,2}}/\d{{1,2}}/\d{{2,4}}|\d{{4}}年\d{{1,2}}月\d{{1,2}}日)"
)
_TIME = re.compile(r"[t,]?\s*(?:at |um )?\b\d{1,2}:\d{2}(?::\d{2})?(?:\s?[ap]m\b)?(?:\s?(?:utc|gmt|cet|cest|z)\b)?")
_HIDDEN = "\u2063"


class Habit(Struct, frozen=True):
    """How a place behaves: how often it has changed in a row, how long it was calm, and a change that waits for the
    next look (`held`, its new text)."""

    run: int = 0
    calm: int = 0
    noise: bool = False
    held: str = ""


class Memory(Struct, frozen=True, kw_only=True):
    """What is kept of what was seen. `blocks` is a text; `seen` are the marks of items of a feed or a search; `number`
    the watched number. `looks` counts the looks that found something, `told` are the marks of what was told."""

    looks: int = 0
    blocks: tuple[str, ...] = ()
    habits: dict[str, Habit] = {}
    told: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    number: str = ""


class Difference(Struct, frozen=True):
    """One thing that differs: a block that is gone, one that is new, or one in the place of another.

    `place` is where, as far as that can be known again; `numbers`: only digits, dates and the like differ.
    """

    old: str
    new: str
    place: str
    numbers: bool = False

    @property
    def mark(self) -> str:
        return marked(f"{key_of(self.old)}\n{key_of(self.new)}")

    @property
    def reverse(self) -> str:
        return marked(f"{key_of(self.new)}\n{key_of(self.old)}")


class WatchChange(Struct, frozen=True):
    """What is to be told: pieces that are gone and new. `back`: all of it was so before."""

    differences: tuple[Difference, ...]
    back: bool = False


def marked(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:14]


def key_of(block: str) -> str:
    """What of a block counts: its words, without addresses, times that pass, and counters. Empty for an advert."""
    words = fold(plain(block))
    if _AD.fullmatch(words):
        return ""
    return _COUNTED.sub(_HIDDEN, _AGO.sub(_HIDDEN, words)).strip()


def skeleton(key: str) -> str:
    """A key with its dates and numbers masked."""
    return re.sub(r"(?:(?<!\w)[-−+])?\d+(?:[.,:/ ]\d+)*", "#", _TIME.sub(" #", _DATE.sub("#", key)))


def differences(old: Sequence[str], new: Sequence[str]) -> tuple[Difference, ...]:
    """What differs between two texts, in the order of the new one; what only stands elsewhere is the same."""
    gone, come = _left(old, new), _left(new, old)
    found: list[Difference] = []
    by_form: dict[str, list[int]] = defaultdict(list)
    for place in come:
        by_form[skeleton(key_of(new[place]))].append(place)
    pairs: dict[int, tuple[int, bool]] = {}
    for place in list(gone):
        form = skeleton(key_of(old[place]))
        if by_form[form] and "#" in form:
            pairs[by_form[form].pop(0)] = (place, True)
    matched = {before for before, _ in pairs.values()}
    gone, come_alone = [one for one in gone if one not in matched], [one for one in come if one not in pairs]
    places_old, places_new = _places(old, gone), _places(new, come_alone)
    for place in come_alone:
        same = [one for one in gone if places_old[one] == places_new[place]]
        if same:
            pairs[place] = (same[0], False)
            gone.remove(same[0])
    for place in come:
        if place in pairs:
            before, numbers = pairs[place]
            where = f"n{marked(skeleton(key_of(new[place])))}" if numbers else f"s{places_new[place]}"
            found.append(Difference(old[before], new[place], where, numbers))
        else:
            found.append(Difference("", new[place], f"s{places_new[place]}"))
    return (*found, *(Difference(old[one], "", f"s{places_old[one]}") for one in gone))


def _left(these: Sequence[str], those: Sequence[str]) -> list[int]:
    """The places of what stands in the first text more often than in the second."""
    there = Counter(map(key_of, those))
    left = []
    for place, block in enumerate(these):
        key = key_of(block)
        if there[key]:
            there[key] -= 1
        elif key:
            left.append(place)
    return left


def _places(blocks: Sequence[str], places: Iterable[int]) -> dict[int, str]:
    """Where each of these blocks stands: between which others that have not changed, and as which of those between."""
    changed = set(places)
    found: dict[int, str] = {}
    before, number = "", 0
    for place, block in enumerate(blocks):
        if place not in changed:
            before, number = skeleton(key_of(block)), 0
            continue
        after = next((skeleton(key_of(blocks[one])) for one in range(place, len(blocks)) if one not in changed), "")
        found[place] = marked(f"{before}\n{after}\n{number}")
        number += 1
    return found


def news(memory: Memory, found: Iterable[Difference], at: datetime) -> tuple[Difference, ...]:
    """What of these is not known to be noise and was not told before."""
    told = set(memory.told)
    quiet = Habit()
    return tuple(
        one
        for one in found
        if not memory.habits.get(one.place, quiet).noise and one.mark not in told and not follows_clock(one, at)
    )


def follows_clock(one: Difference, at: datetime) -> bool:
    """Whether all that differs is a date which is today's now: a page that says when it was made."""
    if not one.numbers:
        return False
    old, new = key_of(one.old), key_of(one.new)
    if _DATE.sub("", _TIME.sub("", old)) != _DATE.sub("", _TIME.sub("", new)):
        return False
    dates = _DATE.findall(new)
    around = [at + timedelta(days=days) for days in (-1, 0, 1)]
    return bool(dates) and all(any(_is_day(date, day) for day in around) for date in dates)


def _is_day(text: str, day: datetime) -> bool:
    words = re.sub(rf"^(?:{_DAYS})\.?,?\s+", "", text)
    spelled = {number for number, names in enumerate(_MONTHS, 1) if re.search(rf"\b(?:{names})\b", words)}
    numbers = spelled | {int(number) for number in re.findall(r"\d+", text)}
    return {day.day, day.month} <= numbers <= {day.day, day.month, day.year, day.year % 100}


def learnt(
    memory: Memory, blocks: Sequence[str], at: datetime, again: Sequence[str] | None = None
) -> tuple[Memory, WatchChange | None]:
    """What is kept after a look that found `blocks`, and what is to be told.

    `again` is what a second look within seconds found; it is given wherever `news` finds something.
    """
    latest = blocks if again is None else again
    if not memory.looks:
        habits = _restless(differences(blocks, latest), memory.habits, ())
        return replace(memory, looks=1, blocks=tuple(latest), habits=habits), None
    first, found = differences(memory.blocks, blocks), differences(memory.blocks, latest)
    habits = _calmer(memory.habits, {one.place for one in (*first, *found)})
    if again is not None:
        habits = _restless(differences(blocks, again), habits, first)
        both = {one.mark for one in first}
        found = tuple(one for one in found if one.mark in both)
    memory = replace(memory, looks=memory.looks + 1)
    telling, baseline = [], list(latest)
    for one in news(memory, found, at):
        habits[one.place], tell = _judged(one, habits.get(one.place, Habit()), memory)
        if tell:
            telling.append(one)
        elif not habits[one.place].noise and one.old and one.new in baseline:
            baseline[baseline.index(one.new)] = one.old  # what waits is compared with what was told last
    back = bool(telling) and {one.reverse for one in telling} <= set(memory.told)
    told = (*memory.told, *(one.mark for one in telling))[-_MOST_TOLD:]
    kept = dict(list(habits.items())[-_MOST_HABITS:])
    change = WatchChange(tuple(telling), back) if telling else None
    return replace(memory, blocks=tuple(baseline), habits=kept, told=told), change


def _judged(one: Difference, habit: Habit, memory: Memory) -> tuple[Habit, bool]:
    """What is known of a place that has changed, and whether that is told now."""
    in_place = bool(one.old and one.new)
    most = NOISY_NUMBERS if one.numbers else NOISY_WORDS
    if not in_place:
        return replace(habit, run=habit.run + 1, calm=0, noise=habit.run + 1 >= most + 2), True
    mark = marked(key_of(one.new))
    if habit.held == mark:
        return replace(habit, run=0, calm=1, held=""), True
    run = habit.run + 1
    if run >= most:
        return Habit(run=run, noise=True), False
    unknown = memory.looks <= WARM or habit.run > 0
    if unknown and (one.numbers or memory.looks <= WARM or habit.run > 1):
        return Habit(run=run, held=mark), False
    return Habit(run=run), True


def _calmer(habits: dict[str, Habit], changed: set[str]) -> dict[str, Habit]:
    """The habits after a look at which only these places have changed."""
    made: dict[str, Habit] = {}
    for place, habit in habits.items():
        if place in changed:
            made[place] = replace(habit, calm=0)
        elif habit.calm + 1 < _FORGET:
            run = habit.run if habit.noise else 0
            made[place] = Habit(run, habit.calm + 1, habit.noise)
    return made


def calmed(memory: Memory, looks: int) -> Memory:
    """What is kept after so many looks at which nothing had changed at all."""
    habits = memory.habits
    for _ in range(min(looks, _FORGET)):
        habits = _calmer(habits, set())
    return replace(memory, looks=memory.looks + looks, habits=habits) if looks else memory


def _restless(found: Iterable[Difference], habits: dict[str, Habit], changed: Iterable[Difference]) -> dict[str, Habit]:
    """What differs within seconds is noise. Of what had `changed` and then was as before, perhaps at a server that is
    behind, that is not known yet: the first time it waits for the next look."""
    back = {one.reverse: one for one in changed}
    made = dict(habits)
    for one in found:
        before = back.get(one.mark)
        if before is not None and not habits.get(before.place, Habit()).run:
            made[before.place] = Habit(run=1, held=marked(key_of(before.new)))
        else:
            made[one.place] = Habit(run=NOISY_WORDS, noise=True)
    return made
