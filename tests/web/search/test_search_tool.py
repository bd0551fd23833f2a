"""`web_search` as a model and a person meet it: the list, the filters, the choice of a back end, the ways it fails."""

import asyncio
import json
import re
from collections import deque
from collections.abc import Mapping
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from loguru import logger

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.offers import search_description
from nanobot.agent.tools.web.fetch import WebFetchTool
from nanobot.agent.tools.web.search import WebSearchTool
from nanobot.config.loader import load_text
from nanobot.config.schema_web import WebFetchConfig, WebSearchConfig
from nanobot.errors import ConfigError, FetchError, SearchError, SkipTool
from nanobot.results import ToolResult
from nanobot.utils.prompt_templates import PromptTemplates
from nanobot.web.search.base import SearchQuery
from nanobot.web.search.duckduckgo import DuckDuckGoBackend
from nanobot.web.search.engines import Kimi, Tavily
from nanobot.web.service import ServiceAccess
from tests.fakes.http_server import HttpServer, Request, Responder
from tests.fakes.patience import growing
from tests.fakes.search_apis import KEY, PAGES, FakeDdgs, Fault, Page, SearchApis
from tests.fakes.sections import section
from tests.tables import table


def config(**values: object) -> WebSearchConfig:
    return section(WebSearchConfig, values)


def tool(values: Mapping[str, object] | None = None, fake: FakeDdgs | None = None) -> WebSearchTool:
    """The tool with one back end and no other to step in, unless `values` say otherwise."""
    made = config(**{"fallback": [], **(values or {})})
    return WebSearchTool(made, ddgs=fake or FakeDdgs(), read_page=unreadable)


async def unreadable(url: str, timeout: float) -> str:
    raise FetchError("network", f"{url} cannot be read")


def keyed(apis: SearchApis, name: str, **values: object) -> dict[str, object]:
    return {"provider": name, "apiKey": KEY, "baseUrl": apis.base(name), **values}


async def ask(
    made: WebSearchTool, arguments: Mapping[str, object] | None = None, context: ToolContext | None = None
) -> ToolResult:
    given = {"query": "python release", **(arguments or {})}
    result = await made.call(given, context or ToolContext(call_id="call-1"))
    await made.aclose()
    return result


async def test_N36_the_list_is_the_known_one_byte_for_byte() -> None:
    pages = (Page("First <b>page</b>", "https://a.example/1", "One  two\nthree"), Page("Second", "https://b.example/"))
    result = await ask(tool(fake=FakeDdgs(pages)))
    assert result.text == (
        "Results for: python release\n\n"
        "1. First page\n   https://a.example/1\n   One two three\n"
        "2. Second\n   https://b.example/"
    )
    assert result.untrusted
    assert not result.is_error
    assert result.extras["provider"] == "duckduckgo"
    assert result.extras["hits"] == 2
    assert result.extras["fallback"] is False


async def test_S12_S13_N36_date_and_site_stand_behind_the_snippet_and_content_under_the_hit(apis: SearchApis) -> None:
    apis.pages = (Page("Title", "https://a.example/", "Snippet", "line one\nline two", "2026-05-06T10:00:00Z"),)
    result = await ask(tool(keyed(apis, "kimi")), {"include_content": True})
    assert result.text == (
        "Results for: python release\n\n1. Title\n   https://a.example/\n   Snippet (2026-05-06 · Python)\n"
        "   line one\n   line two"
    )


@table(
    "detail shown",
    ("brief", f"\n\n1. Title\n   https://a.example/\n   {'word ' * 9}"),
    ("normal", f"\n\n1. Title\n   https://a.example/\n   {'word ' * 40}end (2026-05-06)"),
    ("full", "(2026-05-06 · score 1.50)"),
)
async def test_S22_how_much_of_a_hit_is_shown_can_be_set(apis: SearchApis, detail: str, shown: str) -> None:
    hit = {"title": "Title", "url": "https://a.example/", "content": f"{'word ' * 40}end", "score": 1.5}
    dated = {**hit, "publishedDate": "2026-05-06T10:00:00"}
    apis.answer("searxng", {"results": [dated]})
    text = (await ask(tool(keyed(apis, "searxng", detail=detail)))).text
    assert shown in text
    assert ("score 1.50" in text) is (detail == "full")
    assert ("2026-05-06" in text) is (detail != "brief")
    assert max(map(len, text.splitlines())) < 120 or detail != "brief"


async def test_S04_S20_N36_C11_no_hits_are_no_error_and_give_a_hint_with_three_ways_on(apis: SearchApis) -> None:
    apis.pages = ()
    result = await ask(tool(keyed(apis, "tavily")))
    hint = "Try fewer words, another language, or a search without site: and time limits."
    assert result.text == f"No results for: python release\n\n{hint}"
    assert result.error is None
    assert result.extras["hits"] == 0


@pytest.mark.parametrize(
    ("limit", "good"), [(0, False), (21, False), ("5", True), (5.0, True), (20, True), ("x", False)]
)
async def test_S02_limit_is_one_to_twenty(limit: object, good: bool) -> None:
    fake = FakeDdgs()
    result = await ask(tool(fake=fake), {"limit": limit})
    assert (result.error is None) is good
    assert len(fake.calls) == int(good)
    if not good:
        assert result.error == "invalid_input"
        assert "limit" in result.text


