"""No byte that a server chose reaches the model outside the marks of content from outside."""

import re
from collections.abc import Sequence
from contextlib import aclosing

import pytest

from nanobot.agent.tools.mcp.servers import McpServers
from nanobot.agent.tools.web.fetch import WebFetchTool
from nanobot.agent.tools.web.search import WebSearchTool
from nanobot.config.schema_tools import McpServerConfig
from nanobot.config.schema_web import WebFetchConfig, WebSearchConfig
from nanobot.messages import ToolMessage
from nanobot.providers.scripted import Call, ScriptedProvider
from tests.agent.harness import agent
from tests.fakes.http_server import HttpServer, Request, Responder
from tests.fakes.mcp_server import McpServer, ServedTool, text
from tests.fakes.search_apis import FakeDdgs
from tests.fakes.sections import section

CANARY = "OBEYxMExNOW"
WRAPPED = re.compile(r'<outside id="([0-9a-f]{16})" source="[^"\n]*">\n.*?\n</outside id="\1">', re.DOTALL)
HEAD = "Content-Length: 0\r\nConnection: close\r\n"
ENGINES = ("brave", "tavily", "searxng", "jina", "kagi", "exa", "serper", "firecrawl", "perplexity", "bocha", "kimi")
WIRE = {
    "status line": f"HTTP/1.1 418 {CANARY}\r\n{HEAD}\r\n",
    "refusal": f"HTTP/1.1 403 {CANARY}\r\nServer: {CANARY}\r\nWWW-Authenticate: {CANARY}\r\n{HEAD}\r\n",
    "pause": f"HTTP/1.1 429 Slow\r\nRetry-After: {CANARY}\r\n{HEAD}\r\n",
    "media type": f"HTTP/1.1 200 OK\r\nContent-Type: video/{CANARY}\r\nContent-Length: 4\r\n\r\n\0\1\2\3",
    "coding": f"HTTP/1.1 200 OK\r\nContent-Encoding: {CANARY}\r\nContent-Length: 1\r\n\r\nx",
    "redirect": f"HTTP/1.1 302 Found\r\nLocation: http://{CANARY}.invalid/{CANARY}\r\n{HEAD}\r\n",
    "scheme": f"HTTP/1.1 302 Found\r\nLocation: {CANARY}://x\r\n{HEAD}\r\n",
    "header": f"HTTP/1.1 200 OK\r\n{CANARY} broken\r\n\r\n",
    "no HTTP": f"{CANARY}\r\n\r\n",
    "page": f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(CANARY)}\r\n\r\n{CANARY}",
}


def outside_marks(messages: Sequence[object]) -> str:
    """What a model reads of results outside of all marks."""
    results = [one.text for one in messages if isinstance(one, ToolMessage)]
    assert results
    return "\n".join(WRAPPED.sub("", one) for one in results)


@pytest.mark.parametrize("place", WIRE)
async def test_nothing_that_a_web_server_says_stands_outside_the_marks(place: str) -> None:
    async def answer(_request: Request, responder: Responder) -> None:
        await responder.raw(WIRE[place].encode())

    fetch = WebFetchTool(WebFetchConfig(reader="none"), whitelist=("127.0.0.1/32",))
    async with HttpServer(answer) as server:
        provider = ScriptedProvider([Call("web_fetch", {"url": server.url}), "done"])
        async with agent(provider, fetch) as box:
            await box.ask(f"read {server.url}")
        assert server.requests
    await fetch.aclose()
    assert CANARY.casefold() not in outside_marks(provider.requests[1].messages).casefold()


@pytest.mark.parametrize("failing", ["result", "error", "status", "arguments", "refusal"])
async def test_nothing_that_an_mcp_server_says_stands_outside_the_marks(failing: str) -> None:
    properties = {"query": {"enum": [f"{CANARY}\u202e"]} if failing == "arguments" else {"type": "string"}}
    said = f"{CANARY}\x1b]52;c;x\x07\u202e"
    served = ServedTool("search", properties, answer=lambda _: text(said, failed=failing == "error"), reads=True)
    async with McpServer((served,)) as server:
        config = section(McpServerConfig, {"url": server.url})
        async with aclosing(McpServers({"one": config})) as servers:
            await servers.start(60)
            server.status = 500 if failing == "status" else 0
            server.tools, server.refusal = (() if failing == "refusal" else server.tools), said
            provider = ScriptedProvider([Call("mcp_one_search", {"query": "x"}), "done"])
            async with agent(provider, factories=servers.factories()) as box:
                await box.ask("search")
    read = "".join(one.text for one in provider.requests[1].messages if isinstance(one, ToolMessage))
    assert failing == "status" or CANARY in read
    assert not set(read) & set("\x1b\x07\u202e")
    assert CANARY not in outside_marks(provider.requests[1].messages)


async def test_nothing_that_a_search_service_says_stands_outside_the_marks() -> None:
    said = {"error": CANARY, "message": CANARY, "detail": {"error": CANARY}, "code": 1001, "msg": CANARY}
    statuses = iter([200, 400, 401, 403, 422, 429, 500, 503] * len(ENGINES))

    async def answer(_request: Request, responder: Responder) -> None:
        await responder.json(said, next(statuses), headers=[("X-Reason", CANARY), ("Retry-After", CANARY)])

    read = ""
    for engine in ENGINES:
        async with HttpServer(answer) as server:
            config = {"provider": engine, "apiKey": "key-1234567890", "baseUrl": server.url, "fallback": []}
            async with aclosing(WebSearchTool(section(WebSearchConfig, config), ddgs=FakeDdgs())) as search:
                calls = [Call("web_search", {"query": f"tides {number}"}) for number in range(8)]
                provider = ScriptedProvider([*calls, "done"])
                async with agent(provider, search) as box:
                    await box.ask("search", timeout=60)
            assert server.requests, engine
        messages = provider.requests[-1].messages
        read += str(messages)
        assert CANARY.casefold() not in outside_marks(messages).casefold(), engine
    assert CANARY in read


async def test_what_an_mcp_server_says_of_its_tools_is_short_and_marked_as_its_words() -> None:
    long = f"{CANARY} {'x' * 90_000}"
    tools = (
        ServedTool("one", {"query": {"type": "string", "description": long}}, description=long, reads=True),
        ServedTool("two", {f"p{number}": {"description": "x" * 400} for number in range(900)}, reads=True),
    )
    async with McpServer(tools) as server:
        config = section(McpServerConfig, {"url": server.url})
        async with aclosing(McpServers({"one": config})) as servers:
            await servers.start(60)
            provider = ScriptedProvider(["hello", "there"])
            async with agent(provider, factories=servers.factories()) as box:
                await box.ask("hi")
                await box.ask("and again")
                shown = [about for _, about, _ in box.loop.tools()]
    one, two = provider.requests[0].tools
    assert provider.requests[1].tools == provider.requests[0].tools
    assert CANARY in one.description
    assert CANARY not in WRAPPED.sub("", one.description)
    assert len(one.description) < 3_000
    assert all(len(str(tool.schema)) < 25_000 for tool in (one, two))
    assert all(about.startswith(start) for about, start in zip(shown, (CANARY, "A tool."), strict=True))
