"""`web_fetch` as a model calls it, against a site on loopback."""

import asyncio
import json
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.offers import WebFetchArguments, fetch_description
from nanobot.agent.tools.web.fetch import WebFetchTool
from nanobot.config.schema_web import WebFetchConfig
from nanobot.errors import FetchErrorKind
from nanobot.results import ToolResult
from nanobot.utils.prompt_templates import PromptTemplates
from nanobot.web.client import PAGE_USER_AGENT, PRODUCT_USER_AGENT, trusted_client
from nanobot.web.extract.strip import strip_tags
from nanobot.web.fetch.page import PageRequest
from nanobot.web.fetch.reader import PageReader
from tests.fakes.files import png
from tests.fakes.http_server import Request, Responder
from tests.fakes.website import Answer, Names, Website, redirect
from tests.security.test_network import BAD_URLS
from tests.tables import table
from tests.web.fetch.conftest import LOOPBACK, MakeTool, read

PROSE = "The harbour was rebuilt in 1911 after the great storm, and its lighthouse still burns every night. " * 6
ARTICLE = f"""<!doctype html><html lang="en"><head><title>The harbour</title>
<meta property="og:site_name" content="Coast News"><meta name="author" content="A. Keeper">
<meta property="article:published_time" content="2024-05-06"><style>p {{ color: red }}</style>
<script>
  var secret = "never shown";
</script></head><body><nav><a href="/home">Home</a></nav>
<article><h1>The harbour</h1><h2>History</h2><p>{PROSE}</p>
<p>See the <a href="/plan">old plan</a>, it is <b>rare</b>.</p>
<p>The piers, from north to south, were built one after the other:</p>
<ul><li>first pier, for the fishing boats of the town</li><li>second pier, for the ferries, which run all year</li></ul>
<pre><code class="language-python">def tide():
    return 4
</code></pre>
<table><tr><th>Year</th><th>Ships</th><th>What the harbour master wrote</th></tr>
<tr><td>1911</td><td>40</td><td>The first year after the storm, with few ships and much work</td></tr>
<tr><td>1912</td><td>96</td><td>The ferries came back, and with them the summer guests</td></tr></table>
<p>{PROSE}</p></article></body></html>"""


async def test_N43_N39_W07_an_html_page_costs_one_request_and_comes_back_as_markdown(tool: WebFetchTool) -> None:
    async with Website({"/a": Answer(ARTICLE)}) as site:
        result = await tool.call({"url": f"{site.url}/a"})
        assert site.paths == ["/a"]
    assert result.error is None
    head, _, text = result.text.partition("\n\n")
    assert head.splitlines() == [
        "[1] The harbour",
        f"url: {site.url}/a",
        "kept: main text, 100% of the words of the page",
        "site: Coast News",
        "author: A. Keeper",
        "published: 2024-05-06",
        "language: en",
        f"status: 200 | extractor: readability | truncated: false | length: {len(text)}",
    ]
    for wanted in (
        "## History",
        "- first pier",
        "```python\ndef tide():\n    return 4\n```",
        "| 1911 | 40 | The first year",
        "**rare**",
    ):
        assert wanted in text
    assert f"[old plan]({site.url}/plan)" in text
    assert "secret" not in text
    assert "color" not in text
    assert result.untrusted
    assert result.sources[0].read
    assert result.extras["author"] == "A. Keeper"
    assert result.extras["published"] == "2024-05-06"


async def test_N39_C4_the_json_form_has_exactly_the_seven_values(make_tool: MakeTool) -> None:
    tool = make_tool(render="json")
    async with Website({"/a": redirect("/b"), "/b": Answer(ARTICLE)}) as site:
        value = json.loads((await tool.call({"url": f"{site.url}/a"})).text)
    assert list(value) == ["url", "finalUrl", "status", "extractor", "truncated", "length", "text"]
    assert value["finalUrl"] == f"{site.url}/b"
    assert value["length"] == len(value["text"])
    assert value["truncated"] is False
    cut = json.loads((await read(tool, Answer("word " * 400, "text/plain"), "/long", max_chars=200)).text)
    assert (cut["truncated"], cut["status"], cut["extractor"]) == (True, 200, "text")


