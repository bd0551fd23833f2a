"""What a text states that can be compared: numbers with units, dates, times, quotations, names; and its words."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

FactKind = Literal["number", "date", "time", "weekday", "quotation", "name"]

_CJK = "\u3005-\u3007\u3041-\u30ff\u3400-\u9fff\uac00-\ud7af"
_HAN_DIGITS = "〇零一二三四五六七八九十百千两"
_TOKEN = re.compile(
    r"(?P<number>\d{1,3}(?:[ \u00a0\u202f]\d{3}){1,6}(?![\d.,]\d)|\d{1,24}(?:[.,'’:/-]\d{1,24}){0,8})"
    rf"|(?P<han>[{_HAN_DIGITS}]+)|(?P<cjk>[{_CJK}]+?(?=[{_HAN_DIGITS}]|[^{_CJK}]|\Z))"
    rf"|(?P<word>[^\W\d_{_CJK}]+(?:[²³]|(?:['’/-](?=[^\W\d_]))[^\W\d_{_CJK}]+)*)|(?P<sign>[%°$€£¥₽₹]|\S)"
)
_QUOTED = re.compile(r"[“„«‹「『]\s?([^“”„«»‹›「」『』\n]{4,600}?)\s?[”“»›」』]|(?<![\w\"])\"([^\"\n]{4,600}?)\"(?!\w)")
_ISO = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})\Z")
_NUMERIC = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})\Z")
_GROUPED = re.compile(r"\d{1,3}(?:([.,'’ \u00a0\u202f])\d{3})(?:\1\d{3})*\Z")
_CJK_RUN = re.compile(f"[{_CJK}]+")
_MOST_QUOTE_WORDS = 3


@cache
def fold(word: str) -> str:
    """`word` without accents, in lower case; `ß` and `ss` are the same."""
    plain = unicodedata.normalize("NFD", word.casefold())
    return "".join(sign for sign in plain if not unicodedata.combining(sign))


def _terms() -> dict[str, list[list[str]]]:
    """The sections of `terms.txt`, each line as its folded words."""
    sections: dict[str, list[list[str]]] = {}
    for line in Path(__file__).with_name("terms.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            entries = sections.setdefault(line[1 : line.index("]")], [])
        elif line and not line.startswith("#"):
            entries.append(fold(line).split())
    return sections


_TERMS = _terms()
UNITS = {word: (row[0], float(row[1])) for row in _TERMS["unit"] for word in row[2:]}
SCALES, SMALL, SHARES = (
    {word: float(row[0]) for row in _TERMS[name] for word in row[1:]} for name in ("scale", "small", "share")
)
MONTHS, WEEKDAYS = ({word: int(row[0]) for row in _TERMS[name] for word in row[1:]} for name in ("month", "weekday"))
HEDGES = {word: row[0] for row in _TERMS["hedge"] for word in row[1:]}
SMALL_WORDS = {row[0]: frozenset(row[1:]) for row in _TERMS["language"]}
STOPWORDS = frozenset[str]().union(*SMALL_WORDS.values())


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact at `text[start:end]`. `values` are its readings: numbers in the base of `unit`, dates as (y, m, d).

    `factor` is what the written number was multiplied with, `step` the weight of its last digit, both in the base of
    the unit. `after` is the stem of the word that follows; `side` how far a word before it lets the number be rounded.
    """

    kind: FactKind
    text: str
    start: int
    end: int
    values: tuple[float, ...] = ()
    unit: str = ""
    step: float = 1.0
    scaled: bool = False
    spelled: bool = False
    after: str = ""
    side: str = ""
    date: tuple[int, int, int] = (0, 0, 0)


