"""A number, a time or a date that stands in a text, and the form in which texts are read for them."""

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

from nanobot.agent.citations.units import Unit

_FRACTIONS = {"½": ".5", "¼": ".25", "¾": ".75", "⅓": ".33", "⅔": ".67", "⅛": ".125"}
_MIXED = re.compile(r"(?<=\d) 1/2(?!\d)")
#: `9h30`, `9 Uhr 30`, `9.30 Uhr`.
_HOURS = re.compile(r"(?<![\d.,:])([01]?\d|2[0-4])(?:\s?[hH]\s?|\sUhr\s|\.(?=\d\d\sUhr))([0-5]\d)(?!\d)")

Kind = Literal["number", "date", "literal"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A number or a date at `text[start:end]`.

    `values` are the readings of a number (`1.234` has two), in `unit`; `mantissa` are those without a scale word. A
    date is (year, month, day) in `dates`, 0 where it does not say, again with every reading. `loose`: the text itself
    says that it is rounded, `above` that there is more. `literal` is what must stand as it is, such as `3.12.1`.
    `weak`: a small number, or a word that is not always one, so that nothing follows from its absence.
    """

    kind: Kind
    start: int
    end: int
    values: tuple[float, ...] = ()
    mantissa: tuple[float, ...] = ()
    dates: tuple[tuple[int, int, int], ...] = ()
    literal: str = ""
    unit: Unit | None = None
    loose: bool = False
    above: bool = False
    scaled: bool = False
    weak: bool = False

    @property
    def basic(self) -> tuple[float, ...]:
        """The values in the basic unit of what is measured."""
        return tuple(value * self.unit.worth for value in self.values) if self.unit else self.values


def normal(text: str) -> str:
    """`text` compatibility-normalised, with fractions such as ½ as decimals."""
    for sign, value in _FRACTIONS.items():
        if sign in text:
            text = re.sub(rf"(?<=\d)\s?{sign}", value, text).replace(sign, f"0{value}")
    text = _MIXED.sub(".5", text)
    text = _HOURS.sub(r"\1:\2", text)
    return unicodedata.normalize("NFKC", text)
