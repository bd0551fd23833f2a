"""The search allowance as people see it."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from nanobot.utils.searchusage import SearchUsageInfo, UsageCache, fetch_search_usage

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def test_N45_the_block_shows_used_limit_rest_and_where_it_is_from() -> None:
    info = SearchUsageInfo(
        "tavily",
        used=142,
        limit=1000,
        remaining=858,
        unit="credits",
        reset_date="2026-06-01",
        source="endpoint",
        seen_at=NOW - timedelta(seconds=30),
        breakdown={"search": 120, "extract": 22},
        local_count=7,
    )
    assert info.format(NOW) == (
        "🔍 Web Search: tavily\n"
        "   Usage: 142 / 1,000 credits per month (endpoint, 30 s ago)\n"
        "   Of these: search 120 | extract 22\n"
        "   Remaining: 858 credits\n"
        "   Resets: 2026-06-01\n"
        "   Counted here: 7 this month"
    )


@pytest.mark.parametrize(
    ("info", "line"),
    [
        (SearchUsageInfo("duckduckgo", supported=False), "Usage: this provider does not tell"),
        (SearchUsageInfo("kagi", remaining=4.5, unit="USD"), "Remaining: 4.50 USD"),
        (SearchUsageInfo("exa", used=0.125, unit="USD"), "Usage: 0.12 USD"),
        (SearchUsageInfo("brave", limit=15000), "Limit: 15,000 requests per month"),
        (SearchUsageInfo("jina", error="no answer within 8 s"), "Usage: unavailable (no answer within 8 s)"),
    ],
)
def test_each_kind_of_knowledge_has_its_line(info: SearchUsageInfo, line: str) -> None:
    assert f"   {line}" in info.format().splitlines()


async def test_a_failure_is_a_line_and_never_raised() -> None:
    async def refused() -> SearchUsageInfo | None:
        raise OSError("refused")

    async def hangs() -> SearchUsageInfo | None:
        await asyncio.Event().wait()
        return None

    assert (await fetch_search_usage("tavily", refused)).error == "refused"
    assert (await fetch_search_usage("tavily", hangs, timeout=0.02)).error == "no answer within 0.02 s"
    assert not (await fetch_search_usage("duckduckgo")).supported


async def test_an_answer_is_kept_for_a_minute_and_all_are_asked_at_once() -> None:
    now, asked = [0.0], [0]
    both = asyncio.Barrier(2)

    async def read() -> SearchUsageInfo | None:
        asked[0] += 1
        await both.wait()
        return SearchUsageInfo("x", used=asked[0])

    cache = UsageCache(clock=lambda: now[0])
    readers = {"a": read, "b": read}
    assert len(await cache.fetch(readers, timeout=5)) == 2
    now[0] = 59.0
    await cache.fetch(readers, timeout=5)
    assert asked[0] == 2
    now[0] = 61.0
    await cache.fetch(readers, timeout=5)
    assert asked[0] == 4
