"""What can be compared exactly in a text: numbers with their units, quotations and names.

Nothing here knows a language beyond the words of `terms.txt`. A time of day is a number of seconds, as a duration is;
day and year of a date are numbers whose unit is its month; a weekday is a number of its own.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
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
_FIGURE = re.compile(
    r"(?<!\d)(?!(?<=\+)\d{1,3} \d)"
    r"(?P<digits>\d{1,4}(?: \d\d){3,6}(?!\d)"
    r"|0(?=(?:\d[-/ ]?){8})\d{1,4}(?:[-/ ]\d{2,8}){1,5}(?!\d)"
    r"|\d{1,3}(?:[ \u00a0\u202f]\d{3}){1,6}(?!\d|[.,]\d)"
    r"|\d{1,24}(?:[.,'’]\d{1,24}){0,8})"
    rf"|周[一二三四五六日]|星期.|.曜日|[a-z]{{5,7}}-feira|[{_HAN_DIGITS}十两]|{_LETTERS}+"
)
#: What is added to a number, as in `forty-five`, `4万6千` and `two and a half`.
_ADDED = re.compile(rf"(?:-| and an? | [yei] |个| (?=\d[천백千]))?(\d+|[{_HAN_DIGITS}十半½¼¾]|[^\W\d_]+)")
_TOKEN = re.compile(rf"[A-Z][a-z]?\.(?=\s?[A-ZÀ-Ý])|{_LETTERS}+(?:['’/-]{_LETTERS}+)*|\S")
_SAID = re.compile(rf"{_LETTERS}+|[~≈]")
#: What may stand between a number, what multiplies it, and its unit.
_GAP = re.compile(r"(?:st|nd|rd|th|er|[.º])?[\s-]?(?:d['’]|d[ei] |of )?(?:an? )?")
_DATE = (
    r"(?=\d)(?<![\d.])(?:(?P<y1>\d{4})-(?P<m1>\d{1,2})-(?P<d1>\d{1,2})"
    r"|(?:(?P<y2>\d{4})[年년] ?)?(?P<m2>\d{1,2})[月월] ?(?P<d2>\d{1,2})[日号일]"
    r"|(?P<d3>\d{1,2})(?P<by>[./])\s?(?P<m3>\d{1,2})(?P=by)\s?(?P<y3>\d{4})"
    r"|(?P<d5>[0-3]?\d)\.(?P<m5>0[1-9]|1[0-2])\.(?!\d)"
    r"|(?:(?P<y4>\d{4})[年년] ?)?(?P<m4>\d{1,2})[月월])(?![\d%]|:\d)"
)
#: A month before a day or a year.
_MONTH = r"([^\W\d_]{3,12})\.?\s(?:\d{1,2}(?:st|nd|rd|th)?,?\s)?(?:del? |of )?\Z"
_TIME = (
    r"(?<![\d.,:])(?P<hour>\d{1,2})(?:(?::|\s?h\s?|\.(?=\d\d\s?(?:uhr|[ap]\.?m\b)))(?P<minute>\d{2})(?:(?::|\s?m(?:in)?\s?)(?P<second>\d{2})|(?!\s?m)))?"
    r"(?:\s?(?P<half>[ap])\.?m\b\.?)?(?![\d:]|[.,]\d)"
)
_QUOTES = frozenset('“„«‹「『"')
_QUOTED = r"[“„«‹「『]\s?([^“”„«»‹›「」『』\n]{4,600}?)\s?[”“»›」』]|(?<![\w\"])\"([^\"\n]{4,600}?)\"(?!\w)"
_GROUPED = r"[1-9]\d{0,2}(?:([.,'’ \u00a0\u202f])\d{3})(?:\1\d{3})*\Z"
#: Persons and places in Chinese and Japanese, where nothing is written with a capital.
_HAN_NAME = (
    r"(?:[是由为叫]|[师長长者家]是?)([王李张刘陈杨黄赵吴周徐孙马朱胡郭何林高罗郑梁谢宋唐许韩冯邓曹彭曾田董潘袁蔡蒋余杜叶程魏苏丁卢姚沈钟姜崔谭陆范汪"
    r"石金]\w{1,2})(?=[\W\dA-Za-z]|\Z|[等主设担领率表介说])|(\w(?![全本各省区])\w(?:省|县|(?<!城)市))|([^\W\d_\u3041-\u30ff]{2,4})(?=氏|さん)"
)
_BETWEEN = frozenset("× x - – — ~ to and or bis und oder a et ou y e do и 至 到".split())
#: Scripts that tell a language, and how often more letters there may be than theirs.
_SCRIPTS = (("ja", "\u3041", "\u30ff", 8), ("zh", "\u3400", "\u9fff", 3), ("ru", "\u0400", "\u04ff", 3))


@lru_cache(maxsize=50_000)
def fold(word: str) -> str:
    """`word` without accents, in lower case; `ß` and `ss` are the same."""
    plain = unicodedata.normalize("NFD", word.casefold())
    if plain.isascii():
        return plain
    return unicodedata.normalize("NFC", "".join(sign for sign in plain if not unicodedata.combining(sign)))


#: How names are spelled in other languages: letters that sound alike are one.
_LATIN = str.maketrans(
    dict(zip("абвгдеёзийклмнопрстуфыэіїєґ", "abvgdeeziiklmnoprstufieiieg", strict=True))
    | {"ж": "z", "х": "k", "ц": "s", "ч": "k", "ш": "s", "щ": "s", "ю": "iu", "я": "ia", "ь": "", "ъ": ""}
    | {"j": "i", "y": "i", "w": "v", "z": "s", "q": "k", "x": "ks", "ł": "l", "ø": "o", "đ": "d", "ı": "i"}
)
_SOUNDS = [*zip("ph sch sh ce ci ck ch kh c h".split(), [*"f s s se si k k k k".split(), ""], strict=True)]


@lru_cache(maxsize=20_000)
def sound(word: str) -> str:
    """About how a name sounds, in Latin letters."""
    said = fold(word).translate(_LATIN)
    for letters, heard in _SOUNDS:
        said = said.replace(letters, heard) if letters in said else said
    return re.sub(r"(.)\1+", r"\1", said)


#: The digits of Arabic and of India, and what stands between those of Arabic.
_DIGITS = {"٬": ",", "٫": "."} | {
    chr(first + one): str(one) for first in (0x660, 0x6F0, 0x966, 0x9E6) for one in range(10)
}


def _flat(text: str) -> str:
    """`text` folded sign by sign, so that every place in it stays; years in Chinese signs are in digits."""
    signs = {sign: _DIGITS.get(sign) or fold(sign)[:1] or sign for sign in set(text)}
    flat = "".join(map(signs.__getitem__, text))
    digits = str.maketrans(_HAN_DIGITS, "00123456789")
    return re.sub(f"[{_HAN_DIGITS}]{{2,}}", lambda run: run[0].translate(digits), flat)


_TERMS = Path(__file__).with_name("terms.txt").read_text(encoding="utf-8")


def _section(name: str) -> list[list[str]]:
    """The lines of a section of `terms.txt`, each as its folded words."""
    return [line.split() for line in _TERMS.partition(f"[{name}]")[2].partition("\n[")[0].splitlines()[1:] if line]


SCALES = {word: ("", float(row[0])) for row in _section("scale") for word in row[1:]}
MONTHS = {word: (f"month {row[0]}", 1.0) for row in _section("month") for word in row[1:]}
UNITS = {word: (row[0], float(row[1])) for row in _section("unit") for word in row[2:]} | MONTHS
SMALL, WEEKDAYS = ({word: float(row[0]) for row in _section(name) for word in row[1:]} for name in ("small", "weekday"))
#: Numbers that are one word: "fünfundfünfzig", "vijfenvijftig".
SMALL |= {
    f"{one}{link}{ten}": SMALL.get(one, 1.0) + SMALL[ten]
    for (link, *ones), tens in zip(*[iter(_section("compound"))] * 2, strict=True)
    for one in ones
    for ten in tens
}
#: The first signs of them, and how long they are at most.
_UNIT_STARTS, _UNIT_SIGNS = frozenset(word[0] for word in UNITS), max(map(len, UNITS))
_SCALE_STARTS, _SCALE_SIGNS = frozenset(word[0] for word in SCALES), max(map(len, SCALES))
HEDGES = {word: row[0] for row in _section("hedge") for word in row[1:]}
_HEDGE_ENDS = frozenset(said.rpartition("_")[2] for said in HEDGES)
SMALL_WORDS = {row[0]: frozenset(row[1:]) for row in _section("language")}
NO_MEANING = frozenset[str]().union(*SMALL_WORDS.values(), UNITS, SCALES)
_EMPTY = frozenset(map(stem, NO_MEANING))


#: Languages whose sign before the decimals is a comma.
_COMMA = frozenset(("de", "fr", "es", "it", "pt", "nl", "ru"))
#: A decade and a century.
_DECADE = re.compile(r"(?<=0)s\b|er[ -]jahr|-luvu|年代")
_CENTURY = r"(?:st|nd|rd|th|[.º]|e|er|eme)?[ -]?(?:century|jahrhundert|siecle|secolo|seculo|eeuw|век|世纪|世紀)"
#: A time of day without a colon: 8.30, 0820.
_CLOCK = r"(\d?\d(?=\.)|0\d|1[0-8]|2[1-4])\.?([0-5]\d)"
_GERMAN_ARTICLE = re.compile("[dD](?:er|ie|as|es|em|en)|[eE]in(?:e[nmrs]?)?|im|am|zum|zur|vom")
_ROMAN = re.compile("[IVXLCDM]+(?:th|e)?")
#: What may stand between numbers that share a unit; what a number counts by the word behind it, which in "58 instead of
#: 49 euros" it does not.
_SHARING = re.compile(r"[^\w|\n]?|[^\W\d_]{1,4}")
_WORD = r" ([^\W\d_]{4,})\b(?! (?:[^\W\d_]{2,4} )?\W?\d)|([人名位辆座站명])"
_CELL, _NUMBERED = re.compile(r" ?\|"), re.compile(r"\.?\s?\d")
_ORDINAL = re.compile(r"-[a-z]{2,6}(?:st|nd|rd|th)\b")
#: The number of an item of a list.
_LISTED = re.compile(r"(?:\A|\n) {0,2}\d{1,2}[.)] \Z")
#: What something is reckoned by: 6.50 euros an hour.
_RATE = re.compile(r"(?:\b(?:per|pro|je|par|por) (?:l['’])?|/ ?|[每毎]|(?=[시초분]속))([^\W\d_]+)")


class Fact(Struct, frozen=True):
    """One fact at `text[start:end]` of its text. `value` is that of a number in the base of `unit`.

    `factor` is that of its unit, `scale` that of a word such as million behind it; `grain` is the weight of its last
    digit in that base, `step` that of its last one but noughts; `spelled` tells that it is written in words; `side` is
    what the words before it say: `near`, more than it (`over`), less (`under`), `least` or `most`; `counts` is
    another word behind a number without a unit, `alone` tells that it ends its cell of a table. `readings` are
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
    counts: str = ""
    alone: bool = False
    readings: tuple["Fact", ...] = ()


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
    return "".join(filter(str.isalnum, _flat(text)))


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
    word = re.sub("['’][a-z]+$", "", word)
    known = (
        fold(word) in NO_MEANING or fold(word) in SMALL or fold(word) in WEEKDAYS or _ROMAN.fullmatch(word) is not None
    )
    return word[0].isupper() and not known


