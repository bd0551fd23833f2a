"""From a URL to its bytes: hops judged one by one, everything counted while it streams, one deadline over all.

What arrived before a limit or a break is kept and marked; nothing is downloaded twice for its size.
"""

import asyncio
import contextlib
import re
import ssl
import zlib
from urllib.parse import urljoin

import brotli
import httpx
import zstandard
from msgspec import Struct
from msgspec.structs import replace

from nanobot.errors import AddressBlocked, FetchError
from nanobot.security.network import NO_EXCEPTIONS, Exceptions, Target, judge_url
from nanobot.web.client import PAGE_USER_AGENT, PRODUCT_USER_AGENT

MAX_REDIRECTS = 5
RETRY_WAIT = 0.4
RETRY_AFTER_MOST = 10.0
ACCEPT = "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, application/json;q=0.8, */*;q=0.5"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_AGAIN = "Try again or another source."
_ELSEWHERE = "Look for another source."
#: Pieces of a body; more of them than this for `max_bytes` is a server that sends crumbs to keep us busy.
_MOST_PIECES = 100_000
_DAMAGED = (zlib.error, brotli.error, zstandard.ZstdError)
#: Bytes fed to Zstandard at once: a block of a few bytes may become 128 KiB, and the library bounds no output.
_ZSTD_STEP = 64
_ZSTD_WINDOW = 8 * 1024 * 1024
_PASSING = frozenset({408, 500, 502, 503, 504})


class Limits(Struct, frozen=True):
    """Seconds for a page, bytes after decompression, further attempts, who we say we are, and the addresses that the
    operator has opened."""

    seconds: float = 18.0
    max_bytes: int = 10_485_760
    retries: int = 1
    user_agent: str = PAGE_USER_AGENT
    exceptions: Exceptions = NO_EXCEPTIONS


class Download(Struct, frozen=True):
    """An answer as it came. `cut` says why the body is not whole and is empty where it is; `requests` counts them."""

    url: str
    final_url: str
    status: int
    headers: httpx.Headers
    body: bytes
    cut: str = ""
    requests: int = 1

    @property
    def retry_after(self) -> float | None:
        return _seconds(self.headers.get("retry-after", ""))


async def download(client: httpx.AsyncClient, url: str, limits: Limits) -> Download:
    """Get `url` with a guarded client: all hops and the body in `limits.seconds`, one deadline for all tries.

    An answer of any status is a `Download`; raises `FetchError`.
    """
    deadline = asyncio.get_running_loop().time() + limits.seconds
    agent = limits.user_agent
    retries = limits.retries
    requests = 0
    while True:
        try:
            got = await _once(client, url, replace(limits, user_agent=agent), deadline)
        except FetchError as error:
            if not retries or error.kind != "network" or error.phase not in ("send", "read"):
                raise
            retries -= 1
            await asyncio.sleep(RETRY_WAIT)
            continue
        requests += got.requests
        if got.status == 403 and got.headers.get("cf-mitigated") == "challenge" and agent != PRODUCT_USER_AGENT:
            agent = PRODUCT_USER_AGENT  # a browser that runs no scripts is challenged, an honest agent may pass
            continue
        wait = got.retry_after if got.retry_after is not None else RETRY_WAIT
        passing = got.status in _PASSING or (got.status == 429 and got.retry_after is not None)
        left = deadline - asyncio.get_running_loop().time()
        if retries and passing and wait <= min(RETRY_AFTER_MOST, left / 2):
            retries -= 1
            await asyncio.sleep(wait)
            continue
        return replace(got, requests=requests)


async def _once(client: httpx.AsyncClient, url: str, limits: Limits, deadline: float) -> Download:
    target = judge_url(url, limits.exceptions)
    host = target.host
    async with contextlib.AsyncExitStack() as stack:
        try:
            async with asyncio.timeout_at(deadline):
                response, hops = await _follow(client, target, limits)
                stack.push_async_callback(response.aclose)
        except TimeoutError:
            raise FetchError(
                "timeout",
                f"{host} did not answer within {limits.seconds:.0f} s. Try another source.",
                host=host,
                phase="read",  # a connection has a shorter time of its own
            ) from None
        except httpx.HTTPError as error:
            raise _network_error(error, host) from error
        body, cut = await _read(response, deadline, limits.max_bytes)
        return Download(url, str(response.url), response.status_code, response.headers, body, cut, hops)


