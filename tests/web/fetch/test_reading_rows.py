"""The names, formats and readers of `web_fetch`."""

import struct
import zlib

import pytest

from nanobot.agent.tools.registry import ToolRegistry
from nanobot.agent.tools.web_fetch import WebFetchTool
from tests.agent.harness import run_tool
from tests.fakes.website import Answer, Website

PAGE = (
    "<html><head><title>Piers</title></head><body><article><h1>Piers</h1><p>"
    + "The old pier was built of oak and stood for ninety years before the storm. " * 4
    + "See the <a href='/plan'>plan</a> of it.<img src='/pier.png' alt='A pier'></p></article></body></html>"
)


def png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0\x80")) + chunk(b"IEND", b"")


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


async def test_G19_text_has_neither_addresses_nor_images_and_markdown_has_absolute_links(tool: WebFetchTool) -> None:
    async with Website({"/": Answer(PAGE)}) as site:
        text = (await tool.call({"url": f"{site.url}/", "format": "text"})).text.partition("\n\n")[2]
        markdown = (await tool.call({"url": f"{site.url}/"})).text
    assert "See the plan of it." in text
    assert "http" not in text
    assert "![" not in text
    assert f"[plan]({site.url}/plan)" in markdown
    assert "A pier" in markdown


async def test_N40_the_header_names_what_has_read_the_page(tool: WebFetchTool) -> None:
    pages = {
        "/html": Answer(PAGE),
        "/json": Answer('{"a": 1}', "application/json"),
        "/text": Answer("plain words", "text/plain"),
        "/csv": Answer("a,b\n1,2\n", "text/csv"),
        "/xml": Answer("<?xml version='1.0'?><note><to>Ann</to></note>", "application/xml"),
        "/image": Answer(png(), "image/png"),
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
