"""One request to an engine's API, and every way it can fail as one kind of `SearchError`."""

import asyncio
import json
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import httpx

from nanobot.config.proxy import through
from nanobot.errors import SearchError, SearchErrorKind
from nanobot.utils.text import squeeze, strip_unsafe
from nanobot.web.client import trusted_client
from nanobot.web.search.payload import at, bad_payload, event_data, record, short_reason, text

MAX_BYTES = 8 * 1024 * 1024
ClientFactory = Callable[[str | None], httpx.AsyncClient]
#: Headers that carry a login: the operator's own headers replace them only where that is switched on.
_LOGIN = frozenset({"authorization", "host", "cookie", "x-api-key", "x-subscription-token"})
_SPENT = ("credit", "quota", "balance", "usage limit", "plan limit", "key budget")


@dataclass(frozen=True, slots=True)
class Access:
    """How one engine is reached. `base_url` is empty for the engine's own address; `problem` forbids to ask it."""

    api_key: str = field(default="", repr=False)
    base_url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    override_auth: bool = False
    proxy: str | None = field(default=None, repr=False)
    problem: str = ""
    call_id_header: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: query parameters for GET, a JSON body for POST. `headers` include the login."""

    url: str
    body: Mapping[str, object] | None = None
    params: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer: `data` is its JSON."""

    headers: Mapping[str, str]
    data: object


def join(base: str, path: str) -> str:
    """`path` under `base`; segments that both name (the end of one, the start of the other) stand once."""
    base = base.rstrip("/")
    have = [part for part in urlsplit(base).path.split("/") if part]
    want = [part for part in path.split("/") if part]
    for size in range(min(len(have), len(want)), 0, -1):
        if have[-size:] == want[:size]:
            want = want[size:]
            break
    return "/".join([base, *want])


class Wire:
    """Sends requests for one engine through a client of its own, made at the first request."""

    def __init__(self, engine: str, access: Access, clients: ClientFactory = trusted_client) -> None:
        self._engine = engine
        self._access = access
        self._clients = clients
        self._client: httpx.AsyncClient | None = None

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def json(self, ask: Ask, *, timeout: float) -> Answer:
        """The JSON answer to `ask`. `timeout` is in seconds for all of it. Raises `SearchError` only."""
        if self._access.problem:
            raise SearchError("not_configured", f"{self._engine} was not asked. {self._access.problem}")
        try:
            async with asyncio.timeout(timeout):
                response, body = await self._send(ask)
        except (TimeoutError, httpx.TimeoutException):
            raise SearchError("timeout", f"{self._engine} did not answer within {timeout:.3g} s") from None
        except httpx.ProxyError as error:
            raise SearchError("network", f"The proxy for {self._engine} refused: {self._clean(error)}") from None
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise SearchError("not_configured", f"The address of {self._engine} is unusable: {error}") from None
        except (httpx.HTTPError, ssl.SSLError, OSError) as error:
            raise SearchError(
                "network",
                f"{self._engine} cannot be reached{through(self._access.proxy)}: {short_reason(self._clean(error))}",
            ) from None
        data = _loads(body, response.headers.get("content-type", ""))
        if response.status_code != 200:
            raise self._refusal(response, data if data is not None else body[:2000].decode("utf-8", "replace"))
        if data is None:
            raise bad_payload(self._engine, self._clean(body[:400].decode("utf-8", "replace")))
        return Answer(response.headers, data)

    async def _send(self, ask: Ask) -> tuple[httpx.Response, bytes]:
        if self._client is None:
            self._client = self._clients(self._access.proxy)
        headers = httpx.Headers({"Accept": "application/json", **ask.headers})
        for name, value in self._access.headers.items():
            if self._access.override_auth or name.lower() not in _LOGIN:
                headers[name] = value
        request = self._client.build_request(
            "GET" if ask.body is None else "POST",
            ask.url,
            params=ask.params or None,
            json=ask.body,
            headers=headers,
        )
        response = await self._client.send(request, stream=True)
        try:
            body = bytearray()
            async for part in response.aiter_bytes():
                body += part
                if len(body) > MAX_BYTES:
                    raise SearchError("bad_payload", f"{self._engine} sent more than {MAX_BYTES // 1_048_576} MB")
            return response, bytes(body)
        finally:
            await response.aclose()

    def _refusal(self, response: httpx.Response, data: object) -> SearchError:
        status = response.status_code
        reason = self._clean(_reason(data))
        kind = kind_of(status, reason)
        if response.is_redirect:
            reason = f"it redirects to {self._clean(response.headers.get('location', '?'))}; check its baseUrl"
        words = f"{self._engine} answered with status {status}" + (f": {reason}" if reason else "")
        return SearchError(kind, words, status=status, retry_after=_retry_after(response.headers, data))

    def _clean(self, what: object) -> str:
        words = squeeze(strip_unsafe(str(what) or type(what).__name__))
        key = self._access.api_key
        return (words.replace(key, "…") if len(key) > 3 else words)[:300]


def kind_of(status: int, reason: str = "") -> SearchErrorKind:
    """The kind of failure that an HTTP status means; `reason` tells a spent allowance from a mere burst."""
    if status in (402, 432, 433):
        return "quota"
    if status in (400, 403, 429) and any(word in reason.lower() for word in _SPENT):
        return "quota"
    if status in (401, 403):
        return "auth"
    if status == 429:
        return "rate_limited"
    if status in (202, 451):
        return "blocked"
    if status == 408 or status >= 500:
        return "unavailable"
    return "bad_request" if status >= 400 else "bad_payload"


def _loads(body: bytes, content_type: str = "") -> object:
    """The JSON of an answer, None where it is none; of an event stream, the list of what its events hold."""
    if content_type.lower().startswith("text/event-stream"):
        return event_data(body.decode("utf-8", "replace"))
    try:
        found: object = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found


def _reason(data: object) -> str:
    """The engine's own words, wherever it keeps them."""
    if isinstance(data, str):
        return "" if "<" in data[:200] else data
    errors = at(data, "error")
    if isinstance(errors, list) and errors:
        return text(at(errors[0], "message")) or text(at(errors[0], "msg"))
    for path in (("detail", "error"), ("error", "message"), ("error", "detail"), ("error",), ("detail",), ("message",)):
        if found := text(at(data, *path)):
            return found
    return text(record(data).get("readableMessage")) or text(record(data).get("msg"))


def _retry_after(headers: Mapping[str, str], data: object) -> float | None:
    """Seconds to wait, from the header (a number or a date) or the body."""
    given = headers.get("retry-after", "").strip()
    if not given:
        seconds = at(data, "error", "retry_after_seconds")
        return float(seconds) if isinstance(seconds, int | float) and seconds >= 0 else None
    try:
        return max(0.0, float(given))
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(given)
    except (ValueError, TypeError, IndexError):
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())
