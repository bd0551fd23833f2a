"""What a model's tokens cost: the shipped list of prices, which has a date, and those that the owner sets.

`prices.json` holds what the vendors ask, per vendor with the page that says so and the day it was read. A model whose
price nobody knows is said to be so, and never counted as free.
"""

import re
from collections.abc import Mapping
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
from msgspec import Struct

from nanobot.messages import Usage
from nanobot.utils.translation import _, _n

_MILLION = 1_000_000
#: Tokens that reading one page takes, at least and at most: what the model is sent of it, and what it says of it.
_PAGE_INPUT, _PAGE_OUTPUT = (3_000, 9_000), (200, 600)
#: The same of a request beside them: the conversation that it goes on with, and the answer.
_REQUEST_INPUT, _REQUEST_OUTPUT = (4_000, 12_000), (200, 1_000)
#: What a name may have after the model itself: a day, or a word for the newest one.
_DATED = r"(-latest|-preview|-\d{8}|-\d{4}-\d\d-\d\d|-\d{4})?"


class Price(Struct, frozen=True):
    """USD for a million tokens. `cached` is input that the service had at hand and `write` input that it puts there;
    None: as other input.

    A request with more than `above` tokens of input, 0 for no such bound, costs `long_input` times as much for all of
    its input and `long_output` times as much for its output.
    """

    input: float
    output: float
    cached: float | None = None
    write: float | None = None
    above: int = 0
    long_input: float = 1.0
    long_output: float = 1.0

    @property
    def free(self) -> bool:
        return not (self.input or self.output)

    def cost(self, usage: Usage) -> float:
        """What one request cost, in USD."""
        long = self.above and usage.input > self.above
        fresh = max(0, usage.input - usage.cached - usage.cache_write)
        read = self.input if self.cached is None else self.cached
        written = self.input if self.write is None else self.write
        into = fresh * self.input + usage.cached * read + usage.cache_write * written
        out = usage.output * self.output
        return (into * (self.long_input if long else 1) + out * (self.long_output if long else 1)) / _MILLION


FREE = Price(0.0, 0.0)


class _Model(Price, frozen=True, kw_only=True):
    """A price that holds for the models whose names fit, and where it has an end, up to that day."""

    pattern: str
    until: date | None = None


class _Vendor(Struct, frozen=True):
    """One service. `source` is the page with its prices, `read` the day it was read, `note` what to know about them."""

    vendor: str
    source: str
    read: date
    models: tuple[_Model, ...]
    note: str = ""


class _List(Struct, frozen=True):
    date: date
    vendors: tuple[_Vendor, ...]


class Prices:
    """The prices in force. `own` are those of the owner, by a pattern of `vendor/model` or of the model's name, in
    which `*` stands for any signs; the first that fits counts, before the shipped list.
    """

    def __init__(self, own: Mapping[str, Price] | None = None) -> None:
        self._own = own or {}
        self._list = msgspec.json.decode(Path(__file__).with_name("prices.json").read_bytes(), type=_List)

    @property
    def made(self) -> str:
        """The day of the shipped list."""
        return self._list.date.isoformat()

    def price(self, vendor: str, model: str, *, local: bool, day: date) -> Price | None:
        """What this vendor asks for this model on a day; None where nobody knows. A `local` model is free."""
        model = model.casefold().removeprefix("models/")
        for pattern, price in self._own.items():
            if fnmatchcase(f"{vendor}/{model}", pattern.casefold()) or fnmatchcase(model, pattern.casefold()):
                return price
        if local:
            return FREE
        listed = (one for some in self._list.vendors if some.vendor == vendor for one in some.models)
        fitting = (one for one in listed if re.fullmatch(one.pattern + _DATED, model))
        return next((one for one in fitting if one.until is None or day <= one.until), None)


def estimate(price: Price | None, pages: int, requests: int) -> str:
    """About what it costs to read so many pages and to make so many requests beside, in words."""
    low, high = (
        Usage(
            input=pages * _PAGE_INPUT[place] + requests * _REQUEST_INPUT[place],
            output=pages * _PAGE_OUTPUT[place] + requests * _REQUEST_OUTPUT[place],
        )
        for place in (0, 1)
    )
    tokens = {"least": low.input + low.output, "most": high.input + high.output}
    if price is None:
        told = _("about {least:,} to {most:,} tokens at a price that is not known", **tokens)
    elif price.free:
        told = _("about {least:,} to {most:,} tokens, which cost nothing", **tokens)
    else:
        told = _("about {least:,.2f} to {most:,.2f} USD", least=price.cost(low), most=price.cost(high))
    return f"{told}, {_n('{number} page', '{number} pages', pages)}" if pages else told
