"""Connections are used again while both sides keep them, and what breaks on the way is said in httpx's words."""

import asyncio
import errno
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import httpx
import pytest

from nanobot.utils.connections import Connections, Stream, certificates, dial, first, reason_of, through_proxy
from tests.fakes.http_server import HttpServer, Listening, Request, Responder
from tests.fakes.proxies import TunnelProxy, WebProxy
from tests.fakes.waiting import until
from tests.fakes.website import Answer
from tests.tables import table
from tests.web.fetch.test_guarded_client import company

MUCH = 4_000_000
ASKED = httpx.Request("GET", "http://site.test/")


async def answer(request: Request, respond: Responder) -> None:
    await asyncio.sleep(float(request.path.strip("/")))
    await respond.send(body="well")


WELL = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell"
#: What is answered under a path, byte for byte, after which the server leaves, or stays.
LEAVES = {
    "/close": WELL.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
    "/leave": WELL,
    "/until-the-end": b"HTTP/1.1 200 OK\r\n\r\nwell",
    "/nothing": b"",
    "/half": WELL.replace(b": 4", b": 100"),
    "/garbage": b"this is no HTTP\r\n\r\n",
}
STAYS = {
    "/hints": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + WELL,
    "/chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nwe\r\n2\r\nll\r\n0\r\n\r\n",
    "/chatter": WELL + WELL.replace(b"well", b"evil"),
}


async def by_path(request: Request, respond: Responder) -> None:
    """What the path of a request names."""
    path = request.path
    if path in LEAVES or path in STAYS:
        await respond.raw((LEAVES | STAYS)[path])
        respond.keep_alive = path in STAYS
    elif path == "/echo":
        await respond.send(body=request.body)
    elif path == "/much":
        await respond.send(body=b"x" * MUCH)
    elif path == "/at-once":
        await respond.raw(WELL)
        respond.writer.get_extra_info("socket").shutdown(socket.SHUT_WR)  # before the client sees what it was sent
        respond.close()
    elif path == "/reset":
        await respond.abort()
    else:
        await respond.raw(b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 200_000 if path == "/endless" else b"")
        await respond.hang()


def client(server: HttpServer, idle: float = 5.0) -> httpx.AsyncClient:
    transport = Connections(certificates, idle=idle)
    return httpx.AsyncClient(transport=transport, base_url=server.url, timeout=60)


async def test_a_connection_that_is_closed_after_its_time_takes_no_request_beside_it_along() -> None:
    async with HttpServer(answer) as server, client(server, idle=0.0005) as asking:

        async def ask(number: int) -> None:
            for _ in range(40):  # so that one ends while another begins
                assert (await asking.get(f"/{0.001 * (number + 1)}")).text == "well"
                await asyncio.sleep(0.0007 * number)

        await asyncio.gather(*map(ask, range(6)))


async def test_requests_one_after_the_other_share_a_connection() -> None:
    async with HttpServer(by_path) as server:
        async with client(server) as asking:
            assert (await asking.post("/echo", content=b"what is said")).content == b"what is said"
            assert (await asking.get("/hints")).text == "well"
            assert (await asking.get("/chunks")).text == "well"
            assert (await asking.get("/much")).content == b"x" * MUCH
            assert server.connections == 1
        await server.all_closed()


async def test_requests_at_the_same_time_have_a_connection_each_that_later_ones_use_again() -> None:
    together = asyncio.Barrier(3)

    async def page(request: Request, respond: Responder) -> None:
        if request.path == "/together":
            await together.wait()
        await (respond.abort() if request.path == "/break" else respond.send(body="well"))

    transport = Connections(certificates, idle=600)
    async with HttpServer(page) as server, httpx.AsyncClient(transport=transport, base_url=server.url) as asking:
        read = await transport.handle_async_request(asking.build_request("GET", "/"))
        assert await read.aread() == b"well"
        assert isinstance(read.stream, httpx.AsyncByteStream)
        await read.stream.aclose()  # which reading to its end did already
        for _ in range(2):
            await asyncio.gather(*(asking.get("/together", timeout=60) for _ in range(3)))
        async with asking.stream("GET", "/"):
            await asking.get("/")
        assert server.connections == 3
        for _ in range(4):
            with pytest.raises(httpx.TransportError):
                await asking.get("/break")
        assert not transport._all, "nothing is left of one that broke"
        await asking.aclose()
        await server.all_closed()


