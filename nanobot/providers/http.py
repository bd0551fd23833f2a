"""The one place that opens connections to model servers: client, deadlines, and a stream of server-sent events."""

import asyncio
from codecs import BOM_UTF8
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from functools import lru_cache
from urllib.parse import urlsplit

import httpx
from msgspec import Struct, field

from nanobot import jsonval
from nanobot.config.proxy import Proxies, UnusableProxy, through
from nanobot.errors import ProviderError
from nanobot.providers.failures import Origin, failure, from_event, from_status, plain
from nanobot.utils.connections import Connections, NoCookies, certificates, login, reason_of
from nanobot.utils.secrecy import Reticent, is_own
from nanobot.utils.translation import _

#: Bytes of one event, and of an answer as a whole.
BODY_LIMIT = 16 * 1024 * 1024
_url = lru_cache(maxsize=64)(httpx.URL)
_HEADERS = {"Accept-Encoding": "gzip, deflate", "Connection": "keep-alive", "User-Agent": "nanobot"}
_STREAMED = {"Content-Type": "application/json", "Accept": "text/event-stream"}


class Deadlines(Struct, frozen=True):
    """Seconds. `first` runs until the first event of an answer, `idle` between two reads (comments count as life)."""

    connect: float = 5.0
    write: float = 30.0
    first: float = 180.0
    idle: float = 90.0


#: A local server may read a long prompt for minutes before its first word.
LOCAL_DEADLINES = Deadlines(first=600.0, idle=600.0)


class Endpoint(Reticent, frozen=True):
    """Where requests go. `headers` carry the key and are never shown; `extra_body` goes into every request for an
    answer."""

    unprinted = ("headers", "proxies", "extra_body")

    origin: Origin
    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    deadlines: Deadlines = field(default_factory=Deadlines)
    proxies: Proxies = field(default_factory=Proxies)
    extra_body: Mapping[str, object] = field(default_factory=dict)

    @property
    def proxy(self) -> str | None:
        """The proxy on the way there, None for a direct connection. Raises `UnusableProxy`."""
        return self.proxies.of(self.base_url)


def is_private(url: str) -> bool:
    """True for servers of this machine and of own networks."""
    return is_own(urlsplit(url).hostname or "")


def make_client(endpoint: Endpoint) -> httpx.AsyncClient:
    """A client for one server: no redirects, no cookies, no proxy to private hosts. Raises `UnusableProxy`."""
    limits = endpoint.deadlines
    return httpx.AsyncClient(
        headers={"User-Agent": "nanobot", **endpoint.headers},
        timeout=httpx.Timeout(limits.idle, connect=limits.connect, write=limits.write, pool=limits.connect),
        transport=_connections(endpoint),
        cookies=NoCookies(),
        trust_env=False,
        follow_redirects=False,
    )


def _connections(endpoint: Endpoint) -> Connections:
    return Connections(certificates, proxy=endpoint.proxy, idle=4.0 if is_private(endpoint.base_url) else 30.0)


class EventTooLarge(ValueError):
    """One event has more than `BODY_LIMIT` bytes."""


class SseDecoder:
    """Feed bytes, get `(event, data)` pairs. Comments are dropped; the event name is empty where none was sent.

    Lines end with LF, CRLF or CR and with nothing else: U+2028, U+0085 and their kind are legal inside JSON.
    """

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, chunk: bytes) -> Iterator[tuple[str, bytes]]:
        """The events that are complete after `chunk`."""
        block, held = self._buffer + chunk if self._buffer else chunk, b""
        if b"\r" in block:
            if block.endswith(b"\r"):  # the LF of a CRLF may still be on its way
                block, held = block[:-1], b"\r"
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *whole, rest = block.split(b"\n\n")
        self._buffer = rest + held
        if len(self._buffer) > BODY_LIMIT:
            raise EventTooLarge
        for lines in whole:
            if lines.startswith(b"data: ") and b"\n" not in lines and len(lines) > 6:
                yield "", lines[6:]
            elif event := _event(lines):
                yield event

    def end(self) -> Iterator[tuple[str, bytes]]:
        """The last event where the stream ended without a blank line."""
        return self.feed(b"\n\n\n")


def _event(lines: bytes) -> tuple[str, bytes] | None:
    """An event of several lines; None where it has no data."""
    name, data = "", list[bytes]()
    for line in lines.split(b"\n"):
        key, _, value = line.removeprefix(BOM_UTF8).partition(b":")
        if key == b"data":
            data.append(value.removeprefix(b" "))
        elif key == b"event":
            name = value.strip().decode("utf-8", "replace")
    return (name, b"\n".join(data)) if any(data) else None


