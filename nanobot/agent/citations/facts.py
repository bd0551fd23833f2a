"""What a text states that can be compared: figures with their units, dates, times, quotations, names; and its words.

The words of each language stand in `terms.txt`.
"""

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from nanobot.utils.ranking import stem, terms

FactKind = Literal["number", "date", "time", "weekday", "quotation", "name"]

_CJK = "\u3005-\u3007\u3041-\u30ff\u3400-\u9fff\uac00-\ud7af"
_HAN = "〇零一二三四五六七八九十百千两"
_LETTERS = rf"[^\W\d_{_CJK}]"
_TOKEN = re.compile(
    r"(?P<number>\d{1,3}(?:[ \u00a0\u202f]\d{3}){1,6}(?![\d.,]\d)|\d{1,24}(?:[.,'’:/-]\d{1,24}){0,8})"
    rf"|(?P<han>[{_HAN}]+)|(?P<cjk>[{_CJK}]+?(?=[{_HAN}]|[^{_CJK}]|\Z))"
    rf"|(?P<word>{_LETTERS}+(?:[²³]|(?:['’/-](?=[^\W\d_])){_LETTERS}+)*)|(?P<sign>\S)"
)
_RUN = re.compile(f"[{_CJK}]+")
_DATE = re.compile(
    r"(?<![\d.])(?:(?P<y1>\d{4})-(?P<m1>\d{1,2})-(?P<d1>\d{1,2})"
    r"|(?P<d2>\d{1,2})(?P<by>[./])\s?(?P<m2>\d{1,2})(?P=by)\s?(?P<y2>\d{4})"
    r"|(?:(?P<y3>\d{4})年)?(?P<m3>\d{1,2})月(?:(?P<d3>\d{1,2})[日号])?"
    r"|(?P<d4>\d{1,2})(?:st|nd|rd|th|er|[.º])?\s(?:de |of )?(?P<m4>[^\W\d_]{3,12})\.?"
    r"(?:,?\s(?:de |del |of )?(?P<y4>\d{4}))?"
    r"|(?P<m5>\b[^\W\d_]{3,12})\.?\s(?:(?P<d5>\d{1,2})(?:st|nd|rd|th)?(?:,?\s(?P<y5>\d{4}))?|(?:de )?(?P<y6>\d{4}))"
    r")(?![\d%]|:\d)"
)
_TIME = re.compile(
    r"(?<![\d.,:])(?P<h>\d{1,2})(?:(?P<by>[:.]|\s?h\s?)(?P<m>\d{2})(?!\s?min))?"
    r"(?P<mark>\s?(?:[ap]\.?m\b\.?|Uhr|uhr|[点時时]))?(?![\d:]|[.,]\d)"
)
_QUOTED = re.compile(r"[“„«‹「『]\s?([^“”„«»‹›「」『』\n]{4,600}?)\s?[”“»›」』]|(?<![\w\"])\"([^\"\n]{4,600}?)\"(?!\w)")
_GROUPED = re.compile(r"[1-9]\d{0,2}(?:([.,'’ \u00a0\u202f])\d{3})(?:\1\d{3})*\Z")
#: Persons and places in Chinese and Japanese, where nothing is written with a capital.
_HAN_NAME = re.compile(
    rf"(?:[是由为叫]|[师長长者家]是?)([王李张刘陈杨黄赵吴周徐孙马朱胡郭何林高罗郑梁谢宋唐许韩冯邓曹彭曾田董潘袁蔡蒋余杜叶程魏苏丁卢姚沈钟姜崔谭陆范汪"
    rf"石金][{_CJK}]{{1,2}})(?=[^{_CJK}]|\Z|[等主设担领率表介说])|([{_CJK}](?![全本各省区])[{_CJK}](?:省|县|(?<!城)市))|([一-龯]{{2,4}})(?=氏|さん)"
)
_COUNTERS = "个個人次只座台辆家所名位条件款种倍岁回枚本冊匹頭软户"
#: Numbers of other languages that are words of English.
_NOT_ENGLISH = frozenset(("once", "due", "cent", "sept", "elf", "mil"))
_BETWEEN = frozenset("- – — ~ to and or bis und oder a et ou y e до и 至 到".split())
_MONEY = "$€£¥₽₹"


