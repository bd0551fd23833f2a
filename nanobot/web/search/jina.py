"""Jina Search: needs a key; the page text of every hit comes along on request."""

from urllib.parse import quote

from nanobot.errors import SearchError
from nanobot.web.search.api import ApiBackend
from nanobot.web.search.base import Quota, SearchQuery, SearchReply
from nanobot.web.search.http import Ask
from nanobot.web.search.payload import Fields, at, bad_payload, number, read_hits, record

_FIELDS = Fields(
    snippet=("description", "snippet"), content=("content",), published=("date", "publishedTime"), icon=("favicon",)
)
_NOTHING = ("no search results", "no results", "not find any")


class JinaBackend(ApiBackend):
    """GET `s.jina.ai/<query>` with `X-Respond-With: no-content` unless page text is wanted."""

    label = "Jina"
    host = "https://s.jina.ai"
    cannot = ("time",)

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        headers = {**self._bearer(), **({} if query.include_content else {"X-Respond-With": "no-content"})}
        base = (self._access.base_url or self.host).rstrip("/")
        ask = Ask(f"{base}/{quote(query.query, safe='')}", params=self._params(query), headers=headers)
        try:
            answer = await self._wire.json(ask, timeout=timeout)
        except SearchError as error:
            # The service answers 422 where nothing was found.
            if error.status == 422 and any(words in str(error).lower() for words in _NOTHING):
                return SearchReply(self.name)
            raise
        if not isinstance(answer.data, dict):
            raise bad_payload(self.label, answer.data)
        hits, dropped = read_hits(answer.data.get("data"), _FIELDS, engine=self.label)
        tokens = number(answer.headers.get("x-usage-tokens", "")) or number(at(answer.data, "meta", "usage", "tokens"))
        return SearchReply(
            self.name, hits, dropped=dropped, extras={} if tokens is None else {"cost": {"tokens": tokens}}
        )

    async def usage(self, *, timeout: float) -> tuple[Quota, ...]:
        """The tokens left, as far as the reader tells them."""
        if self._access.base_url:
            return ()
        ask = Ask("https://r.jina.ai/", headers=self._bearer())
        answer = await self._wire.json(ask, timeout=timeout)
        data = record(answer.data)
        left = number(data.get("balanceLeft")) or number(at(data, "data", "balanceLeft"))
        return () if left is None else (Quota(remaining=left, window="plan", source="endpoint", unit="tokens"),)

    def _params(self, query: SearchQuery) -> tuple[tuple[str, str], ...]:
        params = [("num", str(self._limit(query)))]
        params += [("site", domain) for domain in query.include_domains]
        if query.country:
            params.append(("gl", query.country.lower()))
        if query.language:
            params.append(("hl", query.language.lower()))
        return tuple(params)
