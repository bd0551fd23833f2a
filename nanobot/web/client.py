"""HTTP clients for the two kinds of addresses: those that anybody names, and those that the operator configured.

`guarded_client` judges every URL before it is sent and connects only to an address that it looked up and judged
itself: one look-up per connection, the judged literal is what the socket gets, and no connection is used twice. The URL
is never rewritten, so the Host header, the TLS server name and the certificate stay those of the site.
`trusted_client` is for endpoints from the configuration. Neither reads proxies from the environment, neither follows
redirects.
"""

import asyncio
import ipaddress
from collections.abc import Sequence
from typing import Protocol

import httpx
from msgspec import Struct, field

from nanobot.config.proxy import Proxies, UnusableProxy
from nanobot.errors import AddressBlocked, FetchError
from nanobot.security.network import INVENTED, NO_EXCEPTIONS, Exceptions, IPAddress, judge_answers, judge_ip, judge_url
from nanobot.utils.connections import Connections, NoCookies, Stream, certificates, dial, first, look_up
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
DIRECT = Proxies()


class Network(Protocol):
    """Looks names up and connects to addresses. Tests put a small world here."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """The addresses of `host` in the order to try them. Raises OSError where there are none."""

    async def connect(self, address: str, port: int, timeout: float | None) -> Stream:
        """A connection to an address that was judged. Raises `httpx.ConnectError` and `ConnectTimeout`."""


class SystemNetwork:
    """The system's network."""

    async def connect(self, address: str, port: int, timeout: float | None) -> Stream:
        return await dial(address, port, timeout)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        async with asyncio.timeout(RESOLVE_SECONDS):
            return await look_up(host, port)


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

    async def connect(self, host: str, port: int, timeout: float | None) -> Stream:
        """A connection to the first address of `host` that answers.

        Raises `FetchError`, `httpx.ConnectError` and `httpx.ConnectTimeout`.
        """
        addresses = [str(address) for address in (await self.addresses(host, port))[:MAX_ADDRESSES]]
        try:
            async with asyncio.timeout(timeout or CONNECT_SECONDS):
                return await first(addresses, port, self.network.connect)
        except TimeoutError:
            raise httpx.ConnectTimeout("") from None

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


class RoutedTransport(httpx.AsyncBaseTransport):
    """Public hosts through their proxy, private and exempt ones directly; every request is judged before either.

    A private address that the operator allows means a machine of this network: a proxy elsewhere must not learn of it,
    and would reach another machine under the same address. No connection is used twice. The target of a redirect is
    moved to the extension `location`, where httpx does not read it: it raises for one that is no address.
    """

    def __init__(self, guard: Guard, proxies: Proxies) -> None:
        self._guard = guard
        self._proxies = proxies
        self._ways: dict[str | None, Connections] = {}  # by proxy

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await (await self._way(str(request.url))).handle_async_request(request)
        response.extensions["location"] = response.headers.pop("location", "")
        return response

    async def _way(self, url: str) -> Connections:
        judge_url(url, self._guard.exceptions)
        try:
            proxy = self._proxies.of(url)
        except UnusableProxy as error:
            raise FetchError(
                "network", _("{problem}, or set tools.web.proxy.", problem=error), phase="connect"
            ) from None
        if proxy is None or not await self._guard.is_public(url, proxied=True):
            proxy = None
        if proxy not in self._ways:
            self._ways[proxy] = Connections(certificates, proxy=proxy, idle=0, reach=self._guard.connect)
        return self._ways[proxy]

    async def aclose(self) -> None:
        for connections in self._ways.values():
            await connections.aclose()


def guarded_client(guard: Guard, *, proxies: Proxies = DIRECT) -> httpx.AsyncClient:
    """A client for URLs that the operator did not write. Proxies are http, https, socks5 or socks5h."""
    return httpx.AsyncClient(
        transport=RoutedTransport(guard, proxies),
        timeout=httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
        cookies=NoCookies(),
    )


def trusted_client(proxy: str | None = None) -> httpx.AsyncClient:
    """A client for endpoints that the operator configured; whoever asks bounds the time."""
    return httpx.AsyncClient(
        transport=Connections(certificates, proxy=proxy),
        timeout=LONGEST_SECONDS,
        headers={"User-Agent": PRODUCT_USER_AGENT},
        cookies=NoCookies(),
    )
