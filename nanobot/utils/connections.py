"""Open connections to servers, of which each is looked at alone: the way to them, and HTTP/1.1 on it.

httpcore looks through its whole pool when a request begins and when it ends, with a system call for each connection
that is idle, and lays locks, scopes and traces around every step. A connection is therefore one of asyncio here, with
h11 for what is said on it, as in httpcore: a request takes half the CPU, and is one write.
"""

import asyncio
import base64
import concurrent.futures
import ipaddress
import os
import re
import select
import socket
import ssl
import sys
import threading
import time
from asyncio.sslproto import SSLProtocol
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from http.cookiejar import CookieJar
from urllib.parse import SplitResult, unquote, urlsplit

import h11
import httpx

from nanobot.utils.translation import _

#: What may stand before the body of an answer, in bytes: interim answers such as `100 Continue` count as well.
HEADER_BYTES = 65_536
#: How much is read at once, in bytes: others get their turn while a body of crumbs is taken apart.
READ_BYTES = 16_384
#: Bytes: what is written at once; and what waits to be read.
_WRITE_BYTES, _UNREAD_BYTES = 64 * 1024, 256 * 1024
#: Seconds until the next address of a host is tried beside the one before it.
_NEXT_ADDRESS = 0.25
_PORTS = {"http": 80, "https": 443}
_SOCKS_PORT = 1080
_HEAD_END = re.compile(rb"\n\r?\n")
_ERRNO, _TLS_PLACE = re.compile(r"\[Errno (\d+)\]"), re.compile(r"^\[[^\]]*\] | \(_ssl\.c:\d+\)$")
#: As in Python 3.11.7 and 3.12.1, which give it an argument nevertheless where TLS fails in TLS.
_ABORT_TAKES_NOTHING = sys.version_info < (3, 13) and SSLProtocol._abort.__code__.co_argcount == 1  # noqa: SLF001
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})")


class Stream(asyncio.Protocol):
    """An open connection to a server: bytes to it and from it. Nothing is read of it before it is first used."""

    def __init__(self) -> None:
        self._unread = bytearray()
        self._ended, self._lost = False, False
        self._error: Exception | None = None
        self._arrived, self._may_write = asyncio.Event(), asyncio.Event()
        self._may_write.set()

    # What the loop tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):  # as each of TCP and of TLS
            self._transport = transport
            transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        self._unread += data
        self._arrived.set()
        if len(self._unread) > _UNREAD_BYTES:
            self._transport.pause_reading()

    def eof_received(self) -> None:
        self._ended = True
        self._arrived.set()
        self._may_write.set()  # who has left may have answered, and takes no more

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost, self._error = True, exc
        self.eof_received()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    # What is done with it

    @property
    def leaving(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._transport.is_closing()

    @property
    def silent(self) -> bool:
        """Whether both sides keep the connection and the server has said nothing that was not read.

        The socket itself is asked as well: what came just behind an answer, such as its end, the loop tells later.
        """
        if self._unread or self.leaving:
            return False
        look = select.poll()
        look.register(self._transport.get_extra_info("socket"), select.POLLIN)
        return not look.poll(0)

    async def write(self, data: bytes, seconds: float | None) -> None:
        """Send `data`, which nobody learns of where the server is gone. Raises `WriteTimeout` and `WriteError`."""
        self._transport.resume_reading()
        self._transport.write(data)
        if not self._may_write.is_set():
            with _timed(httpx.WriteTimeout, httpx.WriteError):
                async with asyncio.timeout(seconds):
                    await self._may_write.wait()

    async def read(self, seconds: float | None) -> bytes:
        """What has arrived, at most `READ_BYTES` of it; empty at the end. Raises `ReadTimeout` and `ReadError`."""
        if self._unread:
            await asyncio.sleep(0)
        elif not self._ended:
            self._transport.resume_reading()
            self._arrived.clear()
            with _timed(httpx.ReadTimeout, httpx.ReadError):
                async with asyncio.timeout(seconds):
                    await self._arrived.wait()
        if not self._unread and self._error is not None:
            raise httpx.ReadError("") from self._error  # that it broke is all there is to say
        data = bytes(self._unread[:READ_BYTES])
        del self._unread[:READ_BYTES]
        return data

    def unread(self, data: bytes) -> None:
        """Have `data` be what is read next."""
        self._unread[:0] = data

    async def start_tls(self, trusted: ssl.SSLContext, host: str, seconds: float | None) -> "Stream":
        """This connection with TLS to `host` in it. Raises `ConnectTimeout` and `ConnectError`."""
        if _ABORT_TAKES_NOTHING and self._transport.get_extra_info("ssl_object"):
            outer = self._transport  # of TLS in TLS
            outer._force_close = lambda _error: outer.abort()  # type: ignore[attr-defined]  # noqa: SLF001
        if self._lost:
            raise httpx.ConnectError("")
        inner, loop = Stream(), asyncio.get_running_loop()
        with _timed(httpx.ConnectTimeout, httpx.ConnectError):
            try:
                async with asyncio.timeout(seconds):
                    made = await loop.start_tls(self._transport, inner, trusted, server_hostname=host)
            except ConnectionError as error:
                raise ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "") from error
        if made is None:
            raise httpx.ConnectError("")
        inner.connection_made(made)
        return inner

    def close(self) -> None:
        """End it: of TLS that is told to the other side, whose answer nobody waits for."""
        self._transport.close()
        self._transport.abort()


