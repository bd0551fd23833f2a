"""Every search back end: what it sends, what it reads, and how each of nine faults comes out."""

import asyncio
import contextlib
from collections.abc import Mapping
from contextlib import aclosing

import pytest
from msgspec.structs import replace

from nanobot.agent.tools.web.search import WebSearchTool
from nanobot.config.proxy import Proxies
from nanobot.config.schema_web import SearchProviderConfig, WebSearchConfig
from nanobot.errors import ConfigError, SearchError
from nanobot.jsonval import at
from nanobot.results import ToolResult
from nanobot.web.search.base import SearchBackend, SearchQuery
from nanobot.web.search.catalog import CATALOG
from nanobot.web.search.duckduckgo import DuckDuckGoBackend
from nanobot.web.search.engines import ENGINES as KINDS_OF_ENGINES
from nanobot.web.service import ServiceAccess
from tests.fakes.http_server import HttpServer, Request, Responder
from tests.fakes.search_apis import APIS, FAULTS, KEY, FakeDdgs, Fault, Page, SearchApis
from tests.fakes.sections import section
from tests.tables import table

ENGINES = tuple(APIS)
FULL = SearchQuery(
    "python release",
    limit=3,
    freshness="2026-01-02..2026-02-03",
    include_domains=("python.org",),
    country="DE",
    language="de",
    call_id="call-1",
)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def backend(apis: SearchApis, engine: str, headers: Mapping[str, str] | None = None) -> SearchBackend:
    return KINDS_OF_ENGINES[engine](engine, ServiceAccess(KEY, apis.base(engine), headers or {}))


def test_every_back_end_of_the_catalog_is_under_contract() -> None:
    assert {*ENGINES, "duckduckgo"} == {*KINDS_OF_ENGINES, "duckduckgo"} == set(CATALOG)


async def test_hits_are_read_with_clean_titles_addresses_and_days(apis: SearchApis, engine: str) -> None:
    async with aclosing(backend(apis, engine)) as made:
        reply = await made.search(SearchQuery("python"), timeout=60)
    assert [hit.url for hit in reply.hits] == ["https://www.python.org/3.14", "https://docs.python.org/whatsnew"]
    assert reply.hits[0].title == "Python 3.14 released"
    assert reply.hits[0].snippet == "The newest & fastest"
    assert reply.hits[1].published == "2025-10-07"
    assert not any(hit.content for hit in reply.hits)
    assert len(apis.asked(engine)) == (2 if engine == "parallel" else 1)  # an MCP server tells its tools first


#: How each engine is asked for page text.
PAGE_TEXT: dict[str, dict[str, object]] = {
    "brave": {"maximum_number_of_urls": "5"},
    "tavily": {"include_raw_content": "markdown"},
    "kagi": {"extract": {"count": 5}},
    "exa": {"contents": {"text": True}},
    "perplexity": {"max_tokens_per_page": None},
    "firecrawl": {"scrapeOptions": {"formats": ["markdown"], "onlyMainContent": True}},
    "bocha": {"summary": True},
    "kimi": {"enable_page_crawling": True},
}


async def test_S03_S08_page_text_comes_on_request_where_the_engine_has_it(apis: SearchApis, engine: str) -> None:
    async with aclosing(backend(apis, engine)) as made:
        reply = await made.search(SearchQuery("python", include_content=True), timeout=60)
    own = {"perplexity": "The newest &amp; fastest", "parallel": "The newest &amp; fastest\n\nLong text."}
    expected = {"searxng": "", "serper": "", **own}.get(engine, "Long text.")
    assert reply.hits[0].content == expected
    *_, request = apis.asked(engine)
    wanted = PAGE_TEXT.get(engine, {})
    sent: dict[str, object] = request.json() if request.method == "POST" else dict(request.query)
    assert {name: sent.get(name) for name in wanted} == wanted


