"""Open connections to a server, of which each is looked at alone.

httpcore looks through its whole pool when a request begins and when it ends, with a system call for each connection
that is idle, and lays locks, scopes and traces around every step. A connection without a proxy is therefore one of
asyncio here, with h11 for what is said on it, as in httpcore: a request takes half the CPU, and is one write.
"""

import asyncio
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from http.cookiejar import CookieJar

import h11
import httpx

#: Bytes: what may stand before the body of an answer; what is written at once; and what waits to be read.
_HEAD_BYTES, _WRITE_BYTES, _UNREAD_BYTES = 100 * 1024, 64 * 1024, 256 * 1024
#: Seconds until the next address of a host is tried beside the one before it.
_NEXT_ADDRESS = 0.25
_PORTS = {"http": 80, "https": 443}


class Connections(httpx.AsyncBaseTransport):
    """As many connections as there are requests at the same time. One that is free is used again within `idle` seconds.

    `proxy` is the URL of a proxy on the way, without which there is none. `verify` gives what is trusted; without a
    proxy it is asked where there is TLS.
    """

    def __init__(self, verify: Callable[[], ssl.SSLContext], *, proxy: str | None = None, idle: float = 5.0) -> None:
        self._make: Callable[[], httpx.AsyncBaseTransport] = (
            partial(_Direct, verify)
            if proxy is None
            else partial(httpx.AsyncHTTPTransport, verify=verify(), proxy=proxy)
        )
        self._seconds = idle
        self._all: set[httpx.AsyncBaseTransport] = set()
        #: Those that are free, and since when.
        self._free: deque[tuple[httpx.AsyncBaseTransport, float]] = deque()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        oldest = time.monotonic() - self._seconds
        while self._free and self._free[0][1] < oldest:  # another request may take the last of them meanwhile
            old = self._free.popleft()[0]
            self._all.discard(old)
            await old.aclose()
        one = self._free.pop()[0] if self._free else self._make()
        self._all.add(one)
        try:
            response = await one.handle_async_request(request)
        except BaseException:
            self._give_back(one)
            raise
        if isinstance(response.stream, httpx.AsyncByteStream):  # as every answer of such a transport
            response.stream = _Body(response.stream, partial(self._give_back, one))
        return response

    def _give_back(self, one: httpx.AsyncBaseTransport) -> None:
        self._free.append((one, time.monotonic()))

    async def aclose(self) -> None:
        while self._all:
            await self._all.pop().aclose()


class _Body(httpx.AsyncByteStream):
    """The body of an answer, after which its connection is free."""

    def __init__(self, stream: httpx.AsyncByteStream, free: Callable[[], None]) -> None:
        self._stream, self._free = stream, free

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._stream.__aiter__()

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            self._free()


