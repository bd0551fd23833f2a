"""`/usage` and `nanobot usage`: what was spent, by what, how much of the budget that is, and allowing more today."""

from datetime import datetime, timedelta
from typing import Literal, get_args

from msgspec import Struct

from nanobot.command.router import CommandContext
from nanobot.errors import UsageError
from nanobot.messages import Usage
from nanobot.money.budget import Budget
from nanobot.session.store import Grouping, SessionStore
from nanobot.utils.text import nearest
from nanobot.utils.translation import N_, _, sentences

Period = Literal["today", "week", "month"]
By = Literal["day", "model", "chat", "person", "cause"]
PERIODS: tuple[Period, ...] = get_args(Period)
GROUPINGS: tuple[By, ...] = get_args(By)
_TITLES = {"today": N_("today"), "week": N_("seven days"), "month": N_("this month")}
_BY = {"day": N_("day"), "model": N_("model"), "chat": N_("chat"), "person": N_("person"), "cause": N_("cause")}
#: What stands for spending that was kept before it was told apart.
_UNKNOWN = {
    "model": N_("unknown model"),
    "person": N_("unknown person"),
    "cause": N_("unknown cause"),
    "chat": N_("unknown chat"),
}
_HOW = "`/usage [today|week|month] [by day|model|chat|person|cause]`"  # English: it is typed
#: Pages that are read between two requests which go on from there.
PAGES_A_REQUEST = 5
#: Groups that are listed; the rest is told as one.
_SHOWN = 20


class Wish(Struct, frozen=True):
    """What somebody wants to know: of which time, and by what it is told apart."""

    period: Period = "today"
    by: By = "model"


class Report(Struct, frozen=True):
    """Spending of a time in all and by groups, as `by` says; in the order in which they are shown."""

    wish: Wish
    since: datetime
    total: Usage
    groups: tuple[tuple[str, Usage], ...]

    @property
    def text(self) -> str:
        head = _("**Usage, {period}, by {by}**", period=_(_TITLES[self.wish.period]), by=_(_BY[self.wish.by]))
        lines = [_("- {name}: {spent}", name=name, spent=usage.text) for name, usage in self.groups[:_SHOWN]]
        if rest := self.groups[_SHOWN:]:
            spent = sum((one[1] for one in rest), Usage()).text
            lines.append(_("- {number} more: {spent}", number=len(rest), spent=spent))
        return "\n".join([head, "", *lines, "", _("In all: {spent}.", spent=self.total.text)])


def wish_of(words: str) -> Wish:
    """What `week by chat` means. Raises `UsageError`."""
    wish, left = Wish(), words.casefold().split()
    for place, word in enumerate(left):
        if word in PERIODS:
            wish = Wish(next(one for one in PERIODS if one == word), wish.by)
        elif word.removesuffix("s") in GROUPINGS and place and left[place - 1] == "by":
            wish = Wish(wish.period, next(one for one in GROUPINGS if one == word.removesuffix("s")))
        elif word != "by" or place + 1 == len(left):
            near = nearest(word, [*PERIODS, *GROUPINGS])
            hint = _("Did you mean {near!r}?", near=near) if near else ""
            raise UsageError(sentences(_("{usage} tells what was spent.", usage=_HOW), hint))
    return wish


async def report_of(store: SessionStore, wish: Wish, midnight: datetime, person: str = "") -> Report:
    """Spending of one person, or of all."""
    since, until = begin_of(wish.period, midnight), midnight + timedelta(days=1)
    total = await store.spent(since, until, person=person)
    if wish.by == "day":
        return Report(wish, since, total, await _by_day(store, since, midnight, person))
    column: Grouping = wish.by
    found = await store.spending(column, since, until, person=person)
    return Report(wish, since, total, tuple((name or _(_UNKNOWN[column]), usage) for name, usage in found))


def begin_of(period: Period, midnight: datetime) -> datetime:
    """When a time began, in the zone of the owner."""
    return {"today": midnight, "week": midnight - timedelta(days=6), "month": midnight.replace(day=1)}[period]


