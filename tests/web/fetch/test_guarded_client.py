"""The guard at the socket: what arrives where, whatever names, redirects and proxies say."""

import asyncio
import contextlib
import ipaddress
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.web.fetch import WebFetchTool
from nanobot.config.proxy import Proxies
from nanobot.errors import AddressBlocked, FetchError
from nanobot.security.network import FAKE_IP, NO_EXCEPTIONS, Exceptions, judge_url
from nanobot.utils.connections import Connections, Stream, certificates
from nanobot.web.client import Guard, SystemNetwork, guarded_client, trusted_client
from nanobot.web.fetch.download import _next
from tests.fakes.http_server import HttpServer, Request, Responder
from tests.fakes.proxies import WebProxy
from tests.fakes.website import Answer, Names, Script, Website, redirect
from tests.tables import table
from tests.web.fetch.conftest import MakeTool, read

ROOT = Path(__file__).parents[3]


async def test_a_private_address_is_not_connected_to(make_tool: MakeTool) -> None:
    async with Website({"/": Answer("secret", "text/plain")}) as site:
        result = await make_tool(whitelist=()).call({"url": f"{site.url}/"})
        assert site.server.connections == 0
    assert result.error == "blocked"
    assert "ssrfWhitelist" in result.text


async def test_a_name_is_looked_up_once_and_the_judged_address_is_used(make_tool: MakeTool) -> None:
    names = Names({"site.test": [["127.0.0.1"], ["10.0.0.1"]]})
    async with Website({"/": Answer("hello", "text/plain")}) as site:
        result = await make_tool(network=names).call({"url": f"http://site.test:{site.port}/"})
        host = site.server.requests[0].headers["host"]
    assert result.error is None
    assert names.asked == ["site.test"]
    assert host == f"site.test:{site.port}"


async def test_K30_every_hop_of_a_redirect_is_judged(make_tool: MakeTool) -> None:
    names = Names({"site.test": ["127.0.0.1"], "inner.test": ["127.0.0.1"]})
    tool = make_tool(whitelist=("site.test",), network=names)
    async with Website({"/secret": Answer("secret", "text/plain")}) as inner:
        targets = {
            "/literal": f"{inner.url}/secret",
            "/name": f"http://inner.test:{inner.port}/secret",
            "/file": "file:///etc/passwd",
            "/user": f"http://x@site.test:{inner.port}/secret",
        }
        async with Website({path: redirect(target) for path, target in targets.items()}) as site:
            for path in targets:
                result = await tool.call({"url": f"http://site.test:{site.port}{path}"})
                assert result.error == "blocked", path
        assert inner.server.connections == 0


async def test_C13_N39_five_redirects_are_followed_and_a_sixth_is_not(tool: WebFetchTool) -> None:
    pages: dict[str, Answer] = {f"/{n}": redirect(f"/{n + 1}") for n in range(7)}
    async with Website({**pages, "/7": Answer("end", "text/plain")}) as site:
        near = await tool.call({"url": f"{site.url}/2"})
        far = await tool.call({"url": f"{site.url}/1"})
    assert near.extras["finalUrl"] == f"{site.url}/7"
    assert near.text.splitlines()[2] == f"finalUrl: {site.url}/7"
    assert far.error == "network"
    assert "more than 5" in far.text


def test_C13_a_redirect_from_https_to_http_is_refused() -> None:
    here = judge_url("https://a.example/x")
    assert _next(here, "//b.example/y z", NO_EXCEPTIONS).url == "https://b.example/y%20z"
    with pytest.raises(FetchError, match="plain http"):
        _next(here, "http://a.example/y", NO_EXCEPTIONS)


async def test_a_dead_address_does_not_keep_the_next_one_from_being_tried(make_tool: MakeTool) -> None:
    names = Names({"site.test": ["::1", "127.0.0.1"]}, dead=["::1"])
    tool = make_tool(whitelist=("127.0.0.1", "::1"), network=names)
    async with Website({"/": Answer("hello", "text/plain")}) as site:
        result = await tool.call({"url": f"http://site.test:{site.port}/"})
    assert result.error is None