# The way to a server


async def dial(address: str, port: int, seconds: float | None) -> Stream:
    """A connection to one address. Raises `ConnectTimeout` and `ConnectError`."""
    with _timed(httpx.ConnectTimeout, httpx.ConnectError):
        async with asyncio.timeout(seconds):
            _, stream = await asyncio.get_running_loop().create_connection(Stream, address, port)
    return stream


async def connect(host: str, port: int, seconds: float | None) -> Stream:
    """A connection to the first address of `host` that answers. Raises `ConnectTimeout` and `ConnectError`."""
    if _is_address(host):
        return await dial(host, port, seconds)
    with _timed(httpx.ConnectTimeout, httpx.ConnectError):
        async with asyncio.timeout(seconds):
            return await first(await look_up(host, port), port)


async def first(
    addresses: Sequence[str],
    port: int,
    reach: Callable[[str, int, float | None], Coroutine[object, object, Stream]] = dial,
) -> Stream:
    """A connection to the first of `addresses` that answers; beside one that is slow the next is tried."""
    waiting, tries = deque(addresses), set[asyncio.Task[Stream]]()
    failed: BaseException = httpx.ConnectError("")
    try:
        while waiting or tries:
            if waiting:
                tries.add(asyncio.create_task(reach(waiting.popleft(), port, None)))
            pause = _NEXT_ADDRESS if waiting else None
            for one in (await asyncio.wait(tries, timeout=pause, return_when=asyncio.FIRST_COMPLETED))[0]:
                tries.discard(one)
                if (error := one.exception()) is None:
                    return one.result()
                failed = error
        raise failed
    finally:
        for one in tries:  # nobody waits for them: who is cancelled meanwhile would lose what was won
            one.cancel()
            one.add_done_callback(_let_go)


def _let_go(late: asyncio.Task[Stream]) -> None:
    if not late.cancelled() and late.exception() is None:
        late.result().close()


async def look_up(host: str, port: int) -> list[str]:
    """The addresses of `host` as the system tells them. Raises `OSError`.

    A look-up has a thread of its own, so that one that hangs holds nothing and nobody.
    """
    answer: concurrent.futures.Future[list[str]] = concurrent.futures.Future()
    answer.set_running_or_notify_cancel()  # so that nobody who stops waiting takes it from the thread

    def ask() -> None:
        try:
            rows = socket.getaddrinfo(host, port)  # each address once for each kind of socket
            answer.set_result(list(dict.fromkeys(str(row[4][0]) for row in rows)))
        except (OSError, UnicodeError) as error:
            answer.set_exception(error if isinstance(error, OSError) else OSError(str(error)))

    threading.Thread(target=ask, daemon=True).start()
    return await asyncio.wrap_future(answer)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


# Through a proxy


async def to_proxy(proxy: str, verify: Callable[[], ssl.SSLContext], seconds: float | None) -> Stream:
    """A connection to a proxy that the operator or the environment names. Raises as `connect` does."""
    parts = urlsplit(proxy)
    host, trusted = parts.hostname or "", verify() if parts.scheme == "https" else None
    stream = await connect(host, parts.port or _PORTS.get(parts.scheme, _SOCKS_PORT), seconds)
    return await stream.start_tls(trusted, host, seconds) if trusted is not None else stream


