"""The numbers, times and dates of a text, however they are written."""

import re
from collections.abc import Sequence
from dataclasses import replace

from nanobot.agent.citations.dates import dates
from nanobot.agent.citations.figure import Figure
from nanobot.agent.citations.shares import shares, with_shares
from nanobot.agent.citations.units import (
    ABOUT,
    ABOUT_BEHIND,
    AND_HALF,
    LETTERS,
    MONEY,
    MORE,
    MORE_BEHIND,
    NUMBER_WORDS,
    ORDINALS,
    SCALE,
    SCALES,
    UNIT,
    UNITS,
    VAGUE,
    Unit,
)

_NUMBER = re.compile(
    rf"(?:(?P<money>{MONEY})\s?)?(?<![A-Za-z_\d.,])"
    rf"(?P<digits>\d{{1,3}}(?:[.,'’ \u00a0\u202f]\d{{3}})+(?:[.,]\d+)?(?!\d)"
    r"|\d+(?:[.:]\d+){2,}|\d{1,2}:\d\d|\d+(?:[.,]\d+)?)"
    r"(?P<letter>(?(money)\s?[MmBbKk](?:io|rd|n|ds?)?(?![A-Za-z])|\s?[MmBbKk]d?s?(?=\s?[€$£])))?"
    rf"(?:[\s-]?(?P<scale>{SCALE})(?![a-zа-яà-ÿ米克キ瓦卡])(?:\.(?=\s?(?:{UNIT})))?)?"
    rf"(?:(?: de| d'| of)?[\s\u00a0-]?(?P<unit>{UNIT}))?",
    re.IGNORECASE,
)
_EACH = "|".join(sorted(NUMBER_WORDS | ORDINALS, key=len, reverse=True))
_WORD = re.compile(
    rf"(?<![\w-])(?:(?P<tens>twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)-)?(?P<word>{_EACH})(?!\w)(?!-\d)"
    rf"(?:\s(?P<scale>{SCALE})\b)?(?:[\s-](?P<unit>{UNIT}))?",
    re.IGNORECASE,
)
_HALF = re.compile(
    r"(?<![^\W\d_])(?:half an?|a half|half|(?:une )?demi[- ]|medi[ao]|mezz[oa'’]|mei[ao]|halbe[nrsm]?|een half|пол|半)"
    r"[\s-]?"
    rf"(?P<unit>{UNIT})",
    re.IGNORECASE,
)
_AND_HALF = re.compile(AND_HALF, re.IGNORECASE)
_DIGITS_HAN = re.compile(
    r"(?<![\d.,])(?:\d[\d,]*(?:\.\d+)?\s?[千천百]?[万萬亿億兆만억조]\s?){1,3}(?:\d[\d,]*(?:\.\d+)?\s?[千천百]?(?!\d))?"
)
_PART_HAN = re.compile(r"(\d[\d,]*(?:\.\d+)?)\s?([千천百]?)([万萬亿億兆만억조]?)")
_HALF_DAY = re.compile(
    r"\s?(?:(?P<am>a\.?m\b\.?|de la mañana|du matin|(?:Uhr )?morgens|утра)|(?P<pm>p\.?m\b\.?|"
    r"de la (?:tarde|noche)|du soir|"
    r"(?:Uhr )?(?:abends|nachmittags)|вечера|дня))",
    re.IGNORECASE,
)
_DAY_PART = re.compile(r"(?:(?P<am>上午|早上|凌晨|午前|오전)|(?P<pm>下午|晚上|傍晚|午後|夜|오후))の?\s?\Z")
_JOINED = re.compile(r"\s?(?:,|-|and|, and|und|et|y|e|en|и|零|又)?\s?", re.IGNORECASE)
_HAN = {sign: value for value, sign in enumerate("〇一二三四五六七八九")} | {"零": 0, "两": 2, "兩": 2}
_HAN_STEP = {"十": 10, "百": 100, "千": 1_000}
_HAN_NUMBER = re.compile(
    r"[〇零一二两兩三四五六七八九十百千]{2,12}[万萬亿億]|"
    r"[〇零一二两兩三四五六七八九十百千]{1,12}[万萬亿億]?(?=[年月日号个個名人位座公米岁歲次天家项項条條层層倍种種部本台周分小英平吨元瓣つ只头匹枚隻羽頭册幅所间間村])"
)
_MANY_HAN = re.compile(r"[〇零一二两兩三四五六七八九十百千]{1,12}[万萬亿億]?")
_UNIT_BEHIND = re.compile(rf"\s?(?P<unit>{UNIT})", re.IGNORECASE)

