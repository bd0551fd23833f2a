"""Search engines that people use, through their APIs: Brave, Kagi, SearXNG, Serper (Google) and Bocha."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from nanobot.errors import SearchError
from nanobot.web.search.base import Filter, Quota, QuotaWindow, SearchQuery, SearchReply, lacking
from nanobot.web.search.codes import BRAVE_COUNTRIES, brave_language
from nanobot.web.search.http import ApiBackend, compact, google_time, kind_of
from nanobot.web.search.payload import Fields, at, bad_payload, lines_of, number, plain, record
from nanobot.web.service import Ask

_BRAVE_TIMES = {"day": "pd", "week": "pw", "month": "pm", "year": "py"}
_BOCHA_TIMES = {"day": "oneDay", "week": "oneWeek", "month": "oneMonth", "year": "oneYear"}
#: What the limiter of a SearXNG instance wants to see of a client that is no bot.
_SEARXNG_HEADERS = {
    "Accept": "text/html,application/json",
    "Accept-Encoding": "gzip, deflate",
    "Accept-Language": "en,*;q=0.5",
    "Sec-Fetch-Mode": "cors",
}
_SEARXNG_REFUSALS = {
    403: "This SearXNG instance has the JSON format off; add `json` to `search.formats` in its settings.yml "
    "(status 403).",
    429: "This SearXNG instance limits clients (status 429): ask the operator to put your address in `pass_ip` "
    "or to switch the limiter off.",
}


class Brave(ApiBackend):
    """An index of its own; its page text for models where content is asked for. Headers carry the rate limits."""

    label = "Brave"
    host = "https://api.search.brave.com"
    max_query = 400
    fields = Fields(
        snippet=("description",),
        content=("content",),
        published=("page_age",),
        site=("profile.name",),
        icon=("meta_url.favicon",),
    )

    def request(self, query: SearchQuery) -> Ask:
        words = query.with_sites[: self.max_query].split()[:50]
        limit = str(query.limit)
        shape = {"text_decorations": "false", "result_filter": "web,query"}
        time = _BRAVE_TIMES.get(query.word, "to".join(query.days)) if query.span else ""
        params = {
            "q": " ".join(words),
            "count": limit,
            **({"maximum_number_of_urls": limit} if query.include_content else shape),
            "country": query.country.upper() if query.country.upper() in BRAVE_COUNTRIES else "",
            "search_lang": brave_language(query),
            "freshness": time,
        }
        path = "/res/v1/llm/context" if query.include_content else "/res/v1/web/search"
        sent = tuple((name, value) for name, value in params.items() if value)
        return Ask(self.url(path), params=sent, headers={"X-Subscription-Token": self.access.api_key})

    def reply(self, data: object, headers: Mapping[str, str], query: SearchQuery) -> SearchReply:
        return replace(super().reply(data, headers, query), quota=_rate_limits(headers))

    def items(self, data: Mapping[str, object]) -> object:
        if "grounding" in data:
            items = record(data["grounding"]).get("generic", [])
            if not isinstance(data["grounding"], dict) or not isinstance(items, list):
                raise bad_payload(self.label, data)
            return [{**record(item), "content": _joined(record(item).get("snippets"))} for item in items]
        if data.get("web") is None and "query" in data:
            return []  # the key is absent where nothing was found
        return at(data, "web", "results")

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        country: tuple[Filter, ...] = () if query.country.upper() in BRAVE_COUNTRIES else ("country",)
        language: tuple[Filter, ...] = () if brave_language(query) else ("language",)
        return lacking(query, *country, *language)


def _joined(snippets: object) -> str:
    parts = snippets if isinstance(snippets, list) else []
    return "\n\n".join(lines_of(part) for part in parts if plain(part))


def _rate_limits(headers: Mapping[str, str]) -> tuple[Quota, ...]:
    """The allowances in the `X-RateLimit-*` headers: one per window, by position; a limit of 0 is no limit."""
    limits, remaining, resets = (
        [number(part.strip()) for part in headers.get(f"x-ratelimit-{name}", "").split(",")]
        for name in ("limit", "remaining", "reset")
    )
    windows = [_window(part) for part in headers.get("x-ratelimit-policy", "").split(",")]
    now = datetime.now(UTC)
    found = []
    for index, limit in enumerate(limits):
        if not limit:
            continue
        left = remaining[index] if index < len(remaining) else None
        reset = resets[index] if index < len(resets) else None
        found.append(
            Quota(
                used=None if left is None else max(0.0, limit - left),
                limit=limit,
                remaining=left,
                resets_at=None if reset is None else now + timedelta(seconds=min(reset, 10**8)),
                window=windows[index] if index < len(windows) else "month",
                source="header",
            )
        )
    return tuple(found)


def _window(policy: str) -> QuotaWindow:
    _, _, seconds = policy.partition("w=")
    width = int(seconds.strip()) if seconds.strip().isdecimal() else 2_592_000
    bounds: tuple[tuple[int, QuotaWindow], ...] = ((1, "second"), (60, "minute"), (3600, "hour"), (86_400, "day"))
    return next((window for bound, window in bounds if width <= bound), "month")


class Kagi(ApiBackend):
    """v1 first; v0 (`Authorization: Bot`) where `baseUrl` ends with /v0, or once v1 refused an older key.

    It refuses such a key with 401, and the POST itself with 405 where only the older call is served.
    """

    label = "Kagi"
    host = "https://kagi.com/api/v1"
    fields = Fields(published=("published", "time"), content=("markdown", "props.markdown"))
    _older: bool | None = None
    _balance: float | None = None

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        return lacking(query, *(("time", "country", "language") if self._older else ("language",)))

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        if self._older is None and self._base.endswith("/v0"):
            self._older = True
        try:
            reply = await super().search(query, timeout=timeout)
        except SearchError as error:
            if error.status not in (401, 405) or self._older is not None:
                raise
            data, headers = await self.wire.json(self._older_request(query), timeout=timeout)
            reply = self.reply(data, headers, query)
            self._older = True
        self._older = bool(self._older)
        return reply

    def request(self, query: SearchQuery) -> Ask:
        if self._older:
            return self._older_request(query)
        since, until = query.days
        lens = {
            "sites_included": query.include_domains,
            "sites_excluded": query.exclude_domains,
            "time_relative": query.word if query.word != "year" else "",
            "time_after": query.span.start.isoformat() if query.span and query.word == "year" else since,
            "time_before": until,
        }
        body = {
            "query": query.query,
            "limit": query.limit,
            "lens": compact(lens),
            "filters": {"region": query.country.lower()} if query.country else None,
            "extract": {"count": min(query.limit, 10)} if query.include_content else None,
        }
        return Ask(self._under("/api/v1/search"), compact(body), headers=self.bearer())

    def _older_request(self, query: SearchQuery) -> Ask:
        params = (("q", query.with_sites), ("limit", str(query.limit)))
        login = {"Authorization": f"Bot {self.access.api_key}"}
        return Ask(self._under("/api/v0/search"), params=params, headers=login)

    @property
    def _base(self) -> str:
        return (self.access.base_url or self.host).rstrip("/")

    def _under(self, path: str) -> str:
        for version in ("/v0", "/v1"):
            if self._base.endswith(version):
                return self._base.removesuffix(version) + path.removeprefix("/api")
        return self._base + path

    def reply(self, data: object, headers: Mapping[str, str], query: SearchQuery) -> SearchReply:
        balance = number(at(data, "meta", "api_balance"))
        self._balance = self._balance if balance is None else balance
        return replace(super().reply(data, headers, query), quota=self._quota())

    def items(self, data: Mapping[str, object]) -> object:
        found = data.get("data")
        if isinstance(found, list):
            found = [item for item in found if record(item).get("t", 0) == 0]
        elif isinstance(found, dict):
            found = found.get("search", [])
        return found

    async def usage(self, *, timeout: float) -> tuple[Quota, ...]:
        """The balance that the last v0 answer told; v1 tells none."""
        del timeout
        return self._quota()

    def _quota(self) -> tuple[Quota, ...]:
        if self._balance is None:
            return ()
        return (Quota(remaining=self._balance, window="plan", source="body", unit="USD"),)


class Searxng(ApiBackend):
    """A metasearch engine that the operator runs. It has no count parameter: the list is cut here."""

    label = "SearXNG"
    host = ""
    fields = Fields(
        snippet=("content",),
        published=("publishedDate", "pubdate"),
        site=("source",),
        score=("score",),
        icon=("favicon",),
    )

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        """A country is only a part of a language such as de-CH."""
        return lacking(query, "days", *(() if query.language else ("country",)))

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        try:
            return await super().search(query, timeout=timeout)
        except SearchError as error:
            words = _SEARXNG_REFUSALS.get(error.status)
            if words is None:
                raise
            raise SearchError(error.kind, words, status=error.status, retry_after=error.retry_after) from None

    def request(self, query: SearchQuery) -> Ask:
        if not self.access.base_url:
            raise SearchError("not_configured", "SearXNG has no address: set tools.web.search.baseUrl to your instance")
        params = [("q", query.with_sites), ("format", "json")]
        if query.language:
            params.append(("language", f"{query.language}-{query.country}" if query.country else query.language))
        if query.word:
            params.append(("time_range", query.word))
        return Ask(self.url("/search"), params=tuple(params), headers={**_SEARXNG_HEADERS, **self.bearer()})

    def reply(self, data: object, headers: Mapping[str, str], query: SearchQuery) -> SearchReply:
        reply = super().reply(data, headers, query)
        broken = _unresponsive(at(data, "unresponsive_engines"))
        if not reply.hits and broken:
            raise SearchError("unavailable", f"SearXNG found nothing because its engines failed: {', '.join(broken)}")
        answers = at(data, "answers")
        first = answers[0] if isinstance(answers, list) and answers else None
        own = plain(first) or plain(at(first, "answer"))
        extras: dict[str, object] = {"unresponsive": list(broken)} if broken else {}
        return replace(reply, answer=own, extras=extras)


def _unresponsive(pairs: object) -> tuple[str, ...]:
    named = [pair for pair in pairs if isinstance(pair, list) and pair] if isinstance(pairs, list) else []
    return tuple(": ".join(part for part in map(plain, pair) if part) for pair in named)


class Serper(ApiBackend):
    """Google's results. Relative dates ("3 days ago") are left out."""

    label = "Serper"
    host = "https://google.serper.dev"
    fields = Fields(url=("link",), published=("date",), site=("source",))

    def request(self, query: SearchQuery) -> Ask:
        body = {
            "q": query.with_sites,
            "num": query.limit,
            "gl": query.country.lower(),
            "hl": query.language.lower(),
            "tbs": google_time(query),
        }
        return Ask(self.url("/search"), compact(body), headers={"X-API-KEY": self.access.api_key})

    def items(self, data: Mapping[str, object]) -> object:
        known = "organic" in data or "searchParameters" in data
        return data.get("organic", [] if known else None)


