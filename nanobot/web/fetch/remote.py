"""Readers elsewhere: a configured service, Jina's reader and Firecrawl. Each turns a URL into text in one request.

They are asked through `trusted_client`: their addresses are the operator's or fixed here, and their redirects are not
followed. Their answers are content from outside. Every failure is a `FetchError`; what may pass is tried once more.
"""

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol
from urllib.parse import quote, urlsplit

import httpx

from nanobot.config.proxy import Proxies, UnusableProxy
from nanobot.errors import FetchError, FetchErrorKind
from nanobot.utils.text import sendable
from nanobot.web.client import trusted_client
from nanobot.web.extract.page import Extracted
from nanobot.web.fetch.content import content_type

Step = Literal["service", "local", "jina", "firecrawl"]

MAX_BYTES = 10_485_760
RETRY_WAIT = 0.4
RETRY_AFTER_MOST = 10.0
_PASSING = frozenset({408, 429, 500, 502, 503, 504})
_LOGIN = frozenset({"authorization", "host", "cookie"})
_HTML = re.compile(r"\s*<(?:!doctype|html|head|body)\b", re.IGNORECASE)
_FAILED_TARGET = re.compile(r"returned error (\d{3})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a remote reader stands. `key` is asked at every call, so that a changed key counts at once."""

    url: str
    key: Callable[[], str] = field(default=str, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    override_auth: bool = False
    call_id_header: str = ""
    proxies: Proxies = field(default_factory=Proxies, repr=False)


class RemoteReader(Protocol):
    """A reader elsewhere."""

    @property
    def name(self) -> Step: ...

    @property
    def missing(self) -> str:
        """What the reader lacks to be asked; empty where it lacks nothing."""

    async def read(self, url: str, *, call_id: str, timeout: float) -> Extracted:
        """The text of `url`. `timeout` is in seconds. Raises `FetchError` only."""

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: httpx.Headers
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


class _Wire:
    """Requests to one endpoint through a client of its own, made at the first of them."""

    def __init__(self, label: str, endpoint: Endpoint) -> None:
        self._label = label
        self._endpoint = endpoint
        self._client: httpx.AsyncClient | None = None

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def ask(
        self, url: str, headers: Mapping[str, str], *, body: Mapping[str, object] | None, call_id: str, timeout: float
    ) -> _Answer:
        """The answer with status 200; anything else raises. A passing fault is tried once more in the same time."""
        try:
            async with asyncio.timeout(timeout):
                return await self._twice(url, self._headers(headers, call_id), body)
        except (TimeoutError, httpx.TimeoutException):
            raise self._error("timeout", f"no answer within {timeout:.3g} s") from None
        except UnusableProxy as error:
            raise self._error("service", str(error)) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise self._error("network", self._clean(str(error) or type(error).__name__)) from None

    async def _twice(self, url: str, headers: dict[str, str], body: Mapping[str, object] | None) -> _Answer:
        for last in (False, True):
            try:
                answer = await self._once(url, headers, body)
            except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
                if last:
                    raise
                await asyncio.sleep(RETRY_WAIT)
                continue
            wait = _seconds(answer.headers.get("retry-after", ""))
            if last or answer.status not in _PASSING or wait > RETRY_AFTER_MOST:
                break
            await asyncio.sleep(wait)
        if answer.status != 200:
            raise self._refusal(answer)
        return answer

    async def _once(self, url: str, headers: dict[str, str], body: Mapping[str, object] | None) -> _Answer:
        if self._client is None:
            self._client = trusted_client(self._endpoint.proxies.of(self._endpoint.url))
        request = self._client.build_request("GET" if body is None else "POST", url, json=body, headers=headers)
        response = await self._client.send(request, stream=True)
        try:
            data = bytearray()
            async for part in response.aiter_bytes():
                data += part
                if len(data) > MAX_BYTES:
                    raise self._error("too_large", f"more than {MAX_BYTES // 1_000_000} MB")
        finally:
            await response.aclose()
        return _Answer(response.status_code, response.headers, bytes(data))

    def _headers(self, headers: Mapping[str, str], call_id: str) -> dict[str, str]:
        """The login, then what the reader wants, the tool call's id, and the operator's own headers last."""
        key, own = self._endpoint.key(), self._endpoint
        if not sendable(key):
            raise self._error("auth", "no request can carry its key; copy it again, in one piece")
        found = {"Authorization": f"Bearer {key}"} if key else {}
        found |= headers
        if own.call_id_header and call_id:
            found[own.call_id_header] = re.sub(r"[^\x21-\x7e]", "", call_id)[:200]
        for name, value in own.headers.items():
            if own.override_auth or name.lower() not in _LOGIN:
                found = {known: old for known, old in found.items() if known.lower() != name.lower()}
                found[name] = value
        return found

    def _refusal(self, answer: _Answer) -> FetchError:
        status = answer.status
        kind: FetchErrorKind = "auth" if status in (401, 403) else "rate_limited" if status == 429 else "service"
        wait = answer.headers.get("retry-after", "")
        error = self._error(kind, f"HTTP {status}", status)
        error.retry_after = _seconds(wait) if wait else None
        return error

    def _error(self, kind: FetchErrorKind, what: str, status: int = 0) -> FetchError:
        return FetchError(kind, f"{self._label}: {what}", status=status, host=_host(self._endpoint.url))

    def _clean(self, words: str) -> str:
        key = self._endpoint.key()
        return (words.replace(key, "…") if len(key) > 3 else words)[:200]

    def bad(self, what: str) -> FetchError:
        return self._error("service", what)

    def record(self, answer: _Answer) -> dict[str, object]:
        """The `data` of a JSON answer."""
        try:
            value: object = json.loads(answer.body)
        except (ValueError, RecursionError):
            raise self.bad("the answer is no JSON") from None
        inner = value.get("data") if isinstance(value, dict) else None
        if not isinstance(inner, dict):
            raise self.bad("the answer has no data")
        return inner

    def target_status(self, url: str, status: int) -> FetchError:
        """The failure that the reader met at the page itself, which its own success hides."""
        return FetchError("http_status", f"{self._label}: {url} answered with status {status}", status=status)


class Service:
    """`POST baseUrl {"url": …}`, answered with the text of the page."""

    name: Step = "service"

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._wire = _Wire("Fetch service", endpoint)

    @property
    def missing(self) -> str:
        named = self._endpoint.override_auth and any(name.lower() == "authorization" for name in self._endpoint.headers)
        return "" if self._endpoint.key() or named else "Fetch service not configured: its key is missing"

    async def read(self, url: str, *, call_id: str, timeout: float) -> Extracted:
        answer = await self._wire.ask(
            self._endpoint.url, {"Accept": "text/markdown"}, body={"url": url}, call_id=call_id, timeout=timeout
        )
        mime = content_type(answer.headers.get("content-type", "")).mime
        if (mime and not mime.startswith("text/")) or _HTML.match(answer.text):
            raise self._wire.bad(f"the answer is {mime or 'HTML'}, no text")
        if not answer.text.strip():
            raise self._wire.bad("the answer is empty")
        return Extracted(_first_heading(answer.text), answer.text, "service")

    async def aclose(self) -> None:
        await self._wire.aclose()


class Jina:
    """Jina's reader, which runs a page's JavaScript. Works without a key at a low rate."""

    name: Step = "jina"
    missing = ""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._wire = _Wire("Jina reader", endpoint)

    async def read(self, url: str, *, call_id: str, timeout: float) -> Extracted:
        headers = {"Accept": "application/json", "DNT": "1", "X-Timeout": f"{max(1, int(timeout))}"}
        # Quoted whole, for a `..` in the target would be folded into another target, or a page of the reader's own.
        asked = f"{self._endpoint.url.rstrip('/')}/{quote(url, safe='')}"
        answer = await self._wire.ask(asked, headers, body=None, call_id=call_id, timeout=timeout)
        data = self._wire.record(answer)
        failed = _FAILED_TARGET.search(_text(data.get("warning")))
        if failed:
            raise self._wire.target_status(url, int(failed[1]))
        content = _text(data.get("content"))
        if not content.strip():
            raise self._wire.bad("it found no text")
        return Extracted(_text(data.get("title")), content, "jina", published=_text(data.get("publishedTime")))

    async def aclose(self) -> None:
        await self._wire.aclose()


class Firecrawl:
    """Firecrawl's scrape, which runs a page's JavaScript. A few pages a day work without a key."""

    name: Step = "firecrawl"
    missing = ""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._wire = _Wire("Firecrawl", endpoint)

    async def read(self, url: str, *, call_id: str, timeout: float) -> Extracted:
        body: dict[str, object] = {
            "url": url,
            "formats": ["markdown"],
            "onlyMainContent": True,
            "skipTlsVerification": False,
            "timeout": max(1_000, int(timeout * 1_000)),
        }
        answer = await self._wire.ask(
            f"{self._endpoint.url.rstrip('/')}/scrape", {}, body=body, call_id=call_id, timeout=timeout
        )
        data = self._wire.record(answer)
        about = data.get("metadata")
        facts: dict[str, object] = about if isinstance(about, dict) else {}
        status = facts.get("statusCode")
        if isinstance(status, int) and status >= 400:
            raise self._wire.target_status(url, status)
        text = _text(data.get("markdown"))
        if not text.strip():
            raise self._wire.bad("it found no text")
        site, author = _text(facts.get("ogSiteName")), _text(facts.get("author"))
        return Extracted(
            _text(facts.get("title")), text, "firecrawl", site, author, language=_text(facts.get("language"))
        )

    async def aclose(self) -> None:
        await self._wire.aclose()


def call_id_header(name: str, url: str) -> str:
    """The header for a tool call's id: the configured one, else the one that the service's host knows."""
    host = _host(url)
    known = host.endswith((".moonshot.cn", ".moonshot.ai", ".kimi.com"))
    return name or ("X-Msh-Tool-Call-Id" if known else "X-Tool-Call-Id")


def _host(url: str) -> str:
    return (urlsplit(url).hostname or "").lower()


def _first_heading(text: str) -> str:
    match = re.search(r"^#\s+(.{1,300})$", text[:20_000], re.MULTILINE)
    return match[1].strip() if match else ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _seconds(header: str) -> float:
    return float(header) if re.fullmatch(r"\d{1,6}", header.strip()) else RETRY_WAIT
