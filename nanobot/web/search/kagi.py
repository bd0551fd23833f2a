"""Kagi: the v1 API, and the older v0 API for keys and addresses that belong to it."""

from nanobot.errors import SearchError
from nanobot.web.search import freshness
from nanobot.web.search.api import ApiBackend, compact, with_sites
from nanobot.web.search.base import Quota, SearchHit, SearchQuery, SearchReply, lacking
from nanobot.web.search.http import Answer, Ask
from nanobot.web.search.payload import Fields, at, bad_payload, number, read_hits, record, text

_FIELDS = Fields(published=("published", "time"), content=("markdown", "props.markdown"))


class KagiBackend(ApiBackend):
    """v1 first; v0 (`Authorization: Bot`) where `baseUrl` ends with /v0, or once v1 refused an older key.

    It refuses such a key with 401, and the POST itself with 405 where only the older call is served.
    """

    label = "Kagi"
    host = "https://kagi.com/api/v1"
    _legacy: bool | None = None
    _balance: float | None = None

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        return lacking(query, *(("time", "country", "language") if self._legacy else ("language",)))

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        if self._legacy is None:
            self._legacy = True if self._base.endswith("/v0") else None
        if self._legacy:
            return self._reply(await self._v0(query, timeout))
        try:
            answer = await self._v1(query, timeout)
        except SearchError as error:
            if error.status not in (401, 405) or self._legacy is False:
                raise
            reply = self._reply(await self._v0(query, timeout))
            self._legacy = True
            return reply
        self._legacy = False
        return self._reply(answer)

    async def usage(self, *, timeout: float) -> tuple[Quota, ...]:
        """The balance that the last v0 answer told; v1 tells none."""
        del timeout
        return self._quota()

    @property
    def _base(self) -> str:
        return (self._access.base_url or self.host).rstrip("/")

    async def _v1(self, query: SearchQuery, timeout: float) -> Answer:
        span = freshness.parse(query.freshness)
        lens = compact(
            {
                "sites_included": list(query.include_domains),
                "sites_excluded": list(query.exclude_domains),
                "time_relative": span.word if span and span.word in {"day", "week", "month"} else None,
                "time_after": span.start.isoformat() if span and span.word in {"", "year"} else None,
                "time_before": span.end.isoformat() if span and not span.word else None,
            }
        )
        body = compact(
            {
                "query": query.query,
                "limit": self._limit(query),
                "lens": lens,
                "filters": {"region": query.country.lower()} if query.country else None,
                "extract": {"count": min(self._limit(query), 10)} if query.include_content else None,
            }
        )
        return await self._wire.json(Ask(self._under("/api/v1/search"), body, headers=self._bearer()), timeout=timeout)

    async def _v0(self, query: SearchQuery, timeout: float) -> Answer:
        params = (("q", with_sites(query)), ("limit", str(self._limit(query))))
        login = {"Authorization": f"Bot {self._access.api_key}"}
        url = self._under("/api/v0/search")
        return await self._wire.json(Ask(url, params=params, headers=login), timeout=timeout)

    def _under(self, path: str) -> str:
        base = self._base
        for version in ("/v0", "/v1"):
            if base.endswith(version):
                return base.removesuffix(version) + path.removeprefix("/api")
        return base + path

    def _reply(self, answer: Answer) -> SearchReply:
        balance = number(at(answer.data, "meta", "api_balance"))
        self._balance = self._balance if balance is None else balance
        hits, dropped = self._hits(answer.data)
        return SearchReply(
            self.name, hits, quota=self._quota(), request_id=text(at(answer.data, "meta", "id")), dropped=dropped
        )

    def _hits(self, data: object) -> tuple[tuple[SearchHit, ...], int]:
        found = record(data).get("data")
        if isinstance(found, list):
            found = [item for item in found if record(item).get("t", 0) == 0]
        elif isinstance(found, dict):
            found = found.get("search", [])
        else:
            raise bad_payload(self.label, data)
        return read_hits(found, _FIELDS, engine=self.label)

    def _quota(self) -> tuple[Quota, ...]:
        if self._balance is None:
            return ()
        return (Quota(remaining=self._balance, window="plan", source="body", unit="USD"),)