async def test_a_connection_that_was_free_for_too_long_is_closed_and_none_of_them_used_again() -> None:
    transport = Connections(certificates, idle=0)
    async with HttpServer(answer) as server, httpx.AsyncClient(transport=transport, base_url=server.url) as asking:
        async with asking.stream("GET", "/0"):
            await asking.get("/0")
        await asking.get("/0")
        assert (server.connections, len(transport._all)) == (3, 0)
        await asking.aclose()
        await server.all_closed()


async def test_a_proxy_is_asked_where_there_is_one() -> None:
    async with (
        WebProxy({"http://site.test/": Answer("through the proxy")}) as proxy,
        httpx.AsyncClient(transport=Connections(certificates, proxy=proxy.url.replace("//", "//a:b@"))) as asking,
    ):
        assert [(await asking.get("http://site.test/")).text for _ in range(2)] == ["through the proxy"] * 2
        assert proxy.server.connections == 1
        assert {one.headers["proxy-authorization"] for one in proxy.server.requests} == {"Basic YTpi"}


class Said(Listening):
    """A proxy that says these pieces, each after the client has spoken or left; what it heard is kept."""

    def __init__(self, *pieces: bytes) -> None:
        super().__init__()
        self.pieces = pieces
        self.heard: list[bytes] = []

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in self.pieces:
            self.heard.append(await reader.read(1_000))
            for byte in piece:
                writer.write(bytes((byte,)))
                await writer.drain()


@table(
    "scheme pieces why",
    ("http", [b"HTTP/1.1 407 Login\r\nA: b\r\n\r\n", b""], "it answered with status 407"),
    ("http", [b"nonsense\r\n\r\n", b""], "it does not speak HTTP"),
    ("http", [b"HTTP/1.1 200 OK\r\n"], "it ended the connection"),
    ("http", [b""], "it ended the connection"),
    ("http", [b"HTTP/1.1 200 OK\r\nA: " + b"a" * 100_000, b""], "it does not speak HTTP"),
    ("http", [b"HTTP/1.1 100 Go on\r\n\r\n" * 4_000, b""], "it does not speak HTTP"),
    ("http", [b"HTTP/1.1 100 Go on\r\n\r\nHTTP/1.1 407 Login\r\n\r\n", b""], "it answered with status 407"),
    ("http", [b"HTTP/1.1 101 Another\r\n\r\n", b""], "it answered with status 101"),
    ("socks5", [b"\x05\xff", b""], "it wants another login"),
    ("socks5", [b"HTTP/1.1 400 Bad\r\n\r\n", b""], "it does not speak SOCKS5"),
    ("socks5", [b"\x05"], "it does not speak SOCKS5"),
    ("socks5", [b"\x05\x02", b"\x01\x01", b""], "it refused the login"),
    ("socks5", [b"\x05\x02", b"\x01\x00", b"\x05\x05\x00\x01\0\0\0\0\0\0", b""], "it could not connect"),
)
async def test_a_proxy_that_leads_nowhere_says_why(scheme: str, pieces: list[bytes], why: str) -> None:
    async with Said(*pieces) as proxy:
        login = "a@" if len(pieces) > 1 and pieces[0] != b"\x05\xff" else ""
        transport = Connections(certificates, proxy=f"{scheme}://{login}127.0.0.1:{proxy.port}")
        async with httpx.AsyncClient(transport=transport, timeout=60) as asking:
            with pytest.raises(httpx.ProxyError, match=why):
                await asking.get("https://site.test/")
        await proxy.all_closed()


async def test_no_proxy_is_connected_to_where_certificates_cannot_be_loaded(tmp_path: Path) -> None:
    async with Said(b"") as proxy:
        transport = Connections(partial(certificates_in, tmp_path), proxy=f"https://127.0.0.1:{proxy.port}")
        with pytest.raises(FileNotFoundError):
            await transport.handle_async_request(httpx.Request("GET", "http://site.test/"))
        assert proxy.connections == 0


def certificates_in(folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=folder / "none.pem")