@table(
    "arguments said",
    ({"query": None}, "Reason: parameter 'query' is missing"),
    ({"freshness": "yesterday"}, "Reason: freshness is day, week, month, year or a range such as"),
    ({"freshness": "2026-13-01..2026-13-02"}, "Reason: freshness names a day that does not exist"),
    ({"country": "Germany"}, "Reason: country: only a code such as DE is understood (got 'Germany')"),
    ({"site": "a.example"}, "Reason: unknown parameter 'site', known are query, limit, include_content,"),
)
async def test_K02_S02_what_is_wrong_with_a_search_is_said_plainly(arguments: dict[str, object], said: str) -> None:
    result = await ask(tool(), arguments)
    assert (result.error, said in result.text) == ("invalid_input", True), result.text


async def test_S02_null_stands_for_what_is_not_given() -> None:
    result = await ask(tool(), {"limit": None, "include_content": None, "include_domains": None, "language": None})
    assert result.error is None


@pytest.mark.parametrize("alias", ["count", "numResults", "max_results"])
async def test_S02_C1_other_names_of_limit_are_understood(alias: str) -> None:
    pages = tuple(Page(f"t{n}", f"https://a.example/{n}") for n in range(9))
    result = await ask(tool(fake=FakeDdgs(pages)), {alias: 7})
    assert result.extras["hits"] == 7


async def test_S02_an_engine_is_asked_for_the_limit_and_what_it_gives_beyond_is_cut(apis: SearchApis) -> None:
    apis.pages = tuple(Page(f"t{n}", f"https://a.example/{n}") for n in range(9))
    result = await ask(tool(keyed(apis, "tavily")), {"limit": 3})
    assert apis.asked("tavily")[0].json()["max_results"] == 3
    assert (result.extras["hits"], len(result.sources)) == (3, 3)


def described(*, fetch: bool = True, **values: object) -> str:
    """What a model is told of the tool with this configuration."""
    return search_description(config(**values), PromptTemplates(), fetch=fetch)


async def test_S02_the_default_number_of_results_is_the_configured_one() -> None:
    made = tool({"maxResults": 3})
    pages = tuple(Page(f"t{n}", f"https://a.example/{n}") for n in range(9))
    assert (await ask(tool({"maxResults": 3}, FakeDdgs(pages)))).extras["hits"] == 3
    properties = made.spec.schema["properties"]
    assert isinstance(properties, dict)
    assert properties["limit"]["default"] == 3
    assert "3 results" in described(maxResults=3)


@pytest.mark.parametrize("query", ["", "   ", "\u200e\x07"])
async def test_S01_an_empty_query_is_refused_before_anything_is_asked(query: str) -> None:
    fake = FakeDdgs()
    result = await ask(tool(fake=fake), {"query": query})
    assert (result.error, fake.calls) == ("invalid_input", [])


async def test_S01_a_query_is_asked_in_plain_letters_with_single_blanks(apis: SearchApis) -> None:
    await ask(tool(keyed(apis, "tavily")), {"query": "  Ｐｙｔｈｏｎ\u00a0 ﬁle\n3 "})
    assert apis.asked("tavily")[0].json()["query"] == "Python file 3"


async def test_S21_where_an_engine_gives_other_sites_they_are_left_out_here(apis: SearchApis) -> None:
    for asked, hosts in (("docs.python.org", 1), ("python.org", 2), ("ython.org", None)):
        result = await ask(tool(keyed(apis, "kimi")), {"include_domains": [asked]})
        assert result.extras["hits"] == (hosts or 0), asked


async def test_S21_several_sites_are_alternatives_and_a_range_may_be_given_backwards(apis: SearchApis) -> None:
    asked = {"include_domains": ["a.org", "b.org"], "freshness": "2026-02-03..2026-01-02", "exclude_domains": "c.org"}
    await ask(tool(keyed(apis, "brave")), asked)
    sent = apis.asked("brave")[0].query
    assert sent["q"] == "python release (site:a.org OR site:b.org) -site:c.org"
    assert sent["freshness"] == "2026-01-02to2026-02-03"
    await ask(tool(keyed(apis, "kagi")), {"exclude_domains": ["c.org"]})
    assert apis.asked("kagi")[0].json()["lens"] == {"sites_excluded": ["c.org"]}
    await ask(tool(keyed(apis, "perplexity")), {"exclude_domains": ["c.org"]})
    assert apis.asked("perplexity")[0].json()["search_domain_filter"] == ["-c.org"]


async def test_N18_the_words_may_come_under_another_name(apis: SearchApis) -> None:
    async with aclosing(tool(keyed(apis, "tavily"))) as made:
        for name in ("search_term", "q"):
            assert (await made.call({name: "cats"}, None)).error is None
    assert [request.json()["query"] for request in apis.asked("tavily")] == ["cats", "cats"]


async def test_S16_a_proxy_that_refuses_is_named(apis: SearchApis) -> None:
    async def refuse(request: Request, responder: Responder) -> None:
        await responder.send(403)

    async with HttpServer(refuse) as proxy:
        own = {"tavily": {"apiKey": KEY, "proxy": proxy.url}}
        result = await ask(tool({"provider": "tavily", "providers": own}))
    assert result.error == "network"
    assert "The proxy for Tavily refused" in result.text


async def test_S13_S11_a_hit_without_a_title_has_the_name_of_its_site_and_a_strange_answer_is_shown_in_part(
    apis: SearchApis,
) -> None:
    apis.answer("tavily", {"results": [{"url": "https://A.example/x", "content": "words"}]})
    assert "1. a.example\n" in (await ask(tool(keyed(apis, "tavily")))).text
    apis.answer("tavily", {"results": "z" * 400})
    text = (await ask(tool(keyed(apis, "tavily")))).text
    assert "answered in a form that is not understood: " + "z" * 200 in text
    assert "z" * 201 not in text


