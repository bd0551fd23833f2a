"""Which hosts the owner lets be read: `tools.web.fetch.allow` and `deny`, on every way that a page can come."""

from pathlib import Path

import pytest

from nanobot.agent.tools.base import Decided, Question, ToolContext
from nanobot.agent.tools.web.search import WebSearchTool
from nanobot.config.loader import load
from nanobot.config.schema_web import WebFetchConfig, WebSearchConfig
from nanobot.errors import ConfigError
from tests.fakes.http_server import HttpServer, Request, Responder
from tests.fakes.search_apis import KEY, Page, SearchApis
from tests.fakes.sections import section
from tests.fakes.website import Answer, Names, Website, redirect
from tests.tables import table
from tests.web.fetch.conftest import MakeTool

NAMES = {
    name: ["93.184.216.34"]
    for name in (
        "good.test en.good.test bad.test deep.bad.test notbad.test github.com raw.githubusercontent.com"
    ).split()
}
PAGES = {
    "/": Answer("<p>Words of this page.</p>"),
    "/picture": Answer("GIF89a", "image/gif"),
    "/a/b/blob/main/c.txt": Answer("<p>Words of this page.</p>"),
    "/a/b/main/c.txt": Answer("Words of this page.", "text/plain"),
}


async def jina(request: Request, responder: Responder) -> None:
    del request
    await responder.json({"code": 200, "data": {"title": "T", "content": "Text of the reader."}})


@table(
    "lists host read",
    ({"deny": ["bad.test"]}, "good.test", True),
    ({"deny": ["bad.test"]}, "bad.test", False),
    ({"deny": ["*.Bad.test"]}, "deep.bad.test.", False),
    ({"deny": ["bad.test"]}, "notbad.test", True),
    ({"deny": ["deep.bad.test"]}, "bad.test", True),
    ({"allow": ["good.test"]}, "en.good.test", True),
    ({"allow": ["good.test"]}, "bad.test", False),
    ({"allow": ["bad.test"], "deny": ["deep.bad.test"]}, "deep.bad.test", False),
    ({"allow": ["bad.test"], "deny": ["deep.bad.test"]}, "bad.test", True),
    ({"allow": ["deep.bad.test"], "deny": ["bad.test"]}, "deep.bad.test", False),
    ({"deny": ["93.184.216.34"]}, "93.184.216.34", False),
    ({"allow": ["good.test"]}, "93.184.216.34", False),
)
@pytest.mark.parametrize("order", ["local-first", "reader-first"])
async def test_W03_a_listed_host_counts_with_its_subdomains_and_deny_wins(
    make_tool: MakeTool, lists: dict[str, list[str]], host: str, read: bool, order: str
) -> None:
    names = Names(NAMES)
    async with Website(PAGES) as site, HttpServer(jina) as reader:
        tool = make_tool(whitelist=(), network=names, readerUrl=reader.url, order=order, **lists)
        port = site.url.rpartition(":")[2]
        result = await tool.call({"url": f"http://{host}:{port}/"})
        assert ("Words of" in result.text or "Text of" in result.text) is read
        if not read:
            assert result.error == "blocked"
            assert "tools.web.fetch." in result.text
            assert (names.asked, names.reached, reader.requests) == ([], [], [])


async def test_W03_redirects_rewritten_addresses_and_pictures_are_judged_as_well(make_tool: MakeTool) -> None:
    names = Names(NAMES)
    pages = dict(PAGES)
    async with Website(pages) as site, HttpServer(jina) as reader:
        port = site.url.rpartition(":")[2]
        pages["/away"] = redirect(f"http://deep.bad.test:{port}/")
        denied = ["bad.test", "raw.githubusercontent.com"]
        for order in ("local-first", "reader-first"):
            tool = make_tool(whitelist=(), network=names, readerUrl=reader.url, order=order, deny=denied)
            urls = ["http://bad.test:{}/picture", "http://github.com:{}/a/b/blob/main/c.txt"]
            urls += ["http://good.test:{}/away"] if order == "local-first" else []
            for url in urls:
                result = await tool.call({"url": url.format(port)})
                assert result.error == "blocked", (order, url, result.text)
                assert "owner's tools.web.fetch.deny" in result.text
        tool = make_tool(whitelist=(), network=names, reader="none", deny=["github.com"])
        assert (await tool.call({"url": f"http://github.com:{port}/a/b/blob/main/c.txt"})).error == "blocked"
        assert reader.requests == []
        assert "bad.test" not in " ".join(names.asked)


async def test_W03_nobody_is_asked_about_a_host_that_is_denied(make_tool: MakeTool) -> None:
    async def asked(question: Question) -> Decided:
        raise AssertionError(question.detail)

    tool = make_tool(whitelist=(), network=Names({"nas.lan": ["192.168.7.7"]}), allowPrivate="ask", deny=["nas.lan"])
    result = await tool.call({"url": "http://nas.lan/"}, ToolContext(session="s", approve=asked))
    assert result.error == "blocked"


async def test_W03_page_text_of_a_denied_host_that_an_engine_brings_is_left_out() -> None:
    async with SearchApis() as apis:
        apis.pages = tuple(
            Page(name, f"https://{name}.test/", "Snippet", f"text of {name}") for name in ("good", "bad")
        )
        config = section(
            WebSearchConfig,
            {"provider": "tavily", "apiKey": KEY, "baseUrl": apis.base("tavily"), "fallback": []},
        )
        tool = WebSearchTool(config, fetch=section(WebFetchConfig, {"deny": ["bad.test"]}))
        result = await tool.call({"query": "q", "include_content": True})
        await tool.aclose()
    assert "text of good" in result.text
    assert "https://bad.test/" in result.text
    assert "text of bad" not in result.text


def test_a_host_that_is_written_as_an_address_is_refused_with_the_right_form(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"tools": {"web": {"fetch": {"deny": ["https://bad.test/x"]}}}}')
    with pytest.raises(ConfigError, match=r"written like example\.org"):
        load(path, env={})