class Bocha(ApiBackend):
    """Strong on Chinese pages. Summaries serve as page text; its own code tells what the status does not."""

    label = "Bocha"
    host = "https://api.bochaai.com"
    cannot = ("country", "language")
    hits_at = ("data", "webPages", "value")
    fields = Fields(
        title=("name",),
        snippet=("snippet", "summary"),
        content=("summary",),
        published=("datePublished", "dateLastCrawled"),
        site=("siteName",),
        icon=("siteIcon",),
    )

    def request(self, query: SearchQuery) -> Ask:
        time = _BOCHA_TIMES.get(query.word, "..".join(query.days)) if query.span else "noLimit"
        body = {"query": query.with_sites, "freshness": time, "summary": query.include_content}
        return Ask(self.url("/v1/web-search"), {**body, "count": query.limit}, headers=self.bearer())

    def reply(self, data: object, headers: Mapping[str, str], query: SearchQuery) -> SearchReply:
        code = number(at(data, "code"))
        if code is not None and code != 200:
            reason = plain(at(data, "msg")) or plain(at(data, "message"))
            raise SearchError(kind_of(int(code), reason), f"Bocha answered with code {code:.0f}: {reason}")
        return super().reply(data, headers, query)


#: The engines by their names in the configuration.
INDEXES: Mapping[str, type[ApiBackend]] = {
    "brave": Brave,
    "kagi": Kagi,
    "searxng": Searxng,
    "serper": Serper,
    "bocha": Bocha,
}