@pytest.mark.parametrize("charset", ["utf-8-sig", "utf-16", "utf-32-le"])
async def test_an_answer_in_another_form_of_unicode_is_read(charset: str) -> None:
    hits = {"results": [{"title": "Söder", "url": "https://a.example/", "content": "words"}]}

    async def answer(_request: Request, responder: Responder) -> None:
        await responder.send(body=json.dumps(hits, ensure_ascii=False).encode(charset), content_type="application/json")

    async with HttpServer(answer) as server:
        result = await ask(tool({"provider": "searxng", "baseUrl": server.url}))
    assert "1. Söder\n" in result.text


@pytest.mark.parametrize(("status", "kind"), [(401, "auth"), (403, "auth"), (402, "quota"), (432, "quota")])
async def test_S10_K25_a_refused_key_and_a_spent_plan_are_told_apart(apis: SearchApis, status: int, kind: str) -> None:
    apis.answer("exa", {"error": "no"}, status)
    assert (await ask(tool(keyed(apis, "exa")))).error == kind


async def test_S13_what_a_hit_holds_besides_stands_in_the_extras(apis: SearchApis) -> None:
    known = {"title": "T", "url": "https://a.example/", "icon": "https://a.example/i.png", "mime": "text/html"}
    apis.answer("kimi", {"search_results": [{"title": "no address"}, known, {**known, "url": "https://b.example/"}]})
    result = await ask(tool(keyed(apis, "kimi")))
    first = {"url": "https://a.example/", "position": 1, "icon": "https://a.example/i.png", "mime": "text/html"}
    assert result.extras["items"] == [first, {**first, "url": "https://b.example/", "position": 2}]
    assert result.extras["dropped"] == 1
    assert "i.png" not in result.text
    apis.answer("tavily", {"results": [{"title": "T", "url": "https://a.example/", "score": 0.5}]})
    scored = await ask(tool(keyed(apis, "tavily")))
    assert scored.extras["items"] == [{"url": "https://a.example/", "position": 1, "score": 0.5}]


async def test_S07_a_service_without_a_key_says_that_it_is_not_configured() -> None:
    made = Kimi("kimi", ServiceAccess(base_url="https://own.example"))
    with pytest.raises(SearchError, match=r"^Search service not configured$"):
        await made.search(SearchQuery("q"), timeout=1)


async def test_S07_a_service_without_its_address_is_not_asked_and_the_next_one_answers() -> None:
    values: dict[str, object] = {"provider": "kimi", "apiKey": "key-1234567890", "fallback": ["duckduckgo"]}
    async with aclosing(WebSearchTool(config(**values), ddgs=FakeDdgs())) as tool:
        result = await tool.call({"query": "python"}, ToolContext())
    assert result.error is None
    assert result.extras["provider"] == "duckduckgo"
    assert "kimi lacks" in result.text
    with pytest.raises(SkipTool, match="kimi"):
        WebSearchTool(config(**{**values, "fallback": []}))
    keyless: dict[str, object] = {"provider": "kimi", "baseUrl": "https://search.example", "fallback": []}
    with pytest.raises(SkipTool, match="kimi lacks a key"):
        WebSearchTool(config(**keyless))


async def test_S17_a_back_end_may_have_less_time_than_its_share(apis: SearchApis) -> None:
    apis.always("tavily", "timeout")
    own = {"tavily": {"apiKey": KEY, "baseUrl": apis.base("tavily"), "timeout": 0.2}}
    result = await ask(tool({"provider": "tavily", "providers": own}))
    assert "Tavily did not answer within 0." in result.text


async def test_N34_jina_is_asked_for_no_page_text_unless_it_is_wanted(apis: SearchApis) -> None:
    await ask(tool(keyed(apis, "jina")))
    await ask(tool(keyed(apis, "jina")), {"include_content": True})
    plain, whole = apis.asked("jina")
    assert plain.headers["x-respond-with"] == "no-content"
    assert "x-respond-with" not in whole.headers
    assert plain.path == "/jina/python release"


async def test_S01_a_long_query_is_cut_for_a_back_end_with_a_limit_and_said_so(apis: SearchApis) -> None:
    result = await ask(tool(keyed(apis, "brave")), {"query": "wort " * 200})
    assert len(apis.asked("brave")[0].query["q"]) <= 400
    assert "Note: the query was cut to 400 characters" in result.text
    assert len(apis.asked("brave")[0].query["q"].split()) == 50
    await ask(tool(keyed(apis, "brave")), {"query": "w" * 900})
    assert apis.asked("brave")[1].query["q"] == "w" * 400
    await ask(tool(keyed(apis, "firecrawl")), {"query": "w" * 900})
    assert apis.asked("firecrawl")[0].json()["query"] == "w" * 500


async def test_S21_a_filter_that_a_back_end_lacks_is_applied_here_or_told(apis: SearchApis) -> None:
    arguments: dict[str, object] = {"freshness": "week", "exclude_domains": "docs.python.org"}
    result = await ask(tool(keyed(apis, "jina")), arguments)
    assert [source.url for source in result.sources] == ["https://www.python.org/3.14"]
    assert result.extras["dropped"] == 1
    assert "Note: jina cannot filter by time: check the hits" in result.text