@pytest.mark.parametrize(
    ("mode", "most"), [("format", "max_chars"), ("extractMode", "maxChars"), ("extract_mode", "max_length")]
)
async def test_N38_the_other_spellings_of_the_arguments_work(tool: WebFetchTool, mode: str, most: str) -> None:
    async with Website({"/a": Answer(ARTICLE)}) as site:
        result = await tool.call({"link": f"{site.url}/a", mode: "text", most: 300})
    assert result.extras["truncated"] is True
    assert isinstance(result.extras["length"], int)
    assert result.extras["length"] <= 300
    assert "**" not in result.text


async def test_N38_a_call_that_names_no_length_gets_50_000_characters_as_markdown(tool: WebFetchTool) -> None:
    long = ARTICLE.replace("</article>", f"<p>{PROSE}</p>" * 200 + "</article>")
    result = await read(tool, Answer(long), "/long")
    assert isinstance(result.extras["length"], int)
    assert 49_000 < result.extras["length"] <= 50_000
    assert "## History" in result.text


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "ftp://a.example/", "data:text/html,x", "javascript:alert(1)", "gopher://a/", "a.example/x"],
)
async def test_K03_A13_G07_only_http_and_https_are_read(tool: WebFetchTool, url: str) -> None:
    result = await tool.call({"url": url})
    assert result.error == "invalid_input"
    assert result.text == "Error: URL must start with http:// or https://"


async def test_K03_no_bad_url_is_looked_up_or_connected_to(make_tool: MakeTool) -> None:
    names = Names({})
    tool = make_tool(network=names)
    results = [await tool.call({"url": url}) for url in BAD_URLS if url and url == url.strip()]
    assert {result.error for result in results} == {"invalid_input"}
    login = await tool.call({"url": "http://user:pass@example.com/"})
    assert "The URL carries a user name or password; leave them out" in login.text
    assert (names.asked, names.reached) == ([], [])


async def test_N44_A18_C5_a_long_page_is_read_on_without_a_second_request(tool: WebFetchTool) -> None:
    lines = "\n".join(f"line {number} of the long text" for number in range(7000))
    context = ToolContext(session="s")
    pieces: list[str] = []
    offset = 0
    async with Website({"/long.txt": Answer(lines, "text/plain")}) as site:
        while True:
            result = await tool.call({"url": f"{site.url}/long.txt", "offset": offset}, context)
            body = result.text.partition("\n\n")[2]
            length = result.extras["length"]
            assert isinstance(length, int)
            pieces.append(body[:length])
            offset += length
            if not result.extras["truncated"]:
                break
            assert f"offset={offset}" in result.text
        assert site.paths == ["/long.txt"]
    assert "".join(pieces) == lines
    assert len(pieces) > 3


async def test_C9_twins_share_one_request_and_fresh_asks_again(tool: WebFetchTool) -> None:
    async with Website({"/t": [Answer("old", "text/plain", delay=0.1), Answer("new", "text/plain")]}) as site:
        call: dict[str, object] = {"url": f"{site.url}/t"}
        twins = await asyncio.gather(tool.call(call), tool.call(call), tool.call(call))
        assert site.paths == ["/t"]
        fresh = await tool.call({**call, "fresh": True})
    assert [twin.extras["requests"] for twin in twins] == [1, 0, 0]
    assert "new" in fresh.text


