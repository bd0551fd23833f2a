"""SearXNG: a metasearch engine that the operator runs."""

from nanobot.errors import SearchError
from nanobot.web.search import freshness
from nanobot.web.search.api import ApiBackend, with_sites
from nanobot.web.search.base import SearchQuery, SearchReply, lacking
from nanobot.web.search.http import Ask
from nanobot.web.search.payload import Fields, at, bad_payload, plain, read_hits, text

_FIELDS = Fields(
    snippet=("content",), published=("publishedDate", "pubdate"), site=("source",), score=("score",), icon=("favicon",)
)
#: What the limiter of an instance wants to see of a client that is no bot.
_HEADERS = {
    "Accept": "text/html,application/json",
    "Accept-Encoding": "gzip, deflate",
    "Accept-Language": "en,*;q=0.5",
    "Sec-Fetch-Mode": "cors",
}


class SearxngBackend(ApiBackend):
    """GET `<base>/search?format=json`. The instance has no count parameter: the list is cut here."""

    label = "SearXNG"
    host = ""
    max_hits = 100

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        """A country is only a part of a language such as de-CH."""
        return lacking(query, "days", *(() if query.language else ("country",)))

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        if not self._access.base_url:
            raise SearchError("not_configured", "SearXNG has no address: set tools.web.search.baseUrl to your instance")
        ask = Ask(self._url("/search"), params=self._params(query), headers={**_HEADERS, **self._bearer()})
        try:
            answer = await self._wire.json(ask, timeout=timeout)
        except SearchError as error:
            raise _explained(error) from None
        if not isinstance(answer.data, dict):
            raise bad_payload(self.label, answer.data)
        broken = _unresponsive(answer.data.get("unresponsive_engines"))
        hits, dropped = read_hits(answer.data.get("results"), _FIELDS, engine=self.label)
        if not hits and broken:
            raise SearchError("unavailable", f"SearXNG found nothing because its engines failed: {', '.join(broken)}")
        return SearchReply(
            self.name,
            hits[: query.limit],
            answer=_answer(answer.data.get("answers")),
            dropped=dropped,
            extras={"unresponsive": list(broken)} if broken else {},
        )

    def _params(self, query: SearchQuery) -> tuple[tuple[str, str], ...]:
        params = [("q", with_sites(query)), ("format", "json")]
        if query.language:
            params.append(("language", f"{query.language}-{query.country}" if query.country else query.language))
        span = freshness.parse(query.freshness)
        if span and span.word:
            params.append(("time_range", span.word))
        return tuple(params)


def _answer(answers: object) -> str:
    """The first answer of its own, a text or an object that holds one."""
    first = answers[0] if isinstance(answers, list) and answers else None
    return plain(first) or plain(at(first, "answer"))


def _unresponsive(pairs: object) -> tuple[str, ...]:
    if not isinstance(pairs, list):
        return ()
    named = [pair for pair in pairs if isinstance(pair, list) and pair]
    return tuple(": ".join(part for part in map(plain, map(text, pair)) if part) for pair in named)


def _explained(error: SearchError) -> SearchError:
    if error.status == 403:
        words = (
            "This SearXNG instance has the JSON format off; add `json` to `search.formats` in its settings.yml "
            "(status 403)."
        )
    elif error.status == 429:
        words = (
            "This SearXNG instance limits clients (status 429): ask the operator to put your address in `pass_ip` "
            "or to switch the limiter off."
        )
    else:
        return error
    return SearchError(error.kind, words, status=error.status, retry_after=error.retry_after)
