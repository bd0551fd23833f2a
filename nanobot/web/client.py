"""HTTP clients for the two kinds of addresses: those that anybody names, and those that the operator configured.

`guarded_client` judges every URL before it is sent and connects only to an address that it looked up and judged
itself: one look-up per connection, the judged literal is what the socket gets, and no connection is used twice. The URL
is never rewritten, so the Host header, the TLS server name and the certificate stay those of the site.
`trusted_client` is for endpoints from the configuration. Neither reads proxies or certificates from the environment,
neither follows redirects.
"""

import asyncio
import contextlib
import functools
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import httpcore
import httpx

from nanobot.errors import AddressBlocked, FetchError
from nanobot.security.network import NO_EXCEPTIONS, Exceptions, IPAddress, judge_answers, judge_ip, judge_url
from nanobot.web.proxy import Proxies

PAGE_USER_AGENT = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36"
)
PRODUCT_USER_AGENT = "nanobot/0.1 (personal agent)"
CONNECT_SECONDS = 6.0
READ_SECONDS = 8.0
RESOLVE_SECONDS = 5.0
MAX_ADDRESSES = 6
_UNKNOWN = "Check the address, or use another source."
_INVENTED = ipaddress.ip_network("198.18.0.0/15")

DIRECT = Proxies()

SocketOption = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]


class Resolver(Protocol):
    """Looks a name up. Tests inject answers here."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """The addresses of `host` in the order to try them. Raises OSError where there are none."""


class SystemResolver:
    """The system's resolver, in a thread of its own, so that a look-up that hangs holds nothing and nobody."""

    def __init__(self, timeout: float = RESOLVE_SECONDS) -> None:
        self._timeout = timeout

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()

        def settle(found: list[str], error: OSError | None) -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(found)
            else:
                answer.set_exception(error)

        def look_up() -> None:
            found: list[str] = []
            failure: OSError | None = None
            try:
                rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                found = list(dict.fromkeys(str(row[4][0]) for row in rows))
            except (OSError, UnicodeError) as error:
                failure = error if isinstance(error, OSError) else OSError(str(error))
            with contextlib.suppress(RuntimeError):  # the loop may be closed by now
                loop.call_soon_threadsafe(settle, found, failure)

        threading.Thread(target=look_up, name="resolve", daemon=True).start()
        async with asyncio.timeout(self._timeout):
            return await answer