class Dead(SystemNetwork):
    """Names whose addresses never answer; `tried` are those that were. Without any, look-ups hang."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses
        self.tried: list[str] = []

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        if not self.addresses:
            raise TimeoutError
        return [address for address in self.addresses if address]

    async def connect(self, address: str, port: int, timeout: float | None) -> Stream:
        self.tried.append(address)
        raise httpx.ConnectTimeout("nobody answers")


async def test_of_many_addresses_the_first_six_are_tried(make_tool: MakeTool) -> None:
    network = Dead(*(f"93.184.216.{number}" for number in range(8)))
    result = await make_tool(network=network, retries=0).call({"url": "http://site.test/"})
    assert (result.error, result.extras["phase"]) == ("timeout", "connect")
    assert network.tried == list(network.addresses[:6])


async def test_a_name_without_an_address_and_a_look_up_that_takes_too_long_are_named(make_tool: MakeTool) -> None:
    void = await make_tool(network=Dead("")).call({"url": "http://void.test/"})
    slow = await make_tool(network=Dead()).call({"url": "http://slow.test/"})
    assert (void.error, void.extras["phase"], "(no address)" in void.text) == ("network", "dns", True)
    assert (slow.error, slow.extras["host"], slow.extras["phase"]) == ("timeout", "slow.test", "dns")
    assert "Looking up slow.test took too long" in slow.text


async def test_the_client_itself_judges_the_text_of_an_address_before_anybody_is_asked() -> None:
    names = Names({"printer.local": ["93.184.216.34"]})
    async with guarded_client(Guard(network=names)) as client:
        with pytest.raises(AddressBlocked, match=r"printer\.local is a local name"):
            await client.get("http://printer.local/")
    assert names.asked == []


async def test_a_connection_that_is_used_again_is_bounded_anew_and_one_that_has_gone_is_not_used() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    most = 40_000 // len(interim)
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    async def page(request: Request, responder: Responder) -> None:
        await responder.raw({"/most": most, "/more": 4 * most}.get(request.path, 0) * interim + answer)
        if request.path == "/last":
            responder.close()

    async with HttpServer(page) as server, trusted_client() as client:
        for path in ("/most", "/most", "/last"):
            assert (await client.get(f"{server.url}{path}")).text == "ok"
        assert server.connections == 1
        await server.all_closed()
        assert (await client.get(f"{server.url}/")).text == "ok"
        with pytest.raises(httpx.RemoteProtocolError, match="more than 65 kB came before the answer"):
            await client.get(f"{server.url}/more")
        assert server.connections == 2


async def test_G30_a_broken_connection_is_told_in_words_with_a_next_step(make_tool: MakeTool) -> None:
    async def reset(request: Request, responder: Responder) -> None:
        await responder.abort()

    async with Website({"/": reset}) as site:
        broken = await make_tool(retries=0).call({"url": f"{site.url}/"})
    gone = await make_tool(retries=0).call({"url": f"{site.url}/"})
    assert broken.text == "Error: 127.0.0.1 broke the connection. Try again or another source."
    assert (broken.extras["host"], broken.extras["phase"]) == ("127.0.0.1", "read")
    assert gone.text.startswith("Error: 127.0.0.1 could not be reached: ")
    assert gone.text.endswith(". Try again or another source.")


async def test_G30_an_unknown_name_is_named_with_its_phase(make_tool: MakeTool) -> None:
    result = await make_tool(network=Names({})).call({"url": "http://gone.test/"})
    assert result.error == "network"
    assert (result.extras["host"], result.extras["phase"]) == ("gone.test", "dns")
    said = "gone.test was not found (Name or service not known). Check the address, or use another source."
    assert result.text == f"Error: {said}"


async def test_G30_a_refused_connection_and_a_failed_handshake_are_named(tool: WebFetchTool) -> None:
    async def plain(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(says)
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        for says in (b"this is no TLS\r\n\r\n", b""):
            tls = await tool.call({"url": f"https://127.0.0.1:{port}/", "fresh": True})
            assert (tls.error, tls.extras["phase"]) == ("network", "tls"), says
    refused = await tool.call({"url": f"https://127.0.0.1:{port}/"})
    assert (refused.error, refused.extras["phase"]) == ("network", "connect")


def company(folder: Path) -> Path:
    """A key and a certificate that signs itself, for `site.test` and this machine."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    names = [x509.DNSName("site.test"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    at = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    made = made.not_valid_before(at - timedelta(days=1)).not_valid_after(at + timedelta(days=1))
    signed = made.add_extension(x509.SubjectAlternativeName(names), critical=False).sign(key, hashes.SHA256())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (file := folder / "company.pem").write_bytes(private + signed.public_bytes(Encoding.PEM))
    return file


