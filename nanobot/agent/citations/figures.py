"""Whether a text says the same number or date as a claim, however each of them writes it."""

import math
import re
from bisect import bisect_left, bisect_right
from dataclasses import replace
from functools import cached_property
from itertools import combinations

from nanobot.agent.citations.figure import Figure
from nanobot.agent.citations.reading import figures
from nanobot.agent.citations.units import APART, SCALES, TOGETHER, Unit

#: Figures of about the same size that are compared at most.
_MOST_NEAR = 2_000
#: How far a number may be off that is said to be rounded, and one from another system of units.
_ROUNDED, _CONVERTED = 0.07, 0.035
#: How much more a number may be that a claim says to be above one.
_MORE = 0.25
#: Two figures of a page so many characters and places apart at most may be added or subtracted.
_APART, _NEXT = 260, 8
_MOST_YEARS = 40
_LAST_YEAR = 2_100
_HEADER = re.compile(
    "(?P<scale>thousand|million|billion|tsd|tausend|mio|millionen|mrd|milliarden|milliers|millions|milliards|miles|millones|"
    "тыс|млн|млрд|百万|千|万|億|亿|천|백만|억)s?(?![a-z])",
    re.IGNORECASE,
)


def agrees(claim: Figure, source: Figure) -> bool:
    """True when `source` says what `claim` says, written the same way or another."""
    if claim.kind == "date":
        return source.kind == "date" and any(_same_date(one, other) for one in claim.dates for other in source.dates)
    if claim.kind == "literal" or source.kind == "literal":
        return claim.literal != "" and claim.literal == source.literal
    if source.kind == "date":
        parts = {float(part) for date in source.dates for part in date if part}
        return not claim.scaled and bool(parts & set(claim.values))
    measured = claim.unit and source.unit and "span" not in (claim.unit.kind, source.unit.kind)
    if not measured and any(one == other and _is_year(one) for one in claim.values for other in source.values):
        return True
    times = _ratio(source.unit, claim.unit)
    if times == 0:
        return False
    if any(_near(one, other * times, claim, times) for one in claim.values for other in source.values):
        return True
    # A table in millions gives 5.2 for 5.2 million; a whole number alone would agree with too much.
    bare = claim.scaled and not source.scaled
    return bare and any(one == other and one != int(one) for one in claim.mantissa for other in source.values)


def same_kind(one: Figure, other: Figure) -> bool:
    """True when both have a unit, and of the same kind."""
    return bool(one.unit and other.unit and one.unit.kind == other.unit.kind)


def _is_year(value: float) -> bool:
    return 1_000 <= value <= _LAST_YEAR and value == int(value)


def _ratio(source: Unit | None, claim: Unit | None) -> float:
    """How many of the claim's unit one of the source's is; 1 where one is not said, 0 where the kinds differ."""
    if source is None or claim is None:
        return 1.0
    return source.worth / claim.worth if source.kind == claim.kind else 0.0


class Ledger:
    """The figures of a text, to be asked for those that agree with one without comparing it with all."""

    def __init__(self, text: str) -> None:
        self.all = _with_headers(text, figures(text, parts=True))
        self._dates = [item for item in self.all if item.kind == "date"]
        self._literals = [item for item in self.all if item.kind == "literal"]
        self._values = sorted(
            {(value, at) for at, item in enumerate(self.all) for value in (*item.values, *item.basic)}
        )

    def agreeing(self, claim: Figure) -> list[Figure]:
        """The figures of the text that say what `claim` says."""
        if claim.kind == "literal":
            return [item for item in self._literals if agrees(claim, item)]
        found = {item.start: item for item in self._dates if agrees(claim, item)}
        for value in dict.fromkeys((*claim.values, *claim.basic, *claim.mantissa)):
            low = bisect_left(self._values, (min(value * 0.9, value - 0.5), -1))
            high = bisect_right(self._values, (max(value * (1.3 if claim.above else 1.12), value + 0.5), len(self.all)))
            for _, at in self._values[low : min(high, low + _MOST_NEAR)]:
                if agrees(claim, self.all[at]):
                    found[self.all[at].start] = self.all[at]
        return list(found.values())

    def reckoned(self, claim: Figure, said: str) -> bool:
        """True when the claim `said` gives with `claim` the sum or the difference of two figures close by."""
        if claim.kind != "number" or claim.weak:
            return False
        if self.shared(claim):
            return True
        signs = [sign for sign, words in ((-1, APART), (1, TOGETHER)) if words.search(said)]
        kind, wanted = claim.unit.kind if claim.unit else "", claim.basic
        return any(
            math.isclose(made, want, rel_tol=0.05 if claim.loose else 1e-6)
            for sign, of, made in (self._reckoned if signs else ())
            for want in wanted
            if sign in signs and of in ("", kind)
        )

    @cached_property
    def _reckoned(self) -> list[tuple[int, str, float]]:
        """Differences (-1) and sums (1) of neighbouring figures, and what they measure; of years, what lies between."""
        years = sorted({year for item in self.all if (year := _year(item))})[:_MOST_YEARS]
        between = {second - first for first, second in combinations(years, 2)}
        made = [(-1, kind, float(gap * months)) for gap in between for kind, months in (("span", 12), ("", 1))]
        for at, one in enumerate(self.all[:_MOST_NEAR]):
            for other in self.all[at + 1 : at + 1 + _NEXT]:
                if other.start - one.end > _APART:
                    break
                if one.kind == other.kind == "number" and _ratio(one.unit, other.unit):
                    unit = one.unit or other.unit
                    for a, b in zip(one.basic, other.basic, strict=False):
                        made += [(-1, unit.kind if unit else "", abs(a - b)), (1, unit.kind if unit else "", a + b)]
        return list(dict.fromkeys(made))

    def shared(self, claim: Figure) -> bool:
        """True when `claim` is the half or the third of a figure that stands beside such a word."""
        if claim.kind != "number" or not claim.values:
            return False
        shares = [item for item in self.all if item.unit and item.unit.kind == "ratio" and item.weak]
        return any(
            math.isclose(value * share.values[0] / 100, claim.basic[0], rel_tol=0.01)
            for share in shares[:_MOST_YEARS]
            for item in self.all
            if item.kind == "number" and abs(item.start - share.start) <= _APART and _kind(item) == _kind(claim)
            for value in item.basic
        )

    @cached_property
    def years(self) -> frozenset[int]:
        """Every year that the text may name."""
        said = {date[0] for item in self._dates for date in item.dates}
        return frozenset(said | {int(value) for item in self.all for value in item.values if 0 < value < 3_000})


