"""Open connections to a server, of which each is looked at alone.

httpcore looks through its whole pool when a request begins and when it ends, with a system call for each connection
that is idle. A transport that has one connection has nothing to look through.
"""

import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache, partial
from http.cookiejar import CookieJar

import httpx


class Connections(httpx.AsyncBaseTransport):
    """As many connections as there are requests at the same time. One that is free is used again within `idle` seconds.

    `proxy` is the URL of a proxy on the way, without which there is none.
    """

    def __init__(self, verify: ssl.SSLContext, *, proxy: str | None = None, idle: float = 5.0) -> None:
        limits = httpx.Limits(max_connections=1, keepalive_expiry=idle)
        self._make = partial(httpx.AsyncHTTPTransport, verify=verify, trust_env=False, limits=limits, proxy=proxy)
        self._seconds = idle
        self._all: set[httpx.AsyncHTTPTransport] = set()
        self._free: list[tuple[httpx.AsyncHTTPTransport, float]] = []  # and since when, the one used last at the end

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        one = self._free.pop()[0] if self._free else self._make()
        self._all.add(one)
        try:
            response = await one.handle_async_request(request)
        except BaseException:
            await self._give_back(one)
            raise
        if isinstance(response.stream, httpx.AsyncByteStream):  # as every answer of such a transport
            response.stream = _Body(response.stream, partial(self._give_back, one))
        return response

    async def _give_back(self, one: httpx.AsyncHTTPTransport) -> None:
        now = time.monotonic()
        self._free.append((one, now))
        while self._free and self._free[0][1] < now - self._seconds:  # another request may take the last of them
            old = self._free.pop(0)[0]
            self._all.discard(old)
            await old.aclose()

    async def aclose(self) -> None:
        self._free.clear()
        while self._all:
            await self._all.pop().aclose()


class _Body(httpx.AsyncByteStream):
    """The body of an answer, after which its connection is free."""

    def __init__(self, stream: httpx.AsyncByteStream, free: Callable[[], Awaitable[None]]) -> None:
        self._stream = stream
        self._free: Callable[[], Awaitable[None]] | None = free

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._stream.__aiter__()

    async def aclose(self) -> None:
        free, self._free = self._free, None
        try:
            await self._stream.aclose()
        finally:
            if free is not None:
                await free()


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
    return httpx.create_ssl_context()
