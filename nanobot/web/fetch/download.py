"""From a URL to its bytes: hops judged one by one, everything counted while it streams, one deadline over all.

What arrived before a limit or a break is kept and marked; nothing is downloaded twice for its size.
"""

import asyncio
import contextlib
import re
import ssl
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urljoin

import brotli
import httpx
from msgspec import Struct
from msgspec.structs import replace

from nanobot.errors import AddressBlocked, FetchError, FetchErrorKind
from nanobot.security.network import NO_EXCEPTIONS, Exceptions, Target, judge_url
from nanobot.utils.text import retry_after
from nanobot.utils.translation import N_, _, sentences
from nanobot.web.client import PAGE_USER_AGENT, PRODUCT_USER_AGENT

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAX_REDIRECTS = 5
RETRY_WAIT = 0.4
RETRY_AFTER_MOST = 10.0
ACCEPT = (  # English: it is sent
    "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, application/json;q=0.8, */*;q=0.5"
)
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_AGAIN = N_("Try again or another source.")
_ELSEWHERE = N_("Look for another source.")
_DAMAGED = (zlib.error, brotli.error, zstd.ZstdError)
#: Bytes that are unpacked at once.
_PIECE = 65_536
_GZIP = b"\x1f\x8b"
#: 8 MiB, as a power of two.
_ZSTD_WINDOW = 23
_PASSING = frozenset({408, 500, 502, 503, 504})

#: Bytes of a packed body in pieces; raises one of `_DAMAGED` where it is broken or ends early.
Inflate = Callable[[bytes], Iterator[bytes]]


class Limits(Struct, frozen=True):
    """Seconds for a page, bytes after decompression, further attempts, who we say we are, the addresses that the
    operator has opened, and further headers of a request."""

    seconds: float = 18.0
    max_bytes: int = 10_485_760
    retries: int = 1
    user_agent: str = PAGE_USER_AGENT
    exceptions: Exceptions = NO_EXCEPTIONS
    headers: Mapping[str, str] = {}


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
        return retry_after(self.headers.get("retry-after", ""))


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
            words = N_("{host} did not answer within {seconds:.0f} s. Try another source.")
            # a connection has a shorter time of its own
            raise _failed("timeout", host, words, "read", seconds=limits.seconds) from None
        except httpx.HTTPError as error:
            raise _network_error(error, host) from error
        body, cut = await _read(response, deadline, limits.max_bytes)
        return Download(url, str(response.url), response.status_code, response.headers, body, cut, hops)


async def _follow(client: httpx.AsyncClient, target: Target, limits: Limits) -> tuple[httpx.Response, int]:
    """The first answer that is no redirect, with its body unread, and the number of requests it took."""
    headers = {"User-Agent": limits.user_agent, "Accept": ACCEPT, "Accept-Language": "*", **limits.headers}
    headers["Accept-Encoding"] = "gzip, br, zstd"  # English: it is sent
    for hop in range(MAX_REDIRECTS + 1):
        request = client.build_request("GET", _same_host(target), headers=headers)
        response = await client.send(request, stream=True)
        location = str(response.extensions.get("location", ""))
        if response.status_code not in _REDIRECTS or not location:
            return response, hop + 1
        await response.aclose()
        target = _next(target, location, limits.exceptions)
    words = N_("{host} redirects more than {number} times. Try another source.")
    raise _failed("network", target.host, words, number=MAX_REDIRECTS)


def _same_host(target: Target) -> httpx.URL:
    """The URL as httpx reads it, refused where httpx would read another host than was judged."""
    try:
        url = httpx.URL(target.url)
    except (httpx.InvalidURL, UnicodeError, ValueError) as error:
        raise _failed("invalid_input", target.host, N_("The URL cannot be read: {why}"), why=error) from error
    if url.raw_host.decode("ascii").strip("[]") != target.host:
        raise _failed(
            "invalid_input", target.host, N_("The URL names its host in an ambiguous way: {url}"), url=target.url
        )
    return url


def _next(here: Target, location: str, exceptions: Exceptions) -> Target:
    """The target of a redirect. The server chose its text, so a refusal repeats at most the host that was judged."""

    def blocked(words: str, advice: str = _ELSEWHERE, **values: object) -> FetchError:
        return _failed("blocked", here.host, words, "", advice=advice, **values)

    url = ""
    with contextlib.suppress(ValueError):
        url = urljoin(here.url, location.strip().replace(" ", "%20"))
    scheme = re.match(r"(?!https?:)([a-z][a-z0-9+.-]{0,15}):", url, re.IGNORECASE)
    if scheme:
        words = N_("{host} redirects to a {scheme}: address, which is never followed.")
        raise blocked(words, scheme=scheme[1].lower())
    try:
        target = judge_url(url, exceptions)
    except AddressBlocked as error:
        raise blocked(N_("{host} redirects to an address that is not read: {why}"), "", why=error) from error
    except FetchError:
        raise blocked(N_("{host} redirects to a malformed address.")) from None
    if here.scheme == "https" and target.scheme == "http":
        words = N_("{host} redirects to plain http at {target}, away from https; if you must, read that address itself")
        raise blocked(words, "", target=target.host)
    return target


