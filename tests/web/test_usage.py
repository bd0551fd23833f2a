"""The ledger of search requests: what it counts, what it forbids, what it still knows after a restart."""

import re
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.web.search import WebSearchTool
from nanobot.config.schema_web import WebSearchConfig
from nanobot.utils.searchusage import lookups_line
from nanobot.web.search.base import Quota
from nanobot.web.search.catalog import CATALOG
from nanobot.web.usage import Lookup, RequestBudget, UsageLedger
from tests.fakes.ledger import rows
from tests.fakes.search_apis import KEY, FakeDdgs, SearchApis
from tests.fakes.sections import section


@dataclass
class Calendar:
    now: datetime = datetime(2026, 1, 30, 23, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def searcher(apis: SearchApis, ledger: UsageLedger, name: str = "tavily", **own: object) -> WebSearchTool:
    providers = {name: {"apiKey": KEY, "baseUrl": apis.base(name), **own}}
    config = section(WebSearchConfig, {"provider": name, "fallback": ["duckduckgo"], "providers": providers})
    return WebSearchTool(config, ddgs=FakeDdgs(), ledger=ledger)


async def answered_by(tool: WebSearchTool, query: str = "python") -> str:
    result = await tool.call({"query": query}, ToolContext())
    await tool.aclose()
    return str(result.extras["provider"])


def test_N45_counts_survive_a_restart_and_are_shared_by_processes(tmp_path: Path) -> None:
    path = tmp_path / "home" / "usage.db"
    first, second = UsageLedger(path), UsageLedger(path)
    assert [first.reserve("brave"), second.reserve("brave"), first.reserve("exa")] == ["", "", ""]
    first.spend("exa", {"USD": 0.005})
    second.spend("exa", {"USD": 0.01})
    second.keep("brave", [Quota(used=3, limit=10, remaining=7, window="month", source="header")])
    first.close()
    second.close()
    again = UsageLedger(path)
    assert (again.seen("brave").local_today, again.seen("brave").local_count) == (2, 2)
    assert again.seen("exa").used == pytest.approx(0.015)
    assert again.seen("exa").unit == "USD"
    assert again.seen("brave").remaining == 7
    assert again.seen("brave").seen_at is not None
    again.close()


def test_a_budget_is_kept_to_the_day_and_the_month() -> None:
    calendar = Calendar()
    ledger = UsageLedger(now=calendar)
    budget = RequestBudget(per_day=2, per_month=3)
    assert [bool(ledger.reserve("brave", budget)) for _ in range(3)] == [False, False, True]
    calendar.now += timedelta(hours=2)  # the 31st
    assert [bool(ledger.reserve("brave", budget)) for _ in range(2)] == [False, True]
    assert "3 requests a month" in ledger.reserve("brave", budget)
    calendar.now += timedelta(days=1)  # February
    assert ledger.reserve("brave", budget) == ""
    assert (ledger.seen("brave").local_today, ledger.seen("brave").local_count) == (1, 1)
    assert ledger.reserve("exa", RequestBudget(per_day=0)) != ""


def test_many_threads_never_pass_a_budget_together(tmp_path: Path) -> None:
    ledgers = [UsageLedger(tmp_path / "usage.db") for _ in range(4)]
    refusals: list[str] = []

    def ask(ledger: UsageLedger) -> None:
        refusals.extend(ledger.reserve("brave", RequestBudget(per_day=10)) for _ in range(10))

    threads = [threading.Thread(target=ask, args=(ledger,)) for ledger in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sum(not refusal for refusal in refusals) == 10
    for ledger in ledgers:
        ledger.close()


@pytest.mark.parametrize("kind", ["folder", "rubbish", "foreign"])
def test_a_ledger_that_cannot_be_used_counts_in_memory(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "usage.db"
    if kind == "folder":
        path.mkdir()
    elif kind == "rubbish":
        path.write_bytes(b"this is no database" * 100)
    else:
        rows(path, "CREATE TABLE told (provider TEXT PRIMARY KEY, other TEXT)")
    ledger = UsageLedger(path)
    assert ledger.reserve("brave") == ""
    ledger.keep("brave", [Quota(limit=3)])
    assert ledger.seen("brave").limit == 3
    ledger.close()


def test_words_of_another_version_are_forgotten(tmp_path: Path) -> None:
    ledger = UsageLedger(tmp_path / "usage.db")
    ledger.reserve("brave")
    rows(tmp_path / "usage.db", "INSERT INTO told VALUES ('brave', 'yesterday', '[{\"limit\": \"many\"}]')")
    assert ledger.seen("brave").seen_at is None
    ledger.close()


async def test_a_spent_budget_hands_over_to_the_next_back_end_and_says_so(apis: SearchApis) -> None:
    ledger = UsageLedger()
    tool = searcher(apis, ledger, budgetPerDay=1)
    assert await answered_by(tool) == "tavily"
    result = await tool.call({"query": "other"}, ToolContext())
    assert result.extras["provider"] == "duckduckgo"
    assert "Note: answered by duckduckgo, because tavily is not asked: its budget of 1 requests a day" in result.text
    assert len(apis.asked("tavily")) == 1
    assert "Counted here: 1 of 1 today, 1 this month" in tool.chain.known_usage()[0].format()


async def test_a_spent_budget_stops_where_nobody_may_step_in(apis: SearchApis) -> None:
    providers = {"tavily": {"apiKey": KEY, "baseUrl": apis.base("tavily"), "budgetPerMonth": 0}}
    config = section(WebSearchConfig, {"provider": "tavily", "fallback": [], "providers": providers})
    result = await WebSearchTool(config).call({"query": "python"}, ToolContext())
    assert result.error == "quota"
    assert "its budget of 0 requests a month is used up" in result.text
    assert apis.asked("tavily") == []


async def test_a_repeated_request_counts_twice(apis: SearchApis) -> None:
    ledger = UsageLedger()
    apis.fail("tavily", "unavailable")
    assert await answered_by(searcher(apis, ledger)) == "tavily"
    assert ledger.seen("tavily").local_today == 2


async def test_the_price_of_answers_is_added_up_where_no_allowance_is_told(apis: SearchApis, tmp_path: Path) -> None:
    for _ in range(2):
        ledger = UsageLedger(tmp_path / "usage.db")
        assert await answered_by(searcher(apis, ledger, "exa")) == "exa"
        ledger.close()
    ledger = UsageLedger(tmp_path / "usage.db")
    exa = searcher(apis, ledger, "exa").chain.known_usage()[0]
    assert exa.used == pytest.approx(0.01)
    assert (exa.unit, exa.local_count) == ("USD", 2)
    assert "Usage: 0.01 USD" in exa.format()
    ledger.close()


async def test_what_a_header_told_is_shown_with_its_age_after_a_restart(apis: SearchApis, tmp_path: Path) -> None:
    apis.headers = (("X-RateLimit-Limit", "15000"), ("X-RateLimit-Remaining", "14990"))
    calendar = Calendar()
    before = UsageLedger(tmp_path / "usage.db", calendar)
    assert await answered_by(searcher(apis, before, "brave")) == "brave"
    before.close()
    after = UsageLedger(tmp_path / "usage.db", calendar)
    brave = searcher(apis, after, "brave").chain.known_usage()[0]
    later = calendar.now + timedelta(hours=3)
    assert "Usage: 10 / 15,000 requests per month (header, 3 h ago)" in brave.format(later)
    after.close()


async def test_an_allowance_that_cannot_be_asked_now_stands_as_last_seen(apis: SearchApis) -> None:
    ledger = UsageLedger()
    apis.answer("tavily", {"account": {"plan_usage": 12, "plan_limit": 1000}})
    tool = searcher(apis, ledger)
    await tool.chain.usage(timeout=60)
    apis.always("tavily", "unavailable")
    tavily = (await tool.chain.usage(timeout=60))[0]
    await tool.aclose()
    assert "Usage: unavailable (Tavily answered with status 503: overloaded)" in tavily.format()
    assert re.search(r"Last seen: Usage: 12 / 1,000 credits per month \(endpoint, [\d.]+ s ago\)", tavily.format())


async def test_N45_C19_every_back_end_has_a_line_without_a_request(apis: SearchApis) -> None:
    providers = {name: {"apiKey": KEY, "baseUrl": apis.base(name)} for name in CATALOG if name != "duckduckgo"}
    tool = WebSearchTool(section(WebSearchConfig, {"providers": providers}), ddgs=FakeDdgs())
    lines = [info.format() for info in tool.chain.known_usage()]
    assert {line.splitlines()[0] for line in lines} == {f"🔍 Web Search: {name}" for name in CATALOG}
    assert all("Counted here: 0 today, 0 this month" in line for line in lines)
    assert not any(apis.asked(name) for name in providers)


def test_C8_the_published_limit_of_keyless_exa_is_a_budget() -> None:
    infos = {info.provider: info for info in WebSearchTool(WebSearchConfig()).chain.known_usage()}
    assert infos["exa"].budget_per_day == 50
    keyed = WebSearchTool(WebSearchConfig(), env={"EXA_API_KEY": KEY})
    assert {info.provider: info for info in keyed.chain.known_usage()}["exa"].budget_per_day is None


def test_G38_lookups_of_one_kind_are_counted_together_with_their_seconds() -> None:
    ledger = UsageLedger()
    ledger.note(
        Lookup("web_fetch", "local", "a.example", "", 1.5), Lookup("web_fetch", "local", "a.example", "failed", 2.5)
    )
    (count,) = ledger.lookups()
    assert (count.made, count.failed, count.seconds) == (2, 1, 4.0)
    assert "web_fetch 2 (1 failed, 2.0 s each)" in lookups_line(ledger.lookups())


def test_a_day_begins_at_the_owners_midnight() -> None:
    at = datetime(2026, 7, 1, 21, 59, tzinfo=UTC)
    ledger = UsageLedger(now=lambda: at, zone=ZoneInfo("Europe/Paris"))
    ledger.reserve("brave")
    assert ledger.seen("brave").local_today == 1
    at += timedelta(minutes=1)
    assert ledger.seen("brave").local_today == 0