def _kind(figure: Figure) -> str:
    return figure.unit.kind if figure.unit else ""


def _year(figure: Figure) -> int:
    if figure.kind == "date":
        return figure.dates[0][0]
    years = [int(value) for value in figure.values if _is_year(value)] if not figure.scaled else []
    return years[0] if years and (figure.unit is None or figure.unit.kind == "span") else 0


def _with_headers(text: str, found: tuple[Figure, ...]) -> tuple[Figure, ...]:
    """The figures, those of a table also as its heading scales them: 12,845 under `SEK million`."""
    if "|" not in text:
        return found
    heads = [
        match
        for match in _HEADER.finditer(text)
        if not any(map(str.isdigit, text[max(0, match.start() - 3) : match.start()]))
    ]
    scales = tuple(
        dict.fromkeys(SCALES[match["scale"].casefold()] for match in heads if match["scale"].casefold() in SCALES)
    )
    if not scales:
        return found
    return tuple(_scaled(item, scales) if _in_row(text, item) else item for item in found)


def _in_row(text: str, item: Figure) -> bool:
    line = text.rfind("\n", 0, item.start) + 1
    return text[line : line + 1] == "|" or "|" in text[item.end : item.end + 40]


def _scaled(item: Figure, scales: tuple[float, ...]) -> Figure:
    if item.kind != "number" or item.scaled:
        return item
    return replace(item, values=item.values + tuple(value * scale for value in item.values for scale in scales))


def _near(one: float, other: float, claim: Figure, times: float) -> bool:
    gap, size = abs(one - other), max(abs(one), abs(other))
    if gap <= 1e-6 * size:
        return True
    if claim.loose and gap <= _ROUNDED * size:
        return True
    if claim.above and 0 <= other - one <= _MORE * one:
        return True
    if times != 1 and gap <= _CONVERTED * size and not _even(times):
        return True
    # 12 for 12.4, 1.2 million for 1,234,567: the claim gives fewer places of the same number.
    if claim.scaled or not _even(times, whole=True) or other != int(other):
        step = 10.0 ** (math.floor(math.log10(max(abs(one), 1e-9))) + 1 - max(2, _places(claim.mantissa)))
        if gap <= step / 2 * 1.0001:
            return True
    return other != int(other) and abs(one) >= 2 and times == 1 and any(round(other, n) == one for n in (0, 1, 2))


def _even(times: float, *, whole: bool = False) -> bool:
    """True for a power of ten, and for hours in minutes and the like; `whole`: where nothing was converted at all."""
    if whole:
        return times == 1
    power = math.log10(times)
    return abs(power - round(power)) < 1e-9 or any(
        abs(times - n) < 1e-9 or abs(1 / times - n) < 1e-9 for n in (7, 12, 24, 60, 168, 1440, 3600, 86400, 1024)
    )


def _places(mantissa: tuple[float, ...]) -> int:
    return max((len(f"{value:.6f}".rstrip("0").replace(".", "").strip("0")) for value in mantissa), default=2)


def _same_date(claim: tuple[int, int, int], source: tuple[int, int, int]) -> bool:
    """A part that the source leaves open may be said elsewhere on the page; one that differs is another date."""
    if claim[2] and not source[2]:
        return False
    return all(not one or not other or one == other for one, other in zip(claim, source, strict=True))