async def test_S10_a_gateway_time_out_and_a_redirect_have_kinds_too(apis: SearchApis, engine: str) -> None:
    async with aclosing(backend(apis, engine)) as made:
        for status, kind in ((408, "unavailable"), (504, "unavailable"), (302, "bad_payload"), (404, "bad_request")):
            apis.answer(engine, {"error": f"echo {KEY}"}, status)
            with pytest.raises(SearchError) as caught:
                await made.search(SearchQuery("python"), timeout=60)
            assert (caught.value.kind, caught.value.status) == (kind, status)
            assert KEY not in str(caught.value)


@pytest.mark.parametrize("body", [[], {}, "text", None, {"data": 3}, {"results": {}}, {"web": []}])
async def test_S11_an_unknown_shape_is_a_bad_payload_and_never_a_crash(
    apis: SearchApis, engine: str, body: object
) -> None:
    apis.answer(engine, body)
    async with aclosing(backend(apis, engine)) as made:
        try:
            reply = await made.search(SearchQuery("python"), timeout=60)
        except SearchError as error:
            assert error.kind == "bad_payload"  # noqa: PT017 - an answer without hits is allowed as well
        else:
            assert reply.hits == ()


async def test_S11_hits_without_an_address_are_dropped_and_counted(apis: SearchApis, engine: str) -> None:
    bad = ("javascript:alert(1)", "ftp://example.org/tides.txt", "https://")
    apis.pages = (*(Page("bad", url, "s") for url in bad), Page("good", "https://example.org/", "s"))
    async with aclosing(backend(apis, engine)) as made:
        reply = await made.search(SearchQuery("python", limit=10), timeout=60)
        assert ([hit.title for hit in reply.hits], reply.dropped) == (["good"], len(bad))
        apis.pages = (Page("bad", "/relative", "s"),)
        with pytest.raises(SearchError) as caught:
            await made.search(SearchQuery("python"), timeout=60)
    assert caught.value.kind == "bad_payload"


async def test_S20_no_hits_are_an_empty_reply(apis: SearchApis, engine: str) -> None:
    apis.pages = ()
    async with aclosing(backend(apis, engine)) as made:
        assert (await made.search(SearchQuery("python"), timeout=60)).hits == ()


async def test_S18_C21_own_headers_extend_a_request_but_do_not_replace_its_login(apis: SearchApis, engine: str) -> None:
    made = backend(apis, engine, headers={"X-Team": "blue", "Authorization": "Bearer other", "x-api-key": "other"})
    await made.search(SearchQuery("python"), timeout=60)
    await made.aclose()
    request = apis.asked(engine)[0]
    name, value = APIS[engine].login
    assert request.headers["x-team"] == "blue"
    assert request.headers[name] == value
    headers = {"Authorization": "Own login", "x-api-key": "Own login", "X-Subscription-Token": "Own login"}
    with pytest.raises(ConfigError, match="overrideAuth"):
        section(SearchProviderConfig, {"headers": headers})
    made = KINDS_OF_ENGINES[engine](engine, ServiceAccess(KEY, apis.base(engine), headers, override_auth=True))
    with contextlib.suppress(SearchError):  # of the fake, which does not know that login
        await made.search(SearchQuery("python"), timeout=60)
    await made.aclose()
    assert apis.asked(engine)[-1].headers["authorization"] == "Own login"


