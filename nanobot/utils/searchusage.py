"""What is left of the search allowance, as `/status` shows it.

Pure data and wording; who asks the back ends passes a `UsageReader`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

UsageSource = Literal["endpoint", "header", "body", "local"]
DEADLINE = 8.0
KEPT = 60.0
#: Asked a back end for its figures; None where it has none to tell. May raise OSError, ValueError or TimeoutError.
UsageReader = Callable[[], Awaitable["SearchUsageInfo | None"]]


@dataclass(frozen=True, slots=True)
class SearchUsageInfo:
    """The allowance of one search back end.

    `used`, `limit` and `remaining` are in `unit`s of the `window`; None where the back end does not say. `supported` is
    False where it says nothing at all; `local_count` and `local_today` are the requests that this machine counted this
    month and today, within the budgets set here. `error` is one short line; figures beside it are older ones.
    `breakdown` splits what was used, such as search and extract.
    """

    provider: str
    supported: bool = True
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
        age = max(0, int(((now or datetime.now(UTC)) - self.seen_at).total_seconds()))
        words = f"{age} s" if age < 120 else f"{age // 60} min" if age < 7200 else f"{age // 3600} h"
        return f" ({self.source}, {words} ago)"


async def fetch_search_usage(
    provider: str, reader: UsageReader | None = None, *, timeout: float = DEADLINE
) -> SearchUsageInfo:
    """What `reader` tells within `timeout` seconds; a failure is part of the answer and never raised."""
    if reader is None:
        return SearchUsageInfo(provider, supported=False)
    try:
        async with asyncio.timeout(timeout):
            found = await reader()
    except TimeoutError:
        return SearchUsageInfo(provider, error=f"no answer within {timeout:.3g} s")
    except (OSError, ValueError) as error:
        return SearchUsageInfo(provider, error=str(error)[:120] or type(error).__name__)
    return found or SearchUsageInfo(provider, supported=False)


class UsageCache:
    """Keeps each back end's answer for a minute, so that `/status` asked twice costs one request."""

    def __init__(self, kept: float = KEPT, clock: Callable[[], float] = time.monotonic) -> None:
        self._kept = kept
        self._clock = clock
        self._known: dict[str, tuple[float, SearchUsageInfo]] = {}

    async def fetch(
        self, readers: Mapping[str, UsageReader | None], *, timeout: float = DEADLINE
    ) -> list[SearchUsageInfo]:
        """The figures of every back end in `readers`, asked at the same time where none is kept."""

        async def one(provider: str, reader: UsageReader | None) -> SearchUsageInfo:
            kept = self._known.get(provider)
            if kept and self._clock() - kept[0] < self._kept:
                return kept[1]
            found = await fetch_search_usage(provider, reader, timeout=timeout)
            self._known[provider] = (self._clock(), found)
            return found

        return list(await asyncio.gather(*(one(name, reader) for name, reader in readers.items())))


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