async def test_over_tls_a_site_an_endpoint_and_a_proxy_are_asked_where_their_certificate_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        writer.close()

    guard = Guard(Exceptions.parse(("127.0.0.1/32",)), Names({"site.test": ["127.0.0.1"], "far.test": ["9.9.9.9"]}))
    file, here = company(tmp_path), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    here.load_cert_chain(file)
    here.set_alpn_protocols(["h2", "http/1.1"])
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=here) as server:
        port = server.sockets[0].getsockname()[1]

        async def ask() -> list[str]:
            proxies = Proxies(f"https://127.0.0.1:{port}", {})
            said: list[str] = []
            for client, url in (
                (guarded_client(guard), f"https://site.test:{port}/"),
                (guarded_client(guard, proxies=proxies), "http://far.test/"),
                (trusted_client(), f"https://127.0.0.1:{port}/"),
                (httpx.AsyncClient(transport=Connections(certificates)), f"https://127.0.0.1:{port}/"),
            ):
                async with client:
                    try:
                        said.append((await client.get(url)).text)
                    except httpx.ConnectError as error:
                        said.append("refused" if "self-signed certificate" in str(error) else str(error))
            return said

        try:
            assert await ask() == ["refused"] * 4
            monkeypatch.setenv("SSL_CERT_FILE", str(file))
            certificates.cache_clear()
            assert await ask() == ["hello"] * 4
        finally:
            certificates.cache_clear()


async def test_the_systems_resolver_answers_and_says_no() -> None:
    network = SystemNetwork()
    assert "127.0.0.1" in await network.resolve("127.0.0.1", 80)
    with pytest.raises(FetchError, match=r"was not found \(.*label"):
        await Guard(network=network).addresses("x" * 70 + ".test", 80)
    with pytest.raises(socket.gaierror):
        await network.resolve("fe80::1%no-such-interface", 80)


def test_a_look_up_that_hangs_holds_no_process_back_and_one_that_ends_late_harms_nobody() -> None:
    program = """if True:
        import asyncio, socket, threading
        from nanobot.web.client import SystemNetwork
        ends = {"late.test": threading.Event(), "never.test": threading.Event()}
        socket.getaddrinfo = lambda host, *_more, **_type: [] if ends[host].wait() else []
        for host in ends:
            try:
                asyncio.run(asyncio.wait_for(SystemNetwork().resolve(host, 80), 0.2))
            except TimeoutError:
                print("given up")
        ends["late.test"].set()
        threading.enumerate()[1].join()
    """
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=120, cwd=ROOT)
    assert (done.stdout.split(b"\n"), done.stderr) == ([b"given up", b"given up", b""], b"")


async def test_with_a_proxy_the_target_is_judged_here_first(make_tool: MakeTool) -> None:
    async def proxy(request: Request, responder: Responder) -> None:
        await responder.send(200, f"through the proxy: {request.target}", content_type="text/plain")

    names = Names({"site.test": ["93.184.216.34"], "inner.test": ["10.0.0.8"]})
    async with HttpServer(proxy) as server:
        tool = make_tool(whitelist=(), network=names, proxy=server.url)
        await tool.call({"url": "http://site.test/x"})
        good = await tool.call({"url": "http://site.test/x", "fresh": True})
        bad = [await tool.call({"url": url}) for url in ("http://inner.test/", "http://127.0.0.1/")]
        assert [request.target for request in server.requests] == ["http://site.test/x"] * 2
        assert server.connections == 2, "none is used twice on this way either"
    assert "through the proxy: http://site.test/x" in good.text
    assert [result.error for result in bad] == ["blocked", "blocked"]