#: What each engine gets for one full query: query parameters for GET, the body for POST.
EXCHANGES: dict[str, dict[str, object]] = {
    "brave": {
        "q": "python release site:python.org",
        "count": "3",
        "text_decorations": "false",
        "result_filter": "web,query",
        "country": "DE",
        "search_lang": "de",
        "freshness": "2026-01-02to2026-02-03",
    },
    "tavily": {
        "query": "python release",
        "max_results": 3,
        "search_depth": "basic",
        "include_usage": True,
        "start_date": "2026-01-02",
        "end_date": "2026-02-03",
        "include_domains": ["python.org"],
        "country": "germany",
        "language": "de",
    },
    "searxng": {"q": "python release site:python.org", "format": "json", "language": "de-DE"},
    "jina": {"num": "3", "site": "python.org", "gl": "de", "hl": "de"},
    "kagi": {
        "query": "python release",
        "limit": 3,
        "lens": {"sites_included": ["python.org"], "time_after": "2026-01-02", "time_before": "2026-02-03"},
        "filters": {"region": "de"},
    },
    "exa": {
        "query": "python release",
        "type": "auto",
        "numResults": 3,
        "includeDomains": ["python.org"],
        "startPublishedDate": "2026-01-02T00:00:00.000Z",
        "endPublishedDate": "2026-02-03T23:59:59.999Z",
        "userLocation": "DE",
        "contents": {"highlights": True},
    },
    "perplexity": {
        "query": "python release",
        "max_results": 3,
        "max_tokens_per_page": 256,
        "search_domain_filter": ["python.org"],
        "search_language_filter": ["de"],
        "country": "DE",
        "search_after_date_filter": "1/2/2026",
        "search_before_date_filter": "2/3/2026",
    },
    "firecrawl": {
        "query": "python release",
        "limit": 3,
        "includeDomains": ["python.org"],
        "tbs": "cdr:1,cd_min:01/02/2026,cd_max:02/03/2026",
        "country": "DE",
        "timeout": 60000,
    },
    "serper": {
        "q": "python release site:python.org",
        "num": 3,
        "gl": "de",
        "hl": "de",
        "tbs": "cdr:1,cd_min:01/02/2026,cd_max:02/03/2026",
    },
    "bocha": {
        "query": "python release site:python.org",
        "freshness": "2026-01-02..2026-02-03",
        "summary": False,
        "count": 3,
    },
    "parallel": {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "web_search",
            "arguments": {
                "objective": "python release site:python.org",
                "search_queries": ["python release site:python.org"],
            },
        },
    },
    "kimi": {"text_query": "python release", "limit": 3, "enable_page_crawling": False, "timeout_seconds": 30},
}


async def test_S08_S21_N31_N32_N34_each_request_carries_every_filter_in_the_engines_own_words(
    apis: SearchApis, engine: str
) -> None:
    async with aclosing(backend(apis, engine)) as made:
        await made.search(FULL, timeout=60)
    request = apis.asked(engine)[-1]
    sent: dict[str, object] = request.json() if request.method == "POST" else dict(request.query)
    assert sent == EXCHANGES[engine]


@table(
    "engine field words",
    ("brave", "freshness", ["pd", "pw", "pm", "py"]),
    ("tavily", "time_range", ["day", "week", "month", "year"]),
    ("searxng", "time_range", ["day", "week", "month", "year"]),
    ("perplexity", "search_recency_filter", ["day", "week", "month", "year"]),
    ("firecrawl", "tbs", ["qdr:d", "qdr:w", "qdr:m", "qdr:y"]),
    ("serper", "tbs", ["qdr:d", "qdr:w", "qdr:m", "qdr:y"]),
    ("bocha", "freshness", ["oneDay", "oneWeek", "oneMonth", "oneYear"]),
    ("kagi", "lens.time_relative", ["day", "week", "month", None]),
)
async def test_S21_the_words_for_a_time_are_the_engines_own(
    apis: SearchApis, engine: str, field: str, words: list[str | None]
) -> None:
    async with aclosing(backend(apis, engine)) as made:
        for word in ("day", "week", "month", "year"):
            await made.search(SearchQuery("q", freshness=word), timeout=60)
    sent = [request.json() if request.method == "POST" else request.query for request in apis.asked(engine)]
    assert [at(body, *field.split(".")) for body in sent] == words


#: The faults of an engine that are a kind of error of the tool, too; every other one is its service's.
KINDS = {name: name for name in ("auth", "quota", "rate_limited", "blocked", "timeout", "network")}


async def searched(apis: SearchApis, engine: str, fault: Fault, *fallback: str) -> ToolResult:
    own = {"apiKey": KEY, "baseUrl": apis.base(engine), "timeout": 0.5 if fault == "timeout" else 60}
    settings = {"provider": engine, "providers": {engine: own}, "fallback": fallback, "timeout": 60}
    async with aclosing(WebSearchTool(section(WebSearchConfig, settings), ddgs=FakeDdgs())) as tool:
        result = await tool.call({"query": "python"}, None)
    assert KEY not in result.text, engine
    return result


