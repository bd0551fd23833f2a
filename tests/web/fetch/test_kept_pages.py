"""Pages that are kept: sections, age, other chats, what counts as a lookup, and the rows of reading."""

import asyncio
import time
from collections import Counter

import pytest

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.agent.tools.web.fetch import WebFetchTool
from nanobot.agent.tools.web.search import WebSearchTool
from nanobot.config.schema_web import WebFetchConfig, WebSearchConfig
from nanobot.messages import Text, ToolMessage
from nanobot.providers.scripted import Call, ScriptedProvider
from tests.agent.harness import agent, run_tool
from tests.fakes.files import png
from tests.fakes.http_server import Request, Responder
from tests.fakes.search_apis import FakeDdgs, Page
from tests.fakes.website import Answer, Names, Script, Website
from tests.tables import table
from tests.web.fetch.conftest import LOOPBACK, MakeTool

REFUSAL = (
    "Error: repeated external lookup blocked. "
    "Use the results you already have to answer, or try a meaningfully different source."
)
FILLER = "Words about boats, ropes and the weather of the coast.\n" * 200
GUIDE = (
    f"# Guide\n\nOpening words.\n\n## History\n\n{FILLER}\n### The *storm* of [1911](https://a.example/1911)\n\n"
    f"It took the old pier.\n\n```sh\n# not a heading\n```\n\n## Tides ¶\n\nHigh water at nine.\n\n{FILLER}\n"
    "## ÖFFNUNG\n\nDaily from ten.\n"
)


def guide(**headers: str) -> Answer:
    return Answer(GUIDE, "text/markdown; charset=utf-8", headers=tuple(headers.items()))


def body(result_text: str) -> str:
    return result_text.partition("\n\n")[2]


async def test_N44_a_section_is_given_by_its_heading_without_a_request(tool: WebFetchTool) -> None:
    async with Website({"/g": guide()}) as site:
        url = f"{site.url}/g"
        await tool.call({"url": url})
        tides = await tool.call({"url": url, "section": "TIDES"})
        storm = await tool.call({"url": url, "section": "the storm of 1911"})
        opening = await tool.call({"url": url, "section": "## öffnung"})
        missing = await tool.call({"url": url, "section": "Tide"})
        unlike = await tool.call({"url": url, "section": "not a heading"})
        assert site.paths == ["/g"]
    assert body(tides.text).startswith("## Tides ¶\n\nHigh water at nine.")
    assert "ÖFFNUNG\n\nDaily" not in tides.text
    assert "It took the old pier." in storm.text
    assert "# not a heading" in storm.text
    assert "High water" not in storm.text
    assert body(opening.text).startswith("## ÖFFNUNG\n\nDaily from ten.")
    assert "\n\n\n" not in tides.text
    assert "There is no section 'Tide'. Did you mean 'Tides'?" in missing.text
    assert "History; The storm of 1911; Tides; ÖFFNUNG" in unlike.text


async def test_N44_a_long_section_says_where_it_goes_on(tool: WebFetchTool) -> None:
    async with Website({"/g": guide()}) as site:
        call: dict[str, object] = {"url": f"{site.url}/g", "section": "history", "max_chars": 2000}
        first = await tool.call(call)
        at = first.extras["next"]
        rest = await tool.call({"url": f"{site.url}/g", "offset": at})
    assert isinstance(at, int)
    length = first.extras["length"]
    assert isinstance(length, int)
    start = GUIDE.index("## History")
    assert body(first.text)[:length] == GUIDE[start:at]
    assert f"read on with offset={at}" in first.text
    assert body(rest.text).startswith(GUIDE[at : at + 500])


