"""Engines behind an HTTP API: how one is described, one request to it, and each way to fail as one `SearchError`."""

from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import urlsplit

from msgspec.structs import replace

from nanobot.config.proxy import through
from nanobot.errors import SearchError, SearchErrorKind
from nanobot.jsonval import at, text
from nanobot.utils.text import retry_after
from nanobot.utils.translation import N_, _, sentences
from nanobot.web.client import trusted_client
from nanobot.web.search.base import Filter, Quota, SearchBackend, SearchQuery, SearchReply, lacking
from nanobot.web.search.payload import CONTENT, bad_payload, event_data, number, read_hits, short_reason
from nanobot.web.service import Ask, ClientFactory, NoAnswer, ServiceAccess, ServiceAnswer, ServiceClient

MAX_BYTES = 8 * 1024 * 1024
_SPENT = ("credit", "quota", "balance", "usage limit", "plan limit", "key budget")
#: Where engines keep the reason of a refusal.
_REASONS = (
    *("detail.error", "error.message", "error.detail", "error.0.message", "error.0.msg", "error", "detail"),
    *("message", "readableMessage", "msg"),
)
#: The kind of error that each lack of an answer is, and how it is said.
_NO_ANSWER: Mapping[NoAnswer, tuple[SearchErrorKind, str]] = {
    "timeout": ("timeout", N_("{service} did not answer {words}")),
    "proxy unusable": ("not_configured", N_("{service} was not asked. {words}, or set tools.web.proxy")),
    "proxy refused": ("network", N_("The proxy for {service} refused: {words}")),
    "address": ("not_configured", N_("The address of {service} is unusable: {words}")),
    "too_large": ("bad_payload", N_("{service} sent {words}")),
    "network": ("network", N_("{service} cannot be reached{through}: {short}")),
}


