"""What is left of the search allowance, as `/status` shows it: pure data and wording."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct, field

from nanobot.utils.text import duration

UsageSource = Literal["endpoint", "header", "body", "local"]
DEADLINE = 8.0
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
        lines = [f"🔍 Web Search: {self.provider}"]
        allowance = self._allowance()
        if self.error:
            lines.append(f"   Usage: unavailable ({self.error})")
        if allowance is not None:
            lines.append(f"   {'Last seen: ' * bool(self.error)}{allowance}{self._origin(now)}")
        elif not self.error:
            lines.append("   Usage: this provider does not tell")
        if self.breakdown:
            parts = " | ".join(f"{name} {_figure(value)}" for name, value in self.breakdown.items())
            lines.append(f"   Of these: {parts}")
        if self.remaining is not None:
            lines.append(f"   Remaining: {_figure(self.remaining)} {self.unit}")
        if self.reset_date:
            lines.append(f"   Resets: {self.reset_date}")
        if counted := self._counted():
            lines.append(f"   Counted here: {counted}")
        return "\n".join(lines)

    @property
    def says_nothing(self) -> bool:
        """Whether it tells no figure, and nothing was asked of it."""
        return not (self.error or self.breakdown or self.reset_date or self._allowance() or self.local_count)

    def _counted(self) -> str:
        def of(count: int, budget: int | None) -> str:
            return f"{count:,}" if budget is None else f"{count:,} of {budget:,}"

        parts = []
        if self.local_today is not None:
            parts.append(f"{of(self.local_today, self.budget_per_day)} today")
        if self.local_count is not None:
            parts.append(f"{of(self.local_count, self.budget_per_month)} this month")
        return ", ".join(parts)

    def _allowance(self) -> str | None:
        if self.used is not None and self.limit:
            return f"Usage: {_figure(self.used)} / {_figure(self.limit)} {self.unit} per {self.window}"
        if self.used is not None:
            return f"Usage: {_figure(self.used)} {self.unit}"
        if self.limit:
            return f"Limit: {_figure(self.limit)} {self.unit} per {self.window}"
        return f"Balance in {self.unit}" if self.remaining is not None else None

    def _origin(self, now: datetime | None) -> str:
        if self.seen_at is None:
            return ""
        age = max(0.0, ((now or datetime.now(UTC)) - self.seen_at).total_seconds())
        return f" ({self.source}, {duration(age)} ago)"


def usage_lines(infos: Sequence[SearchUsageInfo]) -> str:
    """A line for each back end; those of which nothing is known, and that were not asked this month, share the last."""
    silent = [info for info in infos if info.says_nothing]
    told = [info for info in infos if len(silent) == 1 or not info.says_nothing]
    lines = ["- " + " · ".join(line.strip() for line in info.format().splitlines()) for info in told]
    if len(silent) > 1:
        lines.append(f"- 🔍 Web Search, not used this month: {', '.join(info.provider for info in silent)}")
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
        return f"{name} {made} ({f'{failed} failed, ' if failed else ''}{seconds / made:.1f} s each)"

    parts = [", ".join(said(*item) for item in tools.items())]
    parts.append("by: " + ", ".join(f"{name} {one[0]}" for name, one in steps.items()))
    if named := [f"{name} {one[0]}" for name, one in hosts.items() if name]:
        parts.append(f"hosts: {', '.join(named[:_HOSTS])}{' and more' * (len(named) > _HOSTS)}")
    return f"Lookups today: {'; '.join(parts)}"


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
