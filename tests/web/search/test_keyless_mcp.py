"""Engines without a key: one tool of the public MCP server of Exa and of Parallel, read as hits like any other."""

from contextlib import aclosing

import pytest

from nanobot.agent.tools.web.search import WebSearchTool
from nanobot.config.schema_web import WebSearchConfig
from nanobot.errors import SearchError
from nanobot.results import ToolResult
from nanobot.web.search.base import SearchQuery
from nanobot.web.search.engines import Exa
from nanobot.web.search.mcp import reply_in
from nanobot.web.service import ServiceAccess
from tests.fakes.search_apis import KEY, PAGES, FakeDdgs, SearchApis
from tests.fakes.sections import section
from tests.tables import table


def backend(apis: SearchApis) -> Exa:
    return Exa("exa", ServiceAccess(base_url=apis.base("exa")))


@pytest.mark.parametrize("events", [False, True])
async def test_A05_a_search_without_a_key_is_one_call_of_the_tool_after_its_schema_was_read(
    apis: SearchApis, events: bool
) -> None:
    apis.events = events
    made = backend(apis)
    for _ in range(2):
        reply = await made.search(SearchQuery("python", limit=3, include_domains=("python.org",)), timeout=60)
    await made.aclose()
    assert [hit.url for hit in reply.hits] == [page.url for page in PAGES]
    assert (reply.hits[0].title, reply.hits[0].content) == ("Python 3.14 released", "")
    assert reply.hits[0].snippet == "The newest & fastest Long text."
    assert reply.hits[1].published == "2025-10-07"
    sent = [request.json() for request in apis.asked("exa")]
    assert Exa.keyless_url == "https://mcp.exa.ai/mcp?tools=web_search_exa"
    assert [call["method"] for call in sent] == ["tools/list", "tools/call", "tools/call"]
    arguments = {"query": "python site:python.org", "numResults": 3}
    assert sent[1]["params"] == {"name": "web_search_exa", "arguments": arguments}
    assert all("text/event-stream" in request.headers["accept"] for request in apis.asked("exa"))


async def test_S03_the_text_of_the_tool_is_page_text_on_request(apis: SearchApis) -> None:
    made = backend(apis)
    reply = await made.search(SearchQuery("python", include_content=True), timeout=60)
    await made.aclose()
    assert reply.hits[0].content.endswith("Long text.")


@table(
    "status body kind",
    (429, {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "slow down"}}, "rate_limited"),
    (200, {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "Rate limit reached"}}, "rate_limited"),
    (200, {"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no query"}}, "bad_request"),
    (200, {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}, "unavailable"),
    (200, {"jsonrpc": "2.0", "method": "notifications/message"}, "bad_payload"),
    (200, {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": 3}}, "unavailable"),
)
async def test_A05_the_refusals_of_the_server_have_kinds(
    apis: SearchApis, status: int, body: object, kind: str
) -> None:
    apis.answer("exa", body, status)
    made = backend(apis)
    with pytest.raises(SearchError) as caught:
        await made.search(SearchQuery("python"), timeout=60)
    await made.aclose()
    assert caught.value.kind == kind


async def test_A05_a_tool_that_says_it_failed_is_a_failure(apis: SearchApis) -> None:
    made = backend(apis)
    await made.search(SearchQuery("python"), timeout=60)
    failed = {"content": [{"type": "text", "text": "Search error (503): overloaded"}], "isError": True}
    apis.answer("exa", {"jsonrpc": "2.0", "id": 1, "result": failed})
    with pytest.raises(SearchError, match="overloaded") as caught:
        await made.search(SearchQuery("python"), timeout=60)
    await made.aclose()
    assert caught.value.kind == "unavailable"


@table(
    "words urls",
    ("", []),
    ("No search results found.", []),
    ('{"results": [{"title": "A", "url": "https://a.example/", "text": "long"}]}', ["https://a.example/"]),
    ('[{"url": "https://a.example/"}, {"title": "no address"}]', ["https://a.example/"]),
    (
        "Title: A\nURL: https://a.example/\nHighlights: x\n\nTitle: B\nURL: https://b.example/",
        ["https://a.example/", "https://b.example/"],
    ),
    ("Title: A\nText: URL: https://inner.example/", ["https://inner.example/"]),
    ("See [A](https://a.example/x) and https://b.example.", ["https://a.example/x", "https://b.example"]),
    ("{broken", []),
)
def test_hits_are_read_from_whatever_a_search_tool_prints(words: str, urls: list[str]) -> None:
    assert sorted(hit.url for hit in reply_in(words, SearchQuery("q"), "x").hits) == sorted(urls)


async def ask_parallel(apis: SearchApis, **own: object) -> ToolResult:
    providers = {"parallel": {"baseUrl": apis.base("parallel"), **own}}
    values = {"provider": "parallel", "providers": providers, "fallback": ["duckduckgo"]}
    async with aclosing(WebSearchTool(section(WebSearchConfig, values), ddgs=FakeDdgs())) as tool:
        for _ in range(2):
            result = await tool.call({"query": "python"}, None)
        return result


@pytest.mark.parametrize("key", ["", KEY])
async def test_W04_parallel_answers_without_a_key_and_takes_one_where_there_is_one(apis: SearchApis, key: str) -> None:
    result = await ask_parallel(apis, apiKey=key)
    assert "1. Python 3.14 released\n   https://www.python.org/3.14\n   The newest & fastest\n" in result.text
    assert "   Template strings (2025-10-07)" in result.text
    sent = [request.headers.get("authorization", "") for request in apis.asked("parallel")]
    assert sent == [f"Bearer {key}" if key else ""] * 3, "the schema is read once"


async def test_W04_two_refusals_for_too_many_requests_leave_parallel_alone_and_the_next_one_answers(
    apis: SearchApis,
) -> None:
    apis.failure_headers = (("Retry-After", "0.01"),)
    apis.always("parallel", "rate_limited")
    result = await ask_parallel(apis)
    assert len(apis.asked("parallel")) == 2, "the second search does not ask it"
    assert "Note: answered by duckduckgo, because parallel is left alone for 30 s" in result.text
