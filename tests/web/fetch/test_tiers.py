"""Who reads a page and who is told of it: service, this machine and remote reader, on the wire."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from urllib.parse import unquote

import pytest

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.web.fetch import WebFetchTool
from nanobot.config.schema_web import WebFetchConfig
from nanobot.errors import ConfigError, FetchError
from nanobot.results import ToolResult
from nanobot.web.client import PRODUCT_USER_AGENT
from nanobot.web.fetch.remote import ConfiguredService
from nanobot.web.service import ServiceAccess, call_id_header
from tests.fakes.http_server import HttpServer, Request, Responder
from tests.fakes.patience import growing
from tests.fakes.proxies import SocksProxy, WebProxy
from tests.fakes.sections import section
from tests.fakes.waiting import until
from tests.fakes.website import Answer, Names, Website
from tests.tables import table
from tests.web.fetch.conftest import LOOPBACK

Script = Callable[[Request, Responder], Awaitable[None]]

PROSE = "The ferry leaves the old pier at nine and comes back with the evening tide, as it has for many years. "
PAGE = Answer(f"<html><title>Ferry</title><body><article><h1>Ferry</h1>{f'<p>{PROSE}</p>' * 6}</article></body></html>")
SHELL = Answer('<html><body><div id="root"></div><script src="/app.js"></script></body></html>')
PUBLIC = "93.184.216.34"
SITE = "http://site.test"
#: Every page of the public site that these tests read.
PAGES = {
    f"{SITE}/page": PAGE,
    f"{SITE}/shell": SHELL,
    f"{SITE}/gone": Answer("<p>Gone.</p>", status=404),
    f"{SITE}/login": Answer("<title>Sign in</title><p>Please log in to continue reading.</p>"),
    f"{SITE}/wall": Answer("<title>Just a moment...</title><p>Checking your browser before accessing the site.</p>"),
    f"{SITE}/refused": Answer("<p>No robots.</p>", status=403),
}


def text_of(page: str, **headers: str) -> Script:
    async def answer(_request: Request, responder: Responder) -> None:
        await responder.send(200, page, content_type=headers.get("type", "text/markdown"))

    return answer


def jina_page(content: str, **more: object) -> Script:
    async def answer(_request: Request, responder: Responder) -> None:
        await responder.json({"code": 200, "data": {"title": "By Jina", "content": content, **more}})

    return answer


def status(*codes: int, retry_after: str = "") -> Script:
    turns = list(codes)

    async def answer(_request: Request, responder: Responder) -> None:
        headers = (("Retry-After", retry_after),) if retry_after else ()
        await responder.send(turns.pop(0) if len(turns) > 1 else turns[0], "no", headers=headers)

    return answer


async def silent(_request: Request, responder: Responder) -> None:
    await responder.hang(120)


async def reset(_request: Request, responder: Responder) -> None:
    await responder.abort()


@dataclass
class World:
    """A public site behind a proxy, and remote readers that answer as told."""

    web: WebProxy
    service: HttpServer
    reader: HttpServer
    stack: AsyncExitStack
    names: Names = field(default_factory=lambda: Names({"site.test": [PUBLIC], "inner.test": ["10.0.0.8"]}))

    def tool(self, *, service: bool = False, env: dict[str, str] | None = None, **config: object) -> WebFetchTool:
        own = config.pop("service_config", {})
        assert isinstance(own, dict)
        privacy = bool(config.pop("privacy", False))
        whitelist = config.pop("whitelist", (LOOPBACK,))
        assert isinstance(whitelist, tuple)
        settings: dict[str, object] = {"readerUrl": self.reader.url, "timeout": 60, **config}
        if service:
            settings["service"] = {"baseUrl": f"{self.service.url}/fetch", "apiKey": "secret-key-1", **own}
        tool = WebFetchTool(
            section(WebFetchConfig, settings),
            proxy=None,
            whitelist=whitelist,
            network=self.names,
            env={"HTTP_PROXY": self.web.url, "NO_PROXY": "127.0.0.1", **(env or {})},
            privacy=privacy,
        )
        self.stack.push_async_callback(tool.aclose)
        return tool

    @property
    def asked(self) -> tuple[int, int, int]:
        """Requests at the service, the site, the reader."""
        return len(self.service.requests), len(self.web.asked), len(self.reader.requests)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        web = await stack.enter_async_context(WebProxy(PAGES))
        service = await stack.enter_async_context(HttpServer(text_of("# Served\n\nText of the service.")))
        reader = await stack.enter_async_context(HttpServer(jina_page("Text of the reader.")))
        yield World(web, service, reader, stack)


def steps(result: ToolResult) -> list[str]:
    attempts = result.extras["attempts"]
    assert isinstance(attempts, list)
    return [f"{one['step']}: {one['outcome']}" for one in attempts]


async def test_K06_N40_a_configured_service_reads_first_and_the_site_is_not_asked(world: World) -> None:
    result = await world.tool(service=True).call({"url": f"{SITE}/page"})
    assert world.asked == (1, 0, 0)
    assert result.text.startswith("[1] Served\n")
    assert "Text of the service." in result.text
    assert result.extras["extractor"] == "service"
    assert result.untrusted
    assert steps(result) == ["service: ok"]


async def test_K08_without_a_service_the_page_is_read_here_in_one_request(world: World) -> None:
    result = await world.tool().call({"url": f"{SITE}/page"})
    assert world.asked == (0, 1, 0)
    assert result.extras["requests"] == 1
    assert "failed" not in (result.message or "")


async def test_K18_K19_K20_the_service_gets_the_url_the_key_the_call_and_the_own_headers_last(world: World) -> None:
    own = {"headers": {"X-Own": "1", "accept": "text/plain"}, "toolCallIdHeader": "X-Call"}
    read = await world.tool(service=True, service_config=own).call(
        {"url": f"{SITE}/page"}, ToolContext(call_id="call-7")
    )
    assert read.untrusted
    (request,) = world.service.requests
    assert (request.method, request.path, request.json()) == ("POST", "/fetch", {"url": f"{SITE}/page"})
    sent = request.headers
    assert sent["authorization"] == "Bearer secret-key-1"
    assert sent["user-agent"] == PRODUCT_USER_AGENT
    assert sent["x-call"] == "call-7"
    assert (sent["x-own"], sent["accept"]) == ("1", "text/plain")
    own_login = {"headers": {"authorization": "Token own"}, "overrideAuth": True}
    await world.tool(service=True, service_config=own_login).call({"url": f"{SITE}/page"})
    plain = world.service.requests[1].headers
    assert (plain["authorization"], plain["accept"]) == ("Token own", "text/markdown")
    assert not [name for name in plain if "call-id" in name], "no call, no id"
    await world.tool(service=True).call({"url": f"{SITE}/page"}, ToolContext(call_id="call-8"))
    assert world.service.requests[2].headers["x-tool-call-id"] == "call-8"


def test_K19_the_header_of_the_call_follows_the_host() -> None:
    assert call_id_header("", "https://api.kimi.com/coding/v1/fetch") == "X-Msh-Tool-Call-Id"
    assert call_id_header("", "https://api.moonshot.cn/v1/fetch") == "X-Msh-Tool-Call-Id"
    assert call_id_header("", "https://evil.example/api.moonshot.cn") == "X-Tool-Call-Id"
    assert call_id_header("X-Mine", "https://api.kimi.com/") == "X-Mine"


@pytest.mark.parametrize("name", ["authorization", "Host", "Cookie"])
def test_K20_C21_replacing_the_login_needs_a_switch(name: str) -> None:
    service = {"baseUrl": "https://s.example", "headers": {name: "x"}}
    with pytest.raises(ConfigError, match="overrideAuth"):
        section(WebFetchConfig, {"service": service})
    assert section(WebFetchConfig, {"service": {**service, "overrideAuth": True}}).service.override_auth


@table(
    "script says requests",
    (status(503), "HTTP 503", 2),
    (status(404), "HTTP 404", 1),
    (status(401), "HTTP 401", 1),
    (status(302), "HTTP 302", 1),
    (reset, "", 2),
    (text_of(" "), "the answer is empty", 1),
    (text_of("{}", type="application/json"), "the answer is application/json, no text", 1),
    (text_of("<!doctype html><p>x", type="text/plain"), "the answer is text/plain, no text", 1),
    (text_of("x" * 10_500_000), "more than 10 MB", 1),
    ids=["503", "404", "401", "redirect", "reset", "empty", "json", "html", "large"],
)
async def test_K07_K18_K23_C22_a_failing_service_is_named_and_the_page_read_here(
    world: World, script: Script, says: str, requests: int
) -> None:
    world.service.handler = script
    result = await world.tool(service=True).call({"url": f"{SITE}/page"})
    assert result.error is None
    assert world.asked == (requests, 1, 0)
    assert "service failed: " in (result.message or "")
    assert "read locally" in (result.message or "")
    assert says in (result.message or "")
    assert "service failed" in result.text
    assert steps(result)[-1] == "local: ok"
    assert "secret-key-1" not in repr(result)


@table(
    "script kind",
    (status(404), "service"),
    (status(429, retry_after="60"), "rate_limited"),
    (status(401), "auth"),
    (reset, "network"),
    (silent, "timeout"),
    ids=["404", "429", "401", "reset", "silent"],
)
async def test_K23_each_failure_of_a_service_has_its_kind(world: World, script: Script, kind: str) -> None:
    world.service.handler = script
    async with aclosing(ConfiguredService(lambda: ServiceAccess("k", f"{world.service.url}/fetch"))) as service:
        with pytest.raises(FetchError) as caught:
            await service.read(f"{SITE}/page", call_id="", timeout=0.3 if kind == "timeout" else 60)
    assert caught.value.kind == kind


async def test_K07_a_service_that_is_not_there_is_named_and_the_page_read_here(world: World) -> None:
    own = {"baseUrl": "http://127.0.0.1:9/fetch"}
    result = await world.tool(service=True, service_config=own).call({"url": f"{SITE}/page"})
    assert (result.error, steps(result)[-1]) == (None, "local: ok")
    assert "service failed: " in result.text


@growing(2, 20, 100)
async def test_K07_a_silent_service_leaves_time_to_read_the_page_here(world: World, limit: float) -> None:
    tool = world.tool(service=True, timeout=limit)
    await tool.call({"url": f"{SITE}/page"}, ToolContext(privacy=True))  # starts what takes pages apart
    world.service.handler = silent
    result = await tool.call({"url": f"{SITE}/page", "fresh": True})
    assert result.error is None
    assert f"service failed: no answer within {0.6 * limit:g} s; read locally" in (result.message or "")


async def test_C22_a_service_that_recovers_is_asked_twice(world: World) -> None:
    async def answer(_request: Request, responder: Responder) -> None:
        again = len(world.service.requests) > 1
        await responder.send(200 if again else 429, "Text.", headers=(("Retry-After", "0"),), content_type="text/plain")

    world.service.handler = answer
    result = await world.tool(service=True).call({"url": f"{SITE}/page"})
    assert world.asked == (2, 0, 0)
    assert result.extras["extractor"] == "service"


async def test_K09_K22_a_missing_key_leaves_reading_here_and_is_named_when_all_fails(world: World) -> None:
    tool = world.tool(service=True, service_config={"apiKey": ""})
    good = await tool.call({"url": f"{SITE}/page"})
    bad = await tool.call({"url": f"{SITE}/gone"})
    assert good.error is None
    assert world.asked[0] == 0
    assert bad.error == "http_status"
    assert "status 404" in bad.text
    assert "Fetch service not configured" in bad.text


async def test_K05_a_changed_key_counts_at_the_next_call(world: World) -> None:
    env = {"KIMI_FETCH_API_KEY": "first-key"}
    tool = WebFetchTool(
        section(WebFetchConfig, {"service": {"baseUrl": f"{world.service.url}/fetch"}}), network=world.names, env=env
    )
    world.stack.push_async_callback(tool.aclose)
    await tool.call({"url": f"{SITE}/page"})
    env["KIMI_FETCH_API_KEY"] = "second-key"
    await tool.call({"url": f"{SITE}/page", "fresh": True})
    sent = [request.headers["authorization"] for request in world.service.requests]
    assert sent == ["Bearer first-key", "Bearer second-key"]


async def test_C3_K16_N40_a_page_that_needs_javascript_goes_to_the_remote_reader(world: World) -> None:
    result = await world.tool(readerKey="jina-key-1").call({"url": f"{SITE}/shell"})
    assert world.asked == (0, 1, 1)
    assert "Text of the reader." in result.text
    assert result.extras["extractor"] == "jina"
    assert "read by jina" in (result.message or "")
    (request,) = world.reader.requests
    assert unquote(request.target) == f"/{SITE}/shell"
    assert request.headers["authorization"] == "Bearer jina-key-1"
    assert request.headers["user-agent"] == PRODUCT_USER_AGENT


async def test_K16_without_a_reader_the_error_names_javascript(world: World) -> None:
    result = await world.tool(reader="none").call({"url": f"{SITE}/shell"})
    assert result.error == "no_content"
    assert "JavaScript" in result.text
    assert world.asked == (0, 1, 0)


@pytest.mark.parametrize(
    ("path", "asked"), [("page", 0), ("gone", 0), ("login", 0), ("shell", 1), ("wall", 1), ("refused", 1)]
)
async def test_C3_only_pages_that_fail_the_gate_leave_this_machine(world: World, path: str, asked: int) -> None:
    await world.tool(retries=0).call({"url": f"{SITE}/{path}"})
    assert world.asked[2] == asked


async def test_K16_a_reader_that_fails_too_is_named(world: World) -> None:
    world.reader.handler = jina_page("x", warning="Target URL returned error 404: Not Found")
    result = await world.tool().call({"url": f"{SITE}/shell"})
    assert result.error == "no_content"
    assert "Jina reader" in result.text
    assert "404" in result.text


async def test_N37_reader_first_asks_the_reader_and_then_reads_here(world: World) -> None:
    both = world.tool(order="reader-first", service=True)
    assert (await both.call({"url": f"{SITE}/page"})).extras["extractor"] == "jina"
    assert world.asked == (0, 0, 1)
    world.reader.requests.clear()
    tool = world.tool(order="reader-first")
    assert (await tool.call({"url": f"{SITE}/page"})).extras["extractor"] == "jina"
    assert world.asked == (0, 0, 1)
    world.reader.handler = status(500)
    result = await tool.call({"url": f"{SITE}/page", "fresh": True})
    assert steps(result) == ["jina: HTTP 500", "local: ok"]
    assert "Ferry" in result.text


async def test_C3_service_first_never_asks_the_reader(world: World) -> None:
    world.service.handler = status(404)
    result = await world.tool(service=True, order="service-first").call({"url": f"{SITE}/shell"})
    assert result.error == "no_content"
    assert world.asked == (1, 1, 0)


async def test_firecrawl_reads_too_and_its_success_does_not_hide_a_failed_page(world: World) -> None:
    answers: list[dict[str, object]] = [
        {"markdown": "Text by Firecrawl.", "metadata": {"statusCode": 200, "title": "T"}},
        {"markdown": "Not found", "metadata": {"statusCode": 404}},
    ]

    async def answer(_request: Request, responder: Responder) -> None:
        await responder.json({"success": True, "data": answers[len(world.reader.requests) - 1]})

    world.reader.handler = answer
    tool = world.tool(reader="firecrawl")
    good = await tool.call({"url": f"{SITE}/shell"})
    bad = await tool.call({"url": f"{SITE}/shell", "fresh": True})
    assert good.extras["extractor"] == "firecrawl"
    body = world.reader.requests[0].json()
    assert (body["url"], body["formats"], body["skipTlsVerification"]) == (f"{SITE}/shell", ["markdown"], False)
    assert bad.error == "no_content"


SECRETS = (
    "?token=abc",
    "?a=1&api_key=x1",
    "?accessToken=x",
    "?X-Amz-Signature=0a1b",
    "?q=eyJhbGciOiJIUzI1NiJ9.x.y",
    "?id=a8f3c2e19b7d4056a8f3c2e19b7d4056",
    "#session=1",
    "/bot123456789:AAExampleExampleExampleExample_1/getMe",
    "/sk-abcdefghijklmnop1234",
)


async def test_a_reader_is_asked_for_the_very_page_and_not_for_what_its_path_folds_into(world: World) -> None:
    """Whatever stands in the target, the reader's own host gets one segment, which decodes to the judged URL."""
    tool = world.tool(order="reader-first", readerUrl=f"{world.reader.url}/read", readerKey="secret-key-2")
    targets = (
        f"{SITE}/../169.254.169.254/latest/meta-data/",
        f"{SITE}/../../../account/keys",
        f"{SITE}/./../..//10.0.0.8/?a=1&b=/../c",
        f"{SITE}/%2e%2e/%2e%2e/account",
        f"{SITE}/..;/x#/../y",
    )
    for url in targets:
        result = await tool.call({"url": url})
        assert result.error is None, result.text
    assert [request.target.count("/") for request in world.reader.requests] == [2] * len(targets)
    assert [unquote(request.target.removeprefix("/read/")) for request in world.reader.requests] == list(targets)


