"""The one place that opens connections to model servers: client, deadlines, and a stream of server-sent events."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from ipaddress import ip_address
from urllib.parse import urlsplit

import httpx
from msgspec import Struct, field

from nanobot.config.proxy import Proxies, UnusableProxy, through
from nanobot.errors import ProviderError
from nanobot.providers import jsonval
from nanobot.providers.failures import Origin, failure, from_event, from_status
from nanobot.security.network import certificates, no_cookies
from nanobot.utils.reticent import Reticent

#: Bytes of one event, and of an answer as a whole.
BODY_LIMIT = 16 * 1024 * 1024


class Deadlines(Struct, frozen=True):
    """Seconds. `first` runs until the first event of an answer, `idle` between two reads (comments count as life)."""

    connect: float = 5.0
    write: float = 30.0
    first: float = 180.0
    idle: float = 90.0


LOCAL_DEADLINES = Deadlines(first=600.0, idle=600.0)
"""A local server may read a long prompt for minutes before its first word."""


class Endpoint(Reticent, frozen=True):
    """Where requests go. `headers` carry the key and are never shown."""

    unprinted = ("headers", "proxies")

    origin: Origin
    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    deadlines: Deadlines = field(default_factory=Deadlines)
    proxies: Proxies = field(default_factory=Proxies)

    @property
    def proxy(self) -> str | None:
        """The proxy on the way there, None for private hosts. Raises `UnusableProxy`."""
        return None if is_private(self.base_url) else self.proxies.of(self.base_url)


def is_private(url: str) -> bool:
    """True for loopback and private addresses, which are reached without a proxy."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith((".localhost", ".local")):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_private or address.is_loopback


def make_client(endpoint: Endpoint) -> httpx.AsyncClient:
    """A client for one server: no redirects, no cookies, no proxy to private hosts. Raises `UnusableProxy`."""
    limits = endpoint.deadlines
    near = is_private(endpoint.base_url)
    return httpx.AsyncClient(
        headers={"User-Agent": "nanobot", **endpoint.headers},
        timeout=httpx.Timeout(limits.idle, connect=limits.connect, write=limits.write, pool=limits.connect),
        limits=httpx.Limits(max_connections=None, keepalive_expiry=4.0 if near else 30.0),
        # Where there is no TLS, none is loaded.
        verify=False if near and endpoint.base_url.startswith("http://") else certificates(),
        proxy=endpoint.proxy,
        cookies=no_cookies(),
        trust_env=False,
        follow_redirects=False,
    )


class EventTooLarge(ValueError):
    """One event has more than `BODY_LIMIT` bytes."""


class SseDecoder:
    """Feed bytes, get `(event, data)` pairs. Comments are dropped; the event name is empty where none was sent.

    Lines end with LF, CRLF or CR and with nothing else: U+2028, U+0085 and their kind are legal inside JSON.
    """

    __slots__ = ("_buffer", "_data", "_event", "_size")

    def __init__(self) -> None:
        self._buffer = b""
        self._event = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[tuple[str, str]]:
        """The events that are complete after `chunk`."""
        block = self._buffer + chunk
        held = b""
        if b"\r" in block:
            if block.endswith(b"\r"):  # the LF of a CRLF may still be on its way
                block, held = block[:-1], b"\r"
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = block.split(b"\n")
        self._buffer = rest + held
        if len(self._buffer) > BODY_LIMIT:
            raise EventTooLarge
        return self._take(lines)

    def end(self) -> list[tuple[str, str]]:
        """The last event where the stream ended without a blank line."""
        rest, self._buffer = self._buffer.rstrip(b"\r"), b""
        return self._take([rest, b""])

    def _take(self, lines: list[bytes]) -> list[tuple[str, str]]:
        events: list[tuple[str, str]] = []
        for line in lines:
            if line.startswith(b"data:"):
                value = line[6:] if line[5:6] == b" " else line[5:]
                self._size += len(value)
                if self._size > BODY_LIMIT:
                    raise EventTooLarge
                self._data.append(value.decode("utf-8", "replace"))
            elif not line:
                if self._data:
                    events.append((self._event, "\n".join(self._data)))
                    self._data = []
                    self._size = 0
                self._event = ""
            elif line.startswith(b"event:"):
                self._event = line[6:].strip().decode("utf-8", "replace")
        return events