class Link:
    """One server and its open connections. `post` raises `ProviderError` only."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._made: tuple[Connections, list[tuple[bytes, bytes]]] | None = None

    async def aclose(self) -> None:
        if self._made is not None:
            await self._made[0].aclose()

    def _ready(self, host: bytes) -> tuple[Connections, list[tuple[bytes, bytes]]]:
        """The connections, and what every request says: read once, where a client would for each request."""
        if self._made is None:
            headers = httpx.Headers({b"Host": host})
            headers.update(_HEADERS)
            headers.update(self.endpoint.headers)
            headers.update(_STREAMED)
            headers.update(login(urlsplit(self.endpoint.base_url), "Authorization"))
            self._made = _connections(self.endpoint), headers.raw
        return self._made

    async def post(self, path: str, body: bytes) -> AsyncGenerator[tuple[str, bytes], None]:
        """Send `body` and yield `(event, data)`. An answer in which no event is comes whole, as the one event `json`.

        What a server calls its answer proves nothing.
        """
        with self._failures():
            limit = asyncio.timeout(self.endpoint.deadlines.first)
            async with limit, aclosing(await self._send(path, body)) as response:
                if response.status_code != 200:
                    refusal = (await _read(response)).decode("utf-8", "replace")
                    raise from_status(self.endpoint.origin, response.status_code, response.headers, refusal)
                decoder, waiting, said = SseDecoder(), True, bytearray()
                packed = "content-encoding" in response.headers
                bare = response.stream if isinstance(response.stream, httpx.AsyncByteStream) and not packed else None
                async for chunk in bare or response.aiter_bytes():
                    for event, data in decoder.feed(chunk):
                        if waiting:
                            waiting = False
                            limit.reschedule(None)  # from now on each read has its own limit
                        yield event, data
                    if waiting and len(said) < BODY_LIMIT:
                        said += chunk
                limit.reschedule(None)
                for event, data in decoder.end():
                    waiting = False
                    yield event, data
                if waiting and self._is_answer(response, said):
                    yield "json", bytes(said)

    async def _send(self, path: str, body: bytes) -> httpx.Response:
        limits, url = self.endpoint.deadlines, _url(self.endpoint.base_url.rstrip("/") + path)
        connections, known = self._ready(url.netloc)
        headers = [*known, (b"Content-Length", b"%d" % len(body))]
        # A model may think before a word, for as long as `post` allows.
        reading = {"connect": limits.connect, "write": limits.write, "read": None}
        request = httpx.Request(
            "POST", url, headers=headers, stream=httpx.ByteStream(body), extensions={"timeout": reading}
        )
        response = await connections.handle_async_request(request)
        reading["read"] = limits.idle  # read anew when the body begins
        return response

    def _is_answer(self, response: httpx.Response, body: bytearray) -> bool:
        """Whether this is an answer that was not streamed; False for a stream that ended before it began."""
        value = jsonval.obj(jsonval.parse(bytes(body)))
        if value.get("error"):
            raise from_event(self.endpoint.origin, value)
        kind, said = response.headers.get("content-type", ""), body[:4000].decode("utf-8", "replace")
        if value.keys() & {"choices", "content", "candidates", "output"}:
            return True
        if "event-stream" in kind or said.strip()[:1] in ("", ":"):  # nothing, or comments alone
            return False
        what = _("expected a stream, got {kind}: {said}", kind=kind, said=plain(said) or "…")
        raise failure(self.endpoint.origin, "protocol", what, status=response.status_code)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """What httpx and the limits raise, as `ProviderError`."""
        origin, limits = self.endpoint.origin, self.endpoint.deadlines
        try:
            yield
        except TimeoutError as error:
            raise failure(
                origin, "timeout", _("no answer began within {seconds:.0f} seconds", seconds=limits.first)
            ) from error
        except httpx.ConnectTimeout as error:
            raise failure(
                origin, "network", _("{host} did not accept a connection in time", host=self._host)
            ) from error
        except httpx.TimeoutException as error:
            raise failure(
                origin, "timeout", _("the server said nothing for {seconds:.0f} seconds", seconds=limits.idle)
            ) from error
        except UnusableProxy as error:
            said = f"{error}."
            raise ProviderError("bad_request", f"{origin.name}: {said}", provider=origin.name, detail=said) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            said = _("the connection to {host} failed ({reason})", host=self._host, reason=reason_of(error))
            raise failure(origin, "network", said) from error
        except EventTooLarge as error:
            raise failure(origin, "protocol", _("one event is larger than 16 MB")) from error

    @property
    def _host(self) -> str:
        host = urlsplit(self.endpoint.base_url).netloc.rpartition("@")[2] or self.endpoint.base_url
        return f"{host}{through(self.endpoint.proxy)}"


async def _read(response: httpx.Response) -> bytes:
    """The body as far as `BODY_LIMIT`."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > BODY_LIMIT:
            break
    return bytes(body)


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
    return [jsonval.text(item.get("id")) for item in jsonval.rows(listed.get("data"))]


def searches_itself(extra: Mapping[str, object]) -> bool:
    """Whether what goes into every request has the service search the web.

    The ways: a tool of the service (Anthropic, OpenAI, Gemini, Moonshot, Z.ai, xAI), and fields of OpenAI, xAI, Alibaba
    and OpenRouter.
    """
    tools = jsonval.rows(extra.get("tools"))
    plugins = jsonval.rows(extra.get("plugins"))
    if any(is_search(tool) for tool in tools) or any(one.get("id") == "web" for one in plugins):
        return True
    live = jsonval.obj(extra.get("search_parameters"))
    asked = "web_search_options" in extra or extra.get("enable_search") is True
    return asked or (bool(live) and live.get("mode") != "off")


def is_search(tool: jsonval.JsonObject) -> bool:
    """Whether a tool of a request searches the web."""
    named = jsonval.text(tool.get("name") or jsonval.at(tool, "function", "name")).removeprefix("$")
    kind = jsonval.text(tool.get("type"))
    return (
        named == "web_search"
        or kind.startswith(("web_search", "live_search", "openrouter:web_search"))
        or not tool.keys().isdisjoint({"google_search", "googleSearch", "google_search_retrieval"})
    )
