"""Caps of the budget: whom they bind, what of them is used, and what people read of that."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from msgspec import Struct

from nanobot.bus.events import InboundMessage
from nanobot.config.schema import BudgetConfig, PersonBudgetConfig
from nanobot.utils.translation import N_, _, day_of, sentences

TODAY = "today"
THIS_MONTH = "this month"
_PERIODS = {TODAY: N_("today"), THIS_MONTH: N_("this month")}
#: Whose budget it is → the sentences for one that is used up and for one that is all but used up.
_USED_UP = {
    "own": (
        N_("Your budget for {period} is used up: {figures}."),
        N_("Your budget for {period} is all but used up: {figures}."),
    ),
    "unpriced": (
        N_("The budget for models of unknown price for {period} is used up: {figures}."),
        N_("The budget for models of unknown price for {period} is all but used up: {figures}."),
    ),
    "common": (
        N_("The budget for {period} is used up: {figures}."),
        N_("The budget for {period} is all but used up: {figures}."),
    ),
    "unseen": (
        N_("The budget of this nanobot for {period} is used up."),
        N_("The budget of this nanobot for {period} is all but used up."),
    ),
}


class Used(Struct):
    """What somebody has used up: USD of today and of the month, and tokens of unknown price of today."""

    day: float = 0.0
    month: float = 0.0
    tokens: int = 0


class Cap(Struct, frozen=True):
    """One cap: the period that it is of, in words, its key in the configuration, and how much of it is used.

    One that is not a person's `own` is that of all together. `tokens`: it is of models whose price is not known.
    """

    period: str
    key: str
    used: float
    most: float
    own: bool = False
    tokens: bool = False

    @property
    def share(self) -> float:
        return self.used / self.most if self.most else 1.0

    @property
    def figures(self) -> str:
        if self.tokens:
            return _("{used:,.0f} of {most:,.0f} tokens", used=self.used, most=self.most)
        return _("{used:,.2f} of {most:,.2f} USD", used=self.used, most=self.most)

    @property
    def advice(self) -> str:
        """How the owner goes on."""
        return _(
            "To go on now, `/usage raise 5` allows 5 USD more today; {key} in the configuration is the cap.",
            key=self.key,
        )

    def again(self, day: datetime) -> str:
        """When it goes on; `day` is the midnight with which today began."""
        if self.period == TODAY:
            return _("It goes on tomorrow at 00:00 ({zone}).", zone=day.tzinfo)
        month = (day.replace(day=28) + timedelta(days=4)).replace(day=1)
        return _("It goes on from {date}, 00:00 ({zone}).", date=day_of(month), zone=month.tzinfo)

    @property
    def told_period(self) -> str:
        return _(_PERIODS[self.period])

    @property
    def told(self) -> str:
        """Its period and its figures."""
        return _("{period} {figures}", period=self.told_period, figures=self.figures)

    def _used_up(self, whose: str) -> str:
        full, all_but = _USED_UP[whose]
        return _(full if self.share >= 1 else all_but, period=self.told_period, figures=self.figures)

    def told_owner(self, day: datetime) -> str:
        """What is used up, with its figures, and when it goes on."""
        return sentences(self._used_up("unpriced" if self.tokens else "common"), self.again(day))

    def stopped(self, payer: InboundMessage, day: datetime) -> str:
        """Three sentences for whom it stops: what is used up, when it goes on, how to go on now."""
        if not self.own and hears_figures(payer):
            return sentences(self.told_owner(day), self.advice)
        by_owner = _("Its owner can allow more.")
        return sentences(self._used_up("own" if self.own else "unseen"), self.again(day), by_owner)

    def warning(self, payer: InboundMessage) -> str:
        """What is said before it stops anybody."""
        if not self.own and not hears_figures(payer):
            return _("The budget of this nanobot for {period} is nearly used up.", period=self.told_period)
        known = {"share": self.share, "period": self.told_period, "figures": self.figures}
        if self.own:
            return _("{share:.0%} of your budget for {period} are used: {figures}.", **known)
        return sentences(_("{share:.0%} of the budget for {period} are used: {figures}.", **known), self.advice)


def hears_figures(payer: InboundMessage) -> bool:
    """Whether somebody is told what all together spend: the owner, where nobody reads along."""
    return payer.sender.role == "owner" and payer.direct


def money_caps(
    used: Used, caps: BudgetConfig | PersonBudgetConfig, more: tuple[float, float], key: str, *, own: bool
) -> Iterator[Cap]:
    """The caps of money below a `key` of the configuration; `more` was allowed besides, today and this month."""
    if caps.per_day is not None:
        yield Cap(TODAY, f"{key}.perDay", used.day, caps.per_day + more[0], own=own)
    if caps.per_month is not None:
        yield Cap(THIS_MONTH, f"{key}.perMonth", used.month, caps.per_month + more[1], own=own)