async def test_N44_the_places_that_speak_of_something_are_found_without_a_request(tool: WebFetchTool) -> None:
    filler = "\n\n".join(f"Paragraph {number} tells of boats and ropes. " * 12 for number in range(300))
    text = filler[:60_000] + "\n\nThe lighthouse keeper is called Ottoline Marsh.\n\n" + filler[60_000:]
    async with Website({"/t": Answer(text, "text/plain")}) as site:
        await tool.call({"url": f"{site.url}/t"})
        found = await tool.call({"url": f"{site.url}/t", "find": "name of the lighthouse keeper", "max_chars": 4000})
        nothing = await tool.call({"url": f"{site.url}/t", "find": "zeppelin"})
        assert site.paths == ["/t"]
    assert "Ottoline Marsh" in found.text
    assert len(found.text) < 5000
    place, _, words = found.text.partition("(characters ")[2].partition(")\n")
    assert text[int(place.split()[0]) :].startswith(words[:40])
    assert "Nothing on this page speaks of 'zeppelin'" in nothing.text


async def test_offset_beyond_the_end_says_where_the_end_is(tool: WebFetchTool) -> None:
    result = await read(tool, Answer("short", "text/plain"), "/t", offset=99)
    assert result.error is None
    assert "ends at character 5" in result.text


async def test_K31_a_result_of_the_last_search_is_read_by_its_number(tool: WebFetchTool) -> None:
    context = ToolContext()
    async with Website({"/a": Answer(ARTICLE)}) as site:
        context.sources.add("https://other.example/", "Other")
        context.sources.add(f"{site.url}/a", "Harbour")
        result = await tool.call({"url": "#2"}, context)
        unknown = await tool.call({"url": "#7"}, context)
    assert result.text.startswith("[2] The harbour\n")
    assert context.sources[2].read
    assert unknown.error == "invalid_input"
    assert unknown.text == ("Error: There is no result #7: results #1 to #2 are known. Search first or give a URL.")


@table(
    "status hint",
    (400, "check it"),
    (401, "login"),
    (403, "refuses programs"),
    (404, "search again"),
    (410, "removed"),
    (429, "fewer requests; try another source. It may be asked again in 77 s (Retry-After)"),
    (451, "legal"),
    (500, "later"),
    (503, "later"),
)
async def test_K13_G17_an_error_status_says_what_to_try(make_tool: MakeTool, status: int, hint: str) -> None:
    page = Answer(
        "<h1>Sorry</h1><script>x</script><p>Nothing here.</p>", status=status, headers=(("Retry-After", "77"),)
    )
    result = await read(make_tool(retries=0), page, "/e")
    assert result.error == "http_status"
    assert result.extras["status"] == status
    assert f"status {status}" in result.text
    assert hint in result.text
    assert result.text.endswith("The page says: Sorry Nothing here.")
    assert result.text.startswith("Error: ")
    assert result.untrusted


async def test_C22_a_passing_fault_is_tried_once_more(tool: WebFetchTool) -> None:
    async with Website({"/f": [Answer(status=503), Answer("fine", "text/plain")]}) as site:
        result = await tool.call({"url": f"{site.url}/f"})
        assert site.paths == ["/f", "/f"]
    assert result.error is None


@pytest.mark.parametrize("kind", ["text/plain", "text/markdown", "text/x-markdown", "application/octet-stream"])
async def test_K11_K15_text_and_markdown_come_back_as_they_are_with_lines_of_30_000_characters(
    tool: WebFetchTool, kind: str
) -> None:
    text = "# Title\n\n  two  blanks\tand a tab <b>not html</b>\n\n\n[x](y) " + "long " * 6000 + "\n"
    result = await read(tool, Answer(text, kind), "/r.md")
    assert result.text.partition("\n\n")[2] == text
    assert result.extras["extractor"] == "text"
    assert result.sources[0].title == "Title"