async def test_N44_A18_the_head_of_a_cut_page_names_the_next_offset_and_the_sections_that_follow(
    tool: WebFetchTool,
) -> None:
    async with Website({"/g": guide()}) as site:
        result = await tool.call({"url": f"{site.url}/g", "max_chars": 3000})
        again = await tool.call({"url": f"{site.url}/g"})
    head = result.text.partition("\n\n")[0].splitlines()
    at = result.extras["next"]
    assert head[:2] == ["[1] Guide", f"url: {site.url}/g"]
    assert head[2] == f"rest: offset={at} of {len(GUIDE)} | sections: The storm of 1911; Tides; ÖFFNUNG"
    assert head[3].startswith("status: 200 | extractor: text | truncated: true | length: ")
    assert "read: from cache (under 1 min)" in again.text.partition("\n\n")[0].splitlines()
    assert "rest:" not in again.text


def lookups(*calls: dict[str, object]) -> ScriptedProvider:
    return ScriptedProvider([*(Call("web_fetch", call) for call in calls), "done"])


def told(provider: ScriptedProvider) -> list[str]:
    results = [item for item in provider.requests[-1].messages if isinstance(item, ToolMessage)]
    return ["".join(part.text for part in item.content if isinstance(part, Text)) for item in results]


async def test_N20_the_second_same_page_comes_from_the_store_and_the_third_is_blocked(make_tool: MakeTool) -> None:
    async with Website({"/g": guide()}) as site:
        call: dict[str, object] = {"url": f"{site.url}/g"}
        provider = lookups(call, call, call)
        async with agent(provider, make_tool()) as box:
            await box.ask(f"read {site.url}/g and {site.url}/gone")
        assert site.paths == ["/g"]
    first, second, third = told(provider)
    assert "read: from cache" not in first
    assert "read: from cache (under 1 min)" in second
    assert third == f"{REFUSAL} What it found stands above as [1]."


async def test_N20_N44_C9_paging_through_a_kept_page_neither_counts_nor_is_blocked(make_tool: MakeTool) -> None:
    async with Website({"/g": guide()}) as site:
        url = f"{site.url}/g"
        paging: list[dict[str, object]] = [{"url": url, "start_index": 100}] * 4
        finding: dict[str, object] = {"url": url, "find": "tides"}
        section: dict[str, object] = {"url": url, "section": "Tides"}
        paging += [finding] * 3 + [section] * 3
        provider = lookups({"url": url}, *paging, {"url": url}, {"url": url, "max_chars": "x"}, {"url": url})
        async with agent(provider, make_tool()) as box:
            await box.ask(f"read {site.url}/g and {site.url}/gone")
        assert site.paths == ["/g"]
    texts = told(provider)
    assert REFUSAL not in texts[:12]
    assert "Invalid parameters" in texts[12]
    assert texts[13] == f"{REFUSAL} What it found stands above as [1]."


async def test_N20_C9_fresh_counts_and_paging_in_what_is_not_kept_counts(make_tool: MakeTool) -> None:
    async with Website({"/g": guide()}) as site:
        fresh: dict[str, object] = {"url": f"{site.url}/g", "fresh": True}
        gone: dict[str, object] = {"url": f"{site.url}/gone", "offset": 10}
        provider = lookups(fresh, fresh, fresh, gone, gone, gone)
        async with agent(provider, make_tool()) as box:
            await box.ask(f"read {site.url}/g and {site.url}/gone")
        assert site.paths == ["/g", "/g", "/gone", "/gone"]
    texts = told(provider)
    assert texts[2] == f"{REFUSAL} What it found stands above as [1]."
    assert texts[5] == REFUSAL


async def test_C9_waiting_for_a_call_that_loads_the_same_page_does_not_count(make_tool: MakeTool) -> None:
    async with Website({"/g": Answer(GUIDE, "text/markdown", delay=0.2)}) as site:
        call = Call("web_fetch", {"url": f"{site.url}/g"})
        provider = ScriptedProvider([(call, call, call), call, call, "done"])
        async with agent(provider, make_tool()) as box:
            await box.ask(f"read {site.url}/g and {site.url}/gone")
        assert site.paths == ["/g"]
    texts = told(provider)
    assert REFUSAL not in texts[:4]
    assert texts[4] == f"{REFUSAL} What it found stands above as [1]."