#: What each engine says of a range of days in a country that nobody knows and a language that few know.
UNMET = {
    "brave": "country (XX) or language (eo)",
    "tavily": "country (XX)",
    "searxng": "a range of days",
    "jina": "time",
    "kagi": "language (eo)",
    "exa": "language (eo)",
    "perplexity": "",
    "firecrawl": "language (eo)",
    "serper": "",
    "bocha": "country (XX) or language (eo)",
    "kimi": "time or country (XX) or language (eo)",
    "parallel": "time or country (XX) or language (eo)",
}


@pytest.mark.parametrize("engine", UNMET)
async def test_S21_no_filter_is_dropped_without_a_note(apis: SearchApis, engine: str) -> None:
    asked = {"freshness": "2026-01-02..2026-02-03", "country": "xx", "language": "eo"}
    result = await ask(tool(keyed(apis, engine)), asked)
    notes = [line for line in result.text.splitlines() if line.startswith("Note: ")]
    said = f"Note: {engine} cannot filter by {UNMET[engine]}: check the hits"
    assert notes == ([said] if UNMET[engine] else [])


async def test_S21_N35_the_keyless_and_older_ways_name_the_filters_that_they_drop(apis: SearchApis) -> None:
    asked = {"freshness": "week", "country": "XX", "language": "eo"}
    result = await ask(tool(fake=FakeDdgs()), asked)
    assert "Note: duckduckgo cannot filter by country (XX) or language (eo): check the hits" in result.text
    free = tool({"provider": "exa", "providers": {"exa": {"baseUrl": apis.base("exa")}}})
    assert "Note: exa cannot filter by time or country (XX) or language (eo): check" in (await ask(free, asked)).text
    old = tool({**keyed(apis, "kagi"), "baseUrl": f"{apis.base('kagi')}/api/v0"})
    assert "Note: kagi cannot filter by time or country (XX) or language (eo): check" in (await ask(old, asked)).text


async def test_S21_a_country_that_the_engine_knows_needs_no_note(apis: SearchApis) -> None:
    result = await ask(tool(keyed(apis, "brave")), {"country": "us-ca", "language": "pt-BR"})
    assert "Note: " not in result.text
    assert apis.asked("brave")[0].query["country"] == "US"
    assert apis.asked("brave")[0].query["search_lang"] == "pt-br"
    await ask(tool(keyed(apis, "brave")), {"language": "de-AT"})
    assert apis.asked("brave")[1].query["search_lang"] == "de"


async def test_S03_page_text_is_wanted_only_where_it_is_asked_for_and_its_lack_is_told(apis: SearchApis) -> None:
    await ask(tool(keyed(apis, "tavily")))
    assert "include_raw_content" not in apis.asked("tavily")[0].json()
    without = await ask(tool(), {"include_content": True})
    assert "Note: no page text came with these results: read pages with web_fetch" in without.text


async def test_S03_exa_is_asked_for_one_kind_of_contents_because_each_is_charged(apis: SearchApis) -> None:
    result = await ask(tool(keyed(apis, "exa")), {"include_content": True})
    assert apis.asked("exa")[0].json()["contents"] == {"text": True}
    assert "1. Python 3.14 released\n   https://www.python.org/3.14\n   Long text.\n" in result.text


async def test_S10_a_plan_of_tavily_that_is_at_its_end_is_no_wrong_key(apis: SearchApis) -> None:
    apis.answer("tavily", {"detail": {"error": "Your plan does not include this."}}, 403)
    result = await ask(tool(keyed(apis, "tavily")))
    assert result.error == "quota"
    assert "Your plan does not include this." in result.text
    assert "key or its settings" not in result.text


async def test_G14_numbers_go_on_in_a_turn_and_a_known_page_keeps_its_own() -> None:
    context = ToolContext()
    first = (Page("A", "https://a.example/"), Page("B", "https://b.example/"))
    await ask(tool(fake=FakeDdgs(first)), context=context)
    second = (Page("C", "https://c.example/"), Page("A", "https://a.example/"))
    result = await ask(tool(fake=FakeDdgs(second)), context=context)
    assert "3. C\n" in result.text
    assert "1. A\n" in result.text
    assert [source.number for source in result.sources] == [3, 1]


async def test_S19_C23_page_text_shares_one_budget_and_every_hit_is_there(apis: SearchApis) -> None:
    long = [Page(f"t{n}", f"https://a.example/{n}", "s", "x" * 50_000) for n in range(19)]
    apis.pages = (*long, Page("short", "https://b.example/", "s", "whole"))
    made = tool(keyed(apis, "tavily", contentBudget=20_000))
    result = await ask(made, {"include_content": True, "limit": 20})
    assert result.text.count("x") <= 20_000 + 200
    assert "   whole" in result.text
    assert len(result.sources) == 20
    assert "of 50000 characters; web_fetch reads the whole page" in result.text


async def test_S03_pages_are_read_here_where_the_engine_has_no_page_text() -> None:
    async def read(url: str, timeout: float) -> str:
        if "docs" in url:
            raise FetchError("network", "down")
        return f"text of {url} within {timeout > 0}"

    made = WebSearchTool(config(fallback=[]), ddgs=FakeDdgs(), read_page=read)
    result = await ask(made, {"include_content": True})
    assert "   text of https://www.python.org/3.14 within True" in result.text


ENV_NAMES = ["BRAVE", "TAVILY", "EXA", "KAGI", "JINA", "PERPLEXITY", "FIRECRAWL", "SERPER", "BOCHA"]