@table(
    "data",
    '<script type="application/ld+json">{"articleBody": "High water came at nine."}</script>',
    '<script id="__NEXT_DATA__" type="application/json">{"page": {"body": "High water came at nine."}}</script>',
    "<noscript><p>High water came at nine.</p></noscript>",
    '<meta name="description" content="High water came at nine.">',
    ids=["linked data", "framework", "noscript", "description"],
)
async def test_K16_N40_data_that_needs_no_script_stands_for_the_page(tool: WebFetchTool, data: str) -> None:
    page = f'<html><head>{data}</head><body><div id="root"></div><script src="/app.js"></script></body></html>'
    result = await read(tool, Answer(page))
    assert result.extras["extractor"] == "fallback-data"
    assert "High water came at nine." in result.text


async def test_K27_characters_that_cannot_be_read_are_told_and_doubted(tool: WebFetchTool) -> None:
    page = b"<p>" + b"Ebbe und Flut und wieder Ebbe, so ging es. " * 40 + "żółć".encode() * 400
    result = await read(tool, Answer(page + b" \xff" * 300 + b"</p>", "text/html"))
    assert "of the characters could not be read (taken as utf-8)." in result.text
    assert "The page may show more to a browser than these" in result.text
    assert "of the characters could not be read." in result.text


async def test_K17_an_empty_body_is_a_result(tool: WebFetchTool) -> None:
    result = await read(tool, Answer(""), "/e")
    assert result.error is None
    assert result.message == "empty body"


async def test_A15_N40_the_html_format_keeps_the_markup_without_scripts(tool: WebFetchTool) -> None:
    async with Website({"/a": Answer(ARTICLE)}) as site:
        result = await tool.call({"url": f"{site.url}/a", "format": "html"})
        raw = await tool.call({"url": f"{site.url}/a", "format": "html", "raw": True})
    assert '<nav><a href="/home">Home</a></nav>' in result.text
    assert "secret" not in result.text
    assert "color: red" not in result.text
    assert result.extras["extractor"] == "raw"
    assert "secret" in raw.text
    assert "color: red" in raw.text


async def test_N41_K30_json_is_indented_whatever_its_header_says(tool: WebFetchTool) -> None:
    body = json.dumps({"name": "Łódź", "list": [1, 2]})
    pages = {f"/{n}": Answer(body, kind) for n, kind in enumerate(["application/json", "text/html", "text/plain", ""])}
    async with Website(pages) as site:
        for path in pages:
            result = await tool.call({"url": site.url + path})
            assert result.text.partition("\n\n")[2] == json.dumps(json.loads(body), indent=2, ensure_ascii=False)
            assert result.extras["extractor"] == "json"


async def test_N41_long_json_keeps_its_structure_and_can_be_read_in_parts(tool: WebFetchTool) -> None:
    value = {"rows": [{"id": number, "text": "x" * 50} for number in range(3215)], "end": True}
    async with Website({"/j": Answer(json.dumps(value), "application/json")}) as site:
        result = await tool.call({"url": f"{site.url}/j"})
        part = await tool.call({"url": f"{site.url}/j", "format": "text", "offset": 60_000})
        assert site.paths == ["/j"]
    length = result.extras["length"]
    assert isinstance(length, int)
    shown = json.loads(result.text.partition("\n\n")[2][:length])
    assert shown["rows"][-1] == "… 3185 more"
    assert shown["end"] is True
    assert result.extras["truncated"] is True
    assert "format=text" in result.text
    assert "Characters 60000 to" in part.text


async def test_W06_a_part_of_a_json_document_is_read_by_its_path(tool: WebFetchTool) -> None:
    rows = [{"id": number, "name": {"first": f"keeper {number}"}, "about": "word " * 40} for number in range(12_000)]
    body = json.dumps({"meta": {"count": 12_000}, "data": {"rows": rows, "a.b": [1, 2]}})
    assert len(body) > 3_000_000
    async with Website({"/j": Answer(body, "application/json")}) as site:

        async def part(path: str) -> str:
            return (await tool.call({"url": f"{site.url}/j", "section": path})).text

        whole = await tool.call({"url": f"{site.url}/j"})
        assert '"keeper 3"' in await part("data.rows[3].name.first")
        assert '"keeper 3"' in await part("/data/rows/3/name/first")
        assert "\n\n2" in await part('data["a.b"][1]')
        assert "Did you mean 'rows'?" in await part("data.row")
        assert "a list with 12,000 items: 0 to 11999" in await part("data.rows[12000]")
        assert "long lists and texts are cut" in await part("data")
        assert site.paths == ["/j"]
    assert len(whole.text) < 6_000, "at three characters a token, 2,000 tokens"
    assert "meta.count (12000)" in whole.text
    assert "data.rows (list of 12,000 items," in whole.text