async def test_K31_a_search_leads_by_its_number_to_a_page_that_the_answer_cites(make_tool: MakeTool) -> None:
    async with Website({"/g": guide()}) as site:
        hits = (Page("Other", f"{site.url}/other", "Nothing."), Page("Guide", f"{site.url}/g", "About the coast."))
        search = WebSearchTool(WebSearchConfig(fallback=()), ddgs=FakeDdgs(hits))
        read = Call("web_fetch", {"url": "#2", "section": "Tides"})
        answer = "High water is at nine [2]."
        provider = ScriptedProvider([Call("web_search", {"query": "coast guide"}), read, answer])
        async with agent(provider, search, make_tool()) as box:
            finished = await box.ask("When is high water?")
        await search.aclose()
        assert site.paths == ["/g"]
    assert finished.text == "High water is at nine [2]."
    assert f"2. Guide\n   {site.url}/g\n" in provider.requests[1].messages[-1].text
    assert [(source.number, source.url, source.read) for source in finished.sources] == [(2, f"{site.url}/g", True)]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_G35_C29_a_page_is_kept_for_15_minutes_and_its_age_is_shown(tool: WebFetchTool) -> None:
    clock = Clock()
    tool = WebFetchTool(WebFetchConfig(), whitelist=(LOOPBACK,), clock=clock)
    async with Website({"/g": guide()}) as site:
        call: dict[str, object] = {"url": f"{site.url}/g"}
        assert "from cache" not in (await tool.call(call)).message
        clock.now += 200
        kept = await tool.call(call)
        clock.now += 699
        assert "from cache (14 min)" in (await tool.call(call)).text
        assert len(site.paths) == 1
        clock.now += 2
        late = await tool.call(call)
        assert len(site.paths) == 2
    await tool.aclose()
    assert kept.message.endswith("; from cache (3 min))")
    assert "read: from cache (3 min)" in kept.text
    assert kept.extras["age"] == 200
    assert "from cache" not in late.text


async def test_G35_a_failure_is_never_kept(make_tool: MakeTool) -> None:
    async with Website({"/f": [Answer(status=404), guide()]}) as site:
        tool = make_tool(retries=0)
        first, second = [await tool.call({"url": f"{site.url}/f"}) for _ in range(2)]
    assert first.error == "http_status"
    assert second.success


async def test_G35_another_chat_gets_a_kept_page_unless_it_is_the_first_ones_alone(tool: WebFetchTool) -> None:
    secret = "/s?token=abcdefghijklmnopqrstuvwxyz0123456789"
    pages = {
        "/open": guide(),
        "/nostore": guide(**{"Cache-Control": "max-age=0, No-Store"}),
        "/private": guide(**{"Cache-Control": "private"}),
        "/s": guide(),
        "/quiet": guide(),
    }
    async with Website(pages) as site:
        for path in ("/open", "/nostore", "/private", secret, "/quiet"):
            for session in ("a", "b", "a"):
                context = ToolContext(session=session, privacy=path == "/quiet")
                assert (await tool.call({"url": site.url + path}, context)).success
        assert Counter(site.paths) == {"/open": 1, "/nostore": 2, "/private": 2, "/s": 2, "/quiet": 2}


async def test_N44_a_page_of_headings_alone_is_cut_within_two_seconds(tool: WebFetchTool) -> None:
    async with Website({"/h": Answer("# a b c\n" * 250_000, "text/markdown")}) as site:
        await tool.call({"url": f"{site.url}/h"})
        begun = time.process_time()
        cut = await tool.call({"url": f"{site.url}/h"})
        missing = await tool.call({"url": f"{site.url}/h", "section": "x y z"})
        assert time.process_time() - begun < 2
    assert "rest: offset=" in cut.text
    assert "There is no section 'x y z'" in missing.text
    assert "; and 1985 more" in missing.text


