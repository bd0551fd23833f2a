"""The ways to an MCP server over HTTP: streamable HTTP, and SSE for older servers. An answer ends at its bound."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from msgspec import Struct

from nanobot.config.schema_tools import McpServerConfig
from nanobot.utils.connections import NoCookies, certificates
from nanobot.web.client import PRODUCT_USER_AGENT

#: Seconds to open a connection; shaking hands is part of the call, as some servers start with the first request.
CONNECT_SECONDS = 10.0
#: Most bytes of one answer, and what is said of a longer one.
MAX_ANSWER = 4_000_000
TOO_MUCH = f"its answer has more than {MAX_ANSWER // 1_000_000} MB; ask it for less"
#: The proxy on the way to a URL. Raises `UnusableProxy`.
FindProxy = Callable[[str], str | None]
#: Sees each request before it is sent, and raises what keeps it back.
Judge = Callable[[httpx2.Request], Awaitable[None]]


class RequestTrouble(Struct):
    """What went wrong with one request: the HTTP status that was a refusal, and why it could not be logged in."""

    status: int = 0
    login: str = ""


#: That of the request which is sent or answered; the SDK serves each in the context of whoever made it.
TROUBLE: ContextVar[RequestTrouble] = ContextVar("trouble of an MCP request")


@asynccontextmanager
async def http_streams(
    settings: McpServerConfig, proxy: FindProxy, auth: httpx2.Auth | None, judge: Judge | None
) -> AsyncIterator[tuple[object, object]]:
    """A connection to a server: what comes in, and what goes out. `auth` logs requests in."""
    old, url = settings.type == "sse", settings.url

    async def note(response: httpx2.Response) -> None:
        """Bound an answer before it is read, and keep its status where it is a refusal."""
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx2.DecodingError("its answer is packed, though it was asked for plain ones")
        events = response.headers.get("content-type", "").startswith("text/event-stream")  # which the SDK bounds
        if isinstance(response.stream, httpx2.AsyncByteStream) and not events:
            response.stream = _Bounded(response.stream)
        if old or response.request.method == "POST":
            TROUBLE.get().status = response.status_code if response.status_code >= 400 else 0

    def client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = auth,
    ) -> httpx2.AsyncClient:
        del headers, timeout  # what the SDK would take where nothing was set
        return httpx2.AsyncClient(
            headers={"User-Agent": PRODUCT_USER_AGENT, **settings.headers, "Accept-Encoding": "identity"},
            proxy=proxy(url),
            verify=certificates(),
            cookies=NoCookies(),
            timeout=httpx2.Timeout(CONNECT_SECONDS, read=300.0),
            trust_env=False,
            auth=auth,
            event_hooks={"response": [note], "request": [judge] if judge else []},
        )

    if old:
        async with sse_client(url, httpx_client_factory=client, auth=auth) as streams:
            yield streams
        return
    async with (
        client() as made,
        streamable_http_client(url, http_client=made, max_sse_event_size=MAX_ANSWER) as streams,
    ):
        yield streams


class _Bounded(httpx2.AsyncByteStream):
    """The body of one answer, up to `MAX_ANSWER` bytes."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for block in self._inner:
            size += len(block)
            if size > MAX_ANSWER:
                raise httpx2.StreamError(TOO_MUCH)  # with this the SDK fails the one request
            yield block

    async def aclose(self) -> None:
        await self._inner.aclose()