#: A longer run of digits is a name for something, not a number.
_LONGEST = 18
#: Whole numbers up to this, in words or alone, are as often part of the wording as they are a figure.
_SMALL = 2

_DECADE = re.compile(r"(?:1[5-9]|20)\d0\s?(?:['’]?s\b|er\b|ern\b|年代|х\b|-х\b|-е\b)")
#: Words behind a year that are units behind other numbers.
_NO_UNIT_OF_YEARS = frozenset({"ans", "ha", "ora", "ore", "s", "m"})
_A_SHARE = re.compile(r"\b(?:a|one|two|un|una|um|uma|ein)\s\Z", re.IGNORECASE)
#: `an hour and 34 minutes`, `an hour and a half`.
_AN_HOUR = re.compile(
    rf"(?<!\w)(?:an?|eine?|une?|una|uma)\s(?P<unit>{UNIT})(?:(?P<half>{AND_HALF})|(?=\s(?:and|und|et|y|e)\s\d))",
    re.IGNORECASE,
)
_OF_THE_CLOCK = re.compile(r"(?:half past|quarter (?:past|to)|halb|viertel (?:vor|nach))\s\Z", re.IGNORECASE)
#: What stands between two numbers that share the unit behind the second.
_RANGE = re.compile(r"\s?(?:±|\+/-|–|-|—|to|bis|à|a|и|до|至|到|~|〜|から|and|und|or|oder|ou|et|y|e)\s?", re.IGNORECASE)


def figures(text: str, most: int = 50_000, *, parts: bool = False) -> tuple[Figure, ...]:
    """The figures of `text` in order, at most `most`. `text` is `normal`.

    `parts` adds what may be meant besides: every Chinese numeral, and the hours and minutes of `2 h 30 min` alone.
    """
    found = [Figure("date", start, end, dates=readings) for start, end, readings in dates(text)]
    for pattern, read in (
        (_DIGITS_HAN, _digits_han),
        (_NUMBER, _number),
        (_AN_HOUR, _an_hour),
        (_HALF, _half),
        (_WORD, _worded),
        (_MANY_HAN if parts else _HAN_NUMBER, _han_in),
    ):
        taken = _Taken(found)
        for match in pattern.finditer(text):
            if not taken.meets(match.start(), match.end()) and (figure := read(text, match)):
                found.append(figure)
            if len(found) >= most:
                break
        found.sort(key=lambda figure: figure.start)
    joined = [_above(text, item) if item.loose else item for item in with_shares(text, _joined(text, found), parts)]
    if parts:
        whole = {(item.start, item.end) for item in joined}
        joined += shares(text)
        joined += [
            item for item in found if item.unit and item.unit.kind == "time" and (item.start, item.end) not in whole
        ]
        joined.sort(key=lambda figure: figure.start)
    return tuple(joined[:most])


def _above(text: str, item: Figure) -> Figure:
    more = MORE.search(text[max(0, item.start - 28) : item.start]) or MORE_BEHIND.match(text, item.end)
    return replace(item, above=bool(more))


class _Taken:
    """Stretches in order that are asked for in order."""

    def __init__(self, found: Sequence[Figure]) -> None:
        self._spans = [(figure.start, figure.end) for figure in found]
        self._at = 0

    def meets(self, start: int, end: int) -> bool:
        while self._at < len(self._spans) and self._spans[self._at][1] <= start:
            self._at += 1
        return self._at < len(self._spans) and self._spans[self._at][0] < end


