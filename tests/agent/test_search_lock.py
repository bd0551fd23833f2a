"""Searches among the other calls of a turn: what may run beside them, and how often one may be repeated."""

import asyncio

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.web_search import WebSearchTool
from nanobot.config.web_schema import WebSearchConfig
from nanobot.messages import ToolMessage
from nanobot.providers.scripted import Call, ScriptedProvider
from nanobot.results import ToolResult
from nanobot.web.search.worker import Worker
from tests.agent.harness import FakeTool, QueryArgs, agent
from tests.fakes.search_apis import FakeDdgs


async def test_N25_pages_are_read_beside_a_ddgs_search_and_two_such_searches_never_overlap() -> None:
    ddgs = FakeDdgs(always="hang")
    search = WebSearchTool(WebSearchConfig(fallback=()), ddgs=ddgs, worker=Worker())
    all_in = asyncio.Barrier(3)

    class Fetch(FakeTool):
        async def run(self, args: QueryArgs, context: ToolContext) -> ToolResult:
            async with asyncio.timeout(5):
                await all_in.wait()  # passes only when all three pages are being read
                while not ddgs.running:
                    await asyncio.sleep(0.005)
            ddgs.release.set()
            return await super().run(args, context)

    searches = [Call("web_search", {"query": f"q{number}"}) for number in range(2)]
    fetches = [Call("web_fetch", {"url": f"http://a.b/{number}"}) for number in range(3)]
    provider = ScriptedProvider([(searches[0], *fetches, searches[1]), "done"])
    async with agent(provider, search, Fetch("web_fetch")) as box:
        assert (await box.ask("go")).text == "done"
    assert search.exclusive
    assert (ddgs.most_at_once, len(ddgs.calls)) == (1, 2)
    texts = [item.text for item in provider.requests[-1].messages if isinstance(item, ToolMessage)]
    assert "Results for: q0" in texts[0]
    assert "Results for: q1" in texts[4]
    assert texts[1:4] == [f"found http://a.b/{number}" for number in range(3)]


async def test_A10_the_third_same_search_of_an_mcp_server_is_refused_and_another_one_is_not() -> None:
    tool = FakeTool("mcp_exa_web_search_exa")
    same = [Call(tool.name, {"query": words}) for words in ("Cats", "cats", "cats ")]
    provider = ScriptedProvider([*same, Call(tool.name, {"query": "dogs"}), "done"])
    async with agent(provider, tool) as box:
        assert (await box.ask("go")).text == "done"
    texts = [item.text for item in provider.requests[-1].messages if isinstance(item, ToolMessage)]
    assert [text.startswith("Error: repeated external lookup blocked") for text in texts] == [False, False, True, False]
    assert len(tool.calls) == 3
