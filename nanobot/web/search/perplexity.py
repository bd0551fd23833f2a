"""Perplexity: its Search endpoint, which answers with a list of pages, not with prose."""

from nanobot.web.search import freshness
from nanobot.web.search.api import ApiBackend, compact
from nanobot.web.search.base import SearchQuery, SearchReply
from nanobot.web.search.http import Ask
from nanobot.web.search.payload import Fields, bad_payload, read_hits, text


class PerplexityBackend(ApiBackend):
    """POST `/search` with a Bearer key. The snippets are page text: long ones count as content."""

    label = "Perplexity"
    host = "https://api.perplexity.ai"

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        ask = Ask(self._url("/search"), self._body(query), headers=self._bearer())
        answer = await self._wire.json(ask, timeout=timeout)
        if not isinstance(answer.data, dict):
            raise bad_payload(self.label, answer.data)
        fields = Fields(published=("date", "last_updated"), content=("snippet",) if query.include_content else ())
        hits, dropped = read_hits(answer.data.get("results"), fields, engine=self.label)
        return SearchReply(self.name, hits, request_id=text(answer.data.get("id")), dropped=dropped)

    def _body(self, query: SearchQuery) -> dict[str, object]:
        span = freshness.parse(query.freshness)
        ranged = span is not None and not span.word
        domains = [*query.include_domains] or [f"-{domain}" for domain in query.exclude_domains]
        return compact(
            {
                "query": query.query,
                "max_results": self._limit(query),
                "max_tokens_per_page": None if query.include_content else 256,
                "search_domain_filter": domains,
                "search_language_filter": [query.language.lower().partition("-")[0]] if query.language else None,
                "country": query.country.upper(),
                "search_recency_filter": span.word if span else None,
                "search_after_date_filter": _us(span.start.isoformat()) if span and ranged else None,
                "search_before_date_filter": _us(span.end.isoformat()) if span and ranged else None,
            }
        )


def _us(iso: str) -> str:
    year, month, day = iso.split("-")
    return f"{int(month)}/{int(day)}/{year}"
