"""The names, formats and readers of `web_fetch`."""

import pytest

from nanobot.agent.tools.registry import ToolRegistry
from nanobot.agent.tools.web.fetch import WebFetchTool
from tests.agent.harness import run_tool
from tests.fakes.files import png
from tests.fakes.http_server import Request, Responder
from tests.fakes.website import Answer, Website
from tests.tables import table
from tests.web.fetch.conftest import MakeTool

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