async def through_proxy(
    proxy: str, host: str, port: int, verify: Callable[[], ssl.SSLContext], seconds: float | None
) -> Stream:
    """A connection to `host`, whose name the proxy looks up. Raises `ProxyError`, and as `connect` does."""
    stream = await to_proxy(proxy, verify, seconds)
    ask = _ask_socks if proxy.startswith("socks") else _ask_http
    try:
        with _timed(httpx.ConnectTimeout, httpx.ConnectError):
            async with asyncio.timeout(seconds):
                await ask(stream, urlsplit(proxy), host, port)
    except BaseException:
        stream.close()
        raise
    return stream


async def _ask_http(stream: Stream, proxy: SplitResult, host: str, port: int) -> None:
    """Ask for a tunnel (RFC 9110, sections 9.3.6 and 15.2): interim answers may come first."""
    at = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    own = (f"{name}: {value}" for name, value in login(proxy).items())
    lines = [f"CONNECT {at} HTTP/1.1", f"Host: {at}", *own, "", ""]
    await stream.write("\r\n".join(lines).encode("latin-1"), None)
    said, begin, status = b"", 0, b"1"
    while status.startswith(b"1") and status != b"101":
        while (end := _HEAD_END.search(said, begin)) is None:
            data = await stream.read(None)
            if not data:
                raise httpx.ProxyError(_("it ended the connection"))
            if len(said) > HEADER_BYTES:
                raise httpx.ProxyError(_("it does not speak HTTP"))
            said += data
        head = _STATUS.match(said, begin)
        if head is None:
            raise httpx.ProxyError(_("it does not speak HTTP"))
        status, begin = head[1], end.end()
    if not status.startswith(b"2"):
        raise httpx.ProxyError(_("it answered with status {status}", status=status.decode()))
    stream.unread(said[begin:])


def login(url: SplitResult, header: str = "Proxy-Authorization") -> dict[str, str]:
    """The header that a proxy (RFC 9110, section 11.7.2) or a server knows the user of an address by, if it has one."""
    if url.username is None:
        return {}
    word = f"{unquote(url.username)}:{unquote(url.password or '')}"
    return {header: f"Basic {base64.b64encode(word.encode()).decode()}"}


async def _ask_socks(stream: Stream, proxy: SplitResult, host: str, port: int) -> None:
    """What both sides say before the connection stands (RFC 1928, RFC 1929)."""

    async def asks(request: bytes, count: int) -> bytes:
        """The next `count` bytes after a request, which may be empty. Raises ValueError where they do not come."""
        if request:
            await stream.write(request, None)
        said = b""
        while len(said) < count:
            if not (data := await stream.read(None)):
                raise ValueError
            said += data
        stream.unread(said[count:])
        return said[:count]

    way, no_socks = 0 if proxy.username is None else 2, _("it does not speak SOCKS5")
    try:
        version, chosen = await asks(bytes((5, 1, way)), 2)
        if chosen != way:
            raise httpx.ProxyError(_("it wants another login") if version == 5 else no_socks)
        if proxy.username is not None:
            words = (unquote(word).encode() for word in (proxy.username, proxy.password or ""))
            if (await asks(b"\x01" + b"".join(map(_counted, words)), 2))[1]:
                raise httpx.ProxyError(_("it refused the login"))
        _version, code, _none, kind = await asks(b"\x05\x01\x00" + _place(host) + port.to_bytes(2), 4)
        if code:
            raise httpx.ProxyError(_("it could not connect"))
        size = {1: 4, 4: 16}.get(kind) or (await asks(b"", 1))[0]
        await asks(b"", size + 2)
    except ValueError:
        raise httpx.ProxyError(no_socks) from None


def _place(host: str) -> bytes:
    """A host as SOCKS names it."""
    if not _is_address(host):
        return b"\x03" + _counted(host.encode("ascii"))
    packed = ipaddress.ip_address(host).packed
    return (b"\x01" if len(packed) == 4 else b"\x04") + packed


def _counted(word: bytes) -> bytes:
    """Raises ValueError for more than 255 bytes."""
    return bytes((len(word),)) + word


# HTTP on it