async def test_K30_feeds_become_lists_of_entries_and_csv_a_table(tool: WebFetchTool) -> None:
    rss = (
        '<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY x SYSTEM "file:///etc/passwd">]><rss version="2.0"><channel>'
        "<title>News</title><item><title>First &amp; best</title><link>https://n.example/1</link>"
        "<pubDate>Mon, 06 May 2024</pubDate><description>&lt;p&gt;About &x; it&lt;/p&gt;</description>"
        "</item></channel></rss>"
    )
    feed = await read(tool, Answer(rss, "application/rss+xml"), "/feed")
    table = await read(tool, Answer("a,b\n1,x|y\n", "text/csv"), "/t.csv")
    assert feed.text.startswith("[1] News\n")
    assert "- [First & best](https://n.example/1) (Mon, 06 May 2024)\n  About" in feed.text
    assert "root:" not in feed.text
    assert feed.extras["extractor"] == "xml"
    assert "| a | b |\n| --- | --- |\n| 1 | x\\|y |" in table.text


async def test_N42_an_image_is_saved_and_described(tool: WebFetchTool, tmp_path: Path) -> None:
    picture = png(30, 20)
    result = await read(tool, Answer(picture, "text/html"), "/p")
    (media,) = result.media
    assert media.mime == "image/png"
    assert Path(media.path).read_bytes() == picture
    assert Path(media.path).is_relative_to(tmp_path / "media")
    assert "[image: image/png, 30 × 20 pixels, 1 kB. It is attached for models that can see it.]" in result.text
    assert result.extras["extractor"] == "image"


async def test_K13_the_words_of_an_error_page_are_given_up_to_300_characters(tool: WebFetchTool) -> None:
    result = await read(tool, Answer("<html><body>" + "word " * 200, status=404), "/gone")
    assert "The page is not there; search again for its new address." in result.text
    assert len(result.text.partition("The page says: ")[2].rstrip()) == 299


@table(
    "body says",
    ("<p>You need to enable JavaScript to run this app.</p>", 'It only says "You need to enable JavaScript'),
    ("<div id='root'></div>", "Tried: main content, visible text, data in the page."),
)
async def test_K16_N40_a_shell_names_javascript_and_what_was_tried(tool: WebFetchTool, body: str, says: str) -> None:
    result = await read(tool, Answer(f"<html><body>{body}<script src='/a.js'></script></body></html>"))
    assert result.error == "no_content"
    assert "may require JavaScript" in result.text
    assert says in result.text


def test_K26_the_usual_limit_of_a_page_is_ten_megabytes() -> None:
    assert WebFetchConfig().max_bytes == 10 * 1024 * 1024


def test_K04_the_description_tells_the_limit_that_is_in_force() -> None:
    told = fetch_description(WebFetchConfig(max_chars=12_345), PromptTemplates())
    assert "At most 12345 characters come back" in told


async def test_K24_a_fault_of_the_tool_itself_is_a_result_too() -> None:
    class Broken(WebFetchTool):
        async def run(self, args: WebFetchArguments, context: ToolContext) -> ToolResult:
            raise RuntimeError("no such thing")

    broken = Broken(WebFetchConfig())
    result = await broken.call({"url": "https://a.example/"})
    await broken.aclose()
    assert (result.error, result.text) == ("failed", "Error: web_fetch failed: RuntimeError: no such thing")