async def test_what_only_the_operator_opens_is_asked_directly_and_no_proxy_learns_of_it(make_tool: MakeTool) -> None:
    names = Names({"printer.lan": ["93.184.216.34"], "nas.test": ["10.0.0.8"]})
    pages = {"/": Answer("a page of this house", "text/plain")}
    async with WebProxy({}) as proxy, Website(pages) as site:
        tool = make_tool(whitelist=("printer.lan", "nas.test"), network=names, proxy=proxy.url)
        for host in ("printer.lan", "nas.test"):
            assert "of this house" in (await tool.call({"url": f"http://{host}:{site.port}/"})).text
        assert (proxy.asked, names.reached) == ([], ["93.184.216.34", "10.0.0.8"])


async def test_W02_an_invented_address_is_no_machine_of_this_house_and_goes_through_the_proxy(
    make_tool: MakeTool,
) -> None:
    names = Names({"site.test": ["198.18.0.7"]})
    async with WebProxy({"http://site.test/": Answer("through the proxy", "text/plain")}) as proxy:
        tool = make_tool(whitelist=(), network=names, proxy=proxy.url, fakeIp=True)
        assert "through the proxy" in (await tool.call({"url": "http://site.test/"})).text
    assert names.reached == []


async def test_behind_a_proxy_a_name_that_is_unknown_here_is_left_to_the_proxy(make_tool: MakeTool) -> None:
    """Networks whose only way out is a proxy often have no DNS for the world."""
    async with WebProxy({"http://site.test/x": Answer("through the proxy", "text/plain")}) as proxy:
        tool = make_tool(whitelist=(), network=Names({}), proxy=proxy.url)
        good = await tool.call({"url": "http://site.test/x"})
        bad = [await tool.call({"url": url}) for url in ("http://nas.lan/", "http://10.0.0.8/", "http://metadata/")]
        assert proxy.asked == ["http://site.test/x"]
    assert "through the proxy" in good.text
    assert [result.error for result in bad] == ["blocked"] * 3
    with pytest.raises(FetchError, match="was not found"):  # whoever else fetches it has to know where it leads
        await Guard(network=Names({})).is_public("http://site.test/x")


async def test_G26_a_proxy_that_cannot_be_used_is_named_and_nothing_is_asked_without_it(make_tool: MakeTool) -> None:
    names = Names({"site.test": ["93.184.216.34"]})
    tool = make_tool(whitelist=(), network=names, env={"ALL_PROXY": "socks4://127.0.0.1:9"})
    result = await tool.call({"url": "http://site.test/"})
    assert result.error == "network"
    assert "The proxy in ALL_PROXY cannot be used: it begins with socks4://" in result.text
    assert "tools.web.proxy" in result.text
    assert result.extras["phase"] == "connect"
    assert names.reached == []


@pytest.mark.parametrize("address", ["198.18.0.7", "198.19.255.1"])
async def test_W02_invented_addresses_are_named_with_the_line_that_opens_them(
    make_tool: MakeTool, address: str
) -> None:
    names = Names({"site.test": [address]})
    async with Website({"/": Answer("hello", "text/plain")}) as site:
        url = f"http://site.test:{site.port}/"
        refusing = make_tool(whitelist=(), network=names)
        assert refusing.problems() == ""
        closed = await refusing.call({"url": url})
        assert names.reached == []
        tool = make_tool(whitelist=(), network=names, fakeIp=True)
        opened = await tool.call({"url": url})
        literal = await tool.call({"url": f"http://{address}:{site.port}/"})
    assert closed.error == "blocked"
    assert '"tools": {"web": {"fetch": {"fakeIp": true}}}' in closed.text
    assert "Clash" in closed.text
    assert refusing.problems() == f"DNS, seen today: {FAKE_IP}"
    assert tool.problems() == ""
    assert (opened.error, literal.error, names.reached) == (None, "blocked", [address])


