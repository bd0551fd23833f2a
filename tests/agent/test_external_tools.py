"""Searching in the whole agent: what the configuration says of it, and searches among the other calls of a turn."""

import asyncio
import json
import re
from pathlib import Path
from typing import Self

from nanobot.agent.external_tools import ExternalTools
from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.agent.tools.web.search import WebSearchTool
from nanobot.app import Launch, Nanobot
from nanobot.bus.events import ToolFinished, ToolStarted
from nanobot.config.loader import load
from nanobot.config.paths import Paths
from nanobot.config.schema_web import WebSearchConfig
from nanobot.errors import FetchError
from nanobot.messages import ToolMessage
from nanobot.providers.scripted import Call, ScriptedProvider
from nanobot.results import ToolResult
from nanobot.security.trust import unwrap
from nanobot.utils.prompt_templates import PromptTemplates
from tests.agent.harness import FakeTool, QueryArgs, agent, run_tool
from tests.fakes.mcp_server import McpServer
from tests.fakes.search_apis import KEY, FakeDdgs, SearchApis
from tests.fakes.sections import section


class Desk:
    """The tools in their registry over one configuration file."""

    def __init__(self, home: Path, config: object, env: dict[str, str] | None = None) -> None:
        self.path = home / "config.json"
        self.write(config)
        self.env = {"NANOBOT_HOME": str(home), "HOME": str(home), **(env or {})}
        self.paths = Paths.resolve(self.env, self.path)
        loaded = load(self.path, env=self.env)
        self.external = ExternalTools(loaded, self.paths, self.env, templates=PromptTemplates(), read_page=self.read)
        self.registry = ToolRegistry()

    def write(self, config: object) -> None:
        self.path.write_text(json.dumps(config), encoding="utf-8")

    async def read(self, url: str, timeout: float) -> str:
        if "docs" in url:
            raise FetchError("network", "down")
        return f"read {url}"

    async def __aenter__(self) -> Self:
        await self.external.connect()
        for name, factory in self.external.factories().items():
            self.registry.register_factory(name, factory)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.external.aclose()

    async def search(self, **arguments: object) -> ToolResult:
        return await run_tool(self.registry, "web_search", {"query": "python", **arguments})


def searching(**search: object) -> dict[str, object]:
    return {"tools": {"web": {"search": {"fallback": [], **search}}}}


async def test_S26_S08_the_other_names_of_the_search_service_reach_it(apis: SearchApis, tmp_path: Path) -> None:
    service = {"base_url": apis.base("kimi"), "api_key": "${SEARCH_API_KEY}", "custom_headers": {"X-Team": "blue"}}
    config = {"services": {"moonshot_search": service}, **searching(provider="moonshot_search")}
    async with Desk(tmp_path, config, {"SEARCH_API_KEY": KEY}) as box:
        assert (await box.search()).extras["provider"] == "kimi"
    request = apis.asked("kimi")[0]
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["x-team"] == "blue"


async def test_S03_pages_are_read_here_where_the_engine_gives_none(apis: SearchApis, tmp_path: Path) -> None:
    async with Desk(tmp_path, searching(provider="serper", apiKey=KEY, baseUrl=apis.base("serper"))) as box:
        result = await box.search(include_content=True)
    assert "   read https://www.python.org/3.14" in result.text
    assert "2. What is new" in result.text


async def test_A03_A07_C12_a_listed_mcp_tool_answers_where_the_engine_fails(apis: SearchApis, tmp_path: Path) -> None:
    apis.always("brave", "quota")
    async with McpServer() as server:
        config = searching(provider="brave", apiKey=KEY, baseUrl=apis.base("brave"), fallback=["mcp:exa/search"])
        async with Desk(tmp_path, {"mcp": {"exa": {"url": server.url}}, **config}) as box:
            assert box.registry.names == ("mcp_exa_search", "web_search")
            result = await box.search()
    assert result.extras["provider"] == "mcp:exa/search"
    assert server.calls == [{"name": "search", "arguments": {"query": "python"}}]