class _Direct(httpx.AsyncBaseTransport):
    """One connection without a proxy, opened where there is none that may be used again. One request at a time."""

    def __init__(self, verify: Callable[[], ssl.SSLContext]) -> None:
        self._verify = verify
        self._connection: _Connection | None = None
        self._origin = ("", "", 0)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        if url.scheme not in _PORTS:
            # English: httpx says it of other transports
            raise httpx.UnsupportedProtocol(f"Request URL has an unsupported protocol '{url.scheme}://'.")
        origin = (url.scheme, url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme])
        if self._connection is None or not self._connection.ready or origin != self._origin:
            await self.aclose()
            seconds = request.extensions.get("timeout", {}).get("connect")
            self._connection, self._origin = await self._open(*origin, seconds), origin
        return await self._connection.ask(request)

    async def _open(self, scheme: str, host: str, port: int, seconds: float | None) -> "_Connection":
        trusted = self._verify() if scheme == "https" else None
        several = None if host.replace(".", "").isdigit() or ":" in host else _NEXT_ADDRESS  # an address is one
        with _timed(httpx.ConnectTimeout, httpx.ConnectError):
            async with asyncio.timeout(seconds):
                _, connection = await asyncio.get_running_loop().create_connection(
                    _Connection, host, port, ssl=trusted, happy_eyeballs_delay=several
                )
        return connection

    async def aclose(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None


class _Connection(asyncio.Protocol, httpx.AsyncByteStream):
    """A connection that speaks HTTP/1.1, and the body of the answer that is read from it now."""

    def __init__(self) -> None:
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)
        self._unread = bytearray()
        self._paused = self._ended = self._lost = False
        self._error: Exception | None = None
        self._arrived, self._may_write = asyncio.Event(), asyncio.Event()
        self._may_write.set()
        self._timeouts: dict[str, float | None] = {}

    # What the loop tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):  # as each of TCP and of TLS
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._unread += data
        self._arrived.set()
        if len(self._unread) > _UNREAD_BYTES and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def eof_received(self) -> None:
        self._ended = True
        self._arrived.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended, self._lost, self._error = True, True, exc
        self._arrived.set()
        self._may_write.set()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    # A request and its answer

    @property
    def ready(self) -> bool:
        """Whether another request may go out: the last answer was read, and the server has neither left nor spoken.

        The socket itself is asked as well: what came just behind that answer, such as its end, the loop tells later.
        """
        if self._http.our_state is not h11.IDLE or self._unread or self._http.trailing_data[0]:
            return False
        return not (self._ended or self._transport.is_closing()) and _silent(self._transport.get_extra_info("socket"))

    async def ask(self, request: httpx.Request) -> httpx.Response:
        """Send a request and read the head of its answer."""
        self._timeouts = request.extensions.get("timeout", {})
        try:
            with _protocol_errors():
                await self._send(request)
                while not isinstance(event := await self._next(), h11.Response):
                    pass  # what is said before the answer, such as early hints
        except BaseException:
            await self.close()
            raise
        about = {"http_version": b"HTTP/" + event.http_version, "reason_phrase": event.reason}
        return httpx.Response(event.status_code, headers=event.headers.raw_items(), stream=self, extensions=about)

    async def _send(self, request: httpx.Request) -> None:
        """Write a request, as a whole where it is small: each part for itself wakes the server."""
        url, headers = request.url, request.headers.raw
        data = self._http.send(h11.Request(method=request.method.encode(), target=url.raw_path, headers=headers)) or b""
        if (trace := request.extensions.get("trace")) is not None:
            await trace("http11.send_request_body.started", {})  # as httpcore says it just before a body
        if not isinstance(request.stream, httpx.AsyncByteStream):
            raise TypeError("the body of the request is not asynchronous")  # English: a programmer reads it
        async for chunk in request.stream:
            data += self._http.send(h11.Data(data=chunk)) or b""
            if len(data) > _WRITE_BYTES:
                await self._write(data)
                data = b""
                await asyncio.sleep(0)  # in which the loop tells of TLS that it is gone
            if self._transport.is_closing():  # the server has left, and may have answered before
                return
        await self._write(data + (self._http.send(h11.EndOfMessage()) or b""))

    async def _write(self, data: bytes) -> None:
        self._transport.write(data)
        if not self._may_write.is_set():
            with _timed(httpx.WriteTimeout, httpx.WriteError):
                async with asyncio.timeout(self._timeouts.get("write")):
                    await self._may_write.wait()

    async def _next(self) -> object:
        """The next part of an answer, as h11 names it."""
        while (event := self._http.next_event()) is h11.NEED_DATA:
            data = await self._read()
            if not data and self._http.their_state is h11.SEND_RESPONSE:
                # English: httpcore says it of other connections
                raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
            self._http.receive_data(data)
        return event

    async def _read(self) -> bytes:
        """What has arrived since the last call; empty at the end."""
        if not self._unread and not self._ended:
            self._arrived.clear()
            with _timed(httpx.ReadTimeout, httpx.ReadError):
                async with asyncio.timeout(self._timeouts.get("read")):
                    await self._arrived.wait()
        if not self._unread and self._error is not None:
            raise httpx.ReadError(str(self._error)) from self._error
        data, self._unread = bytes(self._unread), bytearray()
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        return data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _protocol_errors():
            while isinstance(event := await self._next(), h11.Data):
                yield bytes(event.data)

    async def aclose(self) -> None:
        """Nobody reads on in the answer: where it was read to its end, the connection may be used again."""
        if self._http.our_state is self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        elif self._http.our_state is not h11.IDLE:
            await self.close()

    async def close(self) -> None:
        self._ended = True
        self._transport.close()
        try:
            await asyncio.sleep(0)
        finally:
            if not self._lost:
                self._transport.abort()  # of TLS: without waiting for the other side


def _silent(sock: socket.socket) -> bool:
    """Whether a socket is open and has nothing to read, not even its end."""
    if sock.fileno() < 0:
        return False
    look = select.poll()
    look.register(sock, select.POLLIN)
    return not look.poll(0)


@contextmanager
def _timed(late: type[httpx.TimeoutException], broken: type[httpx.NetworkError]) -> Iterator[None]:
    """What a socket raises, as httpx does."""
    try:
        yield
    except TimeoutError as error:
        raise late(str(error)) from error
    except OSError as error:
        raise broken(str(error)) from error


@contextmanager
def _protocol_errors() -> Iterator[None]:
    """What h11 raises, as httpx does."""
    try:
        yield
    except h11.LocalProtocolError as error:
        raise httpx.LocalProtocolError(str(error)) from error
    except h11.RemoteProtocolError as error:
        raise httpx.RemoteProtocolError(str(error)) from error


class _NoCookies(CookieJar):
    def extract_cookies(self, response: object, request: object) -> None:
        """Nothing is read, where the jar would parse what its policy then refuses."""


def no_cookies() -> CookieJar:
    """A jar that takes no cookie and gives none, for every client: what one answer sets is no other request's."""
    return _NoCookies()


@cache
def no_certificates() -> ssl.SSLContext:
    """For connections without TLS. A context takes a millisecond to make, and would be made for each of them."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@cache
def certificates() -> ssl.SSLContext:
    """What every client of the program trusts; loading it takes 20 ms, so the process does it once.

    As curl and OpenSSL do, it takes the file or folder that `SSL_CERT_FILE` or `SSL_CERT_DIR` names instead of
    Mozilla's list, which is how a company's own certificate is trusted.
    """
    context = httpx.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])  # what is spoken here; httpcore says it of its own connections
    return context