async def test_what_a_host_says_just_behind_the_answers_of_its_proxy_is_read() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\n\r\n" + greeting
        )
        writer.close()

    greeting, said = b"220 mail" * 5_000, b""
    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        proxy = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with closing(await through_proxy(proxy, "mail.test", 25, certificates, 60)) as stream:
            while data := await stream.read(60):
                said += data
            assert said == greeting


async def test_a_proxy_of_socks_is_told_the_login_and_the_name_or_the_address_of_the_host() -> None:
    begins = (b"\x05\x02", b"\x01\x00")
    for login, host, named, bound in (
        ("a:b%40c", "site.test", b"\x03\x09site.test", b"\x03\x02ab\0\x07"),
        ("a:b%40c", "192.0.2.1", b"\x01\xc0\0\x02\x01", b"\x01" + bytes(6)),
        ("a", "[2001:db8::1]", b"\x04\x20\x01\x0d\xb8" + bytes(11) + b"\x01", b"\x04" + bytes(18)),
    ):
        async with Said(*begins, b"\x05\0\0" + bound, WELL) as proxy:
            transport = Connections(certificates, proxy=f"socks5h://{login}@127.0.0.1:{proxy.port}")
            async with httpx.AsyncClient(transport=transport, timeout=60) as asking:
                assert (await asking.get(f"http://{host}:81/x")).text == "well"
            known = b"\x01\x01a\x03b@c" if login != "a" else b"\x01\x01a\0"
            assert proxy.heard[:3] == [b"\x05\x01\x02", known, b"\x05\x01\0" + named + b"\0\x51"]
            assert proxy.heard[3].startswith(b"GET /x HTTP/1.1\r\n")


async def test_a_site_with_tls_is_reached_through_a_proxy_with_tls_and_its_certificate_judged(tmp_path: Path) -> None:
    file, here = company(tmp_path), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    here.load_cert_chain(file)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(WELL)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=here) as site:
        tunnel = TunnelProxy(site.sockets[0].getsockname()[1], "Basic YTpiQGM=")
        tunnel.tls = here
        async with tunnel:
            proxy = f"https://a:b%40c@127.0.0.1:{tunnel.port}"
            transport = Connections(partial(ssl.create_default_context, cafile=file), proxy=proxy)
            async with httpx.AsyncClient(transport=transport, timeout=60) as asking:
                assert [(await asking.get("https://site.test/")).text for _ in range(2)] == ["well"] * 2
                with pytest.raises(httpx.ConnectError, match="Hostname mismatch"):
                    await asking.get("https://other.test/")
    assert tunnel.asked == ["CONNECT site.test:443 HTTP/1.1", "CONNECT other.test:443 HTTP/1.1"]


def open_files() -> set[str]:
    """The numbers of the files that this process has open."""
    return {file.name for file in Path("/proc/self/fd").iterdir()}


@contextmanager
def silent() -> Iterator[tuple[str, int]]:
    """An address and a port where nobody takes a connection."""
    with ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.2", 0))
        full.listen(0)
        for _ in range(3):
            (one := stack.enter_context(socket.socket())).setblocking(False)
            one.connect_ex(full.getsockname())
        yield full.getsockname()


async def test_beside_an_address_that_is_silent_the_next_one_is_tried_and_behind_one_that_refuses_at_once() -> None:
    with silent() as (address, port):
        async with await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", port) as server:
            for addresses in (("127.0.0.3", "127.0.0.1", address), (address, "127.0.0.1")):
                async with asyncio.timeout(100):  # the system gives a silent one up after 127 seconds
                    stream = await first(addresses, port)
                stream.close()
            assert server.is_serving()
        with pytest.raises(httpx.ConnectError, match="Connection refused"):
            await first(("127.0.0.3", "127.0.0.1"), port)
        with pytest.raises(TimeoutError):  # a silent one is waited for, also behind one that refuses
            await asyncio.wait_for(first((address, "127.0.0.1"), port), 0.5)