async def test_the_service_is_asked_for_the_url_as_it_was_judged(world: World) -> None:
    world.names = Names({"xn--hfen-loa.test": [PUBLIC]})
    await world.tool(service=True).call({"url": "HTTP://HÄFEN.test:80/a/../b"})
    assert world.service.requests[0].json() == {"url": "http://xn--hfen-loa.test/a/../b"}


@pytest.mark.parametrize("order", ["local-first", "reader-first", "service-first"])
async def test_G08_C2_nobody_else_is_told_of_private_or_secret_urls_or_in_privacy_mode(
    world: World, order: str
) -> None:
    tool = world.tool(service=True, order=order, whitelist=(LOOPBACK, "10.0.0.0/8"), retries=0)
    strict = world.tool(service=True, order=order, privacy=True)
    async with Website({"/shell": SHELL, "/page": PAGE}) as inner:
        own = [await tool.call({"url": f"{inner.url}{path}"}) for path in ("/shell", "/page")]
    for ending in SECRETS:
        await tool.call({"url": f"{SITE}/shell{ending}"})
    await tool.call({"url": f"{SITE.replace('://', '://ann:pass@')}/shell"})
    for path in ("page", "shell"):
        await tool.call({"url": f"{SITE}/{path}"}, ToolContext(session="p", privacy=True))
        await strict.call({"url": f"{SITE}/{path}"})
    for refused in ("http://inner.example.lan/", "http://169.254.169.254/", "file:///etc/passwd", "http://gone.test/"):
        await tool.call({"url": refused})
    assert (len(world.service.requests), len(world.reader.requests)) == (0, 0)
    assert [one.error for one in own] == ["no_content", None]
    assert not any(inner.url in url for url in world.web.asked)


