"""What tokens cost: the shipped list, the owner's prices, and what nobody knows."""

import json
import re
from datetime import date, timedelta
from pathlib import Path

import pytest

from nanobot.messages import Usage
from nanobot.money import prices as shipped
from nanobot.money.prices import FREE, Price, Prices, estimate
from nanobot.providers.vendors import BY_NAME
from tests.tables import table

TODAY = date(2026, 11, 22)
LIST = json.loads(Path(shipped.__file__).with_name("prices.json").read_bytes())


def of(vendor: str, model: str, own: dict[str, Price] | None = None, *, local: bool = False) -> Price | None:
    return Prices(own).price(vendor, model, local=local, day=TODAY)


@table(
    "vendor model figures",
    ("anthropic", "claude-sonnet-5-5", (2, 10, 0.1, 2.5)),
    ("anthropic", "claude-sonnet-5-5-20260929", (2, 10, 0.1, 2.5)),
    ("anthropic", "claude-opus-4-8", (5, 25, 0.5, 6.25)),
    ("anthropic", "claude-opus-4-20250514", (15, 75, 1.5, 18.75)),
    ("openai", "gpt-6.1-sol", (2, 10, 0.1, None)),
    ("openai", "gpt-5.6", (5, 30, 0.5, None)),
    ("openai", "gpt-5-mini-2025-08-07", (0.25, 2, 0.025, None)),
    ("gemini", "models/gemini-3.8-flash", (0.75, 3.75, 0.075, None)),
    ("moonshot", "kimi-k2.6", (0.95, 4, 0.16, None)),
    ("groq", "openai/gpt-oss-120b", (0.15, 0.6, None, None)),
    ("openrouter", "qwen/qwen3-coder:free", (0, 0, None, None)),
)
def test_a_model_costs_what_its_vendor_asks(vendor: str, model: str, figures: tuple[float | None, ...]) -> None:
    price = of(vendor, model)
    assert price is not None
    assert (price.input, price.output, price.cached, price.write) == figures


@table(
    "vendor model",
    ("openai", "gpt-7"),
    ("openai", "gpt-5.4-mini-search"),
    ("groq", "claude-sonnet-5-5"),
    ("openrouter", "openai/gpt-6.1-sol"),
    ("custom", "gpt-6.1-sol"),
    ("gemini", "gemini-flash-latest"),
)
def test_nobody_guesses_the_price_of_a_model_that_is_not_listed(vendor: str, model: str) -> None:
    assert of(vendor, model) is None


def test_a_model_of_the_owners_own_machine_is_free_unless_a_price_is_set_for_it() -> None:
    assert of("ollama", "qwen3:8b", local=True) == FREE
    own = {"custom/*": Price(1, 2), "QWEN*": Price(3, 4), "*": Price(5, 6)}
    assert of("custom", "llama", own, local=True) == Price(1, 2)
    assert of("ollama", "Qwen3:8b", own, local=True) == Price(3, 4)
    assert of("openai", "gpt-6.1-sol", own) == Price(5, 6), "the owner's counts before the shipped list"


def test_cached_and_written_input_has_a_price_of_its_own_and_long_requests_cost_more() -> None:
    price = Price(2, 10, 0.2, 2.5, above=1_000, long_input=2, long_output=1.5)
    assert price.cost(Usage(input=1_000, output=100)) == pytest.approx((1_000 * 2 + 100 * 10) / 1e6)
    cached = Usage(input=1_000, cached=600, cache_write=300, output=0)
    assert price.cost(cached) == pytest.approx((100 * 2 + 600 * 0.2 + 300 * 2.5) / 1e6)
    assert price.cost(Usage(input=1_001, output=100)) == pytest.approx((1_001 * 4 + 100 * 15) / 1e6)
    assert Price(2, 10).cost(cached) == pytest.approx(1_000 * 2 / 1e6), "without such prices all input costs the same"


def test_a_price_that_has_an_end_makes_room_for_the_next_one() -> None:
    prices = Prices()
    last = date(2026, 12, 31)
    found = [prices.price("gemini", "gemini-3.8-flash", local=False, day=last + timedelta(days=day)) for day in (0, 1)]
    assert [one.input for one in found if one] == [0.75, 1.5]


def test_the_shipped_list_says_where_each_price_is_from_and_names_known_vendors() -> None:
    for vendor in LIST["vendors"]:
        assert vendor["vendor"] in BY_NAME
        assert vendor["source"].startswith("https://")
        assert date(2026, 1, 1) < date.fromisoformat(vendor["read"]) <= date.fromisoformat(LIST["date"])
        for one in vendor["models"]:
            re.compile(one["pattern"])
            assert one.get("cached", one["input"]) <= one["input"] <= one["output"] or one["pattern"] == ".*:free"
            assert one["output"] <= 200, "for a million tokens, not for one"


def test_an_estimate_says_what_is_known() -> None:
    assert estimate(Price(2, 10), 30, 5) == "about 0.29 to 0.89 USD, 30 pages"
    assert estimate(None, 1, 0) == "about 3,200 to 9,600 tokens at a price that is not known, 1 page"
    assert estimate(FREE, 0, 1) == "about 4,200 to 13,000 tokens, which cost nothing"