def firm(figure: Figure, text: str) -> bool:
    """True for a figure that is part of a claim: not a number at the head of a list."""
    listed = re.match(r"\s*(?:[-*+>]\s*)?\Z", text[: figure.start]) and re.match(r"[.)]\s", text[figure.end :])
    return not listed


def _joined(text: str, found: Sequence[Figure]) -> list[Figure]:
    """The figures with `2 hours 9 minutes 14 seconds` and `twenty two` as one, and with the unit of a range at both."""
    kept: list[Figure] = []
    for figure in found:
        between = text[kept[-1].end : figure.start] if kept else ""
        whole = _whole(kept[-1], figure, between, text) if kept else None
        if whole:
            kept[-1] = whole
            continue
        last = kept[-1] if kept else None
        if (
            last
            and last.kind == figure.kind == "number"
            and not last.unit
            and figure.unit
            and _RANGE.fullmatch(between)
        ):
            kept[-1] = last = replace(last, unit=figure.unit)
        if last and last.kind == "number" and figure.scaled and not last.scaled and _RANGE.fullmatch(between):
            times = figure.values[0] / figure.mantissa[0] if figure.mantissa and figure.mantissa[0] else 1.0
            kept[-1] = replace(last, values=last.values + tuple(value * times for value in last.values))
        kept.append(figure)
    return kept


def _whole(last: Figure, figure: Figure, between: str, text: str) -> Figure | None:
    """Two figures as one where the second goes on with the first."""
    if last.kind != "number" or figure.kind != "number" or not _JOINED.fullmatch(between):
        return None
    if last.unit == UNITS["hour"] and not figure.unit and between == " " and 0 < figure.values[0] < 60:
        figure = replace(figure, unit=UNITS["minute"])
    if last.unit and figure.unit and last.unit.kind == figure.unit.kind == "time":
        if last.unit.worth <= figure.unit.worth:
            return None
        value = last.values[0] + figure.values[0] * figure.unit.worth / last.unit.worth
        return Figure("number", last.start, figure.end, (value,), (value,), unit=last.unit, loose=last.loose)
    tens = not text[last.start].isdigit() and last.values[0] in range(20, 100, 10)
    if not (tens and not last.unit and not text[figure.start].isdigit() and figure.mantissa[0] < 10):
        return None
    times = figure.values[0] / figure.mantissa[0] if figure.mantissa[0] else 1.0
    value = (last.values[0] + figure.mantissa[0]) * times
    return replace(figure, start=last.start, values=(value,), mantissa=(value,), loose=last.loose, weak=False)


def _number(text: str, match: "re.Match[str]") -> Figure:
    digits = match["digits"]
    loose = is_about(text, match.start(), match.end())
    if ":" in digits:
        return _clock(text, match, loose)
    many_dots = len(re.findall(r"[.]", digits)) > 1 and not re.fullmatch(r"\d{1,3}(?:\.\d{3})+", digits)
    if len(digits) > _LONGEST or many_dots:
        return Figure("literal", match.start("digits"), match.end("digits"), literal=digits.lstrip("0"))
    mantissa = _readings(digits)
    scale = SCALES[match["scale"].casefold()] if match["scale"] else 1.0
    if match["letter"]:
        scale = LETTERS[match["letter"].strip()[0].casefold()]
        scale = 1e9 if re.match(r"\s?m(?:r?ds?)", match["letter"], re.IGNORECASE) else scale
    more = _AND_HALF.match(text, match.end()) if not match["scale"] else None
    if more and match["unit"]:
        mantissa = tuple(value + 0.5 for value in mantissa)
    values = tuple(value * scale for value in mantissa)
    unit = _unit(match)
    if half := _half_day(text, match):
        return _hour(match.start(), half, mantissa[0])
    if re.search(r"\dm\Z", match[0], re.IGNORECASE):  # 2.5m: metres or millions
        values += tuple(value * 1e6 for value in mantissa)
    weak = scale == 1 and unit is None and (mantissa[0] <= _SMALL and mantissa[0] == int(mantissa[0]))
    weak = weak or bool(_DECADE.match(text, match.start("digits")))
    return Figure("number", *match.span(), values, mantissa, unit=unit, loose=loose, scaled=scale > 1, weak=weak)