class Link:
    """One server and its open connections. `post` raises `ProviderError` only."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._client: httpx.AsyncClient | None = None

    @property
    def client(self) -> httpx.AsyncClient:
        if self._client is None or self._client.is_closed:
            self._client = make_client(self.endpoint)
        return self._client

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def post(self, path: str, body: bytes) -> AsyncGenerator[tuple[str, str, str], None]:
        """Send `body` and yield `(event, data, request id)`. A JSON answer comes as the one event `json`."""
        origin = self.endpoint.origin
        try:
            async with aclosing(self._post(path, body)) as events:
                async for event in events:
                    yield event
        except TimeoutError as error:
            seconds = self.endpoint.deadlines.first
            raise failure(origin, "timeout", f"no answer began within {seconds:.0f} seconds") from error
        except httpx.ConnectTimeout as error:
            raise failure(origin, "network", f"{self._host} did not accept a connection in time") from error
        except httpx.TimeoutException as error:
            seconds = self.endpoint.deadlines.idle
            raise failure(origin, "timeout", f"the server said nothing for {seconds:.0f} seconds") from error
        except UnusableProxy as error:
            said = f"{error}."
            raise ProviderError("bad_request", f"{origin.name}: {said}", provider=origin.name, detail=said) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise failure(origin, "network", f"the connection to {self._host} failed ({reason})") from error
        except EventTooLarge as error:
            raise failure(origin, "protocol", "one event is larger than 16 MB") from error

    @property
    def _host(self) -> str:
        host = urlsplit(self.endpoint.base_url).netloc.rpartition("@")[2] or self.endpoint.base_url
        return f"{host}{through(self.endpoint.proxy)}"

    async def _post(self, path: str, body: bytes) -> AsyncGenerator[tuple[str, str, str], None]:
        async with asyncio.timeout(self.endpoint.deadlines.first):
            response = await self._send(path, body)
            try:
                await self._check(response)
                identity = request_id(response.headers)
                decoder = SseDecoder()
                chunks = response.aiter_bytes()
                opening = await self._opening(response, chunks, decoder)
            except BaseException:
                await response.aclose()
                raise
        try:
            for event, data in opening:
                yield event, data, identity
            async for chunk in chunks:
                for event, data in decoder.feed(chunk):
                    yield event, data, identity
            for event, data in decoder.end():
                yield event, data, identity
        finally:
            await response.aclose()

    async def _send(self, path: str, body: bytes) -> httpx.Response:
        """Local servers drop idle connections, so a request that met a dead one is sent once more."""
        url = self.endpoint.base_url.rstrip("/") + path
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        for last in (False, True):
            request = self.client.build_request("POST", url, content=body, headers=headers)
            reading = request.extensions["timeout"]
            idle, reading["read"] = reading["read"], self.endpoint.deadlines.first  # a model may think before a word
            try:
                response = await self.client.send(request, stream=True)
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
                if last or not is_private(self.endpoint.base_url):
                    raise
            else:
                reading["read"] = idle  # read anew when the body begins
                return response
        raise AssertionError  # the loop returns or raises

    async def _check(self, response: httpx.Response) -> None:
        if response.status_code != 200:
            text = await self._text(response)
            raise from_status(self.endpoint.origin, response.status_code, response.headers, text)

    async def _opening(
        self, response: httpx.Response, chunks: AsyncIterator[bytes], decoder: SseDecoder
    ) -> list[tuple[str, str]]:
        """The first events; or the answer as a whole where the server did not stream."""
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind in {"", "text/event-stream", "application/octet-stream", "text/plain"}:
            async for chunk in chunks:
                if events := decoder.feed(chunk):
                    return events
            return decoder.end()
        body = await self._text(response, chunks)
        value = jsonval.obj(jsonval.parse(body))
        if value.get("error"):
            raise from_event(self.endpoint.origin, value)
        if value.keys() & {"choices", "content", "candidates", "output"}:
            return [("json", body)]
        what = f"expected a stream, got {kind}: {body[:200]}"
        raise failure(self.endpoint.origin, "protocol", what, status=response.status_code)

    async def _text(self, response: httpx.Response, chunks: AsyncIterator[bytes] | None = None) -> str:
        parts: list[bytes] = []
        size = 0
        async for chunk in chunks or response.aiter_bytes():
            parts.append(chunk)
            size += len(chunk)
            if size > BODY_LIMIT:
                break
        return b"".join(parts).decode("utf-8", "replace")


def request_id(headers: Mapping[str, str]) -> str:
    """The vendor's name of this request, for a support question."""
    for name in ("x-request-id", "request-id", "x-generation-id"):
        if name in headers:
            return headers[name]
    return ""


async def list_models(endpoint: Endpoint, seconds: float = 5.0) -> list[str]:
    """The models that the server lists now, in its order; empty where it cannot be asked."""
    base = endpoint.base_url.rstrip("/")
    messages = "anthropic-version" in endpoint.headers and not base.endswith("/v1")
    path = "/v1/models?limit=1000" if messages else "/models"
    try:
        async with asyncio.timeout(seconds), make_client(endpoint) as client:
            response = await client.get(base + path)
    except (httpx.HTTPError, httpx.InvalidURL, UnusableProxy, TimeoutError):
        return []
    listed = jsonval.obj(jsonval.parse(response.text)) if response.status_code == 200 else {}
    return [jsonval.text(jsonval.obj(item).get("id")) for item in jsonval.items(listed.get("data"))]
