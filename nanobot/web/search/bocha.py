"""Bocha: search with summaries, strong on Chinese pages."""

from nanobot.errors import SearchError
from nanobot.web.search import freshness
from nanobot.web.search.api import ApiBackend, with_sites
from nanobot.web.search.base import SearchQuery, SearchReply
from nanobot.web.search.http import Ask, kind_of
from nanobot.web.search.payload import Fields, at, bad_payload, number, plain, read_hits

_WORDS = {"day": "oneDay", "week": "oneWeek", "month": "oneMonth", "year": "oneYear"}


class BochaBackend(ApiBackend):
    """POST `/v1/web-search` with a Bearer key. Summaries serve as page text."""

    label = "Bocha"
    host = "https://api.bochaai.com"
    cannot = ("country", "language")

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        span = freshness.parse(query.freshness)
        recent = "noLimit" if span is None else _WORDS.get(span.word, f"{span.start}..{span.end}")
        body = {
            "query": with_sites(query),
            "freshness": recent,
            "summary": query.include_content,
            "count": self._limit(query),
        }
        ask = Ask(self._url("/v1/web-search"), body, headers=self._bearer())
        answer = await self._wire.json(ask, timeout=timeout)
        code = number(at(answer.data, "code"))
        if code is not None and code != 200:
            reason = plain(at(answer.data, "msg")) or plain(at(answer.data, "message"))
            raise SearchError(kind_of(int(code), reason), f"Bocha answered with code {code:.0f}: {reason}")
        pages = at(answer.data, "data", "webPages")
        if pages is None:
            raise bad_payload(self.label, answer.data)
        fields = Fields(
            title=("name",),
            snippet=("snippet", "summary"),
            content=("summary",) if query.include_content else (),
            published=("datePublished", "dateLastCrawled"),
            site=("siteName",),
            icon=("siteIcon",),
        )
        hits, dropped = read_hits(at(pages, "value"), fields, engine=self.label)
        return SearchReply(self.name, hits, dropped=dropped)