@dataclass(slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int
    folded: str = field(default="")


def tokens_of(text: str) -> list[_Token]:
    """The numbers, words and signs of `text` in order."""
    return [
        _Token(match.lastgroup or "", match[0], match.start(), match.end(), fold(match[0]))
        for match in _TOKEN.finditer(text)
    ]


@cache
def stem(word: str) -> str:
    """What the forms of one folded word share: its beginning."""
    word = word.split("'", maxsplit=1)[0].split("’", maxsplit=1)[0]
    if len(word) > 4 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    return word[:5] if len(word) > 6 else word[:4] if len(word) > 4 else word


def words_of(text: str) -> frozenset[str]:
    """The stems of the words that carry meaning; of scripts without blanks every two signs that stand together."""
    found: set[str] = set()
    for match in re.finditer(rf"[^\W\d_{_CJK}]{{2,}}", text):
        word = fold(match[0])
        if word not in STOPWORDS and word not in UNITS and word not in SCALES and word not in MONTHS:
            found.add(stem(word))
    for run in _CJK_RUN.findall(text):
        found.update(run[place : place + 2] for place in range(len(run) - 1))
    return frozenset(found)


def language_of(text: str) -> str:
    """The script, and of Latin letters the language as far as its small words tell it; empty where nothing does."""
    sample = text[:6_000]
    cjk, kana = len(re.findall(f"[{_CJK}]", sample)), len(re.findall("[\u3041-\u30ff]", sample))
    letters = len(re.findall(r"[^\W\d_]", sample))
    if not letters:
        return ""
    if cjk * 3 > letters:
        return "ja" if kana * 8 > cjk else "zh"
    words = [fold(word) for word in re.findall(r"[^\W\d_]+", sample)]
    counts = {name: sum(word in known for word in words) for name, known in SMALL_WORDS.items()}
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] >= max(1, len(words) // 12) else ""


def squash(text: str) -> str:
    """`text` without blanks, marks and case, for word-for-word comparison."""
    return "".join(sign for sign in fold(text) if sign.isalnum())


def quotations(text: str) -> Iterator[Fact]:
    """What `text` quotes: three words and more, or six signs of a script without blanks."""
    for match in _QUOTED.finditer(text):
        said = match[1] or match[2]
        if len(said.split()) >= _MOST_QUOTE_WORDS or len("".join(_CJK_RUN.findall(said))) >= 6:
            yield Fact("quotation", said, match.start(), match.end())


def figures(text: str) -> list[Fact]:
    """The dates, times, weekdays and numbers of `text` in order."""
    tokens = tokens_of(text)
    found: list[Fact] = []
    at = 0
    while at < len(tokens):
        fact, size = _dated(text, tokens, at)
        if fact is None:
            fact, size = _timed(text, tokens, at)
        if fact is None:
            fact, size = _counted(text, tokens, at)
        if fact is not None:
            found.append(fact)
        at += max(1, size)
    return found


def _token(tokens: list[_Token], at: int) -> _Token:
    return tokens[at] if 0 <= at < len(tokens) else _Token("", "", 0, 0)


def _small_int(token: _Token, most: int) -> int:
    """The whole number of a token, 0 where it is none from 1 to `most`."""
    if token.kind == "number" and token.text.isdigit() and 0 < int(token.text) <= most:
        return int(token.text)
    return _han(token.text) if token.kind == "han" and _han(token.text) <= most else 0


def _dated(text: str, tokens: list[_Token], at: int) -> tuple[Fact | None, int]:
    """A date that begins at a token, and how many tokens it takes."""
    token, size = tokens[at], 0
    year = month = day = 0
    if token.kind == "number" and (match := _ISO.match(token.text)):
        year, month, day, size = int(match[1]), int(match[2]), int(match[3]), 1
    elif token.kind == "number" and (match := _NUMERIC.match(token.text)):
        day, month, year, size = int(match[1]), int(match[3]), int(match[4]), 1
        if month > 12 or (match[2] == "/" and day <= 12):
            day, month = month, day
    elif (number := _small_int(token, 2100)) and _token(tokens, at + 1).text[:1] == "年" and number > 999:
        year, size = number, 2
        if (inner := _small_int(_token(tokens, at + 2), 12)) and _token(tokens, at + 3).text[:1] == "月":
            month, size = inner, 4
            if (inner := _small_int(_token(tokens, at + 4), 31)) and _token(tokens, at + 5).text[:1] in "日号":
                day, size = inner, 6
        else:
            return None, 0
    elif (number := _small_int(token, 12)) and _token(tokens, at + 1).text[:1] == "月":
        month, size = number, 2
        if (inner := _small_int(_token(tokens, at + 2), 31)) and _token(tokens, at + 3).text[:1] in "日号":
            day, size = inner, 4
    elif token.kind in ("number", "word"):
        year, month, day, size = _worded(tokens, at)
    if not size or month > 12 or day > 31:
        return None, 0
    end = _token(tokens, min(at + size, len(tokens)) - 1).end
    if size in (2, 4, 6) and tokens[at + size - 1].kind == "cjk":
        end = tokens[at + size - 1].start + 1
    return Fact("date", text[token.start : end], token.start, end, date=(year, month, day)), size


def _worded(tokens: list[_Token], at: int) -> tuple[int, int, int, int]:
    """Year, month, day and tokens of a date whose month is a word: `16 December 2024`, `May 3, 2024`, `le 3 mai`."""
    token, place = tokens[at], at
    year = month = day = 0
    if number := _small_int(token, 31):
        place += 1
        while _token(tokens, place).folded in ("st", "nd", "rd", "th", ".", "de", "of", "er", "º"):
            place += 1
        month, day = MONTHS.get(_token(tokens, place).folded, 0), number
        place += 1
    elif token.kind == "word" and (month := MONTHS.get(token.folded, 0)) and len(token.text) > 2:
        place += 1 + (_token(tokens, place + 1).text == ".")
        number = _small_int(_token(tokens, place), 31)
        if number and _token(tokens, place + 1).folded not in ("%", ":"):
            day, place = number, place + 1
            if _token(tokens, place).folded in ("st", "nd", "rd", "th"):
                place += 1
    if not month:
        return 0, 0, 0, 0
    comma = place
    while _token(tokens, comma).folded in (",", "de", "del", "of"):
        comma += 1
    number = _small_int(_token(tokens, comma), 2100)
    if number > 999:
        year, place = number, comma + 1
    known = bool(day or year)
    return (year, month, day, place - at) if known else (0, 0, 0, 0)


def _timed(text: str, tokens: list[_Token], at: int) -> tuple[Fact | None, int]:
    """A time of day or a weekday that begins at a token, and how many tokens it takes."""
    token, following = tokens[at], _token(tokens, at + 1)
    if token.folded in WEEKDAYS and token.kind in ("word", "cjk") and (token.kind == "cjk" or token.text[0].isupper()):
        return Fact("weekday", token.text, token.start, token.end, (float(WEEKDAYS[token.folded]),)), 1
    match = re.match(r"(\d{1,2})(?:[:.](\d{2}))?\Z", token.text) if token.kind == "number" else None
    if match is None or int(match[1]) > 24 or int(match[2] or 0) > 59:
        return None, 0
    minutes, size = 60 * int(match[1]) + int(match[2] or 0), 1
    half = "".join(_token(tokens, at + more).folded for more in range(1, 5))
    if half[:4] in ("a.m.", "p.m.") or following.folded in ("am", "pm"):
        size = 2 if following.folded in ("am", "pm") else 5
        minutes = minutes % 720 + 720 * half.startswith("p")
    elif following.folded in ("uhr", "час", "h") and (match[2] or following.folded == "uhr"):
        size = 2
    elif following.text == "点" or following.text.startswith(("时", "時", "点")):
        size = 2
        minutes += 720 * (_token(tokens, at - 1).text.endswith(("晚上", "下午", "午後")) and minutes < 720)
    elif ":" not in token.text:
        return None, 0
    end = _token(tokens, min(at + size, len(tokens)) - 1).end
    return Fact("time", text[token.start : end], token.start, end, (float(minutes),)), size


def _counted(text: str, tokens: list[_Token], at: int) -> tuple[Fact | None, int]:
    """A number that begins at a token, with its scale and unit, and how many tokens it takes."""
    token = tokens[at]
    values, step, spelled = _readings(token)
    if not values:
        return None, 0
    place, scale = at + 1, 1.0
    while (following := _token(tokens, place)).kind in ("word", "cjk") and (
        factor := _scale(following, tokens[place - 1])
    ):
        scale *= factor
        if following.kind == "cjk" and len(following.text) > 1:
            break
        place += 1
    unit, factor, taken = _unit(tokens, place, at)
    if spelled and token.text[0].isupper() and not unit and scale == 1:
        return None, 0
    if token.kind == "han" and not unit and scale == 1 and _token(tokens, place).text[:1] not in _COUNTERS:
        return None, 0
    if unit == "share":
        values, unit, factor, scale = (100 * values[0],), "percent", 1.0, 1.0
    place += taken
    last = tokens[min(max(at, place - 1), len(tokens) - 1)]
    end = max(token.end, last.end) if last.kind != "cjk" else last.start + 1
    following = _token(tokens, place)
    after = (
        stem(following.folded) if following.kind == "word" else following.text[:2] if following.kind == "cjk" else ""
    )
    size = factor * scale
    return Fact(
        "number",
        text[token.start : end],
        token.start,
        end,
        tuple(value * size for value in values),
        unit,
        step * size,
        scale != 1,
        spelled,
        after,
        _side(tokens, at),
    ), place - at


_COUNTERS = "个個人次只座台辆家所名位条件款种倍岁回枚本冊匹頭软户"


def _scale(token: _Token, before: _Token) -> float:
    if token.kind == "cjk":
        return SCALES.get(token.text[0], 0.0)
    if token.folded in ("m", "k", "mil") and (token.folded == "mil") == (token.start == before.end):
        return 0.0
    return SCALES.get(token.folded, 0.0)


def _unit(tokens: list[_Token], place: int, at: int) -> tuple[str, float, int]:
    """Unit, factor and number of tokens of the unit of a number; a sign of money may stand before it."""
    before, first, second = _token(tokens, at - 1), _token(tokens, place), _token(tokens, place + 1)
    if before.text in "$€£¥₽₹" and before.text:
        return UNITS[before.text][0], 1.0, 0
    if first.text == "-":
        place, first, second = place + 1, second, _token(tokens, place + 2)
        found = UNITS.get(first.folded.split("-")[0])
        return (*found, 2) if found else ("", 1.0, 0)
    if first.text == "°" and second.folded in ("c", "f"):
        return UNITS[f"°{second.folded}"][0], 1.0, 2
    if first.folded in ("square", "cubic") or first.folded.startswith(("quadrat", "平方")):
        return f"{first.folded[:6]} {stem(second.folded)}", 1.0, 2
    if first.kind == "cjk":
        for size in (5, 4, 3, 2, 1):
            if len(first.text) >= size and (found := UNITS.get(first.text[:size])):
                return *found, 1
            scaled = first.text[1 : size + 1]
            if first.text[0] in SCALES and len(scaled) == size and (found := UNITS.get(scaled)):
                return *found, 1
        return "", 1.0, 0
    if first.folded in ("percentage", "prozentpunkte", "prozentpunkten") or second.folded == "points":
        return ("points", 1.0, 2) if second.folded in ("point", "points") else ("points", 1.0, 1)
    if first.folded == "per" and second.folded == "cent":
        return "percent", 1.0, 2
    found = UNITS.get(first.folded) if first.kind in ("word", "sign") else None
    if found and found[0] == "length" and second.text == "/":
        return ("speed", 1.0 if first.folded == "km" else 3.6, 3)
    return (*found, 1) if found else ("", 1.0, 0)


def _side(tokens: list[_Token], at: int) -> str:
    for before in (_token(tokens, at - 1), _token(tokens, at - 2)):
        if before.folded == "at":
            return ""
        if before.text in ("~", "≈"):
            return "near"
        if side := HEDGES.get(before.folded) or HEDGES.get(before.text[-1:]):
            return side
    return ""


def _readings(token: _Token) -> tuple[tuple[float, ...], float, bool]:
    """What a token may mean as a number, the weight of its last digit, and whether it is written in words."""
    if token.kind == "word":
        parts = token.folded.split("-")
        if parts[0] in SMALL and len(parts) == 1:
            return (float(SMALL[parts[0]]),), 1.0, True
        if len(parts) == 2 and parts[0] in SMALL and parts[1] in UNITS:
            return (), 0.0, False
        if len(parts) == 2 and all(part in SMALL for part in parts):
            return (float(SMALL[parts[0]] + SMALL[parts[1]]),), 1.0, True
        return (), 0.0, False
    if token.kind == "han":
        value = _han(token.text)
        return ((float(value),), 1.0, True) if value > 1 else ((), 0.0, False)
    if token.kind != "number":
        return (), 0.0, False
    return _digits(token.text)


def _digits(text: str) -> tuple[tuple[float, ...], float, bool]:
    plain = re.sub(r"['’ \u00a0\u202f]", "", text)
    if plain.isdigit():
        value = float(plain)
        zeros = len(plain) - len(plain.rstrip("0")) if value else 0
        return (value,), 10.0**zeros, False
    grouped = _GROUPED.match(text)
    whole = re.sub(r"[.,]", "", plain)
    if ":" in text or "/" in text or "-" in text:
        return tuple(float(part) for part in re.findall(r"\d+", text))[:1], 1.0, False
    decimal = re.match(r"(\d+(?:[.,]\d{3})*)[.,](\d+)\Z", plain)
    if decimal is None:
        return ((float(whole),), 1.0, False) if grouped else ((), 0.0, False)
    value = float(re.sub(r"[.,]", "", decimal[1]) + "." + decimal[2])
    step = 10.0 ** -len(decimal[2])
    if grouped and len(re.findall(r"[.,]", plain)) == 1:
        zeros = len(whole) - len(whole.rstrip("0"))
        return (float(whole), value), 10.0**zeros, False
    return ((float(whole),), 1.0, False) if grouped else ((value,), step, False)


def _han(text: str) -> int:
    """The value of Chinese digits; 0 where they are none."""
    digits = {sign: place for place, sign in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
    if all(sign in digits for sign in text) and len(text) > 1:
        return int("".join(str(digits[sign]) for sign in text))
    total = current = 0
    for sign in text:
        if sign in digits:
            current = digits[sign]
        else:
            total += (current or 1) * {"十": 10, "百": 100, "千": 1000}[sign]
            current = 0
    return total + current


def names(text: str, language: str) -> Iterator[Fact]:
    """The proper names of `text`: capitalised words within a sentence; in German only such as stand together."""
    if language in ("zh", "ja"):
        return
    begin = True
    run: list[_Token] = []
    for token in [*tokens_of(text), _Token("", "", len(text), len(text))]:
        capital = token.kind == "word" and token.text[0].isupper() and token.folded not in STOPWORDS
        capital = capital and token.folded not in MONTHS and token.folded not in WEEKDAYS and token.folded not in UNITS
        if capital and not (run and text[run[-1].end : token.start].strip()):
            if not begin or run or not begin:
                run.append(token)
        else:
            if len(run) >= (2 if language == "de" else 1):
                yield Fact("name", text[run[0].start : run[-1].end], run[0].start, run[-1].end)
            run = [token] if capital and not begin else []
        if token.kind:
            begin = token.text in '.!?:|•-*("“„«' and not (token.text == "." and run)
