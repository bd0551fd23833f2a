"""Numbers and dates of a text in a form in which they can be compared, however they are written."""

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

_MONTHS = (
    "january jan januar janvier enero janeiro gennaio января январь",
    "february feb februar février fevrier febrero fevereiro febbraio февраля февраль",
    "march mar märz marz mars marzo março марта март",
    "april apr avril abril aprile апреля апрель",
    "may mai mayo maio maggio мая май",
    "june jun juni juin junio junho giugno июня июнь",
    "july jul juli juillet julio julho luglio июля июль",
    "august aug août aout agosto августа август",
    "september sep sept septembre septiembre setembro settembre сентября сентябрь",
    "october oct oktober okt octobre octubre outubro ottobre октября октябрь",
    "november nov novembre noviembre novembro ноября ноябрь",
    "december dec dezember dez décembre decembre diciembre dezembro dicembre декабря декабрь",
)
_MONTH_OF = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
_MONTH = "|".join(sorted(_MONTH_OF, key=len, reverse=True))
_YEAR = r"(?:1\d|20)\d\d"
_ORDINAL = r"(?:st|nd|rd|th|er|\.|º)?\s?(?:of |de )?"
_DATES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?<!\d)(?P<y>{_YEAR})-(?P<m>\d\d)-(?P<d>\d\d)(?!\d)",
        rf"(?<!\d)(?P<y>{_YEAR})\s?[年년]\s?(?P<m>\d{{1,2}})\s?[月월](?:\s?(?P<d>\d{{1,2}})\s?[日号號일])?",
        r"(?<!\d)(?P<m>\d{1,2})\s?[月월]\s?(?P<d>\d{1,2})\s?[日号號일]",
        rf"(?<!\d)(?P<d>\d{{1,2}})[./](?P<m>\d{{1,2}})[./](?P<y>{_YEAR})(?!\d)",
        rf"(?<!\d)(?P<d>\d{{1,2}}){_ORDINAL}(?P<n>{_MONTH})\b\.?(?:,? (?:de )?(?P<y>{_YEAR})(?!\d))?",
        rf"\b(?P<n>{_MONTH})\b\.? (?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?!\d)(?:,? (?P<y>{_YEAR})(?!\d))?",
        rf"\b(?P<n>{_MONTH})\b\.?,? (?:de )?(?P<y>{_YEAR})(?!\d)",
    )
)
_SCALES: dict[float, str] = {
    1e3: "thousand k tausend mille mil mila тыс тысяч 千 천",
    1e4: "万 萬 만",
    1e6: "million millions mio mn millionen millones milhões milioni млн миллион миллиона миллионов 百万",
    1e8: "亿 億 억",
    1e9: "billion billions bn mrd milliarde milliarden milliard milliards miliardi млрд миллиард миллиардов 十億",
    1e12: "trillion trillions tn billionen 兆 万亿 조",
}
_SCALE_OF = {word: scale for scale, words in _SCALES.items() for word in words.split()}
_SCALE = "|".join(sorted(_SCALE_OF, key=len, reverse=True))
_UNITS = (
    "% percent per cent prozent pour cent por ciento por cento процентов процента",
    "°c ℃ degrees celsius grad celsius 摄氏度",
    "°f degrees fahrenheit 华氏度",
    "km kilometre kilometres kilometer kilometers kilometern 公里 千米 キロ",
    "m metre metres meter meters metern mètres metros 米 公尺 メートル 미터",
    "cm centimetre centimetres centimeter centimeters zentimeter 厘米",
    "mm millimetre millimetres millimeter millimeters 毫米",
    "mi mile miles meilen 英里",
    "ft foot feet 英尺",
    "kg kilogram kilograms kilogramm 公斤 千克",
    "g gram grams gramm 克",
    "t tonne tonnes tonnen 吨",
    "lb lbs",
    "hour hours stunde stunden heures horas 小时 時間",
    "minute minutes minuten minutos 分钟",
    "second seconds sekunde sekunden secondes 秒",
    "day days tag tage tagen jours días 天",
    "week weeks woche wochen semaines 周 週間",
    "month months monat monate monaten 个月 か月",
    "year years jahr jahre jahren ans années años 年",
    "mb megabyte megabytes",
    "gb gigabyte gigabytes",
    "kw kilowatt kilowatts 千瓦",
    "mw megawatt megawatts 兆瓦",
    "$ usd dollar dollars 美元 ドル 달러",
    "€ eur euro euros 欧元 ユーロ 유로",
    "£ gbp sterling 英镑 ポンド",
    "¥ yuan rmb cny 元 人民币",
)
_MANY = {"per", "cent", "pour", "por", "degrees", "grad"}
_UNIT_OF = {word: number for number, words in enumerate(_UNITS) for word in words.split() if word not in _MANY}
_UNIT_OF |= {
    "per cent": 0,
    "pour cent": 0,
    "por ciento": 0,
    "por cento": 0,
    "degrees celsius": 1,
    "degrees fahrenheit": 2,
}
_UNIT = "|".join(
    re.escape(word) + (r"(?![A-Za-z])" if word[-1].isascii() and word[-1].isalpha() else "")
    for word in sorted(_UNIT_OF, key=len, reverse=True)
)
_NUMBER = re.compile(
    rf"(?:(?P<money>[$€£¥])\s?)?(?<![A-Za-z_\d.,])(?P<digits>\d{{1,3}}(?:[.,'’ \u00a0\u202f]\d{{3}})+(?:[.,]\d+)?(?!\d)"
    r"|\d+(?:[.:]\d+){2,}|\d{1,2}:\d\d|\d+(?:[.,]\d+)?)"
    rf"(?:[\s-]?(?P<scale>{_SCALE})(?![a-zа-я]))?(?:[\s\u00a0-]?(?P<unit>{_UNIT}))?",
    re.IGNORECASE,
)
_WORDS = {
    word: number
    for number, words in {
        2: "two zwei deux dos due duas dois два две",
        3: "three drei trois tres tre três три",
        4: "four vier quatre cuatro quattro quatro четыре",
        5: "five fünf cinq cinco cinque пять",
        6: "six sechs seis sei шесть",
        7: "seven sieben sept siete sette sete семь",
        8: "eight acht huit ocho otto oito восемь",
        9: "nine neun neuf nueve nove девять",
        10: "ten zehn dix diez dieci dez десять",
        11: "eleven elf onze once undici",
        12: "twelve zwölf douze doce dodici doze",
        13: "thirteen dreizehn treize",
        14: "fourteen vierzehn quatorze",
        15: "fifteen fünfzehn quinze",
        16: "sixteen sechzehn seize",
        17: "seventeen",
        18: "eighteen",
        19: "nineteen",
        20: "twenty zwanzig vingt veinte venti vinte",
        30: "thirty dreißig trente treinta",
        40: "forty vierzig quarante cuarenta",
        50: "fifty fünfzig cinquante cincuenta",
        60: "sixty",
        70: "seventy",
        80: "eighty",
        90: "ninety",
        100: "hundred hundert cent cien",
    }.items()
    for word in words.split()
}
#: Words that are numbers in one language and something else in another, or say little; they are no claim of a figure.
_VAGUE_WORDS = frozenset(
    {"two", "sei", "sept", "once", "cent", "dos", "due", "tre", "elf", "mars", "acht", "hundred", "dez"}
)
_WORD = re.compile(
    rf"(?<![\w-])({'|'.join(sorted(_WORDS, key=len, reverse=True))})(?![\w-])(?:\s(?P<scale>{_SCALE})\b)?",
    re.IGNORECASE,
)
_HAN = {sign: value for value, sign in enumerate("〇一二三四五六七八九")} | {"零": 0, "两": 2, "兩": 2}
_HAN_STEP = {"十": 10, "百": 100, "千": 1_000}
_HAN_NUMBER = re.compile(
    r"[〇零一二两兩三四五六七八九十百千]{1,12}[万萬亿億]?(?=[年月日号个個名人位座公米岁歲次天家项項条條层層倍种種部本台周分小英平吨元])"
)
_ABOUT = re.compile(
    r"(?:about|around|roughly|approximately|nearly|almost|some|circa|ca\.?|over|under|more than"
    r"|less than|at least|up to|~|≈|etwa|rund"
    r"|ungefähr|knapp|über|fast|environ|près de|plus de|unos|cerca de|más de|circa|quasi|около"
    r"|почти|более|约|大约|近|超过|逾|约有|約|およそ|약)"
    r"\s*[$€£¥]?\s*\Z",
    re.IGNORECASE,
)

