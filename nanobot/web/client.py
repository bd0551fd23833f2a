"""HTTP clients for the two kinds of addresses: those that anybody names, and those that the operator configured.

`guarded_client` judges every URL before it is sent and connects only to an address that it looked up and judged
itself: one look-up per connection, the judged literal is what the socket gets, and no connection is used twice. The URL
is never rewritten, so the Host header, the TLS server name and the certificate stay those of the site.
`trusted_client` is for endpoints from the configuration. Neither reads proxies from the environment, neither follows
redirects.
"""

import asyncio
import concurrent.futures
import ipaddress
import re
import socket
import ssl
import threading
from collections.abc import Iterable, Sequence
from typing import Protocol

import httpcore
import httpx
from msgspec import Struct, field

from nanobot.config.proxy import Proxies, UnusableProxy
from nanobot.errors import AddressBlocked, FetchError
from nanobot.security.network import INVENTED, NO_EXCEPTIONS, Exceptions, IPAddress, judge_answers, judge_ip, judge_url
from nanobot.utils.connections import certificates, no_certificates, no_cookies
from nanobot.utils.translation import N_, _, sentences

PAGE_USER_AGENT = (  # English: it is sent
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36"
)
PRODUCT_USER_AGENT = "nanobot/0.1 (personal agent)"
CONNECT_SECONDS = 6.0
READ_SECONDS = 8.0
#: A service is given its own time by whoever asks it; a search that reads pages takes minutes.
LONGEST_SECONDS = 600.0
RESOLVE_SECONDS = 5.0
MAX_ADDRESSES = 6
_UNKNOWN = N_("Check the address, or use another source.")
#: What may stand before the body of an answer, in bytes.
HEADER_BYTES = 65_536
#: How much is read at once, in bytes: others get their turn while a body of crumbs is taken apart.
READ_BYTES = 16_384
_HEAD_END = re.compile(rb"\n\r?\n")
_INTERIM = re.compile(rb"HTTP/\d\.\d 1(?!01)\d\d")

DIRECT = Proxies()

SocketOption = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]


class Network(Protocol):
    """Looks names up and connects to addresses. Tests put a small world here."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """The addresses of `host` in the order to try them. Raises OSError where there are none."""

    async def connect(self, address: str, port: int, timeout: float) -> httpcore.AsyncNetworkStream:
        """A connection to an address that was judged. Raises `httpcore.ConnectError` and `ConnectTimeout`."""


class SystemNetwork:
    """The system's network; a look-up has a thread of its own, so that one that hangs holds nothing and nobody."""

    async def connect(self, address: str, port: int, timeout: float) -> httpcore.AsyncNetworkStream:
        return await httpcore.AnyIOBackend().connect_tcp(address, port, timeout)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        answer: concurrent.futures.Future[list[str]] = concurrent.futures.Future()
        answer.set_running_or_notify_cancel()  # so that nobody who stops waiting takes it from the thread

        def look_up() -> None:
            try:
                rows = socket.getaddrinfo(host, port)
                answer.set_result(list(dict.fromkeys(str(row[4][0]) for row in rows)))
            except (OSError, UnicodeError) as error:
                answer.set_exception(error if isinstance(error, OSError) else OSError(str(error)))

        threading.Thread(target=look_up, daemon=True).start()
        async with asyncio.timeout(RESOLVE_SECONDS):
            return await asyncio.wrap_future(answer)


class Guard(Struct, frozen=True):
    """What a guarded client judges by."""

    exceptions: Exceptions = NO_EXCEPTIONS
    network: Network = field(default_factory=SystemNetwork)

    async def addresses(self, host: str, port: int) -> tuple[IPAddress, ...]:
        """Every address of `host` after one look-up. Raises `FetchError` where there is none or one is refused."""
        try:
            return judge_answers(host, [str(ipaddress.ip_address(host))], self.exceptions)
        except ValueError:
            pass
        try:
            answers = await self.network.resolve(host, port)
        except TimeoutError:
            said = _("Looking up {host} took too long. Try again or another source.", host=host)
            raise FetchError("timeout", said, host=host, phase="dns") from None
        except OSError as error:
            raise _not_found(host, error.strerror or str(error)) from error
        if not answers:
            raise _not_found(host, _("no address"))
        return judge_answers(host, answers, self.exceptions)

    async def connect(self, host: str, port: int, timeout: float) -> httpcore.AsyncNetworkStream:
        """A connection to the first address of `host` that answers; each has its share of the time.

        Raises `FetchError`, `httpcore.ConnectError` and `httpcore.ConnectTimeout`.
        """
        clock = asyncio.get_running_loop().time
        addresses = (await self.addresses(host, port))[:MAX_ADDRESSES]
        deadline = clock() + timeout
        failure: Exception = httpcore.ConnectError(_("no address of {host} answered", host=host))
        for index, address in enumerate(addresses):
            share = (deadline - clock()) / (len(addresses) - index)
            if share <= 0:
                break
            try:
                return await self.network.connect(str(address), port, share)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    async def is_public(self, url: str, *, proxied: bool = False) -> bool:
        """Judge a URL that somebody else will fetch, by its text and by what its name means here.

        False where only an exception of the operator allows it. A name that is unknown here is left to a proxy that
        looks it up itself (`proxied`), and nobody else is told of it. Raises `FetchError` where the URL may not be
        read at all.
        """
        target = judge_url(url, self.exceptions)
        try:
            addresses = await self.addresses(target.host, target.port)
        except FetchError as error:
            if not proxied or isinstance(error, AddressBlocked):
                raise
            addresses = ()
        try:
            judge_url(url)
        except AddressBlocked:
            return False
        return all(judge_ip(address) is None or address in INVENTED for address in addresses)