async def _follow(client: httpx.AsyncClient, target: Target, limits: Limits) -> tuple[httpx.Response, int]:
    """The first answer that is no redirect, with its body unread, and the number of requests it took."""
    headers = {"User-Agent": limits.user_agent, "Accept": ACCEPT, "Accept-Language": "*"}
    headers["Accept-Encoding"] = "gzip, br, zstd"
    for hop in range(MAX_REDIRECTS + 1):
        request = client.build_request("GET", _same_host(target), headers=headers)
        response = await client.send(request, stream=True)
        location = str(response.extensions.get("location", ""))
        if response.status_code not in _REDIRECTS or not location:
            return response, hop + 1
        await response.aclose()
        target = _next(target, location, limits.exceptions)
    raise FetchError(
        "network", f"{target.host} redirects more than {MAX_REDIRECTS} times. Try another source.", host=target.host
    )


def _same_host(target: Target) -> httpx.URL:
    """The URL as httpx reads it, refused where httpx would read another host than was judged."""
    try:
        url = httpx.URL(target.url)
    except (httpx.InvalidURL, UnicodeError, ValueError) as error:
        raise FetchError("invalid_input", f"The URL cannot be read: {error}", host=target.host) from error
    if url.raw_host.decode("ascii").strip("[]") != target.host:
        raise FetchError("invalid_input", f"The URL names its host in an ambiguous way: {target.url}", host=target.host)
    return url


def _next(here: Target, location: str, exceptions: Exceptions) -> Target:
    """The target of a redirect. The server chose its text, so a refusal repeats at most the host that was judged."""
    leads = f"{here.host} redirects to"
    try:
        url = urljoin(here.url, location.strip().replace(" ", "%20"))
    except ValueError:
        raise FetchError("blocked", f"{leads} something that is no address. {_ELSEWHERE}", host=here.host) from None
    scheme = re.match(r"([a-z][a-z0-9+.-]{0,15}):", url, re.IGNORECASE)
    if scheme is None or scheme[1].lower() not in ("http", "https"):
        what = f"a {scheme[1].lower()}: address" if scheme else "something that is no address"
        raise FetchError("blocked", f"{leads} {what}, which is never followed. {_ELSEWHERE}", host=here.host)
    try:
        target = judge_url(url, exceptions)
    except AddressBlocked as error:
        raise FetchError("blocked", f"{leads} an address that is not read: {error}", host=here.host) from error
    except FetchError:
        raise FetchError("blocked", f"{leads} a malformed address. {_ELSEWHERE}", host=here.host) from None
    if here.scheme == "https" and target.scheme == "http":
        raise FetchError(
            "blocked", f"{leads} plain http at {target.host}, away from https; if you must, read that address itself"
        )
    return target


async def _read(response: httpx.Response, deadline: float, limit: int) -> tuple[bytes, str]:
    """The decoded body and, where it is not whole, the reason. Raises `FetchError` where nothing came at all."""
    host = response.url.host
    inflater = _inflater(response.headers.get("content-encoding", ""), limit, host)
    parts: list[bytes] = []
    wire = size = 0
    try:
        async with asyncio.timeout_at(deadline):
            async for chunk in response.aiter_raw():
                wire += len(chunk)
                data = inflater.feed(chunk) if inflater else chunk
                parts.append(data)
                size += len(data)
                if size > limit or wire > limit:
                    return b"".join(parts)[:limit], f"only its first {limit // 1000} kB were read"
                if len(parts) > _MOST_PIECES:
                    return b"".join(parts), "it came in too many pieces"
    except TimeoutError:
        cut = "the time was over"
    except httpx.TimeoutException:
        cut = "the site stopped sending"
    except (httpx.HTTPError, *_DAMAGED) as error:
        cut = "the connection broke" if isinstance(error, httpx.HTTPError) else "its compression is damaged"
    else:
        if not (inflater and wire and inflater.unfinished):
            return b"".join(parts), ""
        cut = "its compression ends early"
    if not size:
        kind = "timeout" if cut in ("the time was over", "the site stopped sending") else "network"
        raise FetchError(
            "timeout" if kind == "timeout" else "network", f"{host} sent no page: {cut}", host=host, phase="read"
        )
    return b"".join(parts), cut


