"""The ways to an MCP server over HTTP, with bounds on what it sends: streamable HTTP, and SSE for older servers.

An answer is counted while it streams and ends at its bound; a server that sends much unasked is read slowly.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from msgspec import Struct, field

from nanobot.utils.connections import NoCookies, certificates
from nanobot.web.client import PRODUCT_USER_AGENT

#: Seconds to open a connection; shaking hands is part of the call, as some servers start with the first request.
CONNECT_SECONDS = 10.0
#: Most bytes of one answer, and most objects and lists in it. An answer is parsed on the event loop, and what that
#: takes grows with its parts more than with its bytes.
MAX_ANSWER, MAX_PARTS = 4_000_000, 20_000
#: What a server may send unasked: so many messages at once, and so many a second; a long one counts as several.
BURST, RATE, BYTES_OF_ONE = 200, 100.0, 100_000
#: A character in two halves, the half of one, and what else is escaped in JSON.
_ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)
#: The proxy on the way to a URL. Raises `UnusableProxy`.
FindProxy = Callable[[str], str | None]


class RequestTrouble(Struct):
    """What went wrong with one request: the HTTP status that was a refusal, what its answer had too much of, and why it
    could not be logged in."""

    status: int = 0
    excess: str = ""
    login: str = ""


#: That of the request which is sent or answered; the SDK serves each in the context of whoever made it.
TROUBLE: ContextVar[RequestTrouble] = ContextVar("trouble of an MCP request")


class IncomingPace(Struct):
    """Slows down a server that sends much: who does not read it makes it wait."""

    _left: float = float(BURST)
    _at: float = 0.0

    async def take(self, size: int) -> None:
        """Wait until a message of `size` bytes is within the pace."""
        now = asyncio.get_running_loop().time()
        self._left = min(float(BURST), self._left + (now - self._at) * RATE) if self._at else self._left
        self._at = now
        self._left -= 1 + size / BYTES_OF_ONE
        if self._left < 0:
            await asyncio.sleep(-self._left / RATE)


class Way(Struct, frozen=True):
    """An address with what goes to it. `headers` may hold a login; `old`: it speaks SSE, as servers did before 2025.

    `auth` logs requests in; `judge` sees each request before it is sent, and raises what keeps it back.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    old: bool = False
    auth: httpx2.Auth | None = None
    judge: Callable[[httpx2.Request], Awaitable[None]] | None = None


@asynccontextmanager
async def http_streams(way: Way, proxy: FindProxy, lost: Callable[[str], None]) -> AsyncIterator[tuple[object, object]]:
    """A connection to `way`: what comes in, and what goes out. `lost` is told why one that has to stay open ended."""

    async def note(response: httpx2.Response) -> None:
        await _note(response, lost if way.old else None)

    def client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        del headers, timeout, auth  # what the SDK would take where nothing was set
        return httpx2.AsyncClient(
            headers={"User-Agent": PRODUCT_USER_AGENT, **way.headers, "Accept-Encoding": "identity"},
            proxy=proxy(way.url),
            verify=certificates(),
            cookies=NoCookies(),
            timeout=httpx2.Timeout(CONNECT_SECONDS, read=300.0),
            trust_env=False,
            auth=way.auth,
            event_hooks={"response": [note], "request": [way.judge] if way.judge else []},
        )

    if way.old:
        async with sse_client(way.url, httpx_client_factory=client) as streams:
            yield streams
        return
    async with (
        client() as made,
        streamable_http_client(way.url, http_client=made, max_sse_event_size=MAX_ANSWER) as streams,
    ):
        yield streams


async def _note(response: httpx2.Response, lost: Callable[[str], None] | None) -> None:
    """Bound an answer before it is read, and keep its status where it is a refusal. `lost`: it may not end."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError("its answer is packed, though it was asked for plain ones")
    trouble = TROUBLE.get()
    if isinstance(response.stream, httpx2.AsyncByteStream):
        events = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = _Bounded(response.stream, trouble, events=events, lost=lost if events else None)
    if response.status_code >= 400 and (lost or response.request.method == "POST"):
        trouble.status = response.status_code
    elif response.request.method == "POST":
        trouble.status = 0  # the same request once it was logged in


class _Bounded(httpx2.AsyncByteStream):
    """The body of one answer, up to `MAX_ANSWER` bytes and `MAX_PARTS`; of events, up to that in each.

    It comes in whole lines, and without the halves of characters that servers leave which cut a text.
    """

    def __init__(
        self,
        inner: httpx2.AsyncByteStream,
        trouble: RequestTrouble,
        *,
        events: bool,
        lost: Callable[[str], None] | None,
    ) -> None:
        self._inner = inner
        self._lost = lost
        self._trouble = trouble
        self._events = events
        self._pace = IncomingPace()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held = bytearray()
        try:
            async for block in self._counted():
                held += block
                if ends := max(block.rfind(b"\n"), block.rfind(b"\r")) + 1:
                    line_end = len(held) - len(block) + ends
                    yield _whole(bytes(held[:line_end]))
                    del held[:line_end]
            yield _whole(bytes(held))
        finally:
            if self._lost is not None:
                self._lost(self._trouble.excess or "it has ended the connection")

    async def _counted(self) -> AsyncIterator[bytes]:
        size = parts = 0
        async for block in self._inner:
            ends = max(block.rfind(b"\n\n"), block.rfind(b"\r\n\r\n")) if self._events else -1
            before, after = (block, b"") if ends < 0 else (block[:ends], block[ends:])
            size, parts = size + len(before), parts + parts_of(before)
            if excess := excess_of(size, parts):
                self._trouble.excess = excess
                # With these the SDK fails the one request; any other error ends the connection, or asks once more.
                raise (httpx2.SSEError if self._events else httpx2.StreamError)(excess)
            if ends >= 0:
                size, parts = len(after), parts_of(after)
                for _ in range(block.count(b"\n\n") + block.count(b"\r\n\r\n")):
                    await self._pace.take(0)
                await self._pace.take(len(before))
            yield block

    async def aclose(self) -> None:
        await self._inner.aclose()


def _whole(text: bytes) -> bytes:
    """JSON without halves of characters, which no other reader takes."""
    return _ESCAPES.sub(lambda found: b"" if found["half"] else found[0], text) if b"\\u" in text else text


def excess_of(size: int, parts: int) -> str:
    """What an answer has too much of; empty where it is within the bounds."""
    if size <= MAX_ANSWER and parts <= MAX_PARTS:
        return ""
    most = f"{MAX_ANSWER // 1_000_000} MB" if size > MAX_ANSWER else f"{MAX_PARTS:,} objects and lists"
    return f"its answer has more than {most}"


def parts_of(block: bytes) -> int:
    """How many objects and lists begin here; those of JSON inside a text have their quotes escaped and do not count."""
    return sum(block.count(mark) - block.count(mark + b"\\") for mark in (b"{", b"["))