def _not_found(host: str, reason: str) -> FetchError:
    said = sentences(_("{host} was not found ({reason}).", host=host, reason=reason), _(_UNKNOWN))
    return FetchError("network", said, host=host, phase="dns")


class Backend(httpcore.AnyIOBackend):
    """Connects to addresses that `guard` has judged; without one as asked: to the operator's endpoints and proxies."""

    def __init__(self, guard: Guard | None = None) -> None:
        self._guard = guard

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        if self._guard is None:
            stream = await super().connect_tcp(host, port, timeout, local_address, socket_options)
        else:
            stream = await self._guard.connect(host, port, timeout or CONNECT_SECONDS)
        return BoundedStream(stream)


class BoundedStream(httpcore.AsyncNetworkStream):
    """A connection whose server may send `HEADER_BYTES` before the body of an answer, so that it cannot keep us busy.

    httpcore takes any number of interim answers (`100 Continue`), as fast as they come; here they count as well.
    """

    def __init__(self, inner: httpcore.AsyncNetworkStream) -> None:
        self._inner = inner
        self._head: bytes | None
        self._size: int

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._head, self._size = b"", 0  # of the answer to come
        await self._inner.write(buffer, timeout)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = await self._inner.read(min(max_bytes, READ_BYTES), timeout)
        if self._head is not None:
            self._count(self._head + data, len(data))
        return data

    def _count(self, head: bytes, size: int) -> None:
        """Count what stands before the body. Raises `httpcore.RemoteProtocolError` where it is too much."""
        while (end := _HEAD_END.search(head)) and _INTERIM.match(head):
            head = head[end.end() :]
        if end is not None:  # what came last may be body already
            self._head = None
            return
        self._head = head
        self._size += size
        if self._size > HEADER_BYTES:
            raise httpcore.RemoteProtocolError(_("more than 65 kB came before the answer"))

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        return BoundedStream(await self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> object:
        return self._inner.get_extra_info(info)


def _transport(backend: Backend, proxy: str | None = None, *, keep: int, tls: bool = True) -> httpx.AsyncHTTPTransport:
    """httpx's transport, on sockets from `backend`, also those to the proxy. `keep` idle connections are used again.

    Without `tls` it is for addresses that begin with `http:`, and loads no certificates for them.
    """
    limits = httpx.Limits(max_keepalive_connections=keep)
    way = httpx.Proxy(proxy, ssl_context=certificates() if proxy.startswith("https:") else None) if proxy else None
    made = httpx.AsyncHTTPTransport(verify=certificates() if tls else no_certificates(), limits=limits, proxy=way)
    made._pool._network_backend = backend  # noqa: SLF001 - httpx has no argument for it
    return made


class RoutedTransport(httpx.AsyncBaseTransport):
    """Public hosts through their proxy, private and exempt ones directly; every request is judged before either.

    A private address that the operator allows means a machine of this network: a proxy elsewhere must not learn of it,
    and would reach another machine under the same address. No connection is used twice. The target of a redirect is
    moved to the extension `location`, where httpx does not read it: it raises for one that is no address.
    """

    def __init__(self, guard: Guard, proxies: Proxies) -> None:
        self._guard = guard
        self._proxies = proxies
        self._ways: dict[tuple[str | None, bool], httpx.AsyncHTTPTransport] = {}  # by proxy, and whether with TLS

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await (await self._way(str(request.url))).handle_async_request(request)
        response.extensions["location"] = response.headers.pop("location", "")
        return response

    async def _way(self, url: str) -> httpx.AsyncHTTPTransport:
        judge_url(url, self._guard.exceptions)
        try:
            proxy = self._proxies.of(url)
        except UnusableProxy as error:
            raise FetchError(
                "network", _("{problem}, or set tools.web.proxy.", problem=error), phase="connect"
            ) from None
        if proxy is None or not await self._guard.is_public(url, proxied=True):
            proxy = None
        way = proxy, url.lower().startswith("https:")
        if way not in self._ways:
            backend = Backend(self._guard) if proxy is None else Backend()
            self._ways[way] = _transport(backend, proxy, keep=0, tls=way[1])
        return self._ways[way]

    async def aclose(self) -> None:
        for transport in self._ways.values():
            await transport.aclose()


def guarded_client(guard: Guard, *, proxies: Proxies = DIRECT) -> httpx.AsyncClient:
    """A client for URLs that the operator did not write. Proxies are http, https, socks5 or socks5h."""
    return httpx.AsyncClient(
        transport=RoutedTransport(guard, proxies),
        timeout=httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
        cookies=no_cookies(),
    )


def trusted_client(proxy: str | None = None) -> httpx.AsyncClient:
    """A client for endpoints that the operator configured; whoever asks bounds the time. It keeps a few connections."""
    return httpx.AsyncClient(
        transport=_transport(Backend(), proxy, keep=20),
        timeout=LONGEST_SECONDS,
        headers={"User-Agent": PRODUCT_USER_AGENT},
        cookies=no_cookies(),
    )