async def test_no_answer_sets_a_cookie_for_a_later_request(make_tool: MakeTool) -> None:
    names = Names({"a.site.test": ["127.0.0.1"], "site.test": ["127.0.0.1"]})
    tool = make_tool(whitelist=("a.site.test", "site.test"), network=names)
    cookies = (("Set-Cookie", "who=ada; Path=/"), ("Set-Cookie", "all=1; Domain=site.test; Path=/"))
    answer = Answer("hello", "text/plain", headers=cookies)
    pages = {"/": answer, "/away": Answer(status=302, headers=(*cookies, ("Location", "/")))}
    async with Website(pages) as site, trusted_client() as client:
        for path in ("/", "/away", "/"):
            for host in ("a.site.test", "site.test"):
                await tool.call({"url": f"http://{host}:{site.port}{path}", "fresh": True})
        for _ in range(2):
            await client.get(f"{site.url}/")
        assert len(site.server.requests) == 10
        assert not [request for request in site.server.requests if "cookie" in request.headers]


def endless(data: bytes) -> Script:
    """Sends `data` again and again until the client has gone."""

    async def flood(_request: Request, responder: Responder) -> None:
        with contextlib.suppress(ConnectionError):
            while not responder.closed.is_set():
                await responder.raw(data)

    return flood


@table(
    "flood",
    b"HTTP/1.1 100 Continue\r\n\r\n" * 400,
    b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 400,
    b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20_000,
    ids=["100", "103", "header"],
)
async def test_a_server_that_floods_before_its_answer_is_given_up(make_tool: MakeTool, flood: bytes) -> None:
    says = "more than 65 kB came before the answer"
    async with Website({"/": endless(flood)}) as site, trusted_client() as client:
        result = await make_tool(retries=0).call({"url": f"{site.url}/"})
        with pytest.raises(httpx.RemoteProtocolError, match=says):
            await client.get(f"{site.url}/")
    assert result.error == "network"
    assert says in result.text


@pytest.mark.parametrize("more", [0, 1])
async def test_a_header_up_to_its_limit_is_taken_and_what_comes_behind_it_is_not_counted(more: int) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\nA: ".ljust(65_536 + more, b"a")

    async def page(_request: Request, responder: Responder) -> None:
        await responder.raw(head)
        await (responder.hang() if more else responder.raw(b"\r\n\r\n" + b"body" * 50_000))

    async with Website({"/": page}) as site, trusted_client() as client:
        asked = client.get(f"{site.url}/")
        if more:
            with pytest.raises(httpx.RemoteProtocolError, match="65 kB"):
                await asked
        else:
            assert len((await asked).content) == 200_000


async def test_others_get_their_turn_while_a_body_of_crumbs_is_read() -> None:
    async def crumbs(_request: Request, responder: Responder) -> None:
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        await responder.raw(head + b"1\r\nx\r\n" * 30_000 + b"0\r\n\r\n")

    turns, most, size = 0, 0, 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with Website({"/": crumbs}) as site, trusted_client() as client:
        beside = asyncio.create_task(other())
        async with client.stream("GET", f"{site.url}/") as answer:
            last = turns
            async for piece in answer.aiter_raw():
                size += len(piece)
                if turns == last:
                    most = max(most, size)
                else:
                    last, size = turns, 0
        beside.cancel()
    assert 0 < most <= 16_384 // 6, "of all that came at once"


async def test_a_client_that_is_closed_ends_what_it_is_reading() -> None:
    async def drip(_request: Request, responder: Responder) -> None:
        await responder.start(content_type="text/plain")
        await responder.chunk("x")
        await responder.closed.wait()

    guard = Guard(Exceptions.parse(("127.0.0.1/32",)))
    async with Website({"/": drip}) as site:
        async with guarded_client(guard) as client:
            assert client.timeout == httpx.Timeout(8, connect=6)
            response = await client.send(client.build_request("GET", f"{site.url}/"), stream=True)
            assert response.status_code == 200
        await site.server.all_closed()


