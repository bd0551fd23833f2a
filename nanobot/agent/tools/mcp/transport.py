"""The ways to an MCP server over HTTP: streamable HTTP, and SSE for older servers. An answer ends at its bound."""

import re
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
#: Most bytes of one answer, which is parsed on the event loop, for how many each object and list in it counts, as it
#: takes that much longer, and what is said of a larger one.
MAX_ANSWER, PART = 4_000_000, 200
TOO_MUCH = f"its answer has more than {MAX_ANSWER // 1_000_000} MB or {MAX_ANSWER // PART:,} parts; ask it for less"
#: A character in two halves, the half of one, and what else is escaped in JSON.
_ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)
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
    settings: McpServerConfig,
    proxy: FindProxy,
    auth: httpx2.Auth | None,
    judge: Judge | None,
    lost: Callable[[str], None],
) -> AsyncIterator[tuple[object, object]]:
    """A connection to a server: what comes in, and what goes out. `auth` logs requests in; `lost` is told why one that
    has to stay open ended."""
    old, url = settings.type == "sse", settings.url

    async def note(response: httpx2.Response) -> None:
        """Bound an answer before it is read, and keep its status where it is a refusal."""
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx2.DecodingError("its answer is packed, though it was asked for plain ones")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            events = response.headers.get("content-type", "").startswith("text/event-stream")
            response.stream = _Bounded(response.stream, events=events, lost=lost if old and events else None)
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
    """The body of one answer, up to `MAX_ANSWER` bytes, or of `events` with lines of that.

    It comes in whole lines, and without the halves of characters that servers leave which cut a text.
    """

    def __init__(self, inner: httpx2.AsyncByteStream, *, events: bool, lost: Callable[[str], None] | None) -> None:
        self._inner, self._events, self._lost = inner, events, lost

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for lines in self._lines():
                yield lines
        finally:
            if self._lost is not None:
                self._lost("it has ended the connection")

    async def _lines(self) -> AsyncIterator[bytes]:
        size, held = 0, bytearray()
        async for block in self._inner:
            size += size_of(block)
            if size > MAX_ANSWER:  # with these the SDK fails the one request
                raise (httpx2.SSEError if self._events else httpx2.StreamError)(TOO_MUCH)
            held += block
            if ends := block.rfind(b"\n") + 1:
                whole = len(held) - len(block) + ends
                yield _whole(bytes(held[:whole]))
                del held[:whole]
                size = size_of(bytes(held)) if self._events else size
        yield _whole(bytes(held))

    async def aclose(self) -> None:
        await self._inner.aclose()


def size_of(text: bytes) -> int:
    """The bytes of JSON, and what its parts count for; those of JSON inside a string have their quotes escaped."""
    return len(text) + PART * sum(text.count(mark) - text.count(mark + b"\\") for mark in (b"{", b"["))


def _whole(text: bytes) -> bytes:
    """JSON without halves of characters, which no other reader takes."""
    return _ESCAPES.sub(lambda found: b"" if found["half"] else found[0], text)