#: A longer run of digits is a name for something, not a number.
_LONGEST = 18
#: Figures of about the same size that are compared at most.
_MOST_NEAR = 2_000

Kind = Literal["number", "date", "literal"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A number or a date at `text[start:end]`.

    `values` are the readings of a number (`1.234` has two); `mantissa` are those without a scale word. A date is
    (year, month, day) in `dates`, 0 where it does not say, again with every reading. `unit` is a class of units or -1.
    `loose`: the text itself says that it is rounded. `literal` is what must stand as it is, such as `3.12.1`.
    """

    kind: Kind
    start: int
    end: int
    values: tuple[float, ...] = ()
    mantissa: tuple[float, ...] = ()
    dates: tuple[tuple[int, int, int], ...] = ()
    literal: str = ""
    unit: int = -1
    loose: bool = False
    scaled: bool = False


def figures(text: str, most: int = 50_000) -> tuple[Figure, ...]:
    """The figures of `text` in order, at most `most`. `text` is NFKC-normalised."""
    dates = _dates(text)
    taken = [(figure.start, figure.end) for figure in dates]
    found = list(dates)
    at = 0
    for match in _NUMBER.finditer(text):
        while at < len(taken) and taken[at][1] <= match.start():
            at += 1
        if not (at < len(taken) and taken[at][0] < match.end()):
            found.append(_number(text, match))
        if len(found) >= most:
            break
    found += [_worded(match) for match in _WORD.finditer(text)]
    found += [_han(match) for match in _HAN_NUMBER.finditer(text) if len(match[0]) > 1 or match[0] not in "一千百零〇"]
    return tuple(sorted(found, key=lambda figure: figure.start)[:most])


def firm(figure: Figure, text: str) -> bool:
    """True where a claim must rest on this figure: not a number at the head of a list, nor a vague word."""
    said = text[figure.start : figure.end].casefold()
    if said.split()[0] in _VAGUE_WORDS:
        return False
    listed = re.match(r"\s*(?:[-*+>]\s*)?\Z", text[: figure.start]) and re.match(r"[.)]\s", text[figure.end :])
    return not listed


def agrees(claim: Figure, source: Figure) -> bool:
    """True when `source` says what `claim` says, written the same way or another."""
    if claim.kind == "date":
        return source.kind == "date" and any(_same_date(one, other) for one in claim.dates for other in source.dates)
    if claim.kind == "literal" or source.kind == "literal":
        return claim.literal != "" and claim.literal == source.literal
    if source.kind == "date":
        parts = {float(part) for date in source.dates for part in date if part}
        return not claim.scaled and bool(parts & set(claim.values))
    if claim.unit >= 0 and source.unit >= 0 and claim.unit != source.unit:
        return False
    if any(_near(one, other, claim) for one in claim.values for other in source.values):
        return True
    # A table in millions gives 5.2 for 5.2 million; a whole number alone would agree with too much.
    bare = claim.scaled and not source.scaled
    return bare and any(one == other and one != int(one) for one in claim.mantissa for other in source.values)


class Ledger:
    """The figures of a text, to be asked for those that agree with one without comparing it with all."""

    def __init__(self, text: str) -> None:
        self.all = figures(text)
        self._dates = [item for item in self.all if item.kind == "date"]
        self._literals = [item for item in self.all if item.kind == "literal"]
        self._values = sorted(
            ((value, at) for at, item in enumerate(self.all) for value in item.values), key=lambda pair: pair[0]
        )

    def agreeing(self, claim: Figure) -> list[Figure]:
        """The figures of the text that say what `claim` says, in order of value."""
        found = [item for item in self._dates if agrees(claim, item)]
        if claim.kind == "literal":
            return [item for item in self._literals if agrees(claim, item)]
        for value in dict.fromkeys((*claim.values, *claim.mantissa)):
            low = bisect_left(self._values, (min(value * 0.9, value - 0.5), -1))
            high = bisect_right(self._values, (max(value * 1.12, value + 0.5), len(self.all)))
            found += [
                self.all[at] for _, at in self._values[low : min(high, low + _MOST_NEAR)] if agrees(claim, self.all[at])
            ]
        return found

    @cached_property
    def years(self) -> frozenset[int]:
        """Every year that the text may name."""
        said = {date[0] for item in self._dates for date in item.dates}
        return frozenset(said | {int(value) for item in self.all for value in item.values if 0 < value < 3_000})


def _near(one: float, other: float, claim: Figure) -> bool:
    if abs(one - other) <= 1e-9 * max(abs(one), abs(other)):
        return True
    if claim.loose:
        return abs(one - other) <= 0.04 * max(abs(one), abs(other))
    # 12 for 12.4, 1.2 million for 1,234,567: the claim gives fewer places of the same number.
    if claim.scaled:
        step = 10.0 ** (len(str(int(max(abs(one), 1)))) - max(2, _places(claim.mantissa)))
        return abs(one - other) <= step / 2
    return other != int(other) and one != other and abs(one) >= 2 and any(round(other, n) == one for n in (0, 1, 2))


def _places(mantissa: tuple[float, ...]) -> int:
    return max((len(f"{value:g}".replace(".", "").strip("0")) for value in mantissa), default=2)


def _same_date(claim: tuple[int, int, int], source: tuple[int, int, int]) -> bool:
    """A part that the source leaves open may be said elsewhere on the page; one that differs is another date."""
    if claim[2] and not source[2]:
        return False
    return all(not one or not other or one == other for one, other in zip(claim, source, strict=True))


def _dates(text: str) -> list[Figure]:
    found: list[Figure] = []
    taken: set[int] = set()
    for pattern in _DATES:
        for match in pattern.finditer(text):
            if match.start() in taken or match.end() - 1 in taken:
                continue
            groups = match.groupdict()
            month = _MONTH_OF[groups["n"].casefold()] if groups.get("n") else int(groups.get("m") or 0)
            year, day = int(groups.get("y") or 0), int(groups.get("d") or 0)
            readings = [(year, month, day), (year, day, month)] if "/" in match[0] else [(year, month, day)]
            fitting = tuple(date for date in readings if 0 < date[1] <= 12 and date[2] <= 31)
            if fitting:
                taken.update(range(match.start(), match.end()))
                found.append(Figure("date", match.start(), match.end(), dates=fitting))
    return sorted(found, key=lambda figure: figure.start)


def _number(text: str, match: "re.Match[str]") -> Figure:
    digits = match["digits"]
    if (
        ":" in digits
        or len(digits) > _LONGEST
        or (len(re.findall(r"[.]", digits)) > 1 and not re.fullmatch(r"\d{1,3}(?:\.\d{3})+", digits))
    ):
        return Figure("literal", *match.span(), literal=digits.lstrip("0"))
    mantissa = _readings(digits)
    scale = _SCALE_OF[match["scale"].casefold()] if match["scale"] else 1.0
    sign = (match["money"] or match["unit"] or "").casefold()
    loose = bool(_ABOUT.search(text[max(0, match.start() - 24) : match.start()]))
    values = tuple(value * scale for value in mantissa)
    if re.search(r"\dm\Z", match[0], re.IGNORECASE):  # 2.5m: metres or millions
        values += tuple(value * 1e6 for value in mantissa)
    unit = _UNIT_OF.get(sign, -1)
    return Figure("number", *match.span(), values, mantissa, unit=unit, loose=loose, scaled=scale > 1)


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


def _worded(match: "re.Match[str]") -> Figure:
    value = float(_WORDS[match[1].casefold()])
    scale = _SCALE_OF[match["scale"].casefold()] if match["scale"] else 1.0
    return Figure("number", *match.span(), (value * scale,), (value,), scaled=scale > 1)


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
    return Figure("number", *match.span(), (value * scale,), (value,), scaled=scale > 1)
