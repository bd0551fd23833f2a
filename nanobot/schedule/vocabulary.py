"""The words that tell times, in English, German and Chinese, as tokens; `phrases` knows what they mean together.

The words stand in `times.json`; of several that fit at a place the longest wins.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct
from msgspec.json import decode

#: What a word tells: a number, or a name such as that of a unit.
Value = int | str
UNIT_SECONDS: Mapping[str, int] = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}


class Token(Struct, frozen=True):
    """A word or a few with one meaning: `kind` says which, `value` how much, `text` what stands at `begin`."""

    kind: str
    value: tuple[Value, ...]
    text: str
    begin: int

    @property
    def end(self) -> int:
        return self.begin + len(self.text)

    @property
    def number(self) -> int:
        """What it counts."""
        return int(self.value[0])

    @property
    def name(self) -> str:
        """What it names."""
        return str(self.value[0])


_LETTERS = "a-zà-öø-ÿ"
_CHINESE = {sign: number for number, sign in enumerate("零一二三四五六七八九十")} | {"两": 2, "兩": 2, "〇": 0}


class _TimeWords(Struct, frozen=True):
    """`times.json`: what counts one and is no hour; what numbers, months and days of the week (from Sunday on, as cron
    counts) are called; `parts` of the day, each with the hour that it stands for by itself and the first and the last
    one that it may be told with; and `words` and `signs`: kind → value → an expression, the second ones of languages
    without blanks between words."""

    articles: str
    numbers: dict[int, str]
    months: tuple[str, ...]
    weekdays: tuple[str, ...]
    parts: dict[str, tuple[int, int, int]]
    words: dict[str, dict[str, str]]
    signs: dict[str, dict[str, str]]


def _by_word(named: Iterable[tuple[int, str]]) -> dict[str, int]:
    return {word: number for number, words in named for word in words.split()}


_TABLE = decode(Path(__file__).with_name("times.json").read_bytes(), type=_TimeWords)
PARTS = _TABLE.parts
#: What counts one and is no hour, such as a in "a week".
ARTICLES = frozenset(_TABLE.articles.split())
_SPELLED = _by_word(_TABLE.numbers.items())


def _spelled(first: int, last: int) -> str:
    """The words of the numbers between these, as an expression."""
    return "|".join(sorted((word for word, of in _SPELLED.items() if first <= of <= last), key=len, reverse=True))


_ONES, _TENS, _WORDS = _spelled(1, 9), _spelled(20, 90), _spelled(1, 90)
#: A number in words: twenty-five, fünfundzwanzig.
_WORD_NUMBER = rf"(?:{_TENS})(?:-|\s+)(?:{_ONES})|(?:{_ONES})und(?:{_TENS})|{_WORDS}"
_SIGNS_NUMBER = "[零〇一二两兩三四五六七八九十]+"
#: A number in digits, in words, or in Chinese signs; then one that may be an hour.
_N = rf"(\d{{1,4}}|{_SIGNS_NUMBER}|(?<![{_LETTERS}])(?:{_WORD_NUMBER}|{'|'.join(ARTICLES)})(?![{_LETTERS}]))"
_H = rf"(\d{{1,4}}|{_SIGNS_NUMBER}|(?<![{_LETTERS}])(?:{_WORD_NUMBER})(?![{_LETTERS}]))"
#: Minutes of an hour in words, so that no number of things is one: "at nine thirty".
_MINUTES = rf"(?:{_spelled(20, 50)})(?:[-\s](?:{_ONES}))?|{_spelled(10, 19)}"
_MONTH_NUMBERS = _by_word(enumerate(_TABLE.months, 1))
_MONTH = rf"({'|'.join(sorted(_MONTH_NUMBERS, key=len, reverse=True))})(?![{_LETTERS}])\.?"
_WEEKDAY_NUMBERS = _by_word(enumerate(_TABLE.weekdays))
_WEEKDAY = "|".join(re.escape(word) for word in sorted(_WEEKDAY_NUMBERS, key=len, reverse=True))
_GERMAN_PARTS = {"morgen": "morning", "vormittag": "forenoon", "mittag": "noon", "nachmittag": "afternoon"}
_GERMAN_PARTS |= {"abend": "evening"}
_CHINESE_DAYS = {"日": 0, "天": 0, "一": 1, "二": 2, "三": 3, "四": 4, "五": 5, "六": 6}
#: One of those behind the first in 周一、三、五.
_BEHIND_DAYS = "|".join(rf"(?<=[周週期拜](?:[日天一二三四五六][、和]){{{number}}})" for number in range(1, 7))
_LISTED_DAY = rf"(?:{_BEHIND_DAYS})([日天一二三四五六])(?![点點时時分刻])"
_PM = r"(?:\s*(a\.?m\.?|p\.?m\.?)(?![a-z]))?"
_AT = r"(?:(?:at|around|by|um|gegen|ab|@)\s*)"
_PARTS_OF_AN_HOUR = {"half": 30, "quarter": 15, "viertel": 15}
#: Digits of a number that are read; what has more is beyond every calendar.
_MOST_DIGITS = 12
_SHORT_UNITS = {"s": "second", "m": "minute", "d": "day", "w": "week"}


def number_of(text: str) -> int:
    """The number that `text` spells."""
    if text.isdecimal():
        return int(text)
    if text in _SPELLED or text in ARTICLES:
        return _SPELLED.get(text, 1)
    if text[0] not in _CHINESE and text[0] != "十":
        return sum(_SPELLED[word] for word in re.findall(_WORDS, text))
    tens, ten, ones = text.rpartition("十")
    if ten:
        return (_CHINESE.get(tens, 1) if tens else 1) * 10 + (_CHINESE.get(ones, 0) if ones else 0)
    return int("".join(str(_CHINESE[sign]) for sign in text[:_MOST_DIGITS]))


def _clock(hour: str, minute: int, half: str | None, *, sure: bool = False) -> tuple[Value, ...]:
    """A time of day: hour, minute, and whether its half of the day is known (1), or told (2). 24 and more are told of
    by who asked."""
    known = (half or "").replace(".", "")
    number = number_of(hour)
    if known:
        number = number % 12 + (12 if known == "pm" else 0) if 1 <= number <= 12 else 99
    return (number, minute, 2 if known else int(sure or number > 12 or number == 0))


Make = Callable[["re.Match[str]"], tuple[Value, ...]]


def _shifted(match: "re.Match[str]") -> tuple[Value, ...]:
    """Minutes, a half or a quarter past or to an hour."""
    part, which, hour, half = match[1], match[2], match[3], match[4]
    whole, _, sure = _clock(hour, 0, half)
    if int(whole) > 24:
        return (whole, 0, 1)
    minutes = _PARTS_OF_AN_HOUR.get(part) or number_of(part)
    at = int(whole) * 60 + (-minutes if which in ("to", "before", "vor") else minutes)
    return (at // 60 % 24, at % 60, sure)


def _halved(match: "re.Match[str]") -> tuple[Value, ...]:
    hour = number_of(match[1])
    return ((hour - 1) % 24 if hour <= 24 else hour, 30, False)


def _signs_clock(match: "re.Match[str]") -> tuple[Value, ...]:
    minute = 30 if match[2] else number_of(match[3]) * 15 if match[3] else number_of(match[4]) if match[4] else 0
    return _clock(match[1], minute, None)


def _date(year: int, month: int, day: int) -> Make:
    """The groups of a pattern that hold the parts of a date."""

    def make(match: "re.Match[str]") -> tuple[Value, ...]:
        named = match[month]
        number = _MONTH_NUMBERS.get(named) or number_of(named)
        return (int(match[year]) if match[year] else 0, number, number_of(match[day]))

    return make


_BESIDE = rf"(half|quarter|viertel|{_WORD_NUMBER})(?:\s+minut\w+)?\s+(past|after|to|before|nach|vor)"
_AND_A_HALF = rf"{_N}(?:\s+and\s+a\s+half|[.,]5)\s*(?:hours?|stunden)(?![{_LETTERS}])"
_ORDINAL = r"(?:st|nd|rd|th|\.)"
_PATTERNS: tuple[tuple[str, str, Make], ...] = (
    ("time", rf"{_AT}(?:[-−]|minus\s+){_H}(?:\s*(?:uhr|h)(?![{_LETTERS}]))?", lambda _: (99, 0, 1)),
    ("other", r"(?<!\w)[-−]\d+", lambda _: ()),
    (
        "amount",
        r"(?:(?<=\b[ei]n )|(?<=alle )|(?<=every ))(\d{1,2})h(?:(\d{2})(?!\d)|\s?(\d{1,2})\s?m(?:in)?\b)",
        lambda m: (int(m[1]) * 3_600 + int(m[2] or m[3]) * 60,),
    ),
    (
        "amount",
        rf"(?:(?<=\b[ei]n )|(?:(?<=alle )|(?<=every ))(?=\d+[sm]))(\d{{1,4}})([smdw])(?![{_LETTERS}\d])",
        lambda m: (int(m[1]) * UNIT_SECONDS[_SHORT_UNITS[m[2]]],),
    ),
    (
        "time",
        rf"{_AT}?(\d{{1,2}})(?::|(?<=\d)h)(\d{{2}})(?::00)?(?!\d){_PM}(?:\s*uhr)?",
        lambda m: _clock(m[1], int(m[2]), m[3], sure=len(m[1]) == 2),
    ),
    ("time", rf"{_AT}?(\d{{1,2}})\s*(a\.?m\.?|p\.?m\.?)(?![{_LETTERS}])", lambda m: _clock(m[1], 0, m[2])),
    (
        "time",
        rf"{_AT}?{_N}\s*uhr(?:\s*(\d{{2}})(?!\d)|\s+({_MINUTES})(?![{_LETTERS}]))?",
        lambda m: _clock(m[1], number_of(m[2] or m[3] or "0"), None),
    ),
    ("time", rf"{_AT}?(\d{{1,2}})\.(\d{{2}})\s*uhr", lambda m: _clock(m[1], int(m[2]), None)),
    ("time", rf"{_AT}?{_H}\s*o['’]?clock{_PM}", lambda m: _clock(m[1], 0, m[2])),
    ("time", r"(?:at|um|@)\s*(\d{1,2})\.(\d{2})(?![\d.])", lambda m: _clock(m[1], int(m[2]), None)),
    ("time", rf"{_AT}(\d{{1,2}})\s*h(?![{_LETTERS}\d])", lambda m: _clock(m[1], 0, None, sure=True)),
    ("time", rf"{_AT}{_H}(?!\d|[:./]\d|h\d|st|nd|rd|th|\.\s*{_MONTH}){_PM}", lambda m: _clock(m[1], 0, m[3])),
    (
        "time",
        rf"{_AT}({_WORD_NUMBER})[\s-]+({_MINUTES})(?![{_LETTERS}]){_PM}",
        lambda m: _clock(m[1], number_of(m[2]), m[3]),
    ),
    (
        "time",
        rf"(?:{_AT}?(?:a\s+)?(?=half\s+past|quarter|viertel)|{_AT}){_BESIDE}\s+{_H}{_PM}",
        _shifted,
    ),
    ("time", rf"{_AT}?halb\s+{_H}", _halved),
    ("time", rf"{_N}[点點时時](?!間)(?:钟|鐘|整)?(?:(半)|([一三])刻|{_N}分?)?", _signs_clock),
    ("date", r"([1-9]\d{3})-(\d{1,2})-(\d{1,2})(?:t(?=\d))?", _date(1, 2, 3)),
    ("date", rf"(?:(\d{{4}})年)?{_N}月{_N}[日号號]", _date(1, 2, 3)),
    ("date", r"(\d{1,2})\.\s?(\d{1,2})\.(?:\s?(\d{4}))?", _date(3, 2, 1)),
    ("date", rf"(\d{{1,2}}){_ORDINAL}?\s*(?:of\s+)?{_MONTH}(?:,?\s*(\d{{4}}))?", _date(3, 2, 1)),
    ("date", rf"{_MONTH}\s+(\d{{1,2}}){_ORDINAL}?(?![\d:])(?:,?\s*(\d{{4}}))?", _date(3, 1, 2)),
    ("day of month", r"(\d{1,2})(?:st|nd|rd|th|\.(?!\s?\d))", lambda m: (int(m[1]),)),
    ("day of month", rf"{_N}[号號日]", lambda m: (number_of(m[1]),)),
    ("amount", rf"{_N}[个個]?半(?:小时|小時|钟头)", lambda m: (number_of(m[1]) * 3_600 + 1_800,)),
    ("amount", r"半[个個]?(?:小时|小時|钟头)", lambda _: (1_800,)),
    ("amount", _AND_A_HALF, lambda m: (number_of(m[1]) * 3_600 + 1_800,)),
    (
        "weekday part",
        r"(sonntag|montag|dienstag|mittwoch|donnerstag|freitag|samstag)(?:s)?(morgen|vormittag|mittag|nachmittag|abend)",
        lambda m: (_WEEKDAY_NUMBERS[m[1]], _GERMAN_PARTS[m[2]]),
    ),
    ("weekday", rf"(?<![{_LETTERS}])({_WEEKDAY})(?![{_LETTERS}])", lambda m: (_WEEKDAY_NUMBERS[m[1]],)),
    ("weekdays", rf"(?<![{_LETTERS}])({_WEEKDAY})s(?![{_LETTERS}])", lambda m: (str(_WEEKDAY_NUMBERS[m[1]]),)),
    ("weekday", _LISTED_DAY, lambda m: (_CHINESE_DAYS[m[1]],)),
    ("weekday", r"(?:周|週|星期|礼拜|禮拜)([日天一二三四五六])(?!次)", lambda m: (_CHINESE_DAYS[m[1]],)),
    (
        "weekday of next week",
        r"下[个個]?(?:周|週|星期|礼拜|禮拜)([日天一二三四五六])",
        lambda m: (_CHINESE_DAYS[m[1]],),
    ),
    ("number", _N, lambda m: (number_of(m[1]),)),
)


def _fixed(value: str) -> Make:
    """What a word of the table tells, wherever it stands: a number, a name, or both."""
    values = tuple(int(part) if part.isdigit() else part for part in value.split())
    return lambda _: values


@cache
def _rules() -> tuple[tuple[str, "re.Pattern[str]", Make], ...]:
    made = [(kind, re.compile(pattern), make) for kind, pattern, make in _PATTERNS]
    for kind, values in _TABLE.words.items():
        for value, words in values.items():
            pattern = words.replace(" ", r"\s+")
            made.append((kind, re.compile(rf"(?<![{_LETTERS}])(?:{pattern})(?![{_LETTERS}])"), _fixed(value)))
    for kind, values in _TABLE.signs.items():
        made += [(kind, re.compile(words), _fixed(value)) for value, words in values.items()]
    return tuple(made)


def tokens(text: str) -> tuple[Token, ...]:
    """What `text` says of times; what is no such word is a token `other`. Blanks are left out."""
    found: list[Token] = []
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        best: Token | None = None
        for kind, pattern, make in _rules():
            match = pattern.match(text, place)
            if match and match.end() > place and (best is None or match.end() > best.end):
                best = Token(kind, make(match), match[0], place)
        if best is None:
            word = re.compile(rf"[{_LETTERS}\d]+|.", re.DOTALL).match(text, place)
            best = Token("other", (), word[0] if word else text[place], place)
        found.append(best)
        place = best.end
    return tuple(found)
