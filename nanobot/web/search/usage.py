"""What the back ends say of their allowance, in the shape that `/status` shows."""

from dataclasses import replace

from nanobot.utils.searchusage import SearchUsageInfo
from nanobot.web.search.base import Quota
from nanobot.web.usage.ledger import NO_BUDGET, Budget, Seen

_WIDTH = {"second": 0, "minute": 1, "hour": 2, "day": 3, "month": 4, "plan": 5}


def describe(provider: str, seen: Seen, budget: Budget = NO_BUDGET, *, error: str = "") -> SearchUsageInfo:
    """The widest allowance that the back end told, what it charged where it told none, and what was counted here.

    `error` says why it could not be asked just now.
    """
    info = SearchUsageInfo(
        provider,
        error=error[:120],
        local_count=seen.month,
        local_today=seen.day,
        budget_per_day=budget.per_day,
        budget_per_month=budget.per_month,
    )
    if seen.told:
        quota = max(seen.told, key=lambda each: _WIDTH[each.window])
        return _with(info, quota, seen)
    if seen.spent:
        unit, amount = max(seen.spent.items())
        return replace(info, used=amount, unit=unit, source="body")
    return info


def _with(info: SearchUsageInfo, quota: Quota, seen: Seen) -> SearchUsageInfo:
    return replace(
        info,
        used=quota.used,
        limit=quota.limit,
        remaining=quota.remaining,
        unit=quota.unit,
        window=quota.window,
        reset_date=quota.resets_at.date().isoformat() if quota.resets_at else "",
        source=quota.source,
        seen_at=seen.told_at,
        breakdown=quota.breakdown,
    )
