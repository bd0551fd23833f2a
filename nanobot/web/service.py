"""Requests to services that the operator configured: the engines of searches, and readers of pages elsewhere.

Their redirects are not followed. A room says by `fail` which of its errors a request that got no answer becomes.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Literal

import httpx
from msgspec import Struct, field

from nanobot.config.proxy import Proxies, UnusableProxy
from nanobot.errors import NanobotError
from nanobot.jsonval import parse
from nanobot.utils.connections import reason_of
from nanobot.utils.secrecy import Reticent
from nanobot.utils.text import one_line
from nanobot.utils.translation import _
from nanobot.web.client import trusted_client
from nanobot.web.urls import host_of

#: Why no answer came: its time was over; a proxy that cannot be used or refused; its address is none; it cannot be
#: reached; it sent too much.
NoAnswer = Literal["timeout", "proxy unusable", "proxy refused", "address", "network", "too_large"]
#: Headers that carry a login.
_LOGIN = frozenset({"authorization", "host", "cookie", "x-api-key", "x-subscription-token"})
ClientFactory = Callable[[str | None], httpx.AsyncClient]


class Ask(Reticent, frozen=True):
    """One request: a POST where it has a JSON `body`, else a GET. `headers` include the login."""

    unprinted = ("headers",)

    url: str
    body: Mapping[str, object] | None = None
    params: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


class ServiceAccess(Reticent, frozen=True):
    """How a service is reached. `base_url` is empty for its own address; `problem` forbids to ask it.

    The operator's own `headers` stand in the place of others; those of a login only where `override_auth` allows it.
    """

    unprinted = ("api_key", "headers", "proxies")

    api_key: str = ""
    base_url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    override_auth: bool = False
    proxies: Proxies = field(default_factory=Proxies)
    problem: str = ""
    call_id_header: str = ""


class ServiceAnswer(Struct, frozen=True):
    """An answer of any status."""

    status: int
    headers: httpx.Headers
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def json(self) -> object:
        """The JSON of the body, None where it is none."""
        return parse(self.body)


class ServiceClient:
    """Sends requests to one service through a client of its own, made at the first of them.

    `fail` makes the error of the reason, words about it, and the proxy on the way; `most` is the largest body in bytes.
    """

    def __init__(
        self,
        access: Callable[[], ServiceAccess],
        fail: Callable[[NoAnswer, str, str | None], NanobotError],
        *,
        most: int,
        clients: ClientFactory = trusted_client,
    ) -> None:
        self._access = access
        self._fail = fail
        self._most = most
        self._clients = clients
        self._client: httpx.AsyncClient | None = None

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def clean(self, words: object) -> str:
        """Words of the service on one line, at most 300 characters, the key in them replaced by an ellipsis."""
        line, key = one_line(str(words)), self._access().api_key
        return (line.replace(key, "…") if len(key) > 3 else line)[:300]

    async def send(self, ask: Ask, *, timeout: float) -> ServiceAnswer:
        """The answer, whatever its status. `timeout` is in seconds for all of it. Raises what `fail` makes."""
        try:
            proxy = self._access().proxies.of(ask.url)
        except UnusableProxy as error:
            raise self._fail("proxy unusable", str(error), None) from None
        try:
            async with asyncio.timeout(timeout):
                return await self._send(ask, proxy)
        except (TimeoutError, httpx.TimeoutException):
            raise self._fail("timeout", _("within {seconds:.3g} s", seconds=timeout), proxy) from None
        except httpx.ProxyError as error:
            raise self._fail("proxy refused", reason_of(error), proxy) from None
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise self._fail("address", str(error), proxy) from None
        except (httpx.HTTPError, ssl.SSLError, OSError) as error:
            raise self._fail("network", reason_of(error), proxy) from None

    async def _send(self, ask: Ask, proxy: str | None) -> ServiceAnswer:
        if self._client is None:
            self._client = self._clients(proxy)
        method = "GET" if ask.body is None else "POST"
        headers = httpx.Headers(dict(ask.headers))
        own = self._access()
        for name, value in own.headers.items():
            if own.override_auth or name.lower() not in _LOGIN:
                headers[name] = value
        request = self._client.build_request(method, ask.url, params=ask.params or None, json=ask.body, headers=headers)
        async with aclosing(await self._client.send(request, stream=True)) as response:
            body = bytearray()
            async for part in response.aiter_bytes():
                body += part
                if len(body) > self._most:
                    raise self._fail("too_large", _("more than {size} MB", size=self._most // 1_000_000), proxy)
        return ServiceAnswer(response.status_code, response.headers, bytes(body))


def call_id_header(name: str, url: str) -> str:
    """The header for a tool call's id: the configured one, else the one that the host of the service knows."""
    known = f".{host_of(url)}".endswith((".moonshot.cn", ".moonshot.ai", ".kimi.com"))
    return name or ("X-Msh-Tool-Call-Id" if known else "X-Tool-Call-Id")