@table(
    "concurrency hosts pages one_call most",
    (5, 10, 3, False, (5, 2)),
    (5, 5, 4, True, (5, 2)),
    (3, 6, 1, False, (3, 1)),
    ids=["across calls", "in one call", "as configured"],
)
async def test_G18_G36_five_pages_are_read_at_once_and_two_of_one_host(
    make_tool: MakeTool, concurrency: int, hosts: int, pages: int, one_call: bool, most: tuple[int, int]
) -> None:
    running: Counter[str] = Counter()
    all_in = asyncio.Event()
    seen: list[tuple[int, int]] = []

    async def page(request: Request, responder: Responder) -> None:
        host = request.headers["host"]
        running[host] += 1
        seen.append((running.total(), running[host]))
        if running.total() >= concurrency:
            await asyncio.sleep(0.05)  # one more would come now
            all_in.set()
        await all_in.wait()
        running[host] -= 1
        await responder.send(200, "fine", content_type="text/plain")

    names = Names({f"h{number}.test": ["127.0.0.1"] for number in range(hosts)})
    tool = make_tool(network=names, concurrency=concurrency)
    async with Website({f"/{number}": page for number in range(pages)}) as site, asyncio.timeout(120):
        urls = [f"http://h{host}.test:{site.port}/{number}" for host in range(hosts) for number in range(pages)]
        calls = [{"urls": urls}] if one_call else [{"url": url} for url in urls]
        results = await asyncio.gather(*(tool.call(dict(call)) for call in calls))
    assert sum(len(result.sources) for result in results) == len(urls)
    assert (max(total for total, _ in seen), max(of_one for _, of_one in seen)) == most


async def test_N19_pages_whose_paths_differ_in_case_alone_are_two_lookups(make_tool: MakeTool) -> None:
    async with Website({"/A": guide(), "/a": guide()}) as site:
        calls: list[dict[str, object]] = [
            {"url": f"{site.url}/{path}", "fresh": True} for path in ("A", "A", "a", "a", "A")
        ]
        provider = lookups(*calls)
        async with agent(provider, make_tool()) as box:
            await box.ask(f"read {site.url}/A and {site.url}/a")
        assert site.paths == ["/A", "/A", "/a", "/a"]
    assert told(provider)[4].startswith(REFUSAL)


async def test_G36_pages_that_wait_for_one_host_hold_up_no_other(make_tool: MakeTool) -> None:
    held, came = asyncio.Event(), asyncio.Semaphore(0)

    async def slow(_request: Request, responder: Responder) -> None:
        came.release()
        await held.wait()
        await responder.send(200, "late", content_type="text/plain")

    pages: dict[str, Answer | Script] = {f"/{number}": slow for number in range(6)}
    pages["/quick"] = Answer("quick", "text/plain")
    tool = make_tool(network=Names({"slow.test": ["127.0.0.1"], "quick.test": ["127.0.0.1"]}))
    async with Website(pages) as site:
        waiting = [asyncio.ensure_future(tool.call({"url": f"http://slow.test:{site.port}/{n}"})) for n in range(6)]
        async with asyncio.timeout(120):
            await came.acquire()
            await came.acquire()
            quick = await tool.call({"url": f"http://quick.test:{site.port}/quick"})
            assert not any(one.done() for one in waiting)
            held.set()
            late = await asyncio.gather(*waiting)
    assert quick.success
    assert all(result.success for result in late)


PAGE = (
    "<html><head><title>Piers</title></head><body><article><h1>Piers</h1><p>"
    + "The old pier was built of oak and stood for ninety years before the storm. " * 4
    + "See the <a href='/plan'>plan</a> of it.<img src='/pier.png' alt='A pier'></p></article></body></html>"
)


@pytest.mark.parametrize("alias", ["FetchURL", "webfetch", "web_fetch"])
async def test_K01_other_names_of_the_tool_read_the_same_page_and_only_one_is_offered(
    tool: WebFetchTool, alias: str
) -> None:
    tools = ToolRegistry()
    tools.register(tool)
    async with Website({"/": Answer(PAGE)}) as site:
        result = await run_tool(tools, alias, {"url": f"{site.url}/"})
    assert result.error is None
    assert result.text.startswith("[1] Piers\n")
    assert [spec.name for spec in tools.specs()] == ["web_fetch"]
    schema = tools.specs()[0].schema
    assert isinstance(schema["properties"], dict)
    assert "url" in schema["properties"]