async def test_a_cancelled_or_late_look_for_an_address_leaves_no_connection(caplog: pytest.LogCaptureFixture) -> None:
    with silent() as (address, port):
        before = open_files()
        asking = asyncio.create_task(first((address, address), port))
        await until(lambda: len(open_files()) >= len(before) + 2)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        with pytest.raises(httpx.ConnectTimeout):
            await dial(address, port, 0.01)
        async with httpx.AsyncClient(transport=Connections(certificates)) as trusted:
            with pytest.raises(httpx.ConnectTimeout):
                await trusted.get(f"http://{address}:{port}/", timeout=httpx.Timeout(60, connect=0.01))
        assert open_files() == before
        assert not caplog.records


async def test_a_look_for_an_address_that_is_cancelled_as_one_answers_leaves_no_connection_behind() -> None:
    places, came = [f"127.0.1.{number}" for number in range(1, 17)], set[str]()
    looks: dict[str, asyncio.Task[Stream]] = {}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        place = writer.get_extra_info("sockname")[0]
        for _ in range(places.index(place)):  # each at another step of its look
            await asyncio.sleep(0)
        looks[place].cancel()
        with suppress(OSError):
            await reader.read()
        came.add(place)
        writer.close()

    with silent() as (address, port):
        async with await asyncio.start_server(answer, places, port) as server:
            looks |= {place: asyncio.create_task(first((address, place), port)) for place in places}
            made = await asyncio.gather(*looks.values(), return_exceptions=True)
            for one in made:
                if isinstance(one, Stream):
                    one.close()
            await until(lambda: came == set(places))
            assert server.is_serving()


@pytest.mark.parametrize("path", ["/close", "/leave", "/until-the-end", "/chatter"])
async def test_a_connection_that_the_server_has_left_or_spoken_on_is_not_used_again(path: str) -> None:
    transport = Connections(certificates)
    async with (
        HttpServer(by_path) as server,
        httpx.AsyncClient(transport=transport, base_url=server.url, timeout=60) as asking,
        client(server) as beside,
    ):
        assert (await asking.get(path)).text == "well"
        await beside.get("/hints")  # meanwhile everything of the first one arrives
        assert (await asking.post("/echo", content=b"anew")).text == "anew"
        assert (server.connections, len(transport._all)) == (3, 1)


async def test_a_server_that_leaves_together_with_its_answer_costs_no_request() -> None:
    async with HttpServer(by_path) as server, client(server) as asking:
        assert [(await asking.get("/at-once")).text for _ in range(10)] == ["well"] * 10
        assert server.connections == 10


