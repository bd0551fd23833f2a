"""What the back ends say of their allowance, in the shape that `/status` shows."""

from collections.abc import Sequence
from datetime import datetime

from nanobot.errors import SearchError
from nanobot.utils.searchusage import SearchUsageInfo
from nanobot.web.search.base import Quota

_WIDTH = {"second": 0, "minute": 1, "hour": 2, "day": 3, "month": 4, "plan": 5}


def describe(
    provider: str,
    told: Sequence[Quota] | SearchError,
    *,
    count: int | None = None,
    seen_at: datetime | None = None,
) -> SearchUsageInfo:
    """The widest window of `told` as one value. `count` is what was asked from here since the program started."""
    if isinstance(told, SearchError):
        return SearchUsageInfo(provider, error=str(told)[:120], local_count=count)
    if not told:
        return SearchUsageInfo(provider, supported=False, local_count=count)
    quota = max(told, key=lambda each: _WIDTH[each.window])
    return SearchUsageInfo(
        provider,
        used=quota.used,
        limit=quota.limit,
        remaining=quota.remaining,
        unit=quota.unit,
        window=quota.window,
        reset_date=quota.resets_at.date().isoformat() if quota.resets_at else "",
        source=quota.source,
        seen_at=seen_at,
        local_count=count,
    )