def fold(word: str) -> str:
    """`word` without accents, in lower case; `ß` and `ss` are the same."""
    plain = unicodedata.normalize("NFD", word.casefold())
    return plain if plain.isascii() else "".join(sign for sign in plain if not unicodedata.combining(sign))


def _sections() -> dict[str, list[list[str]]]:
    """The sections of `terms.txt`, each line as its folded words."""
    sections: dict[str, list[list[str]]] = {}
    for line in fold(Path(__file__).with_name("terms.txt").read_text(encoding="utf-8")).splitlines():
        if line.startswith("["):
            entries = sections.setdefault(line[1 : line.index("]")], [])
        elif line and not line.startswith("#"):
            entries.append(line.split())
    return sections


_SECTIONS = _sections()
UNITS = {word: (row[0], float(row[1])) for row in _SECTIONS["unit"] for word in row[2:]}
SCALES, SMALL, SHARES, MONTHS, WEEKDAYS = (
    {word: float(row[0]) for row in _SECTIONS[name] for word in row[1:]}
    for name in ("scale", "small", "share", "month", "weekday")
)
HEDGES = {word: row[0] for row in _SECTIONS["hedge"] for word in row[1:]}
SMALL_WORDS = {row[0]: frozenset(row[1:]) for row in _SECTIONS["language"]}
NO_MEANING = frozenset[str]().union(*SMALL_WORDS.values(), UNITS, SCALES, MONTHS)
_EMPTY = frozenset(map(stem, NO_MEANING))