def test_A17_scripts_and_styles_leave_nothing_where_no_parser_is_used() -> None:
    page = "<p>one<script>var a = '<p>two';</script></p><STYLE>p{}</STYLE><!-- <p>three</p> -->"
    page += "<p>f<b>ou</b>r &amp; more</p>"
    assert strip_tags(page) == "one\nfour & more"
    for hidden in ("script", "style"):
        assert strip_tags(f"{page}<{hidden}>var secret = '<p>two</p>'; <b>three") == "one\nfour & more", "it never ends"


async def test_K29_C14_one_user_agent_for_pages_and_it_can_be_set(make_tool: MakeTool) -> None:
    async with Website({"/a": Answer("x", "text/plain")}) as site:
        await make_tool().call({"url": f"{site.url}/a"})
        await make_tool(userAgent="mine/1").call({"url": f"{site.url}/a"})
        agents = [request.headers["user-agent"] for request in site.server.requests]
    assert agents == [PAGE_USER_AGENT, "mine/1"]
    async with trusted_client() as client:
        assert client.headers["user-agent"] == PRODUCT_USER_AGENT
    assert PAGE_USER_AGENT.startswith("Mozilla/5.0 ")


async def test_K12_C14_a_challenged_browser_asks_once_more_as_itself(tool: WebFetchTool) -> None:
    challenge = Answer("no", status=403, headers=(("cf-mitigated", "challenge"),))
    async with Website(
        {"/c": [challenge, Answer("welcome", "text/plain")], "/d": challenge, "/e": Answer("no", status=403)}
    ) as site:
        passed = await tool.call({"url": f"{site.url}/c"})
        refused = await tool.call({"url": f"{site.url}/d"})
        plain = await tool.call({"url": f"{site.url}/e"})
        agents = [request.headers["user-agent"] for request in site.server.requests]
    assert "welcome" in passed.text
    assert (refused.error, plain.error) == ("http_status", "http_status")
    assert agents == [*[PAGE_USER_AGENT, PRODUCT_USER_AGENT] * 2, PAGE_USER_AGENT], "no challenge, no second request"
    assert agents[0].startswith("Mozilla/5.0 ")


async def test_K28_K10_C20_a_page_is_read_without_context_and_without_any_agent(tool: WebFetchTool) -> None:
    async with Website({"/a": Answer(ARTICLE)}) as site:
        result = await tool.call({"url": f"{site.url}/a"}, None)
        reader = PageReader(WebFetchConfig(), whitelist=[LOOPBACK])
        page = await reader.read(PageRequest(f"{site.url}/a"))
        await reader.aclose()
    assert result.error is None
    assert page.content.title == "The harbour"
    assert page.content.text in result.text


async def test_control_and_direction_characters_of_pages_are_removed(tool: WebFetchTool) -> None:
    result = await read(tool, Answer("a\x1b]52;c;evil\x07b\u202ec\U000e0041d", "text/plain; charset=utf-8"), "/a")
    assert result.text.endswith("\n\nabcd")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(status=st.sampled_from([200, 204, 301, 404, 500]), head=st.binary(max_size=60), body=st.binary(max_size=300))
async def test_K24_G29_G31_no_answer_of_a_server_makes_the_tool_raise(
    make_tool: MakeTool, status: int, head: bytes, body: bytes
) -> None:
    async def garbage(request: Request, responder: Responder) -> None:
        await responder.raw(b"HTTP/1.1 %d X\r\nConnection: close\r\nLocation: %s\r\n\r\n" % (status, head) + body)
        responder.close()

    result = await read(make_tool(retries=0), garbage)
    assert result.error is None or result.error in get_args(FetchErrorKind)
    assert result.error is None or result.text.startswith("Error: ")
    assert result.is_error is not result.success
    assert result.is_error is (result.error is not None)