@pytest.mark.parametrize("fault", FAULTS)
async def test_C8_S10_S14_S16_whatever_fails_the_next_back_end_answers_and_alone_it_is_one_clear_error(
    apis: SearchApis, fault: Fault
) -> None:
    """All engines are asked at the same time: most of a fault is waiting before it is tried again."""
    for engine in ENGINES:
        apis.always(engine, fault)
    followed = await asyncio.gather(*(searched(apis, engine, fault, "duckduckgo") for engine in ENGINES))
    for engine, result in zip(ENGINES, followed, strict=True):
        assert not result.is_error, engine
        assert "Note: answered by duckduckgo, because " in result.text, engine
        assert result.extras["hits"] == 2, engine
    alone = await asyncio.gather(*(searched(apis, engine, fault) for engine in ENGINES))
    for engine, result in zip(ENGINES, alone, strict=True):
        assert result.is_error, engine
        assert result.text.startswith("Error: Web search failed: "), engine
        assert result.text.count("\n") == 0, engine
        assert result.error == KINDS.get(fault, "service"), engine
        attempts = result.extras["attempts"]
        assert isinstance(attempts, list)
        assert {attempt["error"] for attempt in attempts} == {fault}, engine


@pytest.mark.parametrize("fault", ["blocked", "rate_limited", "timeout", "network", "bad_payload", "nothing"])
async def test_C8_where_ddgs_fails_the_next_back_end_answers(apis: SearchApis, fault: str) -> None:
    own = {"tavily": {"apiKey": KEY, "baseUrl": apis.base("tavily")}}
    config = section(WebSearchConfig, {"provider": "duckduckgo", "providers": own, "fallback": ["tavily"]})
    async with aclosing(WebSearchTool(config, ddgs=FakeDdgs(always=fault))) as tool:
        result = await tool.call({"query": "python"}, None)
    attempts = result.extras["attempts"]
    assert isinstance(attempts, list)
    assert attempts[0]["error"] == (fault if fault != "nothing" else None)
    assert result.extras["provider"] == "tavily"
    assert "Note: answered by tavily" in result.text


async def test_the_innermost_cause_of_ddgs_is_said_without_the_quotes_around_it() -> None:
    with pytest.raises(SearchError) as caught:
        await DuckDuckGoBackend(library=FakeDdgs(always="wrapped")).search(SearchQuery("python"), timeout=60)
    assert str(caught.value) == "DuckDuckGo cannot be reached: no connection came about"


async def test_C27_N10_N28_S21_ddgs_is_asked_for_duckduckgo_with_the_proxy_and_every_filter() -> None:
    fake = FakeDdgs()
    made = DuckDuckGoBackend(library=fake, access=ServiceAccess(proxies=Proxies("socks5://127.0.0.1:9")))
    reply = await made.search(replace(FULL, freshness="week", exclude_domains=("example.org",)), timeout=30)
    assert fake.made == [("socks5://127.0.0.1:9", 10)]
    assert fake.calls == [
        {
            "query": "python release site:python.org -site:example.org",
            "region": "de-de",
            "safesearch": "moderate",
            "timelimit": "w",
            "max_results": 3,
            "backend": "duckduckgo",
        }
    ]
    assert reply.hits[0].title == "Python 3.14 released"


async def test_nothing_from_ddgs_may_be_a_bot_check() -> None:
    empty = await DuckDuckGoBackend(library=FakeDdgs(always="nothing")).search(SearchQuery("python"), timeout=60)
    assert (empty.hits, empty.uncertain) == ((), True)


async def test_C28_the_real_library_goes_through_the_configured_proxy() -> None:
    async def refuse(request: Request, responder: Responder) -> None:
        await responder.send(502)

    async with HttpServer(refuse) as proxy:
        with pytest.raises(SearchError) as caught:
            await DuckDuckGoBackend(access=ServiceAccess(proxies=Proxies(proxy.url))).search(
                SearchQuery("python"), timeout=60
            )
        assert [(request.method, request.target) for request in proxy.requests] == [
            ("CONNECT", "html.duckduckgo.com:443")
        ]
    assert caught.value.kind == "network"
