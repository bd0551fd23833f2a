"""The engines with an API of their own, each one description: where it is asked, how, and where its hits stand."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import ClassVar
from urllib.parse import quote

from msgspec.structs import replace

from nanobot.errors import SearchError, SearchErrorKind
from nanobot.jsonval import at, obj
from nanobot.utils.translation import N_, _, listed
from nanobot.web.search.api import ApiBackend, compact, google_time, kind_of
from nanobot.web.search.base import Filter, Quota, QuotaWindow, SearchQuery, SearchReply, lacking
from nanobot.web.search.codes import BRAVE_COUNTRIES, TAVILY_COUNTRIES, brave_language
from nanobot.web.search.mcp import Parallel, ToolBackend
from nanobot.web.search.payload import bad_payload, number, plain
from nanobot.web.service import Ask, call_id_header

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
    403: N_(
        "This SearXNG instance has the JSON format off; add `json` to `search.formats` in its "
        "settings.yml (status 403)."
    ),
    429: N_(
        "This SearXNG instance limits clients (status 429): ask the operator to put your address in "
        "`pass_ip` or to switch the limiter off."
    ),
}
# English: the service says so
_JINA_FOUND_NOTHING = ("no search results", "no results", "not find any")
_TAVILY_PRODUCTS = ("search", "extract", "crawl", "map", "research")
#: The widest window of a rate limit of each name, in seconds.
_WINDOWS: tuple[tuple[int, QuotaWindow], ...] = ((1, "second"), (60, "minute"), (3600, "hour"), (86_400, "day"))


class Brave(ApiBackend):
    """An index of its own; its page text for models where content is asked for. Headers carry the rate limits."""

    label = "Brave"
    host = "https://api.search.brave.com"
    path = "/res/v1/web/search"
    key_header = "X-Subscription-Token"
    max_query = 400

    def request(self, query: SearchQuery) -> Ask:
        country = query.country.upper()
        asked = {
            "q": " ".join(query.with_sites[: self.max_query].split()[:50]),
            "count": str(query.limit),
            "country": country if country in BRAVE_COUNTRIES else "",
            "search_lang": brave_language(query),
            "freshness": _BRAVE_TIMES.get(query.word, "to".join(query.days)) if query.span else "",
        }
        if not query.include_content:
            return self.get({**asked, "text_decorations": "false", "result_filter": "web,query"})
        whole = self.get({**asked, "maximum_number_of_urls": asked["count"]})
        return replace(whole, url=self.url("/res/v1/llm/context"))

    def reply(self, data: object, headers: Mapping[str, str], query: SearchQuery) -> SearchReply:
        return replace(super().reply(data, headers, query), quota=_rate_limits(headers))

    def items(self, data: Mapping[str, object]) -> object:
        if "grounding" in data:
            if not isinstance(data["grounding"], dict):
                raise bad_payload(self.label, data)
            return data["grounding"].get("generic", [])
        if data.get("web") is None and "query" in data:
            return []  # the key is absent where nothing was found
        return at(data, "web", "results")

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        country: tuple[Filter, ...] = () if query.country.upper() in BRAVE_COUNTRIES else ("country",)
        language: tuple[Filter, ...] = () if brave_language(query) else ("language",)
        return lacking(query, *country, *language)


def _rate_limits(headers: Mapping[str, str]) -> tuple[Quota, ...]:
    """The allowances in the `X-RateLimit-*` headers: one per window, by position; a limit of 0 is no limit."""

    def listed(name: str) -> list[str]:
        return [part.strip() for part in headers.get(f"x-ratelimit-{name}", "").split(",")]

    limits = listed("limit")
    columns = [(*listed(name), *[""] * len(limits)) for name in ("remaining", "reset", "policy")]
    now = datetime.now(UTC)
    found = []
    for told, *rest in zip(limits, *columns, strict=False):
        limit, left, reset = (number(part) for part in (told, *rest[:2]))
        if not limit:
            continue
        resets = None if reset is None else now + timedelta(seconds=min(reset, 10**8))
        used = None if left is None else max(0.0, limit - left)
        width = number(rest[2].partition("w=")[2])
        window: QuotaWindow = next((name for bound, name in _WINDOWS if width is not None and width <= bound), "month")
        found.append(Quota(used, limit, left, resets, window, "header"))
    return tuple(found)


class Tavily(ApiBackend):
    """Made for agents; without a key its documented keyless mode, under an honest name."""

    label = "Tavily"
    host = "https://api.tavily.com"
    content_at = ("raw_content",)
    cost_at = ("credits", "usage", "credits")
    # The service puts 403 beside 432 and 433: the plan does not allow it; a wrong key is 401.
    kinds: ClassVar[Mapping[int, SearchErrorKind]] = {403: "quota"}
    usage_path = "/usage"

    def request(self, query: SearchQuery) -> Ask:
        since, until = query.days
        return self.post(
            {
                "query": query.query,
                "max_results": query.limit,
                "search_depth": "basic",
                "include_raw_content": "markdown" if query.include_content else None,
                "include_usage": True if self.access.api_key else None,
                "time_range": query.word,
                "start_date": since,
                "end_date": until,
                "include_domains": query.include_domains,
                "exclude_domains": query.exclude_domains,
                "country": TAVILY_COUNTRIES.get(query.country.upper()),
                "language": query.language.lower().partition("-")[0],
            }
        )

    def login(self) -> Mapping[str, str]:
        return super().login() or {"X-Tavily-Access-Mode": "keyless", "X-Client-Source": "nanobot"}

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        return () if query.country.upper() in TAVILY_COUNTRIES else lacking(query, "country")

    def quotas(self, data: object) -> tuple[Quota, ...]:
        """The plan's credits of this month, then the key's own where it has a limit."""
        account, key = obj(at(data, "account")), obj(at(data, "key"))
        if not account and not key:
            raise bad_payload(self.label, data)
        plan = _credits(account.get("plan_usage"), account.get("plan_limit"), account)
        own = _credits(key.get("usage"), key.get("limit"), key)
        return tuple(quota for quota in (plan, own) if quota.used is not None or quota.limit is not None)


def _credits(used: object, limit: object, told: Mapping[str, object]) -> Quota:
    """`told` names what the credits went for, as `search_usage` and the like."""
    have, most = number(used), number(limit)
    left = None if have is None or most is None else max(0.0, most - have)
    parts = {name: spent for name in _TAVILY_PRODUCTS if (spent := number(told.get(f"{name}_usage"))) is not None}
    return Quota(have, most, left, source="endpoint", unit="credits", breakdown=parts)


class Exa(ToolBackend):
    """Finds by meaning. Highlights serve as snippets; without a key its public MCP server is asked."""

    label = "Exa"
    host = "https://api.exa.ai"
    key_header = "x-api-key"
    cost_at = ("USD", "costDollars", "total")
    cannot = ("language",)
    keyless_url = "https://mcp.exa.ai/mcp?tools=web_search_exa"
    tool = "web_search_exa"

    def request(self, query: SearchQuery) -> Ask:
        span = query.span
        return self.post(
            {
                "query": query.query,
                "type": "auto",
                "numResults": query.limit,
                "includeDomains": query.include_domains,
                # Never both; what is left over is filtered here.
                "excludeDomains": () if query.include_domains else query.exclude_domains,
                "startPublishedDate": f"{span.start}T00:00:00.000Z" if span else None,
                "endPublishedDate": f"{query.days[1]}T23:59:59.999Z" if query.days[1] else None,
                "userLocation": query.country.upper(),
                # Each kind of contents is charged per page, so one of the two.
                "contents": {"text": True} if query.include_content else {"highlights": True},
            }
        )


class Jina(ApiBackend):
    """Needs a key; the page text of every hit comes along unless the header `X-Respond-With` forbids it."""

    label = "Jina"
    host = "https://s.jina.ai"
    cannot = ("time",)
    hits_at = ("data",)
    cost_at = ("tokens", "meta", "usage", "tokens")

    def request(self, query: SearchQuery) -> Ask:
        base = (self.access.base_url or self.host).rstrip("/")
        asked = {"num": str(query.limit), "gl": query.country.lower(), "hl": query.language.lower()}
        asked_for = self.get(asked, {} if query.include_content else {"X-Respond-With": "no-content"})
        sites = tuple(("site", domain) for domain in query.include_domains)
        return replace(asked_for, url=f"{base}/{quote(query.query, safe='')}", params=asked_for.params + sites)

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        """The service answers 422 where nothing was found."""
        try:
            return await super().search(query, timeout=timeout)
        except SearchError as error:
            if error.status == 422 and any(words in str(error).lower() for words in _JINA_FOUND_NOTHING):
                return SearchReply(self.name)
            raise

    def reply(self, data: object, headers: Mapping[str, str], query: SearchQuery) -> SearchReply:
        reply = super().reply(data, headers, query)
        told = number(headers.get("x-usage-tokens", ""))
        return replace(reply, cost={"tokens": told}) if told else reply

    async def usage(self, *, timeout: float) -> tuple[Quota, ...]:
        """The tokens left, as far as the reader tells them."""
        if self.access.base_url:
            return ()
        data, _ = await self.json(Ask("https://r.jina.ai/", headers=self.login()), timeout=timeout)
        left = number(at(data, "balanceLeft")) or number(at(data, "data", "balanceLeft"))
        return () if left is None else (Quota(remaining=left, window="plan", source="endpoint", unit="tokens"),)


class Kagi(ApiBackend):
    """v1; v0 (`Authorization: Bot`) where `baseUrl` ends with /v0, and once v1 refused an older key.

    It refuses such a key with 401, and the POST itself with 405 where only the older call is served.
    """

    label = "Kagi"
    host = "https://kagi.com/api/v1"
    _refused = False
    _balance: float | None = None

    @property
    def _older(self) -> bool:
        return self._refused or self.access.base_url.rstrip("/").endswith("/v0")

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        try:
            return await super().search(query, timeout=timeout)
        except SearchError as error:
            if error.status not in (401, 405) or self._older:
                raise
        self._refused = True
        try:
            return await super().search(query, timeout=timeout)
        except SearchError:
            self._refused = False
            raise

    def request(self, query: SearchQuery) -> Ask:
        if self._older:
            return self.get({"q": query.with_sites, "limit": str(query.limit)})
        since, until = query.days
        lens = {
            "sites_included": query.include_domains,
            "sites_excluded": query.exclude_domains,
            "time_relative": query.word if query.word != "year" else "",
            "time_after": query.span.start.isoformat() if query.span and query.word == "year" else since,
            "time_before": until,
        }
        return self.post(
            {
                "query": query.query,
                "limit": query.limit,
                "lens": compact(lens),
                "filters": {"region": query.country.lower()} if query.country else None,
                "extract": {"count": min(query.limit, 10)} if query.include_content else None,
            }
        )

    def url(self, path: str) -> str:
        base = (self.access.base_url or self.host).rstrip("/")
        root = base[:-3] if base.endswith(("/v0", "/v1")) else f"{base}/api"
        return f"{root}/{'v0' if self._older else 'v1'}{path}"

    def login(self) -> Mapping[str, str]:
        return {"Authorization": f"Bot {self.access.api_key}"} if self._older else super().login()

    def reply(self, data: object, headers: Mapping[str, str], query: SearchQuery) -> SearchReply:
        balance = number(at(data, "meta", "api_balance"))
        self._balance = self._balance if balance is None else balance
        return replace(super().reply(data, headers, query), quota=self._quota())

    def items(self, data: Mapping[str, object]) -> object:
        found = data.get("data")
        if isinstance(found, list):
            return [item for item in found if obj(item).get("t", 0) == 0]
        return found.get("search", []) if isinstance(found, dict) else found

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        return lacking(query, *(("time", "country", "language") if self._older else ("language",)))

    async def usage(self, *, timeout: float) -> tuple[Quota, ...]:
        """The balance that the last v0 answer told; v1 tells none."""
        del timeout
        return self._quota()

    def _quota(self) -> tuple[Quota, ...]:
        known = self._balance is not None
        return (Quota(remaining=self._balance, window="plan", source="body", unit="USD"),) if known else ()


class Searxng(ApiBackend):
    """A metasearch engine that the operator runs. It has no count parameter: the list is cut here."""

    label = "SearXNG"
    host = ""
    content_at = ()
    refusals = _SEARXNG_REFUSALS

    def request(self, query: SearchQuery) -> Ask:
        if not self.access.base_url:
            raise SearchError(
                "not_configured", _("SearXNG has no address: set tools.web.search.baseUrl to your instance")
            )
        language = f"{query.language}-{query.country}" if query.language and query.country else query.language
        asked = {"q": query.with_sites, "format": "json", "language": language, "time_range": query.word}
        return self.get(asked, _SEARXNG_HEADERS)

    def reply(self, data: object, headers: Mapping[str, str], query: SearchQuery) -> SearchReply:
        reply = super().reply(data, headers, query)
        broken = _unresponsive(at(data, "unresponsive_engines"))
        if not reply.hits and broken:
            raise SearchError(
                "unavailable", _("SearXNG found nothing because its engines failed: {engines}", engines=listed(broken))
            )
        return reply

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        """A country is only a part of a language such as de-CH."""
        return lacking(query, "days", *(() if query.language else ("country",)))


def _unresponsive(pairs: object) -> tuple[str, ...]:
    named = [pair for pair in pairs if isinstance(pair, list) and pair] if isinstance(pairs, list) else []
    return tuple(": ".join(part for part in map(plain, pair) if part) for pair in named)


class Perplexity(ApiBackend):
    """Its Search endpoint, which answers with pages, not with prose. Its snippets are page text: long ones count so."""

    label = "Perplexity"
    host = "https://api.perplexity.ai"
    content_at = ("snippet",)

    def request(self, query: SearchQuery) -> Ask:
        since, until = (_american(day) for day in query.days)
        return self.post(
            {
                "query": query.query,
                "max_results": query.limit,
                "max_tokens_per_page": None if query.include_content else 256,
                "search_domain_filter": query.include_domains or [f"-{domain}" for domain in query.exclude_domains],
                "search_language_filter": [query.language.lower().partition("-")[0]] if query.language else None,
                "country": query.country.upper(),
                "search_recency_filter": query.word,
                "search_after_date_filter": since,
                "search_before_date_filter": until,
            }
        )


def _american(iso: str) -> str:
    year, _, rest = iso.partition("-")
    month, _, day = rest.partition("-")
    return f"{int(month)}/{int(day)}/{year}" if iso else ""


class Firecrawl(ApiBackend):
    """Page text comes with `scrapeOptions`; one of the two domain filters per request. Also self-hosted."""

    label = "Firecrawl"
    host = "https://api.firecrawl.dev/v2"
    path = "/v2/search"
    max_query = 500
    cannot = ("language",)
    cost_at = ("credits", "creditsUsed")
    usage_path = "/v2/team/credit-usage"

    def request(self, query: SearchQuery) -> Ask:
        both = bool(query.include_domains and query.exclude_domains)
        return self.post(
            {
                "query": (query.with_sites if both else query.query)[: self.max_query],
                "limit": query.limit,
                "includeDomains": () if both else query.include_domains,
                "excludeDomains": () if both else query.exclude_domains,
                "tbs": google_time(query),
                "country": query.country.upper(),
                "scrapeOptions": {"formats": ["markdown"], "onlyMainContent": True} if query.include_content else None,
            }
        )

    def within(self, ask: Ask, timeout: float) -> Ask:
        return replace(ask, body={**(ask.body or {}), "timeout": max(1000, int(timeout * 1000))})

    def items(self, data: Mapping[str, object]) -> object:
        if data.get("success") is False:
            why = plain(data.get("error")) or _("no reason given")
            raise SearchError("unavailable", _("Firecrawl failed: {why}", why=why))
        items = at(data, "data", "web")
        if items is None and isinstance(data.get("data"), dict):
            return []
        if isinstance(items, list):  # page text of a target that answered with an error is not its content
            return [{**obj(item), "markdown": None} if _failed(item) else item for item in items]
        return items

    def quotas(self, data: object) -> tuple[Quota, ...]:
        """The credits of the team."""
        left, most = number(at(data, "data", "remainingCredits")), number(at(data, "data", "planCredits"))
        if left is None:
            raise bad_payload(self.label, data)
        used = None if most is None else max(0.0, most - left)
        return (Quota(used, most, left, source="endpoint", unit="credits"),)


def _failed(item: object) -> bool:
    status = number(at(item, "metadata", "statusCode"))
    return status is not None and status >= 400


class Serper(ApiBackend):
    """Google's results. Relative dates ("3 days ago") are left out."""

    label = "Serper"
    host = "https://google.serper.dev"
    key_header = "X-API-KEY"

    def request(self, query: SearchQuery) -> Ask:
        return self.post(
            {
                "q": query.with_sites,
                "num": query.limit,
                "gl": query.country.lower(),
                "hl": query.language.lower(),
                "tbs": google_time(query),
            }
        )

    def items(self, data: Mapping[str, object]) -> object:
        known = "organic" in data or "searchParameters" in data
        return data.get("organic", [] if known else None)


