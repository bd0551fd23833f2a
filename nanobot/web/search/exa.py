"""Exa: neural and keyword search with a key."""

from nanobot.web.search import freshness
from nanobot.web.search.api import ApiBackend, compact
from nanobot.web.search.base import SearchQuery, SearchReply
from nanobot.web.search.http import Ask
from nanobot.web.search.payload import Fields, at, bad_payload, number, read_hits, record, text

_FIELDS = Fields(
    snippet=("snippet",), content=("text",), published=("publishedDate",), score=("score",), icon=("favicon",)
)


class ExaBackend(ApiBackend):
    """POST `/search`; highlights serve as snippets, and the cost of each search is told."""

    label = "Exa"
    host = "https://api.exa.ai"

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        headers = {"x-api-key": self._access.api_key} if self._access.api_key else {}
        answer = await self._wire.json(Ask(self._url("/search"), self._body(query), headers=headers), timeout=timeout)
        if not isinstance(answer.data, dict) or not isinstance(answer.data.get("results"), list):
            raise bad_payload(self.label, answer.data)
        items: list[object] = [{**record(item), "snippet": _highlight(item)} for item in answer.data["results"]]
        hits, dropped = read_hits(items, _FIELDS, engine=self.label)
        cost = number(at(answer.data, "costDollars", "total"))
        return SearchReply(
            self.name,
            hits,
            request_id=text(answer.data.get("requestId")),
            dropped=dropped,
            extras={} if cost is None else {"cost": {"USD": cost}},
        )

    def _body(self, query: SearchQuery) -> dict[str, object]:
        span = freshness.parse(query.freshness)
        contents: dict[str, object] = {"highlights": True}
        if query.include_content:
            contents["text"] = True
        return compact(
            {
                "query": query.query,
                "type": "auto",
                "numResults": self._limit(query),
                "includeDomains": list(query.include_domains),
                "excludeDomains": list(query.exclude_domains),
                "startPublishedDate": f"{span.start}T00:00:00.000Z" if span else None,
                "endPublishedDate": f"{span.end}T23:59:59.999Z" if span and not span.word else None,
                "userLocation": query.country.upper(),
                "contents": contents,
            }
        )


def _highlight(item: object) -> str:
    marks = record(item).get("highlights")
    if isinstance(marks, list) and marks:
        return " … ".join(text(mark) for mark in marks)
    return text(record(item).get("summary")) or text(record(item).get("text"))[:300]