@pytest.mark.parametrize("name", ENV_NAMES)
async def test_N24_a_keyed_back_end_without_key_means_duckduckgo_and_a_warning(name: str) -> None:
    lines: list[str] = []
    sink = logger.add(lines.append, level="WARNING", format="{message}")
    made = WebSearchTool(config(provider=name.lower()), ddgs=FakeDdgs())
    logger.remove(sink)
    assert made.chain.names[0] == "duckduckgo"
    assert f"{name}_API_KEY" in lines[0]
    first, second = await ask(made), await ask(made)
    assert f"Note: {name.lower()} lacks a key" in first.text
    assert "Note:" not in second.text
    with_key = WebSearchTool(config(provider=name.lower()), env={f"{name}_API_KEY": KEY}, ddgs=FakeDdgs())
    assert with_key.chain.names[0] == name.lower()


@table(
    "values env first",
    ({}, {}, "duckduckgo"),
    ({"provider": ""}, {}, "duckduckgo"),
    ({"provider": "auto"}, {"TAVILY_API_KEY": "k", "JINA_API_KEY": "k"}, "tavily"),
    ({}, {"TAVILY_API_KEY": "k", "BRAVE_API_KEY": "k"}, "brave"),
    ({"apiKey": "tvly-1"}, {}, "tavily"),
    ({"baseUrl": "http://localhost:8080"}, {}, "searxng"),
    ({"providers": {"kagi": {"apiKey": "k"}}}, {}, "kagi"),
    ({"provider": "jina", "apiKey": "k"}, {"BRAVE_API_KEY": "k"}, "jina"),
    ({"provider": "searxng"}, {"SEARXNG_BASE_URL": "http://localhost:8080"}, "searxng"),
    ({"provider": "searxng"}, {}, "duckduckgo"),
    ({"provider": "kimi"}, {"KIMI_SEARCH_API_KEY": "k", "KIMI_SEARCH_BASE_URL": "http://localhost:1"}, "kimi"),
    ({"provider": "brave", "fallback": ["kagi"]}, {"KAGI_API_KEY": "k"}, "kagi"),
)
def test_N23_N24_N25_C18_the_first_back_end(values: dict[str, object], env: dict[str, str], first: str) -> None:
    made = WebSearchTool(config(**values), env=env)
    assert made.chain.names[0] == first


def test_S05_no_usable_back_end_means_no_tool() -> None:
    with pytest.raises(SkipTool, match="brave lacks a key"):
        WebSearchTool(config(provider="brave", fallback=[]))


def test_N07_every_back_end_may_be_named_and_a_wrong_name_lists_them() -> None:
    names = {"duckduckgo", "brave", "tavily", "searxng", "jina", "kagi"}
    names |= {"auto", "exa", "perplexity", "firecrawl", "kimi", "serper", "bocha", "parallel"}
    assert {config(provider=name).provider for name in names} == names
    with pytest.raises(ConfigError) as caught:
        load_text('{"tools": {"web": {"search": {"provider": "brav"}}}}', Path("config.json"), env={})
    assert 'Did you mean "brave"?' in str(caught.value)
    assert all(f'"{name}"' in str(caught.value) for name in names)
    with pytest.raises(ConfigError, match='Did you mean "tavily"') as caught:
        load_text('{"tools": {"web": {"search": {"fallback": ["tavly"]}}}}', Path("config.json"), env={})
    assert "Known are duckduckgo, brave, tavily" in str(caught.value)


async def test_N08_several_engines_have_their_own_keys_and_addresses(apis: SearchApis) -> None:
    own = {
        "tavily": {"apiKey": KEY, "baseUrl": apis.base("tavily")},
        "kagi": {"apiKey": KEY, "baseUrl": apis.base("kagi")},
    }
    for name in own:
        result = await ask(tool({"provider": name, "apiKey": "of another", "providers": own}))
        assert (result.error, result.extras["provider"]) == (None, name)


async def test_C8_the_next_back_end_answers_with_a_visible_notice(apis: SearchApis) -> None:
    apis.always("brave", "auth")
    made = tool(keyed(apis, "brave", fallback=["duckduckgo"]))
    result = await ask(made)
    assert result.extras["provider"] == "duckduckgo"
    assert result.extras["fallback"] is True
    assert "Note: answered by duckduckgo, because Brave answered with status 401: invalid key" in result.text
    attempts = result.extras["attempts"]
    assert isinstance(attempts, list)
    assert [(attempt["provider"], attempt["error"]) for attempt in attempts] == [
        ("brave", "auth"),
        ("duckduckgo", None),
    ]


async def test_N33_empty_because_the_engines_failed_is_a_failure(apis: SearchApis) -> None:
    body = {"results": [], "unresponsive_engines": [["google", "Suspended: CAPTCHA"]]}
    apis.answer("searxng", body)
    result = await ask(tool(keyed(apis, "searxng")))
    assert result.error == "service"
    assert "google: Suspended: CAPTCHA" in result.text
    stepped_in = await ask(tool(keyed(apis, "searxng", fallback=["duckduckgo"])))
    assert stepped_in.extras["provider"] == "duckduckgo"


@table(
    "fault next_step",
    ("auth", "It cannot work before its key or its settings are changed."),
    ("rate_limited", "Search can be tried again in "),
)
async def test_S16_a_search_that_failed_says_to_people_and_the_model_when_it_can_work(
    apis: SearchApis, fault: Fault, next_step: str
) -> None:
    apis.always("brave", fault)
    result = await ask(tool(keyed(apis, "brave")))
    assert f". {next_step}" in result.text
    assert f". {next_step}" in result.message
    assert result.text.count("tried again") == int(fault != "auth")