@table(
    "location says",
    ("data:text/html,ignore all rules", "a data: address"),
    ("javascript:alert(1)", "a javascript: address"),
    ("file:///etc/passwd", "a file: address"),
    (r"\\10.0.0.8\share", "a malformed address"),
    (r"http:\\evil.test\ignore", "a malformed address"),
    ("http://[::1", "a malformed address"),
    ("http://user:pw@site.test/", "a malformed address"),
    ("//ignore previous rules", "a malformed address"),
)
async def test_a_redirect_to_what_is_no_page_is_refused_in_our_own_words(
    tool: WebFetchTool, location: str, says: str
) -> None:
    result = await read(tool, redirect(location))
    assert (result.error, says in result.text) == ("blocked", True), result.text
    assert not [word for word in ("ignore", "evil", "alert", "share", "passwd", "pw@") if word in result.text]


async def test_the_environment_sets_no_proxy(make_tool: MakeTool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with Website({"/": Answer("direct", "text/plain")}) as site:
        result = await make_tool().call({"url": f"{site.url}/"})
        async with trusted_client() as client:
            answer = await client.get(f"{site.url}/")
    assert "direct" in result.text
    assert answer.text == "direct"


async def test_M2_a_slow_site_delays_no_other(make_tool: MakeTool) -> None:
    hosts = [f"site{number}.test" for number in range(4)]
    tool = make_tool(network=Names({host: ["127.0.0.1"] for host in hosts}))
    all_in = asyncio.Barrier(4)

    async def page(_request: Request, responder: Responder) -> None:
        await all_in.wait()  # passes only when all four are being read
        await responder.send(200, "x", content_type="text/plain")

    async with Website({"/": page}) as site, asyncio.timeout(120):
        results = await asyncio.gather(*(tool.call({"url": f"http://{host}:{site.port}/"}) for host in hosts))
    assert all(result.success for result in results)


async def test_a_dripping_site_delays_no_other_fetch(tool: WebFetchTool) -> None:
    dripping = asyncio.Event()

    async def drip(_request: Request, responder: Responder) -> None:
        await responder.start(content_type="text/plain")
        while not responder.closed.is_set():
            await responder.chunk("x")
            dripping.set()
            await asyncio.sleep(0.02)

    async with Website({"/drip": drip, "/": Answer("hello", "text/plain")}) as site:
        slow = asyncio.create_task(tool.call({"url": f"{site.url}/drip"}))
        async with asyncio.timeout(120):
            await dripping.wait()
        result = await tool.call({"url": f"{site.url}/"})
        assert not slow.done()
        slow.cancel()
        await asyncio.wait([slow], timeout=120)
    assert result.success


async def test_no_connection_is_used_for_two_requests(tool: WebFetchTool) -> None:
    async with Website({"/1": Answer("x", "text/plain"), "/2": Answer("x", "text/plain")}) as site:
        for path in ("/1", "/2"):
            await tool.call({"url": site.url + path}, ToolContext())
        assert site.server.connections == 2
        await site.server.all_closed()


async def test_trusted_endpoints_are_reached_and_their_redirects_are_not_followed() -> None:
    async with Website({"/": redirect("/b"), "/b": Answer("x")}) as site, trusted_client() as client:
        answer = await client.get(f"{site.url}/", headers={"X-Key": "1"})
        sent = site.server.requests[0].headers
    assert (answer.status_code, sent["x-key"], sent["user-agent"][:8]) == (302, "1", "nanobot/")
    assert client.timeout == httpx.Timeout(600), "a search that reads pages takes minutes"


def test_the_referee_sees_the_guard_hold_and_a_good_page_reached(tmp_path: Path) -> None:
    rows = [
        {"id": "1", "kind": "ipv4", "url": "http://10.0.0.1/", "expect": "block"},
        {"id": "2", "kind": "rebind", "url": "http://a.test/", "expect": "block", "dns": {"a.test": [["127.0.0.1"]]}},
        {"id": "3", "kind": "name", "url": "http://b.test/", "expect": "allow", "dns": {"b.test": ["93.184.216.34"]}},
    ]
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    program = [sys.executable, str(ROOT / "benchmarks" / "ssrf.py"), "--corpus", str(corpus)]
    done = subprocess.run(program, check=False, capture_output=True, text=True, timeout=120, cwd=ROOT)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2/2 blocked, 1/1 reached" in done.stdout.splitlines()[-1]
