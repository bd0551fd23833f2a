"""Tavily: search with a key, or a few searches a day without one."""

from collections.abc import Mapping

from nanobot.web.search import freshness
from nanobot.web.search.api import ApiBackend, compact
from nanobot.web.search.base import Quota, SearchQuery, SearchReply
from nanobot.web.search.http import Ask
from nanobot.web.search.payload import Fields, at, bad_payload, number, read_hits, record, text

_FIELDS = Fields(
    snippet=("content",), content=("raw_content",), published=("published_date",), score=("score",), icon=("favicon",)
)


class TavilyBackend(ApiBackend):
    """POST with a Bearer key; without a key the documented keyless mode with an honest name."""

    label = "Tavily"
    host = "https://api.tavily.com"

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        ask = Ask(self._url("/search"), self._body(query), headers=self._login())
        answer = await self._wire.json(ask, timeout=timeout)
        if not isinstance(answer.data, dict):
            raise bad_payload(self.label, answer.data)
        hits, dropped = read_hits(answer.data.get("results"), _FIELDS, engine=self.label)
        spent = number(at(answer.data, "usage", "credits"))
        return SearchReply(
            self.name,
            hits,
            answer=text(answer.data.get("answer")),
            request_id=text(answer.data.get("request_id")),
            dropped=dropped,
            extras={} if spent is None else {"cost": {"credits": spent}},
        )

    async def usage(self, *, timeout: float) -> tuple[Quota, ...]:
        """The plan's credits of this month, then the key's own where it has a limit."""
        if not self._access.api_key:
            return ()
        answer = await self._wire.json(Ask(self._url("/usage"), headers=self._login()), timeout=timeout)
        account, key = record(at(answer.data, "account")), record(at(answer.data, "key"))
        if not account and not key:
            raise bad_payload(self.label, answer.data)
        plan = _quota(account.get("plan_usage"), account.get("plan_limit"))
        own = _quota(key.get("usage"), key.get("limit"))
        return tuple(quota for quota in (plan, own) if quota.used is not None or quota.limit is not None)

    def _login(self) -> Mapping[str, str]:
        return self._bearer() or {"X-Tavily-Access-Mode": "keyless", "X-Client-Source": "nanobot"}

    def _body(self, query: SearchQuery) -> dict[str, object]:
        span = freshness.parse(query.freshness)
        ranged = span is not None and not span.word
        return compact(
            {
                "query": query.query,
                "max_results": self._limit(query),
                "search_depth": "basic",
                "include_raw_content": "markdown" if query.include_content else None,
                "include_usage": True if self._access.api_key else None,
                "time_range": span.word if span else None,
                "start_date": span.start.isoformat() if span and ranged else None,
                "end_date": span.end.isoformat() if span and ranged else None,
                "include_domains": list(query.include_domains),
                "exclude_domains": list(query.exclude_domains),
            }
        )


def _quota(used: object, limit: object) -> Quota:
    have, most = number(used), number(limit)
    left = None if have is None or most is None else max(0.0, most - have)
    return Quota(have, most, left, window="month", source="endpoint", unit="credits")
