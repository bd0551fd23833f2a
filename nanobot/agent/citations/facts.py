"""What can be compared exactly in a text: dates, times, numbers with their units, quotations and names.

Nothing here knows a language beyond the words of `terms.txt`.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from nanobot.utils.ranking import stem, terms

FactKind = Literal["number", "date", "time", "weekday", "quotation", "name"]
T = TypeVar("T")

_CJK = "\u3005-\u3007\u3041-\u30ff\u3400-\u9fff\uac00-\ud7af"
_HAN = "〇零一二三四五六七八九十百千两"
#: What may stand between a number, what multiplies it, and its unit.
_GAP = re.compile(r"[\s-]?(?:d['’]|d[ei] |of )?")
#: It looks first for a digit, or a word before one: a quarter of the time.
_DATE = re.compile(
    r"(?=\d|\b[^\W\d_]{3,12}+\.?\s(?:de )?\d)(?<![\d.])(?:(?P<y1>\d{4})-(?P<m1>\d{1,2})-(?P<d1>\d{1,2})"
    r"|(?P<d2>\d{1,2})(?P<by>[./])\s?(?P<m2>\d{1,2})(?P=by)\s?(?P<y2>\d{4})"
    r"|(?:(?P<y3>\d{4})年)?(?P<m3>\d{1,2})月(?:(?P<d3>\d{1,2})[日号])?"
    r"|(?P<d4>\d{1,2})(?:st|nd|rd|th|er|[.º])?\s(?:de |of )?(?P<m4>[^\W\d_]{3,12})\.?"
    r"(?:,?\s(?:de |del |of )?(?P<y4>\d{4}))?"
    r"|(?P<m5>\b[^\W\d_]{3,12})\.?\s(?:(?P<d5>\d{1,2})(?:st|nd|rd|th)?(?:,?\s(?P<y5>\d{4}))?|(?:de )?(?P<y6>\d{4}))"
    r")(?![\d%]|:\d)"
)
_TIME = re.compile(
    r"(?<![\d.,:])(?P<h>\d{1,2})(?:(?P<by>[:.]|\s?h\s?)(?P<m>\d{2})(?!\s?min))?"
    r"(?P<mark>\s?(?:[ap]\.?m\b\.?|uhr|[点時时]))?(?![\d:]|[.,]\d)"
)
_QUOTED = re.compile(r"[“„«‹「『]\s?([^“”„«»‹›「」『』\n]{4,600}?)\s?[”“»›」』]|(?<![\w\"])\"([^\"\n]{4,600}?)\"(?!\w)")
_GROUPED = re.compile(r"[1-9]\d{0,2}(?:([.,'’ \u00a0\u202f])\d{3})(?:\1\d{3})*\Z")
#: Numbers of other languages that are words of English.
_NOT_ENGLISH = frozenset(("once", "due", "cent", "sept", "elf", "mil"))
_BETWEEN = frozenset("- – — ~ to and or bis und oder a et ou y e до и 至 到".split())
_MONEY = "$€£¥₽₹"


def fold(word: str) -> str:
    """`word` without accents, in lower case; `ß` and `ss` are the same."""
    plain = unicodedata.normalize("NFD", word.casefold())
    return plain if plain.isascii() else "".join(sign for sign in plain if not unicodedata.combining(sign))


class _Patterns(Struct, frozen=True):
    """What words and figures look like. `names` are persons and places where nothing is written with a capital."""

    words: re.Pattern[str]
    figure: re.Pattern[str]
    token: re.Pattern[str]
    unspaced: re.Pattern[str] | None = None
    names: re.Pattern[str] | None = None


def _patterns(text: str) -> _Patterns:
    """How to read `text`: a set of Chinese and Japanese signs takes 2 ms to compile, which only such texts pay."""
    return _compiled(not text.isascii() and max(text) >= _CJK[0])


@cache
def _compiled(cjk: bool) -> _Patterns:
    letter = rf"[^\W\d_{_CJK}]" if cjk else r"[^\W\d_]"
    figure = re.compile(
        r"(?<!\d)(?<!\d/)(?P<digits>\d{1,3}(?:[ \u00a0\u202f]\d{3}){1,6}(?!\d|[.,]\d)|\d{1,24}(?:[.,'’]\d{1,24}){0,8})"
        rf"|(?P<han>{f'[{_HAN}]+' if cjk else '(?!)'})|(?P<word>{letter}+)(?:-(?P<more>{letter}+))?"
    )
    token = re.compile(rf"{letter}+(?:['’/-]{letter}+)*|\S")
    words = re.compile(rf"{letter}+|[~≈]")
    if not cjk:
        return _Patterns(words, figure, token)
    names = re.compile(
        rf"(?:[是由为叫]|[师長长者家]是?)([王李张刘陈杨黄赵吴周徐孙马朱胡郭何林高罗郑梁谢宋唐许韩冯邓曹彭曾田董潘袁蔡蒋余杜叶程魏苏丁卢姚沈钟姜崔谭陆范汪"
        rf"石金][{_CJK}]{{1,2}})(?=[^{_CJK}]|\Z|[等主设担领率表介说])|([{_CJK}](?![全本各省区])[{_CJK}](?:省|县|(?<!城)市))|([一-龯]{{2,4}})(?=氏|さん)"
    )
    return _Patterns(words, figure, token, re.compile(f"[{_CJK}]+"), names)


def _unspaced(text: str) -> str:
    """The Chinese and Japanese signs of `text`."""
    runs = _patterns(text).unspaced
    return "".join(runs.findall(text)) if runs else ""


@lru_cache(maxsize=10_000)
def _flat_sign(sign: str) -> str:
    return fold(sign)[:1] or sign


def _flat(text: str) -> str:
    """`text` folded sign by sign, so that every place in it stays."""
    return text.lower() if text.isascii() else "".join(map(_flat_sign, text))


_TERMS = _flat(Path(__file__).with_name("terms.txt").read_text(encoding="utf-8"))


def _section(name: str) -> list[list[str]]:
    """The lines of a section of `terms.txt`, each as its folded words."""
    return [line.split() for line in _TERMS.partition(f"[{name}]")[2].partition("\n[")[0].splitlines()[1:] if line]


UNITS = {word: (row[0], float(row[1])) for row in _section("unit") for word in row[2:]}
SCALES, SMALL, SHARES, MONTHS, WEEKDAYS = (
    {word: float(row[0]) for row in _section(name) for word in row[1:]}
    for name in ("scale", "small", "share", "month", "weekday")
)
_SPELLED = SMALL.keys() | SHARES.keys()
#: How what stands behind a number begins.
_STARTS = frozenset(word[0] for word in (*UNITS, *SCALES))
HEDGES = {word: row[0] for row in _section("hedge") for word in row[1:]}
SMALL_WORDS = {row[0]: frozenset(row[1:]) for row in _section("language")}
NO_MEANING = frozenset[str]().union(*SMALL_WORDS.values(), UNITS, SCALES, MONTHS)
_EMPTY = frozenset(map(stem, NO_MEANING))


class Fact(Struct, frozen=True):
    """One fact at `text[start:end]` of its text. `values` are its readings, of a number in the base of `unit`.

    Of a number `factor` is that of its unit, and `step` the weight of its last digit in that base; `scale` is that of a
    word such as million behind it, `spelled` tells that it is written in words, `counts` that a word follows; `side` is
    what the words before it say: `near`, more than it (`over`), less (`under`), `least` or `most`. The values of a date
    are year, month and day, 0 for what it does not say; that of a time its minutes.
    """

    kind: FactKind
    text: str
    start: int
    end: int
    values: tuple[float, ...] = ()
    unit: str = ""
    factor: float = 1.0
    step: float = 1.0
    scale: float = 1.0
    spelled: bool = False
    counts: bool = False
    side: str = ""


def words_of(text: str) -> frozenset[str]:
    """The stems of the words that carry meaning."""
    return frozenset(word for word in set(terms(text)) - _EMPTY if not word[0].isdigit())


@lru_cache(maxsize=100)
def languages_of(text: str) -> frozenset[str]:
    """The languages that a text may be in, as far as script and small words tell; empty where nothing does."""
    sample = text[:6_000]
    signs = _unspaced(sample)
    letters = sum(map(str.isalpha, sample))
    if len(signs) * 3 > letters:
        kana = sum("\u3041" <= sign <= "\u30ff" for sign in signs)
        return frozenset(("ja" if kana * 8 > len(signs) else "zh",))
    if len(re.findall("[\u0400-\u04ff]", sample)) * 3 > letters:
        return frozenset(("ru",))
    words = Counter(re.findall(r"[^\W\d_]+", sample))
    folded = {word: fold(word) for word in words}
    counts = {
        name: sum(words[word] for word, plain in folded.items() if plain in known)
        for name, known in SMALL_WORDS.items()
    }
    most = max(counts.values())
    return frozenset(name for name in counts if counts[name] == most and most >= max(1, words.total() // 12))


def squash(text: str) -> str:
    """`text` without blanks, marks and case, for word-for-word comparison."""
    return "".join(filter(str.isalnum, fold(text)))


def quotations(text: str) -> Iterator[Fact]:
    """What `text` quotes: three words and more, or six signs of a script without blanks."""
    for match in _QUOTED.finditer(text):
        said = match[1] or match[2]
        if len(said.split()) >= 3 or len(_unspaced(said)) >= 6:
            yield Fact("quotation", said, match.start(), match.end())


def names(text: str, languages: frozenset[str]) -> Iterator[Fact]:
    """The proper names of `text`: capitalised words within a sentence; in German only such as stand together."""
    patterns = _patterns(text)
    for match in patterns.names.finditer(text) if patterns.names else ():
        place = match.lastindex or 0
        yield Fact("name", match[place], match.start(place), match.end(place))
    begin, start, end, count = True, 0, 0, 0
    for token in [*patterns.token.finditer(text), None]:
        word = token[0] if token else ""
        capital = word[:1].isupper() and fold(word) not in NO_MEANING and fold(word) not in WEEKDAYS
        if count and (not capital or (token and text[end : token.start()].strip())):
            if count >= (2 if languages == {"de"} else 1):
                yield Fact("name", text[start:end], start, end)
            count = 0
        if token and capital and (count or not begin):
            start, end, count = start if count else token.start(), token.end(), count + 1
        begin = word in (".", "!", "?", ":", "|", "•", "-", "*", "(", '"', "“", "„", "«") and not count


def figures(text: str) -> list[Fact]:
    """The dates, times, weekdays and numbers of `text`, in order."""
    flat, languages = _flat(text), languages_of(text)
    found = [*_dates(text, flat)]
    taken = {place for fact in found for place in range(fact.start, fact.end)}
    for match in _TIME.finditer(flat):
        if match.start() not in taken and (fact := _time(text, match)):
            found.append(fact)
            taken.update(range(fact.start, fact.end))
    # In these languages a comma stands between thousands and never before decimals.
    thousands = bool(languages) and languages <= {"en", "zh", "ja"}
    for match in _patterns(flat).figure.finditer(flat):
        if (word := match["word"]) and not (word in _SPELLED or match[0] in WEEKDAYS):
            continue
        if match[0] in WEEKDAYS:
            found.append(Fact("weekday", text[slice(*match.span())], *match.span(), (WEEKDAYS[match[0]],)))
        elif match.start() in taken or ("en" in languages and word in _NOT_ENGLISH):
            continue
        elif fact := _number(text, flat, match, thousands=thousands):
            found.append(fact)
    found.sort(key=lambda fact: fact.start)
    for at in range(len(found) - 2, -1, -1):
        found[at] = _shared_unit(found[at], found[at + 1], flat[found[at].end : found[at + 1].start].strip())
    return found


def _shared_unit(one: Fact, other: Fact, between: str) -> Fact:
    """A number with the unit of the next one where both share it, as in `4 to 5 hours`, or its scale."""
    if not (one.kind == other.kind == "number" and between in _BETWEEN and one.unit in ("", other.unit)):
        return one
    size = 1.0 if one.unit else other.factor
    if one.scale == 1 and one.values[0] < 1_000 and between not in ("and", "und", "et", "y", "e", "и"):
        size *= other.scale  # from 511 to 538 million
    values = tuple(value * size for value in one.values)
    return replace(one, unit=other.unit, values=values, step=one.step * size, factor=other.factor)


def _dates(text: str, flat: str) -> Iterator[Fact]:
    place = 0
    while match := _DATE.search(flat, place):
        place = match.start() + 1
        part = {name[0]: said for name, said in match.groupdict().items() if said}
        month = int(part["m"]) if part["m"].isdecimal() else int(MONTHS.get(part["m"], 0))
        day, year = int(part.get("d", 0)), int(part.get("y", 0))
        if (match["by"] == "/" and day <= 12) or month > 12:
            day, month = month, day
        if 0 < month <= 12 and day <= 31:
            place = match.end()
            yield Fact("date", text[slice(*match.span())].strip(" ,."), *match.span(), (year, month, day))


def _time(text: str, match: re.Match[str]) -> Fact | None:
    hour, minute, mark = int(match["h"]), int(match["m"] or 0), (match["mark"] or "").strip()
    if hour > 24 or minute > 59 or not (mark or match["by"] == ":" or "h" in (match["by"] or "")):
        return None
    if mark[:1] in ("a", "p"):
        hour = hour % 12 + 12 * (mark[0] == "p")
    late = text[max(0, match.start() - 2) : match.start()] in ("晚上", "下午", "午後")
    minutes = 60 * (hour + 12 * (late and hour < 12)) + minute
    return Fact("time", text[slice(*match.span())].strip(), *match.span(), (minutes,))


def _number(text: str, flat: str, match: re.Match[str], *, thousands: bool) -> Fact | None:
    """The number that begins at a match, with its scale and unit."""
    values, step, end = _digits(match["digits"], thousands=thousands) if match["digits"] else _spelled(match)
    start, end = match.start(), end or match.end()
    if not values:
        return None
    if flat.startswith(" and a half", end):
        values, end = tuple(value + 0.5 for value in values), end + len(" and a half")
    if match["word"] in SHARES and flat.startswith((" a ", " an "), end):
        end = flat.index(" ", end + 1)
    scale = 1.0
    while known := _behind(SCALES, flat, end):
        size, last = known
        if text[end:last] in (" m", " k", "-m"):
            break  # as a scale only in `2.5m` or as `M`
        scale, end = scale * size, last
    (unit, factor), last = _behind(UNITS, flat, end) or (("", 1.0), end)
    if match["word"] in SHARES and unit == "time":
        values = (values[0] / 100,)  # half an hour
    elif match["word"] in SHARES:
        (unit, factor), last = ("percent", 1.0), end
    if (sign := flat[max(0, start - 2) : start].strip()[-1:]) and sign in _MONEY:
        (unit, factor), last = UNITS[sign], end
    if len(match["han"] or "12") == 1 and not unit and scale == 1:
        return None  # a sign of a word or a name
    size, follows = factor * scale, flat[last : last + 2].strip()[:1]
    return Fact(
        "number",
        text[start:last],
        start,
        last,
        tuple(value * size for value in values),
        unit,
        factor,
        step * size,
        scale,
        spelled=not match["digits"],
        counts=follows.isalpha() and not _unspaced(follows),
        side=_side(flat[max(0, start - 30) : start]),
    )


def _behind(known: Mapping[str, T], flat: str, place: int) -> tuple[T, int] | None:
    """What the longest of some known words means that stands behind a number, and where it ends."""
    gap = _GAP.match(flat, place)
    for start in dict.fromkeys((gap.end() if gap else place, place)):
        if flat[start : start + 1] not in _STARTS:
            continue
        for end in range(min(len(flat), start + 22), start, -1):
            meaning = known.get(flat[start:end].replace(" ", "_"))
            if meaning is not None and (_unspaced(flat[end - 1]) or not flat[end : end + 1].isalnum()):
                return meaning, end
    return None


def _side(before: str) -> str:
    """What the words before a number say of it; `more than` and `more` are one, and CJK has no blanks."""
    words = _patterns(before).words.findall(before)[-4:]
    phrases = ["_".join(words[-size - skip : len(words) - skip]) for skip in (0, 1) for size in (3, 2, 1)]
    signs = before.rstrip()
    return next((HEDGES[said] for said in (*phrases, signs[-2:], signs[-1:]) if said in HEDGES), "")


def _spelled(match: re.Match[str]) -> tuple[tuple[float, ...], float, int]:
    """What a word or Chinese digits say as a number, and where it ends; nothing where they say none."""
    if match["han"]:
        value = _han(match["han"])
        return ((value,) if value > 1 else ()), 1.0, match.end()
    more = SMALL.get(match["more"] or "", 0.0)
    value = SHARES.get(match["word"]) or SMALL.get(match["word"], 0.0)
    return ((value + more,) if value else ()), 1.0, match.end() if more else match.end("word")


def _digits(text: str, *, thousands: bool) -> tuple[tuple[float, ...], float, int]:
    """The readings of a number in digits, since `1.204` may be two, and the weight of its last digit."""
    plain = re.sub(r"['’ \u00a0\u202f]" + "|," * thousands, "", text)
    whole = re.sub(r"[.,]", "", plain)
    weight = 10.0 ** (len(whole) - len(whole.rstrip("0") or "0"))
    separators = re.findall(r"[.,]", plain)
    grouped = _GROUPED.match(text)
    if not separators or (grouped and len(separators) > 1):
        return (float(whole),), weight, 0
    head, _, tail = plain.rpartition(separators[-1])
    value = float(f"{re.sub('[.,]', '', head)}.{tail}")
    return ((float(whole), value), weight, 0) if grouped else ((value,), 10.0 ** -len(tail), 0)


def _han(text: str) -> float:
    values = [unicodedata.numeric(sign, 2.0) for sign in text]  # 两, a two of which not every Python knows it
    if len(text) > 1 and max(values) < 10:
        return float("".join(f"{value:.0f}" for value in values))
    total = current = 0.0
    for value in values:
        total, current = (total, value) if value < 10 else (total + (current or 1) * value, 0.0)
    return total + current