def _unit(match: "re.Match[str]") -> Unit | None:
    word = (match["unit"] or match["money"] or "").casefold()
    year = re.fullmatch(r"(?:1\d|20)\d\d", match["digits"])
    return None if year and word in _NO_UNIT_OF_YEARS else UNITS.get(word)


def _half_day(text: str, match: "re.Match[str]") -> tuple[int, int] | None:
    """Where a time of day ends that is said with its half of the day, and the hours to add to it."""
    if not re.fullmatch(r"(?:0?[1-9]|1[0-2])(?:[.:]\d\d)?", match["digits"]):
        return None
    hour = int(re.split("[.:]", match["digits"])[0])
    said = _HALF_DAY.match(text, match.end())
    if said:
        return said.end(), (12 if said["pm"] and hour < 12 else -12 if said["am"] and hour == 12 else 0)
    before = _DAY_PART.search(text[max(0, match.start() - 6) : match.start()])
    if before and (
        ":" in match["digits"]
        or (match["unit"] or "") in ("点", "點", "点钟", "時", "时", "시")
        or text[match.end() : match.end() + 1] == "点"
    ):
        end = match.end() + (text[match.end() : match.end() + 1] == "点")
        return end, (12 if before["pm"] and hour < 12 else 0)
    return None


def _hour(start: int, half: tuple[int, int], hour: float) -> Figure:
    return Figure("number", start, half[0], (hour + half[1],), (hour,), unit=UNITS["hour"])


def _clock(text: str, match: "re.Match[str]", loose: bool) -> Figure:
    """`17:30`, `2:08:31`: a time of day, or how long something takes, in minutes and seconds or in hours."""
    numbers = [float(part) for part in match["digits"].replace(".", ":").split(":") if part]
    if len(numbers) > 3:
        return Figure("literal", match.start(), match.end("digits"), literal=match["digits"].lstrip("0"))
    if len(numbers) == 3:
        hours: tuple[float, ...] = (numbers[0] + numbers[1] / 60 + numbers[2] / 3600,)
    else:
        hours = (numbers[0] + numbers[1] / 60, numbers[0] / 60 + numbers[1] / 3600)
    end = match.end() if UNITS.get((match["unit"] or "").casefold(), UNITS["m"]).kind == "time" else match.end("digits")
    if half := _half_day(text, match):
        return _hour(match.start(), half, hours[0])
    return Figure("number", match.start(), end, hours, hours, unit=UNITS["hour"], loose=loose)


def _half(_text: str, match: "re.Match[str]") -> Figure:
    unit = UNITS[match["unit"].casefold()]
    return Figure("number", *match.span(), (0.5,), (0.5,), unit=unit, weak=True, loose=True)


def _an_hour(_text: str, match: "re.Match[str]") -> Figure:
    value = 1.5 if match["half"] else 1.0
    return Figure("number", *match.span(), (value,), (value,), unit=UNITS[match["unit"].casefold()])


def _digits_han(text: str, match: "re.Match[str]") -> Figure:
    """`7万2千`, `2조 4천억`: what each scale adds."""
    total, last = 0.0, 1.0
    for digits, step, scale in _PART_HAN.findall(match[0]):
        last = SCALES.get(scale, 1.0) * SCALES.get(step, 100.0 if step else 1.0)
        total += float(digits.replace(",", "")) * last
    mantissa = tuple(float(digits.replace(",", "")) for digits, _, _ in _PART_HAN.findall(match[0])[:1])
    end = match.start() + len(match[0].rstrip())
    rest = _UNIT_BEHIND.match(text, end)
    unit = UNITS[rest["unit"].casefold()] if rest else None
    loose = is_about(text, match.start(), rest.end() if rest else end)
    return Figure(
        "number", match.start(), rest.end() if rest else end, (total,), mantissa, unit=unit, loose=loose, scaled=True
    )