async def test_privacy_mode_says_why_no_reader_was_asked(world: World) -> None:
    result = await world.tool().call({"url": f"{SITE}/shell"}, ToolContext(privacy=True))
    assert "No remote reader was asked: privacy mode is on" in result.text


async def test_G08_G26_C2_private_hosts_are_reached_directly_and_public_ones_through_the_proxy(world: World) -> None:
    tool = world.tool(env={"NO_PROXY": ""})
    async with Website({"/": Answer("here", "text/plain")}) as inner:
        own = await tool.call({"url": f"{inner.url}/"})
        assert inner.paths == ["/"]
    await tool.call({"url": f"{SITE}/page"})
    assert "here" in own.text
    assert world.web.asked == [f"{SITE}/page"]


async def test_G26_a_host_that_needs_no_proxy_is_asked_without_it(world: World) -> None:
    result = await world.tool(env={"NO_PROXY": "site.test"}, retries=0).call({"url": f"{SITE}/page"})
    assert result.error == "network"
    assert (world.web.asked, world.names.reached) == ([], [PUBLIC])


async def test_a_name_that_only_the_operator_allows_goes_neither_to_a_proxy_nor_to_a_reader(world: World) -> None:
    world.names = Names({"nas.lan": [PUBLIC]})
    for order in ("local-first", "reader-first"):
        await world.tool(whitelist=("nas.lan",), order=order, retries=0).call({"url": "http://nas.lan/"})
    assert (world.asked, world.names.reached) == ((0, 0, 0), [PUBLIC] * 2)


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
async def test_G26_C28_a_socks_proxy_carries_public_hosts_after_they_were_judged_here(scheme: str) -> None:
    names = Names({"site.test": [PUBLIC], "inner.test": ["10.0.0.8"]})
    async with Website({"/": Answer("through", "text/plain")}) as site, SocksProxy(site.port) as socks:
        async with aclosing(WebFetchTool(WebFetchConfig(), proxy=f"{scheme}://{socks.address}", network=names)) as tool:
            good = await tool.call({"url": "http://site.test/"})
            bad = await tool.call({"url": "http://inner.test/"})
        assert socks.asked == [("site.test", 80)]
    assert "through" in good.text
    assert bad.error == "blocked"


async def test_G25_an_aborted_read_closes_its_sockets_at_once(world: World) -> None:
    world.service.handler = silent
    tool = world.tool(service=True)
    call = asyncio.create_task(tool.call({"url": f"{SITE}/page"}))
    await until(lambda: bool(world.service.requests))
    call.cancel()
    await asyncio.wait([call], timeout=120)
    assert call.cancelled()
    await world.service.all_closed()