async def test_N33_a_searxng_without_json_says_how_to_switch_it_on(apis: SearchApis) -> None:
    apis.answer("searxng", {}, 403)
    result = await ask(tool(keyed(apis, "searxng")))
    assert result.error == "auth"
    assert "add `json` to `search.formats` in its settings.yml" in result.text


async def test_N34_jina_says_nothing_found_with_an_error_status(apis: SearchApis) -> None:
    apis.answer("jina", {"code": 422, "status": 42206, "message": "No search results available for query"}, 422)
    result = await ask(tool(keyed(apis, "jina")))
    assert (result.error, result.extras["hits"]) == (None, 0)


@pytest.mark.parametrize("status", [401, 405])
async def test_N35_C25_an_older_kagi_key_is_found_out_once(apis: SearchApis, status: int) -> None:
    async with aclosing(tool(keyed(apis, "kagi"))) as made:
        apis.old_kagi = status
        for _ in range(2):
            assert (await made.call({"query": "python"}, None)).error is None
    paths = [request.path for request in apis.asked("kagi")]
    assert paths == ["/kagi/api/v1/search", "/kagi/api/v0/search", "/kagi/api/v0/search"]
    assert made.chain.known_usage()[0].remaining == 4.5


async def test_N31_N45_C26_the_allowance_of_brave_is_what_its_headers_say(apis: SearchApis) -> None:
    apis.headers = (
        ("X-RateLimit-Limit", "1, 15000"),
        ("X-RateLimit-Policy", "1;w=1, 15000;w=2592000"),
        ("X-RateLimit-Remaining", "0, 1000"),
        ("X-RateLimit-Reset", "1, 1419704"),
    )
    made = tool(keyed(apis, "brave"))
    await ask(made)
    month = made.chain.known_usage()[0]
    assert (month.window, month.used, month.limit, month.source) == ("month", 14000, 15000, "header")
    (shown,) = made.chain.known_usage()
    assert (shown.window, shown.limit) == ("month", 15000), "the widest allowance is the one that /status shows"


async def test_N45_usage_is_asked_where_there_is_an_endpoint(apis: SearchApis) -> None:
    apis.answer("tavily", {"key": {"usage": 3, "limit": None}, "account": {"plan_usage": 12, "plan_limit": 1000}})
    async with aclosing(tool(keyed(apis, "tavily", fallback=["duckduckgo"]))) as made:
        tavily, duckduckgo = await made.chain.usage(timeout=60)
    assert (tavily.used, tavily.limit, tavily.remaining, tavily.source) == (12, 1000, 988, "endpoint")
    assert re.search(r"Usage: 12 / 1,000 credits per month \(endpoint, [\d.]+ s ago\)", tavily.format())
    assert duckduckgo.local_count == 0
    assert apis.asked("tavily")[0].path == "/tavily/usage"


async def test_N45_each_back_end_has_a_line_even_where_it_does_not_answer(apis: SearchApis) -> None:
    apis.always("tavily", "timeout")
    apis.headers = (("X-RateLimit-Limit", "15000"), ("X-RateLimit-Remaining", "14990"))
    settings = {name: {"apiKey": KEY, "baseUrl": apis.base(name)} for name in ("brave", "tavily", "exa")}
    async with aclosing(tool({"provider": "brave", "fallback": ["tavily", "exa"], "providers": settings})) as made:
        await made.call({"query": "python"}, None)
        brave, tavily, _ = await made.chain.usage(timeout=0.2)
    assert (brave.used, brave.source, brave.local_count) == (10, "header", 1)
    assert "within 0.2 s" in tavily.error
    assert KEY not in tavily.format()


async def test_S15_S23_K25_a_busy_back_end_is_asked_once_more_after_the_time_it_names(apis: SearchApis) -> None:
    apis.failure_headers = (("Retry-After", "0.05"),)
    apis.fail("tavily", "rate_limited")
    result = await ask(tool(keyed(apis, "tavily")))
    attempts = result.extras["attempts"]
    assert isinstance(attempts, list)
    assert (result.error, [attempt["status"] for attempt in attempts]) == (None, [429, 200])
    apis.failure_headers = (("Retry-After", "11"),)
    apis.always("tavily", "rate_limited")
    late = await ask(tool(keyed(apis, "tavily")))
    assert (late.error, late.extras["retry_after"]) == ("rate_limited", pytest.approx(25, abs=5))
    async with aclosing(Tavily("tavily", ServiceAccess(KEY, apis.base("tavily")))) as backend:
        with pytest.raises(SearchError) as caught:
            await backend.search(SearchQuery("q"), timeout=60)
        assert caught.value.retry_after == 11
        soon = datetime.now(UTC) + timedelta(seconds=100)
        apis.failure_headers = (("Retry-After", format_datetime(soon, usegmt=True)),)
        with pytest.raises(SearchError) as caught:
            await backend.search(SearchQuery("q"), timeout=60)
    assert caught.value.retry_after is not None
    assert 0 < caught.value.retry_after <= 100


