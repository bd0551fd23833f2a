"""Searches among the other calls of a turn: what may run beside them, and how often one may be repeated."""

import asyncio

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.web.search import WebSearchTool
from nanobot.bus.events import ToolFinished, ToolStarted
from nanobot.config.schema_web import WebSearchConfig
from nanobot.messages import ToolMessage
from nanobot.providers.scripted import Call, ScriptedProvider
from nanobot.results import ToolResult
from nanobot.security.trust import unwrap
from tests.agent.harness import FakeTool, QueryArgs, agent
from tests.fakes.search_apis import KEY, FakeDdgs, SearchApis
from tests.fakes.sections import section


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