@dataclass(frozen=True, slots=True)
class Guard:
    """What a guarded client judges by. `proxy_resolves` lets a proxy look up names that are unknown here."""

    exceptions: Exceptions = NO_EXCEPTIONS
    resolver: Resolver = field(default_factory=SystemResolver)
    proxy_resolves: bool = False

    async def addresses(self, host: str, port: int) -> tuple[IPAddress, ...]:
        """Every address of `host` after one look-up. Raises `FetchError` where there is none or one is refused."""
        try:
            return judge_answers(host, [str(ipaddress.ip_address(host))], self.exceptions)
        except ValueError:
            pass
        try:
            answers = await self.resolver.resolve(host, port)
        except TimeoutError:
            raise FetchError(
                "timeout", f"Looking up {host} took too long. Try again or another source.", host=host, phase="dns"
            ) from None
        except OSError as error:
            reason = error.strerror or str(error) or "no answer"
            raise FetchError(
                "network", f"{host} was not found ({reason}). {_UNKNOWN}", host=host, phase="dns"
            ) from error
        if not answers:
            raise FetchError("network", f"{host} was not found (no address). {_UNKNOWN}", host=host, phase="dns")
        return judge_answers(host, answers, self.exceptions)

    async def is_public(self, url: str) -> bool:
        """Judge a URL that somebody else will fetch, by its text and by what its name means here.

        False where only an exception of the operator allows it. The addresses that some proxies invent for every name
        (198.18.0.0/15) count as public. Raises `FetchError` where the URL may not be read at all.
        """
        target = judge_url(url, self.exceptions)
        try:
            addresses = await self.addresses(target.host, target.port)
        except AddressBlocked:
            raise
        except FetchError:
            if not self.proxy_resolves:
                raise
            return True
        try:
            judge_url(url)
        except AddressBlocked:
            return False
        return all(judge_ip(address) is None or address in _INVENTED for address in addresses)


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Connects to judged addresses only. `inner` makes the sockets."""

    def __init__(self, guard: Guard, inner: httpcore.AsyncNetworkBackend | None = None) -> None:
        self._guard = guard
        self._inner = inner or httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        addresses = (await self._guard.addresses(host, port))[:MAX_ADDRESSES]
        deadline = loop.time() + (timeout or CONNECT_SECONDS)
        failure: Exception = httpcore.ConnectError(f"no address of {host} answered")
        for index, address in enumerate(addresses):
            share = (deadline - loop.time()) / (len(addresses) - index)
            if share <= 0:
                break
            try:
                stream = await self._inner.connect_tcp(str(address), port, share, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
                continue
            return await self._same_peer(stream, address, host)
        raise failure

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)

    @staticmethod
    async def _same_peer(
        stream: httpcore.AsyncNetworkStream, address: IPAddress, host: str
    ) -> httpcore.AsyncNetworkStream:
        peer = stream.get_extra_info("server_addr")
        if not isinstance(peer, tuple) or ipaddress.ip_address(str(peer[0])) != address:
            await stream.aclose()
            raise AddressBlocked(f"The connection to {host} ended at another address than {address}", host=host)
        return stream


class GuardedTransport(httpx.AsyncHTTPTransport):
    """An httpx transport whose every request is judged. Without a proxy the sockets are the guard's own."""

    def __init__(
        self, guard: Guard, *, proxy: str | None = None, inner: httpcore.AsyncNetworkBackend | None = None
    ) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        super().__init__(verify=_tls(), trust_env=False, limits=limits, proxy=proxy)
        self._guard = guard
        if proxy is None:
            self._pool = httpcore.AsyncConnectionPool(
                ssl_context=_tls(),
                max_connections=None,
                max_keepalive_connections=0,
                http2=False,
                network_backend=GuardedBackend(guard, inner),
            )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        judge_url(str(request.url), self._guard.exceptions)
        return await super().handle_async_request(request)


class RoutedTransport(httpx.AsyncBaseTransport):
    """Public hosts through their proxy, private and exempt ones directly; every request is judged before either.

    A private address that the operator allows means a machine of this network: a proxy elsewhere must not learn of it,
    and would reach another machine under the same address.
    """

    def __init__(self, guard: Guard, proxies: Proxies, inner: httpcore.AsyncNetworkBackend | None) -> None:
        self._guard = guard
        self._proxies = proxies
        self._direct = GuardedTransport(guard, inner=inner)
        self._through: dict[str, GuardedTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        proxy = self._proxies.of(str(request.url))
        if proxy is None or not await self._guard.is_public(str(request.url)):
            return await self._direct.handle_async_request(request)
        if proxy not in self._through:
            self._through[proxy] = GuardedTransport(self._guard, proxy=proxy)
        return await self._through[proxy].handle_async_request(request)

    async def aclose(self) -> None:
        for transport in (self._direct, *self._through.values()):
            await transport.aclose()


@functools.cache
def _tls() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)


def guarded_client(
    guard: Guard,
    *,
    proxies: Proxies = DIRECT,
    timeout: httpx.Timeout | None = None,
    inner: httpcore.AsyncNetworkBackend | None = None,
) -> httpx.AsyncClient:
    """A client for URLs that the operator did not write. Proxies are http, https, socks5 or socks5h."""
    return httpx.AsyncClient(
        transport=RoutedTransport(guard, proxies, inner),
        timeout=timeout or httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
        trust_env=False,
        follow_redirects=False,
    )


def trusted_client(
    proxy: str | None = None,
    timeout: float | httpx.Timeout = 15.0,
    headers: Mapping[str, str] | None = None,
) -> httpx.AsyncClient:
    """A client for endpoints that the operator configured; their redirects are not followed. `timeout` in seconds."""
    return httpx.AsyncClient(
        proxy=proxy,
        verify=_tls(),
        timeout=timeout,
        headers={"User-Agent": PRODUCT_USER_AGENT, **(headers or {})},
        trust_env=False,
        follow_redirects=False,
    )