class Late(Listening):
    """Counts what arrives, and reads it only when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may_read, self.ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.count = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # it is one of a socket
        self.begun.set()
        await self.may_read.wait()
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        while part := await reader.read(1_000_000):
            self.count += len(part)
        self.ended.set()


async def test_what_a_server_does_not_take_in_time_is_given_up() -> None:
    async with Late() as server, httpx.AsyncClient(transport=Connections(certificates)) as asking:
        url, limits = f"http://127.0.0.1:{server.port}", httpx.Timeout(10, write=0.01)
        with pytest.raises(httpx.WriteTimeout):
            await asking.post(url, content=b"x" * 10 * MUCH, timeout=limits)
        server.may_read.set()
        await server.ended.wait()


async def test_what_was_said_before_a_connection_broke_is_read_and_nothing_is_begun_on_it() -> None:
    may_break, broken = asyncio.Event(), asyncio.Event()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail")
        if await reader.read(4) == b"HELO":
            await may_break.wait()
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            await broken.wait()
        writer.transport.abort()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        stream = await dial("127.0.0.1", port, 60)
        await until(lambda: not stream.silent)
        await stream.write(b"HELO", 60)
        await until(lambda: bool(stream._unread))
        assert not stream.silent
        may_break.set()
        await until(lambda: stream._lost)
        assert await stream.read(60) == b"220 mail"
        with pytest.raises(httpx.ReadError):
            await stream.read(60)
        with pytest.raises(httpx.ConnectError):
            await stream.start_tls(certificates(), "site.test", 60)
        stream = await dial("127.0.0.1", port, 60)
        await until(lambda: not stream.silent)
        for _ in range(5):  # in which the loop would read what TLS is to judge
            await asyncio.sleep(0)
        with pytest.raises(httpx.ConnectError, match=r"wrong version number|record layer failure"):
            await stream.start_tls(certificates(), "site.test", 60)
        broken.set()


async def test_a_request_that_is_cancelled_once_more_while_it_ends_leaves_no_connection_behind() -> None:
    async with Late() as server, httpx.AsyncClient(transport=Connections(certificates), timeout=60) as asking:
        task = asyncio.create_task(asking.post(f"http://127.0.0.1:{server.port}", content=b"x" * 10 * MUCH))
        await server.begun.wait()
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        server.may_read.set()
        await server.ended.wait()
        assert server.count < 10 * MUCH, "what was not sent yet was given up"


async def test_an_answer_that_nobody_reads_to_its_end_stops_at_the_server_and_takes_its_connection_along() -> None:
    sent, whole = 0, 200_000_000

    async def pour(request: Request, respond: Responder) -> None:
        nonlocal sent
        await respond.raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % whole)
        with suppress(ConnectionError):
            for sent in range(0, whole, 100_000):  # noqa: B007 - counted for the test
                await respond.raw(b"x" * 100_000)

    async with HttpServer(pour) as server, client(server) as asking:
        async with asking.stream("GET", "/") as response:
            assert await anext(response.aiter_raw())
            for _ in range(3_000):  # in which all of it would come
                await asyncio.sleep(0)
            assert sent < whole / 2
        await server.all_closed()
    async with HttpServer(by_path) as server, client(server) as asking:
        async with asking.stream("GET", "/much") as response:
            assert await anext(response.aiter_raw())
        assert (await asking.get("/hints")).text == "well"
        assert server.connections == 2


@table(
    "path error said",
    ("/nothing", httpx.RemoteProtocolError, "Server disconnected without sending a response"),
    ("/reset", httpx.ReadError, "^"),
    ("/half", httpx.RemoteProtocolError, "peer closed connection without sending complete message body"),
    ("/garbage", httpx.RemoteProtocolError, "it does not speak HTTP"),
    ("/endless", httpx.RemoteProtocolError, "more than 65 kB came before the answer"),
    ("/silence", httpx.ReadTimeout, "^$"),
)
async def test_what_breaks_is_said_as_by_httpx_and_the_next_is_served(
    path: str, error: type[Exception], said: str
) -> None:
    async with HttpServer(by_path) as server, client(server) as asking:
        with pytest.raises(error, match=said):
            await asking.get(path, timeout=httpx.Timeout(60, read=0.01 if path == "/silence" else 60))
        assert (await asking.post("/echo", content=b"anew")).text == "anew"


@table(
    "error said",
    (TimeoutError(), "it did not answer in time"),
    (httpx.ReadTimeout(""), "it did not answer in time"),
    (httpx.HTTPStatusError("", request=ASKED, response=httpx.Response(418)), "it answered with status 418"),
    (httpx.ReadError(""), "it ended the connection"),
    (httpx.RemoteProtocolError("Server disconnected without sending a response."), "it ended the connection"),
    (
        httpx.RemoteProtocolError("peer closed connection without sending complete message body"),
        "it ended the connection",
    ),
    (httpx.ProxyError("it refused the login"), "it refused the login"),
    (socket.gaierror(socket.EAI_AGAIN, "x"), "no name can be looked up now"),
    (socket.gaierror(socket.EAI_NONAME, "x"), "its name was not found"),
    (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 9)"), "Connection refused"),
    (OSError("Multiple exceptions: [Errno 113] Connect call failed, [Errno 101] x"), "No route to host"),
    (OSError("no more"), "no more"),
    (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)"), "wrong version number"),
)
def test_why_a_connection_failed_is_said_without_numbers_addresses_and_places(error: Exception, said: str) -> None:
    assert reason_of(error) == said


async def test_a_place_where_nobody_listens_and_a_scheme_that_is_none_of_http_are_refused() -> None:
    async with HttpServer(by_path) as server:
        gone = server.url
    async with httpx.AsyncClient(transport=Connections(certificates)) as asking:
        with pytest.raises(httpx.ConnectError):
            await asking.get(gone)
        with pytest.raises(httpx.UnsupportedProtocol, match="ftp://"):
            await asking.get("ftp://127.0.0.1/")
        async with HttpServer(by_path) as server:
            assert (await asking.get(f"http://localhost:{server.port}/chunks")).text == "well"
            with pytest.raises(httpx.LocalProtocolError):
                await asking.get(server.url, headers={"X-Odd": "two\r\nlines"})
            with pytest.raises(TypeError, match="not asynchronous"):
                await Connections(certificates).handle_async_request(
                    httpx.Request("POST", server.url, content=iter([b""]))
                )


async def test_a_large_body_waits_for_a_server_that_reads_slowly_and_ends_where_it_has_answered_already() -> None:
    parts, heard, gone, ended = 0, 0, asyncio.Event(), asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        nonlocal parts
        for parts in range(1, 101):  # noqa: B007 - counted for the test
            yield b"x" * 100_000

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal heard
        head = await reader.readuntil(b"\r\n\r\n")
        if b"/slow" in head:
            for _ in range(500):  # in which the client fills all that lies between
                await asyncio.sleep(0)
            while not (part := await reader.read(1_000_000)).endswith(b"0\r\n\r\n"):
                heard += part.count(b"x")
            heard += part.count(b"x")
            writer.write(LEAVES["/close"])
        elif b"/deaf" in head:
            writer.write(LEAVES["/until-the-end"])
            writer.write_eof()
            await ended.wait()
        elif b"/break" in head:
            writer.transport.abort()
        else:
            writer.write(LEAVES["/close"].replace(b"200 OK", b"413 Too Large"))
            writer.write_eof()
            while await reader.read(1_000_000):
                pass
            gone.set()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with httpx.AsyncClient(transport=Connections(certificates), timeout=60) as asking:
            assert (await asking.post(f"{url}/slow", content=body())).text == "well"
            assert (parts, heard) == (100, 10_000_000)
            assert (await asking.post(f"{url}/early", content=body())).status_code == 413
            assert parts < 100
            assert (await asking.post(f"{url}/deaf", content=b"x" * 10 * MUCH)).text == "well"
            with pytest.raises(httpx.TransportError):
                await asking.post(f"{url}/break", content=b"x" * 10 * MUCH)
        await gone.wait()
        ended.set()


async def test_over_tls_an_upload_ends_where_its_server_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, here = company(tmp_path), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    here.load_cert_chain(file)
    met, gone, parts = asyncio.Queue[asyncio.StreamWriter](), asyncio.Event(), 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal parts
        yield b"x" * 100_000
        (await met.get()).get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        for parts in range(1, 1001):  # noqa: B007 - counted for the test
            yield b"x" * 100_000

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        met.put_nowait(writer)
        with suppress(OSError):
            while await reader.read(1_000_000):
                pass
            writer.close()
            await writer.wait_closed()
        gone.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=here) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with httpx.AsyncClient(transport=Connections(partial(ssl.create_default_context, cafile=file))) as asking:
            with pytest.raises(httpx.TransportError):
                await asking.post(url, content=body())
        await gone.wait()
    assert parts < 1000
    assert not caplog.records, "asyncio complains of each write after the end"


async def test_over_tls_the_other_side_is_told_of_the_end(tmp_path: Path) -> None:
    file, here = company(tmp_path), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    here.load_cert_chain(file)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> bytes:
            with here.wrap_socket(listening.accept()[0], server_side=True, suppress_ragged_eofs=False) as one:
                return one.recv(1)

        served = asyncio.create_task(asyncio.to_thread(serve))
        outer = await dial("127.0.0.1", listening.getsockname()[1], 60)
        (await outer.start_tls(ssl.create_default_context(cafile=file), "127.0.0.1", 60)).close()
        assert await served == b""


async def test_over_tls_a_certificate_is_judged_and_the_connection_used_again(tmp_path: Path) -> None:
    file, here = company(tmp_path), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    here.load_cert_chain(file)
    met = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal met
        met += 1
        while await reader.readline():
            if reader.at_eof():
                break
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=here) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with httpx.AsyncClient(transport=Connections(ssl.create_default_context)) as asking:
            with pytest.raises(httpx.ConnectError, match="self-signed certificate"):
                await asking.get(url)
        async with httpx.AsyncClient(transport=Connections(partial(ssl.create_default_context, cafile=file))) as asking:
            assert [(await asking.get(url)).text for _ in range(3)] == ["hello"] * 3
    assert met == 1