async def _by_day(
    store: SessionStore, since: datetime, midnight: datetime, person: str
) -> tuple[tuple[str, Usage], ...]:
    days, day = [], midnight
    while day >= since:
        usage = await store.spent(day, day + timedelta(days=1), person=person)
        if usage != Usage():
            days.append((f"{day:%Y-%m-%d}", usage))
        day -= timedelta(days=1)
    return tuple(days)


async def overview(store: SessionStore, budget: Budget | None, midnight: datetime, person: str = "") -> str:
    """What was spent today, in seven days and this month, and what of the budget is used."""
    until = midnight + timedelta(days=1)
    spent = [(period, await store.spent(begin_of(period, midnight), until, person=person)) for period in PERIODS]
    told = [(_(_TITLES[period]).capitalize(), usage.text) for period, usage in spent]
    lines = [_("**Usage**"), "", *(_("- {name}: {spent}", name=name, spent=text) for name, text in told)]
    closing = _("{usage} tells more.", usage=_HOW)
    if budget is not None:
        used = await budget.of_person(person) if person else _("budget: {used}", used=await budget.overview())
        lines += [f"- {used[0].upper()}{used[1:]}"] if used else []
        made = budget.prices.made
        closing = sentences(
            _("What a service does not tell is reckoned with the prices of {date}.", date=made), closing
        )
    return "\n".join([*lines, "", closing])


async def answer_usage(ctx: CommandContext) -> None:
    """`/usage`: the owner is told all in a chat of their own, and everybody else what they spent themselves."""
    person = "" if ctx.for_owner_alone else ctx.message.person
    word, rest = [*ctx.args.strip().split(" ", 1), ""][:2]
    if word.casefold() == "raise":
        if ctx.message.sender.role != "owner" or ctx.control.budget is None:
            raise UsageError(_("Only the owner may allow more."))
        await ctx.reply(await raised(ctx.control.budget, rest))
    elif word.casefold() == "estimate":
        await ctx.reply(await _estimated(ctx, rest))
    elif word:
        report = await report_of(ctx.control.store, wish_of(ctx.args), ctx.control.midnight(), person)
        await ctx.reply(report.text)
    else:
        await _overview(ctx, person)


async def _overview(ctx: CommandContext, person: str) -> None:
    """The overview; to the owner alone with the allowance of every search engine, as they tell it now."""
    said = await overview(ctx.control.store, ctx.control.budget, ctx.control.midnight(), person)
    if person:
        await ctx.reply(said)
        return
    known = await ctx.control.searches(ask=False)
    first = f"{said}\n\n{known}" if known else said
    await ctx.reply(first)
    full = f"{said}\n\n{await ctx.control.searches(ask=True)}".rstrip()
    if full != first:
        await ctx.reply(full)


async def raised(budget: Budget, words: str) -> str:
    """Allow so many USD more today, and say so. Raises `UsageError` where no amount is named."""
    number = words.casefold().removesuffix("usd").strip().lstrip("$").replace(",", ".")
    try:
        more = await budget.raise_today(float(number))
    except ValueError:
        raise UsageError(_("Name what is allowed besides today in USD, such as `/usage raise 5`.")) from None
    told = await budget.overview()
    return sentences(
        _("{more:,.2f} USD more are allowed today, to all together and to each person.", more=more),
        _("{used}.", used=f"{told[0].upper()}{told[1:]}"),
    )


async def _estimated(ctx: CommandContext, words: str) -> str:
    pages = words.casefold().removesuffix("pages").removesuffix("page").strip()
    if not pages.isdecimal() or not 0 < int(pages) <= 10_000:
        raise UsageError(_("Name how many pages are to be read, such as `/usage estimate 30`."))
    told = await ctx.control.estimate(ctx.message, int(pages), int(pages) // PAGES_A_REQUEST + 3)
    return _("With {model}: {told}.", model=ctx.control.provider(ctx.key).model or _("this model"), told=told)