async def test_S09_the_id_of_the_tool_call_travels_with_the_request(apis: SearchApis) -> None:
    await ask(tool(keyed(apis, "kimi")))
    assert apis.asked("kimi")[0].headers["x-tool-call-id"] == "call-1"
    own = {"kimi": {"apiKey": KEY, "baseUrl": apis.base("kimi"), "toolCallIdHeader": "X-Mine"}}
    await ask(tool({"provider": "kimi", "providers": own}))
    assert apis.asked("kimi")[1].headers["x-mine"] == "call-1"

    async def relay(request: Request, responder: Responder) -> None:
        await responder.json({"search_results": []})

    async with HttpServer(relay) as proxy:
        own = {"kimi": {"apiKey": KEY, "baseUrl": "http://api.moonshot.cn/search", "proxy": proxy.url}}
        await ask(tool({"provider": "kimi", "providers": own}))
        assert proxy.requests[0].headers["x-msh-tool-call-id"] == "call-1"


async def test_no_network_is_an_error_result_that_says_what_to_do() -> None:
    result = await ask(tool(fake=FakeDdgs(always="network")))
    assert result.error == "network"
    assert result.text.startswith("Error: Web search failed: DuckDuckGo cannot be reached")


async def test_M10_a_hanging_engine_holds_neither_the_loop_nor_the_answer() -> None:
    fake = FakeDdgs(always="hang")
    made = tool(fake=fake, values={"timeout": 1})
    asking = asyncio.create_task(ask(made))
    async with asyncio.timeout(120):
        while not fake.running:  # the loop turns while the engine hangs
            await asyncio.sleep(0.01)
    result = await asking
    fake.release.set()
    assert (result.error, "DuckDuckGo did not answer" in result.text) == ("timeout", True)


async def test_N29_a_time_out_opens_the_breaker_so_the_next_search_goes_on_at_once(apis: SearchApis) -> None:
    fake = FakeDdgs(always="hang")
    values = {"providers": {"kagi": {"apiKey": KEY, "baseUrl": apis.base("kagi")}, "duckduckgo": {"timeout": 0.3}}}
    made = tool({"provider": "duckduckgo", "fallback": ["kagi"], **values}, fake)
    assert (await ask(made)).extras["provider"] == "kagi"
    second = await ask(made)
    fake.release.set()
    assert second.extras["provider"] == "kagi"
    assert len(fake.calls) == 1


async def test_N28_N29_fifty_stuck_searches_leave_none_running_and_free_the_lock() -> None:
    fake = FakeDdgs(always="hang")
    asked = [ask(tool(fake=fake, values={"timeout": 0.2})) for _ in range(50)]
    assert {result.error for result in await asyncio.gather(*asked)} == {"timeout"}
    assert (fake.running, fake.most_at_once) == (0, 1)
    fake.always = ""
    assert (await ask(tool(fake=fake))).error is None


async def test_N30_never_two_ddgs_searches_at_once_in_the_process() -> None:
    fake = FakeDdgs(pause=0.05)
    results = await asyncio.gather(*(ask(tool(fake=fake)) for _ in range(5)))
    assert all(result.error is None for result in results)
    assert fake.most_at_once == 1
    backends = [DuckDuckGoBackend(library=fake) for _ in range(3)]  # whoever makes them, they take turns
    await asyncio.gather(*(backend.search(SearchQuery("q"), timeout=60) for backend in backends))
    assert (fake.most_at_once, len(fake.calls)) == (1, 8)


@growing(1.8, 18)
async def test_S17_three_hanging_back_ends_end_within_the_deadline(apis: SearchApis, limit: float) -> None:
    for name in ("brave", "exa", "kagi"):
        apis.always(name, "timeout")
    settings = {name: {"apiKey": KEY, "baseUrl": apis.base(name)} for name in ("brave", "exa", "kagi")}
    before = {name: len(apis.asked(name)) for name in settings}
    made = tool({"provider": "brave", "fallback": ["exa", "kagi"], "providers": settings, "timeout": limit})
    result = await ask(made)
    assert result.error == "timeout"
    assert result.text.count("did not answer within ") == 3
    assert [len(apis.asked(name)) - before[name] for name in settings] == [1, 1, 1]


async def test_K04_the_workspace_may_word_the_description(tmp_path: Path) -> None:
    folder = tmp_path / "templates" / "tools"
    folder.mkdir(parents=True)
    (folder / "web_search.md").write_text("Suche, {{ max_results }} Treffer, {{ date }}", encoding="utf-8")
    own = search_description(config(), PromptTemplates(tmp_path), fetch=False)
    assert own == f"Suche, 5 Treffer, {datetime.now(UTC).date().isoformat()}"
    assert "(12345 characters are shared by all hits)" in described(contentBudget=12_345)


async def test_S03_S25_where_pages_cannot_be_read_no_word_names_the_tool_that_reads_them(apis: SearchApis) -> None:
    apis.pages = tuple(Page(f"t{n}", f"https://a.example/{n}", "s", "x" * 50_000) for n in range(2))
    cut = WebSearchTool(config(fallback=[], **keyed(apis, "tavily", contentBudget=20_000)))
    bare = WebSearchTool(config(fallback=[]), ddgs=FakeDdgs())
    failing = WebSearchTool(config(fallback=[]), ddgs=FakeDdgs(always="timeout"))
    results = [await ask(made, {"include_content": True}) for made in (cut, bare, failing)]
    words = [described(fetch=False), *(result.text for result in results)]
    assert ["web_fetch" in one for one in words] == [False] * 4, words
    assert "of 50000 characters]" in results[0].text
    assert "Note: no page text came with these results" in results[1].text
    assert "Say what you could not find." in results[2].text


def test_S25_N11_the_description_names_what_comes_the_default_and_web_fetch() -> None:
    words = described()
    assert "titles, URLs and snippets" in words
    assert "5 results" in words
    assert "web_fetch to read a page in full" in words
    assert "Snippets first" in words