async def test_the_tools_of_a_server_that_starts_slowly_come_with_the_next_turn(tmp_path: Path) -> None:
    async with McpServer() as server:
        server.gates["initialize"] = asyncio.Event()
        path = tmp_path / "config.json"
        path.write_text(json.dumps({"mcp": {"slow": {"url": server.url}}}), encoding="utf-8")
        env = {"NANOBOT_HOME": str(tmp_path), "HOME": str(tmp_path)}
        external = ExternalTools(load(path, env=env), Paths.resolve(env, path), env, templates=PromptTemplates())
        await external.connect(0.01)
        look = FakeTool("look", gate=asyncio.Event())
        provider = ScriptedProvider([Call("look"), "first", "second"])
        async with asyncio.timeout(120), agent(provider, look, factories=external.factories()) as box:
            external.follow(box.loop.registry)
            for told in ((await box.ask("/tools")).text, await box.loop.status("terminal:me")):
                assert re.search("mcp_slow.*: still starting", told)
            asking = asyncio.create_task(box.ask("look"))
            await look.started.wait()
            server.gates["initialize"].set()
            while "mcp_slow_search" not in box.loop.registry.names:
                await asyncio.sleep(0)
            look.open()
            await asking
            await box.ask("again")
            assert "still starting" not in await box.loop.status("terminal:me")
        await external.aclose()
    during, after, later = provider.requests
    assert [spec.name for spec in during.tools] == ["look", "web_search"]
    assert after.tools == during.tools, "what a turn sends goes on as it began"
    assert [spec.name for spec in later.tools] == ["look", "mcp_slow_search", "web_search"]


async def test_A06_a_server_with_an_unset_variable_is_named_with_the_reason(tmp_path: Path) -> None:
    entry = {"url": "http://127.0.0.1:1/", "headers": {"Authorization": "Bearer ${env:NOT_SET}"}}
    async with Desk(tmp_path, {"mcp": {"tavily": entry}}) as box:
        assert box.registry.names == ("web_search",)
        assert "NOT_SET" in box.registry.skipped["mcp_tavily"]


async def test_M12_status_shows_what_is_known_at_once_and_what_was_asked_later(
    apis: SearchApis, tmp_path: Path
) -> None:
    apis.answer("tavily", {"account": {"plan_usage": 12, "plan_limit": 1000}})
    config = searching(provider="tavily", apiKey=KEY, baseUrl=apis.base("tavily"))
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    env = {"NANOBOT_HOME": str(tmp_path), "HOME": str(tmp_path)}
    launch = Launch(env=env)
    async with await Nanobot.from_config(load(path, env=env), paths=Paths.resolve(env, path), launch=launch) as app:
        apis.always("tavily", "timeout")
        first = await app.loop.status("local:direct")
        assert "- 🔍 Web Search: tavily · Usage: this provider does not tell · Counted here: 0 today" in first
        apis.always("tavily", "unavailable")
        assert "unavailable (Tavily answered with status 503" in await app.loop.status("local:direct", ask=True)
    assert (tmp_path / "usage.db").exists()


async def test_N45_M12_a_told_allowance_is_shown_with_source_age_and_what_it_went_for(
    apis: SearchApis, tmp_path: Path
) -> None:
    account = {"plan_usage": 12, "plan_limit": 1000, "search_usage": 7, "extract_usage": 3, "crawl_usage": 2}
    apis.answer("tavily", {"account": account})
    config = searching(provider="tavily", apiKey=KEY, baseUrl=apis.base("tavily"))
    for asked in (True, False):
        async with Desk(tmp_path, config) as box:
            told = await box.external.usage() if asked else box.external.known()
            assert "- 🔍 Web Search: tavily · Usage: 12 / 1,000 credits per month (endpoint, " in told
            assert "Of these: search 7 | extract 3 | crawl 2" in told
            assert "Remaining: 988 credits" in told
    assert len(apis.asked("tavily")) == 1


async def test_N25_pages_are_read_beside_a_ddgs_search_and_two_such_searches_never_overlap() -> None:
    ddgs = FakeDdgs(always="hang")
    search = WebSearchTool(WebSearchConfig(fallback=()), ddgs=ddgs)
    all_in = asyncio.Barrier(3)

    class Fetch(FakeTool):
        async def run(self, args: QueryArgs, context: ToolContext) -> ToolResult:
            async with asyncio.timeout(120):
                await all_in.wait()  # passes only when all three pages are being read
                while not ddgs.calls:  # it hangs until the first of the pages lets it go on
                    await asyncio.sleep(0.005)
            ddgs.release.set()
            return await super().run(args, context)

    searches = [Call("web_search", {"query": f"q{number}"}) for number in range(2)]
    fetches = [Call("web_fetch", {"url": f"http://a.b/{number}"}) for number in range(3)]
    async with agent([(searches[0], *fetches, searches[1]), "done"], search, Fetch("web_fetch")) as box:
        assert (await box.ask("go")).text == "done"
    assert (ddgs.most_at_once, len(ddgs.calls)) == (1, 2)
    texts = [item.text for item in box.provider.requests[-1].messages if isinstance(item, ToolMessage)]
    assert "Results for: q0" in texts[0]
    assert "Results for: q1" in texts[4]
    assert texts[1:4] == [f"found http://a.b/{number}" for number in range(3)]