async def test_A12_G19_text_has_neither_addresses_nor_images_markdown_absolute_links_and_html_the_markup(
    tool: WebFetchTool,
) -> None:
    table = "<table><tr><th>Size</th><th>cm</th></tr><tr><td>S</td><td>91</td></tr></table></article>"
    async with Website({"/": Answer(PAGE.replace("</article>", table))}) as site:
        results = [await tool.call({"url": f"{site.url}/", "format": name}) for name in ("text", "markdown", "html")]
    text, markdown, html = (result.text.partition("\n\n")[2] for result in results)
    assert [result.extras["truncated"] for result in results] == [False] * 3
    assert "See the plan of it." in text
    assert text.endswith("Size | cm\nS | 91")
    assert not [word for word in ("http", "A pier", "![") if word in text]
    assert "\n" not in text.split("\n\n")[-2], "no line is wrapped"
    assert f"[plan]({site.url}/plan)" in markdown
    assert "A pier" in markdown
    assert "| S | 91 |" in markdown
    assert "<table>" in html


@table(
    "extract there gone",
    ({}, "[plan](SITE/plan)", "pier.png"),
    ({"images": True}, "![A pier](SITE/pier.png)", "[image: "),
    ({"links": "text"}, "See the plan of it.", "/plan)"),
    ({"tables": False}, "[plan]", "1911"),
    ({"metadata": False}, "[plan]", "\nsite: "),
    ({"comments": False}, "| 1911 |", "I was there"),
    ({"comments": True}, "I was there", "pier.png"),
    ids=["usual", "images", "links", "tables", "metadata", "no comments", "comments"],
)
async def test_K30_each_option_of_the_configuration_changes_what_is_read(
    make_tool: MakeTool, extract: dict[str, object], there: str, gone: str
) -> None:
    more = "<table><tr><th>Year</th><th>Ships</th></tr><tr><td>1911</td><td>40</td></tr></table></article>"
    said = "<div class='comments'><p>I was there when the storm came and took it.</p></div>"
    page = PAGE.replace("</article>", f"{more}{said}")
    async with Website({"/": Answer(page)}) as site:
        text = (await make_tool(extract=extract).call({"url": f"{site.url}/"})).text.replace(site.url, "SITE")
    assert there in text
    assert gone not in text


async def test_K30_A20_the_time_and_the_attempts_for_a_page_can_be_set(make_tool: MakeTool) -> None:
    async def silent(_request: Request, responder: Responder) -> None:
        await responder.hang(20)

    busy = Answer("busy", status=503, headers=(("Retry-After", "0"),))
    async with Website({"/busy": busy, "/silent": silent}) as site:
        late = await make_tool(timeout=0.5, reader="none").call({"url": f"{site.url}/silent"})
        await make_tool(retries=3, reader="none").call({"url": f"{site.url}/busy"})
        assert site.paths.count("/busy") == 4
    assert late.error == "timeout"


async def test_N40_G37_the_header_names_what_has_read_the_page(tool: WebFetchTool) -> None:
    pages = {
        "/html": Answer(PAGE),
        "/json": Answer('{"a": 1}', "application/json"),
        "/text": Answer("plain words", "text/plain"),
        "/csv": Answer("a,b\n1,2\n", "text/csv"),
        "/xml": Answer("<?xml version='1.0'?><note><to>Ann</to></note>", "application/xml"),
        "/image": Answer(png(1, 1), "image/png"),
    }
    async with Website(pages) as site:
        read = {path: (await tool.call({"url": f"{site.url}{path}"})).extras["extractor"] for path in pages}
    assert read == {
        "/html": "readability",
        "/json": "json",
        "/text": "text",
        "/csv": "csv",
        "/xml": "xml",
        "/image": "image",
    }
