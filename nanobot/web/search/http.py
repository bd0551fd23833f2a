"""Engines behind an HTTP API: one request to each, and every way it can fail as one kind of `SearchError`."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import ClassVar
from urllib.parse import urlsplit

from msgspec.structs import replace

from nanobot.config.proxy import through
from nanobot.errors import SearchError, SearchErrorKind
from nanobot.web.client import trusted_client
from nanobot.web.search.base import EngineAccess, Filter, Quota, SearchQuery, SearchReply, lacking
from nanobot.web.search.payload import (
    Fields,
    at,
    bad_payload,
    event_data,
    number,
    read_hits,
    record,
    short_reason,
    text,
)
from nanobot.web.service import Ask, ClientFactory, NoAnswer, ServiceAnswer, ServiceClient, own_headers, without_key

MAX_BYTES = 8 * 1024 * 1024
#: Headers that carry a login: the operator's own headers replace them only where that is switched on.
_LOGIN = frozenset({"authorization", "host", "cookie", "x-api-key", "x-subscription-token"})
_SPENT = ("credit", "quota", "balance", "usage limit", "plan limit", "key budget")


class Wire:
    """Sends requests for one engine."""

    def __init__(self, label: str, access: EngineAccess, clients: ClientFactory = trusted_client) -> None:
        self._label = label
        self._access = access
        self._client = ServiceClient(self._no_answer, proxies=access.proxies, most=MAX_BYTES, clients=clients)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def json(self, ask: Ask, *, timeout: float) -> tuple[object, Mapping[str, str]]:
        """The JSON of the answer to `ask` and its headers. `timeout` is in seconds. Raises `SearchError` only."""
        own = self._access
        if own.problem:
            raise SearchError("not_configured", f"{self._label} was not asked. {own.problem}")
        asked = {"Accept": "application/json", **ask.headers}
        headers = own_headers(asked, own.headers, login=_LOGIN, override=own.override_auth)
        answer = await self._client.send(Ask(ask.url, ask.body, ask.params, headers), timeout=timeout)
        events = answer.headers.get("content-type", "").lower().startswith("text/event-stream")
        data = event_data(answer.text) if events else answer.json()
        if answer.status != 200:
            raise self._refusal(answer, answer.text[:2000] if data is None else data)
        if data is None:
            raise bad_payload(self._label, self._clean(answer.text[:400]))
        return data, answer.headers

    def _no_answer(self, why: NoAnswer, words: str, proxy: str | None) -> SearchError:
        label, said = self._label, self._clean(words)
        match why:
            case "timeout":
                return SearchError("timeout", f"{label} did not answer {words}")
            case "proxy unusable":
                return SearchError("not_configured", f"{label} was not asked. {words}, or set tools.web.proxy")
            case "proxy refused":
                return SearchError("network", f"The proxy for {label} refused: {said}")
            case "address":
                return SearchError("not_configured", f"The address of {label} is unusable: {said}")
            case "too_large":
                return SearchError("bad_payload", f"{label} sent {words}")
            case "network":
                return SearchError("network", f"{label} cannot be reached{through(proxy)}: {short_reason(said)}")

    def _refusal(self, answer: ServiceAnswer, data: object) -> SearchError:
        status, reason = answer.status, self._clean(_reason(data))
        kind = kind_of(status, reason)
        if 300 <= status < 400:
            reason = f"it redirects to {self._clean(answer.headers.get('location', '?'))}; check its baseUrl"
        words = f"{self._label} answered with status {status}" + (f": {reason}" if reason else "")
        return SearchError(kind, words, status=status, retry_after=_retry_after(answer.headers, data))

    def _clean(self, what: str) -> str:
        return without_key(what, self._access.api_key)


class ApiBackend:
    """One engine behind an HTTP API.

    An engine says how a question is put (`request`) and where the parts of the answer are: `hits_at` names the way to
    the list of hits, `fields` their parts, `answer_at` the way to the engine's own answer, `cost_at` the unit and the
    way to what it cost. `max_query` is the most characters of a question (0: no limit known); `cannot` are the filters
    that the engine does not know.
    """

    label: ClassVar[str]
    host: ClassVar[str]
    max_query: ClassVar[int] = 0
    cannot: ClassVar[tuple[Filter, ...]] = ()
    hits_at: ClassVar[tuple[str, ...]] = ("results",)
    fields: ClassVar[Fields] = Fields()
    answer_at: ClassVar[tuple[str, ...]] = ()
    cost_at: ClassVar[tuple[str, ...]] = ()

    def __init__(self, name: str, access: EngineAccess, clients: ClientFactory = trusted_client) -> None:
        self.name = name
        self.access = access
        self.wire = Wire(self.label, access, clients)

    def request(self, query: SearchQuery) -> Ask:
        """The one request for this question. Raises `SearchError` where a setting lacks for it."""
        raise NotImplementedError

    def within(self, ask: Ask, timeout: float) -> Ask:  # noqa: ARG002 - most engines are not told
        """The request with the seconds that it may take, for an engine that wants to know them."""
        return ask

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        """Ask once. Raises `SearchError` only."""
        data, headers = await self.wire.json(self.within(self.request(query), timeout), timeout=timeout)
        return self.reply(data, headers, query)

    def reply(self, data: object, headers: Mapping[str, str], query: SearchQuery) -> SearchReply:  # noqa: ARG002
        """What an answer says. Raises `SearchError` (bad_payload) where it is not understood."""
        if not isinstance(data, dict):
            raise bad_payload(self.label, data)
        hits, dropped = read_hits(self.items(data), self.fields, engine=self.label)
        if not query.include_content:
            hits = tuple(replace(hit, content="") if hit.content else hit for hit in hits)
        unit, *way = self.cost_at or ("",)
        spent = number(at(data, *way)) if unit else None
        cut = 0 < self.max_query < len(query.query)
        notices = (f"the query was cut to {self.max_query} characters",) if cut else ()
        cost = {} if spent is None else {unit: spent}
        own = text(at(data, *self.answer_at)) if self.answer_at else ""
        return SearchReply(self.name, hits[: query.limit], own, notices=notices, dropped=dropped, cost=cost)

    def items(self, data: Mapping[str, object]) -> object:
        """The list of hits in an answer, each as `fields` reads it."""
        return at(data, *self.hits_at)

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        return lacking(query, *self.cannot)

    async def usage(self, *, timeout: float) -> tuple[Quota, ...]:
        """Engines without such an endpoint say nothing."""
        del timeout
        return ()

    async def aclose(self) -> None:
        await self.wire.aclose()

    def url(self, path: str) -> str:
        return join(self.access.base_url or self.host, path)

    def bearer(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self.access.api_key}"} if self.access.api_key else {}


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


def compact(body: Mapping[str, object]) -> dict[str, object]:
    """`body` without the fields that hold nothing."""
    return {key: value for key, value in body.items() if value not in (None, "", [], {}, ())}


def google_time(query: SearchQuery) -> str:
    """The time as Google's `tbs` says it."""
    if query.word:
        return f"qdr:{query.word[0]}"
    span = query.span
    return f"cdr:1,cd_min:{span.start:%m/%d/%Y},cd_max:{span.end:%m/%d/%Y}" if span else ""
