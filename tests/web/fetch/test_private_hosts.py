"""Hosts that are the owner's to open: of the own network, and those listed in `allow` and `deny`."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nanobot.agent.tools.base import Approval, Decided, Question, ToolContext
from nanobot.agent.tools.web.fetch import WebFetchTool
from nanobot.agent.tools.web.search import WebSearchTool
from nanobot.bus.events import Sender
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
    "nas.lan": ["192.168.7.7"],
    "other.test": ["192.168.7.8"],
    "far.test": ["10.0.0.9"],
    "here.lan": ["127.0.0.1"],
    "link.test": ["169.254.7.7"],
    "mixed.test": ["192.168.7.9", "127.0.0.1"],
    "github.com": ["192.168.7.7"],
    "raw.githubusercontent.com": ["192.168.7.7"],
}


@dataclass
class Owner:
    """Answers what it is asked, in order; `asked` keeps the hosts, `details` all that was shown."""

    answers: list[Approval]
    asked: list[str] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    permitted: set[tuple[str, str]] = field(default_factory=set)

    async def __call__(self, question: Question) -> Decided:
        lasting = {one.holds_for for one in question.lasting}
        if lasting <= self.permitted:
            return Decided("always")
        assert (question.title, "own network" in question.detail) == ("Confirm Web Fetch", True)
        self.details.append(question.detail)
        self.asked.append(question.detail.partition("Host: ")[2].partition("\n")[0])
        await asyncio.sleep(0)  # others come in between
        answer = self.answers.pop(0)
        self.permitted |= lasting if answer == "always" else set()
        return Decided(answer)


def asking(make_tool: MakeTool) -> WebFetchTool:
    return make_tool(whitelist=(), network=Names(NAMES), allowPrivate="ask")


async def read(tool: WebFetchTool, url: str, owner: Owner | None) -> str:
    result = await tool.call({"url": url, "fresh": True}, ToolContext(session="s", approve=owner))
    return result.error or "read"


async def test_a_host_whose_addresses_come_in_another_order_each_time_is_asked_about(make_tool: MakeTool) -> None:
    there = ["192.168.7.7", "192.168.7.8"]
    names = Names({"nas.lan": [there[:: (-1) ** turn] for turn in range(20)]})
    async with Website({"/": Answer("hello", "text/plain")}) as site:
        tool = make_tool(whitelist=(), network=names, allowPrivate="ask")
        for owner, result in ((Owner(["no"]), "denied"), (Owner(["once"]), "read")):
            assert await read(tool, f"http://nas.lan:{site.port}/", owner) == result


async def test_G27_private_hosts_are_refused_by_default_and_read_where_they_are_allowed(make_tool: MakeTool) -> None:
    owner = Owner(["once"])
    async with Website({"/": Answer("hello", "text/plain")}) as site:
        assert await read(make_tool(whitelist=()), f"{site.url}/", owner) == "blocked"
        assert await read(make_tool(whitelist=(), allowPrivate="allow"), f"{site.url}/", owner) == "read"
    assert owner.asked == []


@pytest.mark.parametrize("config", [{"allowPrivate": "allow"}, {"whitelist": ("192.168.7.0/24",)}])
async def test_G27_addresses_of_the_own_network_are_read_where_that_is_configured(
    make_tool: MakeTool, config: dict[str, object]
) -> None:
    tool = make_tool(**{"whitelist": (), **config}, network=Names(NAMES))
    async with Website({"/": Answer("hello", "text/plain")}) as site:
        assert await read(tool, f"http://192.168.7.7:{site.port}/", None) == "read"
        local = await read(tool, f"http://nas.lan:{site.port}/", None)
    assert local == "blocked", "a local name is allowed by its name"


async def test_G27_C2_the_owner_is_asked_and_the_answer_counts_once(make_tool: MakeTool) -> None:
    tool, owner = asking(make_tool), Owner(["once", "no", "once"])
    async with Website({"/": Answer("hello", "text/plain")}) as site:
        literal, local = f"http://192.168.7.7:{site.port}/", f"http://nas.lan:{site.port}/"
        assert [await read(tool, literal, owner) for _ in range(2)] == ["read", "denied"]
        assert await read(tool, local, owner) == "read"
        assert await read(tool, local, None) == "blocked"
        assert len(site.paths) == 2
    assert owner.asked == ["192.168.7.7", "192.168.7.7", "nas.lan"]


async def test_G24_always_for_a_host_leaves_other_hosts_to_be_asked(make_tool: MakeTool) -> None:
    tool, owner = asking(make_tool), Owner(["always", "no", "no", "always"])
    async with Website({"/": Answer("hello", "text/plain")}) as site:
        first, second = f"http://192.168.7.7:{site.port}/", f"http://nas.lan:{site.port}/"
        third = f"http://other.test:{site.port}/"
        got = [await read(tool, url, owner) for url in (first, first, second, second, third, third)]
        elsewhere = await tool.call({"url": first}, ToolContext(session="another"))
        other = await tool.call({"url": first}, ToolContext(session="s", sender=Sender("somebody else")))
    assert got == ["read", "read", "denied", "denied", "read", "read"]
    assert owner.asked == ["192.168.7.7", "nas.lan", "nas.lan", "other.test"]
    assert (elsewhere.error, other.error) == ("blocked", "blocked")
    assert elsewhere.text.endswith("tools.ssrfWhitelist. Nobody can be asked here.")


@table(
    "url",
    "http://169.254.169.254/",
    "http://link.test/",
    "http://[fe80::1]/",
    "http://0.0.0.0/",
    "http://127.0.0.1/",
    "http://[::1]/",
    "http://here.lan/",
    "http://mixed.test/",
)
async def test_C2_loopback_link_local_and_metadata_addresses_are_never_asked_for(make_tool: MakeTool, url: str) -> None:
    owner = Owner(["always", "always"])
    tool = asking(make_tool)
    async with Website({"/": Answer("hello", "text/plain")}) as site:
        assert await read(tool, f"http://nas.lan:{site.port}/", owner) == "read"
    assert await read(tool, url, owner) == "blocked"
    assert owner.asked == ["nas.lan"]


async def test_consent_for_one_host_does_not_reach_the_host_it_leads_to(make_tool: MakeTool) -> None:
    owner = Owner(["always", "no"])
    async with Website({"/secret": Answer("secret", "text/plain")}) as inner:
        pages = {"/": redirect(f"http://far.test:{inner.port}/secret")}
        async with Website(pages) as site:
            assert await read(asking(make_tool), f"http://nas.lan:{site.port}/", owner) == "blocked"
        assert inner.paths == []


@pytest.mark.parametrize("later", ["192.168.7.1", "127.0.0.1", "169.254.7.7"])
async def test_the_yes_is_for_the_address_that_was_shown_not_for_what_the_name_means_next(
    make_tool: MakeTool, later: str
) -> None:
    """Look-ups: the question, and nothing more until the next read."""
    names = Names({"nas.lan": [["192.168.7.7"], [later]]})
    tool, owner = make_tool(whitelist=(), network=names, allowPrivate="ask"), Owner(["always", "no"])
    async with Website({"/": Answer("hello", "text/plain")}) as site:
        got = [await read(tool, f"http://nas.lan:{site.port}/", owner) for _ in range(2)]
    assert got == ["read", "denied" if later == "192.168.7.1" else "blocked"]
    assert names.reached == ["192.168.7.7"]
    assert [("192.168.7.7" in detail, later in detail) for detail in owner.details] == [(True, False), (False, True)][
        : len(owner.details)
    ]


async def test_G23_the_question_shows_reason_host_the_address_that_is_read_and_what_leaves(make_tool: MakeTool) -> None:
    owner = Owner(["no", "no"])
    tool = asking(make_tool)
    assert await read(tool, "http://nas.lan:8080/disk?full=1", owner) == "denied"
    assert await read(tool, "https://github.com/ada/notes/blob/main/plan.md", owner) == "denied"
    assert owner.details[0].split("\n") == [
        "Reason: nas.lan (192.168.7.7) is an address of your own network.",
        "Host: nas.lan",
        "Address: http://nas.lan:8080/disk?full=1",
        (
            "What leaves: a request for each address, from this machine straight to nas.lan (192.168.7.7). "
            "What it answers goes to the model."
        ),
        "Always: read pages of nas.lan (192.168.7.7) in your own network, until you take it back with /permissions.",
    ]
    assert "Host: raw.githubusercontent.com\n" in owner.details[1]
    assert "Address: https://raw.githubusercontent.com/ada/notes/main/plan.md\n" in owner.details[1]


async def test_W11_one_call_asks_once_and_marks_what_is_refused_anyway(make_tool: MakeTool) -> None:
    owner = Owner(["once", "no"])
    tool = asking(make_tool)
    pages = {path: Answer("hello", "text/plain") for path in ("/a", "/b", "/c")}
    async with Website(pages) as site:
        port = site.port
        wanted = [f"http://nas.lan:{port}/a", f"http://nas.lan:{port}/b", f"http://other.test:{port}/c"]
        call: dict[str, object] = {"urls": [*wanted, f"http://127.0.0.1:{port}/d"]}
        result = await tool.call(call, ToolContext(session="s", approve=owner))
        denied = await tool.call({**call, "fresh": True}, ToolContext(session="s", approve=owner))
        assert sorted(site.paths) == ["/a", "/b", "/c"]
    assert (result.error, result.partial, denied.error) == (None, True, "denied")
    assert owner.asked == ["nas.lan, other.test"] * 2
    assert [line for line in owner.details[0].split("\n") if line.startswith("Address: ")] == [
        f"Address: {url}" for url in wanted
    ]
    assert f"Refused whatever you answer: http://127.0.0.1:{port}/d (127.0.0.1 is in the special" in owner.details[0]


async def test_calls_that_want_one_host_at_the_same_time_ask_once_after_an_always(make_tool: MakeTool) -> None:
    tool, owner = asking(make_tool), Owner(["always"])
    async with Website({f"/{number}": Answer("hello", "text/plain") for number in range(3)}) as site:
        local = f"http://nas.lan:{site.port}"
        got = await asyncio.gather(*(read(tool, f"{local}/{number}", owner) for number in range(2)))
    assert len(owner.asked) == 1
    assert got == ["read", "read"]


async def test_yes_for_once_is_for_the_address_that_was_shown(make_tool: MakeTool) -> None:
    tool, owner = asking(make_tool), Owner(["once", "once"])
    async with Website({"/a": Answer("hello", "text/plain"), "/b": Answer("hello", "text/plain")}) as site:
        await asyncio.gather(*(read(tool, f"http://nas.lan:{site.port}/{name}", owner) for name in "ab"))
    assert len(owner.asked) == 2
    assert sorted(detail.partition("Address: ")[2].split("\n")[0][-2:] for detail in owner.details) == ["/a", "/b"]


LISTED = {
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
    names = Names(LISTED)
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
    names = Names(LISTED)
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
            WebSearchConfig, {"provider": "tavily", "apiKey": KEY, "baseUrl": apis.base("tavily"), "fallback": []}
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
