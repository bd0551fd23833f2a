"""Who is asked in privacy mode, and settings that change while the agent runs."""

from collections.abc import Callable, Mapping

import pytest

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.web.search import WebSearchTool
from nanobot.config.schema_web import WebSearchConfig
from nanobot.errors import SearchError
from tests.fakes.search_apis import KEY, FakeDdgs, SearchApis
from tests.fakes.sections import section

REMOTE = ("brave", "tavily", "exa", "kagi", "jina", "firecrawl", "kimi", "serper", "bocha", "perplexity")


def config(apis: SearchApis, *names: str, **values: object) -> WebSearchConfig:
    providers = {name: {"apiKey": KEY, "baseUrl": apis.base(name)} for name in names}
    return section(WebSearchConfig, {"providers": providers, **values})


async def test_in_privacy_mode_the_remote_services_see_nothing(apis: SearchApis) -> None:
    fake = FakeDdgs()
    apis.always("searxng", "unavailable")
    tool = WebSearchTool(config(apis, *REMOTE, "searxng"), ddgs=fake)
    result = await tool.call({"query": "my illness"}, ToolContext(privacy=True))
    await tool.aclose()
    assert result.is_error
    assert len(apis.asked("searxng")) == 2
    assert not any(apis.asked(name) for name in REMOTE)
    assert fake.calls == []


@pytest.mark.parametrize("chosen", ["kagi", "duckduckgo"])
async def test_in_privacy_mode_the_chosen_back_end_is_asked_and_nobody_after_it(apis: SearchApis, chosen: str) -> None:
    fake = FakeDdgs(always="blocked")
    apis.always("kagi", "quota")
    tool = WebSearchTool(config(apis, *REMOTE, provider=chosen), ddgs=fake)
    result = await tool.call({"query": "my illness"}, ToolContext(privacy=True))
    await tool.aclose()
    assert result.is_error
    assert {name for name in REMOTE if apis.asked(name)} == {chosen} - {"duckduckgo"}
    assert bool(fake.calls) is (chosen == "duckduckgo")


async def test_in_privacy_mode_without_a_chosen_back_end_the_error_says_what_to_set(apis: SearchApis) -> None:
    tool = WebSearchTool(config(apis, "brave"), ddgs=FakeDdgs())
    result = await tool.call({"query": "my illness"}, ToolContext(privacy=True))
    assert "only SearXNG or the back end named in tools.web.search.provider may be asked" in result.text
    assert apis.asked("brave") == []


async def test_C12_a_tool_of_an_mcp_server_steps_in_only_where_fallback_lists_it(apis: SearchApis) -> None:
    asked: list[tuple[str, str, dict[str, object]]] = []

    async def call(
        server: str, tool: str, arguments: Callable[[frozenset[str]], Mapping[str, object]], timeout: float
    ) -> str:
        asked.append((server, tool, dict(arguments(frozenset({"q", "max_results"})))))
        if tool == "broken":
            raise SearchError("unavailable", "the server is down")
        return "Title: A\nURL: https://a.example/\nText: words"

    apis.always("brave", "quota")
    entries = ("mcp:one/broken", "mcp:two/search")
    tool = WebSearchTool(config(apis, "brave", provider="brave", fallback=entries), mcp=call)
    result = await tool.call({"query": "python", "exclude_domains": ["b.example"], "freshness": "day"}, None)
    assert result.extras["provider"] == "mcp:two/search"
    assert "https://a.example/" in result.text
    assert "Note: mcp:two/search cannot filter by time" in result.text
    wanted = {"q": "python -site:b.example", "max_results": 5}
    assert asked == [("one", "broken", wanted), ("one", "broken", wanted), ("two", "search", wanted)]
    asked.clear()
    plain = WebSearchTool(config(apis, "brave", provider="brave", fallback=()), mcp=call)
    assert (await plain.call({"query": "python"}, None)).is_error
    assert asked == []
    await tool.aclose()
    await plain.aclose()