class Connections(httpx.AsyncBaseTransport):
    """As many connections as there are requests at the same time. One that is free is used again within `idle` seconds,
    and none where these are 0.

    `proxy` is the URL of a proxy on the way, without which there is none and `reach` connects, as `connect` does.
    `verify` gives what is trusted, and is asked where there is TLS.
    """

    def __init__(
        self,
        verify: Callable[[], ssl.SSLContext],
        *,
        proxy: str | None = None,
        idle: float = 5.0,
        reach: Callable[[str, int, float | None], Awaitable[Stream]] = connect,
    ) -> None:
        self._verify, self._proxy, self._seconds, self._reach = verify, proxy, idle, reach
        self._all: set[_Connection] = set()
        #: Those that are free, and since when.
        self._free: deque[tuple[_Connection, float]] = deque()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        if url.scheme not in _PORTS:
            # English: httpx says it of other transports
            raise httpx.UnsupportedProtocol(f"Request URL has an unsupported protocol '{url.scheme}://'.")
        oldest = time.monotonic() - self._seconds
        while self._free and self._free[0][1] < oldest:
            self._end(self._free.popleft()[0])
        origin = (url.scheme, url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme])
        one = self._used_again(origin)
        if one is None:
            one = await self._open(origin, request.extensions.get("timeout", {}).get("connect"))
            self._all.add(one)
        try:
            return await one.ask(request)
        except BaseException:
            self._end(one)
            raise

    def _used_again(self, origin: "Origin") -> "_Connection | None":
        """A connection that is free and may be used again; those on the way to it that may not are closed."""
        while found := next((row for row in reversed(self._free) if row[0].origin == origin), None):
            self._free.remove(found)
            if found[0].stream.silent:
                return found[0]
            self._end(found[0])
        return None

    async def _open(self, origin: "Origin", seconds: float | None) -> "_Connection":
        scheme, host, port = origin
        trusted = self._verify() if scheme == "https" else None
        if self._proxy is None:
            stream = await self._reach(host, port, seconds)
        elif trusted is None and not self._proxy.startswith("socks"):
            stream = await to_proxy(self._proxy, self._verify, seconds)
            return _Connection(stream, origin, self._over, login(urlsplit(self._proxy)))
        else:
            stream = await through_proxy(self._proxy, host, port, self._verify, seconds)
        if trusted is not None:
            stream = await stream.start_tls(trusted, host, seconds)
        return _Connection(stream, origin, self._over)

    def _over(self, one: "_Connection") -> None:
        """Keep a connection whose answer was read, for a while, where it may be used again."""
        if self._seconds and one.idle:
            self._free.append((one, time.monotonic()))
        else:
            self._end(one)

    def _end(self, one: "_Connection") -> None:
        self._all.discard(one)
        one.stream.close()

    async def aclose(self) -> None:
        while self._all:
            self._end(self._all.pop())


#: Scheme, host and port of a server.
Origin = tuple[str, str, int]