def is_about(text: str, start: int, end: int) -> bool:
    """True when the text says of what stands there that it is rounded."""
    return bool(ABOUT.search(text[max(0, start - 28) : start]) or ABOUT_BEHIND.match(text, end))


def _readings(digits: str) -> tuple[float, ...]:
    """What a run of digits with separators may mean."""
    plain = re.sub(r"['’ \u00a0\u202f]", "", digits)
    marks = re.findall(r"[.,]", plain)
    if not marks:
        return (float(plain),)
    last = plain.rfind(marks[-1])
    whole, part = re.sub(r"[.,]", "", plain[:last]), plain[last + 1 :]
    decimal, grouped = float(f"{whole}.{part}"), float(whole + part)
    if len(set(marks)) > 1:
        return (decimal,)
    if len(marks) > 1:
        return (grouped,)
    if len(part) != 3:
        return (decimal,)
    return (grouped, decimal) if not whole.startswith("0") else (decimal,)


def _worded(text: str, match: "re.Match[str]") -> Figure:
    word = match["word"].casefold()
    value = NUMBER_WORDS.get(word) or ORDINALS[word]
    if match["tens"]:
        value += NUMBER_WORDS[match["tens"].casefold()]
    if match["unit"] and _AND_HALF.match(text, match.end()):
        value += 0.5
    scale = SCALES[match["scale"].casefold()] if match["scale"] else 1.0
    unit = UNITS[match["unit"].casefold()] if match["unit"] else None
    loose = is_about(text, match.start(), match.end())
    weak = scale == 1 and not match["tens"] and (word in VAGUE or value <= _SMALL)
    weak = weak or (word in ORDINALS and bool(_A_SHARE.search(text[max(0, match.start() - 8) : match.start()])))
    weak = weak or bool(_OF_THE_CLOCK.search(text[max(0, match.start() - 14) : match.start()]))
    return Figure(
        "number", *match.span(), (value * scale,), (value,), unit=unit, loose=loose, scaled=scale > 1, weak=weak
    )


def _han_in(text: str, match: "re.Match[str]") -> Figure | None:
    if not any(sign in _HAN for sign in match[0]) and match[0][0] != "十":
        return None
    figure = _han(match)
    rest = _UNIT_BEHIND.match(text, match.end())
    unit = UNITS[rest["unit"].casefold()] if rest else None
    if unit == UNITS["hour"] and (part := _DAY_PART.search(text[max(0, match.start() - 6) : match.start()])):
        later = 12.0 if part["pm"] and figure.values[0] < 12 else 0.0
        figure = replace(figure, values=tuple(value + later for value in figure.values))
    half = 0.5 if rest and text[rest.end() : rest.end() + 1] == "半" else 0.0
    values = tuple(value + half for value in figure.values)
    loose = is_about(text, match.start(), rest.end() if rest else match.end())
    return replace(figure, end=rest.end() if rest else match.end(), values=values, unit=unit, loose=loose)


def _han(match: "re.Match[str]") -> Figure:
    digits = match[0]
    scale = {"万": 1e4, "萬": 1e4, "亿": 1e8, "億": 1e8}.get(digits[-1], 1.0)
    digits = digits.rstrip("万萬亿億")
    if not any(sign in _HAN_STEP for sign in digits):
        value = float("".join(str(_HAN[sign]) for sign in digits) or 0)
    else:
        total, digit = 0, 0
        for sign in digits:
            if sign in _HAN_STEP:
                total += (digit or 1) * _HAN_STEP[sign]
                digit = 0
            else:
                digit = _HAN[sign]
        value = float(total + digit)
    small = len(match[0]) == 1
    return Figure("number", *match.span(), (value * scale,), (value,), scaled=scale > 1, weak=small)