class Fact(Struct, frozen=True):
    """One fact at `text[start:end]` of its text. `values` are its readings, of a number in the base of `unit`.

    Of a number `factor` is that of its unit, and `step` the weight of its last digit in that base; `scale` is that of a
    word such as million behind it, `spelled` tells that it is written in words, `counts` that a word follows; `side` is
    how a word before it lets it be rounded. The values of a date are year, month and day, 0 for what it does not say;
    that of a time its minutes.
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


class _Token(Struct, frozen=True):
    kind: str
    text: str
    start: int
    end: int
    folded: str


_NONE = _Token("", "", 0, 0, "")


def words_of(text: str) -> frozenset[str]:
    """The stems of the words that carry meaning."""
    return frozenset(word for word in terms(text) if not word[0].isdigit()) - _EMPTY


def languages_of(text: str) -> frozenset[str]:
    """The languages that a text may be in, as far as script and small words tell; empty where nothing does."""
    sample = text[:6_000]
    signs = "".join(_RUN.findall(sample))
    if len(signs) * 3 > sum(map(str.isalpha, sample)):
        kana = sum("\u3041" <= sign <= "\u30ff" for sign in signs)
        return frozenset(("ja" if kana * 8 > len(signs) else "zh",))
    words = [fold(word) for word in re.findall(r"[^\W\d_]+", sample)]
    counts = {name: sum(word in known for word in words) for name, known in SMALL_WORDS.items()}
    most = max(counts.values())
    return frozenset(name for name in counts if counts[name] == most and most >= max(1, len(words) // 12))


def squash(text: str) -> str:
    """`text` without blanks, marks and case, for word-for-word comparison."""
    return "".join(filter(str.isalnum, fold(text)))


def quotations(text: str) -> Iterator[Fact]:
    """What `text` quotes: three words and more, or six signs of a script without blanks."""
    for match in _QUOTED.finditer(text):
        said = match[1] or match[2]
        if len(said.split()) >= 3 or len("".join(_RUN.findall(said))) >= 6:
            yield Fact("quotation", said, match.start(), match.end())


def names(text: str, languages: frozenset[str]) -> Iterator[Fact]:
    """The proper names of `text`: capitalised words within a sentence; in German only such as stand together."""
    for match in _HAN_NAME.finditer(text):
        place = match.lastindex or 0
        yield Fact("name", match[place], match.start(place), match.end(place))
    begin, run = True, list[_Token]()
    for token in [*_tokens(text), _NONE]:
        capital = token.kind == "word" and token.text[0].isupper()
        capital = capital and token.folded not in NO_MEANING and token.folded not in WEEKDAYS
        if run and (not capital or text[run[-1].end : token.start].strip()):
            if len(run) >= (2 if languages == {"de"} else 1):
                yield Fact("name", text[run[0].start : run[-1].end], run[0].start, run[-1].end)
            run = []
        if capital and (run or not begin):
            run.append(token)
        begin = token.text in (".", "!", "?", ":", "|", "•", "-", "*", "(", '"', "“", "„", "«") and not run


def figures(text: str) -> list[Fact]:
    """The dates, times, weekdays and numbers of `text`, in order."""
    found = [*_dates(text)]
    taken = {place for fact in found for place in range(fact.start, fact.end)}
    for match in _TIME.finditer(text):
        if match.start() not in taken and (fact := _time(match)):
            found.append(fact)
            taken.update(range(fact.start, fact.end))
    tokens = list(_tokens(text))
    others = _NOT_ENGLISH if "en" in languages_of(text) else frozenset[str]()
    for at, token in enumerate(tokens):
        if token.folded in WEEKDAYS:
            found.append(Fact("weekday", token.text, token.start, token.end, (WEEKDAYS[token.folded],)))
        elif token.start not in taken and token.folded not in others and (fact := _number(text, tokens, at)):
            found.append(fact)
    found.sort(key=lambda fact: fact.start)
    for at in range(len(found) - 2, -1, -1):
        found[at] = _shared_unit(found[at], found[at + 1], fold(text[found[at].end : found[at + 1].start].strip()))
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


def _tokens(text: str) -> Iterator[_Token]:
    return (_Token(one.lastgroup or "", one[0], one.start(), one.end(), fold(one[0])) for one in _TOKEN.finditer(text))


def _dates(text: str) -> Iterator[Fact]:
    place = 0
    while match := _DATE.search(text, place):
        place = match.start() + 1
        part = {name[0]: said for name, said in match.groupdict().items() if said}
        month = int(part["m"]) if part["m"].isdecimal() else int(MONTHS.get(fold(part["m"]), 0))
        day, year = int(part.get("d", 0)), int(part.get("y", 0))
        if (match["by"] == "/" and day <= 12) or month > 12:
            day, month = month, day
        if 0 < month <= 12 and day <= 31:
            place = match.end()
            yield Fact("date", match[0].strip(" ,."), match.start(), match.end(), (year, month, day))


def _time(match: re.Match[str]) -> Fact | None:
    hour, minute, mark = int(match["h"]), int(match["m"] or 0), (match["mark"] or "").strip().casefold()
    exact = match["by"] == ":" or "h" in (match["by"] or "")
    if hour > 24 or minute > 59 or not (mark or exact):
        return None
    if mark[:1] in ("a", "p"):
        hour = hour % 12 + 12 * (mark[0] == "p")
    late = match.string[max(0, match.start() - 2) : match.start()] in ("晚上", "下午", "午後")
    minutes = 60 * (hour + 12 * (late and hour < 12)) + minute
    return Fact("time", match[0].strip(), match.start(), match.end(), (minutes,))


def _number(text: str, tokens: list[_Token], at: int) -> Fact | None:
    """The number that begins at a token, with its scale and unit."""
    token = tokens[at]
    values, step = _digits(token.text) if token.kind == "number" else _spelled(token)
    if not values:
        return None
    if [one.folded for one in tokens[at + 1 : at + 4]] == ["and", "a", "half"]:
        values, tokens = tuple(value + 0.5 for value in values), [*tokens[: at + 1], *tokens[at + 4 :]]
    scale, place = 1.0, at + 1 + (_at(tokens, at + 1).text == "-")
    while factor := _scale(_at(tokens, place), tokens[place - 1]):
        scale *= factor
        if tokens[place].kind == "cjk" and len(tokens[place].text) > 1:
            break
        place += 1 + (_at(tokens, place + 1).folded in ("de", "d'", "di"))
    if token.folded in SHARES:
        while _at(tokens, place).folded in ("a", "an", "of"):
            place += 1
    unit, factor, taken = _unit(tokens, place)
    if token.folded in SHARES and unit == "time":  # half an hour
        values = (values[0] / 100,)
    elif token.folded in SHARES:
        unit, factor, taken = "percent", 1.0, 0
    if at and tokens[at - 1].text in _MONEY:
        unit, factor, taken = *UNITS[tokens[at - 1].text], 0
    if token.kind == "han" and not unit and scale == 1 and _at(tokens, place).text[:1] not in _COUNTERS:
        return None
    last = tokens[min(place + taken, len(tokens)) - 1]
    end = last.start + min(2, len(last.text)) if last.kind == "cjk" else last.end
    size = factor * scale
    return Fact(
        "number",
        text[token.start : end],
        token.start,
        end,
        tuple(value * size for value in values),
        unit,
        factor,
        step * size,
        scale,
        spelled=token.kind != "number",
        counts=_at(tokens, place + taken).kind == "word",
        side=_side(tokens, at),
    )


def _at(tokens: list[_Token], place: int) -> _Token:
    return tokens[place] if 0 <= place < len(tokens) else _NONE


def _scale(token: _Token, before: _Token) -> float:
    """What a word behind a number multiplies it with, 0.0 where it is no such word; `m` only in `2.5m` or as `M`."""
    if token.kind == "cjk":
        return SCALES.get(token.text[0], 0.0)
    if token.folded in ("m", "k") and token.text != "M" and token.start != before.end:
        return 0.0
    return SCALES.get(token.folded.partition("-")[0], 0.0) if token.kind == "word" else 0.0


def _unit(tokens: list[_Token], place: int) -> tuple[str, float, int]:
    """Unit, factor and number of tokens of what stands behind a number."""
    first, second = _at(tokens, place), _at(tokens, place + 1)
    if first.kind == "cjk":
        tail = first.text[first.text[0] in SCALES :]
        spellings = [(tail[:size], 1) for size in (5, 4, 3, 2, 1)]
    else:
        spellings = [
            (f"{first.folded}_{second.folded}", 2),
            (first.folded.rpartition("'")[2].partition("-")[0], 1),
        ]
    return next(((*UNITS[said], count) for said, count in spellings if said in UNITS), ("", 1.0, 0))


def _side(tokens: list[_Token], at: int) -> str:
    """How the words before a number let it be rounded; `at least` and `at most` never do."""
    before = (_at(tokens, at - 1), _at(tokens, at - 2))
    return next((side for one in before if (side := HEDGES.get(one.folded) or HEDGES.get(one.text[-1:], ""))), "")


def _spelled(token: _Token) -> tuple[tuple[float, ...], float]:
    """What a word or Chinese digits say as a number; nothing where they say none."""
    if token.kind == "han":
        return ((value,), 1.0) if (value := _han(token.text)) > 1 else ((), 0.0)
    first, _, rest = token.folded.partition("-")
    value = SHARES.get(token.folded) or SMALL.get(first, 0.0)
    return ((value + SMALL.get(rest, 0.0),), 1.0) if value and token.kind == "word" else ((), 0.0)


def _digits(text: str) -> tuple[tuple[float, ...], float]:
    """The readings of a number in digits, since `1.204` may be two, and the weight of its last digit."""
    plain = re.split(r"[:/-]", re.sub(r"['’ \u00a0\u202f]", "", text))[0]
    whole = re.sub(r"[.,]", "", plain)
    weight = 10.0 ** (len(whole) - len(whole.rstrip("0") or "0"))
    separators = re.findall(r"[.,]", plain)
    grouped = _GROUPED.match(text)
    if not separators or (grouped and len(separators) > 1):
        return (float(whole),), weight
    head, _, tail = plain.rpartition(separators[-1])
    value = float(f"{re.sub('[.,]', '', head)}.{tail}")
    return ((float(whole), value), weight) if grouped else ((value,), 10.0 ** -len(tail))


def _han(text: str) -> float:
    digits = {sign: place for place, sign in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
    if len(text) > 1 and all(sign in digits for sign in text):
        return float("".join(str(digits[sign]) for sign in text))
    total = current = 0
    for sign in text:
        if sign in digits:
            current = digits[sign]
        else:
            total, current = total + (current or 1) * {"十": 10, "百": 100, "千": 1000}[sign], 0
    return float(total + current)
