"""What is left of the search allowance, as `/status` shows it: pure data and wording."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct, field

from nanobot.utils.text import duration
from nanobot.utils.translation import N_, _, listed

#: The units and windows of allowances, and where a figure was told, in a person's words.
_WORDS = {
    "requests": N_("requests"),
    "credits": N_("credits"),
    "month": N_("month"),
    "day": N_("day"),
    "plan": N_("plan"),
    "endpoint": N_("endpoint"),
    "header": N_("header"),
    "body": N_("body"),
    "local": N_("local"),
}
UsageSource = Literal["endpoint", "header", "body", "local"]
_HOSTS = 5


class SearchUsageInfo(Struct, frozen=True):
    """The allowance of one search back end.

    `used`, `limit` and `remaining` are in `unit`s of the `window`; None where the back end does not say.
    `local_count` and `local_today` are the requests that this machine counted this month and today, within the budgets
    set here. `error` is one short line; figures beside it are older ones. `breakdown` splits
    what was used, such as search and extract.
    """

    provider: str
    used: float | None = None
    limit: float | None = None
    remaining: float | None = None
    unit: str = "requests"
    window: str = "month"
    reset_date: str = ""
    source: UsageSource = "local"
    seen_at: datetime | None = None
    error: str = ""
    local_count: int | None = None
    local_today: int | None = None
    budget_per_day: int | None = None
    budget_per_month: int | None = None
    breakdown: Mapping[str, float] = field(default_factory=dict)

    def format(self, now: datetime | None = None) -> str:
        """The block of lines for people, beginning with the name of the back end."""
        lines = [_("🔍 Web Search: {service}", service=self.provider)]
        allowance = self._allowance()
        if self.error:
            lines.append(_("   Usage: unavailable ({why})", why=self.error))
        if allowance is not None:
            told = allowance + self._origin(now)
            lines.append(_("   Last seen: {allowance}", allowance=told) if self.error else f"   {told}")
        elif not self.error:
            lines.append(_("   Usage: this provider does not tell"))
        if self.breakdown:
            parts = " | ".join(f"{name} {_figure(value)}" for name, value in self.breakdown.items())
            lines.append(_("   Of these: {parts}", parts=parts))
        if self.remaining is not None:
            lines.append(_("   Remaining: {amount} {unit}", amount=_figure(self.remaining), unit=_word(self.unit)))
        if self.reset_date:
            lines.append(_("   Resets: {date}", date=self.reset_date))
        if counted := self._counted():
            lines.append(_("   Counted here: {counts}", counts=counted))
        return "\n".join(lines)

    @property
    def says_nothing(self) -> bool:
        """Whether it tells no figure, and nothing was asked of it."""
        return not (self.error or self.breakdown or self.reset_date or self._allowance() or self.local_count)

    def _counted(self) -> str:
        def of(count: int, budget: int | None) -> str:
            return f"{count:,}" if budget is None else _("{number:,} of {most:,}", number=count, most=budget)

        parts = []
        if self.local_today is not None:
            parts.append(_("{count} today", count=of(self.local_today, self.budget_per_day)))
        if self.local_count is not None:
            parts.append(_("{count} this month", count=of(self.local_count, self.budget_per_month)))
        return listed(parts)

    def _allowance(self) -> str | None:
        unit, window = _word(self.unit), _word(self.window)
        if self.used is not None and self.limit:
            used, most = _figure(self.used), _figure(self.limit)
            return _("Usage: {used} / {most} {unit} per {window}", used=used, most=most, unit=unit, window=window)
        if self.used is not None:
            return _("Usage: {used} {unit}", used=_figure(self.used), unit=unit)
        if self.limit:
            return _("Limit: {most} {unit} per {window}", most=_figure(self.limit), unit=unit, window=window)
        return _("Balance in {unit}", unit=unit) if self.remaining is not None else None

    def _origin(self, now: datetime | None) -> str:
        if self.seen_at is None:
            return ""
        age = max(0.0, ((now or datetime.now(UTC)) - self.seen_at).total_seconds())
        return _("{allowance} ({source}, {time} ago)", allowance="", source=_word(self.source), time=duration(age))


def usage_lines(infos: Sequence[SearchUsageInfo]) -> str:
    """A line for each back end; those of which nothing is known, and that were not asked this month, share the last."""
    silent = [info for info in infos if info.says_nothing]
    told = [info for info in infos if len(silent) == 1 or not info.says_nothing]
    lines = ["- " + " · ".join(line.strip() for line in info.format().splitlines()) for info in told]
    if len(silent) > 1:
        names = listed(info.provider for info in silent)
        lines.append(_("- 🔍 Web Search, not used this month: {names}", names=names))
    return "\n".join(lines)


class LookupCount(Struct, frozen=True):
    """How often one step of one tool was taken to one host today, how many of them failed, and their seconds in all."""

    tool: str
    step: str
    host: str
    made: int
    failed: int
    seconds: float


def lookups_line(counts: Sequence[LookupCount]) -> str:
    """Such as `Lookups today: web_search 3 (1 failed, 0.4 s each); by: tavily 3; hosts: example.org 2`, or empty.

    At most five hosts are named.
    """
    tools, steps, hosts = (_sums(counts, key) for key in ("tool", "step", "host"))
    if not tools:
        return ""

    def said(name: str, one: tuple[int, int, float]) -> str:
        made, failed, seconds = one
        each = seconds / made
        if failed:
            return _(
                "{tool} {made} ({failed} failed, {each:.1f} s each)", tool=name, made=made, failed=failed, each=each
            )
        return _("{tool} {made} ({each:.1f} s each)", tool=name, made=made, each=each)

    used, by = listed(said(*item) for item in tools.items()), listed(f"{name} {one[0]}" for name, one in steps.items())
    named = [f"{name} {one[0]}" for name, one in hosts.items() if name]
    some = listed(named[:_HOSTS])
    if not named:
        return _("Lookups today: {tools}; by: {services}", tools=used, services=by)
    if len(named) > _HOSTS:
        some = _("{hosts} and more", hosts=some)
    return _("Lookups today: {tools}; by: {services}; hosts: {hosts}", tools=used, services=by, hosts=some)


def _word(name: str) -> str:
    return _(_WORDS.get(name, name))


def _sums(counts: Sequence[LookupCount], key: str) -> dict[str, tuple[int, int, float]]:
    """Made, failed and seconds by one of the names."""
    sums: dict[str, tuple[int, int, float]] = {}
    for one in counts:
        name = {"tool": one.tool, "step": one.step, "host": one.host}[key]
        made, failed, seconds = sums.get(name, (0, 0, 0.0))
        sums[name] = made + one.made, failed + one.failed, seconds + one.seconds
    return sums


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