def asked_of(apis: SearchApis) -> WebSearchTool:
    own = {"tavily": {"apiKey": KEY, "baseUrl": apis.base("tavily")}}
    return WebSearchTool(section(WebSearchConfig, {"provider": "tavily", "fallback": [], "providers": own}))


def results_of(provider: ScriptedProvider) -> list[str]:
    """What the model read of its calls, without the marks around it."""
    shown = [item.text for item in provider.requests[-1].messages if isinstance(item, ToolMessage)]
    return [inside.text if (inside := unwrap(text)) else text for text in shown]


async def test_N20_the_same_search_costs_one_request_and_the_third_one_says_where_its_results_stand() -> None:
    async with SearchApis() as apis:
        search = asked_of(apis)
        same = [Call("web_search", {"query": words}) for words in ("Python  release", "python release")]
        provider = ScriptedProvider([same[0], same[1], same[0], "done", same[0], "done"])
        async with agent(provider, search) as box:
            await box.ask("go")
            first, second, third = results_of(provider)
            ended = [item.result.message for item in box.of(ToolFinished)]
            assert len(apis.asked("tavily")) == 1
            await box.ask("go again")
        assert len(apis.asked("tavily")) == 2
        await search.aclose()
    assert "1. Python 3.14 released" in first
    assert second.partition("\n")[2] == first.partition("\n")[2]
    assert ended[1] == "2 results from tavily, from this turn's own search"
    assert third.startswith("Error: repeated external lookup blocked. Use the results you already have to answer, ")
    assert third.endswith(" What it found stands above as [1] [2].")


async def test_N20_the_same_search_twice_at_one_time_is_one_request_and_fresh_asks_again() -> None:
    async with SearchApis() as apis:
        search = asked_of(apis)
        call = Call("web_search", {"query": "python"})
        again = Call("web_search", {"query": "python", "fresh": True})
        provider = ScriptedProvider([(call, call), again, "done"])
        async with agent(provider, search) as box:
            await box.ask("go")
        texts = results_of(provider)
        assert len(apis.asked("tavily")) == 2
        await search.aclose()
    assert texts[0] == texts[1] == texts[2]


async def test_N20_a_search_that_failed_is_asked_again() -> None:
    async with SearchApis() as apis:
        search = asked_of(apis)
        apis.fail("tavily", "bad_request")
        call = Call("web_search", {"query": "python"})
        provider = ScriptedProvider([call, call, "done"])
        async with agent(provider, search) as box:
            await box.ask("go")
        texts = results_of(provider)
        await search.aclose()
    assert texts[0].startswith("Error: Web search failed")
    assert "1. Python 3.14 released" in texts[1]


async def test_N17_twelve_limits_of_one_query_are_four_requests() -> None:
    async with SearchApis() as apis:
        search = asked_of(apis)
        calls = [Call("web_search", {"query": "python", "limit": limit}) for limit in range(1, 13)]
        provider = ScriptedProvider([*calls, "done"])
        async with agent(provider, search) as box:
            await box.ask("go")
        texts = results_of(provider)
        assert len(apis.asked("tavily")) == 4
        await search.aclose()
    assert [text.startswith("Error: repeated external lookup blocked") for text in texts] == [False] * 4 + [True] * 8


async def test_K01_C7_the_names_that_other_agents_have_for_searching_reach_the_tool() -> None:
    names = ("SearchWeb", "google_web_search", "WebSearch", "websearch")
    async with SearchApis() as apis:
        search = asked_of(apis)
        queries = [f"words {number}" for number in range(len(names))]
        calls = [Call(name, {"query": query}) for name, query in zip(names, queries, strict=True)]
        provider = ScriptedProvider([*calls, "done"])
        async with agent(provider, search) as box:
            await box.ask("go")
            hints = [item.hint for item in box.of(ToolStarted)]
            assert [spec.name for spec in provider.requests[0].tools] == ["web_search"]
        assert [request.json()["query"] for request in apis.asked("tavily")] == queries
        await search.aclose()
    assert hints == [f'search "{query}"' for query in queries]


async def test_A10_the_third_same_search_of_an_mcp_server_is_refused_and_another_one_is_not() -> None:
    tool = FakeTool("mcp_exa_web_search_exa")
    same = [Call(tool.name, {"query": words}) for words in ("Cats", "cats", "cats ")]
    async with agent([*same, Call(tool.name, {"query": "dogs"}), "done"], tool) as box:
        assert (await box.ask("go")).text == "done"
    texts = [item.text for item in box.provider.requests[-1].messages if isinstance(item, ToolMessage)]
    assert [text.startswith("Error: repeated external lookup blocked") for text in texts] == [False, False, True, False]
    assert len(tool.calls) == 3