class _Inflater:
    """Decompresses a stream to at most `limit` bytes, whatever the ratio."""

    def __init__(self, limit: int, *, deflate: bool) -> None:
        self._left = limit + 1
        self._deflate = deflate
        self._stream = zlib.decompressobj(47)
        self.unfinished = True

    def feed(self, data: bytes) -> bytes:
        out: list[bytes] = []
        while data and self._left > 0:
            try:
                piece = self._stream.decompress(data, self._left)
            except zlib.error:
                if not self._deflate:
                    raise
                self._deflate = False  # some servers send deflate without its zlib header
                self._stream = zlib.decompressobj(-15)
                continue
            out.append(piece)
            self._left -= len(piece)
            data = self._stream.unconsumed_tail
            self.unfinished = not self._stream.eof
            if self._stream.eof:
                data = self._stream.unused_data if self._stream.unused_data.startswith(b"\x1f\x8b") else b""
                self._stream = zlib.decompressobj(47)
        return b"".join(out)


class _Brotli:
    """The same for Brotli (RFC 7932)."""

    def __init__(self, limit: int) -> None:
        self._left = limit + 1
        self._stream = brotli.Decompressor()

    @property
    def unfinished(self) -> bool:
        return not self._stream.is_finished()

    def feed(self, data: bytes) -> bytes:
        out: list[bytes] = []
        while self._left > 0 and not self._stream.is_finished():
            piece = self._stream.process(data, output_buffer_limit=self._left)
            data = b""
            if not piece:
                break
            out.append(piece)
            self._left -= len(piece)
        return b"".join(out)


class _Zstandard:
    """The same for Zstandard (RFC 8878)."""

    def __init__(self, limit: int) -> None:
        self._left = limit + 1
        self._stream = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj(read_across_frames=True)

    @property
    def unfinished(self) -> bool:
        return not self._stream.eof

    def feed(self, data: bytes) -> bytes:
        out: list[bytes] = []
        for start in range(0, len(data), _ZSTD_STEP):
            if self._left <= 0:
                break
            out.append(self._stream.decompress(data[start : start + _ZSTD_STEP]))
            self._left -= len(out[-1])
        return b"".join(out)


def _inflater(encoding: str, limit: int, host: str) -> _Inflater | _Brotli | _Zstandard | None:
    name = encoding.strip().lower()
    match name:
        case "" | "identity" | "none":
            return None
        case "gzip" | "x-gzip" | "deflate":
            return _Inflater(limit, deflate=name == "deflate")
        case "br":
            return _Brotli(limit)
        case "zstd":
            return _Zstandard(limit)
    raise FetchError("unsupported_type", f"{host} answers in the compression {name!r}, unasked", host=host)


def _network_error(error: httpx.HTTPError, host: str) -> FetchError:
    if isinstance(error, httpx.TimeoutException):
        phase = "connect" if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout) else "read"
        word = "could not be reached" if phase == "connect" else "did not answer"
        return FetchError("timeout", f"{host} {word} in time. {_AGAIN}", host=host, phase=phase)
    if isinstance(error, httpx.UnsupportedProtocol):
        return FetchError("invalid_input", str(error), host=host)
    reason = f": {error}" if str(error) else ""
    if isinstance(error, httpx.ProxyError):
        return FetchError(
            "network", f"The proxy refused {host}{reason}. Check tools.web.proxy.", host=host, phase="connect"
        )
    if isinstance(error, httpx.ConnectError):
        if _is_tls(error):
            what = "has no valid certificate" if "CERTIFICATE" in reason else "makes no secure connection"
            return FetchError("network", f"{host} {what}{reason}. Try another source.", host=host, phase="tls")
        return FetchError("network", f"{host} could not be reached{reason}. {_AGAIN}", host=host, phase="connect")
    phase = "send" if isinstance(error, httpx.WriteError) else "read"
    return FetchError("network", f"{host} broke the connection{reason}. {_AGAIN}", host=host, phase=phase)


def _is_tls(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _seconds(header: str) -> float | None:
    """Retry-After in seconds; None for dates and anything else."""
    return float(header) if header.isascii() and header.isdigit() and len(header) < 7 else None
