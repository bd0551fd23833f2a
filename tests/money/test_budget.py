"""Judging a request: caps of a day, a month and a person, warnings once, what the owner allows besides."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import get_args
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from nanobot.bus.events import Address, InboundMessage, Sender
from nanobot.command.usage import Wish, report_of
from nanobot.config.schema import BudgetConfig, Config, PersonBudgetConfig, PriceConfig
from nanobot.messages import AssistantMessage, Cause, Role, Text, Usage
from nanobot.money.budget import Budget, BudgetVerdict
from nanobot.providers.base import ProviderInfo
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import MemoryDatabase
from tests.fakes.budget import capped

BERLIN = ZoneInfo("Europe/Berlin")
DEAR, UNKNOWN = ProviderInfo("openai", "dear"), ProviderInfo("custom", "who-knows")
LOCAL = ProviderInfo("ollama", "qwen3:8b", local=True)
#: So that a million tokens of input are 1 USD.
PRICES = {"dear": PriceConfig(1, 1)}


def message(person: str = "1", role: Role = "owner", *, direct: bool = True) -> InboundMessage:
    return InboundMessage(Address("telegram", person), Sender(person, role=role), "hi", direct=direct)


OWNER, ANN, BEN = message(), message("2", "user"), message("3", "guest")


@dataclass
class Bank:
    """A budget on a real store, with a clock that a test moves. It reads the store before each judgement."""

    limits: BudgetConfig
    at: datetime = datetime(2026, 11, 22, 15, 0, tzinfo=BERLIN)
    ledger: Ledger = field(init=False)
    budget: Budget = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = Ledger(MemoryDatabase(), clock=lambda: self.at)
        self.budget = self.another()

    def another(self) -> Budget:
        """The budget of another process on the same store."""
        return Budget(Config(budget=self.limits, prices=PRICES), self.ledger, self.midnight)

    def midnight(self) -> datetime:
        return self.at.replace(hour=0, minute=0, second=0, microsecond=0)

    async def judge(
        self, payer: InboundMessage = OWNER, model: ProviderInfo = DEAR, *, begun: bool = False
    ) -> BudgetVerdict:
        self.budget._fresh_until = 0.0
        return await self.budget.judge(payer, model, begun=begun)

    async def spend(self, usd: float, payer: InboundMessage = OWNER, model: ProviderInfo = DEAR, **kept: str) -> Usage:
        """A request of that price, counted and kept as a turn does it."""
        usage = self.budget.charge(payer, model, model.model, Usage(input=round(usd * 1e6), requests=1))
        await self.keep(usage, payer, **kept)
        return usage

    async def keep(self, usage: Usage, payer: InboundMessage, cause: str = "chat") -> None:
        session = await self.ledger.sessions.current(payer.address.key)
        one = AssistantMessage((Text("so"),), usage=usage, person=payer.person, cause=cause)
        await self.ledger.sessions.append(session.id, (one,))


@pytest.fixture
async def bank() -> AsyncIterator[Bank]:
    made = Bank(capped((10.0, 15.0), (2.0, 3.0), 5_000_000))
    async with aclosing(made.ledger):
        await made.judge()
        yield made


async def test_at_the_cap_the_next_request_stops_with_what_is_used_when_it_goes_on_and_how(bank: Bank) -> None:
    assert (await bank.judge()).kind == "ok"
    await bank.spend(10.25)
    verdict = await bank.judge()
    assert verdict.kind == "stop"
    assert verdict.text == (
        "The budget for today is used up: 10.25 of 10.00 USD. It goes on tomorrow at 00:00 (Europe/Berlin). "
        "To go on now, `/usage raise 5` allows 5 USD more today; budget.perDay in the configuration is the cap."
    )
    bank.at += timedelta(hours=9)
    assert (await bank.judge()).kind == "ok", "it is after midnight in the zone of the owner"


async def test_who_is_not_the_owner_in_private_learns_no_figures_of_all(bank: Bank) -> None:
    await bank.spend(11)
    for payer in (ANN, BEN, message(direct=False)):
        text = (await bank.judge(payer)).text
        assert text == (
            "The budget of this nanobot for today is used up. It goes on tomorrow at 00:00 (Europe/Berlin). "
            "Its owner can allow more."
        )


async def test_a_month_goes_on_with_its_first_day(bank: Bank) -> None:
    bank.at -= timedelta(days=1)
    await bank.judge()
    await bank.spend(9)
    bank.at += timedelta(days=1)
    await bank.judge()
    await bank.spend(6.5)
    verdict = await bank.judge()
    assert (
        "for this month is used up: 15.50 of 15.00 USD. It goes on from 1 December, 00:00 (Europe/Berlin)"
        in verdict.text
    )
    assert "budget.perMonth" in verdict.text
    bank.at = bank.at.replace(month=12, day=1)
    assert (await bank.judge()).kind == "ok"


async def test_what_was_spent_while_the_clock_was_ahead_does_not_use_up_every_day_until_then(bank: Bank) -> None:
    bank.at += timedelta(days=365)
    await bank.judge()
    await bank.spend(12)
    assert (await bank.judge()).kind == "stop"
    bank.at -= timedelta(days=365)
    assert (await bank.judge()).kind == "ok"
    assert (await report_of(bank.ledger.sessions, Wish("week"), bank.midnight())).total == Usage()


async def test_a_person_has_caps_of_their_own_and_the_owner_has_none(bank: Bank) -> None:
    await bank.spend(2.5, ANN)
    stopped = await bank.judge(ANN)
    assert stopped.text.startswith("Your budget for today is used up: 2.50 of 2.00 USD.")
    assert stopped.text.endswith("Its owner can allow more.")
    assert (await bank.judge(BEN)).kind == "ok"
    await bank.spend(3.5)
    assert (await bank.judge()).kind == "ok"
    await bank.another().set_caps(ANN.person, PersonBudgetConfig(4.0, 40.0))
    assert (await bank.judge(ANN)).kind == "ok", "another process has changed it"
    assert await bank.budget.of_person(ANN.person) == (
        "cap of their own: today 2.50 of 4.00 USD, this month 2.50 of 40.00 USD"
    )
    await bank.budget.set_caps(ANN.person, PersonBudgetConfig(0.0, 40.0))
    assert (await bank.judge(ANN)).kind == "stop", "0 is a cap, too"
    await bank.budget.set_caps(ANN.person, None)
    assert "of 2.00 USD" in (await bank.judge(ANN)).text


async def test_U36_people_are_warned_once_a_day_in_all_processes_together(bank: Bank) -> None:
    await bank.spend(8.2)
    verdict = await bank.judge()
    assert verdict.kind == "warn"
    assert verdict.text.startswith("82% of the budget for today are used: 8.20 of 10.00 USD.")
    assert (await bank.judge()).kind == "ok"
    assert (await bank.another().judge(OWNER, DEAR)).kind == "ok"
    assert (await bank.judge(ANN)).text == "The budget of this nanobot for today is nearly used up."
    bank.at += timedelta(days=1)
    await bank.spend(1)
    assert (await bank.judge()).kind == "ok"


async def test_the_owner_allows_more_today_which_does_not_eat_up_the_month(bank: Bank) -> None:
    await bank.spend(10)
    assert (await bank.judge()).kind == "stop"
    assert await bank.another().raise_today(2) == 2
    assert (await bank.judge()).kind != "stop"
    assert await bank.budget.overview() == "today 10.00 of 12.00 USD; this month 10.00 of 17.00 USD"
    assert await bank.budget.raise_today(3) == 5
    await bank.spend(5)
    assert (await bank.judge()).kind == "stop"
    bank.at += timedelta(days=1)
    await bank.spend(4.9)
    assert await bank.budget.overview() == "today 4.90 of 10.00 USD; this month 19.90 of 20.00 USD"


async def test_a_model_of_unknown_price_has_a_cap_of_tokens_and_a_free_one_has_none(bank: Bank) -> None:
    usage = await bank.spend(5.5, model=UNKNOWN)
    assert (usage.cost, usage.unpriced) == (0.0, 5_500_000)
    stopped = await bank.judge(model=UNKNOWN)
    assert "for models of unknown price for today is used up: 5,500,000 of 5,000,000 tokens" in stopped.text
    assert "budget.tokensPerDay" in stopped.text
    assert (await bank.judge()).kind == "ok", "what has a price goes on"
    await bank.budget.raise_today(1)
    assert (await bank.judge(model=UNKNOWN)).kind == "warn"
    await bank.spend(20)
    assert (await bank.judge(model=LOCAL)).kind == "ok"
    assert (await bank.spend(1, model=LOCAL)) == Usage(input=1_000_000, requests=1)


async def test_what_the_service_says_that_it_cost_counts_before_every_list(bank: Bank) -> None:
    told = bank.budget.charge(OWNER, UNKNOWN, "", Usage(input=10, cost=9.99, requests=1))
    assert told == Usage(input=10, cost=9.99, requests=1)
    assert (await bank.judge(begun=True)).kind == "stop"


async def test_the_price_is_that_of_the_model_that_answered_else_of_the_one_that_was_asked(bank: Bank) -> None:
    alias = ProviderInfo("openai", "newest")
    assert bank.budget.charge(OWNER, alias, "dear", Usage(input=1_000_000)).cost == 1
    assert bank.budget.charge(OWNER, DEAR, "dear-internal-7", Usage(input=1_000_000)).cost == 1


async def test_a_turn_that_has_begun_stops_a_little_earlier_so_that_it_can_sum_up(bank: Bank) -> None:
    await bank.spend(9.6)
    assert (await bank.judge(begun=True)).kind == "stop"
    assert (await bank.judge()).kind == "warn", "one more request is in it"


async def test_U36_what_runs_by_itself_stops_first(bank: Bank) -> None:
    await bank.spend(9.1)
    found = {cause: (await bank.judge(replace(OWNER, cause=cause))).kind for cause in get_args(Cause)}
    assert found == {"chat": "warn", "helper": "ok", "compaction": "ok", "schedule": "stop", "watch": "stop"}


async def test_that_a_stop_was_told_today_is_known(bank: Bank) -> None:
    await bank.spend(10)
    assert [(await bank.judge()).told for _ in range(2)] == [False, True]
    assert not (await bank.judge(ANN)).told, "to another person"


async def test_what_others_spend_is_seen_and_what_is_counted_here_is_not_lost_by_reading(bank: Bank) -> None:
    bank.budget.charge(OWNER, DEAR, "dear", Usage(input=6_000_000))  # answered, and not kept yet
    await bank.keep(Usage(input=1, cost=5.0, requests=1), ANN)  # by another process
    await bank.judge()
    assert (await bank.budget.overview()).startswith("today 6.00 of 10.00 USD")
    await bank.keep(Usage(input=1, cost=6.0, requests=1), OWNER)
    assert (await bank.judge()).kind == "stop"
    assert (await bank.budget.overview()).startswith("today 11.00 of 10.00 USD")


async def test_a_cap_that_is_null_is_none(bank: Bank) -> None:
    bank.limits = capped()
    bank.budget = bank.another()
    await bank.spend(1_000_000)
    assert (await bank.judge()).kind == "ok"
    assert (await bank.judge(ANN, UNKNOWN)).kind == "ok"
    assert await bank.budget.overview() == "no cap is set"


async def test_the_caps_are_on_when_nothing_is_configured(bank: Bank) -> None:
    config = Config()
    made = Budget(config, bank.ledger, bank.midnight)
    assert made.limits == capped((20, 200), (5, 50), 20_000_000)


async def test_an_estimate_tells_the_owner_how_much_of_all_is_used_and_others_how_much_of_theirs(bank: Bank) -> None:
    await bank.spend(2.1)
    told = await bank.budget.estimate(OWNER, DEAR, pages=30, requests=10)
    assert told == "about 0.14 to 0.42 USD, 30 pages; today 2.10 of 10.00 USD are used"
    assert (await bank.budget.estimate(ANN, DEAR, pages=1)).endswith("; today 0.00 of 2.00 USD are used")
