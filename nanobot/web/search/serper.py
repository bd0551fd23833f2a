"""Serper: Google's results with a key."""

from nanobot.web.search import freshness
from nanobot.web.search.api import ApiBackend, compact, with_sites
from nanobot.web.search.base import SearchQuery, SearchReply
from nanobot.web.search.freshness import Span
from nanobot.web.search.http import Ask
from nanobot.web.search.payload import Fields, bad_payload, read_hits

_FIELDS = Fields(url=("link",), published=("date",), site=("source",))


class SerperBackend(ApiBackend):
    """POST with the key in `X-API-KEY`. Relative dates ("3 days ago") are left out."""

    label = "Serper"
    host = "https://google.serper.dev"

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        body = compact(
            {
                "q": with_sites(query),
                "num": self._limit(query),
                "gl": query.country.lower(),
                "hl": query.language.lower(),
                "tbs": _tbs(freshness.parse(query.freshness)),
            }
        )
        ask = Ask(self._url("/search"), body, headers={"X-API-KEY": self._access.api_key})
        answer = await self._wire.json(ask, timeout=timeout)
        if not isinstance(answer.data, dict):
            raise bad_payload(self.label, answer.data)
        known = "organic" in answer.data or "searchParameters" in answer.data
        items = answer.data.get("organic", [] if known else None)
        hits, dropped = read_hits(items, _FIELDS, engine=self.label)
        return SearchReply(self.name, hits[: query.limit], dropped=dropped)


def _tbs(span: Span | None) -> str:
    if span is None:
        return ""
    if span.word:
        return f"qdr:{span.word[0]}"
    return f"cdr:1,cd_min:{span.start:%m/%d/%Y},cd_max:{span.end:%m/%d/%Y}"
