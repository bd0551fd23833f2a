"""Firecrawl: search with a key or, for a few searches a day, without; also self-hosted."""

from nanobot.errors import SearchError
from nanobot.web.search import freshness
from nanobot.web.search.api import ApiBackend, compact, with_sites
from nanobot.web.search.base import Quota, SearchQuery, SearchReply
from nanobot.web.search.freshness import Span
from nanobot.web.search.http import Ask
from nanobot.web.search.payload import Fields, at, bad_payload, number, plain, read_hits, record

_FIELDS = Fields(snippet=("description", "snippet"), content=("markdown",), published=("date",), icon=("favicon",))


class FirecrawlBackend(ApiBackend):
    """POST `/v2/search`; page text comes with `scrapeOptions`. One of the two domain filters per request."""

    label = "Firecrawl"
    host = "https://api.firecrawl.dev/v2"
    max_query = 500
    cannot = ("language",)

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        ask = Ask(self._url("/v2/search"), self._body(query, timeout), headers=self._bearer())
        answer = await self._wire.json(ask, timeout=timeout)
        data = answer.data
        if not isinstance(data, dict):
            raise bad_payload(self.label, data)
        if data.get("success") is False:
            raise SearchError("unavailable", f"Firecrawl failed: {plain(data.get('error')) or 'no reason given'}")
        items = at(data, "data", "web")
        if items is None and isinstance(data.get("data"), dict):
            items = []
        if isinstance(items, list):  # page text of a target that answered with an error is not its content
            items = [{**record(item), "markdown": None} if _failed(item) else item for item in items]
        hits, dropped = read_hits(items, _FIELDS, engine=self.label)
        spent = number(data.get("creditsUsed"))
        return SearchReply(
            self.name, hits, dropped=dropped, extras={} if spent is None else {"cost": {"credits": spent}}
        )

    async def usage(self, *, timeout: float) -> tuple[Quota, ...]:
        """The credits of the team."""
        if not self._access.api_key:
            return ()
        answer = await self._wire.json(Ask(self._url("/v2/team/credit-usage"), headers=self._bearer()), timeout=timeout)
        left, most = number(at(answer.data, "data", "remainingCredits")), number(at(answer.data, "data", "planCredits"))
        if left is None:
            raise bad_payload(self.label, answer.data)
        used = None if most is None else max(0.0, most - left)
        return (Quota(used, most, left, window="month", source="endpoint", unit="credits"),)

    def _body(self, query: SearchQuery, timeout: float) -> dict[str, object]:
        both = bool(query.include_domains and query.exclude_domains)
        scrape = {"formats": ["markdown"], "onlyMainContent": True} if query.include_content else None
        return compact(
            {
                "query": (with_sites(query) if both else query.query)[: self.max_query],
                "limit": self._limit(query),
                "includeDomains": [] if both else list(query.include_domains),
                "excludeDomains": [] if both else list(query.exclude_domains),
                "tbs": _tbs(freshness.parse(query.freshness)),
                "country": query.country.upper(),
                "timeout": max(1000, int(timeout * 1000)),
                "scrapeOptions": scrape,
            }
        )


def _tbs(span: Span | None) -> str:
    if span is None:
        return ""
    if span.word:
        return f"qdr:{span.word[0]}"
    return f"cdr:1,cd_min:{span.start:%m/%d/%Y},cd_max:{span.end:%m/%d/%Y}"


def _failed(item: object) -> bool:
    status = number(at(item, "metadata", "statusCode"))
    return status is not None and status >= 400