class Bocha(ApiBackend):
    """Strong on Chinese pages. Summaries serve as page text; its own code tells what the status does not."""

    label = "Bocha"
    host = "https://api.bochaai.com"
    path = "/v1/web-search"
    cannot = ("country", "language")
    hits_at = ("data", "webPages", "value")
    content_at = ("summary",)

    def request(self, query: SearchQuery) -> Ask:
        time = _BOCHA_TIMES.get(query.word, "..".join(query.days)) if query.span else "noLimit"
        asked = {"query": query.with_sites, "freshness": time, "summary": query.include_content}
        return self.post({**asked, "count": query.limit})

    def reply(self, data: object, headers: Mapping[str, str], query: SearchQuery) -> SearchReply:
        code = number(at(data, "code"))
        if code is not None and code != 200:
            reason = plain(at(data, "msg")) or plain(at(data, "message"))
            raise SearchError(
                kind_of(int(code), reason), _("Bocha answered with code {code:.0f}: {reason}", code=code, reason=reason)
            )
        return super().reply(data, headers, query)


class Kimi(ApiBackend):
    """A service of Kimi's shape: a POST to the base URL itself; the id of the tool call travels in a header."""

    label = "Search service"
    host = ""
    cannot = ("time", "country", "language")
    hits_at = ("search_results",)

    def request(self, query: SearchQuery) -> Ask:
        if not self.access.base_url or not self.access.api_key:
            raise SearchError("not_configured", _("Search service not configured"))
        body = {
            "text_query": query.query,
            "limit": query.limit,
            "enable_page_crawling": query.include_content,
            "timeout_seconds": 30,
        }
        name = call_id_header(self.access.call_id_header, self.access.base_url)
        return self.post(body, {name: query.call_id} if query.call_id else {})

    def url(self, path: str) -> str:  # noqa: ARG002 - there is one address
        return self.access.base_url


#: The engines by their names in the configuration.
ENGINES: Mapping[str, type[ApiBackend]] = {
    "brave": Brave,
    "tavily": Tavily,
    "exa": Exa,
    "kagi": Kagi,
    "jina": Jina,
    "searxng": Searxng,
    "perplexity": Perplexity,
    "firecrawl": Firecrawl,
    "parallel": Parallel,
    "serper": Serper,
    "bocha": Bocha,
    "kimi": Kimi,
}