def figures(text: str, languages: frozenset[str] | None = None) -> list[Fact]:
    """The numbers of `text`, in order, and after them those that they make together, and rates.

    Where one stands in another, the one that begins first. A part of a page is read in the `languages` of the page.
    """
    flat, found = _flat(text), list[Fact]()
    numbers = _numbers(text, flat, languages_of(text) if languages is None else languages, own=languages is None)
    # Few texts pay for the patterns of dates and times.
    dates = (*_dates(text, flat), *_times(text, flat)) if re.search(r"\d", flat) else ()
    for fact in sorted((*dates, *numbers), key=lambda fact: fact.start):
        if not found or fact.start >= found[-1].end:
            found.append(fact)
    for at in range(len(found) - 2, -1, -1):
        one, other, between = found[at], found[at + 1], flat[found[at].end : found[at + 1].start].strip(" ,.")
        if between in ("–", "-", "/") and _is_year(one) and one.value % 100 < other.value < 100 and not other.unit:
            found[at + 1] = _or(other, replace(other, value=one.value // 100 * 100 + other.value))  # 1923–24
        found[at] = _shared_unit(one, other, between)
        if one.unit.startswith("month") and between in _BETWEEN and 0 < other.value <= 31 and not other.unit:
            found[at + 1] = _or(other, replace(other, unit=one.unit))  # Oct. 5–7
    return [*found, *_spans(found), *_rates(text, flat)]


def _spans(facts: list[Fact]) -> Iterator[Fact]:
    """What hours, minutes and seconds that stand together say, and how long years from one to another are; no text."""
    for at, first in enumerate(facts):
        whole = first
        for other in facts[at + 1 : at + 3]:
            near = other.start - whole.end < 12
            if near and whole.unit == other.unit == "time" and whole.factor > other.factor:
                whole = replace(
                    other, text="", start=first.start, value=whole.value + other.value, side=first.side, readings=()
                )
                yield whole
            elif near and _is_year(whole) and 0 < other.value - whole.value < 200:
                yield Fact("number", "", first.start, other.end, other.value - whole.value, grain=1.0, step=1.0)


def _is_year(fact: Fact) -> bool:
    return 1_000 < fact.value < 2_100 and not fact.unit


def _times_as_large(fact: Fact, size: float) -> Fact:
    return replace(fact, value=size * fact.value, grain=size * fact.grain, step=size * fact.step)


def _or(fact: Fact, other: Fact) -> Fact:
    """A number that may also be understood as another one."""
    return replace(fact, readings=(*fact.readings, replace(other, readings=())))


def _shared_unit(one: Fact, other: Fact, between: str) -> Fact:
    """A number that may share the unit or the scale of the next one, as in `4 to 5 hours` and `511 to 538 million`."""
    if (one.unit and other.unit) or not _SHARING.fullmatch(between):
        return one
    both = one if one.unit else _times_as_large(replace(one, unit=other.unit, factor=other.factor), other.factor)
    first = _or(replace(both, readings=one.readings), one) if between in _BETWEEN else _or(one, both)
    scaled = one.scale == 1 < other.scale and one.value < 1_000
    return _or(first, _times_as_large(both, other.scale)) if scaled else first


def _dates(text: str, flat: str) -> Iterator[Fact]:
    """Day and year of each date in figures, the year behind the day; 0 of a month that stands alone."""
    for match in re.finditer(_DATE, flat):
        part = {name[0]: int(said) for name, said in match.groupdict().items() if said and name != "by"}
        day, month = part.get("d", 0), part["m"]
        if (match["by"] == "/" and day <= 12) or month > 12:
            day, month = month, day
        start, end = match.span()
        for value in [one for one in (day, part.get("y", 0)) if one] or [0] if 0 < month <= 12 else []:
            fact = Fact("number", text[slice(*match.span())], start, end, value, f"month {month}")
            yield _or(fact, replace(fact, value=day + month / 100, unit="")) if match["d5"] else fact  # 3.10.
            start = end


def _rates(text: str, flat: str) -> Iterator[Fact]:
    """The times by which something is reckoned: `per hour`, 毎分."""
    for match in _RATE.finditer(flat):
        words = (match[1], *(match[1][:size] for size in (2, 1) if match[1][0] >= _UNSPACED))
        unit, factor = next((UNITS[word] for word in words if word in UNITS), ("", 0.0))
        if unit == "time":
            yield Fact("number", text[slice(*match.span())], *match.span(), factor, "rate")


def _times(text: str, flat: str) -> Iterator[Fact]:
    for match in re.finditer(_TIME, flat):
        hour, minute, half = int(match["hour"]), int(match["minute"] or 0), match["half"]
        if hour <= 24 and minute <= 59 and (half or match["minute"]):
            hour = hour % 12 + 12 * (half == "p") if half else hour
            seconds = 3600 * hour + 60 * minute + int(match["second"] or 0)
            fact = Fact("number", text[slice(*match.span())], *match.span(), seconds, "time", 3600.0)
            yield _or(fact, replace(fact, value=seconds / 60)) if ":" in match[0] else fact  # 4:51 of a game


def _numbers(text: str, flat: str, languages: frozenset[str], *, own: bool) -> Iterator[Fact]:
    # German "sei" is no Italian six, Dutch "onze" no French eleven.
    own_words = frozenset[str]().union(*(SMALL_WORDS[one] for one in languages & SMALL_WORDS.keys()))
    capital = languages & {"en", "de"}
    for match in _FIGURE.finditer(flat):
        if own and match["digits"] and _LISTED.search(flat[max(0, match.start() - 3) : match.end() + 2]):
            continue
        if (said := match[0]) in WEEKDAYS:
            yield Fact("number", text[slice(*match.span())], *match.span(), WEEKDAYS[said], "weekday")
        elif said in MONTHS and (
            text[match.start()].isupper() or not (capital or (said in SMALL and languages & _COMMA))
        ):
            if not _NUMBERED.match(flat, match.end()):
                yield Fact("number", text[slice(*match.span())], *match.span(), 0.0, MONTHS[said][0])
        elif (said in SMALL or match["digits"]) and said not in own_words:
            yield from _number(text, flat, match, languages)


def _number(text: str, flat: str, match: re.Match[str], languages: frozenset[str]) -> Iterator[Fact]:
    """The number that begins at a match, with what is added to it, its scale and its unit."""
    start, spelled = match.start(), not match["digits"]
    scale, end = _scaled(text, flat, match.end())
    decimal = scale >= 1e6 and ("," if languages & _COMMA else ".") in match[0]
    value, grain, step = (SMALL[match[0]], 1.0, 1.0) if spelled else _digits(match[0], decimal=decimal)
    most = scale if scale > 1 else 10 if spelled and value % 10 == 0 else 1
    while more := _ADDED.match(flat, end):
        added = float(more[1]) if more[1].isdecimal() else SMALL.get(more[1], 0.0)
        size, last = _scaled(text, flat, more.end(), most / added if added else 0)
        whole, last = _scaled(text, flat, last)  # "forty-five thousand", 三百二十万: it counts all of it
        if not 0 < size * added < most or (whole > 1 and most > 100):
            break
        value, scale, end = value * scale + size * added, whole, last
        most = max(size, whole, 10 if most == 100 and added % 10 == 0 and not more[1].isdecimal() else 1)
    unit, factor, last = _behind(UNITS, _UNIT_STARTS, _UNIT_SIGNS, flat, end)
    if _DECADE.match(flat, end) or text[end:last] == " w":
        unit, factor, last = "", 1.0, end  # no seconds, and no watts
    shown, month, before = start, None, flat[max(0, start - 24) : start]
    if not MONTHS.keys().isdisjoint(_SAID.findall(before)):
        month = re.search(_MONTH, before)
    if month and month[1] in MONTHS and not 31 < value < 1_000:
        shown, (unit, factor), last = start - len(month[0]), MONTHS[month[1]], end
    sign = flat[max(0, start - 2) : start].strip()[-1:]
    if sign in UNITS and not sign.isalnum():
        (unit, factor), last = UNITS[sign], end
    if spelled and not unit and scale * value < 1:
        unit, value = "percent", 100 * value  # half of them
    if spelled and not unit and end - start == 1 and flat[start] >= _UNSPACED:
        text, shown, last = "", start, start  # it may be a sign of a word or a name
    side, size = _side(re.split(r"\d", flat[max(0, start - 30) : start])[-1]), scale * factor
    glued = flat[start - 1 : start].isalpha() or flat[end : end + 1].isalpha()
    if spelled and not unit and value >= 20 and _ORDINAL.match(flat, end):
        return  # twenty-seventh
    late = 43_200 if (side, unit) == ("late", "time") else 0
    value, grain, step = size * value + late, size * grain, size * step
    # 4D, Q3 and 3rd may be in words.
    spelled = spelled or (glued and not unit and value < 13)
    fact = Fact("number", text[shown:last], start, last, value, unit, factor, scale, grain, step, spelled, side)
    if sign == "¥":  # yuan have the sign of yen
        fact = _or(fact, replace(fact, unit="cny"))
    if unit == "gbp" and flat[last - 1].isalpha() and sign != "£":  # a pound of a weight
        fact = _or(fact, replace(_times_as_large(fact, 453.592), unit="mass", factor=453.592))
    yield fact if unit or match[0] in SMALL or scale > 1 else _bare(fact, text, flat, match[0])


def _bare(fact: Fact, text: str, flat: str, digits: str) -> Fact:
    """A number in digits that has no unit, with what else it may be: a decade, a century, a time of day."""
    decade, century = _DECADE.match(flat, fact.end), re.compile(_CENTURY).match(flat, fact.end)
    if decade and _is_year(fact) and fact.value % 10 == 0:
        step = 10.0 if fact.value % 100 else 100.0
        return replace(fact, text=text[fact.start : decade.end()], end=decade.end(), side="over", step=step)
    if century and fact.value < 22:
        fact = replace(fact, text=text[fact.start : century.end()], end=century.end())
        return _or(fact, replace(fact, value=100 * fact.value - 100, side="over", step=100.0))
    clock, hour = re.fullmatch(_CLOCK, digits), fact.value if fact.value in range(1, 13) else 0
    for value in [int(clock[1]) + int(clock[2]) / 60] if clock else [hour, hour + 12] if hour else []:
        fact = _or(fact, replace(fact, value=3600 * value, unit="time", factor=3600.0, grain=60.0, step=60.0))
    word = re.compile(_WORD).match(flat, fact.end)
    counts = word[1] or word[2] if word else ""
    return replace(fact, counts=counts, alone=_CELL.match(flat, fact.end) is not None)


def _scaled(text: str, flat: str, end: int, most: float = math.inf) -> tuple[float, int]:
    """What multiplies a number that ends there, as far as it stays below `most`, and where that ends."""
    scale = 1.0
    while (known := _behind(SCALES, _SCALE_STARTS, _SCALE_SIGNS, flat, end))[2] > end and scale * known[1] < most:
        if text[end : known[2]] in (" m", " k", "-m"):
            break  # as a scale only in `2.5m` or as `M`
        scale, end = scale * known[1], known[2]
    return scale, end


def _behind(
    known: Mapping[str, tuple[str, float]], starts: frozenset[str], most: int, flat: str, place: int
) -> tuple[str, float, int]:
    """What the longest of some known words means that stands behind a number, and where it ends."""
    gap = _GAP.match(flat, place)
    for start in dict.fromkeys((gap.end() if gap else place, place)):
        for end in range(min(len(flat), start + most) if flat[start : start + 1] in starts else 0, start, -1):
            meaning = known.get(flat[start:end].replace(" ", "_"))
            if meaning is not None and (flat[end - 1] >= _UNSPACED or not flat[end : end + 1].isalnum()):
                return *meaning, end
    return "", 1.0, place


def _side(before: str) -> str:
    """What the words before a number say of it; `more than` and `more` are one, and CJK has no blanks."""
    words, signs = _SAID.findall(before)[-4:], before.rstrip()
    ends = [skip for skip in (0, 1) if skip < len(words) and words[-1 - skip] in _HEDGE_ENDS]
    phrases = ["_".join(words[-size - skip : len(words) - skip]) for skip in ends for size in (3, 2, 1)]
    joined = [signs[-size:] for size in (2, 1) if not signs[-size:].isascii()]
    return next((HEDGES[said] for said in (*phrases, *joined) if said in HEDGES), "")


def _digits(text: str, *, decimal: bool = False) -> tuple[float, float, float]:
    """The value of a number in digits, the weight of its last digit, and that of its last one but noughts."""
    digits = re.sub(r"\D", "", text)
    if text.isdecimal() or (not decimal and re.match(_GROUPED, text)):
        return float(digits), 1.0, 10.0 ** (len(digits) - len(digits.rstrip("0") or "0"))
    weight = 0.1 ** len(re.split(r"\D", text)[-1])
    return float(digits) * weight, weight, weight
