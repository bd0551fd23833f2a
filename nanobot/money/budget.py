"""How much may be spent: caps by day and by month, for all and for each person, judged before each request to a model.

What was spent is kept in memory and read again from the store every few seconds, so that judging costs next to nothing
and what other processes spend counts, too. A request that is under way is never broken off. Near a cap, turns wait for
each other, so that what goes beyond it is about one request of each process.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from nanobot.bus.events import InboundMessage
from nanobot.config.schema import Config, PersonBudgetConfig, PriceConfig
from nanobot.errors import UsageError
from nanobot.messages import Usage
from nanobot.money.caps import TODAY, Cap, Used, hears_figures, money_caps
from nanobot.money.prices import Price, Prices, estimate
from nanobot.providers.base import ProviderInfo
from nanobot.session.ledger import Ledger
from nanobot.utils.translation import _, apart, listed

#: Seconds after which what others spent is read again.
FRESH_SECONDS = 5.0
#: The share of a cap at which a turn that has begun sums up what it has: the rest is kept for that.
WIND_UP = 0.95
#: The share at which appointments and watches stop: the rest is for people who wait for an answer.
BY_ITSELF = 0.9
#: Tokens that `/usage raise` allows besides, for each USD, to models whose price is not known.
TOKENS_PER_USD = 1_000_000
_NOTES = "budget:"


class BudgetVerdict(Struct, frozen=True):
    """Whether a request may be made. `text` is for the person: of a warning, or why not and how it goes on.

    `told`: they have been told this today, so that what runs without them need not say it again.
    """

    kind: Literal["ok", "warn", "stop"] = "ok"
    text: str = ""
    told: bool = False


OK = BudgetVerdict()


#: Told when others than the owner are stopped at a cap of all: why, and what to do; both empty when requests are made.
Report = Callable[[str, str], None]


def prices_of(own: Mapping[str, PriceConfig]) -> Prices:
    """The prices in force, with those of the configuration."""
    return Prices({name: Price(one.input, one.output, one.cached, one.cache_write) for name, one in own.items()})


class Budget:
    """The caps in force and what of them is used. `midnight` tells when the day of the owner began, in their zone;
    `report` is for who tells the owner what befalls others.

    Raises `StoreError` where the store cannot be read.
    """

    def __init__(
        self, config: Config, ledger: Ledger, midnight: Callable[[], datetime], report: Report = lambda _why, _do: None
    ) -> None:
        self.configure(config)
        self._ledger = ledger
        self._midnight = midnight
        self._report = report
        self._reading = asyncio.Lock()
        self._day = datetime.min.replace(tzinfo=UTC)
        self._fresh_until = 0.0
        self._used: dict[str, Used] = {}
        self._before: dict[str, Usage] = {}  # of this month, before today
        self._raised: dict[str, float] = {}
        self._own: dict[str, PersonBudgetConfig] = {}
        self._told: dict[str, str] = {}
        self._typical: dict[str, float] = {}  # USD that a request may cost, by model, as the last ones went
        self._held: dict[str, tuple[str, float]] = {}  # by turn: for whom a request is under way, and about its USD
        self._room = asyncio.Event()

    def configure(self, config: Config) -> None:
        """Have the caps and prices of this configuration from now on."""
        self.limits, self.prices = config.budget, prices_of(config.prices)

    async def judge(
        self, payer: InboundMessage, asked: ProviderInfo, *, begun: bool = False, turn: str = "", tokens: int = 0
    ) -> BudgetVerdict:
        """Whether this model may be asked now. A turn that has `begun` is stopped a little before the cap, so that it
        can sum up, and what runs by itself earlier still. People are warned once a day.

        Where the requests of other turns that are under way may use up the rest, this waits for them, and a request of
        about so many `tokens` counts as under way from now on, until the turn is let go with `release`.
        """
        price = self._price(asked)
        if price is not None and price.free:
            return OK
        about = max(self._typical.get(asked.model, 0.0), price.cost(Usage(input=tokens)) if price else 0.0)
        while True:
            await self.refresh()
            lines = self._lines(payer, priced=price is not None)
            bound = BY_ITSELF if payer.cause in ("schedule", "watch") else WIND_UP if begun else 1.0
            full = next((one for one in lines if one.share >= bound), None)
            if full is not None:
                if not (full.own or hears_figures(payer)):
                    self._report(full.told_owner(self._day), full.advice)
                told = not await self._first("stopped", payer.person)
                return BudgetVerdict("stop", full.stopped(payer, self._day), told)
            if not self._crowded(payer, lines, turn, about):
                break
            await self._room.wait()
        self._report("", "")
        if turn:
            self._held[turn] = payer.person, about
        near = max((one for one in lines), key=lambda one: one.share, default=None)
        if near is not None and near.share >= self.limits.warn_at and await self._first("warned", payer.person):
            return BudgetVerdict("warn", near.warning(payer))
        return OK

    def _crowded(self, payer: InboundMessage, lines: list[Cap], turn: str, about: float) -> bool:
        """Whether requests of other turns are under way that may use up what is left."""
        others = [(person, usd) for name, (person, usd) in self._held.items() if name != turn]
        own, every = sum(usd for person, usd in others if person == payer.person), sum(usd for _, usd in others)
        under_way = ((one, own if one.own else every) for one in lines if not one.tokens)
        return any(held and one.used + held + about > one.most for one, held in under_way)

    def release(self, turn: str) -> None:
        """The request of a turn has ended, or will not be made."""
        if self._held.pop(turn, None) is not None:
            self._room.set()
            self._room = asyncio.Event()

    def charge(self, payer: InboundMessage, asked: ProviderInfo, answered: str, usage: Usage) -> Usage:
        """Count a request that was made, and `answered` by the model of this name; the usage with what it cost. What
        the service itself says that it cost counts before every list."""
        priced = usage
        if not usage.cost:
            price = self._price(asked, answered) or self._price(asked)
            missing = usage.input + usage.output if price is None else 0
            priced = replace(usage, cost=price.cost(usage) if price else 0.0, unpriced=missing)
        self._typical[asked.model] = max(priced.cost, 0.9 * self._typical.get(asked.model, 0.0))
        for name in ("", payer.person):
            used = self._used.setdefault(name, Used())
            used.day += priced.cost
            used.month += priced.cost
            used.tokens += priced.unpriced
        return priced

    async def refresh(self) -> None:
        """Read what was spent, also by others, and what was raised, unless that is a few seconds old."""
        if time.monotonic() < self._fresh_until and self._midnight() == self._day:
            return
        async with self._reading:
            if time.monotonic() >= self._fresh_until or self._midnight() != self._day:
                await self._read()
                self._fresh_until = time.monotonic() + FRESH_SECONDS

    async def _read(self) -> None:
        day = self._midnight()
        if day != self._day:
            begin = day.replace(day=1)
            self._before = dict(await self._spent(begin, day)) if day > begin else {}
        today = await self._spent(day, day + timedelta(days=1))  # no further: the clock may have been ahead
        fresh = {name: Used(tokens=usage.unpriced, day=usage.cost) for name, usage in today}
        for name, usage in self._before.items():
            fresh.setdefault(name, Used()).month = usage.cost
        for one in fresh.values():
            one.month += one.day
        fresh[""] = Used(*(sum(getattr(one, part) for one in fresh.values()) for part in Used.__struct_fields__))
        if day == self._day:  # what was counted here and is not kept yet stays counted
            for name, used in self._used.items():
                kept = fresh.setdefault(name, Used())
                kept.day, kept.month = max(kept.day, used.day), max(kept.month, used.month)
                kept.tokens = max(kept.tokens, used.tokens)
        self._used, self._day = fresh, day
        self._take_notes(await self._ledger.notes(_NOTES))

    async def _spent(self, since: datetime, until: datetime) -> tuple[tuple[str, Usage], ...]:
        return await self._ledger.sessions.spending("person", since, until)

    def _take_notes(self, notes: Mapping[str, str]) -> None:
        month = f"{self._day:%Y-%m}"
        raised: dict[str, float] = json.loads(notes.get(f"{_NOTES}raised", "{}"))
        self._raised = {day: amount for day, amount in raised.items() if day.startswith(month)}
        own = f"{_NOTES}cap:"
        self._own = {
            key[len(own) :]: PersonBudgetConfig(*json.loads(value))
            for key, value in notes.items()
            if key.startswith(own)
        }

    # What the owner changes

    async def raise_today(self, amount: float) -> float:
        """Allow so many USD more today, to all together and to each; what is allowed besides today now."""
        if not 0 < amount <= 1_000_000:
            raise UsageError(_("Name what is allowed besides today in USD, such as `/usage raise 5`."))
        self._fresh_until = 0.0
        await self.refresh()
        today = self._day.date().isoformat()
        self._raised[today] = self._raised.get(today, 0.0) + amount
        await self._ledger.set_notes({f"{_NOTES}raised": json.dumps(self._raised)})
        return self._raised[today]

    async def set_caps(self, person: str, caps: PersonBudgetConfig | None) -> None:
        """Give one person caps of their own; None: those of everybody again."""
        value = None if caps is None else json.dumps([caps.per_day, caps.per_month])
        await self._ledger.set_notes({f"{_NOTES}cap:{person}": value})
        self._fresh_until = 0.0

    # In words

    async def overview(self) -> str:
        """What of the caps of all together is used."""
        await self.refresh()
        return apart(one.told for one in self._common(priced=True)) or _("no cap is set")

    async def of_person(self, person: str) -> str:
        """The caps of one person, and what of them is used; empty where there is none."""
        await self.refresh()
        told = listed(one.told for one in self._personal(person))
        if not told:
            return ""
        return _("cap of their own: {caps}", caps=told) if person in self._own else _("cap: {caps}", caps=told)

    async def estimate(self, payer: InboundMessage, asked: ProviderInfo, *, pages: int = 0, requests: int = 0) -> str:
        """About what so many pages and further requests would cost, and how much of the budget is used: to be said
        before such work is begun."""
        await self.refresh()
        told = estimate(self._price(asked), pages, requests)
        used = next((_("{cap} are used", cap=one.told) for one in self._shown(payer)), "")
        return apart(filter(None, (told, used)))

    # Lines

    def _price(self, asked: ProviderInfo, model: str = "") -> Price | None:
        return self.prices.price(asked.name, model or asked.model, local=asked.local, day=self._midnight().date())

    def _lines(self, payer: InboundMessage, *, priced: bool) -> list[Cap]:
        """Every cap that binds a person, with what is used of it."""
        return self._common(priced=priced) + ([] if payer.sender.role == "owner" else self._personal(payer.person))

    def _common(self, *, priced: bool) -> list[Cap]:
        used = self._used.get("", Used())
        lines = [*money_caps(used, self.limits, self._more, "budget", own=False)]
        if not priced and self.limits.tokens_per_day is not None:
            cap = self.limits.tokens_per_day + self._more[0] * TOKENS_PER_USD
            lines.append(Cap(TODAY, "budget.tokensPerDay", used.tokens, cap, tokens=True))
        return lines

    def _personal(self, person: str) -> list[Cap]:
        used, caps = self._used.get(person, Used()), self._own.get(person, self.limits.per_person)
        return [*money_caps(used, caps, self._more, "budget.perPerson", own=True)]

    def _shown(self, payer: InboundMessage) -> list[Cap]:
        """The caps whose figures somebody is told here."""
        if payer.sender.role != "owner":
            return self._personal(payer.person)
        return self._common(priced=True) if payer.direct else []

    @property
    def _more(self) -> tuple[float, float]:
        """What was allowed besides: today, and in this month."""
        return self._raised.get(self._day.date().isoformat(), 0.0), sum(self._raised.values())

    async def _first(self, what: str, person: str) -> bool:
        """True once a day for a person, in all processes together."""
        key, today = f"{_NOTES}{what}:{person}", self._day.date().isoformat()
        if self._told.get(key) == today:
            return False
        self._told[key] = today
        if await self._ledger.note(key) == today:
            return False
        await self._ledger.set_notes({key: today})
        return True