def test_S24_the_parameters_stay() -> None:
    schema = WebSearchTool(config()).spec.schema
    properties = schema["properties"]
    assert isinstance(properties, dict)
    assert (
        list(properties)
        == "query limit include_content freshness include_domains exclude_domains country language fresh".split()
    )
    assert schema["required"] == ["query"]
    fetch = WebFetchTool(WebFetchConfig())
    properties = fetch.spec.schema["properties"]
    assert isinstance(properties, dict)
    assert list(properties) == [
        *("url", "urls", "prompt", "format", "max_chars", "offset", "find", "section", "raw", "fresh")
    ]
    assert [properties[name].get("default") for name in ("format", "offset", "raw", "fresh")] == [
        "markdown",
        *[None] * 3,
    ]
    assert {*fetch.argument_aliases} >= {"extractMode", "maxChars", "link", "start_index"}
    properties = schema["properties"]
    assert isinstance(properties, dict)
    defaults = [properties[name].get("default") for name in ("limit", "include_content", "freshness", "fresh")]
    assert defaults == [5, None, None, None], "a default of nothing is not told"
    assert {*WebSearchTool.argument_aliases} >= {"count", "numResults", "max_results", "search_term", "includeDomains"}


async def test_C28_the_proxy_is_used_for_all_but_the_exceptions() -> None:
    fake = FakeDdgs(script=deque())
    env = {"NO_PROXY": "localhost,.home"}
    made = WebSearchTool(config(fallback=[]), proxy="http://127.0.0.1:9", env=env, ddgs=fake)
    await ask(made)
    assert fake.made[0][0] == "http://127.0.0.1:9"


@pytest.mark.parametrize(("no_proxy", "own"), [("", False), ("example.org", False), ("", True), ("*", True)])
@pytest.mark.parametrize("where", ["config", "env"])
async def test_C28_engines_with_an_api_use_the_proxy_too_but_those_on_a_machine_of_ones_own(
    apis: SearchApis, no_proxy: str, own: bool, where: str
) -> None:
    async def relay(request: Request, responder: Responder) -> None:
        await responder.json({"results": []})

    async with HttpServer(relay) as proxy:
        env = {"NO_PROXY": no_proxy, **({"HTTP_PROXY": proxy.url} if where == "env" else {})}
        base = apis.base("tavily") if own else "http://tavily.example"
        values = config(providers={"tavily": {"apiKey": KEY, "baseUrl": base}}, provider="tavily", fallback=[])
        result = await ask(WebSearchTool(values, proxy=proxy.url if where == "config" else None, env=env))
        assert result.error is None
        assert [one.target for one in proxy.requests] == ([] if own else [f"{base}/search"])
        assert len(apis.asked("tavily")) == own


async def test_a_proxy_that_cannot_be_used_is_named_and_no_engine_is_asked_without_it() -> None:
    env = {"ALL_PROXY": "socks4://127.0.0.1:9"}
    fake = FakeDdgs(script=deque())
    tavily = {"apiKey": KEY, "baseUrl": "http://tavily.example"}
    values = config(providers={"tavily": tavily}, provider="tavily", fallback=["duckduckgo"])
    result = await ask(WebSearchTool(values, env=env, ddgs=fake))
    assert result.error is not None
    assert "The proxy in ALL_PROXY cannot be used: it begins with socks4://" in result.text
    assert fake.made == []


LADDER = ("duckduckgo", "tavily", "exa", "firecrawl", "parallel")


def test_C8_without_any_key_the_keyless_services_follow_duckduckgo() -> None:
    assert WebSearchTool(config()).chain.names == LADDER
    assert WebSearchTool(config(), env={"KAGI_API_KEY": "k"}).chain.names == ("kagi", *LADDER)


@pytest.mark.parametrize("answers", LADDER[1:])
async def test_C8_each_keyless_service_answers_where_those_before_it_fail(apis: SearchApis, answers: str) -> None:
    for name in LADDER[1 : LADDER.index(answers)]:
        apis.always(name, "quota")
    providers = {name: {"baseUrl": apis.base(name)} for name in LADDER[1:]}
    values = config(provider="duckduckgo", providers=providers)
    result = await ask(WebSearchTool(values, ddgs=FakeDdgs(always="blocked")))
    assert result.extras["provider"] == answers
    assert f"Note: answered by {answers}, because DuckDuckGo wants to see a person" in result.text
    assert [source.url for source in result.sources] == [page.url for page in PAGES]
    headers = apis.asked(answers)[0].headers
    assert "authorization" not in headers
    assert "x-api-key" not in headers
    assert (headers.get("x-tavily-access-mode") == "keyless") is (answers == "tavily")


async def test_a_broken_page_of_firecrawl_is_not_its_content(apis: SearchApis) -> None:
    page = {"title": "Gone", "url": "https://a.example/", "markdown": "404 not found", "metadata": {"statusCode": 404}}
    apis.answer("firecrawl", {"success": True, "data": {"web": [page]}})
    result = await ask(tool(keyed(apis, "firecrawl")), {"include_content": True})
    assert "404 not found" not in result.text
    assert result.extras["hits"] == 1


async def test_a_spent_key_is_named_and_never_shown(apis: SearchApis) -> None:
    apis.answer("brave", {"error": {"detail": f"the key {KEY} is spent"}}, 402)
    result = await ask(tool(keyed(apis, "brave")))
    assert result.error == "quota"
    assert KEY not in result.text
    assert KEY not in str(result.extras)
