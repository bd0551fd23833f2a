"""What can be compared exactly in a text: numbers with their units, quotations and names.

Nothing here knows a language beyond the words of `terms.txt`. A time of day is a number of seconds, as a duration is;
day and year of a date are numbers whose unit is its month; a weekday is a number of its own.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from nanobot.utils.ranking import stem, terms

FactKind = Literal["number", "quotation", "name"]

#: The first sign of the scripts without blanks between words: Chinese, Japanese, Korean.
_UNSPACED = "\u3005"
_HAN_DIGITS = "〇零一二三四五六七八九"
#: Letters in pairs of case. Large ranges take milliseconds to compile.
_LETTERS = r"[A-Za-zÀ-\u052f]"
_WORD = re.compile(f"{_LETTERS}+")
#: A date in figures, a time of day, or a number in digits.
_FIGURE = (
    r"(?<![\d.])(?:(?P<y1>\d{4})-(?P<m1>\d{1,2})-(?P<d1>\d{1,2})"
    r"|(?:(?P<y2>\d{4})[年년] ?)?(?P<m2>\d{1,2})[月월] ?(?P<d2>\d{1,2})[日号일]"
    r"|(?P<d3>\d{1,2})(?P<by>[./])\s?(?P<m3>\d{1,2})(?P=by)\s?(?P<y3>\d{4})"
    r"|(?P<d5>[0-3]?\d)\.(?P<m5>0[1-9]|1[0-2])\.(?!\d)"
    r"|(?:(?P<y4>\d{4})[年년] ?)?(?P<m4>\d{1,2})[月월])(?![\d%]|:\d)"
    r"|(?<![\d.,:])(?=\d)(?P<hour>[01]?\d|2[0-4])(?:(?::|\s?h\s?|\.(?=\d\d\s?(?:uhr|[ap]\.?m\b)))(?P<minute>[0-5]\d)"
    r"(?:(?::|\s?m(?:in)?\s?)(?P<second>\d{2})|(?!\s?m))(?:\s?(?P<half>[ap])\.?m\b\.?)?"
    r"|\s?(?P<full>[ap])\.?m\b\.?)(?![\d:]|[.,]\d)"
    r"|(?<!\d)(?!(?<=\+)\d{1,3} \d)(?P<digits>\d{1,4}(?: \d\d){3,6}(?!\d)"
    r"|0(?=(?:\d[-/ ]?){8})\d{1,4}(?:[-/ ]\d{2,8}){1,5}(?!\d)"
    r"|\d{1,3}(?:[ \u00a0\u202f]\d{3}){1,6}(?!\d|[.,]\d)"
    r"|\d{1,24}(?:[.,'’]\d{1,24}){0,8})"
)
#: What is added to a number, as in `forty-five`, `4万6千` and `two and a half`.
_ADDED = re.compile(rf"(?:-| and an? | [yei] |个| (?=\d[천백千]))?(\d+|[{_HAN_DIGITS}十半½¼¾]|[^\W\d_]+)")
_TOKEN = re.compile(rf"[A-Z][a-z]?\.(?=\s?[A-ZÀ-Ý])|{_LETTERS}+(?:['’/-]{_LETTERS}+)*|\S")
#: What may stand between a number, what multiplies it, and its unit.
_GAP = re.compile(r"(?:st|nd|rd|th|er|[.º])?[\s-]?(?:d['’]|d[ei] |of )?(?:an? )?")
#: A month before a day or a year.
_MONTH = r"([^\W\d_]{3,12})\.?\s(?:\d{1,2}(?:st|nd|rd|th)?,?\s)?(?:del? |of )?\Z"
_QUOTES = frozenset('“„«‹「『"')
_QUOTED = r"[“„«‹「『]\s?([^“”„«»‹›「」『』\n]{4,600}?)\s?[”“»›」』]|(?<![\w\"])\"([^\"\n]{4,600}?)\"(?!\w)"
_GROUPED = r"[1-9]\d{0,2}(?:([.,'’ \u00a0\u202f])\d{3})(?:\1\d{3})*\Z"
#: Persons and places in Chinese and Japanese, where nothing is written with a capital.
_HAN_NAME = (
    r"(?:[是由为叫]|[师長长者家]是?)([王李张刘陈杨黄赵吴周徐孙马朱胡郭何林高罗郑梁谢宋唐许韩冯邓曹彭曾田董潘袁蔡蒋余杜叶程魏苏丁卢姚沈钟姜崔谭陆范汪"
    r"石金]\w{1,2})(?=[\W\dA-Za-z]|\Z|[等主设担领率表介说])|(\w(?![全本各省区])\w(?:省|县|(?<!城)市))|([^\W\d_\u3041-\u30ff]{2,4})(?=氏|さん)"
)
_BETWEEN = frozenset("× x - – — ~ to and or bis und oder a et ou y e do и 至 到".split())
_AND = re.compile("(?:and|und|et|y|e|en|и)?")
#: Scripts that tell a language, and how often more letters there may be than theirs.
_SCRIPTS = (("ja", "\u3041", "\u30ff", 8), ("zh", "\u3400", "\u9fff", 3), ("ru", "\u0400", "\u04ff", 3))
#: Languages whose sign before the decimals is a comma.
_COMMA = frozenset(("de", "fr", "es", "it", "pt", "nl", "ru"))
_DECADE = re.compile(r"(?<=0)s\b|er[ -]jahr|-luvu|年代")
_CENTURY = r"(?:st|nd|rd|th|[.º]|e|er|eme)?[ -]?(?:century|jahrhundert|siecle|secolo|seculo|eeuw|век|世纪|世紀)"
#: A time of day without a colon: 8.30, 0820.
_CLOCK = r"(\d?\d(?=\.)|0\d|1[0-8]|2[1-4])\.?([0-5]\d)"
_GERMAN_ARTICLE = re.compile("[dD](?:er|ie|as|es|em|en)|[eE]in(?:e[nmrs]?)?|im|am|zum|zur|vom")
_ROMAN = re.compile("[IVXLCDM]+(?:th|e)?")
#: What may stand between numbers that share a unit; what a number counts by the word behind it, which in "58 instead of
#: 49 euros" it does not.
_SHARING = re.compile(r"[^\w|\n]?|[^\W\d_]{1,4}")
_COUNTED = re.compile(r" ([^\W\d_]{4,})\b(?! (?:[^\W\d_]{2,4} )?\W?\d)|([人名位辆座站명])")
#: What something is reckoned by: 6.50 euros an hour.
_RATE = re.compile(r"(?:\b(?:per|pro|je|par|por) (?:l['’])?|/ ?|[每毎]|(?=[시초분]속))([^\W\d_]+)")


_ACCENTS = re.compile("[\u0300-\u036f\u064b-\u0652\u3099\u309a]")


@lru_cache(maxsize=50_000)
def fold(word: str) -> str:
    """`word` without accents, in lower case; `ß` and `ss` are the same."""
    plain = unicodedata.normalize("NFD", word.casefold())
    return plain if plain.isascii() else unicodedata.normalize("NFC", _ACCENTS.sub("", plain))


#: The digits of Arabic and of India, and what stands between those of Arabic.
_DIGITS = {"٬": ",", "٫": "."} | {
    chr(first + one): str(one) for first in (0x660, 0x6F0, 0x966, 0x9E6) for one in range(10)
}
_TERMS = Path(__file__).with_name("terms.txt").read_text(encoding="utf-8")


def _section(name: str) -> list[list[str]]:
    """The lines of a section of `terms.txt`, each as its folded words."""
    return [line.split() for line in _TERMS.partition(f"[{name}]")[2].partition("\n[")[0].splitlines()[1:] if line]


SCALES = {word: ("", float(row[0])) for row in _section("scale") for word in row[1:]}
MONTHS = {word: (f"month {row[0]}", 1.0) for row in _section("month") for word in row[1:]}
UNITS = {word: (row[0], float(row[1])) for row in _section("unit") for word in row[2:]} | MONTHS
SMALL, WEEKDAYS = ({word: float(row[0]) for row in _section(name) for word in row[1:]} for name in ("small", "weekday"))
#: The first signs of what stands behind a number, and how long it is at most.
_STARTS, _SIGNS = {word[:2] for word in (*UNITS, *SCALES)}, max(map(len, UNITS))
#: Units that may be read as another one, by what they are multiplied, and what is added.
ALSO = {
    row[0]: [(row[at], float(row[at + 1]), float(row[at + 2])) for at in range(1, len(row), 3)]
    for row in _section("also")
}
HEDGES = {word: row[0] for row in _section("hedge") for word in row[1:]}
_HEDGE_ENDS = frozenset(said.rpartition("_")[2] for said in HEDGES)
SMALL_WORDS = {row[0]: frozenset(row[1:]) for row in _section("language")}
#: What stands before a name that may be translated, as in `the Middle East`, and words of names that are.
TRANSLATED = frozenset(word for row in _section("translated") for word in row)
NO_MEANING = frozenset[str]().union(*SMALL_WORDS.values(), UNITS, SCALES)
_EMPTY = frozenset(map(stem, NO_MEANING))
#: How names are spelled in other languages: letters that sound alike are one.
_SOUNDS = [
    (letters, heard.strip("-")) for row in _section("sound") for letters, heard in zip(row[::2], row[1::2], strict=True)
]
#: Words that are figures by themselves, and those of them that are no plain words.
_FIGURE_WORDS = SMALL.keys() | MONTHS.keys() | WEEKDAYS.keys()
_ODD_WORDS = [word for word in _FIGURE_WORDS if not _WORD.fullmatch(word) and len(word) > 1]


@lru_cache(maxsize=20_000)
def sound(word: str) -> str:
    """About how a name sounds, in Latin letters."""
    said = fold(word)
    for letters, heard in _SOUNDS:
        said = said.replace(letters, heard)
    return re.sub(r"(.)\1+", r"\1", said)


@lru_cache(maxsize=4)
def flattened(text: str) -> str:
    """`text` folded sign by sign, so that every place in it stays; years in Chinese signs are in digits."""
    signs = {sign: _DIGITS.get(sign) or fold(sign)[:1] or sign for sign in set(text)}
    flat = "".join(map(signs.__getitem__, text))
    digits = str.maketrans(_HAN_DIGITS, "00123456789")
    return re.sub(f"[{_HAN_DIGITS}]{{2,}}", lambda run: run[0].translate(digits), flat)


class Fact(Struct, frozen=True):
    """One fact at `text[start:end]` of its text. `value` is that of a number in the base of `unit`.

    `factor` is that of its unit, `scale` that of a word such as million behind it; `grain` is the weight of its last
    digit in that base, `step` that of its last one but noughts; `spelled` tells that it is written in words; `side` is
    what the words before it say: `near`, more than it (`over`), less (`under`), `least` or `most`; `counts` tells that
    another word stands behind a number without a unit, `alone` that it ends its cell of a table. `readings` are
    other ways to understand it.
    """

    kind: FactKind
    text: str
    start: int
    end: int
    value: float = 0.0
    unit: str = ""
    factor: float = 1.0
    scale: float = 1.0
    grain: float = 0.0
    step: float = 0.0
    spelled: bool = False
    side: str = ""
    counts: bool = False
    alone: bool = False
    readings: tuple["Fact", ...] = ()

    def times(self, size: float) -> "Fact":
        return replace(self, value=size * self.value, grain=size * self.grain, step=size * self.step)

    def either(self, other: "Fact") -> "Fact":
        """A number that may also be understood as another one."""
        return replace(self, readings=(*self.readings, replace(other, readings=())))

    @property
    def count(self) -> float:
        """Its value as it is written, in its own unit."""
        return self.value / self.factor

    @property
    def dated(self) -> bool:
        return self.unit.startswith("month")

    @property
    def is_year(self) -> bool:
        return 1_000 < self.value < 2_100 and not self.unit


def words_of(text: str) -> frozenset[str]:
    """The stems of the words that carry meaning."""
    return frozenset(word for word in set(terms(text)) - _EMPTY if not word[0].isdigit())


@lru_cache(maxsize=100)
def languages_of(text: str) -> frozenset[str]:
    """The languages that a text may be in, as far as script and small words tell; empty where nothing does."""
    sample = text[:6_000]
    signs = Counter(filter(str.isalpha, sample))
    for name, first, last, times in _SCRIPTS:
        if sum(count for sign, count in signs.items() if first <= sign <= last) * times > signs.total():
            other = name == "ru" and any("\u0452" <= sign <= last for sign in signs)
            return frozenset[str]() if other else frozenset((name,))
    words = [fold(word) for word in re.findall(r"[^\W\d_]+", sample)]
    counts = {name: sum(map(known.__contains__, words)) for name, known in SMALL_WORDS.items()}
    most = max(1, len(words) // 7, *counts.values())
    return frozenset(name for name, count in counts.items() if count == most)


def squash(text: str) -> str:
    """`text` without blanks, marks and case, for word-for-word comparison."""
    return "".join(filter(str.isalnum, flattened(text)))


def quotations(text: str) -> Iterator[Fact]:
    """What `text` quotes: three words and more, or six signs of a script without blanks."""
    for match in re.finditer(_QUOTED, text) if _QUOTES & set(text) else ():
        said = match[1] or match[2]
        if len(said.split()) >= 3 or sum(sign >= _UNSPACED for sign in said) >= 6:
            yield Fact("quotation", f"“{said}”", match.start(), match.end())


def unquoted(text: str) -> str:
    """`text` without what it quotes, which may be in another language; all of it where nothing else stands there."""
    return (re.sub(_QUOTED, " ", text) if _QUOTES & set(text) else text).strip() or text


def names(text: str, languages: frozenset[str]) -> Iterator[Fact]:
    """The proper names of `text`: capitalised words within a sentence; in German only such as stand together."""
    for match in () if text.isascii() else re.finditer(_HAN_NAME, text):
        place = match.lastindex or 0
        yield Fact("name", match[place], match.start(place), match.end(place))
    before, least = ".", 2 if "de" in languages else 1
    for capital, tokens in groupby(_TOKEN.finditer(text), key=lambda token: _is_capital(token[0])):
        run = list(tokens)
        noun = least == 2 and (_GERMAN_ARTICLE.fullmatch(before) or before.isdecimal())  # "des Kanzlers Merz"
        opens = before in '.!?:|•-*("“„«' and not re.search("[a-z][A-Z]", run[0][0])
        within = run[bool(noun or opens) :]
        before = run[-1][0]
        if capital and len(within) >= least:
            start, end = within[0].start(), within[-1].end()
            yield Fact("name", text[start:end], start, end)


def _is_capital(word: str) -> bool:
    folded = fold(re.sub("['’][a-z]+$", "", word))
    known = folded in NO_MEANING or folded in SMALL or folded in WEEKDAYS or _ROMAN.fullmatch(word)
    return word[0].isupper() and not known


def figures(text: str, languages: frozenset[str] | None = None) -> list[Fact]:
    """The numbers of `text`, in order, and after them what they are reckoned by. A page is read in its `languages`, a
    claim in those that it may be in."""
    flat, found = flattened(text), list[Fact]()
    reader = _FigureReader(text, flat, languages_of(text) if languages is None else languages)
    for match in _beginnings(flat, reader.own_words).finditer(flat):
        if not found or match.start() >= found[-1].end:
            found += reader.read(match)
    for at in range(len(found) - 2, -1, -1):
        one, other = found[at], found[at + 1]
        found[at : at + 2] = _together(one, other, flat[one.end : other.start].strip(" ,."), text)
    return [*found, *reader.rates()]


def _beginnings(flat: str, own: frozenset[str]) -> re.Pattern[str]:
    """Finds where figures may begin in a text: at digits, and at those words of figures that it has."""
    plain = {word for word in set(_WORD.findall(flat)) & _FIGURE_WORDS if word in WEEKDAYS or word not in own}
    odd = [word for word in _ODD_WORDS if word in flat]
    return re.compile(
        "|".join([*odd, r"\d", "[一二三四五六七八九十两]", *(rf"{word}(?!{_LETTERS})" for word in sorted(plain))])
    )


def _together(one: Fact, other: Fact, between: str, text: str) -> list[Fact]:
    """Two numbers that stand together, as each of them may be understood beside the other."""
    sixty = one.unit == other.unit == "time" and one.value >= one.factor == 60 * other.factor
    if sixty and one.grain and _AND.fullmatch(between):  # 1 hour and 2 minutes
        said, value = text[one.start : other.end], one.value + other.value
        return [replace(one, text=said, end=other.end, value=value, grain=other.grain)]
    if one.is_year and between in _BETWEEN and not other.unit:
        short = one.value % 100 < other.value < 100  # 1923–24
        last = replace(other, value=one.value // 100 * 100 + other.value if short else other.value)
        if last.is_year and last.value > one.value:
            years = replace(last, value=last.value - one.value, counts=True)  # how many they are
            other = other.either(last).either(years)
    if one.dated and between in _BETWEEN and 0 < other.value <= 31 and not other.unit:
        other = other.either(replace(other, unit=one.unit))  # Oct. 5–7
    if (one.unit and other.unit) or not _SHARING.fullmatch(between):
        return [one, other]
    # It may share the unit or the scale of the next one: 4 to 5 hours, 511 to 538 million.
    both = one if one.unit else replace(one, unit=other.unit, factor=other.factor).times(other.factor)
    first = replace(both, readings=one.readings).either(one) if between in _BETWEEN else one.either(both)
    scaled = one.scale == 1 < other.scale and one.value < 1_000
    return [first.either(both.times(other.scale)) if scaled else first, other]


class _FigureReader:
    """Reads the figures of one text."""

    def __init__(self, text: str, flat: str, languages: frozenset[str]) -> None:
        self.text, self.flat, self.languages = text, flat, languages
        # German "sei" is no Italian six, Dutch "onze" no French eleven.
        self.own_words = frozenset[str]().union(*(SMALL_WORDS[one] for one in languages & SMALL_WORDS.keys()))

    def read(self, match: re.Match[str]) -> Iterator[Fact]:
        """What begins at a match."""
        said, (start, end) = match[0], match.span()
        if _WORD.match(said) and _WORD.match(self.flat[max(0, start - 1) : start]):
            return  # the end of a word
        if said in WEEKDAYS:
            yield Fact("number", self.text[start:end], start, end, WEEKDAYS[said], "weekday")
        elif said in MONTHS and (
            self.text[start].isupper()
            or not (self.languages & {"en", "de"} or (said in SMALL and self.languages & _COMMA))
        ):
            if not re.match(r"\.?\s?\d", self.flat[end : end + 3]):
                yield Fact("number", self.text[start:end], start, end, 0.0, MONTHS[said][0])
        elif said in SMALL:
            yield from self._number(start, said)
        elif found := re.compile(_FIGURE).match(self.flat, start):
            yield from self._digits(found)

    def _digits(self, match: re.Match[str]) -> Iterator[Fact]:
        """A date, time or number: day and year of a date, the year behind the day; 0 of a month alone."""
        start, end = match.span()
        part = {name[0]: int(said) for name, said in match.groupdict().items() if said and name[1:].isdecimal()}
        day, month = part.get("d", 0), part.get("m", 0)
        if match["hour"]:
            hour, half = int(match["hour"]), match["half"] or match["full"]
            hour = hour % 12 + 12 * (half == "p") if half else hour
            seconds = 3600 * hour + 60 * int(match["minute"] or 0) + int(match["second"] or 0)
            fact = Fact("number", self.text[start:end], start, end, seconds, "time", 3600.0)
            yield fact.either(replace(fact, value=seconds / 60)) if ":" in match[0] else fact  # 4:51 of a game
        elif month:
            if (match["by"] == "/" and day <= 12) or month > 12:
                day, month = month, day
            for value in [one for one in (day, part.get("y", 0)) if one] or [0] if month <= 12 else []:
                fact = Fact("number", self.text[start:end], start, end, value, f"month {month}")
                yield fact.either(replace(fact, value=day + month / 100, unit="")) if match["d5"] else fact  # 3.10.
                start = end
        else:
            yield from self._number(start, match[0])

    def rates(self) -> Iterator[Fact]:
        """The times by which something is reckoned: `per hour`, 毎分."""
        for match in _RATE.finditer(self.flat):
            words = (match[1], *(match[1][:size] for size in (2, 1) if match[1][0] >= _UNSPACED))
            unit, factor = next((UNITS[word] for word in words if word in UNITS), ("", 0.0))
            if unit == "time":
                yield Fact("number", self.text[slice(*match.span())], *match.span(), factor, "rate")

    def _number(self, start: int, said: str) -> Iterator[Fact]:
        """The number that begins with what is said, with what is added to it, its scale and its unit."""
        text, flat, spelled = self.text, self.flat, said in SMALL
        scale, end = self._scaled(start + len(said))
        decimal = scale >= 1e6 and ("," if self.languages & _COMMA else ".") in said
        value, grain, step = (SMALL[said], 1.0, 1.0) if spelled else _digits(said, decimal=decimal)
        most = scale if scale > 1 else 10 if spelled and value % 10 == 0 else 1
        while more := _ADDED.match(flat, end):
            added = float(more[1]) if more[1].isdecimal() else SMALL.get(more[1], 0.0)
            size, last = self._scaled(more.end(), most / added if added else 0)
            whole, last = self._scaled(last)  # "forty-five thousand", 三百二十万: it counts all of it
            if not 0 < size * added < most or (whole > 1 and most > 100) or value > 1e18:
                break
            value, scale, end = value * scale + size * added, whole, last
            most = max(size, whole, 10 if most == 100 and added % 10 == 0 and not more[1].isdecimal() else 1)
        (unit, factor), last = self._behind(UNITS, end)
        if _DECADE.match(flat, end) or text[end:last] == " w":
            unit, factor, last = "", 1.0, end  # no seconds, and no watts
        before = flat[max(0, start - 24) : start]
        month, shown = (re.search(_MONTH, before) if before[-1:].isspace() else None), start
        if month and month[1] in MONTHS and not 31 < value < 1_000:
            shown, (unit, factor), last = start - len(month[0]), MONTHS[month[1]], end
        sign = flat[max(0, start - 2) : start].strip()[-1:]
        if sign in UNITS and not sign.isalnum():
            (unit, factor), last = UNITS[sign], end
        if spelled and not unit and scale * value < 1:
            unit, value = "percent", 100 * value  # half of them
        side, size = _side(re.split(r"\d", flat[max(0, start - 30) : start])[-1]), scale * factor
        if spelled and not unit and value >= 20 and re.match(r"-[a-z]{2,6}(?:st|nd|rd|th)\b", flat[end : end + 12]):
            return  # twenty-seventh
        fact = Fact("number", text[shown:last], start, last, value, unit, factor, scale, grain, step, spelled, side)
        fact = fact.times(size)
        if (side, unit) == ("late", "time"):
            fact = replace(fact, value=fact.value + 43_200)
        for other, per, plus in ALSO.get(unit, ()):
            fact = fact.either(replace(fact.times(per), unit=other, factor=per, value=per * fact.value + plus))
        yield fact if unit or said in SMALL or scale > 1 else self._bare(fact, said)

    def _bare(self, fact: Fact, digits: str) -> Fact:
        """A number in digits that has no unit, with what else it may be: a decade, a century, a time of day."""
        decade, century = _DECADE.match(self.flat, fact.end), re.match(_CENTURY, self.flat[fact.end : fact.end + 20])
        if decade and fact.is_year and fact.value % 10 == 0:
            return replace(fact, end=decade.end(), side="over", step=10.0 if fact.value % 100 else 100.0)
        if century and fact.value < 22:
            return fact.either(replace(fact, value=100 * fact.value - 100, side="over", step=100.0))
        clock, hour = re.fullmatch(_CLOCK, digits), fact.value if fact.value in range(1, 13) else 0
        for value in [int(clock[1]) + int(clock[2]) / 60] if clock else [hour, hour + 12] if hour else []:
            fact = fact.either(replace(fact, value=3600 * value, unit="time", factor=3600.0, grain=60.0, step=60.0))
        counts = _COUNTED.match(self.flat, fact.end) is not None
        return replace(fact, counts=counts, alone=re.match(r" ?\|", self.flat[fact.end : fact.end + 2]) is not None)

    def _scaled(self, end: int, most: float = math.inf) -> tuple[float, int]:
        """What multiplies a number that ends there, as far as it stays below `most`, and where that ends."""
        scale = 1.0
        while True:
            (_, size), last = self._behind(SCALES, end)
            # As a scale `m` and `k` stand only in `2.5m` or as `M`.
            if last == end or scale * size >= most or self.text[end:last] in (" m", " k", "-m"):
                return scale, end
            scale, end = scale * size, last

    def _behind(self, known: dict[str, tuple[str, float]], place: int) -> tuple[tuple[str, float], int]:
        """What the longest of some known words means that stands behind a number, and where it ends."""
        flat, gap = self.flat, _GAP.match(self.flat, place)
        for start in dict.fromkeys((gap.end() if gap else place, place)):
            if flat[start : start + 2] not in _STARTS and flat[start : start + 1] not in _STARTS:
                continue
            for end in range(min(len(flat), start + _SIGNS), start, -1):
                meaning = known.get(flat[start:end].replace(" ", "_"))
                if meaning is not None and (flat[end - 1] >= _UNSPACED or not flat[end : end + 1].isalnum()):
                    return meaning, end
        return ("", 1.0), place


def _side(before: str) -> str:
    """What the words before a number say of it; `more than` and `more` are one, and CJK has no blanks."""
    words, signs = _WORD.findall(before)[-4:], before.rstrip()
    if signs.isascii() and signs[-1:] != "~" and _HEDGE_ENDS.isdisjoint(words[-2:]):
        return ""
    phrases = ["_".join(words[-size - skip : len(words) - skip]) for skip in (0, 1) for size in (3, 2, 1)]
    return next((HEDGES[said] for said in (*phrases, signs[-2:], signs[-1:]) if said in HEDGES), "")


def _digits(text: str, *, decimal: bool = False) -> tuple[float, float, float]:
    """The value of a number in digits, the weight of its last digit, and that of its last one but noughts."""
    digits = re.sub(r"\D", "", text)
    if text.isdecimal() or (not decimal and re.match(_GROUPED, text)):
        return float(digits), 1.0, 10.0 ** (len(digits) - len(digits.rstrip("0") or "0"))
    weight = 0.1 ** len(re.split(r"\D", text)[-1])
    return float(digits) * weight, weight, weight