class ApiBackend(SearchBackend):
    """One engine behind an HTTP API; its class is its description.

    `host` and `path` are where it is asked and `key_header` where its key goes, `Authorization` as a bearer. `request`
    puts the question. In the answer `hits_at` is the way to the list of hits, `content_at` are the keys of their page
    text, and `cost_at` is the unit and the way to what it cost.
    `max_query` is the most characters of a question (0: no limit known), `cannot` are the filters that the engine does
    not know, `kinds` and `refusals` what a status means and how it is said where that is not the usual, and
    `usage_path` is where it tells its allowance, which `quotas` reads.
    """

    label: ClassVar[str]
    host: ClassVar[str]
    path: ClassVar[str] = "/search"
    key_header: ClassVar[str] = "Authorization"
    max_query: ClassVar[int] = 0
    cannot: ClassVar[tuple[Filter, ...]] = ()
    hits_at: ClassVar[tuple[str, ...]] = ("results",)
    content_at: ClassVar[tuple[str, ...]] = CONTENT
    cost_at: ClassVar[tuple[str, ...]] = ()
    kinds: ClassVar[Mapping[int, SearchErrorKind]] = {}
    refusals: ClassVar[Mapping[int, str]] = {}
    usage_path: ClassVar[str] = ""

    def __init__(self, name: str, access: ServiceAccess, clients: ClientFactory = trusted_client) -> None:
        self.name = name
        self.access = access
        self._client = ServiceClient(lambda: access, self._no_answer, most=MAX_BYTES, clients=clients)

    def request(self, query: SearchQuery) -> Ask:
        """The one request for this question. Raises `SearchError` where a setting lacks for it."""
        raise NotImplementedError

    def items(self, data: Mapping[str, object]) -> object:
        """The list of hits in an answer."""
        return at(data, *self.hits_at)

    def quotas(self, data: object) -> tuple[Quota, ...]:
        """The allowances in what `usage_path` answers. Raises `SearchError` where it is not understood."""
        raise NotImplementedError

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        return lacking(query, *self.cannot)

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        data, headers = await self.json(self.within(self.request(query), timeout), timeout=timeout)
        return self.reply(data, headers, query)

    def within(self, ask: Ask, timeout: float) -> Ask:  # noqa: ARG002 - most engines are not told
        """The request with the seconds that it may take, for an engine that wants to know them."""
        return ask

    def reply(self, data: object, headers: Mapping[str, str], query: SearchQuery) -> SearchReply:  # noqa: ARG002
        """What an answer says. Raises `SearchError` (bad_payload) where it is not understood."""
        if not isinstance(data, dict):
            raise bad_payload(self.label, data)
        hits, dropped = read_hits(self.items(data), self.label, self.content_at)
        if not query.include_content:
            hits = tuple(replace(hit, content="") if hit.content else hit for hit in hits)
        unit, *way = self.cost_at or ("",)
        spent = number(at(data, *way)) if unit else None
        cut = 0 < self.max_query < len(query.query)
        return SearchReply(
            self.name,
            hits[: query.limit],
            # English: a model reads it
            notices=(f"the query was cut to {self.max_query} characters",) if cut else (),
            dropped=dropped,
            cost={} if spent is None else {unit: spent},
        )

    async def usage(self, *, timeout: float) -> tuple[Quota, ...]:
        if not self.usage_path or not self.access.api_key:
            return ()
        data, _ = await self.json(Ask(self.url(self.usage_path), headers=self.login()), timeout=timeout)
        return self.quotas(data)

    async def aclose(self) -> None:
        await self._client.aclose()

    def post(self, body: Mapping[str, object], headers: Mapping[str, str] | None = None) -> Ask:
        """A POST of what `body` holds, with the login."""
        return Ask(self.url(self.path), compact(body), headers={**self.login(), **(headers or {})})

    def get(self, params: Mapping[str, str], headers: Mapping[str, str] | None = None) -> Ask:
        """A GET with those of `params` that hold something, with the login."""
        sent = tuple((name, value) for name, value in params.items() if value)
        return Ask(self.url(self.path), params=sent, headers={**self.login(), **(headers or {})})

    def url(self, path: str) -> str:
        return join(self.access.base_url or self.host, path)

    def login(self) -> Mapping[str, str]:
        key = self.access.api_key
        if self.key_header == "Authorization":
            return {self.key_header: f"Bearer {key}"} if key else {}
        return {self.key_header: key}

    async def json(self, ask: Ask, *, timeout: float) -> tuple[object, Mapping[str, str]]:
        """The JSON of the answer to `ask` and its headers. `timeout` is in seconds. Raises `SearchError` only."""
        if self.access.problem:
            raise not_asked(self.label, self.access.problem)
        asked = replace(ask, headers={"Accept": "application/json", **ask.headers})
        answer = await self._client.send(asked, timeout=timeout)
        events = answer.headers.get("content-type", "").lower().startswith("text/event-stream")
        data = event_data(answer.text) if events else answer.json()
        if answer.status != 200:
            raise self._refusal(answer, answer.text[:2000] if data is None else data)
        if data is None:
            raise bad_payload(self.label, self._client.clean(answer.text[:400]))
        return data, answer.headers

    def _no_answer(self, why: NoAnswer, words: str, proxy: str | None) -> SearchError:
        return no_answer(self.label, why, self._client.clean(words), proxy)

    def _refusal(self, answer: ServiceAnswer, data: object) -> SearchError:
        status, reason = answer.status, self._client.clean(_reason(data))
        kind = self.kinds.get(status) or kind_of(status, reason)
        if 300 <= status < 400:
            target = self._client.clean(answer.headers.get("location", "?"))
            reason = _("it redirects to {target}; check its baseUrl", target=target)
        words = _("{service} answered with status {status}", service=self.label, status=status)
        if status in self.refusals:
            words = _(self.refusals[status])
        elif reason:
            words = _("{failure}: {reason}", failure=words, reason=reason)
        return SearchError(kind, words, status=status, retry_after=_retry_after(answer.headers, data))


def not_asked(service: str, problem: str) -> SearchError:
    """The error for a service that cannot be asked as it is set up."""
    return SearchError("not_configured", sentences(_("{service} was not asked.", service=service), problem))


def no_answer(service: str, why: NoAnswer, words: str, proxy: str | None = None) -> SearchError:
    """The error for a service that gave no answer."""
    kind, template = _NO_ANSWER[why]
    return SearchError(
        kind, _(template, service=service, words=words, through=through(proxy), short=short_reason(words))
    )


def join(base: str, path: str) -> str:
    """`path` under `base`; segments that both name (the end of one, the start of the other) stand once."""
    base = base.rstrip("/")
    have, want = urlsplit(base).path.split("/")[1:], path.split("/")[1:]
    shared = next((size for size in range(len(want), 0, -1) if have[-size:] == want[:size]), 0)
    return "/".join([base, *want[shared:]])


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
    return next((found for way in _REASONS if (found := text(at(data, *way.split("."))))), "")


def _retry_after(headers: Mapping[str, str], data: object) -> float | None:
    """Seconds to wait, from the header or the body."""
    given = headers.get("retry-after", "")
    said = None if given else number(at(data, "error", "retry_after_seconds"))
    return retry_after(given) if said is None else max(0.0, said)


def compact(body: Mapping[str, object]) -> dict[str, object]:
    """`body` without the fields that hold nothing."""
    return {key: value for key, value in body.items() if value not in (None, "", [], {}, ())}


def google_time(query: SearchQuery) -> str:
    """The time as Google's `tbs` says it."""
    if query.word:
        return f"qdr:{query.word[0]}"
    span = query.span
    return f"cdr:1,cd_min:{span.start:%m/%d/%Y},cd_max:{span.end:%m/%d/%Y}" if span else ""