class _Connection(httpx.AsyncByteStream):
    """A connection that speaks HTTP/1.1, and the body of the answer that is read from it now. One request at a time.

    `over` is told when nobody reads on in an answer. With `proxied`, which may be empty, the other side is a proxy that
    gets whole addresses, and these headers.
    """

    def __init__(
        self,
        stream: Stream,
        origin: Origin,
        over: Callable[["_Connection"], None],
        proxied: dict[str, str] | None = None,
    ) -> None:
        self.stream, self.origin = stream, origin
        self._over, self._proxied = over, proxied
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEADER_BYTES + READ_BYTES)
        self._timeouts: dict[str, float | None]

    @property
    def idle(self) -> bool:
        """Whether the last answer was read to its end, behind which the server will take another request."""
        return self._http.our_state is h11.IDLE and not self._http.trailing_data[0]

    async def ask(self, request: httpx.Request) -> httpx.Response:
        """Send a request and read the head of its answer."""
        self._timeouts = request.extensions.get("timeout", {})
        with _protocol_errors():
            await self._send(request)
            event = await self._head()
        return httpx.Response(event.status_code, headers=event.headers.raw_items(), stream=self)

    async def _send(self, request: httpx.Request) -> None:
        """Write a request, as a whole where it is small: each part for itself wakes the server."""
        url, headers, target = request.url, request.headers.raw, request.url.raw_path
        if self._proxied is not None:
            headers = [*headers, *((name.encode(), value.encode()) for name, value in self._proxied.items())]
            target = b"%s://%s%s" % (url.raw_scheme, url.netloc, target)
        data = self._said(h11.Request(method=request.method.encode(), target=target, headers=headers))
        if (leave := request.extensions.get("leave")) is not None:
            await leave()
        if not isinstance(request.stream, httpx.AsyncByteStream):
            raise TypeError("the body of the request is not asynchronous")  # English: a programmer reads it
        seconds = self._timeouts.get("write")
        async for chunk in request.stream:
            data += self._said(h11.Data(data=chunk))
            if len(data) > _WRITE_BYTES:
                await self.stream.write(data, seconds)
                data = b""
                await asyncio.sleep(0)  # in which the loop tells of TLS that it is gone
            if self.stream.leaving:  # the server has left, and may have answered before
                return
        await self.stream.write(data + self._said(h11.EndOfMessage()), seconds)

    def _said(self, event: h11.Event) -> bytes:
        return self._http.send(event) or b""

    async def _head(self) -> h11.Response:
        """What stands before the body of an answer, behind interim ones, such as early hints."""
        size = 0
        while not isinstance(event := self._http.next_event(), h11.Response):
            if event is h11.NEED_DATA:
                if size > HEADER_BYTES:
                    raise httpx.RemoteProtocolError(_("more than 65 kB came before the answer"))
                size += await self._receive()
        return event

    async def _receive(self) -> int:
        """Have h11 read what has arrived; the number of its bytes, 0 at the end."""
        data = await self.stream.read(self._timeouts.get("read"))
        if not data and self._http.their_state is h11.SEND_RESPONSE:
            # English: httpcore says it of other connections
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
        self._http.receive_data(data)
        return len(data)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _protocol_errors():
            while True:
                if (event := self._http.next_event()) is h11.NEED_DATA:
                    await self._receive()
                elif isinstance(event, h11.Data):
                    yield bytes(event.data)
                else:
                    return

    async def aclose(self) -> None:
        """Nobody reads on in the answer: where it was read to its end, the connection may be used again."""
        if self._http.our_state is self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        elif self._http.our_state is h11.IDLE:
            return  # it is free already, and two requests would share it
        self._over(self)


@contextmanager
def _timed(late: type[httpx.TimeoutException], broken: type[httpx.NetworkError]) -> Iterator[None]:
    """What a socket raises, as httpx does."""
    try:
        yield
    except TimeoutError as error:
        raise late(str(error)) from error
    except OSError as error:
        raise broken(reason_of(error)) from error


def reason_of(error: Exception) -> str:
    """Why a connection failed, as a person may read it: no number, address, class or place in a library."""
    if isinstance(error, TimeoutError | httpx.TimeoutException):
        return _("it did not answer in time")
    if isinstance(error, httpx.HTTPStatusError):
        return _("it answered with status {status}", status=error.response.status_code)
    if not isinstance(error, OSError):
        said = str(error)  # English: h11 and httpcore say so
        ended = not said or "disconnected" in said or "closed connection" in said
        return _("it ended the connection") if ended else said
    if isinstance(error, socket.gaierror):
        return _("no name can be looked up now") if error.errno == socket.EAI_AGAIN else _("its name was not found")
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    number = next(map(int, _ERRNO.findall(str(error))), 0)  # the first: asyncio strings together those of addresses
    return os.strerror(number) if number else _TLS_PLACE.sub("", str(error))


@contextmanager
def _protocol_errors() -> Iterator[None]:
    """What h11 raises, as httpx does."""
    try:
        yield
    except h11.LocalProtocolError as error:
        raise httpx.LocalProtocolError(str(error)) from error
    except h11.RemoteProtocolError as error:
        strange = "illegal" in str(error)  # English: h11 says so, and shows the bytes
        raise httpx.RemoteProtocolError(_("it does not speak HTTP") if strange else str(error)) from error


class NoCookies(CookieJar):
    """A jar that takes no cookie and gives none, for every client: what one answer sets is no other request's."""

    def extract_cookies(self, response: object, request: object) -> None:
        """Nothing is read, where the jar would parse what its policy then refuses."""


@cache
def certificates() -> ssl.SSLContext:
    """What every client of the program trusts; loading it takes 20 ms, so the process does it once.

    As curl and OpenSSL do, it takes the file or folder that `SSL_CERT_FILE` or `SSL_CERT_DIR` names instead of
    Mozilla's list, which is how a company's own certificate is trusted.
    """
    context = httpx.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])  # what is spoken here; httpcore says it of its own connections
    return context