async def _read(response: httpx.Response, deadline: float, limit: int) -> tuple[bytes, str]:
    """The decoded body and, where it is not whole, the reason. Raises `FetchError` where nothing came at all."""
    host = response.url.host
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "none", *_INFLATE):
        raise _failed(
            "unsupported_type", host, N_("{host} answers in the compression {name!r}, unasked"), name=encoding
        )
    body, cut, kind = await _arrived(response, deadline, limit)
    if body and (inflate := _INFLATE.get(encoding)):
        body, whole = await asyncio.to_thread(_inflated, inflate, body, limit)
        if len(body) > limit:
            cut = _too_large(limit)
        elif not whole:
            cut = cut or _("its compression is damaged or ends early")
    if cut and not body:
        raise _failed(kind, host, N_("{host} sent no page: {why}"), "read", why=cut)
    return body[:limit], cut


async def _arrived(response: httpx.Response, deadline: float, limit: int) -> tuple[bytes, str, FetchErrorKind]:
    """What came over the wire, why it is not whole, and the kind of that failure."""
    body = bytearray()
    cut = ""
    kind: FetchErrorKind = "network"
    try:
        async with asyncio.timeout_at(deadline):
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > limit:
                    cut = _too_large(limit)
                    break
    except TimeoutError:
        cut, kind = _("the time was over"), "timeout"
    except httpx.TimeoutException:
        cut, kind = _("the site stopped sending"), "timeout"
    except httpx.HTTPError:
        cut = _("the connection broke")
    return bytes(body[:limit]), cut, kind


def _too_large(limit: int) -> str:
    return _("only its first {size} kB were read", size=limit // 1000)


def _inflated(inflate: Inflate, body: bytes, limit: int) -> tuple[bytes, bool]:
    """What `body` holds, little more than `limit` bytes whatever its ratio, and whether nothing of it is damaged."""
    found = bytearray()
    try:
        for piece in inflate(body):
            found += piece
            if len(found) > limit:
                break
    except _DAMAGED:
        return bytes(found), False
    return bytes(found), True


def _zlib(body: bytes) -> Iterator[bytes]:
    """gzip, also of several members, and deflate, also without the header of zlib, as some servers send it."""
    framed = body[:2] == _GZIP or (body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0)
    stream = zlib.decompressobj(47 if framed else -15)
    piece = b""
    while body or piece:
        piece = stream.decompress(body, _PIECE)
        yield piece
        body = stream.unconsumed_tail
        if stream.eof:
            body = stream.unused_data
            if not body.startswith(_GZIP):
                return
            stream = zlib.decompressobj(47)
    raise zlib.error("it ends early")  # English: nobody reads it


def _brotli(body: bytes) -> Iterator[bytes]:
    stream = brotli.Decompressor()
    while piece := stream.process(body, output_buffer_limit=_PIECE):
        yield piece
        body = b""
    if not stream.is_finished():
        raise brotli.error("it ends early")  # English: nobody reads it


def _zstandard(body: bytes) -> Iterator[bytes]:
    """Zstandard, also of several frames."""
    while body:
        stream = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW})
        while not stream.eof:
            yield (piece := stream.decompress(body, _PIECE))
            if not piece and stream.needs_input:
                raise zstd.ZstdError("it ends early")  # English: nobody reads it
            body = b""
        body = stream.unused_data


#: The compressions that are read. What httpx has for them bounds nothing of what comes out of a few bytes.
_INFLATE: Mapping[str, Inflate] = {
    "gzip": _zlib,
    "x-gzip": _zlib,
    "deflate": _zlib,
    "br": _brotli,
    "zstd": _zstandard,
}


def _failed(
    kind: FetchErrorKind, host: str, words: str, phase: str = "", *, advice: str = "", **values: object
) -> FetchError:
    """The error in these words about `host`, with what to do next."""
    said = sentences(_(words, host=host, **values), _(advice) if advice else "")
    return FetchError(kind, said, host=host, phase=phase)


def _network_error(error: httpx.HTTPError, host: str) -> FetchError:
    if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
        return _failed("timeout", host, N_("{host} could not be reached in time."), "connect", advice=_AGAIN)
    if isinstance(error, httpx.TimeoutException):
        return _failed("timeout", host, N_("{host} did not answer in time."), "read", advice=_AGAIN)
    if isinstance(error, httpx.UnsupportedProtocol):
        return FetchError("invalid_input", str(error), host=host)
    reason = _("{failure}: {reason}", failure="", reason=error) if str(error) else ""
    if isinstance(error, httpx.ProxyError):
        words = N_("The proxy refused {host}{reason}. Check tools.web.proxy.")
        return _failed("network", host, words, "connect", reason=reason)
    if isinstance(error, httpx.ConnectError) and _caused(error, ssl.SSLError):
        untrusted = _caused(error, ssl.SSLCertVerificationError)
        no_certificate = N_("{host} has no valid certificate{reason}. Try another source.")
        insecure = N_("{host} makes no secure connection{reason}. Try another source.")
        return _failed("network", host, no_certificate if untrusted else insecure, "tls", reason=reason)
    if isinstance(error, httpx.ConnectError):
        words = N_("{host} could not be reached{reason}.")
        return _failed("network", host, words, "connect", advice=_AGAIN, reason=reason)
    phase = "send" if isinstance(error, httpx.WriteError) else "read"
    return _failed("network", host, N_("{host} broke the connection{reason}."), phase, advice=_AGAIN, reason=reason)


def _caused(error: BaseException | None, kind: type[BaseException]) -> bool:
    while error is not None:
        if isinstance(error, kind):
            return True
        error = error.__cause__ or error.__context__
    return False
