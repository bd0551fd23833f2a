"""The search allowance as people see it."""

from datetime import UTC, datetime, timedelta

from nanobot.utils.searchusage import SearchUsageInfo, usage_lines
from tests.tables import table

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


@table(
    "info line",
    (SearchUsageInfo("duckduckgo"), "Usage: this provider does not tell"),
    (SearchUsageInfo("kagi", remaining=4.5, unit="USD"), "Remaining: 4.50 USD"),
    (SearchUsageInfo("exa", used=0.125, unit="USD"), "Usage: 0.12 USD"),
    (SearchUsageInfo("brave", limit=15000), "Limit: 15,000 requests per month"),
    (SearchUsageInfo("jina", error="no answer within 8 s"), "Usage: unavailable (no answer within 8 s)"),
)
def test_each_kind_of_knowledge_has_its_line(info: SearchUsageInfo, line: str) -> None:
    assert f"   {line}" in info.format().splitlines()


def test_back_ends_of_which_nothing_is_known_and_that_were_not_used_share_one_line() -> None:
    used = SearchUsageInfo("searxng", local_today=1, local_count=1)
    idle = [SearchUsageInfo(name, local_today=0, local_count=0) for name in ("tavily", "exa")]
    failing = SearchUsageInfo("jina", error="no answer within 8 s", local_today=0, local_count=0)
    assert usage_lines([used, idle[0], failing, idle[1]]).splitlines() == [
        "- 🔍 Web Search: searxng · Usage: this provider does not tell · Counted here: 1 today, 1 this month",
        "- 🔍 Web Search: jina · Usage: unavailable (no answer within 8 s) · Counted here: 0 today, 0 this month",
        "- 🔍 Web Search, not used this month: tavily, exa",
    ]
