"""Search services made for agents, which give page text too: Tavily, Exa, Jina, Perplexity, Firecrawl and Kimi's."""

from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import quote

from msgspec.structs import replace

from nanobot.errors import SearchError
from nanobot.web.search.base import Quota, SearchQuery, SearchReply, lacking
from nanobot.web.search.codes import TAVILY_COUNTRIES
from nanobot.web.search.http import ApiBackend, compact, google_time
from nanobot.web.search.mcp import Parallel, ServerTool
from nanobot.web.search.payload import Fields, at, bad_payload, number, plain, record, text
from nanobot.web.service import Ask, call_id_header

_JINA_FOUND_NOTHING = ("no search results", "no results", "not find any")
_TAVILY_PRODUCTS = ("search", "extract", "crawl", "map", "research")


class Tavily(ApiBackend):
    """Made for agents; without a key its documented keyless mode, under an honest name."""

    label = "Tavily"
    host = "https://api.tavily.com"
    fields = Fields(
        snippet=("content",),
        content=("raw_content",),
        published=("published_date",),
        score=("score",),
        icon=("favicon",),
    )
    cost_at = ("credits", "usage", "credits")
    answer_at = ("answer",)

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        try:
            return await super().search(query, timeout=timeout)
        except SearchError as error:
            if error.status != 403:
                raise
            # The service puts 403 beside 432 and 433: the plan does not allow it; a wrong key is 401.
            raise SearchError("quota", str(error), status=403, retry_after=error.retry_after) from None

    def request(self, query: SearchQuery) -> Ask:
        since, until = query.days
        body = {
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
        return Ask(self.url("/search"), compact(body), headers=self._login())

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        return () if query.country.upper() in TAVILY_COUNTRIES else lacking(query, "country")

    async def usage(self, *, timeout: float) -> tuple[Quota, ...]:
        """The plan's credits of this month, then the key's own where it has a limit."""
        if not self.access.api_key:
            return ()
        data, _ = await self.wire.json(Ask(self.url("/usage"), headers=self._login()), timeout=timeout)
        account, key = record(at(data, "account")), record(at(data, "key"))
        if not account and not key:
            raise bad_payload(self.label, data)
        plan = _credits(account.get("plan_usage"), account.get("plan_limit"), account)
        own = _credits(key.get("usage"), key.get("limit"), key)
        return tuple(quota for quota in (plan, own) if quota.used is not None or quota.limit is not None)

    def _login(self) -> Mapping[str, str]:
        return self.bearer() or {"X-Tavily-Access-Mode": "keyless", "X-Client-Source": "nanobot"}


def _credits(used: object, limit: object, told: Mapping[str, object]) -> Quota:
    """`told` names what the credits went for, as `search_usage` and the like."""
    have, most = number(used), number(limit)
    left = None if have is None or most is None else max(0.0, most - have)
    parts = {name: spent for name in _TAVILY_PRODUCTS if (spent := number(told.get(f"{name}_usage"))) is not None}
    return Quota(have, most, left, window="month", source="endpoint", unit="credits", breakdown=parts)


class Exa(ApiBackend):
    """Finds by meaning. Highlights serve as snippets; without a key its public MCP server is asked."""

    label = "Exa"
    host = "https://api.exa.ai"
    fields = Fields(
        snippet=("snippet",), content=("text",), published=("publishedDate",), score=("score",), icon=("favicon",)
    )
    cost_at = ("USD", "costDollars", "total")
    keyless_url: ClassVar[str] = "https://mcp.exa.ai/mcp?tools=web_search_exa"
    _tool: ServerTool | None = None

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        return lacking(query, *(("language",) if self.access.api_key else ("time", "country", "language")))

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        if self.access.api_key:
            return await super().search(query, timeout=timeout)
        url = self.access.base_url or self.keyless_url
        self._tool = self._tool or ServerTool(self.wire, self.label, url, "web_search_exa")
        hits, dropped = await self._tool.search(query, timeout=timeout)
        return SearchReply(self.name, hits, dropped=dropped)

    def request(self, query: SearchQuery) -> Ask:
        span = query.span
        # Each kind of contents is charged per page, so one of the two.
        contents = {"text": True} if query.include_content else {"highlights": True}
        body = {
            "query": query.query,
            "type": "auto",
            "numResults": query.limit,
            "includeDomains": query.include_domains,
            # Never both; what is left over is filtered here.
            "excludeDomains": () if query.include_domains else query.exclude_domains,
            "startPublishedDate": f"{span.start}T00:00:00.000Z" if span else None,
            "endPublishedDate": f"{query.days[1]}T23:59:59.999Z" if query.days[1] else None,
            "userLocation": query.country.upper(),
            "contents": contents,
        }
        return Ask(self.url("/search"), compact(body), headers={"x-api-key": self.access.api_key})

    def items(self, data: Mapping[str, object]) -> object:
        found = data.get("results")
        if isinstance(found, list):
            found = [{**record(item), "snippet": _highlight(item)} for item in found]
        return found


def _highlight(item: object) -> str:
    marks = record(item).get("highlights")
    if isinstance(marks, list) and marks:
        return " … ".join(text(mark) for mark in marks)
    return text(record(item).get("summary"))


class Jina(ApiBackend):
    """Needs a key; the page text of every hit comes along unless the header `X-Respond-With` forbids it."""

    label = "Jina"
    host = "https://s.jina.ai"
    cannot = ("time",)
    hits_at = ("data",)
    fields = Fields(
        snippet=("description", "snippet"), content=("content",), published=("date", "publishedTime"), icon=("favicon",)
    )
    cost_at = ("tokens", "meta", "usage", "tokens")

    def request(self, query: SearchQuery) -> Ask:
        base = (self.access.base_url or self.host).rstrip("/")
        params = [("num", str(query.limit)), *(("site", domain) for domain in query.include_domains)]
        params += [("gl", query.country.lower()), ("hl", query.language.lower())]
        headers = {**self.bearer(), **({} if query.include_content else {"X-Respond-With": "no-content"})}
        sent = tuple((name, value) for name, value in params if value)
        return Ask(f"{base}/{quote(query.query, safe='')}", params=sent, headers=headers)

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
        data, _ = await self.wire.json(Ask("https://r.jina.ai/", headers=self.bearer()), timeout=timeout)
        left = number(at(data, "balanceLeft")) or number(at(data, "data", "balanceLeft"))
        return () if left is None else (Quota(remaining=left, window="plan", source="endpoint", unit="tokens"),)


class Perplexity(ApiBackend):
    """Its Search endpoint, which answers with pages, not with prose. Its snippets are page text: long ones count so."""

    label = "Perplexity"
    host = "https://api.perplexity.ai"
    fields = Fields(published=("date", "last_updated"), content=("snippet",))

    def request(self, query: SearchQuery) -> Ask:
        since, until = (_american(day) for day in query.days)
        body = {
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
        return Ask(self.url("/search"), compact(body), headers=self.bearer())


def _american(iso: str) -> str:
    year, _, rest = iso.partition("-")
    month, _, day = rest.partition("-")
    return f"{int(month)}/{int(day)}/{year}" if iso else ""


class Firecrawl(ApiBackend):
    """Page text comes with `scrapeOptions`; one of the two domain filters per request. Also self-hosted."""

    label = "Firecrawl"
    host = "https://api.firecrawl.dev/v2"
    max_query = 500
    cannot = ("language",)
    fields = Fields(snippet=("description", "snippet"), content=("markdown",), published=("date",), icon=("favicon",))
    cost_at = ("credits", "creditsUsed")

    def request(self, query: SearchQuery) -> Ask:
        both = bool(query.include_domains and query.exclude_domains)
        body = {
            "query": (query.with_sites if both else query.query)[: self.max_query],
            "limit": query.limit,
            "includeDomains": () if both else query.include_domains,
            "excludeDomains": () if both else query.exclude_domains,
            "tbs": google_time(query),
            "country": query.country.upper(),
            "scrapeOptions": {"formats": ["markdown"], "onlyMainContent": True} if query.include_content else None,
        }
        return Ask(self.url("/v2/search"), compact(body), headers=self.bearer())

    def within(self, ask: Ask, timeout: float) -> Ask:
        return replace(ask, body={**(ask.body or {}), "timeout": max(1000, int(timeout * 1000))})

    def items(self, data: Mapping[str, object]) -> object:
        if data.get("success") is False:
            raise SearchError("unavailable", f"Firecrawl failed: {plain(data.get('error')) or 'no reason given'}")
        items = at(data, "data", "web")
        if items is None and isinstance(data.get("data"), dict):
            items = []
        if isinstance(items, list):  # page text of a target that answered with an error is not its content
            items = [{**record(item), "markdown": None} if _failed(item) else item for item in items]
        return items

    async def usage(self, *, timeout: float) -> tuple[Quota, ...]:
        """The credits of the team."""
        if not self.access.api_key:
            return ()
        data, _ = await self.wire.json(Ask(self.url("/v2/team/credit-usage"), headers=self.bearer()), timeout=timeout)
        left, most = number(at(data, "data", "remainingCredits")), number(at(data, "data", "planCredits"))
        if left is None:
            raise bad_payload(self.label, data)
        used = None if most is None else max(0.0, most - left)
        return (Quota(used, most, left, window="month", source="endpoint", unit="credits"),)


def _failed(item: object) -> bool:
    status = number(at(item, "metadata", "statusCode"))
    return status is not None and status >= 400


class Kimi(ApiBackend):
    """A service of Kimi's shape: a POST to the base URL itself; the id of the tool call travels in a header."""

    label = "Search service"
    host = ""
    cannot = ("time", "country", "language")
    hits_at = ("search_results",)
    fields = Fields(content=("content",), published=("date",), site=("site_name",), icon=("icon",), mime=("mime",))

    def request(self, query: SearchQuery) -> Ask:
        if not self.access.base_url or not self.access.api_key:
            raise SearchError("not_configured", "Search service not configured")
        body = {
            "text_query": query.query,
            "limit": query.limit,
            "enable_page_crawling": query.include_content,
            "timeout_seconds": 30,
        }
        name = call_id_header(self.access.call_id_header, self.access.base_url)
        headers = {**self.bearer(), **({name: query.call_id} if query.call_id else {})}
        return Ask(self.access.base_url, body, headers=headers)


#: The services by their names in the configuration.
FOR_AGENTS: Mapping[str, type[ApiBackend]] = {
    "tavily": Tavily,
    "exa": Exa,
    "parallel": Parallel,
    "jina": Jina,
    "perplexity": Perplexity,
    "firecrawl": Firecrawl,
    "kimi": Kimi,
}
